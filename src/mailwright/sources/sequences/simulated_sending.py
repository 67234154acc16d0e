"""Send the emails of a rehearsal on its virtual clock, under the policies that limit real sending.

A limit of the tenant holds all emails behind it, as it defers the lane of a worker; when it ends, the emails that were
accepted first are sent first. A pause by the recipient, which comes before the limits, and a frequency cap, which comes
after them, hold one email, which fails if it would be sent after its lifetime. Emails to the team have a lane of their
own and use the same limits.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from heapq import heappop, heappush
from math import ceil
from typing import Final

from mailwright.domain.clock import MINUTE, SECOND, Instant
from mailwright.domain.frequency import FrequencyCap, parse_frequency_cap
from mailwright.domain.lanes import lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import Lifetimes
from mailwright.domain.message import Source
from mailwright.domain.permits import Deferral, DeferReason, LimitLevel, Limits, LimitWindow, QuotaSnapshot, SendRate
from mailwright.domain.states import Priority
from mailwright.outbox.frequency import IN_FLIGHT_WAIT, RECENT_BULK_SENDS, free_at
from mailwright.outbox.ledger import read_counters
from mailwright.outbox.limits import DefaultLimits, LimitRules, load_limit_rules
from mailwright.outbox.provider_configurations import load_routes
from mailwright.policies.hours import closes_at, outside_hours
from mailwright.policies.pacing import pacing_rules
from mailwright.policies.quota import windows as reported_windows
from mailwright.policies.rates import windows
from mailwright.policies.reserve import quota_for_bulk
from mailwright.sources.campaigns.simulated_campaign import SimulatedCounters
from mailwright.sources.campaigns.simulated_queue import count_quota, quota_windows
from mailwright.sources.sequences.program import MAY_NOT_RECEIVE, EndReason
from mailwright.sources.sequences.simulation import Simulated, SimulatedSegment
from mailwright.storage.database import Database

# Emails that a limit holds for less than this do not count as deferred.
SHORTEST_DEFERRAL: Final[Instant] = MINUTE
_BATCH: Final = 5_000
# When emails were accepted that are older than the rehearsal.
OLDER: Final[Instant] = 0
_FOREVER: Final[Instant] = 1 << 62


@dataclass(frozen=True, slots=True)
class SendingRules:
    """The rules for sending that come from the settings."""

    defaults: DefaultLimits = field(default_factory=lambda: DefaultLimits(Limits()))
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    postal_address: str | None = None

    @property
    def lifetime(self) -> Instant:
        """The lifetime of an email of a sequence after a cap or a pause held it for the first time."""
        return self.lifetimes.sources.get(Source.SEQUENCE, self.lifetimes.bulk)


@dataclass(frozen=True, slots=True)
class SendingConditions:
    """The limits of a tenant's bulk email, and how much of them is used."""

    level: LimitLevel
    lifetime: Instant
    rate: SendRate | None
    quota: QuotaSnapshot | None  # With the part that is reserved for transactional email.
    used: Mapping[str, float]
    recent: Mapping[str, Sequence[Instant]]  # When an address received bulk email that counts for the frequency cap.


@dataclass(slots=True, eq=False)
class RehearsedRun:
    """A person's run, and its latest steps."""

    person: Simulated
    segment: SimulatedSegment

    @property
    def end(self) -> Simulated:
        """The person's position after these steps."""
        return self.segment.end

    @property
    def counts_for_re_entry(self) -> bool:
        """Whether the re-entry rule counts the run, by the same rule as in `enrol_contacts.sql`.

        A run that continues after its first steps has an email.
        """
        had_email = any(step.is_email for step in self.segment.steps)
        return self.end.end_reason != EndReason.ENTRY and (had_email or self.end.end_reason not in MAY_NOT_RECEIVE)


@dataclass(slots=True, eq=False)
class RehearsedEmail:
    """An email of a step and its result. Without a time or a failure, it was cancelled or still waits."""

    run: RehearsedRun
    step: str
    due_at: Instant
    order: tuple[int, ...]  # In which it was accepted.
    is_for_team: bool = False
    is_awaited: bool = False  # The run continues when it leaves.
    sent_at: Instant | None = None
    reasons: tuple[str, ...] = ()  # The limits that held it.
    failed_because: str | None = None
    is_cancelled: bool = False
    retry_until: Instant | None = None

    def is_snoozed(self, now: Instant) -> bool:
        """Return whether the recipient has paused bulk email."""
        snoozed_until = self.run.person.snoozed_until
        return not self.is_for_team and snoozed_until is not None and snoozed_until > now

    def hold(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons = (*self.reasons, reason)


async def load_conditions(
    database: Database, given: SendingRules, tenant_id: int, emails: Iterable[str], now: Instant
) -> SendingConditions:
    """Read the limits that apply to the emails of a tenant's sequences now."""
    rules = await _load_rules(database, given, tenant_id)
    [level] = rules.levels(tenant_id, lane_number(Priority.BULK, tenant_id))
    quota = rules.quota
    pacing = pacing_rules((level,), rules.provider_rate, rules.route)
    rates = () if pacing is None else pacing.rates
    counted = [*windows(level.limits, level.owner, now)]
    counted += reported_windows(quota, quota.synced_at) if quota is not None else ()
    names = {window.name for window in counted} | {other.name for window in counted for other in window.related}
    recent: defaultdict[str, list[Instant]] = defaultdict(list)
    cap = parse_frequency_cap(level.limits.frequency_cap)
    async with database.read() as tx:
        used = await read_counters(tx, sorted(names))
        known = sorted(set(emails)) if cap is not None else []
        for start in range(0, len(known), _BATCH):
            wanted = [(tenant_id, email) for email in known[start : start + _BATCH]]
            since = 0 if cap is None else now - cap.window
            for row in await tx.run(RECENT_BULK_SENDS, recipients=wanted, since=since):
                recent[row.email].append(row.sent_at)
    rate = min(rates, key=lambda each: each.per_second, default=None)
    return SendingConditions(level, given.lifetime, rate, quota, used, recent)


async def load_frequency_cap(database: Database, given: SendingRules, tenant_id: int) -> FrequencyCap | None:
    rules = await _load_rules(database, given, tenant_id)
    [level] = rules.levels(tenant_id, lane_number(Priority.BULK, tenant_id))
    return parse_frequency_cap(level.limits.frequency_cap)


async def _load_rules(database: Database, given: SendingRules, tenant_id: int) -> LimitRules:
    async with database.read() as tx:
        provider = (await load_routes(tx)).provider_of(tenant_id, Source.SEQUENCE)
    defaults = given.defaults if provider is None else replace(given.defaults, providers={provider: None})
    return await load_limit_rules(database, defaults)


# The order in which an email was accepted, when it became due, and the email.
_Entry = tuple[tuple[int, ...], Instant, RehearsedEmail]


class SimulatedLane:
    """Emails that the same limits hold, as in a lane of the outbox."""

    def __init__(self, limits: Limits, quota: QuotaSnapshot | None, owner: str, *, is_bulk: bool) -> None:
        self._limits = limits if is_bulk else replace(limits, reserve_percent=0)
        self._quota = quota_for_bulk(quota, self._limits.reserve_percent)
        self._owner = owner
        self._is_bulk = is_bulk
        self._planned: dict[Instant, list[_Entry]] = {}
        self._times: list[Instant] = []  # A heap of the keys of `_planned`. Many emails share a time.
        self._due: list[_Entry] = []  # A heap: the email that was accepted first is the next one.
        self._closed_until: Instant = 0
        self._closings: dict[str, Instant] = {}  # Until when each limit closed the lane most recently.
        self._windows_end: Instant = 0  # Until then, the working hours are open and the windows stay the same.
        self.windows: tuple[LimitWindow, ...] = ()

    def plan(self, email: RehearsedEmail, due_at: Instant) -> None:
        if (planned := self._planned.get(due_at)) is None:
            planned = self._planned[due_at] = []
            heappush(self._times, due_at)
        planned.append((email.order, due_at, email))

    def next_time(self) -> Instant:
        """Return when an email may leave."""
        first = self._due[0][1] if self._due else self._times[0] if self._times else _FOREVER
        return max(first, self._closed_until)

    def pop(self) -> RehearsedEmail:
        """Return the next due email, after recording which limits held it."""
        _, due_at, email = heappop(self._due)
        self._hold(email, due_at)
        return email

    def has_due(self) -> bool:
        return bool(self._due)

    def claim(self, now: Instant) -> Iterator[RehearsedEmail]:
        """Make planned emails due. Yield those that a worker defers before it looks at the limits of the lane."""
        while self._times and self._times[0] <= now:
            for entry in self._planned.pop(heappop(self._times)):
                _, due_at, email = entry
                if email.is_snoozed(now):
                    self._hold(email, due_at)
                    yield email
                else:
                    heappush(self._due, entry)

    def close(self, deferral: Deferral) -> None:
        self._closed_until = self._closings[deferral.reason] = deferral.until

    def outside_hours(self, now: Instant) -> Deferral | None:
        """Return until when the working hours are over; while they are open, keep the windows up to date."""
        if now < self._windows_end:
            return None
        if (closed := outside_hours(self._limits, is_bulk=self._is_bulk, now=now)) is not None:
            return closed
        self.windows = (*windows(self._limits, self._owner, now), *quota_windows(self._quota, now))
        ends = [window.ends_at for window in self.windows]
        if self._is_bulk and (closing := closes_at(self._limits, now)) is not None:
            ends.append(closing)
        self._windows_end = min(ends, default=_FOREVER)
        return None

    def finish(self, now: Instant) -> None:
        """Record which limits hold the emails that are still due at the end."""
        planned = [entry for at, entries in self._planned.items() if at <= now for entry in entries]
        for _, due_at, email in (*self._due, *planned):
            self._hold(email, due_at)

    def _hold(self, email: RehearsedEmail, due_at: Instant) -> None:
        for reason, until in self._closings.items():
            if until - due_at >= SHORTEST_DEFERRAL:
                email.hold(reason)


class SimulatedSending:
    """Sends emails in the order of time. `on_left` may plan more emails, which are due later."""

    def __init__(self, conditions: SendingConditions, on_left: Callable[[RehearsedEmail, Instant], None]) -> None:
        self._conditions = conditions
        self._on_left = on_left
        limits, owner = conditions.level.limits, conditions.level.owner
        # Transactional email, such as that to the team, comes first.
        self._team, self._bulk = self._lanes = tuple(
            SimulatedLane(limits, conditions.quota, owner, is_bulk=is_bulk) for is_bulk in (False, True)
        )
        self._cap = parse_frequency_cap(limits.frequency_cap)
        self._recent: dict[str, deque[Instant]] = {}
        self._counters = SimulatedCounters(conditions.used)
        if conditions.quota is not None:
            count_quota(self._counters, conditions.quota)
        self._next_slot: float = 0

    def plan(self, email: RehearsedEmail, due_at: Instant) -> None:
        """Send an email when it is due."""
        self._lane_of(email).plan(email, due_at)

    def send(self, before: Instant) -> None:
        """Send what can be sent before a time."""
        while (now := min(lane.next_time() for lane in self._lanes)) < before:
            for lane in self._lanes:
                if lane.next_time() <= now:
                    self._send_due(lane, now)

    def finish(self, until: Instant) -> None:
        """Send what can be sent up to the end of the rehearsal."""
        self.send(until + 1)
        for lane in self._lanes:
            lane.finish(until)

    def _lane_of(self, email: RehearsedEmail) -> SimulatedLane:
        return self._team if email.is_for_team else self._bulk

    def _send_due(self, lane: SimulatedLane, now: Instant) -> None:
        while True:
            for email in lane.claim(now):
                self._send(lane, email, now)
            if not lane.has_due():
                return
            if (closed := self._closed(lane, now)) is not None:
                lane.close(closed)
                return
            self._send(lane, lane.pop(), now)

    def _send(self, lane: SimulatedLane, email: RehearsedEmail, now: Instant) -> None:
        end = email.run.end
        if end.end_reason not in (None, EndReason.FINISHED) and now >= end.due_at:
            email.is_cancelled = True
            return
        deferral = None if email.is_for_team else self._deferral(email, now)
        if deferral is not None and email.failed_because is None:
            lane.plan(email, deferral.until)
            return
        if deferral is None:
            self._sent(lane, email, now)
        if email.is_awaited:
            self._on_left(email, now)

    def _closed(self, lane: SimulatedLane, now: Instant) -> Deferral | None:
        if (closed := lane.outside_hours(now)) is not None:
            return closed
        if self._next_slot > now and self._conditions.rate is not None:
            return Deferral(ceil(self._next_slot), self._conditions.rate.reason)
        return self._counters.exhausted(lane.windows, now)

    def _deferral(self, email: RehearsedEmail, now: Instant) -> Deferral | None:
        """Return the limit that holds only this email, after recording it."""
        deferral: Deferral | None = None
        snoozed_until = email.run.person.snoozed_until
        if snoozed_until is not None and email.is_snoozed(now):
            deferral = Deferral(snoozed_until, DeferReason.SNOOZED)
        elif self._cap is not None and (free := self._free_at(self._cap, self._sends_to(email), now)) is not None:
            deferral = Deferral(free, DeferReason.FREQUENCY_CAP)
        if deferral is not None:
            email.hold(deferral.reason)
            email.retry_until = email.retry_until or now + self._conditions.lifetime
            if deferral.until > email.retry_until:
                email.failed_because = deferral.reason
        return deferral

    @staticmethod
    def _free_at(cap: FrequencyCap, sends: Sequence[Instant], now: Instant) -> Instant | None:
        """Return when the cap allows an email; None if it does now.

        An email sent just now is in flight, as for a worker.
        """
        if free_at(cap, sends, now) is None:
            return None
        return free_at(cap, [at for at in sends if at < now], now) or now + IN_FLIGHT_WAIT

    def _sends_to(self, email: RehearsedEmail) -> deque[Instant]:
        assert self._cap is not None
        address = email.run.person.email
        if (known := self._recent.get(address)) is None:
            known = self._recent[address] = deque(self._conditions.recent.get(address, ()), maxlen=self._cap.limit)
        return known

    def _sent(self, lane: SimulatedLane, email: RehearsedEmail, now: Instant) -> None:
        email.sent_at = now
        self._counters.add(lane.windows, 1)
        if self._cap is not None and not email.is_for_team:
            self._sends_to(email).append(now)
        if self._conditions.rate is not None:
            self._next_slot = max(self._next_slot, now) + SECOND / self._conditions.rate.per_second
