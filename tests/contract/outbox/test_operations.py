"""Actions on messages are atomic and depend on the state, on both engines."""

import asyncio

import pytest

from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.message import Claimed, Event, Settlement
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType, Resolution, Status
from mailwright.outbox import message_records
from mailwright.outbox.audit import audit
from mailwright.outbox.operations import Operations
from mailwright.storage.database import Database
from tests.builders import a_message, a_settler, an_acceptor, claims_of


async def accepted(database: Database, clock: ManualClock, **changes: object) -> str:
    [answer] = await an_acceptor(database, clock).accept([a_message(**changes)])
    return answer.outbox_id


async def begun(database: Database, clock: ManualClock, **changes: object) -> tuple[str, Claimed]:
    """Create a message whose attempt has begun."""
    outbox_id = await accepted(database, clock, **changes)
    [claimed] = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], [claimed])
    return outbox_id, claimed


def failed(claimed: Claimed, now: int) -> Settlement:
    return Settlement(
        claimed,
        Status.FAILED,
        (Event(EventType.FAILED, now, {"attempt": claimed.attempt}),),
        completes_attempt=True,
        error_code="MAX_ATTEMPTS_EXCEEDED",
        error_category=ErrorCategory.TRANSIENT,
        error_reason="Nobody answered.",
        is_dead_letter=True,
    )


async def a_failed_message(database: Database, clock: ManualClock) -> str:
    outbox_id, claimed = await begun(database, clock)
    await a_settler(database, clock).exchange([failed(claimed, clock.now())], [])
    return outbox_id


async def a_message_in_doubt(database: Database, clock: ManualClock, **changes: object) -> tuple[str, Claimed]:
    outbox_id, claimed = await begun(database, clock, **changes)
    doubt = Settlement(
        claimed, Status.IN_DOUBT, (), completes_attempt=True, due_at=clock.now() + 10 * MINUTE, provider="smtp"
    )
    await a_settler(database, clock).exchange([doubt], [])
    return outbox_id, claimed


async def story(database: Database, outbox_id: str) -> tuple[str, list[str]]:
    record = await message_records.find(database, outbox_id, tenant_id=1)
    return record.summary.status, [event.type for event in record.events]


async def test_cancelled_message_is_never_sent(database: Database, clock: ManualClock) -> None:
    outbox_id = await accepted(database, clock)
    assert await Operations(database, clock).cancel(outbox_id, tenant_id=1) is Status.CANCELLED
    assert await claims_of(database, clock).claim(10) == []
    assert await story(database, outbox_id) == (Status.CANCELLED, [EventType.CANCELLED])
    assert (await audit(database)).ok


async def test_worker_cannot_send_a_claimed_message_after_cancel(database: Database, clock: ManualClock) -> None:
    outbox_id = await accepted(database, clock)
    held = await claims_of(database, clock).claim(10)
    await Operations(database, clock).cancel(outbox_id, tenant_id=1)
    begun = await a_settler(database, clock).exchange([failed(held[0], clock.now())], held)
    assert begun.message_keys == frozenset()
    assert await story(database, outbox_id) == (Status.CANCELLED, [EventType.CANCELLED])


async def test_message_in_flight_cannot_be_cancelled(database: Database, clock: ManualClock) -> None:
    outbox_id, _ = await begun(database, clock)
    with pytest.raises(NotPossibleNow, match="SENT_ATTEMPT"):
        await Operations(database, clock).cancel(outbox_id, tenant_id=1)
    assert await story(database, outbox_id) == (Status.SENT_ATTEMPT, [])


async def test_concurrent_cancel_and_send_have_one_winner(database: Database, clock: ManualClock) -> None:
    for _ in range(10):
        outbox_id = await accepted(database, clock)
        held = await claims_of(database, clock).claim(1)
        cancelling, begun = await asyncio.gather(
            Operations(database, clock).cancel(outbox_id, tenant_id=1),
            a_settler(database, clock).exchange([], held),
            return_exceptions=True,
        )
        assert not isinstance(begun, BaseException)
        assert isinstance(cancelling, NotPossibleNow) == bool(begun.message_keys)


@pytest.mark.promise("dead-letter")
async def test_retried_dead_letter_gets_all_attempts(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_failed_message(database, clock)
    assert [dead_letter.outbox_id for dead_letter in await message_records.dead_letters(database, 1, limit=10)] == [
        outbox_id
    ]
    assert await Operations(database, clock).requeue(outbox_id, tenant_id=1) is Status.PENDING
    assert await message_records.dead_letters(database, 1, limit=10) == []
    record = await message_records.find(database, outbox_id, tenant_id=1)
    assert (record.summary.status, record.summary.attempts, record.summary.error_code) == (Status.PENDING, 0, None)
    assert record.events[-1].type is EventType.REQUEUED
    assert record.events[-1].metadata == {"previousAttempts": 1, "previousErrorCode": "MAX_ATTEMPTS_EXCEEDED"}
    [claimed] = await claims_of(database, clock).claim(10)
    assert claimed.attempt == 1
    assert (await audit(database)).ok


@pytest.mark.promise("dead-letter")
async def test_only_failed_messages_can_be_retried(database: Database, clock: ManualClock) -> None:
    outbox_id = await accepted(database, clock)
    with pytest.raises(NotPossibleNow, match="PENDING"):
        await Operations(database, clock).requeue(outbox_id, tenant_id=1)


@pytest.mark.promise("dead-letter")
async def test_concurrent_retries_requeue_once(database: Database, clock: ManualClock) -> None:
    outbox_id = await a_failed_message(database, clock)
    operations = Operations(database, clock)
    answers = await asyncio.gather(
        *(operations.requeue(outbox_id, tenant_id=1) for _ in range(5)), return_exceptions=True
    )
    assert sum(answer is Status.PENDING for answer in answers) == 1
    _, events = await story(database, outbox_id)
    assert events.count(EventType.REQUEUED) == 1


@pytest.mark.promise("doubt-hold")
@pytest.mark.parametrize(
    ("resolution", "status", "event"),
    [
        (Resolution.SENT, Status.SENT, EventType.SENT),
        (Resolution.RESEND, Status.RETRY_SCHEDULED, EventType.REQUEUED),
        (Resolution.CLOSE, Status.CLOSED_UNKNOWN, EventType.CLOSED_UNKNOWN),
    ],
)
async def test_operator_resolves_a_message_in_doubt(
    database: Database, clock: ManualClock, resolution: Resolution, status: Status, event: EventType
) -> None:
    outbox_id, claimed = await a_message_in_doubt(database, clock)
    attempted_at = clock.now()
    clock.advance(MINUTE)
    assert await Operations(database, clock).resolve(outbox_id, resolution, tenant_id=1) is status
    record = await message_records.find(database, outbox_id, tenant_id=1)
    assert (record.summary.status, record.events[-1].type) == (status, event)
    assert record.events[-1].metadata == {"resolvedBy": "operator", "as": resolution}
    assert record.summary.sent_at == (attempted_at if resolution is Resolution.SENT else None)
    figures = await audit(database)
    assert figures.ok
    assert figures.resent_in_doubt == int(resolution is Resolution.RESEND)
    again = await claims_of(database, clock).claim(10)
    assert [message.outbox_id for message in again] == ([outbox_id] if resolution is Resolution.RESEND else [])
    assert claimed.outbox_id == outbox_id


@pytest.mark.promise("doubt-hold")
async def test_expired_message_in_doubt_cannot_be_resent(database: Database, clock: ManualClock) -> None:
    outbox_id, _ = await a_message_in_doubt(database, clock, expires_at=clock.now() + MINUTE)
    clock.advance(MINUTE)
    with pytest.raises(NotPossibleNow, match="expired"):
        await Operations(database, clock).resolve(outbox_id, Resolution.RESEND, tenant_id=1)
    assert (await story(database, outbox_id))[0] == Status.IN_DOUBT


@pytest.mark.promise("doubt-hold")
async def test_only_messages_in_doubt_can_be_resolved(database: Database, clock: ManualClock) -> None:
    outbox_id = await accepted(database, clock)
    for resolution in Resolution:
        with pytest.raises(NotPossibleNow, match="PENDING"):
            await Operations(database, clock).resolve(outbox_id, resolution, tenant_id=1)


@pytest.mark.promise("tenant-isolation")
@pytest.mark.parametrize("outbox_id", [None, "01a1dce8-30b8-745e-9adf-a067f60952fb", "nonsense", "a\0b"])
async def test_messages_of_other_tenants_are_not_found(
    database: Database, clock: ManualClock, outbox_id: str | None
) -> None:
    wanted = outbox_id or await accepted(database, clock)
    operations = Operations(database, clock)
    for act in (
        operations.cancel(wanted, tenant_id=2),
        operations.requeue(wanted, tenant_id=2),
        operations.resolve(wanted, Resolution.CLOSE, tenant_id=2),
    ):
        with pytest.raises(NotFound):
            await act


async def test_console_operator_reaches_every_tenant(database: Database, clock: ManualClock) -> None:
    outbox_id = await accepted(database, clock)
    assert await Operations(database, clock).cancel(outbox_id, tenant_id=None) is Status.CANCELLED
    assert (await message_records.find(database, outbox_id, tenant_id=None)).tenant == "default"
