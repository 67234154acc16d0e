"""Resend's own SDK against Mailwright."""

import asyncio
import base64
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
import resend
from resend.exceptions import ResendError

from mailwright.access.roles import ALL_SCOPES, Scope
from mailwright.audience import lists
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock, isoformat
from mailwright.outbox import tenants
from tests.api import socket_client
from tests.dropin import PNG, DropIn
from tests.engines import on_sqlite

pytestmark = pytest.mark.promise("drop-in-sdks")


@pytest.fixture(autouse=True)
def _sdk(drop_in: DropIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend, "api_url", drop_in.url)
    monkeypatch.setattr(resend, "api_key", drop_in.key)


def an_email(**changes: Any) -> dict[str, Any]:
    email = {
        "from": "Shop <shop@example.com>",
        "to": "Ada <ada@example.com>",
        "subject": "Your order",
        "html": "<p>It is on its way.</p>",
        **changes,
    }
    return {name: value for name, value in email.items() if value is not None}


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


async def test_email_with_all_fields_is_one_message(drop_in: DropIn, clock: ManualClock) -> None:
    email = an_email(
        reply_to="help@example.com",
        text="It is on its way.",
        headers={"X-Order": "7"},
        tags=[{"name": "order", "value": "7"}],
        scheduled_at=isoformat(clock.now() + HOUR),
        attachments=[
            {"filename": "logo.png", "content": list(PNG), "content_type": "image/png", "content_id": "logo"},
            {"filename": "a.txt", "content": base64.encodebytes(b"text" * 30).decode()},
            {"filename": "b.txt", "content": {"type": "Buffer", "data": list(b"text")}},
        ],
    )
    answer = await call(resend.Emails.send, email)
    [stored] = await drop_in.stored()
    assert (answer["id"], stored.scheduled_at) == (stored.outbox_id, clock.now() + HOUR)
    assert stored.payload["metadata"] == {"order": "7"}
    assert (stored.payload["replyTo"], stored.payload["headers"]) == ("help@example.com", {"X-Order": "7"})
    assert [(each["contentType"], each.get("contentId")) for each in stored.payload["attachments"]] == [
        ("image/png", "logo"),
        ("text/plain", None),
        ("text/plain", None),
    ]
    contents = [base64.b64decode(each["content"], validate=True) for each in stored.payload["attachments"]]
    assert contents == [PNG, b"text" * 30, b"text"]


async def test_several_recipients_share_one_email(drop_in: DropIn) -> None:
    email = an_email(to=["ada@example.com", "bob@example.com"], cc="carol@example.com", bcc=["secret@example.com"])
    await call(resend.Emails.send, email)
    stored = await drop_in.stored()
    assert [each.to for each in stored] == [f"{name}@example.com" for name in ("ada", "bob", "carol", "secret")]
    assert stored[0].email["To"] == "ada@example.com, bob@example.com"
    assert len({each.content for each in stored}) == 1


async def test_idempotency_key_sends_an_email_once(drop_in: DropIn) -> None:
    options = {"idempotency_key": "order-7"}
    answers = [await call(resend.Emails.send, an_email(), options) for _ in range(2)]
    assert answers[0]["id"] == answers[1]["id"]
    with pytest.raises(ResendError) as refused:
        await call(resend.Emails.send, an_email(to="bob@example.com"), options)
    assert (refused.value.code, refused.value.error_type) == (409, "invalid_idempotent_request")
    assert [each.to for each in await drop_in.stored()] == ["ada@example.com"]


async def test_strict_batch_is_accepted_as_a_whole(drop_in: DropIn) -> None:
    with pytest.raises(ResendError, match=r"`\[1\].from` field is required"):
        await call(resend.Batch.send, [an_email(), an_email(**{"from": None})])
    assert await drop_in.is_empty()
    options = {"idempotency_key": "batch-7"}
    answers = [await call(resend.Batch.send, [an_email(), an_email(to="bob@example.com")], options) for _ in range(2)]
    stored = await drop_in.stored()
    assert [[each["id"] for each in answer["data"]] for answer in answers] == [[each.outbox_id for each in stored]] * 2
    with pytest.raises(ResendError):
        await call(resend.Batch.send, [an_email()], options)


async def test_permissive_batch_accepts_the_valid_emails(drop_in: DropIn) -> None:
    emails = [an_email(subject=None), an_email(), an_email(to="ada")]
    answer = await call(resend.Batch.send, emails, {"batch_validation": "permissive"})
    [stored] = await drop_in.stored()
    assert answer["data"] == [{"id": stored.outbox_id}]
    assert [error["index"] for error in answer["errors"]] == [0, 2]
    assert ["`subject`" in answer["errors"][0]["message"], "`to[0]`" in answer["errors"][1]["message"]] == [True, True]


async def test_corrected_permissive_batch_repeats_no_accepted_email(drop_in: DropIn) -> None:
    options = {"batch_validation": "permissive", "idempotency_key": "batch-7"}
    for first in (an_email(to="bob"), an_email(to="bob@example.com")):
        await call(resend.Batch.send, [first, an_email()], options)
    assert sorted(each.to for each in await drop_in.stored()) == ["ada@example.com", "bob@example.com"]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field", "name"),
    [
        ({"subject": None}, "subject", "missing_required_field"),
        ({"to": []}, "to", "missing_required_field"),
        ({"to": [f"{number}@example.com" for number in range(51)]}, "to", "validation_error"),
        ({"colour": "red"}, "colour", "validation_error"),
        ({"replyTo": "help@example.com"}, "replyTo", "validation_error"),
        ({"topic_id": "x"}, "topic_id", "validation_error"),
        ({"scheduled_at": "tomorrow at 9am"}, "scheduled_at", "validation_error"),
        ({"attachments": [{"filename": "a", "path": "http://localhost/"}]}, "attachments[0].path", "validation_error"),
        ({"attachments": [{"filename": "a", "content": [256]}]}, "attachments[0].content", "validation_error"),
        ({"attachments": [{"filename": "a", "content": "", "path": "x"}]}, "attachments[0].path", "validation_error"),
        ({"template": {"id": "none"}, "html": None}, "template.id", "validation_error"),
    ],
)
async def test_refused_fields_are_named_and_nothing_is_stored(
    drop_in: DropIn, change: dict[str, Any], field: str, name: str | None
) -> None:
    with pytest.raises(ResendError) as refused:
        await call(resend.Emails.send, an_email(**change))
    assert f"`{field}`" in str(refused.value)
    assert (refused.value.code, refused.value.error_type) == (422, name or "missing_required_field")
    assert await drop_in.is_empty()


async def test_key_is_required_with_the_scope_to_send(drop_in: DropIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, name in (("re_wrong", "invalid_api_key"), (await drop_in.key_with(Scope.READ), "restricted_api_key")):
        monkeypatch.setattr(resend, "api_key", key)
        with pytest.raises(ResendError) as refused:
            await call(resend.Emails.send, an_email())
        assert (refused.value.code, refused.value.error_type) == (403, name)
    async with socket_client(drop_in.url) as client:
        answer = await client.post("/emails", json=an_email())
    assert answer.json() == {"statusCode": 401, "name": "missing_api_key", "message": "Missing API Key"}
    assert await drop_in.is_empty()


async def test_sender_without_a_verified_domain_is_refused(drop_in: DropIn) -> None:
    await drop_in.engine.sender_domains.add(1, "acme.example", actor="console")
    with pytest.raises(ResendError, match="acme") as refused:
        await call(resend.Emails.send, an_email(**{"from": "shop@acme.example"}))
    assert (refused.value.code, refused.value.error_type) == (403, "validation_error")
    assert await drop_in.is_empty()


async def test_delay_is_a_send_time_of_one_email(drop_in: DropIn, clock: ManualClock) -> None:
    delays = {"in 1 min": MINUTE, "In 2 hours": 2 * HOUR, "in a day": DAY}
    begin = clock.now()
    for phrase in (*delays, "in 1 min"):
        await call(resend.Emails.send, an_email(scheduled_at=phrase), {"idempotency_key": phrase})
        clock.advance(SECOND)
    found = [each.scheduled_at for each in await drop_in.stored()]
    assert found == [begin + number * SECOND + delay for number, delay in enumerate(delays.values())]


@pytest.mark.both_engines
async def test_scheduled_email_is_shown_moved_and_cancelled(drop_in: DropIn, clock: ManualClock) -> None:
    email = an_email(to=["Ada <ada@example.com>", "bob@example.com"], cc="carol@example.com", bcc="secret@example.com")
    email_id = (await call(resend.Emails.send, {**email, "scheduled_at": "in 1 hour"}))["id"]
    shown = await call(resend.Emails.get, email_id)
    assert (shown["to"], shown["cc"]) == (["Ada <ada@example.com>", "bob@example.com"], ["carol@example.com"])
    assert (shown["subject"], shown["last_event"], shown["html"]) == ("Your order", "scheduled", None)
    assert shown["scheduled_at"] == isoformat(clock.now() + HOUR)

    change = {"id": email_id, "scheduled_at": isoformat(clock.now() + DAY)}
    assert (await call(resend.Emails.update, change))["id"] == email_id
    assert {each.scheduled_at for each in await drop_in.stored()} == {clock.now() + DAY}
    clock.advance(2 * HOUR)
    assert await drop_in.deliver(clock) == []

    assert (await call(resend.Emails.cancel, email_id))["id"] == email_id
    assert (await call(resend.Emails.get, email_id))["last_event"] == "canceled"
    clock.advance(2 * DAY)
    assert await drop_in.deliver(clock) == []
    for change_again in (lambda: resend.Emails.cancel(email_id), lambda: resend.Emails.update(change)):
        with pytest.raises(ResendError) as refused:
            await call(change_again)
        assert (refused.value.code, refused.value.error_type) == (422, "validation_error")


async def test_rescheduled_email_leaves_once_at_its_new_time(drop_in: DropIn, clock: ManualClock) -> None:
    email_id = (await call(resend.Emails.send, an_email(scheduled_at="in 3 days")))["id"]
    await call(resend.Emails.update, {"id": email_id, "scheduled_at": "in 5 min"})
    assert await drop_in.deliver(clock) == []
    clock.advance(5 * MINUTE)
    [sent] = await drop_in.deliver(clock)
    assert sent["To"] == "Ada <ada@example.com>"
    assert (await call(resend.Emails.get, email_id))["last_event"] == "sent"
    with pytest.raises(ResendError, match="Only a waiting message"):
        await call(resend.Emails.cancel, email_id)


@pytest.mark.parametrize("wanted", ["tomorrow", "2020-01-01T08:00:00Z", "2090-01-01T08:00:00Z", "2027-01-15T08:00:00"])
async def test_invalid_send_time_changes_nothing(drop_in: DropIn, clock: ManualClock, wanted: str) -> None:
    email_id = (await call(resend.Emails.send, an_email(scheduled_at="in 1 hour")))["id"]
    with pytest.raises(ResendError, match="`scheduled_at` field"):
        await call(resend.Emails.update, {"id": email_id, "scheduled_at": wanted})
    assert [each.scheduled_at for each in await drop_in.stored()] == [clock.now() + HOUR]


async def test_email_belongs_to_its_tenant_and_needs_scopes(
    drop_in: DropIn, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    email_id = (await call(resend.Emails.send, an_email(scheduled_at="in 1 hour")))["id"]
    change = {"id": email_id, "scheduled_at": "in 2 hours"}
    calls = {
        Scope.READ: lambda: resend.Emails.get(email_id),
        Scope.MANAGE: lambda: resend.Emails.update(change) and resend.Emails.cancel(email_id),
    }
    other = await tenants.create(drop_in.engine.database, clock, "other")
    stranger = await drop_in.engine.keys.create(other.id)
    for scope, made in calls.items():
        others = await drop_in.key_with(*(each for each in ALL_SCOPES if not each.allows(scope)))
        for key, code, name in ((stranger, 404, "not_found"), (others, 403, "restricted_api_key")):
            monkeypatch.setattr(resend, "api_key", key)
            with pytest.raises(ResendError) as refused:
                await call(made)
            assert (refused.value.code, refused.value.error_type) == (code, name)
    monkeypatch.setattr(resend, "api_key", drop_in.key)
    assert (await call(resend.Emails.get, email_id))["last_event"] == "scheduled"
    with pytest.raises(ResendError):
        await call(resend.Emails.get, "no-such-email")


async def test_unknown_route_has_the_error_format_of_resend(drop_in: DropIn) -> None:
    share = partial(resend.Emails.share, "1")
    for function, error in ((resend.Emails.list, (405, "method_not_allowed")), (share, (404, "not_found"))):
        with pytest.raises(ResendError, match="does not support this route of Resend") as refused:
            await call(function)
        assert (refused.value.code, refused.value.error_type) == error


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"topic_id": "news"}, "news"),
        ({"headers": {"List-Id": "News <news.example.com>", "List-Unsubscribe": "<https://a.example/>"}}, "news"),
        ({"tags": [{"name": "list", "value": "news"}]}, "news"),
        ({"tags": [{"name": "kind", "value": "news"}]}, None),
        ({"topic_id": "other"}, "`topic_id`"),
        ({"html": "<a href='{{{RESEND_UNSUBSCRIBE_URL}}}'>Leave</a>", "topic_id": "news"}, "news"),
        ({"html": "<a href='{{{RESEND_UNSUBSCRIBE_URL}}}'>Leave</a>"}, "`topic_id`"),
    ],
)
async def test_topic_header_or_tag_names_the_list(
    drop_in: DropIn, fields: dict[str, Any], expected: str | None
) -> None:
    await lists.create(drop_in.engine.database, drop_in.engine.clock, 1, "news", actor="test")
    body = {"from": "shop@example.com", "to": "ada@example.com", "subject": "x", "html": "<p>x</p>", **fields}
    async with httpx.AsyncClient(base_url=drop_in.url, headers={"Authorization": f"Bearer {drop_in.key}"}) as client:
        answer = await client.post("/emails", json=body)
    stored = await drop_in.stored()
    if expected in ("news", None):
        assert answer.status_code == 200, answer.text
        assert [each.list_key for each in stored] == [expected]
        assert "RESEND_UNSUBSCRIBE_URL" not in str(stored[0].payload)
    else:
        assert answer.status_code == 422
        assert expected in answer.json()["message"]
        assert stored == []


async def test_type_of_an_attachment_follows_from_its_name(drop_in: DropIn) -> None:
    body: dict[str, Any] = an_email()
    body["attachments"] = [{"filename": "bill.pdf", "content": "JVBERg=="}]
    async with httpx.AsyncClient(base_url=drop_in.url, headers={"Authorization": f"Bearer {drop_in.key}"}) as client:
        assert (await client.post("/emails", json=body)).status_code == 200
    [message] = await drop_in.stored()
    assert [each["contentType"] for each in message.payload["attachments"]] == ["application/pdf"]
