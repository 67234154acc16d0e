"""The ledger counts permits against limits. A permit is reserved before a send and returned if unused.

The database has the authoritative counts. With Valkey, workers reserve a block of permits in the database at once and
take single permits from Valkey, so that they do not queue for one row. No limit is exceeded if Valkey is down, slow or
flushed. At worst, the rest of one block stays unused until its window ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mailwright.domain.clock import HOUR, SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.domain.permits import LimitWindow, SendRate
from mailwright.ops.logs import logger
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

OPEN_COUNTER = statement(__package__, "open_counter")
LOCK_COUNTER = statement(__package__, "lock_counter")
ADD_TO_COUNTER = statement(__package__, "add_to_counter")
OPEN_COUNTERS = statement(__package__, "open_counters")
LOCK_COUNTERS = statement(__package__, "lock_counters")
ADD_TO_COUNTERS = statement(__package__, "add_to_counters")
PEEK_COUNTERS = statement(__package__, "peek_counters")
SET_COUNTER = statement(__package__, "set_counter")
RECORD_PERMITS = statement(__package__, "record_permits")
COUNT_UNUSED_PERMITS = statement(__package__, "count_unused_permits")
DELETE_COUNTERS = statement(__package__, "delete_counters")

log = logger(__name__)

# Time that counters are kept after their windows, for permits that are returned late and in case the clock is set back.
COUNTER_RETENTION: Instant = 2 * HOUR
NEVER: Instant = 2**62
PERMIT_SEPARATOR = " "
# Slots begin at least this many milliseconds in the future, so that the attempt is recorded before its slot begins.
LEAD: Instant = 60
# A worker that owns an exact rate and has booked nothing for this long is considered gone.
TAKE_OVER: Instant = SECOND


@dataclass(frozen=True, slots=True)
class Grant:
    count: int
    blocked_by: LimitWindow | None = None  # The window that granted less than was requested.


@dataclass(frozen=True, slots=True)
class Booking:
    """Reserved start times of sends, in microseconds, and the resulting counter values.

    If another worker owns an exact rate, there are no slots. Retry at `opens_at`.
    """

    slots: tuple[int, ...]
    left_at: Mapping[str, int]
    opens_at: Instant = 0


@dataclass(frozen=True, slots=True)
class SlotSpacing:
    """The start times that the caller can use: the earliest one, and the minimum distance, in microseconds."""

    earliest_us: int = 0
    apart_us: int = 0


NO_SPACING = SlotSpacing()


class Ledger(Protocol):
    async def reserve(self, windows: Sequence[LimitWindow], wanted: int, claims: Sequence[Claimed] = ()) -> Grant:
        """Reserve as much as every window allows.

        The first of `claims` get the permits. These are returned when the lease of a message ends before its attempt.
        """
        ...

    async def reserve_each(self, wanted: Mapping[LimitWindow, int]) -> dict[LimitWindow, int]:
        """Reserve in each window as much as it allows, independently of the other windows."""
        ...

    async def give_back(self, windows: Sequence[LimitWindow], count: int) -> None: ...

    async def give_back_of(self, windows: Sequence[LimitWindow], claims: Sequence[Claimed]) -> None:
        """Return the permits of claimed messages, except of those whose lease another worker has taken over."""
        ...

    async def book(
        self,
        paces: Sequence[SendRate],
        wanted: int,
        known: Mapping[str, "RateCheckpoint"],
        spacing: SlotSpacing = NO_SPACING,
    ) -> Booking:
        """Book the next start times that all of these rates allow. No other caller gets the same start times."""
        ...

    async def release_rates(self, known: Mapping[str, "RateCheckpoint"]) -> None:
        """Give up the ownership of these rates, unless another worker has booked since."""
        ...


async def read_counters(tx: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Return the number of used permits for each counter that exists, without locking."""
    rows = await tx.run(PEEK_COUNTERS, wanted=[{"name": name} for name in names])
    return {row.name: int(row.used) for row in rows}


class DatabaseLedger:
    """Counters as rows of the database. Used alone, or as the base of the Valkey ledger."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def reserve(self, windows: Sequence[LimitWindow], wanted: int, claims: Sequence[Claimed] = ()) -> Grant:
        """Reserve as much as every window allows, in one transaction."""
        if not windows:
            return Grant(wanted)
        async with self._database.write() as tx:
            await self._take_turns(tx, windows)
            states = {window.name: await self._state(tx, window) for window in _in_order(windows)}
            tightest = min(windows, key=lambda window: states[window.name].free)
            count = max(0, min(wanted, states[tightest.name].free))
            if count:
                await self._add(tx, windows, count)
                await _record(tx, windows, claims[:count])
        if count == wanted:
            return Grant(count)
        return Grant(count, replace(tightest, deferred_until=states[tightest.name].opens_at))

    async def reserve_each(self, wanted: Mapping[LimitWindow, int]) -> dict[LimitWindow, int]:
        """Reserve in many windows with few statements, because a claim can have messages to a hundred domains.

        Lock the related counters as well, to wait for transactions that still add to them.
        """
        if not wanted:
            return {}
        ends = {other.name: other.until for window in wanted for other in window.related}
        ends |= {window.name: window.ends_at for window in wanted}
        names = [{"name": name, "expires_at": ends_at + COUNTER_RETENTION} for name, ends_at in ends.items()]
        async with self._database.write() as tx:
            await tx.run(OPEN_COUNTERS, wanted=names)
            used = {row.name: row.used for row in await tx.run(LOCK_COUNTERS, wanted=names)}
            granted = {
                window: max(0, min(count, state_of(window, used[window.name], used).free))
                for window, count in wanted.items()
            }
            added = [{"name": window.name, "count": count} for window, count in granted.items() if count]
            if added:
                await tx.run(ADD_TO_COUNTERS, added=added)
        return granted

    async def give_back(self, windows: Sequence[LimitWindow], count: int) -> None:
        async with self._database.write() as tx:
            await self._add(tx, windows, -count)

    async def give_back_of(self, windows: Sequence[LimitWindow], claims: Sequence[Claimed]) -> None:
        async with self._database.write() as tx:
            if count := await tx.count(RECORD_PERMITS, claims=_fences(claims), permits=None):
                await self._add(tx, windows, -count)

    async def record(self, windows: Sequence[LimitWindow], claims: Sequence[Claimed]) -> None:
        """Record the permits of messages that were reserved in advance."""
        async with self._database.write() as tx:
            await _record(tx, windows, claims)

    async def book(
        self,
        paces: Sequence[SendRate],
        wanted: int,
        known: Mapping[str, "RateCheckpoint"],
        spacing: SlotSpacing = NO_SPACING,
    ) -> Booking:
        """Book slots in the database.

        A counter holds the next start time in half microseconds; an odd value means that a worker owns the rate.
        """
        ordered = sorted(paces, key=lambda pace: pace.name)
        async with self._database.write() as tx:
            rates = [_RateBooking(pace, await self._next(tx, pace), known.get(pace.name)) for pace in ordered]
            now = self._clock.now()
            if (others := max(rate.owned_until(now) for rate in rates)) > now:
                return Booking((), {}, others)
            slots = _next_slots(rates, wanted, (now + LEAD) * 1_000, spacing)
            left_at = {rate.pace.name: rate.encoded() for rate in rates}
            for rate in rates:
                expires_at = rate.next_us // 1_000 + COUNTER_RETENTION
                await tx.run(SET_COUNTER, name=rate.pace.name, used=left_at[rate.pace.name], expires_at=expires_at)
        return Booking(slots, left_at)

    async def release_rates(self, known: Mapping[str, "RateCheckpoint"]) -> None:
        async with self._database.write() as tx:
            for name in sorted(known):
                rows = await tx.run(LOCK_COUNTER, name=name)
                if rows and int(rows[0].used) == known[name].left_at:
                    next_us = known[name].next_us
                    await tx.run(
                        SET_COUNTER, name=name, used=2 * next_us, expires_at=next_us // 1_000 + COUNTER_RETENTION
                    )

    async def _next(self, tx: Transaction, pace: SendRate) -> int:
        await tx.run(OPEN_COUNTER, name=pace.name, expires_at=self._clock.now() + COUNTER_RETENTION)
        return int((await tx.run(LOCK_COUNTER, name=pace.name))[0].used)

    async def forget_expired(self) -> None:
        async with self._database.write() as tx:
            await tx.run(DELETE_COUNTERS, now=self._clock.now())

    async def _take_turns(self, tx: Transaction, windows: Sequence[LimitWindow]) -> None:
        """Lock the names, because a counter row that a concurrent transaction has created cannot be seen or locked."""
        for name in sorted({window.lock_name for window in windows if window.lock_name is not None}):
            await tx.run(OPEN_COUNTER, name=name, expires_at=NEVER)
            await tx.run(LOCK_COUNTER, name=name)

    async def _state(self, tx: Transaction, window: LimitWindow) -> "_State":
        await tx.run(OPEN_COUNTER, name=window.name, expires_at=window.ends_at + COUNTER_RETENTION)
        used = int((await tx.run(LOCK_COUNTER, name=window.name))[0].used)
        if not window.related:
            return _State(window.limit - used, window.deferred_until)
        return state_of(window, used, await read_counters(tx, [related.name for related in window.related]))

    async def _add(self, tx: Transaction, windows: Sequence[LimitWindow], count: int) -> None:
        for window in _in_order(windows):
            await tx.run(ADD_TO_COUNTER, name=window.name, count=count)


async def _record(tx: Transaction, windows: Sequence[LimitWindow], claims: Sequence[Claimed]) -> None:
    if claims:
        await tx.count(RECORD_PERMITS, claims=_fences(claims), permits=join_permits(windows))


def join_permits(windows: Iterable[LimitWindow]) -> str:
    """Return the names of counters as they are stored with a message. Each is enclosed by the separator."""
    return PERMIT_SEPARATOR + PERMIT_SEPARATOR.join(sorted({window.name for window in windows})) + PERMIT_SEPARATOR


def split_permits(stored: str) -> list[str]:
    return stored.strip(PERMIT_SEPARATOR).split(PERMIT_SEPARATOR)


async def count_unused(tx: Transaction, name: str) -> int:
    """Return how many permits of a counter are reserved for messages whose attempts have not begun."""
    pattern = f"%{PERMIT_SEPARATOR}{name}{PERMIT_SEPARATOR}%"
    [row] = await tx.run(COUNT_UNUSED_PERMITS, pattern=pattern)
    return int(row.unused)


def _fences(claims: Sequence[Claimed]) -> list[dict[str, int]]:
    return [{"message_key": claimed.message_key, "claim_token": claimed.claim_token} for claimed in claims]


@dataclass(frozen=True, slots=True)
class RateCheckpoint:
    """A worker's state of a rate that it owns: the last counter value, and the actual next start time."""

    left_at: int
    next_us: int


class _RateBooking:
    """The state of a send rate during booking: the start of its next batch, and the free places in the current one."""

    def __init__(self, pace: SendRate, counter: int, known: RateCheckpoint | None) -> None:
        self.pace = pace
        self._is_ours = known is not None and known.left_at == counter
        self._is_owned = counter % 2 == 1
        self.next_us = counter // 2
        if self._is_ours and known is not None:
            # Only the owner of an exact rate knows which booked slots it has not used.
            self.next_us = known.next_us if pace.is_exact else max(self.next_us, known.next_us)
        self._batch_at = 0
        self._left = 0

    def owned_until(self, now: Instant) -> Instant:
        """Return the time until which another worker owns this exact rate, or 0 if none does."""
        if self._is_ours or not (self.pace.is_exact and self._is_owned) or self._is_of_another_time(now):
            return 0
        return self.next_us // 1_000 + TAKE_OVER

    def earliest(self, slot: int) -> int:
        """Return this slot if it has room, otherwise the next slot that does."""
        return slot if self._is_in_batch(slot) and self._left else max(slot, self.next_us)

    def take(self, slot: int) -> None:
        """Book one message at this time.

        A batch ends one interval after its start, because other rates may spread its messages over the interval.
        """
        if not self._is_in_batch(slot):
            self._batch_at, self._left = slot, self.pace.batch_size
            self.next_us = slot + self.pace.interval_us
        self._left -= 1

    def reset_if_far_ahead(self, now: Instant) -> None:
        """Reset the next slot if it is too far ahead. No worker books that far, so the clock was set back."""
        if self._is_of_another_time(now):
            self.next_us = now * 1_000 + self.pace.interval_us

    def encoded(self) -> int:
        return 2 * self.next_us + (1 if self.pace.is_exact else 0)

    def _is_in_batch(self, slot: int) -> bool:
        return self._batch_at <= slot < self._batch_at + self.pace.interval_us

    def _is_of_another_time(self, now: Instant) -> bool:
        return self.next_us > now * 1_000 + 2 * self.pace.interval_us + 10 * SECOND * 1_000


def _next_slots(rates: Sequence[_RateBooking], wanted: int, earliest: int, spacing: SlotSpacing) -> tuple[int, ...]:
    slots = []
    slot = max(earliest, spacing.earliest_us)
    for rate in rates:
        rate.reset_if_far_ahead(earliest // 1_000)
    for _ in range(wanted):
        while (later := max(rate.earliest(slot) for rate in rates)) > slot:
            slot = later
        for rate in rates:
            rate.take(slot)
        slots.append(slot)
        slot += spacing.apart_us
    return tuple(slots)


@dataclass(frozen=True, slots=True)
class _State:
    free: int
    opens_at: Instant  # The time when a full window has room again.


def state_of(window: LimitWindow, used: float, beside: Mapping[str, float]) -> _State:
    """Compute the free permits of a window. A full window has room again when the first related counter expires."""
    counted = [other for other in window.related if beside.get(other.name, 0) > 0]
    free = window.limit - int(used + sum(beside[other.name] for other in counted))
    return _State(free, min([window.deferred_until, *(other.until for other in counted)]))


def _in_order(windows: Sequence[LimitWindow]) -> list[LimitWindow]:
    """Sort windows by name, so that workers lock counters in the same order and never deadlock.

    If two rules share a window, it is counted once.
    """
    return sorted({window.name: window for window in windows}.values(), key=lambda window: window.name)
