"""The AWS SDK for Python against Mailwright, with signatures that are verified."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

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
from tests.dropin import PNG, DropIn, a_drop_in

pytestmark = pytest.mark.promise("drop-in-ses")

REGION = "eu-west-1"
PATH = "/v2/email/outbound-emails"


class ShiftedClock(SystemClock):
    """The system's clock, which the SDK uses too, and a difference to it."""

    shift = 0

    def now(self) -> int:
        return super().now() + self.shift


@dataclass(frozen=True)
class Ses:
    drop_in: DropIn
    pair: KeyPair
    clock: ShiftedClock

    async def send(self, pair: KeyPair | None = None, **email: Any) -> Any:
        used = pair or self.pair

        def work() -> Any:
            session = Session()
            session.set_credentials(used.access_key_id, used.key)
            config = Config(region_name=REGION, retries={"total_max_attempts": 1})
            with closing(session.create_client("sesv2", endpoint_url=self.drop_in.url, config=config)) as client:
                return client.send_email(**email)

        return await asyncio.to_thread(work)

    def sign(self, body: bytes, headers: Mapping[str, str] = {}, service: str = "ses") -> dict[str, str]:
        given = {"Content-Type": "application/json", **headers}
        request = AWSRequest("POST", self.drop_in.url + PATH, given, body)
        SigV4Auth(Credentials(self.pair.access_key_id, self.pair.key), service, REGION).add_auth(request)
        return dict(request.headers)

    async def post(self, body: bytes, headers: Mapping[str, str], query: str = "") -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.drop_in.url) as client:
            return await client.post(PATH + query, content=body, headers=headers)


@pytest.fixture
async def ses(database: Database) -> AsyncIterator[Ses]:
    clock = ShiftedClock()
    async with a_drop_in(database, clock) as drop_in:
        yield Ses(drop_in, await drop_in.engine.keys.create_pair(1, "shop", frozenset({Scope.SEND})), clock)


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
        ReplyToAddresses=["help@example.com"],
        EmailTags=[{"Name": "order", "Value": "7"}],
        ConfigurationSetName="shop",
    )
    email["Content"]["Simple"] |= {
        "Headers": [{"Name": "X-Order", "Value": "7"}],
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
    assert (stored.payload["toName"], stored.payload["replyTo"]) == ("Ada", "help@example.com")
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


async def test_raw_content_keeps_its_bytes(ses: Ses) -> None:
    content = (
        b"From: shop@example.com\r\nTo: ada@example.com\r\nSubject: Raw\r\nMessage-ID: <7@example.com>\r\n\r\nHi\r\n"
    )
    destination = {"ToAddresses": ["ada@example.com"], "BccAddresses": ["secret@example.com"]}
    raw = {"Content": {"Raw": {"Data": content}}, "EmailTags": [{"Name": "order", "Value": "7"}]}
    await ses.send(Destination=destination, **raw)
    stored = await ses.drop_in.stored()
    assert [(each.to, each.payload["metadata"]) for each in stored] == [
        ("ada@example.com", {"order": "7"}),
        ("secret@example.com", {"order": "7"}),
    ]
    assert (stored[0].content or b"").endswith(content.partition(b"To: ")[2])


async def test_template_and_list_of_mailwright_are_used(ses: Ses) -> None:
    key = await ses.drop_in.key_with(Scope.MANAGE)
    async with httpx.AsyncClient(base_url=ses.drop_in.url, headers={"Authorization": f"Bearer {key}"}) as client:
        await client.put("/v1/templates/welcome", json={"subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>"})
        await client.post("/v1/lists", json={"listKey": "news", "name": "News"})
    content = {"Template": {"TemplateName": "welcome", "TemplateData": '{"name": "Ada"}'}}
    await ses.send(**an_email(Content=content, ListManagementOptions={"ContactListName": "news"}))
    [stored] = await ses.drop_in.stored()
    assert (stored.list_key, stored.payload["variables"]) == ("news", {"name": "Ada"})


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"FromEmailAddress": None}, "BadRequestException", "FromEmailAddress"),
        ({"Destination": {}}, "BadRequestException", "Destination.ToAddresses"),
        ({"Destination": {"ToAddresses": ["ada"]}}, "BadRequestException", "Destination.ToAddresses[0]"),
        ({"FeedbackForwardingEmailAddress": "a@example.com"}, "BadRequestException", "FeedbackForwardingEmailAddress"),
        ({"Content": {}}, "BadRequestException", "Content"),
        ({"Content": {"Raw": {"Data": b"no headers"}}}, "BadRequestException", "Content.Raw.Data"),
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


async def test_unknown_or_revoked_key_pairs_are_refused(ses: Ses) -> None:
    reader = await ses.drop_in.engine.keys.create_pair(1, scopes=frozenset({Scope.READ}))
    plain = await ses.drop_in.key_with(Scope.SEND)
    revoked = await ses.drop_in.engine.keys.create_pair(1, "old")
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
