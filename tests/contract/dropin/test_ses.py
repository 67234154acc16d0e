"""The AWS SDK for Python against Mailwright, with signatures that are verified."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from botocore.session import Session

from mailwright.access.api_keys import KeyPair
from mailwright.access.roles import Scope
from mailwright.domain.clock import HOUR, MINUTE, SystemClock
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys
from mailwright.web.api.dropin.ses import MAX_BYTES
from tests.api import socket_client
from tests.dropin import PNG, DropIn, a_drop_in
from tests.engines import on_sqlite

pytestmark = pytest.mark.promise("drop-in-sdks")

REGION = "eu-west-1"
SESSION = Session()  # Another one would read the descriptions of all services again.
RAW = b"From: shop@example.com\r\nTo: ada@example.com\r\nSubject: Raw\r\n%b\r\nHi\r\n"
PATH = "/v2/email/outbound-emails"


class ShiftedClock(SystemClock):
    """The system clock, which the SDK uses too, shifted by a difference."""

    shift = 0

    def now(self) -> int:
        return super().now() + self.shift


@dataclass(frozen=True)
class Ses:
    drop_in: DropIn
    pair: KeyPair
    clock: ShiftedClock

    async def send(self, pair: KeyPair | None = None, **email: Any) -> Any:
        return await self.call("send_email", pair or self.pair, email)

    async def send_bulk(self, **emails: Any) -> Any:
        return await self.call("send_bulk_email", self.pair, emails)

    async def call(self, operation: str, pair: KeyPair, given: Mapping[str, Any], service: str = "sesv2") -> Any:
        def work() -> Any:
            with closing(self.client(pair, service=service)) as client:
                return getattr(client, operation)(**given)

        return await asyncio.to_thread(work)

    def client(self, pair: KeyPair, attempts: int = 1, service: str = "sesv2") -> Any:
        return SESSION.create_client(
            service,
            endpoint_url=self.drop_in.url,
            config=Config(region_name=REGION, retries={"total_max_attempts": attempts}),
            aws_access_key_id=pair.access_key_id,
            aws_secret_access_key=pair.key,
        )

    def sign(self, body: bytes, headers: Mapping[str, str] = {}, service: str = "ses") -> dict[str, str]:
        given = {"Content-Type": "application/json", **headers}
        request = AWSRequest("POST", self.drop_in.url + PATH, given, body)
        SigV4Auth(Credentials(self.pair.access_key_id, self.pair.key), service, REGION).add_auth(request)
        return dict(request.headers)

    async def post(self, body: bytes, headers: Mapping[str, str], query: str = "") -> httpx.Response:
        async with socket_client(self.drop_in.url) as client:
            return await client.post(PATH + query, content=body, headers=headers)


@pytest.fixture
async def ses(database: Database) -> AsyncIterator[Ses]:
    clock = ShiftedClock()
    async with a_drop_in(database, clock) as drop_in:
        yield Ses(drop_in, await drop_in.engine.keys.issue(1, "shop", frozenset({Scope.SEND}), signs=True), clock)


def an_email(**changes: Any) -> dict[str, Any]:
    simple = {
        "Subject": {"Data": "Your order", "Charset": "UTF-8"},
        "Body": {"Html": {"Data": "<p>It is on its way.</p>"}, "Text": {"Data": "It is on its way."}},
    }
    email = {
        "FromEmailAddress": "Shop <shop@example.com>",
        "Destination": {"ToAddresses": ["Ada <ada@example.com>"]},
        "Content": {"Simple": simple},
        **changes,
    }
    return {name: value for name, value in email.items() if value is not None}


async def test_email_with_all_fields_is_one_message(ses: Ses) -> None:
    email = an_email(
        ReplyToAddresses=["help@example.com", "Sales <sales@example.com>"],
        EmailTags=[{"Name": "order", "Value": "7"}],
        ConfigurationSetName="shop",
    )
    email["Content"]["Simple"] |= {
        "Subject": {"Data": "Your order" * 20},
        "Headers": [{"Name": "X-Order", "Value": "7"}, {"Name": "Message-ID", "Value": "<7@shop.example>"}],
        "Attachments": [
            {
                "FileName": "logo.png",
                "RawContent": PNG,
                "ContentType": "image/png",
                "ContentDisposition": "INLINE",
                "ContentId": "logo",
            }
        ],
    }
    answer = await ses.send(**email)
    [stored] = await ses.drop_in.stored()
    assert answer["MessageId"] == stored.outbox_id
    assert (stored.subject, stored.payload["messageId"]) == ("Your order" * 20, "<7@shop.example>")
    assert stored.payload["toName"] == "Ada"
    assert stored.payload["replyTo"] == ["help@example.com", "Sales <sales@example.com>"]
    assert stored.payload["metadata"] == {"order": "7", "ses:configuration-set": "shop"}
    assert stored.payload["headers"] == {"X-Order": "7"}
    [image] = stored.payload["attachments"]
    assert (image["contentId"], image["contentType"]) == ("logo", "image/png")


async def test_several_recipients_share_one_email(ses: Ses) -> None:
    destination = {
        "ToAddresses": ["ada@example.com", "bob@example.com"],
        "CcAddresses": ["carol@example.com"],
        "BccAddresses": ["secret@example.com"],
    }
    await ses.send(**an_email(Destination=destination))
    stored = await ses.drop_in.stored()
    assert [each.to for each in stored] == [f"{name}@example.com" for name in ("ada", "bob", "carol", "secret")]
    assert stored[0].email["To"] == "ada@example.com, bob@example.com"


@pytest.mark.parametrize(
    ("destination", "to", "cc"),
    [
        ({"CcAddresses": ["Ada <ada@example.com>"]}, None, "Ada <ada@example.com>"),
        ({"BccAddresses": ["ada@example.com"]}, "undisclosed-recipients:;", None),
        ({"CcAddresses": ["ada@example.com"], "BccAddresses": ["bob@example.com"]}, None, "ada@example.com"),
    ],
)
async def test_email_may_have_only_copies(ses: Ses, destination: Any, to: str | None, cc: str | None) -> None:
    await ses.send(**an_email(Destination=destination))
    stored = await ses.drop_in.stored()
    assert {each.to for each in stored} <= {"ada@example.com", "bob@example.com"}
    assert (stored[0].email["To"], stored[0].email["Cc"]) == (to, cc)


async def test_raw_content_keeps_its_bytes(ses: Ses) -> None:
    content = RAW % b"Message-ID: <7@example.com>\r\n"
    destination = {"ToAddresses": ["ada@example.com"], "BccAddresses": ["secret@example.com"]}
    raw = {"Content": {"Raw": {"Data": content}}, "EmailTags": [{"Name": "order", "Value": "7"}]}
    await ses.send(Destination=destination, **raw)
    stored = await ses.drop_in.stored()
    assert [(each.to, each.payload["metadata"]) for each in stored] == [
        ("ada@example.com", {"order": "7"}),
        ("secret@example.com", {"order": "7"}),
    ]
    assert (stored[0].content or b"").endswith(content.partition(b"To: ")[2])


async def create_template_and_list(ses: Ses) -> None:
    key = await ses.drop_in.key_with(Scope.MANAGE)
    async with socket_client(ses.drop_in.url, headers={"Authorization": f"Bearer {key}"}) as client:
        await client.put("/v1/templates/welcome", json={"subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>"})
        await client.post("/v1/lists", json={"listKey": "news", "name": "News"})


async def test_raw_content_belongs_to_the_named_list(ses: Ses) -> None:
    await create_template_and_list(ses)
    destination = {"ToAddresses": ["ada@example.com", "bob@example.com"]}
    options = {"ContactListName": "news"}
    for header in (b"", b"X-Mailwright-List: news\r\n"):
        content = {"Raw": {"Data": RAW % header}}
        await ses.send(Content=content, Destination=destination, ListManagementOptions=options)
    assert [each.list_key for each in await ses.drop_in.stored()] == ["news"] * 4
    with pytest.raises(ClientError, match=r"ListManagementOptions\.ContactListName differs from the header"):
        await ses.send(Content=content, Destination=destination, ListManagementOptions={"ContactListName": "none"})


async def test_template_and_list_of_mailwright_are_used(ses: Ses) -> None:
    await create_template_and_list(ses)
    content = {"Template": {"TemplateName": "welcome", "TemplateData": '{"name": "Ada"}'}}
    await ses.send(**an_email(Content=content, ListManagementOptions={"ContactListName": "news"}))
    [stored] = await ses.drop_in.stored()
    assert (stored.list_key, stored.payload["variables"]) == ("news", {"name": "Ada"})


async def test_bulk_email_reports_each_entry(ses: Ses) -> None:
    await create_template_and_list(ses)
    entries = [
        {
            "Destination": {"ToAddresses": ["ada@example.com"]},
            "ReplacementTags": [{"Name": "order", "Value": "7"}],
            "ReplacementEmailContent": {"ReplacementTemplate": {"ReplacementTemplateData": '{"name": "Ada"}'}},
            "ReplacementHeaders": [{"Name": "x-order", "Value": "7"}],
        },
        {"Destination": {"ToAddresses": ["ada@example.com", "bob@example.com"]}},
        {"Destination": {"CcAddresses": ["bob@example.com"]}},
        {"Destination": {"ToAddresses": ["bob"]}},
        {"Destination": {"ToAddresses": ["bob@example.com"]}},
    ]
    template = {
        "TemplateName": "welcome",
        "TemplateData": '{"name": "you", "shop": "Shop"}',
        "Headers": [{"Name": "X-Order", "Value": "0"}, {"Name": "X-Shop", "Value": "1"}],
    }
    email = {
        "FromEmailAddress": "Shop <shop@example.com>",
        "DefaultContent": {"Template": template},
        "DefaultEmailTags": [{"Name": "order", "Value": "0"}],
        "ConfigurationSetName": "shop",
        "BulkEmailEntries": entries,
    }
    results = (await ses.send_bulk(**email))["BulkEmailEntryResults"]
    assert [each["Status"] for each in results] == ["SUCCESS", *["INVALID_PARAMETER"] * 3, "SUCCESS"]
    fields = [each["Error"].partition(" ")[0] for each in results[1:4]]
    assert fields == [*["Destination.ToAddresses"] * 2, "Destination.ToAddresses[0]"]
    stored = await ses.drop_in.stored()
    assert [each.outbox_id for each in stored] == [results[0]["MessageId"], results[4]["MessageId"]]
    own, default = (each.payload for each in stored)
    assert own["variables"] == {"name": "Ada", "shop": "Shop"}
    assert (own["headers"], own["metadata"]["order"]) == ({"X-Shop": "1", "x-order": "7"}, "7")
    assert default["variables"] == {"name": "you", "shop": "Shop"}
    assert default["metadata"] == {"order": "0", "ses:configuration-set": "shop"}
    missing = {**email, "DefaultContent": {"Template": {**template, "TemplateName": "none"}}}
    unknown = (await ses.send_bulk(**missing))["BulkEmailEntryResults"]
    assert unknown[0]["Status"] == "TEMPLATE_NOT_FOUND"
    assert unknown[0]["Error"].startswith("DefaultContent.Template.TemplateName ")
    with pytest.raises(ClientError, match=r"DefaultContent\.Template\.TemplateData must be a JSON object"):
        await ses.send_bulk(**{**email, "DefaultContent": {"Template": {**template, "TemplateData": "[]"}}})


async def test_subject_may_be_empty(ses: Ses) -> None:
    simple = {"Subject": {"Data": ""}, "Body": {"Text": {"Data": "Hi"}}}
    await ses.send(**an_email(Content={"Simple": simple}))
    assert [each.subject for each in await ses.drop_in.stored()] == [""]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"FromEmailAddress": None}, "BadRequestException", "FromEmailAddress"),
        ({"Destination": {}}, "BadRequestException", "Destination.ToAddresses"),
        ({"Destination": {"ToAddresses": ["ada"]}}, "BadRequestException", "Destination.ToAddresses[0]"),
        ({"FeedbackForwardingEmailAddress": "a@example.com"}, "BadRequestException", "FeedbackForwardingEmailAddress"),
        ({"Content": {}}, "BadRequestException", "Content"),
        ({"Content": {"Raw": {"Data": b"no headers"}}}, "BadRequestException", "Content.Raw.Data"),
        (
            {"Content": {"Raw": {"Data": RAW % b""}, "Template": {"TemplateName": "none"}}},
            "BadRequestException",
            "Content",
        ),
        (
            {"Content": {"Raw": {"Data": RAW % b""}}, "ReplyToAddresses": ["help@example.com"]},
            "BadRequestException",
            "ReplyToAddresses",
        ),
        (
            {"Content": {"Raw": {"Data": RAW % b""}}, "ListManagementOptions": {"ContactListName": "none"}},
            "BadRequestException",
            "ListManagementOptions.ContactListName",
        ),
        ({"Content": {"Template": {"TemplateName": "none"}}}, "NotFoundException", "Content.Template.TemplateName"),
        (
            {"Content": {"Template": {"TemplateName": "none", "TemplateData": "["}}},
            "BadRequestException",
            "Content.Template.TemplateData",
        ),
        (
            {"ListManagementOptions": {"ContactListName": "none"}},
            "BadRequestException",
            "ListManagementOptions.ContactListName",
        ),
    ],
)
async def test_refused_fields_are_named_and_nothing_is_stored(
    ses: Ses, change: dict[str, Any], code: str, field: str
) -> None:
    with pytest.raises(ClientError) as refused:
        await ses.send(**an_email(**change))
    error = refused.value.response["Error"]
    assert (error["Code"], error["Message"].partition(" ")[0]) == (code, field)
    assert await ses.drop_in.is_empty()


@pytest.mark.both_engines
async def test_unknown_or_revoked_key_pairs_are_refused(ses: Ses) -> None:
    reader = await ses.drop_in.engine.keys.issue(1, scopes=frozenset({Scope.READ}), signs=True)
    plain = await ses.drop_in.key_with(Scope.SEND)
    revoked = await ses.drop_in.engine.keys.issue(1, "old", signs=True)
    [found] = [key for key in await ses.drop_in.engine.keys.list_all(1) if key.name == "old"]
    await ses.drop_in.engine.keys.revoke(1, found.id)
    for pair, code in (
        (KeyPair("MWAK0000000000000000", ses.pair.key), "UnrecognizedClientException"),
        (revoked, "UnrecognizedClientException"),
        (KeyPair(ses.pair.access_key_id, plain), "InvalidSignatureException"),
        (reader, "AccessDeniedException"),
    ):
        with pytest.raises(ClientError) as refused:
            await ses.send(pair, **an_email())
        assert refused.value.response["Error"]["Code"] == code
    assert await ses.drop_in.is_empty()


async def test_repeated_request_sends_no_second_email(ses: Ses) -> None:
    body = json.dumps(an_email()).encode()
    headers = ses.sign(body)
    answers = [await ses.post(body, headers), await ses.post(body, {**headers, "Idempotency-Key": "other"})]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert len(await ses.drop_in.stored()) == 1
    ses.clock.shift = 6 * MINUTE
    assert (await ses.post(body, headers)).headers["x-amzn-ErrorType"] == "InvalidSignatureException"


def a_raw_email(headers: bytes) -> dict[str, Any]:
    return {"Content": {"Raw": {"Data": base64.b64encode(RAW % headers).decode()}}}


@pytest.mark.parametrize(
    ("email", "headers"),
    [
        (an_email(), {"amz-sdk-invocation-id": "0f1c"}),
        (an_email(), {"Idempotency-Key": "order-7"}),
        (a_raw_email(b""), {"amz-sdk-invocation-id": "0f1c"}),
        (a_raw_email(b"Message-ID: <7@example.com>\r\n"), {}),
        (a_raw_email(b"X-Mailwright-Idempotency-Key: order-7\r\n"), {"amz-sdk-invocation-id": "0f1c"}),
    ],
)
async def test_automatic_retry_with_new_signature_sends_one_email(
    ses: Ses, email: dict[str, Any], headers: dict[str, str]
) -> None:
    body = json.dumps(email).encode()
    signed = [ses.sign(body, {**headers, "amz-sdk-request": f"attempt={number}; max=3"}) for number in (1, 2)]
    assert signed[0]["Authorization"] != signed[1]["Authorization"]
    answers = [await ses.post(body, each) for each in signed]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert len(await ses.drop_in.stored()) == 1


async def test_retry_of_the_python_sdk_sends_one_email(ses: Ses, monkeypatch: pytest.MonkeyPatch) -> None:
    now, seconds = datetime.now(UTC), count()
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now + timedelta(seconds=next(seconds)))

    def retry_once(attempts: int, **_: Any) -> int | None:
        return 0 if attempts == 1 else None

    def work() -> None:
        with closing(ses.client(ses.pair, attempts=2)) as client:
            client.meta.events.register("needs-retry.sesv2.SendEmail", retry_once)
            for _ in range(2):
                assert client.send_email(**an_email())["ResponseMetadata"]["RetryAttempts"] == 1

    await asyncio.to_thread(work)
    assert len(await ses.drop_in.stored()) == 2


async def test_each_call_of_the_sdk_sends_its_email(ses: Ses) -> None:
    body = json.dumps(an_email()).encode()
    for call in ("0f1c", "0f1d"):
        await ses.post(body, ses.sign(body, {"amz-sdk-invocation-id": call}))
    assert len(await ses.drop_in.stored()) == 2


async def test_unsigned_invocation_id_repeats_no_email(ses: Ses) -> None:
    body = json.dumps(an_email()).encode()
    for attempt in ("attempt=1", "attempt=2"):
        headers = ses.sign(body, {"amz-sdk-request": attempt})
        assert (await ses.post(body, {**headers, "amz-sdk-invocation-id": "0f1c"})).status_code == 200
    assert len(await ses.drop_in.stored()) == 1


async def test_invocation_id_of_another_email_is_a_conflict(ses: Ses) -> None:
    for subject in ("One", "Two"):
        content = {"Simple": {"Subject": {"Data": subject}, "Body": {"Text": {"Data": "Hi"}}}}
        body = json.dumps(an_email(Content=content)).encode()
        answer = await ses.post(body, {**ses.sign(body), "amz-sdk-invocation-id": "0f1c"})
    assert answer.headers["x-amzn-ErrorType"] == "ConflictException"
    assert len(await ses.drop_in.stored()) == 1


@pytest.mark.parametrize(
    ("access_key_id", "name"),
    [(None, "InvalidSignatureException"), ("MWAK0000000000000000", "UnrecognizedClientException")],
)
async def test_body_of_unknown_sender_is_not_read(ses: Ses, access_key_id: str | None, name: str) -> None:
    signed = ses.sign(b"")
    authorization = signed["Authorization"].replace(ses.pair.access_key_id, access_key_id) if access_key_id else ""
    headers = {**signed, "Authorization": authorization, "Host": "x", "Content-Length": str(MAX_BYTES + 1)}
    url = urlsplit(ses.drop_in.url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"POST {PATH} HTTP/1.1\r\n{head}\r\n".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    writer.close()
    assert f"x-amzn-errortype: {name.lower()}" in answer


Change = Callable[[dict[str, str]], None]


def _set(name: str, value: str) -> Change:
    return lambda headers: headers.update({name: value})


def _in_authorization(old: str, new: str) -> Change:
    def change(headers: dict[str, str]) -> None:
        assert old in headers["Authorization"]
        headers["Authorization"] = headers["Authorization"].replace(old, new)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("Authorization", ""),
        _set("Authorization", "Bearer x"),
        _set("Host", "other.example"),
        _set("X-Amz-Date", "20200101T000000Z"),
        _set("X-Amz-Target", "unsigned"),
        _set("Content-Type", "text/plain"),
        _in_authorization(REGION, "us-east-1"),
        _in_authorization("/ses/", "/s3/"),
        _in_authorization("host;", ""),
        _in_authorization("Signature=", "Signature=0"),
        _in_authorization("SignedHeaders=", "SignedHeaders=a;"),
        _in_authorization("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
    ],
)
async def test_changed_request_is_refused(ses: Ses, change: Change) -> None:
    body = json.dumps(an_email()).encode()
    headers = ses.sign(body)
    change(headers)
    answer = await ses.post(body, headers)
    assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (403, "InvalidSignatureException")
    assert set(answer.json()) == {"message"}
    assert await ses.drop_in.is_empty()


async def test_signature_covers_body_query_and_service(ses: Ses) -> None:
    body = json.dumps(an_email()).encode()
    headers = ses.sign(body)
    unsigned = ses.sign(body, {"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    for sent, given, query in (
        (body + b" ", headers, ""),
        (body, headers, "?a=1"),
        (body, ses.sign(body, service="s3"), ""),
        (body + b" ", unsigned, ""),
    ):
        assert (await ses.post(sent, given, query)).status_code == 403
    for shift in (-HOUR, HOUR):
        ses.clock.shift = shift
        assert "Signature expired" in (await ses.post(body, headers)).json()["message"]
    assert await ses.drop_in.is_empty()


async def test_secret_key_is_stored_encrypted(ses: Ses) -> None:
    async with ses.drop_in.engine.database.read() as tx:
        rows = await tx.execute(api_keys.select())
    assert ses.pair.key not in repr([tuple(row) for row in rows])
    assert ses.pair.key not in repr(ses.pair)


async def test_sender_without_a_verified_domain_is_rejected(ses: Ses) -> None:
    await ses.drop_in.engine.sender_domains.add(1, "acme.example", actor="console")
    with pytest.raises(ClientError, match="acme") as refused:
        await ses.send(**an_email(FromEmailAddress="shop@acme.example"))
    assert refused.value.response["Error"]["Code"] == "MessageRejected"
    assert await ses.drop_in.is_empty()


async def test_encoded_words_in_names_are_decoded(ses: Ses) -> None:
    name = "=?UTF-8?B?0JDQtNCw?="  # SES takes ASCII only.
    to = {"ToAddresses": [f'"{name}" <ada@example.com>']}
    await ses.send(**an_email(FromEmailAddress=f"{name} <shop@example.com>", Destination=to))
    [stored] = await ses.drop_in.stored()
    assert (stored.payload["from"], stored.payload["toName"]) == ("Ада <shop@example.com>", "Ада")


async def test_version_1_gets_its_xml_error(ses: Ses) -> None:
    email = {
        "Source": "shop@example.com",
        "Destination": {"ToAddresses": ["ada@example.com"]},
        "Message": {"Subject": {"Data": "Hi"}, "Body": {"Text": {"Data": "Hi"}}},
    }
    with pytest.raises(ClientError, match="Use the v2 API") as refused:
        await ses.call("send_email", ses.pair, email, service="ses")
    assert refused.value.response["Error"]["Code"] == "InvalidAction"
    assert await ses.drop_in.is_empty()


async def test_unknown_operation_has_the_error_format_of_ses(ses: Ses) -> None:
    with pytest.raises(ClientError, match="does not support this route of Amazon SES") as refused:
        await ses.call("get_account", ses.pair, {})
    assert refused.value.response["Error"]["Code"] == "UnknownOperationException"
