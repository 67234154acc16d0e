"""Pacing: mails that need a moment of their own wait here, are marked just before it, and begin at it.

Moments are booked in the ledger, a few ahead, so that no two workers have the same one. An exact pace is kept by one
worker at a time: the next moment is counted from when its last mail really began.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from time import perf_counter

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral, PacingRules, SendRate
from mailwright.outbox.ledger import LEAD, TAKE_OVER, Ledger, RateCheckpoint
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.policies.pacing import GRACE, ONE_AT_A_TIME

# So much of a pace is booked ahead: a commit for one mail costs as much as one for all of these.
AHEAD: Instant = 200
# A mail is marked so long before its moment: a little more than the moment lies ahead of its booking at least.
NEAR: Instant = LEAD + 20
# A clock that has not moved for so long stands still, and brings no moment nearer.
STILL_SECONDS = 0.05
LONGEST_LOOK_SECONDS = 0.06
# Timers come late rather than early: the last bit is waited for turn by turn.
TIMER_SECONDS = 0.001
RESENDS = "resends"


@dataclass(slots=True)
class _Booked:
    ready: ReadyMessage
    moment_us: int  # when it may begin, as all workers see it
    begins_at: float  # the same by this process's own clock
    latest: float
    booked_at: Instant


@dataclass(frozen=True, slots=True)
class Stranded:
    """Mails that do not get their moment here, and until when their lane waits."""

    mails: list[ReadyMessage]
    lane: int
    held: Deferral
    is_others: bool = False  # another worker keeps the pace: only this one leaves the lane alone


class Pacing:
    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        self._clock = clock
        self._ledger = ledger
        self._lanes: dict[int, deque[ReadyMessage]] = {}
        self._booked: deque[_Booked] = deque()
        self._marked: dict[int, _Booked] = {}  # on their way to their moment; by message
        self._under_way: Counter[str] = Counter()  # marked and not ended, by whose mails go one at a time
        self._next_alone: Counter[str] = Counter()  # the same of those that are booked: the one that goes next
        self._ahead: Counter[str] = Counter()  # moments that are booked and not yet begun, by pace
        self._kept: dict[str, RateCheckpoint] = {}
        self._exact: set[str] = set()
        self._began: dict[str, float] = {}  # the last mail of an exact pace
        self._last_lane = 0
        self._moved = (0, 0.0)  # what the clock showed, and when it began to

    def __bool__(self) -> bool:
        return bool(self._lanes or self._booked or self._kept_for_nothing())

    def add(self, ready: ReadyMessage) -> None:
        if ready.claimed.resends:
            # One at a time: should it be the one that kills its worker, it takes no other's only resend with it.
            paced = _paced(ready)
            ready.claimed.paced = replace(paced, alone=(*paced.alone, RESENDS))
        self._lanes.setdefault(ready.claimed.lane, deque()).append(ready)

    def waiting(self) -> Iterator[ReadyMessage]:
        """Those that are not marked yet."""
        yield from (each.ready for each in self._booked)
        for line in self._lanes.values():
            yield from line

    def clear(self) -> list[ReadyMessage]:
        found = list(self.waiting())
        for each in self._booked:
            self._count(each.ready, -1)
        self._give_up_moments()
        self._booked.clear()
        self._lanes.clear()
        return found

    def clear_lane(self, lane: int) -> list[ReadyMessage]:
        """The same for one lane; its moments are lost."""
        booked = [each for each in self._booked if each.ready.claimed.lane == lane]
        for each in booked:
            self._count(each.ready, -1)
        self._booked = deque(each for each in self._booked if each.ready.claimed.lane != lane)
        return [*(each.ready for each in booked), *self._lanes.pop(lane, ())]

    # What a turn of the pump asks.

    def has_work(self) -> bool:
        if self._booked and (any(self._is_next(each) for each in self._booked) or self._is_stranded()):
            return True
        return bool(self._kept_for_nothing()) or any(self._can_book(line[0]) for line in self._lanes.values())

    def pause_seconds(self) -> float | None:
        """How long nothing needs to be done; None where nothing waits for a moment."""
        if not self._booked and not self._lanes:
            return None
        first = next((each for each in self._booked if not self._waits_for_another(each)), None)
        if first is None:
            return LONGEST_LOOK_SECONDS
        pause = first.begins_at - perf_counter() - NEAR / 1_000
        return min(max(pause, TIMER_SECONDS), LONGEST_LOOK_SECONDS)

    async def book(self) -> list[Stranded]:
        """Gives waiting mails their moments; answers those that have to wait elsewhere."""
        stranded = self._strand() if self._is_stranded() else []
        lanes = sorted(self._lanes, key=lambda lane: (lane >> 52, lane <= self._last_lane, lane))
        for lane in lanes:
            line = self._lanes[lane]
            if not self._can_book(line[0]):
                continue
            self._last_lane = lane
            paced = _paced(line[0])
            if not paced.rates:
                self._book(line.popleft(), self._clock.now() * 1_000)
            elif (opens_at := await self._book_some(line, paced)) is not None:
                reason = max(paced.rates, key=lambda pace: pace.interval_us).reason
                stranded.append(Stranded(list(line), lane, Deferral(opens_at, reason), is_others=True))
                line.clear()
            if not line:
                del self._lanes[lane]
        if done := self._kept_for_nothing():
            given_up = {name: self._kept[name] for name in done if self._is_worth_telling(name)}
            if given_up:
                await self._ledger.release_rates(given_up)
            for name in done:
                del self._kept[name]
        return stranded

    def due(self) -> list[ReadyMessage]:
        """Those that are marked now, so that they can begin on time. Whoever waited too long for the one before gets
        another moment."""
        found = []
        for each in [each for each in self._booked if self._is_near(each)]:
            if each not in self._booked or self._waits_for_another(each):
                continue
            if self._is_over(each):
                self._wait_anew(each)
                continue
            self._booked.remove(each)
            self._next_alone.subtract(_paced(each.ready).alone)
            self._under_way.update(_paced(each.ready).alone)
            self._marked[each.ready.claimed.message_key] = each
            found.append(each.ready)
        return found

    def _wait_anew(self, late: _Booked) -> None:
        """Where mails go one after another, those behind it wait with it: none of them begins before it."""
        lane, alone = late.ready.claimed.lane, _paced(late.ready).alone
        back = [each for each in self._booked if each is late or (alone and each.ready.claimed.lane == lane)]
        for each in back:
            self._booked.remove(each)
            self._count(each.ready, -1)
        self._lanes.setdefault(lane, deque()).extendleft(each.ready for each in reversed(back))

    def drop(self, claimed: Claimed) -> None:
        """It was to be marked and is not, or was and does not begin."""
        each = self._marked.pop(claimed.message_key, None)
        if each is not None:
            self._ahead.subtract(pace.name for pace in _paced(each.ready).rates)
            self.ended(claimed)

    def begin(self, ready: ReadyMessage, start: Callable[[], bool], too_late: Callable[[], None]) -> None:
        """Calls one of them: at its moment, never before, or when its moment is over. `start` answers whether the mail
        has begun when it returns; otherwise it does in the next turn of the loop."""
        each = self._marked[ready.claimed.message_key]
        loop = asyncio.get_running_loop()

        def look() -> None:
            now = perf_counter()
            begins_at = max([each.begins_at, *self._spaced(each)])
            if now < begins_at:
                pause = begins_at - now - TIMER_SECONDS
                loop.call_later(pause, look) if pause > 0 else loop.call_soon(look)
            elif self._is_over(each):
                self.drop(ready.claimed)
                too_late()
            else:
                self._begun(each, now)
                if start():
                    self._note_beginning(each)
                else:
                    loop.call_soon(self._note_beginning, each)

        look()

    def ended(self, claimed: Claimed) -> None:
        """Whoever may not begin before it has ended may now."""
        if claimed.paced is not None:
            self._under_way.subtract(claimed.paced.alone)

    # Booking.

    def _can_book(self, ready: ReadyMessage) -> bool:
        paced = _paced(ready)
        if not paced.rates:
            return not any(self._next_alone[owner] > 0 for owner in paced.alone)
        return all(self._ahead[pace.name] * 2 <= _most_ahead(pace) for pace in paced.rates)

    async def _book_some(self, line: deque[ReadyMessage], paced: PacingRules) -> Instant | None:
        """Answers until when another worker is left to the pace, where one keeps it."""
        room = min(_most_ahead(pace) - self._ahead[pace.name] for pace in paced.rates)
        booking = await self._ledger.book(paced.rates, min(len(line), room), self._kept)
        if not booking.slots:
            return booking.opens_at
        for pace in paced.rates:
            left_at = booking.left_at[pace.name]
            self._kept[pace.name] = RateCheckpoint(left_at, left_at // 2)
            self._exact |= {pace.name} if pace.is_exact else set()
        for moment in booking.slots:
            self._book(line.popleft(), moment)
        return None

    def _book(self, ready: ReadyMessage, moment_us: int) -> None:
        now = self._clock.now()
        begins_at = perf_counter() + (moment_us / 1_000 - now) / 1_000
        paces = _paced(ready).rates
        grace = TAKE_OVER / 2 if all(pace.is_exact for pace in paces) else GRACE
        latest = begins_at + grace / 1_000 if paces else inf
        self._booked.append(_Booked(ready, moment_us, begins_at, latest, now))
        self._booked = deque(sorted(self._booked, key=lambda each: each.begins_at))
        self._count(ready, 1)

    def _count(self, ready: ReadyMessage, number: int) -> None:
        """A moment is ahead from its booking on. Also of those that go alone some are booked while one is under way:
        the next begins as soon as that has ended, and need not be booked then."""
        for pace in _paced(ready).rates:
            self._ahead[pace.name] += number
        for owner in _paced(ready).alone:
            self._next_alone[owner] += number

    def _is_next(self, each: _Booked) -> bool:
        return self._is_near(each) and not self._waits_for_another(each)

    def _waits_for_another(self, each: _Booked) -> bool:
        return any(self._under_way[owner] > 0 for owner in _paced(each.ready).alone)

    def _is_near(self, each: _Booked) -> bool:
        now = self._clock.now()
        if now == each.booked_at:  # it may stand still, and then the moment does not come nearer
            return each.moment_us - now * 1_000 <= NEAR * 1_000
        return each.begins_at - perf_counter() <= NEAR / 1_000

    def _is_over(self, each: _Booked) -> bool:
        """Its moment has passed without it; a clock that stands still lets none pass."""
        return perf_counter() > each.latest and self._clock.now() != each.booked_at

    def _spaced(self, each: _Booked) -> Iterator[float]:
        """When the exact paces of a mail let it begin, by when the last one really began."""
        for pace in _paced(each.ready).rates:
            if pace.is_exact and (last := self._began.get(pace.name)) is not None:
                spaced = last + pace.interval_us / 1_000_000
                # A larger gap is none of ours: the clock that moments are told by was moved.
                if spaced - each.begins_at <= TAKE_OVER / 2_000:
                    yield spaced

    def _begun(self, each: _Booked, now: float) -> None:
        del self._marked[each.ready.claimed.message_key]
        for pace in _paced(each.ready).rates:
            self._ahead[pace.name] -= 1
            if pace.is_exact:
                self._began[pace.name] = now
                # A clock that stands still has let no time pass.
                late_us = 0 if self._clock.now() == each.booked_at else ceil((now - each.begins_at) * 1_000_000)
                known = self._kept[pace.name]
                self._kept[pace.name] = RateCheckpoint(known.left_at, known.left_at // 2 + max(0, late_us))

    def _note_beginning(self, each: _Booked) -> None:
        """The next interval counts from when the mail really began, and that was before this."""
        now = perf_counter()
        for pace in _paced(each.ready).rates:
            if pace.is_exact:
                self._began[pace.name] = now

    # Giving up.

    def _kept_for_nothing(self) -> list[str]:
        """Paces that no mail of ours waits for any more: others may have them at once."""
        if not self._kept:
            return []
        wanted = {pace.name for line in self._lanes.values() for pace in _paced(line[0]).rates}
        return [name for name in self._kept if name not in wanted and self._ahead[name] <= 0]

    def _is_worth_telling(self, name: str) -> bool:
        return name in self._exact or self._kept[name].next_us < self._kept[name].left_at // 2

    def _give_up_moments(self) -> None:
        """Whoever comes next gets the moments that are not used, where nobody has booked since."""
        for each in reversed(self._booked):
            for pace in _paced(each.ready).rates:
                if pace.batch_size == 1:  # several mails may have the same moment, and some of them use it
                    known = self._kept[pace.name]
                    self._kept[pace.name] = RateCheckpoint(known.left_at, min(known.next_us, each.moment_us))

    def _is_stranded(self) -> bool:
        """What waits for a moment waits in vain while the clock stands still."""
        now, real = self._clock.now(), perf_counter()
        if now != self._moved[0]:
            self._moved = (now, real)
        return real - self._moved[1] >= STILL_SECONDS and any(not self._is_near(each) for each in self._booked)

    def _strand(self) -> list[Stranded]:
        first = next(each for each in self._booked if not self._is_near(each))
        held = Deferral(ceil(first.moment_us / 1_000) - NEAR, _reason(first.ready))
        lanes: dict[int, list[ReadyMessage]] = {}
        for ready in self.clear():
            lanes.setdefault(ready.claimed.lane, []).append(ready)
        return [Stranded(mails, lane, held) for lane, mails in lanes.items()]


def room_for(paced: PacingRules, ahead: int) -> int:
    """How many more mails of a lane are worth holding ready: about a second of them, and one at least."""
    most = min((max(1, int(pace.per_second)) for pace in paced.rates), default=MOST_ALONE)
    return max(0, most - ahead)


def held_for(paced: PacingRules, ahead: int, now: Instant) -> Deferral:
    """When a lane that has so many mails ready is looked at again: a while before they are through."""
    slowest = max(paced.rates, key=lambda pace: pace.interval_us / pace.batch_size, default=None)
    if slowest is None:
        return Deferral(now + SHORTEST_HOLD, ONE_AT_A_TIME)
    through = int(ahead * 1_000 / slowest.per_second)
    return Deferral(now + max(SHORTEST_HOLD, through - EARLY), slowest.reason)


# Where nothing but the end of the one before holds them.
MOST_ALONE = 32
SHORTEST_HOLD: Instant = 100
# A worker that has nothing to do looks twice a second.
EARLY: Instant = 600


def _paced(ready: ReadyMessage) -> PacingRules:
    assert ready.claimed.paced is not None
    return ready.claimed.paced


def _reason(ready: ReadyMessage) -> str:
    slowest = max(_paced(ready).rates, key=lambda pace: pace.interval_us, default=None)
    return ONE_AT_A_TIME if slowest is None else slowest.reason


def _most_ahead(pace: SendRate) -> int:
    return max(1, ceil(AHEAD * 1_000 / pace.interval_us)) * pace.batch_size
