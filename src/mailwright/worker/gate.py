"""The gate between claim and build: apply the policies, reserve permits and defer messages that may not be sent yet."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from mailwright.domain.clock import SECOND, Clock, Instant, isoformat
from mailwright.domain.frequency import cap_reason
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import Lifetimes
from mailwright.domain.message import Admitted, Claimed
from mailwright.domain.permits import (
    MIN_DEFERRAL,
    PROVIDER_REASONS,
    Deferral,
    DeferReason,
    LimitLevel,
    LimitWindow,
    SendRate,
    split_defer_reason,
)
from mailwright.ops.logs import logger
from mailwright.outbox.claim import Claims
from mailwright.outbox.defer import defer, defer_lane, end_cap_deferrals, reopen_lanes, reopen_limited_lanes
from mailwright.outbox.ledger import Ledger
from mailwright.outbox.limits import DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.queue_states import begin_campaign
from mailwright.outbox.workers import list_present
from mailwright.policies.hours import lane_outside_hours, recipient_outside_hours
from mailwright.policies.pacing import pacing_rules
from mailwright.policies.rates import windows_of_levels
from mailwright.storage.database import Database
from mailwright.worker.destinations import Destinations
from mailwright.worker.hours import WorkingHoursCache
from mailwright.worker.pacing import next_claim_at, room_for

log = logger(__name__)

# A worker reads the limits again after this time, so that a change takes effect soon.
LIMITS_TTL: Instant = 1_000
DEFAULT_LIFETIMES = Lifetimes()
# A worker looks at a paced lane again after this time at the latest, because its limits may have changed.
MAX_SKIP: Instant = 2 * SECOND


@dataclass(frozen=True, slots=True)
class _Exhausted:
    """The counters that had no permits left for a lane, the end of the lane's deferral, and all its windows."""

    counters: frozenset[str]
    until: Instant
    windows: tuple[LimitWindow, ...]


@dataclass(frozen=True, slots=True)
class _LaneDecision:
    """The messages of one lane that may be sent, those that may not, and the reason."""

    admitted: list[Admitted]
    waiting: list[Claimed]
    deferral: Deferral | None = None
    paced_until: Instant | None = None  # Until then enough messages of the lane are admitted.


class Gate:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        ledger: Ledger,
        defaults: DefaultLimits,
        destinations: Destinations | None = None,
        *,
        throttled_rate: Callable[[], SendRate | None] = lambda: None,
        lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._ledger = ledger
        self._lifetimes = lifetimes
        self._defaults = defaults
        self._rules = LimitRules(defaults.limits)
        self._limits_read_at: Instant | None = None
        self._are_limits_new = False  # Whether the current call of `admit` has read the limits.
        self.deferred_until: Instant = 0  # The latest time that this gate deferred a lane or message to.
        self._permits: dict[
            int, tuple[LimitWindow, ...]
        ] = {}  # The permits of messages that are admitted but not sent, by message key.
        self._domain_permits: dict[int, LimitWindow] = {}  # Those of the recipients' domains, likewise.
        self._exhausted: dict[int, _Exhausted] = {}  # By lane number.
        self._destinations = destinations  # None if no domain has a limit.
        self._hours = WorkingHoursCache()
        self._throttled_rate = throttled_rate  # The rate that this worker has learned, if its provider throttles.
        self._paced: dict[int, int] = {}  # The lanes of paced messages that have not started, by message key.
        self.has_deferred = (
            False  # Whether single messages of the last batch were deferred; other messages of their lanes may be due.
        )

    async def admit(self, claims: Claims, batch: Sequence[Claimed]) -> list[Admitted]:
        """Return the messages that may be sent now. Release the others and defer their lanes."""
        lanes = {claimed.lane for claimed in batch}
        await self._refresh_limits(lanes)
        self.has_deferred = False
        now = self._clock.now()
        lifetimes = self._lifetimes
        unsendable = [claimed for claimed in batch if _is_unsendable(claimed, lifetimes, now)]
        # Reserve no permits for unsendable messages, so that others can use them.
        sendable = (
            [claimed for claimed in batch if not _is_unsendable(claimed, lifetimes, now)] if unsendable else batch
        )
        admitted: list[Admitted] = []
        closed: dict[int, Deferral] = {}
        in_order = sorted(sendable, key=lambda claimed: self._rules.order_of(claimed.lane))
        for lane, group in groupby(in_order, key=_lane):
            decision = await self._decide(await self._without_deferred(list(group)))
            admitted += decision.admitted
            has_begun = bool(decision.admitted)
            if decision.deferral is not None and not self._are_limits_new:
                # If the limit was just lifted, the lane must not be deferred because of the old limit.
                await self._read_limits(lanes)
                decision = await self._decide(await self._without_deferred(decision.waiting))
                admitted += decision.admitted
                has_begun |= bool(decision.admitted)
            if has_begun and lane in claims.pending_lanes:
                await begin_campaign(self._database, lane, now)
            if decision.deferral is not None:
                closed[lane] = decision.deferral
            if decision.waiting:
                await self._close_lane(claims, lanes, decision, now)
        if self._destinations is not None:
            admitted = await self._admit_to_domains(claims, self._destinations, admitted, closed)
        if self._rules.has_frequency_caps:
            lanes_of = {message.claimed.lane: message.claimed.tenant_id for message in admitted}
            caps = {lane: self._rules.frequency_cap(tenant_id, lane) for lane, tenant_id in lanes_of.items()}
            for message in admitted:
                message.frequency_cap = caps[message.claimed.lane] if message.claimed.is_bulk else None
        return admitted + [Admitted(claimed, claimed.tenant_limit) for claimed in unsendable]

    def is_still_open(self, claimed: Claimed, now: Instant) -> bool:
        """Return whether the message may still be sent.

        Its permits are valid only for the hour and day of their reservation, and working hours may have ended since the
        claim.
        """
        permits, permit = self._permits.get(claimed.message_key, ()), self._domain_permits.get(claimed.message_key)
        if any(now >= window.ends_at for window in permits) or (permit is not None and now >= permit.ends_at):
            return False
        return not (claimed.is_bulk and self._hours.is_over(claimed, self._rules, now))

    async def defer(self, deferred: Sequence[tuple[Claimed, Deferral]]) -> None:
        """Defer these admitted messages, without affecting the rest of their lanes, and return their permits.

        The permits come first, because only a claimed message has some.
        """
        await self.give_back(claimed for claimed, _ in deferred)
        await defer(self._database, deferred)
        if capped := [each for each in deferred if _is_capped(each[1])]:
            await self._read_limits({claimed.lane for claimed, _ in capped})
            await _end_deferrals_by_old_caps(self._database, self._rules, capped)

    def spend(self, admitted: Admitted) -> None:
        """Use up the permits of a message whose attempt has begun."""
        message_key = admitted.claimed.message_key
        self._permits.pop(message_key, None)
        self._domain_permits.pop(message_key, None)
        self._paced.pop(message_key, None)
        if self._destinations is not None and admitted.domain_limit is not None:
            self._destinations.count_send(admitted.claimed)

    def next_slot(self, admitted: Admitted) -> Deferral:
        """Return when to retry a message whose domain has reached its concurrency limit."""
        assert self._destinations is not None
        return self._destinations.next_slot(admitted.claimed, admitted.domain_limit or 1)

    async def give_back(self, unsent: Iterable[Claimed]) -> None:
        """Return the permits of messages that were not sent, and reopen lanes that lacked them."""
        returned: dict[tuple[LimitWindow, ...], list[Claimed]] = {}
        domains: Counter[LimitWindow] = Counter()
        for claimed in unsent:
            self._paced.pop(claimed.message_key, None)
            if permits := self._permits.pop(claimed.message_key, None):
                returned.setdefault(permits, []).append(claimed)
            if permit := self._domain_permits.pop(claimed.message_key, None):
                domains[permit] += 1
        for permit, count in domains.items():
            await self._ledger.give_back((permit,), count)
        for permits, holders in returned.items():
            await self._ledger.give_back_of(permits, holders)
        if returned and self._exhausted:
            await self._reopen({window.name for permits in returned for window in permits})
        for permits, holders in returned.items():
            # Lanes that another worker deferred. A later campaign could take the permits otherwise.
            reasons = {window.reason for window in permits}
            await reopen_limited_lanes(self._database, {claimed.lane for claimed in holders}, reasons)

    def skip_lane(self, claims: Claims, lane: int, until: Instant) -> None:
        """Let a lane wait whose messages cannot get a send time yet."""
        self.deferred_until = max(self.deferred_until, until)
        claims.skip_lane(lane, until)

    # Lanes.

    async def _close_lane(self, claims: Claims, lanes: Collection[int], decision: _LaneDecision, now: Instant) -> None:
        """Defer a lane, then release its messages. In the other order they would be claimed again at once.

        A short wait is part of the pace: it is not recorded, and only this worker skips the lane.
        """
        deferral, first = decision.deferral, decision.waiting[0]
        if deferral is None or deferral.until - now < MIN_DEFERRAL:
            until = deferral.until if deferral is not None else decision.paced_until or now
            self.deferred_until = until
            claims.skip_lane(first.lane, min(until, now + MAX_SKIP))
            await claims.release(decision.waiting)
            return
        self.deferred_until = deferral.until
        if _concerns_part(claims, first.lane, deferral):
            claims.skip_lane(first.lane, deferral.until)
            await claims.release(decision.waiting)
            return
        exhausted = self._exhausted.get(first.lane)
        if exhausted is not None and exhausted.until != deferral.until:
            # It belongs to an earlier deferral: permits of an hour that has ended must not open the lane now.
            del self._exhausted[first.lane]
            exhausted = None
        await defer_lane(self._database, first.lane, deferral.reason, deferral.until)
        # Reopen the lane if permits were returned or the limit was lifted while the deferral was written.
        has_changed = self._exhausted.get(first.lane) is not exhausted
        has_changed = has_changed or (exhausted is not None and await self._has_permits(exhausted.windows))
        if has_changed or await self._have_limits_changed(first, deferral, lanes):
            await self._open(first.lane)
        await claims.release(decision.waiting)
        about = {"companyId": first.tenant_name, "reason": deferral.reason, "until": isoformat(deferral.until)}
        log.info("lane_deferred", **about)

    async def _has_permits(self, windows: tuple[LimitWindow, ...]) -> bool:
        """Return whether another worker has returned permits, before it could see the deferral."""
        grant = await self._ledger.reserve(windows, 1)
        if grant.count:
            await self._ledger.give_back(windows, grant.count)
        return grant.count > 0

    async def _reopen(self, counters: Collection[str]) -> None:
        """Reopen the lanes that this gate deferred because one of these counters was exhausted."""
        for lane in [lane for lane, entry in self._exhausted.items() if not entry.counters.isdisjoint(counters)]:
            self._exhausted.pop(lane, None)
            await self._open(lane)

    async def _open(self, lane: int) -> None:
        async with self._database.write() as tx:
            await reopen_lanes(tx, lane)

    async def _without_deferred(self, waiting: list[Claimed]) -> list[Claimed]:
        """Defer messages outside working hours of their recipients, and to contacts who have paused bulk email."""
        if not waiting:
            return waiting
        levels, now = self._rules.levels(waiting[0].tenant_id, waiting[0].lane), self._clock.now()
        by_key = {claimed.message_key: (claimed, held) for claimed, held in _snoozed(waiting, self._lifetimes, now)}
        if any(level.limits.in_recipient_zone for level in levels):
            zones = {claimed.recipient_zone for claimed in waiting}
            by_zone = {zone: recipient_outside_hours(levels, zone, now) for zone in zones}
            for claimed in waiting:
                if (deferral := by_zone[claimed.recipient_zone]) is not None:
                    by_key.setdefault(claimed.message_key, (claimed, deferral))
        if not by_key:
            return waiting
        deferred = list(by_key.values())
        self.has_deferred = True
        self.deferred_until = max(self.deferred_until, *(deferral.until for _, deferral in deferred))
        await defer(self._database, deferred)
        return [claimed for claimed in waiting if claimed.message_key not in by_key]

    async def _decide(self, waiting: list[Claimed]) -> _LaneDecision:
        """Decide about the messages of one lane and reserve permits for those that may be sent."""
        if not waiting:
            return _LaneDecision([], [])
        first, now = waiting[0], self._clock.now()
        levels = self._rules.levels(first.tenant_id, first.lane)
        deferral = lane_outside_hours(levels, is_bulk=first.is_bulk, now=now)
        if deferral is not None:
            return _LaneDecision([], waiting, deferral)
        paced = self._pace(waiting, levels, now)
        shared = self._rules.provider_levels(first.lane)
        windows = windows_of_levels((*levels, *shared), now, self._rules.quota) if paced.admitted else ()
        if not windows:
            return paced
        reserved = await self._reserve(paced.admitted, windows, now)
        for claimed in reserved.waiting:
            self._paced.pop(claimed.message_key, None)
        return _LaneDecision(reserved.admitted, reserved.waiting + paced.waiting, reserved.deferral, paced.paced_until)

    def _pace(self, waiting: list[Claimed], levels: tuple[LimitLevel, ...], now: Instant) -> _LaneDecision:
        """If the lane has a send rate, admit messages for only about one second ahead."""
        all_levels = (*levels, *self._rules.provider_levels(waiting[0].lane))
        pacing = pacing_rules(all_levels, self._rules.provider_rate, self._rules.route, self._throttled_rate())
        if pacing is None:
            return _LaneDecision([Admitted(claimed, claimed.tenant_limit) for claimed in waiting], [])
        lane = waiting[0].lane
        ready = sum(other == lane for other in self._paced.values())
        room = room_for(pacing, ready)
        own = levels[-1].limits
        lane_limit = 1 if own.one_at_a_time else None
        source_limit = lane_limit if own.paced_source is not None else None
        is_tenant_alone = levels[0].limits.one_at_a_time
        admitted = [
            Admitted(claimed, 1 if is_tenant_alone else claimed.tenant_limit, pacing, lane_limit, source_limit)
            for claimed in waiting[:room]
        ]
        for message in admitted:
            self._paced[message.claimed.message_key] = lane
        if len(admitted) == len(waiting):
            return _LaneDecision(admitted, [])
        paced_until = next_claim_at(pacing, ready + len(admitted), now)
        return _LaneDecision(admitted, waiting[room:], paced_until=paced_until)

    async def _reserve(self, wanted: list[Admitted], windows: tuple[LimitWindow, ...], now: Instant) -> _LaneDecision:
        grant = await self._ledger.reserve(windows, len(wanted), [message.claimed for message in wanted])
        granted = wanted[: grant.count]
        for message in granted:
            self._permits[message.claimed.message_key] = windows
        if (blocked := grant.blocked_by) is None:
            return _LaneDecision(granted, [])
        deferral = Deferral(blocked.deferred_until, blocked.reason)
        self._exhausted = {lane: entry for lane, entry in self._exhausted.items() if entry.until > now}
        counters = frozenset({blocked.name, *(related.name for related in blocked.related)})
        self._exhausted[wanted[0].claimed.lane] = _Exhausted(counters, deferral.until, windows)
        return _LaneDecision(granted, [message.claimed for message in wanted[grant.count :]], deferral)

    # Domains.

    async def _admit_to_domains(
        self, claims: Claims, destinations: Destinations, batch: list[Admitted], closed: Mapping[int, Deferral]
    ) -> list[Admitted]:
        """Apply the limits of the recipients' domains. Defer messages over a limit and return their permits."""
        decision = await destinations.decide([message.claimed for message in batch])
        for message_key, permit in decision.permits.items():
            self._domain_permits[message_key] = permit
        if decision.deferred:
            self.has_deferred = True
            self.deferred_until = max(self.deferred_until, *(deferral.until for _, deferral in decision.deferred))
            await self.defer(decision.deferred)
            for lane in closed.keys() & {claimed.lane for claimed, _ in decision.deferred}:
                # These messages had the last permits of the closed lane. Others can use the permits when returned.
                claims.skip_lane(lane, min(closed[lane].until, (self._clock.now() // SECOND + 1) * SECOND))
        deferred = {claimed.message_key for claimed, _ in decision.deferred}
        return [
            _with_domain_limit(message, decision.concurrency.get(message.claimed.message_key))
            for message in batch
            if message.claimed.message_key not in deferred
        ]

    # Limits.

    async def _refresh_limits(self, lanes: Collection[int]) -> None:
        """Read the limits again if they are old or lack a campaign of this batch."""
        now = self._clock.now()
        is_old = self._limits_read_at is None or abs(now - self._limits_read_at) >= LIMITS_TTL
        self._are_limits_new = False
        if is_old or self._rules.missing_lanes(lanes):
            await self._read_limits(lanes)
        if is_old:
            self._limits_read_at = now
            if self._destinations is not None:
                workers = {presence.worker for presence in await list_present(self._database, now)}
                self._destinations.start_second(len(workers))

    async def _have_limits_changed(self, first: Claimed, deferral: Deferral, lanes: Collection[int]) -> bool:
        """Return whether the limits changed before the deferral was written, so that nothing reopens the lane yet."""
        if deferral.until - self._clock.now() <= LIMITS_TTL:
            return False  # The deferral ends soon anyway.
        before = self._rules.levels(first.tenant_id, first.lane), self._rules.provider
        await self._read_limits(lanes)
        return (self._rules.levels(first.tenant_id, first.lane), self._rules.provider) != before

    async def _read_limits(self, lanes: Collection[int]) -> None:
        self._rules = await load_limit_rules(self._database, self._defaults, lanes)
        self._are_limits_new = True
        self._hours.clear()


def _concerns_part(claims: Claims, lane: int, deferral: Deferral) -> bool:
    """Return whether the deferral concerns one provider, while another provider sends the rest of the lane."""
    return deferral.reason in PROVIDER_REASONS and claims.shares_lane(lane)


def _lane(claimed: Claimed) -> int:
    return claimed.lane


def _with_domain_limit(message: Admitted, limit: int | None) -> Admitted:
    return message if limit is None else replace(message, domain_limit=limit)


def _is_unsendable(claimed: Claimed, lifetimes: Lifetimes, now: Instant) -> bool:
    """Return whether the claimed data already shows that the message cannot be sent."""
    is_gone = bool(claimed.recipient_id) and (claimed.contact_email is None or claimed.is_contact_deleted)
    has_expired = claimed.expires_at is not None and now >= claimed.expires_at
    is_snoozed = claimed.snoozed_until is not None and claimed.snoozed_until > lifetimes.end_of(claimed, now)
    return claimed.suppressed_because is not None or is_gone or has_expired or is_snoozed


def _snoozed(waiting: Sequence[Claimed], lifetimes: Lifetimes, now: Instant) -> Iterator[tuple[Claimed, Deferral]]:
    """Yield the messages to contacts who have paused bulk email, with the deferral until the pause ends."""
    for claimed in waiting:
        if claimed.snoozed_until is not None and claimed.snoozed_until > now:
            ends_at = lifetimes.end_of(claimed, now)
            yield claimed, Deferral(claimed.snoozed_until, DeferReason.SNOOZED, give_up_at=ends_at)


def _is_capped(deferral: Deferral) -> bool:
    return split_defer_reason(deferral.reason)[0] == DeferReason.FREQUENCY_CAP


async def _end_deferrals_by_old_caps(
    database: Database, rules: LimitRules, capped: Sequence[tuple[Claimed, Deferral]]
) -> None:
    """Make messages due whose frequency cap changed before their deferral was written."""
    changed = set()
    for claimed, deferral in capped:
        cap = rules.frequency_cap(claimed.tenant_id, claimed.lane)
        if cap is None or cap_reason(cap) != deferral.reason:
            changed.add(claimed.lane)
    if changed:
        async with database.write() as tx:
            for lane in changed:
                await end_cap_deferrals(tx, lane, lane)
