"""The gate between claim and send: policies are asked, permits reserved, and what may not go yet is given back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from mailwright.domain.clock import SECOND, Clock, Instant, isoformat
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral, LimitLevel, LimitWindow
from mailwright.ops.logs import logger
from mailwright.outbox.claim import Claims
from mailwright.outbox.defer import defer, defer_lane, end_lane_deferral
from mailwright.outbox.ledger import Ledger
from mailwright.outbox.limits import NON_LIMIT_REASONS, DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.workers import list_present
from mailwright.policies import pacing
from mailwright.policies.hours import lane_outside_hours, recipient_outside_hours
from mailwright.policies.rates import windows_of_levels
from mailwright.storage.database import Database
from mailwright.worker.destinations import Destinations
from mailwright.worker.pacing import held_for, room_for

log = logger(__name__)

# How old the limits that a worker knows may be: a change takes effect within one batch after this.
LIMITS_TTL: Instant = 1_000
# Shorter holds are how a pace is kept: a line for each would be one for every few mails.
WORTH_A_LINE: Instant = 5 * SECOND


@dataclass(frozen=True, slots=True)
class _UsedUp:
    """Counters that had no more for a lane, which this gate has held for so long."""

    counters: frozenset[str]
    until: Instant


class Gate:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        ledger: Ledger,
        defaults: DefaultLimits,
        destinations: Destinations | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ledger = ledger
        self._defaults = defaults
        self._rules = LimitRules(defaults.limits)
        self._limits_read_at: Instant | None = None
        self._are_limits_new = False  # read in the admission that is under way
        self.deferred_until: Instant = 0  # when the lane that was held last opens again
        self._permits: dict[int, tuple[LimitWindow, ...]] = {}  # of messages that were admitted and not yet sent
        self._used_up: dict[int, _UsedUp] = {}  # by lane
        self._destinations = destinations  # None where no domain has a limit
        self._ready: dict[int, int] = {}  # lanes of paced mails that were admitted and have not begun; by message
        self.has_put_off = False  # some of the last batch wait by themselves, so there may be more behind them

    async def admit(self, claims: Claims, batch: Sequence[Claimed]) -> list[Claimed]:
        """Those that may go now. The others are released, and their lane is held until the policy lets it go on."""
        lanes = {claimed.lane for claimed in batch}
        await self._refresh_limits(lanes)
        self.has_put_off = False
        now = self._clock.now()
        unsendable = [claimed for claimed in batch if _is_unsendable(claimed, now)]
        # They need no permit: one that is reserved for them would be missing for a reader who can be written to.
        sendable = [claimed for claimed in batch if not _is_unsendable(claimed, now)] if unsendable else batch
        admitted: list[Claimed] = []
        closed: dict[int, Deferral] = {}
        for lane, group in groupby(sorted(sendable, key=lambda each: each.lane), key=lambda each: each.lane):
            going, waiting, held = await self._reserve(await self._awake(list(group)))
            admitted += going
            if held is not None and not self._are_limits_new:
                # Whoever has just lifted the limit must not find the lane held again by what it was before.
                await self._read_limits(lanes)
                going, waiting, held = await self._reserve(await self._awake(waiting))
                admitted += going
            if held is not None:
                # First the hold: released messages must not be claimed again before the lane is closed.
                closed[lane] = held
                self.deferred_until = held.until
                used_up = self._used_up.get(lane)
                await defer_lane(self._database, lane, held.reason, held.until)
                # Permits came back, or the limit was lifted, while the hold was written.
                if self._used_up.get(lane) is not used_up or await self._are_others_in_force(waiting[0], held, lanes):
                    await self._open(lane)
                await claims.release(waiting)
                _tell(waiting[0], held, now)
        if self._destinations is not None:
            admitted = await self._admit_to(self._destinations, admitted, closed)
        return admitted + unsendable

    def is_still_open(self, claimed: Claimed, now: Instant) -> bool:
        """A permit is good for its own second, hour and day only."""
        permits = self._permits.get(claimed.message_key)
        return permits is None or all(now < window.ends_at for window in permits)

    async def defer(self, waiting: Sequence[tuple[Claimed, Deferral]]) -> None:
        """Messages that were admitted and cannot go yet wait by themselves; their permits go back."""
        await defer(self._database, waiting)
        await self.give_back(claimed for claimed, _ in waiting)

    def spend(self, claimed: Claimed) -> None:
        self._permits.pop(claimed.message_key, None)
        self._ready.pop(claimed.message_key, None)
        if self._destinations is not None and claimed.domain_limit is not None:
            self._destinations.has_begun(claimed)

    def next_place(self, claimed: Claimed) -> Deferral:
        """When a mail is looked at again whose domain has as many under way as it may."""
        assert self._destinations is not None
        return self._destinations.next_place(claimed)

    async def give_back(self, unsent: Iterable[Claimed]) -> None:
        """Permits of messages that were not sent go back to where they came from, and lanes that lacked them go on."""
        unsent = list(unsent)
        for claimed in unsent:
            self._ready.pop(claimed.message_key, None)
        taken = [permits for claimed in unsent if (permits := self._permits.pop(claimed.message_key, None))]
        for permits in set(taken):
            await self._ledger.give_back(permits, taken.count(permits))
        if taken and self._used_up:
            await self._reopen({window.name for permits in taken for window in permits})

    async def leave_for_now(self, lane: int, held: Deferral) -> None:
        """A lane whose mails wait for a moment that this worker cannot give them yet."""
        self.deferred_until = max(self.deferred_until, held.until)
        await defer_lane(self._database, lane, held.reason, held.until)

    async def _reopen(self, counters: Collection[str]) -> None:
        """Lanes that this gate has held for want of one of these go on now, and not when the window ends."""
        for lane in [lane for lane, each in self._used_up.items() if not each.counters.isdisjoint(counters)]:
            self._used_up.pop(lane, None)
            await self._open(lane)

    async def _open(self, lane: int) -> None:
        async with self._database.write() as tx:
            await end_lane_deferral(tx, lane, but=NON_LIMIT_REASONS)

    async def _awake(self, waiting: list[Claimed]) -> list[Claimed]:
        """Where a campaign keeps to each reader's own hours, those for whom it is night wait by themselves."""
        if not waiting:
            return waiting
        levels, now = self._rules.levels(waiting[0].tenant_id, waiting[0].lane), self._clock.now()
        if not any(level.limits.in_recipient_zone for level in levels):
            return waiting
        nights = {
            zone: recipient_outside_hours(levels, zone, now) for zone in {each.recipient_zone for each in waiting}
        }
        asleep = [(each, held) for each in waiting if (held := nights[each.recipient_zone]) is not None]
        if asleep:
            self.has_put_off = True
            self.deferred_until = max(self.deferred_until, *(held.until for _, held in asleep))
            await defer(self._database, asleep)
        return [each for each in waiting if nights[each.recipient_zone] is None]

    async def _reserve(self, waiting: list[Claimed]) -> tuple[list[Claimed], list[Claimed], Deferral | None]:
        """Those of one lane that may go, those that may not, and what holds these."""
        if not waiting:
            return [], [], None
        first, now = waiting[0], self._clock.now()
        levels = self._rules.levels(first.tenant_id, first.lane)
        held = lane_outside_hours(levels, is_bulk=first.is_bulk, now=now)
        if held is not None:
            return [], waiting, held
        going, waiting, held = self._at_its_pace(waiting, levels, now)
        needed = windows_of_levels(levels, now, self._rules.quota) if going else ()
        if not needed:
            return going, waiting, held
        going, refused, used_up = await self._reserve_windows(going, needed, now)
        for claimed in refused:
            self._ready.pop(claimed.message_key, None)
        return going, refused + waiting, used_up or held

    def _at_its_pace(
        self, waiting: list[Claimed], levels: tuple[LimitLevel, ...], now: Instant
    ) -> tuple[list[Claimed], list[Claimed], Deferral | None]:
        """Of a lane that is paced, no more than about a second of mails is held ready."""
        paced = pacing.paced(levels, self._rules.provider_rate, self._rules.route)
        if paced is None:
            return waiting, [], None
        lane = waiting[0].lane
        ready = sum(other == lane for other in self._ready.values())
        room = room_for(paced, ready)
        going = waiting[:room]
        for claimed in going:
            claimed.paced = paced
            self._ready[claimed.message_key] = lane
            if levels[0].limits.one_at_a_time:
                claimed.tenant_limit = 1
            if levels[-1].limits.one_at_a_time:
                claimed.lane_limit = 1
        if len(going) == len(waiting):
            return going, [], None
        return going, waiting[room:], held_for(paced, ready + len(going), now)

    async def _reserve_windows(
        self, waiting: list[Claimed], needed: tuple[LimitWindow, ...], now: Instant
    ) -> tuple[list[Claimed], list[Claimed], Deferral | None]:
        first = waiting[0]
        grant = await self._ledger.reserve(needed, len(waiting))
        going = waiting[: grant.count]
        for claimed in going:
            self._permits[claimed.message_key] = needed
        if (blocked := grant.blocked_by) is None:
            return going, [], None
        held = Deferral(blocked.deferred_until, blocked.reason)
        self._used_up = {lane: each for lane, each in self._used_up.items() if each.until > now}
        counters = frozenset({blocked.name, *(other.name for other in blocked.related)})
        self._used_up[first.lane] = _UsedUp(counters, held.until)
        return going, waiting[grant.count :], held

    async def _admit_to(
        self, destinations: Destinations, batch: list[Claimed], closed: Mapping[int, Deferral]
    ) -> list[Claimed]:
        """Those that find room at their domain as well. The others wait by themselves, and give their permits back."""
        found = await destinations.sort(batch)
        for message_key, permit in found.permits.items():
            self._permits[message_key] = (*self._permits.get(message_key, ()), permit)
        if not found.waiting:
            return batch
        self.has_put_off = True
        self.deferred_until = max(self.deferred_until, *(held.until for _, held in found.waiting))
        await self.defer(found.waiting)
        for lane in closed.keys() & {claimed.lane for claimed, _ in found.waiting}:
            # It was closed because these had the last permits: there is room for others again.
            until = min(closed[lane].until, (self._clock.now() // SECOND + 1) * SECOND)
            await defer_lane(self._database, lane, closed[lane].reason, until)
        put_off = {claimed.message_key for claimed, _ in found.waiting}
        return [claimed for claimed in batch if claimed.message_key not in put_off]

    async def _refresh_limits(self, lanes: Collection[int]) -> None:
        """Old limits are read again, and so are those that say nothing of a campaign that has mail in the batch."""
        now = self._clock.now()
        is_old = self._limits_read_at is None or abs(now - self._limits_read_at) >= LIMITS_TTL
        self._are_limits_new = False
        if is_old or self._rules.missing_lanes(lanes):
            await self._read_limits(lanes)
        if is_old:
            self._limits_read_at = now
            if self._destinations is not None:
                self._destinations.turn_second(len({each.worker for each in await list_present(self._database, now)}))

    async def _are_others_in_force(self, first: Claimed, held: Deferral, lanes: Collection[int]) -> bool:
        """Whoever changes limits opens what they held. A hold that was written after that nobody would end."""
        if held.until - self._clock.now() <= LIMITS_TTL:
            return False  # it ends by itself
        before = self._rules.levels(first.tenant_id, first.lane)
        await self._read_limits(lanes)
        return self._rules.levels(first.tenant_id, first.lane) != before

    async def _read_limits(self, lanes: Collection[int]) -> None:
        self._rules = await load_limit_rules(self._database, self._defaults, lanes)
        self._are_limits_new = True


def _tell(first: Claimed, held: Deferral, now: Instant) -> None:
    tell = log.info if held.until - now >= WORTH_A_LINE else log.debug
    tell("lane_held", companyId=first.tenant_name, reason=held.reason, until=isoformat(held.until))


def _is_unsendable(claimed: Claimed, now: Instant) -> bool:
    """Whether what was read with the claim is enough to refuse it, whoever would carry it."""
    is_gone = bool(claimed.recipient_id) and (claimed.contact_email is None or claimed.is_contact_deleted)
    has_expired = claimed.expires_at is not None and now >= claimed.expires_at
    return claimed.suppressed_because is not None or is_gone or has_expired
