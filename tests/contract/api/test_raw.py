"""An email that an application wrote leaves with its own bytes, once for each recipient of its envelope."""

from collections.abc import AsyncIterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import dkim
import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from sqlalchemy import func, select

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.audience import erasure
from mailwright.content.headers import Mailbox
from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.clock import DAY, ManualClock, isoformat
from mailwright.domain.message import Source
from mailwright.outbox import message_records
from mailwright.pipeline.rerender import render_message
from mailwright.sources.api.emails import AddressedEmail
from mailwright.sources.api.messages import RequestContext
from mailwright.storage.database import Database
from mailwright.storage.tables import raw_contents
from mailwright.web.app import create_app
from tests.api import Api, an_api, client_of
from tests.builders import Bench, a_bench, a_tenant, suppress
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite
from tests.standins.provider import ScriptedProvider

RAW = "/v1/email/raw"
MIME = {"Content-Type": "message/rfc822"}
HEAD = (
    b"From: Shop <shop@example.com>\r\n"
    b"To: Ada <ada@example.com>, bob@example.com\r\n"
    b"Cc: eve@example.com\r\n"
    b"Subject: =?utf-8?b?UmVjaG51bmcgZsO8cg==?=\r\n Ada\r\n"
    b"Date: Mon, 16 Nov 2026 10:00:00 +0000\r\n"
    b"Message-ID: <order-7@shop.example.com>\r\n"
)
BODY = b"\r\n.dots\r\n..more \t\r\n8-bit: \xc3\xa9 \xff\r\n\r\n\r\n"
EMAIL = HEAD + BODY


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def post(api: Api, content: bytes = EMAIL, query: Any = None, **headers: str) -> httpx.Response:
    return await api.client.post(RAW, params=query, content=content, headers={**MIME, **headers})


async def sent_by(bench: Bench, *contents: bytes, query: Any = None) -> ScriptedProvider:
    """Submit emails over HTTP and let a worker send them."""
    key = await bench.engine.keys.create(1)
    async with client_of(create_app(bench.engine), key) as client:
        for content in contents:
            answer = await client.post(RAW, params=query, content=content, headers=MIME)
            assert answer.status_code == 202, answer.text
    provider = ScriptedProvider()
    await bench.drain(provider)
    return provider


def contents(provider: ScriptedProvider) -> set[bytes]:
    """Return the different bytes that left, after the header that names each message."""
    ours = {
        message.outbox_id: f"X-Mailwright-Message: {message.outbox_id}\r\n".encode() for message in provider.messages
    }
    assert all(message.content.startswith(ours[message.outbox_id]) for message in provider.messages)
    return {message.content.removeprefix(ours[message.outbox_id]) for message in provider.messages}


@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize("header", [b"From", b"To", b"Subject", b"Reply-To"])
async def test_damaged_encoded_word_leaves_unchanged(bench: Bench, header: bytes) -> None:
    damaged = {b"From": b"shop@example.com", b"To": b"ada@example.com", b"Reply-To": b"x@example.com", b"Subject": b"y"}
    damaged[header] = b"=?UTF-8?B?SGVsb?= <" + damaged[header] + b">"
    lines = [name + b": " + value for name, value in damaged.items()]
    email = b"\r\n".join(
        [*lines, b"Date: Mon, 16 Nov 2026 10:00:00 +0000", b"Message-ID: <d@e.example>", b"", b"x", b""]
    )
    assert contents(await sent_by(bench, email)) == {email}


async def count_contents(database: Database) -> int:
    async with database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(raw_contents)))[0][0])


@pytest.mark.promise("raw-unchanged")
async def test_bytes_leave_unchanged_to_each_recipient(bench: Bench) -> None:
    provider = await sent_by(bench, EMAIL)
    assert contents(provider) == {EMAIL}
    assert sorted(message.recipients for message in provider.messages) == [
        ("ada@example.com",),
        ("bob@example.com",),
        ("eve@example.com",),
    ]
    assert await count_contents(bench.database) == 1


@pytest.mark.promise("raw-unchanged")
async def test_signature_is_the_only_change(engine: DatabaseAddress, tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)  # A signature from the future is not valid.
    private = generate_private_key(65537, 2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "dkim.pem").write_bytes(pem)
    signing = {"dkim_key_file": tmp_path / "dkim.pem", "dkim_selector": "s1", "dkim_domain": "example.com"}
    async with a_bench(engine.url, clock, **signing) as bench:
        provider = await sent_by(bench, EMAIL, query={"to": "ada@example.com"})
    [message] = provider.messages
    assert message.content.endswith(f"\r\nX-Mailwright-Message: {message.outbox_id}\r\n".encode() + EMAIL)
    assert message.content.startswith(b"DKIM-Signature: ")
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    record = b"v=DKIM1; k=rsa; p=" + b"".join(public.splitlines()[1:-1])
    assert dkim.verify(message.content, dnsfunc=lambda *_args, **_options: record)


async def test_options_of_other_services_are_read_and_removed(bench: Bench) -> None:
    options = (
        b"X-Mailwright-Tags: own\r\nX-PM-Tag: shop\r\nX-Mailgun-Tag: orders\r\nX-MC-Tags: a, b\r\n"
        b"X-PM-Metadata-order: 7\r\nX-SES-MESSAGE-TAGS: region=eu, kind=receipt\r\nX-SES-CONFIGURATION-SET: shop\r\n"
        b'X-SMTPAPI: {"category": "c",\r\n "unique_args": {"id": 1}}\r\nX-Mailgun-Variables: {"v": ["w"]}\r\n'
        b"X-PM-Message-Stream: outbound\r\nX-PM-KeepID: true\r\nX-PM-TrackOpens: false\r\nX-PM-TrackLinks: None\r\n"
    )
    provider = await sent_by(bench, options + EMAIL, query={"to": "ada@example.com"})
    assert contents(provider) == {EMAIL}
    payload = (await bench.record(provider.outbox_ids[0])).payload
    assert payload["tags"] == ["own", "shop", "orders", "a", "b", "c"]
    named = {"ses:configuration-set": "shop", "region": "eu", "kind": "receipt"}
    assert payload["metadata"] == {"order": "7", "id": 1, "v": ["w"], **named}


@pytest.mark.promise("raw-unchanged")
async def test_envelope_decides_and_bcc_is_removed(bench: Bench) -> None:
    hidden = b"Bcc: secret@example.com,\r\n spy@example.com\r\n" + EMAIL
    by_headers = await sent_by(bench, hidden)
    assert len(by_headers.messages) == 5
    assert contents(by_headers) == {EMAIL}
    query = [("from", "bounces@example.com"), ("to", "x@example.com"), ("to", "X@EXAMPLE.com"), ("to", "y@example.com")]
    by_query = await sent_by(bench, hidden, query=query)
    assert [message.recipients for message in by_query.messages] == [("X@example.com",), ("y@example.com",)]
    assert {message.sender for message in by_query.messages} == {"bounces@example.com"}


RESENT = (
    b"Resent-From: Help <help@example.com>\r\nResent-To: new@example.com\r\nResent-Cc: copy@example.com\r\n"
    b"Resent-Date: Mon, 16 Nov 2026 11:00:00 +0000\r\n"
)


@pytest.mark.promise("raw-unchanged")
async def test_resent_email_goes_to_its_last_resending(bench: Bench) -> None:
    older = b"Received: by relay\r\nResent-From: old@example.com\r\nResent-To: old@example.com\r\n"
    hidden = b"Resent-Bcc: secret@example.com\r\n"
    provider = await sent_by(bench, b"Return-Path: <evil@example.org>\r\n" + hidden + RESENT + older + EMAIL)
    assert [message.recipients[0] for message in provider.messages] == [
        *("new@example.com", "copy@example.com", "secret@example.com")
    ]
    assert {message.sender for message in provider.messages} == {"help@example.com"}
    assert contents(provider) == {RESENT + older + EMAIL}


@pytest.mark.promise("raw-unchanged")
async def test_envelope_decides_for_resent_email(bench: Bench) -> None:
    hidden = b"Resent-Bcc: secret@example.com\r\n"
    provider = await sent_by(bench, hidden + RESENT + EMAIL, query={"to": "x@example.com"})
    assert [(message.sender, message.recipients) for message in provider.messages] == [
        ("shop@example.com", ("x@example.com",))
    ]
    assert contents(provider) == {RESENT + EMAIL}


async def test_bounce_address_names_each_message(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with a_bench(engine.url, clock, bounce_address="bounce@example.com") as bench:
        provider = await sent_by(bench, EMAIL)
    assert [m.sender for m in provider.messages] == [f"bounce+{m.outbox_id}@example.com" for m in provider.messages]


async def test_missing_date_and_message_id_are_prepended(bench: Bench) -> None:
    bare = b"From: shop@example.com\nTo: ada@example.com\n\nHello\n"
    [message] = (await sent_by(bench, bare)).messages
    added, _, rest = message.content.partition(b"From: ")
    assert b"From: " + rest == bare.replace(b"\n", b"\r\n")
    headers = message_from_bytes(added)
    assert headers.keys() == ["X-Mailwright-Message", "Message-ID", "Date"]
    assert (headers["X-Mailwright-Message"], headers["Message-ID"][-13:]) == (message.outbox_id, "@example.com>")
    assert message.outbox_id not in headers["Message-ID"]


@pytest.mark.promise("accept-idempotent")
async def test_message_id_is_accepted_once_for_each_recipient(api: Api) -> None:
    first = await post(api)
    trace = b"Received: from app by relay; Mon, 16 Nov 2026 10:00:01 +0000\r\n"
    again = await post(api, trace + EMAIL)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.headers["Idempotent-Replay"] == "true"
    assert again.json()["messages"] == first.json()["messages"]
    wider = await post(api, query={"to": ["ada@example.com", "new@example.com"]})
    assert wider.status_code == 202
    assert wider.json()["messages"][0] == first.json()["messages"][0]


@pytest.mark.promise("accept-idempotent")
async def test_different_email_with_the_key_stores_nothing(api: Api) -> None:
    await post(api, query={"to": "ada@example.com"})
    before = await api.stored()
    answer = await post(api, EMAIL + b"P.S.\r\n", query={"to": ["new@example.com", "ada@example.com"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert await api.stored() == before
    named = {"Idempotency-Key": "other"}
    assert (await post(api, EMAIL + b"P.S.\r\n", query={"to": "ada@example.com"}, **named)).status_code == 202


async def test_subject_is_shown_decoded(api: Api) -> None:
    outbox_id = (await post(api)).json()["messages"][0]["outboxId"]
    shown = (await api.client.get(f"/v1/email/{outbox_id}")).json()
    assert (shown["to"], shown["subject"]) == ("ada@example.com", "Rechnung für Ada")
    tampered = HEAD.replace(b"UmVjaG51bmcgZsO8cg==", b"AAoNe3sgeCB9fQ==").replace(b"order-7", b"order-8") + BODY
    other = (await post(api, tampered)).json()["messages"][0]["outboxId"]
    assert (await api.client.get(f"/v1/email/{other}")).json()["subject"] == "{{ x }} Ada"


async def test_options_are_read_and_removed(api: Api, clock: ManualClock) -> None:
    later = isoformat(clock.now() + DAY)
    options = f"X-Mailwright-Tags: receipt, shop\r\nx-mailwright-send-at: {later}\r\nX-Mailwright-Tracking: off\r\n"
    outbox_id = (await post(api, options.encode() + EMAIL)).json()["messages"][0]["outboxId"]
    shown = (await api.client.get(f"/v1/email/{outbox_id}")).json()
    assert (shown["tags"], shown["scheduledAt"]) == (["receipt", "shop"], later)
    engine = api.engine
    source = await render_message(
        engine.database, engine.templates, engine.identity, outbox_id, tenant_id=1, at=clock.now()
    )
    assert source == f"X-Mailwright-Message: {outbox_id}\r\n".encode() + EMAIL


async def test_bulk_email_gets_list_headers(bench: Bench) -> None:
    bulk = b"X-Mailwright-List: news\r\n" + EMAIL
    key = await bench.engine.keys.create(1)
    async with client_of(create_app(bench.engine), key) as client:
        await client.post("/v1/lists", json={"listKey": "news", "name": "News"})
        assert (await client.post(RAW, content=bulk, headers=MIME)).status_code == 202
        unknown = await client.post(RAW, content=bulk.replace(b"news", b"nobody"), headers=MIME)
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "X-Mailwright-List")
    provider = ScriptedProvider()
    await bench.drain(provider)
    for message in provider.messages:
        added, _, _ = message.content.partition(EMAIL)
        names = ["X-Mailwright-Message", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id", "Feedback-ID"]
        assert message_from_bytes(added).keys() == names


async def test_suppressed_recipient_gets_no_raw_email(bench: Bench) -> None:
    await suppress(bench.database, "bob@example.com")
    provider = await sent_by(bench, EMAIL)
    assert [message.recipients for message in provider.messages] == [("ada@example.com",), ("eve@example.com",)]


async def test_large_emails_are_built_one_after_another(bench: Bench) -> None:
    large = EMAIL + b"".join([b"%076d\r\n" % number for number in range(20_000)])
    provider = await sent_by(bench, large)
    assert contents(provider) == {large}


@pytest.mark.promise("sender-domains")
async def test_foreign_from_is_accepted_with_a_warning(api: Api) -> None:
    answer = await post(api, EMAIL.replace(b"shop@example.com", b"boss@bank.example"))
    assert [each["code"] for each in answer.json()["warnings"]] == ["FOREIGN_FROM"]


@pytest.mark.promise("raw-unchanged")
async def test_provider_that_changes_email_gives_a_warning(engine: DatabaseAddress, clock: ManualClock) -> None:
    installation: dict[str, Any] = {"provider": "sendgrid", "sendgrid_api_key": "SG.x"}
    async with a_bench(engine.url, clock, **installation) as bench:
        tenants = [1, *[await a_tenant(bench.database, name) for name in ("acme", "beta")]]
        service = bench.engine.providers
        await service.create("own-postmark", "postmark", {"POSTMARK_SERVER_TOKEN": "t"}, actor="ada")
        await service.create("own-mailbox", "mailbox", {}, actor="ada")
        await service.set_route(tenants[1], None, "own-mailbox", actor="ada")
        await service.set_route(tenants[2], None, "own-mailbox", actor="ada")
        await service.set_route(tenants[2], Source.API, "own-postmark", actor="ada")
    fields = {"from": "shop@example.com", "subject": "Hello", "text": "Hello"}
    shared = AddressedEmail(fields, to=(Mailbox("ada@example.com"), Mailbox("bob@example.com")))
    found = []
    async with a_bench(engine.url, clock, **installation) as bench:
        for tenant_id in tenants:
            context = RequestContext(Caller(tenant_id, "any"), f"r{tenant_id}")
            raw = await bench.engine.raw_messages.send(context, EMAIL)
            [email] = await bench.engine.api_emails.send(context, [shared])
            stored = await message_records.find(bench.database, email.outbox_id, tenant_id=tenant_id)
            details = [*[each.detail for each in raw.warnings], *[each["detail"] for each in stored.warnings]]
            found.append([each.partition("'")[0] for each in details])
    assert found == [["SendGrid"] * 2, [], ["Postmark"] * 2]


@pytest.mark.promise("person-erased")
async def test_erasing_a_recipient_deletes_the_bytes(bench: Bench) -> None:
    provider = await sent_by(bench, EMAIL)
    await erasure.erase(bench.database, bench.clock, 1, "ada@example.com", actor="console")
    assert await count_contents(bench.database) == 0
    engine, other = bench.engine, provider.messages[1].outbox_id
    shown = await render_message(
        engine.database, engine.templates, engine.identity, other, tenant_id=1, at=bench.clock.now()
    )
    assert shown == "The message cannot be rendered: The content of this message no longer exists."


@pytest.mark.promise("person-erased")
async def test_bytes_that_others_wait_for_are_kept(api: Api, clock: ManualClock) -> None:
    messages = (await post(api)).json()["messages"]
    pending = await erasure.erase(api.engine.database, clock, 1, "ada@example.com", actor="console")
    assert pending.waits_for == messages[1]["outboxId"]
    for message in messages[1:]:
        await api.client.post(f"/v1/email/{message['outboxId']}/cancel")
    await erasure.erase(api.engine.database, clock, 1, "ada@example.com", actor="console")
    assert await count_contents(api.engine.database) == 0


BAD = {
    "empty": b"",
    "no header": b"\r\nHello\r\n",
    "no from": EMAIL.replace(b"From", b"X-From"),
    "two from": b"From: eve@example.com\r\n" + EMAIL,
    "two message ids": b"Message-ID: <a@b.c>\r\n" + EMAIL,
    "no colon": b"Hello\r\n" + EMAIL,
    "mbox": b"From shop@example.com Mon Nov 16\r\n" + EMAIL,
    "folded first line": b" x\r\n" + EMAIL,
    "NUL": EMAIL + b"\0\r\n",
    "bare LF": EMAIL + b"a\nb\r\n",
    "bare CR": EMAIL + b"a\rb\r\n",
    "long line": EMAIL + b"x" * 999 + b"\r\n",
    "long headers": b"X-A: " + b"x\r\n " * 70_000 + b"\r\n" + EMAIL,
    "invalid address": EMAIL.replace(b"bob@example.com", b"bob@example"),
    "unknown option": b"X-Mailwright-Colour: red\r\n" + EMAIL,
    "option twice": b"X-Mailwright-Tags: a\r\nX-Mailwright-Tags: b\r\n" + EMAIL,
    "past": b"X-Mailwright-Send-At: 2001-01-01T00:00:00Z\r\n" + EMAIL,
    "tracking": b"X-Mailwright-Tracking: links\r\n" + EMAIL,
    "provider command": b'X-SMTPAPI: {"to": ["eve@example.com"]}\r\n' + EMAIL,
    "unknown provider command": b"X-Mailgun-Deliver-By: now\r\n" + EMAIL,
    "tracking of a provider": b"X-PM-TrackOpens: true\r\n" + EMAIL,
    "stream without a list": b"X-PM-Message-Stream: broadcast\r\n" + EMAIL,
    "variables that are no object": b"X-Mailgun-Variables: [1]\r\n" + EMAIL,
    "too many tags": b"X-Mailwright-Tags: a\r\n" + b"X-Mailgun-Tag: b\r\n" * 20 + EMAIL,
    "tags without values": b"X-SES-MESSAGE-TAGS: a\r\n" + EMAIL,
    "deeply nested comments in From": EMAIL.replace(b"Shop", b"\r\n ".join([b"(" * 900] * 20)),
    "deeply nested comments in To": EMAIL.replace(b"Ada", b"\r\n ".join([b"(" * 900] * 20)),
    "long From": EMAIL.replace(b"Shop", b"Shop <a@example.com>,\r\n " * 6_500),
    "long To": EMAIL.replace(b"Ada", b"Ada <a@example.com>,\r\n " * 6_500),
    "resent to nobody": b"Resent-From: shop@example.com\r\n" + EMAIL,
    "no recipients": EMAIL.replace(b"To:", b"X-To:").replace(b"Cc:", b"X-Cc:"),
}


@on_sqlite
async def test_resent_email_without_recipient_names_the_resent_fields(api: Api) -> None:
    [error] = (await post(api, BAD["resent to nobody"])).json()["errors"]
    assert (error["field"], error["code"]) == ("to", "REQUIRED")
    assert "names no recipient in Resent-To, Resent-Cc or Resent-Bcc" in error["message"]
    [error] = (await post(api, BAD["no recipients"])).json()["errors"]
    assert error["message"].endswith("names no recipient in To, Cc or Bcc")


async def test_unknown_list_is_named_by_its_header(api: Api) -> None:
    options = {"X-Pm-Message-Stream": b"broadcast", "X-Smtpapi": b'{"asm_group_id": 7}', "X-Mailwright-List": b"none"}
    for name, value in options.items():
        answer = await post(api, name.encode() + b": " + value + b"\r\n" + EMAIL)
        assert answer.json()["errors"][0]["field"] == name


@on_sqlite
@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize("case", BAD)
async def test_bad_email_is_422_and_stores_nothing(api: Api, case: str) -> None:
    before = await api.stored()
    answer = await post(api, BAD[case])
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["message"]
    assert await api.stored() + await count_contents(api.engine.database) == before


@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "The email is empty."), (b"\r\n", "The email is empty."), (EMAIL.replace(b"\r\n", b""), "--data-binary")],
)
async def test_unusable_body_is_explained(api: Api, content: bytes, message: str) -> None:
    assert message in (await post(api, content)).json()["errors"][0]["message"]


@pytest.mark.promise("raw-unchanged")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"to": "not an address"}, "to"),
        ({"to": ["ada@example.com"] * 101}, "to"),
        ({"from": "nobody"}, "from"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_bad_envelope_is_422_and_stores_nothing(api: Api, query: Any, field: str) -> None:
    before = await api.stored()
    answer = await post(api, query=query)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert await api.stored() == before


async def test_media_type_size_and_scope_are_checked(api: Api) -> None:
    plain = await api.client.post(RAW, content=EMAIL, headers={"Content-Type": "text/plain"})
    large = await post(api, EMAIL + b"x\r\n" * (MAX_RAW_BYTES // 3))
    key = await api.engine.keys.create(1, scopes=frozenset({Scope.READ}))
    async with client_of(api.app, key) as reader:
        denied = await reader.post(RAW, content=EMAIL, headers=MIME)
    assert [plain.status_code, large.status_code, denied.status_code] == [415, 413, 403]
