"""Park messages of sources that decide when each of them is sent. No worker claims a parked message."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Instant
from mailwright.domain.message import Event
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

PARK_MESSAGES = statement(__package__, "park_messages")
SET_ON_DOUBT = statement(__package__, "set_on_doubt")
RELEASE_PARKED = statement(__package__, "release_parked")
WITHDRAW_PARKED = statement(__package__, "withdraw_parked")
END_PARKED_ATTEMPTS = statement(__package__, "end_parked_attempts")

# A message with this due time is parked.
PARKED: Instant = INDEFINITELY


async def park(tx: Runner, message_keys: Iterable[int]) -> set[int]:
    """Park the messages that no worker has claimed; return their keys."""
    rows = _rows(message_keys)
    return {row.message_key for row in await tx.run(PARK_MESSAGES, given=rows, parked=PARKED)} if rows else set()


async def release_parked(tx: Runner, released: Mapping[int, OnDoubt], now: Instant) -> None:
    """Release messages, and decide for each what happens if its next attempt is in doubt."""
    if rows := _rows(released):
        decisions = [{"message_key": key, "on_doubt": on_doubt.value} for key, on_doubt in released.items()]
        await tx.run(SET_ON_DOUBT, decisions=decisions)
        await tx.run(RELEASE_PARKED, released=rows, now=now, parked=PARKED)


async def withdraw_parked(tx: Runner, message_keys: Iterable[int], now: Instant, *, reason: str) -> None:
    """Cancel parked messages."""
    if not (ended := _rows(message_keys)):
        return
    rows = await tx.run(WITHDRAW_PARKED, ended=ended, parked=PARKED)
    cancelled = Event(EventType.CANCELLED, now, {"previousStatus": "parked", "message": reason})
    if rows:
        await append_events(tx, [event_row(row.message_key, row.tenant_id, cancelled) for row in rows])


async def end_parked_attempts(tx: Runner, ended: Sequence[tuple[str, Instant | None]], now: Instant) -> None:
    """Park messages that will be retried, and fail those with a time of failure. `ended` holds their outbox ids."""
    given = [{"outbox_id": outbox_id, "failed_at": failed_at} for outbox_id, failed_at in ended]
    rows = await tx.run(END_PARKED_ATTEMPTS, ended=given, parked=PARKED)
    failed = [
        event_row(row.message_key, row.tenant_id, _failed(row, now)) for row in rows if row.status == Status.FAILED
    ]
    if failed:
        await append_events(tx, failed)


def _failed(row: Any, now: Instant) -> Event:
    metadata = {
        "attempt": row.attempts,
        "errorCode": "MAX_ATTEMPTS_EXCEEDED",
        "errorMessage": f"The queue allows no further attempts. Last error: {row.error_code}: {row.error_reason}",
        "willRetry": False,
    }
    return Event(EventType.FAILED, now, metadata)


def _rows(message_keys: Iterable[int]) -> list[dict[str, int]]:
    return [{"message_key": key} for key in message_keys]
