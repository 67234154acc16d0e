"""Apply frequency caps: begin a bulk message only if its recipient has received fewer bulk emails than the cap allows.

The check runs in the transaction that begins the attempts, under a lock for each recipient. So the cap is exact with
any number of workers, and needs no Valkey.
"""

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from mailwright.domain.clock import DAY, SECOND, Instant
from mailwright.domain.frequency import MAX_DAYS, CapReached, FrequencyCap
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Admitted
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

LOCK_RECIPIENTS = statement(__package__, "lock_recipients")
RECENT_BULK_SENDS = statement(__package__, "recent_bulk_sends")
ADD_BULK_SENDS = statement(__package__, "add_bulk_sends")
DELETE_BULK_SENDS = statement(__package__, "delete_bulk_sends")
DELETE_UNSENT_BULK_SENDS = statement(__package__, "delete_unsent_bulk_sends")

# Sends are kept a little longer than the longest period of a cap.
KEPT_FOR: Final[Instant] = (MAX_DAYS + 1) * DAY
# When to check again whether a provider rejected a message in flight. A draining worker waits this long.
IN_FLIGHT_WAIT: Final[Instant] = SECOND


@dataclass(frozen=True, slots=True)
class _Send:
    at: Instant
    is_in_flight: bool


async def reached_caps(tx: Runner, next_up: Sequence[Admitted], now: Instant) -> dict[int, CapReached]:
    """Return the messages whose recipients may not receive them yet, by message key. Earlier messages come first.

    A message in flight counts towards the cap, but only certain sends decide how long another message waits.
    """
    capped = [(message.claimed, message.frequency_cap) for message in next_up if message.frequency_cap is not None]
    if not capped:
        return {}
    sends: dict[tuple[int, str], dict[int, _Send]] = {(one.tenant_id, one.to_email): {} for one, _ in capped}
    numbers = sorted({_lock(tenant_id, email) for tenant_id, email in sends})
    await tx.run(LOCK_RECIPIENTS, recipients=[(number,) for number in numbers])
    since = now - max(cap.window for cap in {cap for _, cap in capped})
    recent = await tx.run(RECENT_BULK_SENDS, recipients=list(sends), since=since)
    if not recent and len(sends) == len(capped):
        return {}  # Each recipient gets one message and has received none.
    for row in recent:
        sends[row.tenant_id, row.email][row.message_key] = _Send(row.sent_at, bool(row.is_in_flight))
    reached: dict[int, CapReached] = {}
    for claimed, cap in capped:
        others = sends[claimed.tenant_id, claimed.to_email]
        earlier = [send for key, send in others.items() if key != claimed.message_key]
        if free_at(cap, [send.at for send in earlier], now) is None:
            others[claimed.message_key] = _Send(now, is_in_flight=True)
            continue
        until = free_at(cap, [send.at for send in earlier if not send.is_in_flight], now)
        reached[claimed.message_key] = CapReached(now + IN_FLIGHT_WAIT if until is None else until, cap)
    return reached


def free_at(cap: FrequencyCap, sends: Sequence[Instant], now: Instant) -> Instant | None:
    """Return when the next bulk email may be sent after these sends; None if now."""
    recent = sorted(at for at in sends if at > now - cap.window)
    return None if len(recent) < cap.limit else recent[-cap.limit] + cap.window


async def record_sends(tx: Runner, begun: Sequence[Admitted], now: Instant) -> None:
    """Record the begun attempts of messages with a cap."""
    capped = [message.claimed for message in begun if message.frequency_cap is not None]
    rows = [(claimed.tenant_id, claimed.to_email, claimed.message_key) for claimed in capped]
    if rows:
        await tx.count(ADD_BULK_SENDS, sends=rows, now=now)


async def delete_old_sends(database: Database, now: Instant) -> None:
    await database.transact(lambda tx: tx.count(DELETE_BULK_SENDS, before=now - KEPT_FOR))


async def delete_unsent(tx: Runner, message_keys: Sequence[tuple[int]]) -> None:
    """Delete the sends of messages that are about to be deleted and that nobody received."""
    await tx.count(DELETE_UNSENT_BULK_SENDS, keys=message_keys)


def _lock(tenant_id: int, email: str) -> int:
    """Return a number for the recipient. Two recipients with the same number only wait for each other."""
    return (tenant_id << 32 & 2**62 - 1) | crc32(email.encode())
