"""The gate between claim and send: policies are asked, permits reserved, and what may not go yet is given back."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from mailwright.domain.clock import SECOND, Clock, Instant, isoformat
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Held, Window
from mailwright.ops.logs import logger
from mailwright.outbox.claim import Claims
from mailwright.outbox.defer import defer, hold_lane
from mailwright.outbox.ledger import Ledger
from mailwright.outbox.limits import Defaults, Rules, rules_in_force
from mailwright.outbox.workers import present
from mailwright.policies.hours import lane_outside_hours, reader_outside_hours
from mailwright.policies.rates import windows_of
from mailwright.storage.database import Database
from mailwright.worker.destinations import Destinations

log = logger(__name__)

# How old the limits that a worker knows may be: a change takes effect within one batch after this.
LIMITS_TTL: Instant = 1_000


class Gate:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        ledger: Ledger,
        defaults: Defaults,
        destinations: Destinations | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ledger = ledger
        self._defaults = defaults
        self._rules = Rules(defaults.limits)
        self._limits_read_at: Instant | None = None
        self.held_until: Instant = 0  # when the lane that was held last opens again
        self._permits: dict[int, tuple[Window, ...]] = {}  # of messages that were admitted and not yet sent
        self._destinations = destinations  # None where no domain has a limit
        self.has_put_off = False  # some of the last batch wait by themselves, so there may be more behind them

    async def admit(self, claims: Claims, batch: Sequence[Claimed]) -> list[Claimed]:
        """Those that may go now. The others are released, and their lane is held until the policy lets it go on."""
        await self._refresh_limits()
        self.has_put_off = False
        admitted: list[Claimed] = []
        closed: dict[int, Held] = {}
        for lane, group in groupby(sorted(batch, key=lambda claimed: claimed.lane), key=lambda claimed: claimed.lane):
            waiting = await self._awake(list(group))
            if not waiting:
                continue
            count, held = await self._reserve(waiting)
            admitted += waiting[:count]
            if held is not None:
                # First the hold: released messages must not be claimed again before the lane is closed.
                closed[lane] = held
                self.held_until = held.until
                await hold_lane(self._database, lane, held.reason, held.until)
                await claims.release((claimed, 0) for claimed in waiting[count:])
                log.info("lane_held", companyId=waiting[0].company, reason=held.reason, until=isoformat(held.until))
        return admitted if self._destinations is None else await self._admit_to(self._destinations, admitted, closed)

    def is_still_open(self, claimed: Claimed, now: Instant) -> bool:
        """A permit is good for its own second, hour and day only."""
        permits = self._permits.get(claimed.message_key)
        return permits is None or all(now < window.ends_at for window in permits)

    async def defer(self, waiting: Sequence[tuple[Claimed, Held]]) -> None:
        """Messages that were admitted and cannot go yet wait by themselves; their permits go back."""
        await defer(self._database, waiting)
        await self.give_back(claimed for claimed, _ in waiting)

    def spend(self, claimed: Claimed) -> None:
        self._permits.pop(claimed.message_key, None)
        if self._destinations is not None and claimed.domain_limit is not None:
            self._destinations.has_begun(claimed)

    def next_place(self, claimed: Claimed) -> Held:
        """When a mail is looked at again whose domain has as many under way as it may."""
        assert self._destinations is not None
        return self._destinations.next_place(claimed)

    async def give_back(self, unsent: Iterable[Claimed]) -> None:
        """Permits of messages that were not sent go back to the windows that they came from."""
        taken = [permits for claimed in unsent if (permits := self._permits.pop(claimed.message_key, None))]
        for permits in set(taken):
            await self._ledger.give_back(permits, taken.count(permits))

    async def _awake(self, waiting: list[Claimed]) -> list[Claimed]:
        """Where a campaign keeps to each reader's own hours, those for whom it is night wait by themselves."""
        levels, now = self._rules.levels(waiting[0].tenant_id, waiting[0].lane), self._clock.now()
        if not any(level.limits.in_readers_zone for level in levels):
            return waiting
        nights = {zone: reader_outside_hours(levels, zone, now) for zone in {each.reader_zone for each in waiting}}
        asleep = [(each, held) for each in waiting if (held := nights[each.reader_zone]) is not None]
        if asleep:
            self.has_put_off = True
            self.held_until = max(self.held_until, *(held.until for _, held in asleep))
            await defer(self._database, asleep)
        return [each for each in waiting if nights[each.reader_zone] is None]

    async def _reserve(self, waiting: Sequence[Claimed]) -> tuple[int, Held | None]:
        first, now = waiting[0], self._clock.now()
        levels = self._rules.levels(first.tenant_id, first.lane)
        held = lane_outside_hours(levels, is_bulk=first.is_bulk, now=now)
        if held is not None:
            return 0, held
        needed = windows_of(levels, now, self._rules.quota)
        if not needed:
            return len(waiting), None
        grant = await self._ledger.reserve(needed, len(waiting))
        for claimed in waiting[: grant.count]:
            self._permits[claimed.message_key] = needed
        blocked = grant.blocked_by
        return grant.count, Held(blocked.deferred_until, blocked.reason) if blocked else None

    async def _admit_to(
        self, destinations: Destinations, batch: list[Claimed], closed: Mapping[int, Held]
    ) -> list[Claimed]:
        """Those that find room at their domain as well. The others wait by themselves, and give their permits back."""
        found = await destinations.sort(batch)
        for message_key, permit in found.permits.items():
            self._permits[message_key] = (*self._permits.get(message_key, ()), permit)
        if not found.waiting:
            return batch
        self.has_put_off = True
        self.held_until = max(self.held_until, *(held.until for _, held in found.waiting))
        await self.defer(found.waiting)
        for lane in closed.keys() & {claimed.lane for claimed, _ in found.waiting}:
            # It was closed because these had the last permits: there is room for others again.
            until = min(closed[lane].until, (self._clock.now() // SECOND + 1) * SECOND)
            await hold_lane(self._database, lane, closed[lane].reason, until)
        put_off = {claimed.message_key for claimed, _ in found.waiting}
        return [claimed for claimed in batch if claimed.message_key not in put_off]

    async def _refresh_limits(self) -> None:
        now = self._clock.now()
        if self._limits_read_at is None or abs(now - self._limits_read_at) >= LIMITS_TTL:
            self._rules = await rules_in_force(self._database, self._defaults)
            self._limits_read_at = now
            if self._destinations is not None:
                self._destinations.turn_second(len({each.worker for each in await present(self._database, now)}))
