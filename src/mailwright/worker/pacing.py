"""Hold paced messages until their send time: begin each attempt shortly before it, and send exactly at it.

Workers book send times in the ledger, a few ahead, so that no two workers get the same one. Only one worker at a time
uses an exact rate, because the next send time depends on the actual start of its last send.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, inf
from time import perf_counter

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.domain.permits import PacingRules
from mailwright.outbox.ledger import LEAD, TAKE_OVER, Ledger, SlotSpacing
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.policies.pacing import GRACE
from mailwright.worker.rates_in_use import RatesInUse, SendTime
from mailwright.worker.send_cycles import SendCycles

# An attempt begins this long before its send time, which is slightly more than the minimum lead of a booking.
NEAR: Instant = LEAD + 20
# A clock that has not moved for this many seconds is stopped (as in tests), so waiting for a send time is useless.
STILL_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.06
# Timers fire late, so the worker polls during the last millisecond.
TIMER_SECONDS = 0.001
RESENDS = "resends"


@dataclass(slots=True)
class _Booked(SendTime):
    """A message with its send time."""

    ready: ReadyMessage
    latest: float
    booked_at: Instant

    @property
    def pacing(self) -> PacingRules:
        return _pacing(self.ready)

    @property
    def lane(self) -> int:
        return self.ready.claimed.lane

    def is_near(self, now: Instant, real: float) -> bool:
        if now == self.booked_at:  # The clock is stopped, so the send time does not come nearer.
            return self.time_us - now * 1_000 <= NEAR * 1_000
        return self.starts_at - real <= NEAR / 1_000

    def is_late(self, now: Instant, start: float) -> bool:
        """Return whether a send at `start` would be too late. It never is while the clock is stopped."""
        return start > self.latest and now != self.booked_at


@dataclass(frozen=True, slots=True)
class _Missed:
    """A message whose send time passed while its attempt was recorded."""

    booked: _Booked
    start: Callable[[], bool]
    miss: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Stranded:
    """Messages of a lane that get no send time from this worker, and when the worker claims from the lane again."""

    messages: list[ReadyMessage]
    lane: int
    until: Instant
    is_kept_elsewhere: bool = False  # Another worker uses the exact rate.


class Timer:
    """The monotonic clock and timers of this process."""

    def seconds(self) -> float:
        return perf_counter()

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call the function after this time; in the next iteration of the event loop if it is 0 or less."""
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, action) if seconds > 0 else loop.call_soon(action)


class Pacing:
    def __init__(self, clock: Clock, ledger: Ledger, timer: Timer | None = None) -> None:
        self._clock = clock
        self._ledger = ledger
        self._timer = timer or Timer()
        self._rates = RatesInUse()
        self._cycles = SendCycles()
        self._lanes: dict[int, deque[ReadyMessage]] = {}  # Messages without a send time yet, by lane.
        self._booked: deque[_Booked] = deque()
        self._begun: dict[
            int, _Booked
        ] = {}  # Messages whose attempt has begun but whose send has not started, by message key.
        self._missed: deque[_Missed] = deque()  # Messages that need another send time after their attempt has begun.
        self._last_lane = 0
        self._clock_moved = (
            0,
            0.0,
        )  # The last time that the clock showed, and the monotonic time when it first showed it.

    def __bool__(self) -> bool:
        return bool(self._lanes or self._booked or self._missed or self._unused_rates())

    def add(self, ready: ReadyMessage) -> None:
        if ready.claimed.resends:
            # Resend one at a time, so that a message that crashes its worker does not affect another resend.
            pacing = _pacing(ready)
            ready.pacing = replace(pacing, alone=(*pacing.alone, RESENDS))
        self._lanes.setdefault(ready.claimed.lane, deque()).append(ready)

    def waiting(self) -> Iterator[ReadyMessage]:
        """Yield the messages whose attempt has not begun."""
        yield from (booked.ready for booked in self._booked)
        for queue in self._lanes.values():
            yield from queue

    def clear(self) -> list[ReadyMessage]:
        """Remove and return the messages whose attempt has not begun."""
        removed = list(self.waiting())
        for booked in reversed(self._booked):
            self._rates.count(booked.pacing, -1)
            self._rates.return_send_time(booked.pacing, booked)
            self._cycles.forget_slots(booked.pacing.alone)
        self._booked.clear()
        for queue in self._lanes.values():
            queue.clear()  # A booking in progress then finds nothing to book.
        self._lanes.clear()
        return removed

    def clear_lane(self, lane: int) -> list[ReadyMessage]:
        """Remove and return the messages of one lane whose attempt has not begun. Their send times are lost."""
        removed = [booked for booked in self._booked if booked.lane == lane]
        for booked in removed:
            self._rates.count(booked.pacing, -1)
            self._cycles.forget_slots(booked.pacing.alone)
        self._booked = deque(booked for booked in self._booked if booked.lane != lane)
        queue = self._lanes.pop(lane, deque())
        cleared = [*(booked.ready for booked in removed), *queue]
        queue.clear()  # A booking in progress then finds nothing to book.
        return cleared

    # Called by the sender.

    def has_work(self) -> bool:
        now, real = self._clock.now(), self._timer.seconds()
        is_due = any(
            booked.is_near(now, real) and not self._cycles.is_busy(booked.pacing.alone) for booked in self._booked
        )
        if self._booked and (is_due or self._is_stranded()):
            return True
        waiting = (_pacing(queue[0]) for queue in self._lanes.values())
        can_book = any(self._rates.can_book(pacing, self._cycles.apart_us(pacing)) for pacing in waiting)
        return bool(self._missed or self._unused_rates()) or can_book

    def pause_seconds(self) -> float | None:
        """Return the seconds until the next step; None if no message waits for a send time."""
        if not (self._booked or self._lanes or self._begun):
            return None
        first = next((booked for booked in self._booked if not self._cycles.is_busy(booked.pacing.alone)), None)
        if first is None:
            return LONGEST_PAUSE_SECONDS
        pause = first.starts_at - self._timer.seconds() - NEAR / 1_000
        return min(max(pause, TIMER_SECONDS), LONGEST_PAUSE_SECONDS)

    async def book(self) -> list[Stranded]:
        """Book send times for waiting messages; return the lanes that get no send time from this worker."""
        stranded = self._strand() if self._is_stranded() else []
        while self._missed:
            await self._book_again(self._missed[0])
            self._missed.popleft()
        lanes = sorted(self._lanes, key=lambda lane: (lane >> 52, lane <= self._last_lane, lane))
        for lane in lanes:
            # Another task may release messages while this one waits for the ledger.
            queue = self._lanes.get(lane)
            if queue is None:
                continue
            pacing = _pacing(queue[0])
            if not self._rates.can_book(pacing, self._cycles.apart_us(pacing)):
                continue
            self._last_lane = lane
            if not pacing.rates:
                self._book(queue.popleft(), self._clock.now() * 1_000)
            elif (opens_at := await self._book_some(queue, pacing)) is not None and queue:
                stranded.append(Stranded(list(queue), lane, opens_at, is_kept_elsewhere=True))
                queue.clear()
            if not queue and self._lanes.get(lane) is queue:
                del self._lanes[lane]
        if unused := self._unused_rates():
            checkpoints = self._rates.checkpoints
            returned = {name: checkpoints[name] for name in unused if self._rates.is_worth_returning(name)}
            if returned:
                await self._ledger.release_rates(returned)
            for name in unused:
                del checkpoints[name]
        return stranded

    def due(self) -> list[ReadyMessage]:
        """Remove and return the messages whose attempt must begin now to be sent on time.

        A message that waited too long for the previous message gets another send time.
        """
        due, now, real = [], self._clock.now(), self._timer.seconds()
        for booked in [booked for booked in self._booked if booked.is_near(now, real)]:
            if self._cycles.is_busy(booked.pacing.alone) or booked not in self._booked:
                continue
            if booked.is_late(now, max([real, *self._rates.earliest_starts(booked.pacing, booked)])):
                self._requeue(booked)
                continue
            self._booked.remove(booked)
            self._rates.count_alone(booked.pacing, -1)
            self._begun[booked.ready.claimed.message_key] = booked
            self._cycles.begin(booked.ready.claimed.message_key, booked.pacing.alone, real)
            due.append(booked.ready)
        return due

    def drop(self, claimed: Claimed) -> None:
        """Forget a message whose attempt did not begin or that will not be sent."""
        booked = self._begun.pop(claimed.message_key, None)
        if booked is not None:
            self._rates.count_rates(booked.pacing, -1)
            self._cycles.forget_begin(claimed.message_key)
            self.end(booked.ready)

    def begin(self, ready: ReadyMessage, start: Callable[[], bool], miss: Callable[[], None]) -> None:
        """Call `start` at the message's send time, never before it. If the time has passed, book another one.

        `start` returns whether the send has started; otherwise it starts in the next iteration of the event loop.
        `miss` is called if another worker uses the rate in the meantime.
        """
        booked, timer = self._begun[ready.claimed.message_key], self._timer
        began = timer.seconds()

        def note_start() -> None:
            self._rates.note_start(booked.pacing, timer.seconds())

        def check() -> None:
            now = timer.seconds()
            starts_at = max([booked.starts_at, *self._rates.earliest_starts(booked.pacing, booked)])
            if now < starts_at:
                timer.call_later(starts_at - now - TIMER_SECONDS, check)
            elif booked.is_late(self._clock.now(), now):
                self._missed.append(_Missed(booked, start, miss))
            else:
                del self._begun[ready.claimed.message_key]
                self._cycles.note_wait(ready.claimed.message_key, now - began)
                # The clock is stopped, so no time has passed.
                late_seconds = 0.0 if self._clock.now() == booked.booked_at else now - booked.starts_at
                self._rates.record_start(booked.pacing, now, late_seconds)
                if start():
                    note_start()
                else:
                    timer.call_later(0, note_start)

        check()

    def end(self, ready: ReadyMessage) -> None:
        """Record the end of a message, so that messages that wait for it can start."""
        if ready.pacing is not None:
            self._cycles.end(ready.claimed.message_key, ready.pacing.alone, self._timer.seconds())

    # Booking.

    async def _book_some(self, queue: deque[ReadyMessage], pacing: PacingRules) -> Instant | None:
        """Book send times. If another worker uses an exact rate, return when that use ends."""
        apart_us = self._cycles.apart_us(pacing)
        wanted = min(len(queue), self._rates.room(pacing, apart_us))
        spacing = SlotSpacing(self._cycles.earliest_us(pacing), apart_us)
        booking = await self._ledger.book(pacing.rates, wanted, self._rates.checkpoints, spacing)
        if not booking.slots:
            return booking.opens_at
        self._rates.remember(pacing.rates, booking)
        for time_us in booking.slots[: len(queue)]:
            self._book(queue.popleft(), time_us)
        return None

    async def _book_again(self, missed: "_Missed") -> None:
        """Book another send time for a message whose attempt has begun, so that it keeps its place."""
        ready = missed.booked.ready
        pacing, message_key = _pacing(ready), ready.claimed.message_key
        booking = await self._ledger.book(pacing.rates, 1, self._rates.checkpoints)
        if message_key not in self._begun:
            return
        if not booking.slots:
            self.drop(ready.claimed)
            missed.miss()
            return
        self._rates.remember(pacing.rates, booking)
        self._begun[message_key] = _booked(ready, booking.slots[0], self._clock.now(), self._timer.seconds())
        self.begin(ready, missed.start, missed.miss)

    def _book(self, ready: ReadyMessage, time_us: int) -> None:
        booked = _booked(ready, time_us, self._clock.now(), self._timer.seconds())
        self._booked = deque(sorted([*self._booked, booked], key=lambda entry: entry.starts_at))
        self._rates.count(booked.pacing, 1)
        self._cycles.note_slot(booked.pacing.alone, time_us)

    def _requeue(self, late: _Booked) -> None:
        """Put a late message back. If its lane sends one at a time, also put back later messages to keep the order."""
        is_in_order = late.pacing.alone
        back = [booked for booked in self._booked if booked is late or (is_in_order and booked.lane == late.lane)]
        for booked in reversed(back):
            self._booked.remove(booked)
            self._rates.count(booked.pacing, -1)
            self._rates.return_exact_send_time(booked.pacing, booked)
        self._cycles.forget_slots(late.pacing.alone)
        self._lanes.setdefault(late.lane, deque()).extendleft(booked.ready for booked in reversed(back))

    def _unused_rates(self) -> list[str]:
        if not self._rates.checkpoints:
            return []
        return self._rates.unused({rate.name for queue in self._lanes.values() for rate in _pacing(queue[0]).rates})

    # Detecting a stopped clock.

    def _is_stranded(self) -> bool:
        """Return whether messages wait for a send time that never comes because the clock is stopped."""
        now, real = self._clock.now(), self._timer.seconds()
        if now != self._clock_moved[0]:
            self._clock_moved = (now, real)
        is_still = real - self._clock_moved[1] >= STILL_SECONDS
        return is_still and any(not entry.is_near(now, real) for entry in self._booked)

    def _strand(self) -> list[Stranded]:
        now, real = self._clock.now(), self._timer.seconds()
        first = next(booked for booked in self._booked if not booked.is_near(now, real))
        until = ceil(first.time_us / 1_000) - NEAR
        lanes: dict[int, list[ReadyMessage]] = {}
        for ready in self.clear():
            lanes.setdefault(ready.claimed.lane, []).append(ready)
        return [Stranded(messages, lane, until) for lane, messages in lanes.items()]


# The number of messages to admit ahead if each one only waits for the previous one to end.
MAX_ALONE = 32
SHORTEST_SKIP: Instant = 100
# A lane reopens this long before its admitted messages are used up, because an idle worker polls twice a second.
EARLY: Instant = 600


def room_for(pacing: PacingRules, ahead: int) -> int:
    """Return how many more messages of a lane to admit, so that messages for about one second, at least one, wait."""
    most = min((max(1, int(rate.per_second)) for rate in pacing.rates), default=MAX_ALONE)
    return max(0, most - ahead)


def next_claim_at(pacing: PacingRules, ahead: int, now: Instant) -> Instant:
    """Return when to claim from a lane again: shortly before its `ahead` admitted messages are sent."""
    slowest = min((rate.per_second for rate in pacing.rates), default=None)
    sent_after = 0 if slowest is None else int(ahead * 1_000 / slowest)
    return now + max(SHORTEST_SKIP, sent_after - EARLY)


def _booked(ready: ReadyMessage, time_us: int, now: Instant, real: float) -> _Booked:
    pacing, starts_at = _pacing(ready), real + (time_us / 1_000 - now) / 1_000
    grace = TAKE_OVER / 2 if all(rate.is_exact for rate in pacing.rates) else GRACE
    return _Booked(time_us, starts_at, ready, starts_at + grace / 1_000 if pacing.rates else inf, now)


def _pacing(ready: ReadyMessage) -> PacingRules:
    assert ready.pacing is not None
    return ready.pacing
