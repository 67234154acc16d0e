"""A List-Id, or a tag beside a List-Unsubscribe header, makes bulk email of that list wherever email is accepted."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from mailwright.access.roles import ALL_SCOPES
from mailwright.audience import lists
from mailwright.domain.clock import SystemClock
from mailwright.outbox import tenants
from mailwright.storage.database import Database
from tests.contract.api.test_allowed_senders import Sending
from tests.dropin import a_drop_in
from tests.submission import a_dialogue, a_submission

pytestmark = pytest.mark.promise("second-person")

Headers = Mapping[str, str]
Tags = Sequence[str]
Entry = Callable[[Sending, Headers, Tags], Awaitable[int]]
SENDER = "shop@example.com"
TO = "ada@example.com"
LEAVE = {"List-Unsubscribe": "<https://shop.example/leave>"}


@pytest.fixture
async def sending(database: Database) -> AsyncIterator[Sending]:
    clock = SystemClock()
    async with a_drop_in(database, clock) as drop_in, a_submission(drop_in.engine) as submission:
        for key in ("news", "offers"):
            await lists.create(database, clock, 1, key, actor="test")
        yield Sending(drop_in, submission, await drop_in.engine.keys.issue(1, "shop", ALL_SCOPES, signs=True))


def an_email(headers: Headers, tags: Tags) -> dict[str, Any]:
    return {"to": TO, "from": SENDER, "subject": "Hi", "text": "Hi", "headers": dict(headers), "tags": list(tags)}


def raw(headers: Headers, tags: Tags = ()) -> bytes:
    own = {"X-Mailwright-Tags": ",".join(tags)} if tags else {}
    lines = {"From": SENDER, "To": TO, "Subject": "Hi", **headers, **own}
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode() + b"\r\nHi\r\n"


def basic(at: Sending) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'api:{at.pair.key}'.encode()).decode()}"}


async def _send(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.post("/v1/email/send", an_email(headers, tags))


async def _batch(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.batch(an_email(headers, tags))


async def _outbox_table(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.outbox_table(an_email(headers, tags))


async def _agent(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.agent(an_email(headers, tags))


async def _raw(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.post("/v1/email/raw", raw(headers, tags), {"Content-Type": "message/rfc822"})


async def _smtp(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.smtp(raw(headers, tags), SENDER)


async def _smtp_of_a_service(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.smtp(raw({**headers, **({"X-MC-Tags": ",".join(tags)} if tags else {})}), SENDER)


async def _sendgrid(at: Sending, headers: Headers, tags: Tags) -> int:
    email = {"personalizations": [{"to": [{"email": TO}]}], "content": [{"type": "text/plain", "value": "Hi"}]}
    more = {"from": {"email": SENDER}, "subject": "Hi", "headers": dict(headers), "categories": list(tags)}
    return await at.post("/v3/mail/send", {**email, **more})


async def _ses(at: Sending, headers: Headers, _tags: Tags) -> int:
    given = [{"Name": name, "Value": value} for name, value in headers.items()]
    content = {"Simple": {"Subject": {"Data": "Hi"}, "Body": {"Text": {"Data": "Hi"}}, "Headers": given}}
    return await at.ses(
        {"FromEmailAddress": SENDER, "Destination": {"ToAddresses": [TO, "bob@example.com"]}, "Content": content}
    )


async def _ses_raw(at: Sending, headers: Headers, tags: Tags) -> int:
    return await at.ses({"Content": {"Raw": {"Data": base64.b64encode(raw(headers, tags)).decode()}}})


async def _postmark(at: Sending, headers: Headers, tags: Tags) -> int:
    given = [{"Name": name, "Value": value} for name, value in headers.items()]
    email = {"From": SENDER, "To": TO, "Subject": "Hi", "TextBody": "Hi", "Headers": given}
    return await at.post("/email", {**email, "Tag": next(iter(tags), None)}, {"X-Postmark-Server-Token": at.pair.key})


async def _mailgun(at: Sending, headers: Headers, tags: Tags) -> int:
    form = {"from": SENDER, "to": TO, "subject": "Hi", "text": "Hi", "o:tag": list(tags)}
    named = {f"h:{name}": value for name, value in headers.items()}
    return await at.post("/v3/example.com/messages", headers=basic(at), data={**form, **named})


async def _mailgun_mime(at: Sending, headers: Headers, tags: Tags) -> int:
    form = {"to": TO, "o:tag": list(tags), "message": raw(headers).decode()}
    return await at.post("/v3/example.com/messages.mime", headers=basic(at), data=form)


def resend_email(headers: Headers) -> dict[str, Any]:
    return {"from": SENDER, "to": TO, "subject": "Hi", "text": "Hi", "headers": dict(headers)}


async def _resend(at: Sending, headers: Headers, _tags: Tags) -> int:
    return await at.post("/emails", resend_email(headers))


async def _resend_batch(at: Sending, headers: Headers, _tags: Tags) -> int:
    return await at.post("/emails/batch", [resend_email(headers)])


# Tags of SES and Resend have a name and a value, so they are metadata.
WITHOUT_TAGS: tuple[Entry, ...] = (_ses, _resend, _resend_batch)
WITH_TAGS: tuple[Entry, ...] = (
    *(_send, _batch, _outbox_table, _agent, _raw, _smtp, _smtp_of_a_service),
    *(_sendgrid, _ses_raw, _postmark, _mailgun, _mailgun_mime),
)
ENTRIES = (*WITH_TAGS, *WITHOUT_TAGS)


async def list_keys(at: Sending) -> set[str | None]:
    return {each.list_key for each in await at.drop_in.stored()}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("list_id", ["Our news <news.example.com>", "<NEWS>"])
async def test_list_id_of_a_list_makes_bulk_email(sending: Sending, entry: Entry, list_id: str) -> None:
    assert 200 <= await entry(sending, {"List-Id": list_id}, ()) < 300
    assert await list_keys(sending) == {"news"}


@pytest.mark.parametrize("entry", WITH_TAGS)
async def test_tag_beside_an_unsubscribe_header_makes_bulk_email(sending: Sending, entry: Entry) -> None:
    assert 200 <= await entry(sending, LEAVE, ("news", "winter")) < 300
    assert await list_keys(sending) == {"news"}


@pytest.mark.parametrize("entry", WITH_TAGS)
async def test_tag_alone_leaves_email_transactional(sending: Sending, entry: Entry) -> None:
    assert 200 <= await entry(sending, {}, ("news",)) < 300
    assert await list_keys(sending) == {None}


@pytest.mark.parametrize("entry", [_send, _raw, _smtp, _sendgrid, _ses, _postmark, _mailgun_mime])
async def test_list_id_of_another_system_changes_nothing(sending: Sending, entry: Entry) -> None:
    assert 200 <= await entry(sending, {"List-Id": "acme/shop <shop.acme.git.example.com>", **LEAVE}, ()) < 300
    assert await list_keys(sending) == {None}


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", ENTRIES)
async def test_list_id_does_not_pass_an_approval(sending: Sending, entry: Entry) -> None:
    engine = sending.drop_in.engine
    await tenants.change(engine.database, tenants.DEFAULT, actor="admin", clock=engine.clock, approval_over=0)
    refused = replace(sending, explanation="send them as a campaign")
    assert await entry(refused, {"List-Id": "<news.example.com>"}, ()) >= 400
    assert await sending.drop_in.is_empty()


MANY = tuple(f"reader{number}@example.com" for number in range(4))


async def _batch_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    return await at.post("/v1/email/batch", {"messages": [{**an_email(headers, ()), "to": each} for each in people]})


async def _copies_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    return await at.post("/v1/email/send", {**an_email(headers, ()), "to": people[0], "bcc": people[1:]})


async def _sendgrid_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    email = {"content": [{"type": "text/plain", "value": "Hi"}], "from": {"email": SENDER}, "subject": "Hi"}
    to = [{"to": [{"email": each}]} for each in people]
    return await at.post("/v3/mail/send", {**email, "personalizations": to, "headers": dict(headers)})


async def _ses_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    given = [{"Name": name, "Value": value} for name, value in headers.items()]
    content = {"Simple": {"Subject": {"Data": "Hi"}, "Body": {"Text": {"Data": "Hi"}}, "Headers": given}}
    to = {"ToAddresses": people[:1], "BccAddresses": people[1:]}
    return await at.ses({"FromEmailAddress": SENDER, "Destination": to, "Content": content})


async def _postmark_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    given = [{"Name": name, "Value": value} for name, value in headers.items()]
    emails = [{"From": SENDER, "To": each, "Subject": "Hi", "TextBody": "Hi", "Headers": given} for each in people]
    return await at.post("/email/batch", emails, {"X-Postmark-Server-Token": at.pair.key})


async def _mailgun_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    form = {"from": SENDER, "to": list(people), "subject": "Hi", "text": "Hi"}
    variables = {"recipient-variables": json.dumps({each: {"name": each} for each in people})}
    named = {f"h:{name}": value for name, value in headers.items()}
    return await at.post("/v3/example.com/messages", headers=basic(at), data={**form, **variables, **named})


async def _resend_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    return await at.post("/emails/batch", [{**resend_email(headers), "to": each} for each in people])


async def _smtp_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    async with a_dialogue(at.submission, is_signed_in=False) as client:
        await client.sign_in(at.pair.key)
        recipients = [f"RCPT TO:<{each}>" for each in people]
        await client.say(f"MAIL FROM:<{SENDER}>", *recipients, "DATA")
        return int((await client.ask(raw(headers) + b".\r\n"))[:3])


async def _agent_to(at: Sending, people: Sequence[str], headers: Headers) -> int:
    given = {"Authorization": f"Bearer {at.pair.key}"}
    async with (
        httpx2.AsyncClient(headers=given, verify=False, timeout=60) as http,
        Client(streamable_http_client(f"{at.drop_in.url}/mcp", http_client=http)) as client,
    ):
        email = {**an_email(headers, ()), "to": people[0], "cc": list(people[1:])}
        result = await client.call_tool("send_email", email)
    return 409 if result.is_error else 202


SEVERAL = (
    *(_batch_to, _copies_to, _sendgrid_to, _ses_to, _postmark_to),
    *(_mailgun_to, _resend_to, _smtp_to, _agent_to),
)


@pytest.mark.both_engines
@pytest.mark.parametrize("entry", SEVERAL)
async def test_all_recipients_of_a_request_count_towards_an_approval(
    sending: Sending, entry: Callable[[Sending, Sequence[str], Headers], Awaitable[int]]
) -> None:
    engine = sending.drop_in.engine
    await tenants.change(
        engine.database, tenants.DEFAULT, actor="admin", clock=engine.clock, approval_over=len(MANY) - 1
    )
    at = replace(sending, explanation="send them as a campaign")
    await entry(at, MANY, {"List-Id": "<news.example.com>"})
    assert await sending.drop_in.is_empty()
    assert 200 <= await entry(at, MANY[1:], {"List-Id": "<news.example.com>"}) < 300
    assert {"news"} == await list_keys(sending)


async def test_tags_of_two_lists_are_refused(sending: Sending) -> None:
    assert await _smtp(sending, LEAVE, ("news", "offers")) == 554
    assert await sending.drop_in.is_empty()
