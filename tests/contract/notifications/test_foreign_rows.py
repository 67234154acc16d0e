"""Rows as other programs really write them: nulls, spaces, capitals, offsets, other channels and broken triggers."""

from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path

import orjson
import pytest
from sqlalchemy import select, text

from mailwright.app.notification_queue import make_fanout
from mailwright.domain.clock import DAY, HOUR, ManualClock, isoformat
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.storage.tables import messages
from tests.notifications import PLACES, QueueSetup, a_queue_setup_at
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("notify-foreign-rows")


@pytest.fixture(params=PLACES)
async def setup(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[QueueSetup]:
    async with a_queue_setup_at(request.param, request, tmp_path, clock) as setup:
        yield setup


def html_of(message: OutgoingMessage) -> str:
    body = message_from_bytes(message.content, policy=policy.default).get_body(("html",))
    assert body is not None
    return unescape(body.get_content())


async def test_null_means_absent(setup: QueueSetup) -> None:
    nothing = {"notifyOn": None, "maxNotifications": None, "deliveryWindow": None, "snoozeUntil": None}
    await setup.owner.notification(preferences=nothing)
    await setup.owner.notification(preferences={"deliveryWindow": {"startMinutes": None, "endMinutes": None}})
    await setup.owner.notification(subscription={"metadata": '{"name": null, "preferences": null}'})
    payload = '{"eventType": null, "version": null, "courseTitle": "Data", "sectionNumber": "01", "notes": null}'
    await setup.owner.notification(event={"payload": payload})
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 4}


async def test_status_words_ignore_case_and_spaces(setup: QueueSetup) -> None:
    reader = {"status": "Active ", "contact_type": " EMAIL"}
    for before in ("CLOSED", " closed ", "wait", None):
        await setup.owner.notification(event={"status_before": before, "status_after": "OPEN "}, subscription=reader)
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 4}


async def test_pending_rows_are_claimed_in_any_spelling(setup: QueueSetup) -> None:
    for status in ("PENDING", " Pending", "pending  "):
        await setup.owner.notification(fanout_status=status)
    await setup.owner.notification()
    await setup.owner.notification(fanout_status="Sent")
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 4, "Sent": 1}
    assert await setup.queue.count_by_status() == {"sent": 5}
    assert len(await setup.queue.newest(status="sent", before=1_000, limit=10)) == 5


async def test_numbers_and_texts_are_exchangeable(setup: QueueSetup) -> None:
    await setup.owner.notification(payload={"sectionNumber": 7, "courseTitle": 101})
    window = {"startMinutes": "0", "endMinutes": "0"}
    await setup.owner.notification(preferences={"maxNotifications": " 3 ", "deliveryWindow": window})
    provider = ScriptedProvider()
    await setup.round(provider)
    assert await setup.owner.statuses() == {"sent": 2}
    assert "101" in html_of(provider.messages[0])


async def test_used_up_row_without_an_error_gets_one(setup: QueueSetup) -> None:
    number = await setup.owner.notification(fanout_attempts=9)
    before = await setup.owner.notification(fanout_attempts=9, error='{"code": "OTHER"}')
    await setup.round(ScriptedProvider())
    assert (await setup.owner.error(number))["code"] == "MAX_ATTEMPTS_EXCEEDED"
    assert (await setup.owner.error(before))["code"] == "OTHER"


async def test_ended_rows_are_requeued_in_any_spelling(setup: QueueSetup) -> None:
    numbers = [await setup.owner.notification(fanout_status=status) for status in ("FAILED", " skipped ", "Sent")]
    assert await setup.queue.requeue(numbers) == set(numbers[:2])


async def test_only_an_opening_is_announced(setup: QueueSetup) -> None:
    changes = [("Open", "CLOSED"), ("Open", "Wait"), ("Open", "Open"), ("Closed", "?")]
    events = [{"status_before": before, "status_after": after} for before, after in changes]
    numbers = [await setup.owner.notification(event=event) for event in events]
    provider = ScriptedProvider()
    await setup.round(provider)
    assert provider.messages == []
    for number, event in zip(numbers, events, strict=True):
        assert (await setup.owner.row(number)).fanout_status == "skipped", event
        assert (await setup.owner.error(number))["code"] == "STATUS_NOT_ANNOUNCED", event


async def test_event_without_a_new_status_is_never_announced(setup: QueueSetup) -> None:
    events = [{"status_after": after} for after in ("", "  ", "\n", None)]
    numbers = [await setup.owner.notification(event=event) for event in events]
    provider = ScriptedProvider()
    await setup.round(provider)
    assert provider.messages == []
    for number, event in zip(numbers, events, strict=True):
        error = await setup.owner.error(number)
        assert (error["code"], error["path"]) == ("INVALID_PAYLOAD", "/event/statusAfter"), event


async def test_spaces_and_blank_values_stop_no_notification(setup: QueueSetup) -> None:
    window = {"startMinutes": 0.0, "endMinutes": 0}
    for wanted in (
        {"notifyOn": [" Open ", " "]},
        {"timezone": " Europe/Lisbon ", "deliveryWindow": window},
        {"timezone": " ", "snoozeUntil": "", "maxNotifications": " ", "deliveryWindow": "", "notifyOn": ""},
        {"maxNotifications": 3.0},
        {"snoozeUntil": "2020-01-01"},
        {"snoozeUntil": " 2020-01-01 10:00 "},
    ):
        await setup.owner.notification(preferences=wanted)
    await setup.owner.notification(preferences={"notifyOn": ["open"]}, event={"status_after": " OPEN "})
    await setup.owner.notification(subscription={"metadata": " "})
    await setup.owner.notification(payload={"eventType": " Open-Seat "})
    await setup.owner.notification(payload={"eventType": " "})
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 10}


async def test_blank_payload_is_absent(setup: QueueSetup) -> None:
    number = await setup.owner.notification(event={"payload": " "})
    await setup.round(ScriptedProvider())
    assert (await setup.owner.error(number))["code"] == "MISSING_VARIABLE"


async def test_unsubscribe_token_is_trimmed(setup: QueueSetup) -> None:
    tokens = {"a@example.com": " tok \n", "b@example.com": " \n", "c@example.com": ""}
    for email, token in tokens.items():
        await setup.owner.notification(subscription={"unsubscribe_token": token, "contact_value": email})
    provider = ScriptedProvider()
    await setup.round(provider)
    sent = [message_from_bytes(message.content, policy=policy.default) for message in provider.messages]
    assert sorted(str(headers["To"]) for headers in sent) == sorted(tokens)
    for headers in sent:
        is_one_click = bool(tokens[str(headers["To"])].strip())
        assert ("List-Unsubscribe-Post" in headers) == is_one_click
        assert ("unsubscribe?token=tok>" in str(headers["List-Unsubscribe"])) == is_one_click


async def test_links_and_addresses_are_encoded(setup: QueueSetup) -> None:
    reader = {"unsubscribe_token": "a&b#c d/é", "contact_value": "  reader@bücher.example \n"}
    await setup.owner.notification(subscription=reader)
    provider = ScriptedProvider()
    await setup.round(provider)
    [message] = provider.messages
    assert message.recipients == ("reader@xn--bcher-kva.example",)
    assert "/unsubscribe?token=a%26b%23c%20d%2F%C3%A9" in html_of(message)


async def test_other_channels_are_skipped_or_left_alone(setup: QueueSetup) -> None:
    number = await setup.owner.notification(subscription={"contact_type": "discord_channel", "contact_value": "#seats"})
    engine = setup.bench.engine
    leaving = engine.settings.model_copy(update={"notify_other_channels": "leave"})
    fanout = await make_fanout(leaving, engine.database, engine.clock, engine.templates, setup.queue, worker="leaving")
    await setup.round(ScriptedProvider(), fanout)
    row = await setup.owner.row(number)
    assert (row.fanout_status, row.locked_by, row.error) == ("pending", None, None)
    await setup.round(ScriptedProvider())
    assert (await setup.owner.row(number)).fanout_status == "skipped"


async def test_row_that_cannot_be_changed_stops_no_other(setup: QueueSetup) -> None:
    numbers = [await setup.owner.notification() for _ in range(3)]
    await refuse_changes(setup, numbers[1], column="locked_by")
    provider = ScriptedProvider()
    await setup.round(provider)
    statuses = [(await setup.owner.row(number)).fanout_status for number in numbers]
    assert statuses == ["sent", "pending", "sent"]


async def test_result_that_cannot_be_recorded_stops_no_other(setup: QueueSetup) -> None:
    numbers = [await setup.owner.notification() for _ in range(3)]
    fanout = await setup.fanout()
    await fanout.claim_due(10)
    await refuse_changes(setup, numbers[1], column="fanout_status")
    await setup.bench.drain(ScriptedProvider())
    await fanout.record_results()
    await fanout.locks.renew()
    statuses = [(await setup.owner.row(number)).fanout_status for number in numbers]
    assert statuses == ["sent", "pending", "sent"]


async def refuse_changes(setup: QueueSetup, number: int, *, column: str) -> None:
    """Create a trigger that aborts every change of one column of one row."""
    prefix = f"{setup.owner.schema}." if setup.owner.schema else ""
    table = f"{prefix}open_event_notifications"
    if setup.owner.database.dialect == "sqlite":
        statements = [
            f"CREATE TRIGGER poison BEFORE UPDATE OF {column} ON {table} WHEN NEW.notification_id = {number} "
            "BEGIN SELECT RAISE(ABORT, 'poison'); END"
        ]
    else:
        statements = [
            f"CREATE FUNCTION {prefix}poison() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'poison'; END $$",
            f"CREATE TRIGGER poison BEFORE UPDATE OF {column} ON {table} FOR EACH ROW "
            f"WHEN (NEW.notification_id = {number}) EXECUTE FUNCTION {prefix}poison()",
        ]
    async with setup.owner.database.write() as tx:
        for statement in statements:
            await tx.execute(text(statement))


async def test_last_notified_time_is_recorded(setup: QueueSetup) -> None:
    await setup.owner.notification()
    await setup.round(ScriptedProvider())
    known = setup.owner.table("subscriptions")
    async with setup.owner.database.read() as tx:
        [row] = await tx.execute(select(known.c.last_notified_at))
    assert row.last_notified_at == setup.owner.now


async def test_section_of_the_subscription_is_the_fallback(setup: QueueSetup) -> None:
    await setup.owner.insert_sections()
    await setup.owner.notification(event={"section_id": None}, payload={"courseTitle": None, "sectionNumber": None})
    provider = ScriptedProvider()
    await setup.round(provider)
    assert "01:198:112" in html_of(provider.messages[0])


async def test_locks_in_any_format_expire(setup: QueueSetup) -> None:
    """A lock time with an offset sorts later as text than its real time; an unreadable one has no time."""
    hours_ago = (isoformat(setup.clock.now() - DAY + HOUR) or "").replace("Z", "+02:00")
    later_as_text = (isoformat(setup.clock.now() + HOUR) or "").replace(".000Z", "+02:00")
    for locked_at in (hours_ago, later_as_text, "yesterday", "9999"):
        await setup.owner.notification(locked_by="theirs", locked_at=locked_at)
    await setup.round(ScriptedProvider())
    assert await setup.owner.statuses() == {"sent": 4}


async def test_undeclared_payload_fields_are_variables(setup: QueueSetup) -> None:
    await setup.owner.notification(payload={"instructor": "Ada", "seats": 3})
    await setup.round(ScriptedProvider())
    async with setup.bench.database.read() as tx:
        [row] = await tx.execute(select(messages.c.payload))
    variables = orjson.loads(row.payload)["variables"]
    assert (variables["instructor"], variables["seats"]) == ("Ada", 3)
