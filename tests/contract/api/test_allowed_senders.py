"""An API key with senders sends from these senders only, whichever way an email comes in."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from sqlalchemy import insert, select

from mailwright.access.api_keys import KeyPair
from mailwright.access.roles import ALL_SCOPES
from mailwright.app.outbox_table import drain_outbox_table, open_application_database, open_relay
from mailwright.app.sender_domains import SenderDomainService
from mailwright.domain.allowed_senders import AllowedSenders, parse_allowed_senders
from mailwright.domain.clock import SystemClock
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.storage.database import Database
from mailwright.storage.outbox_table import create_outbox_table, outbox_rows
from tests.api import an_engine, socket_client
from tests.builders import a_tenant
from tests.campaigns import BODY, NEWS, a_list
from tests.dropin import DropIn, a_drop_in
from tests.submission import Submission, a_dialogue, a_submission

pytestmark = pytest.mark.promise("sender-domains")

SENDERS = ("News@Example.com", "@münchen.example")
ALLOWED = ("news@example.com", "NEWS@EXAMPLE.COM", "any@xn--mnchen-3ya.example", "Any.One@MÜNCHEN.example")
FOREIGN = ("evil@example.com", "news@example.com.evil.example", "a@sub.münchen.example", "x@xn--mnchen-3ya.example.org")


@dataclass(frozen=True)
class Sending:
    """A server, and a key that is limited to `SENDERS`."""

    drop_in: DropIn
    submission: Submission
    pair: KeyPair
    explanation: str = "sender"
    outbox_tenant: str = tenants.DEFAULT  # Of the emails in the outbox table.

    async def post(self, path: str, body: Any = None, headers: dict[str, str] | None = None, **form: Any) -> int:
        """Return the status of a response. A refusal must explain itself."""
        async with socket_client(self.drop_in.url) as client:
            given = {"Authorization": f"Bearer {self.pair.key}", **(headers or {})}
            if isinstance(body, bytes):
                form = {"content": body}
            elif body is not None:
                form = {"json": body}
            answer = await client.post(path, headers=given, **form)
        assert answer.is_success or self.explanation in answer.text.lower(), answer.text
        return answer.status_code

    async def batch(self, email: Mapping[str, Any]) -> int:
        """Return the status of one email in a batch."""
        async with socket_client(self.drop_in.url) as client:
            headers = {"Authorization": f"Bearer {self.pair.key}"}
            answer = await client.post("/v1/email/batch", json={"messages": [email]}, headers=headers)
        if not answer.is_success:
            return answer.status_code
        [result] = answer.json()["results"]
        assert "outboxId" in result or self.explanation in str(result).lower(), result
        return 202 if "outboxId" in result else 403

    async def outbox_table(self, email: Mapping[str, Any]) -> int:
        """Write an email to the outbox table of an application, and return whether it was accepted, as a status."""
        ours = self.drop_in.engine
        with TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/app.db"
            rules = {
                "require_sender_domains": ours.settings.require_sender_domains,
                "outbox_tenant": self.outbox_tenant,
            }
            engine = an_engine(ours.database, ours.clock, outbox_database_url=url, **rules)
            async with open_application_database(url) as theirs:
                await create_outbox_table(theirs)
                async with theirs.write() as tx:
                    await tx.execute(insert(outbox_rows).values(email=json.dumps(email)))
                async with open_relay(engine) as relay:
                    await drain_outbox_table(relay)
                async with theirs.read() as tx:
                    [row] = await tx.execute(select(outbox_rows.c.outbox_id, outbox_rows.c.error))
        assert row.outbox_id or self.explanation in str(row.error).lower(), row.error
        return 202 if row.outbox_id else 403

    async def agent(self, email: Mapping[str, Any]) -> int:
        """Let an agent send an email, and return whether it was accepted, as a status."""
        headers = {"Authorization": f"Bearer {self.pair.key}"}
        async with (
            httpx2.AsyncClient(headers=headers, verify=False) as http,
            Client(streamable_http_client(f"{self.drop_in.url}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool("send_email", dict(email))
        assert not result.is_error or self.explanation in str(result.content).lower(), result.content
        return 403 if result.is_error else 202

    async def refuses_raw(self, headers: str, mail_from: str = "news@example.com") -> bool:
        """Send an email with these headers over HTTP, SMTP and SES; return whether all refuse it."""
        content = f"{headers}\r\nTo: ada@example.com\r\nSubject: Hello\r\n\r\nHi\r\n".encode()
        query = f"/v1/email/raw?from={mail_from}" if mail_from else "/v1/email/raw"
        async with socket_client(self.drop_in.url) as client:
            given = {"Authorization": f"Bearer {self.pair.key}", "Content-Type": "message/rfc822"}
            statuses = [(await client.post(query, content=content, headers=given)).status_code]
        statuses.append(await self.smtp(content, mail_from or "news@example.com"))
        statuses.append(await self.ses({"Content": {"Raw": {"Data": base64.b64encode(content).decode()}}}))
        assert all(200 <= status < 300 for status in statuses) or all(status >= 400 for status in statuses), statuses
        return statuses[0] >= 400

    async def smtp(self, content: bytes, mail_from: str) -> int:
        async with a_dialogue(self.submission, is_signed_in=False) as client:
            await client.sign_in(self.pair.key)
            replies = await client.say(f"MAIL FROM:<{mail_from}>", "RCPT TO:<ada@example.com>", "DATA")
            assert replies[-1].startswith("354"), replies
            reply = await client.ask(content + b".\r\n")
            assert (await client.say("NOOP"))[0].startswith("250")  # The connection stays usable.
            return int(reply[:3])

    async def ses(self, email: Any) -> int:
        path, body = "/v2/email/outbound-emails", json.dumps(email).encode()
        request = AWSRequest("POST", self.drop_in.url + path, {"Content-Type": "application/json"}, body)
        SigV4Auth(Credentials(self.pair.access_key_id, self.pair.key), "ses", "eu-west-1").add_auth(request)
        async with socket_client(self.drop_in.url) as client:
            return (await client.post(path, content=body, headers=dict(request.headers))).status_code


@pytest.fixture
async def sending(database: Database) -> AsyncIterator[Sending]:
    async with (
        a_drop_in(database, SystemClock(), sender="Installation <default@other.example>") as drop_in,
        a_submission(drop_in.engine) as submission,
    ):
        allowed = parse_allowed_senders(SENDERS)
        yield Sending(drop_in, submission, await drop_in.engine.keys.issue(1, "news", ALL_SCOPES, allowed, signs=True))


Entry = Callable[[Sending, str], Awaitable[int]]


async def _send(at: Sending, sender: str) -> int:
    email = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>", "from": sender}
    return await at.post("/v1/email/send", email)


async def _batch(at: Sending, sender: str) -> int:
    return await at.batch({"to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>", "from": sender})


async def _raw(at: Sending, sender: str) -> int:
    content = f"From: {sender}\r\nTo: ada@example.com\r\n\r\nHi\r\n".encode()
    return await at.post("/v1/email/raw", content, {"Content-Type": "message/rfc822"})


async def _envelope(at: Sending, sender: str) -> int:
    content = b"From: news@example.com\r\nTo: ada@example.com\r\n\r\nHi\r\n"
    return await at.post(f"/v1/email/raw?from={sender}", content, {"Content-Type": "message/rfc822"})


async def _smtp_header(at: Sending, sender: str) -> int:
    return await at.smtp(f"From: {sender}\r\n\r\nHi\r\n".encode(), "news@example.com")


async def _smtp_envelope(at: Sending, sender: str) -> int:
    return await at.smtp(b"From: news@example.com\r\n\r\nHi\r\n", sender)


async def _sendgrid(at: Sending, sender: str) -> int:
    people = [{"to": [{"email": "ada@example.com"}]}]
    email = {"personalizations": people, "subject": "Hello", "content": [{"type": "text/plain", "value": "Hi"}]}
    return await at.post("/v3/mail/send", {**email, "from": {"email": sender}})


async def _sendgrid_personal(at: Sending, sender: str) -> int:
    people = [{"to": [{"email": "ada@example.com"}], "from": {"email": sender}}]
    email = {"personalizations": people, "subject": "Hello", "content": [{"type": "text/plain", "value": "Hi"}]}
    return await at.post("/v3/mail/send", {**email, "from": {"email": "news@example.com"}})


async def _ses(at: Sending, sender: str) -> int:
    content = {"Simple": {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "Hi"}}}}
    to = {"ToAddresses": ["ada@example.com", "bob@example.com"]}
    return await at.ses({"FromEmailAddress": sender, "Destination": to, "Content": content})


async def _postmark(at: Sending, sender: str) -> int:
    email = {"From": sender, "To": "ada@example.com", "Subject": "Hello", "TextBody": "Hi"}
    return await at.post("/email", email, {"X-Postmark-Server-Token": at.pair.key})


async def _mailgun(at: Sending, sender: str) -> int:
    basic = base64.b64encode(f"api:{at.pair.key}".encode()).decode()
    form = {"from": sender, "to": "ada@example.com", "subject": "Hello", "text": "Hi"}
    return await at.post("/v3/example.com/messages", headers={"Authorization": f"Basic {basic}"}, data=form)


async def _mailgun_sender(at: Sending, sender: str) -> int:
    basic = base64.b64encode(f"api:{at.pair.key}".encode()).decode()
    form = {"from": "news@example.com", "to": "ada@example.com", "text": "Hi", "h:Sender": sender}
    return await at.post("/v3/example.com/messages", headers={"Authorization": f"Basic {basic}"}, data=form)


async def _resend(at: Sending, sender: str) -> int:
    return await at.post("/emails", {"from": sender, "to": "ada@example.com", "subject": "Hello", "text": "Hi"})


async def _resend_batch(at: Sending, sender: str) -> int:
    emails = [
        {"from": each, "to": "ada@example.com", "subject": "Hello", "text": "Hi"}
        for each in ("news@example.com", sender)
    ]
    return await at.post("/emails/batch", emails)


async def _campaign(at: Sending, sender: str) -> int:
    content = {"subject": "News", "body": BODY}
    return await at.post("/v1/campaigns", {"name": "January", "content": content, "lists": [NEWS], "from": sender})


async def _agent(at: Sending, sender: str) -> int:
    return await at.agent({"to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>", "from": sender})


ENTRIES: tuple[Entry, ...] = (
    _send,
    _batch,
    _raw,
    _envelope,
    _smtp_header,
    _smtp_envelope,
    _sendgrid,
    _sendgrid_personal,
    _ses,
    _postmark,
    _mailgun,
    _mailgun_sender,
    _resend,
    _resend_batch,
    _campaign,
    _agent,
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
async def test_every_entry_refuses_senders_of_others(sending: Sending, entry: Entry) -> None:
    await a_list(sending.drop_in.engine.database)
    for sender in FOREIGN:
        assert await entry(sending, sender) >= 400, sender
    assert await sending.drop_in.stored() == []
    for sender in ALLOWED:
        assert 200 <= await entry(sending, sender) < 300, sender


@pytest.mark.parametrize(
    "headers",
    [
        "From: news@example.com, evil@other.example",
        "From: news@example.com\r\nFrom: evil@other.example",
        "From: news@example.com\r\nfrom : evil@other.example",
        "From: news@example.com\r\nSender: evil@other.example",
        "From: news@example.com\r\nResent-From: evil@other.example",
        "From: news@example.com\r\nResent-From: news@example.com\r\nResent-Sender: evil@other.example",
        "From: news@example.com <evil@other.example>",
        'From: "news@example.com" <evil@other.example>',
        'From: "evil@other.example" <news@example.com>',
        "From: =?utf-8?q?evil=40other=2Eexample?= <news@example.com>",
        "From: =?utf-8?b?ZXZpbO+8oG90aGVyLmV4YW1wbGU=?= <news@example.com>",
        "From: =?utf-8?q?news=40example.com?=",
        "From: =?utf-8?q?news@example.com=2C?= <evil@other.example>",
        "From: Group: news@example.com;",
        "From: Group: evil@other.example;",
        "From: news@example.com (evil@other.example)",
        "From: (comment) news@example.com",
        "From: news@example.com\r\n <evil@other.example>",
        "From: <@evil.example:news@example.com>",
        'From: "news"@example.com',
        "From: news@example.com;evil@other.example",
        "From: news@example.com@other.example",
        "From: news@example.com,",
        "From: <news@example.com",
        "From:",
        "Sender: news@example.com",
    ],
)
async def test_ambiguous_and_hidden_senders_are_refused(sending: Sending, headers: str) -> None:
    assert await sending.refuses_raw(headers)
    assert await sending.drop_in.stored() == []


@pytest.mark.parametrize(
    "headers",
    [
        "From: News <news@example.com>",
        'From: "Doe, Jane" <news@example.com>\r\nSender: any@münchen.example',
        "From: =?utf-8?q?J=C3=B6rg?= <news@example.com>, any@xn--mnchen-3ya.example",
        'From: "news@example.com" <news@example.com>',
    ],
)
async def test_plain_senders_of_the_key_are_accepted(sending: Sending, headers: str) -> None:
    assert not await sending.refuses_raw(headers)


async def test_request_without_sender_uses_the_default_which_must_be_allowed(sending: Sending) -> None:
    email = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>"}
    assert await sending.post("/v1/email/send", email) == 403
    assert await sending.drop_in.stored() == []


async def test_import_that_asks_for_confirmations_needs_the_default_sender(sending: Sending) -> None:
    path = f"/v1/contacts/imports?listKey={NEWS}"
    csv = {"Content-Type": "text/csv"}
    assert await sending.post(f"{path}&ask=true", b"email\nada@example.com\n", csv) == 403


async def test_automatic_reply_with_empty_envelope_sender_is_accepted(sending: Sending) -> None:
    assert await sending.smtp(b"From: news@example.com\r\n\r\nHi\r\n", "") == 250


async def test_campaigns_of_other_senders_cannot_be_changed(sending: Sending) -> None:
    engine = sending.drop_in.engine
    await a_list(engine.database)
    async with socket_client(sending.drop_in.url) as client:
        unlimited = {"Authorization": f"Bearer {sending.drop_in.key}"}
        wanted = {"name": "January", "content": {"subject": "News", "body": BODY}, "lists": [NEWS]}
        made = await client.post("/v1/campaigns", json=wanted, headers=unlimited)
    campaign = f"/v1/campaigns/{made.json()['campaignId']}"
    for action in ("start", "duplicate", "pause", "cancel", "extend", "test", "resend", "open-wave"):
        assert await sending.post(f"{campaign}/{action}", {}) == 403, action


async def test_sequences_and_forms_need_the_default_sender(sending: Sending) -> None:
    sequence = "/v1/sequences/018f0000-0000-7000-8000-000000000000"
    for path in ("/v1/sequences", f"{sequence}/publish", f"{sequence}/enrol", f"{sequence}/resume", "/v1/forms"):
        assert await sending.post(path, {}) == 403, path


async def test_key_without_senders_sends_from_every_address(sending: Sending) -> None:
    unlimited = Sending(sending.drop_in, sending.submission, await sending.drop_in.engine.keys.issue(1, signs=True))
    await a_list(sending.drop_in.engine.database)
    for entry in ENTRIES:
        assert 200 <= await entry(unlimited, "any@other.example") < 300, entry.__name__


@pytest.mark.promise("sender-domains")
async def test_every_entry_refuses_domains_of_other_tenants(sending: Sending) -> None:
    engine = sending.drop_in.engine
    unlimited = Sending(sending.drop_in, sending.submission, await engine.keys.issue(1, signs=True))
    records: dict[str, str] = {}

    async def look_up(name: str, kind: str) -> list[str]:
        return [records[name]] if kind == "TXT" and name in records else []

    service = SenderDomainService(engine.settings, engine.database, engine.clock, engine.directory, look_up)
    for tenant, domain in ((await a_tenant(engine.database, "theirs"), "theirs.example"), (1, "example.com")):
        made = await service.add(tenant, domain, actor="test")
        records |= {f"{key.selector}._domainkey.{domain}": key.record for key in made.keys}
        assert (await service.check(tenant, domain, actor="test")).is_verified
    for entry in ENTRIES:
        if entry is not _campaign:  # A draft can wait for its domain; it does not start before.
            for sender in ("any@theirs.example", "any@sub.theirs.example", "any@nobody.example"):
                assert await entry(unlimited, sender) >= 400, (entry.__name__, sender)
    assert await sending.drop_in.stored() == []
    for entry in ENTRIES:
        if entry is not _campaign:
            assert 200 <= await entry(unlimited, "news@example.com") < 300, entry.__name__
    # A key cannot free its tenant: without a verified domain, nothing is sent.
    accepted = len(await sending.drop_in.stored())
    async with socket_client(sending.drop_in.url) as client:
        limited, every = ({"Authorization": f"Bearer {each.pair.key}"} for each in (sending, unlimited))
        for method, path in (("DELETE", "/example.com"), ("POST", ""), ("POST", "/example.com/rotate")):
            answer = await client.request(method, f"/v1/domains{path}", headers=limited, json={"name": "a.example"})
            assert (answer.status_code, "limited to senders" in answer.text) == (403, True)
        assert (await client.delete("/v1/domains/example.com", headers=every)).status_code == 204
        assert (await client.get("/v1/domains", headers=every)).json() == {"domains": [], "sendsNothing": True}
        assert (await client.delete("/v1/restricted-tenants/default", headers=every)).status_code == 403
    for entry in ENTRIES:
        if entry is not _campaign:
            for sender in ("any@theirs.example", "any@nobody.example", "any@example.com", "default@other.example"):
                assert await entry(unlimited, sender) >= 400, (entry.__name__, sender)
    assert len(await sending.drop_in.stored()) == accepted


async def test_senders_of_a_key_are_listed(sending: Sending) -> None:
    listed = {key.name: key.senders for key in await sending.drop_in.engine.keys.list_all(1)}
    assert listed["news"] == AllowedSenders(frozenset({"news@example.com", "@xn--mnchen-3ya.example"}))
    assert listed["shop"] is None


@pytest.mark.parametrize("text", ["example.com", "@", "@@example.com", "@localhost", "a@b@c.com", "*@example.com "])
def test_invalid_senders_of_a_key_are_refused(text: str) -> None:
    if text.startswith("*"):  # An asterisk is a valid local part, and not a wildcard.
        allowed = parse_allowed_senders([text])
        assert allowed is not None
        assert not allowed.allow("any@example.com")
    else:
        with pytest.raises(InvalidInput, match="neither an address"):
            parse_allowed_senders([text])
