"""The gate between claim and send: policies are asked, permits reserved, and what may not go yet is given back."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Held, Limits, Window
from mailwright.ops.logs import logger
from mailwright.outbox.claim import Claims
from mailwright.outbox.defer import hold_lane
from mailwright.outbox.ledger import Ledger
from mailwright.outbox.limits import limits_of_tenants
from mailwright.policies.hours import outside_hours
from mailwright.policies.rates import windows
from mailwright.storage.database import Database

log = logger(__name__)

# How old the limits that a worker knows may be: a change takes effect within one batch after this.
LIMITS_TTL: Instant = 1_000


class Gate:
    def __init__(self, database: Database, clock: Clock, ledger: Ledger, default: Limits) -> None:
        self._database = database
        self._clock = clock
        self._ledger = ledger
        self._default = default
        self._limits: Mapping[int, Limits] = {}
        self._limits_read_at: Instant | None = None
        self.held_until: Instant = 0  # when the lane that was held last opens again
        self._permits: dict[int, tuple[Window, ...]] = {}  # of messages that were admitted and not yet sent

    async def admit(self, claims: Claims, batch: Sequence[Claimed]) -> list[Claimed]:
        """Those that may go now. The others are released, and their lane is held until the policy lets it go on."""
        await self._refresh_limits()
        admitted: list[Claimed] = []
        for lane, group in groupby(sorted(batch, key=lambda claimed: claimed.lane), key=lambda claimed: claimed.lane):
            waiting = list(group)
            count, held = await self._reserve(waiting)
            admitted += waiting[:count]
            if held is not None:
                # First the hold: released messages must not be claimed again before the lane is closed.
                self.held_until = held.until
                await hold_lane(self._database, lane, held.reason, held.until)
                await claims.release((claimed, 0) for claimed in waiting[count:])
                log.info("lane_held", companyId=waiting[0].company, reason=held.reason, until=isoformat(held.until))
        return admitted

    def is_still_open(self, claimed: Claimed, now: Instant) -> bool:
        """A permit is good for its own second, hour and day only."""
        permits = self._permits.get(claimed.message_key)
        return permits is None or all(now < window.ends_at for window in permits)

    def spend(self, claimed: Claimed) -> None:
        self._permits.pop(claimed.message_key, None)

    async def give_back(self, unsent: Iterable[Claimed]) -> None:
        """Permits of messages that were not sent go back to the windows that they came from."""
        taken = [permits for claimed in unsent if (permits := self._permits.pop(claimed.message_key, None))]
        for permits in set(taken):
            await self._ledger.give_back(permits, taken.count(permits))

    async def _reserve(self, waiting: Sequence[Claimed]) -> tuple[int, Held | None]:
        first, now = waiting[0], self._clock.now()
        limits = self._limits.get(first.tenant_id, self._default)
        held = outside_hours(limits, is_bulk=first.is_bulk, now=now)
        if held is not None:
            return 0, held
        needed = windows(limits, first.tenant_id, now)
        if not needed:
            return len(waiting), None
        grant = await self._ledger.reserve(needed, len(waiting))
        for claimed in waiting[: grant.count]:
            self._permits[claimed.message_key] = needed
        blocked = grant.blocked_by
        return grant.count, Held(blocked.deferred_until, blocked.reason) if blocked else None

    async def _refresh_limits(self) -> None:
        now = self._clock.now()
        if self._limits_read_at is None or abs(now - self._limits_read_at) >= LIMITS_TTL:
            self._limits = await limits_of_tenants(self._database, self._default)
            self._limits_read_at = now
