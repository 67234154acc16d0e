"""Resend's own SDK against Mailwright."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
import resend
from resend.exceptions import ResendError

from mailwright.access.roles import Scope
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock, isoformat
from tests.api import socket_client
from tests.dropin import PNG, DropIn

pytestmark = pytest.mark.promise("drop-in-resend")


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
        ("application/octet-stream", None),
        ("application/octet-stream", None),
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
