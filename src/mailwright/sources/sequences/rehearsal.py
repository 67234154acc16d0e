"""Rehearse a draft on a virtual clock: the emails of each of the next days by step, and the limits that hold them."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from sqlalchemy import select

from mailwright.domain.clock import DAY, Clock, Instant, to_instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.program import zone_of
from mailwright.sources.sequences.records import find_sequence
from mailwright.sources.sequences.references import require_known
from mailwright.sources.sequences.rehearsed_people import LeftOut, PeopleLoader, load_required
from mailwright.sources.sequences.rehearsed_runs import OnStep, RehearsedRuns
from mailwright.sources.sequences.simulated_sending import SendingRules, load_conditions
from mailwright.sources.sequences.simulation import Simulator, make_model
from mailwright.sources.sequences.versions import published_from
from mailwright.storage.database import Database
from mailwright.storage.tables import tenants

MAX_DAYS: Final = 366


@dataclass(frozen=True, slots=True)
class DeferredEmails:
    """The emails of a step that a limit holds, and how many of them expire before they could be sent."""

    step: str
    reason: str
    emails: int
    failed: int


@dataclass(frozen=True, slots=True)
class RehearsedDay:
    day: date
    emails: int  # Sent on this day.
    by_step: Mapping[str, int]
    deferred: tuple[DeferredEmails, ...]  # Of the steps that ran on this day.

    @property
    def is_over_limit(self) -> bool:
        return any(each.reason == "daily_limit" for each in self.deferred)


@dataclass(frozen=True, slots=True)
class FailedPeople:
    """How many people stop at a step, and why."""

    step: str
    reason: str
    people: int


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a sequence would do if people neither open, click, buy nor unsubscribe."""

    people: int
    emails: int  # Sent until the end of the rehearsal.
    failed: int  # Never sent, because a limit holds them until after their lifetime.
    cancelled: int  # Never sent, because the person left the sequence while a limit held them.
    waiting: int  # Still held at the end of the rehearsal.
    days: tuple[RehearsedDay, ...]
    ended: Mapping[str, int]
    still_in: int
    daily_limit: int | None
    failed_steps: tuple[FailedPeople, ...] = ()
    # The requested people who do not enter, for the same reasons as when they are enrolled.
    already_in: int = 0
    re_entry: int = 0
    unknown: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)  # They may not receive its emails, by reason.

    @property
    def not_eligible(self) -> int:
        return sum(self.excluded.values())

    @property
    def deferred(self) -> dict[str, int]:
        """How many emails each limit holds."""
        totals: Counter[str] = Counter()
        for day in self.days:
            for each in day.deferred:
                totals[each.reason] += each.emails
        return dict(totals)


class Rehearsals:
    def __init__(self, database: Database, clock: Clock, rules: SendingRules | None = None) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules or SendingRules()

    async def rehearse(
        self,
        tenant_id: int,
        sequence_id: str,
        *,
        people: People | None = None,
        days: int = 30,
        on_step: OnStep | None = None,
    ) -> Rehearsal:
        """Rehearse the draft for the people in the sequence, and for others as if they entered now.

        `on_step` gets each person's steps, in their order.
        """
        now = self._clock.now()
        until = now + days * DAY
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            draft = published_from(sequence.draft)
            await require_known(tx, tenant_id, draft.definition)
            model = make_model(draft.program, await load_required(tx, tenant_id, draft.program))
            [tenant] = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
            zone = tenant.timezone or self._rules.defaults.limits.timezone
            loader = PeopleLoader(tx, sequence, draft, model, now=now, zone=zone)
            enrolled = await loader.enrolled()
            entering, left_out = await loader.entering(people)
            expected = await loader.expected(until)
        everyone = (*enrolled, *entering, *(each.person for each in expected))
        addresses = {person.email for person in everyone}
        conditions = await load_conditions(self._database, self._rules, tenant_id, addresses, now)

        def compute() -> Rehearsal:
            runs = RehearsedRuns(Simulator(draft.program, model, until), conditions, until, on_step)
            persons = {person.contact_key: person for person in (*enrolled, *entering)}
            begun = {key: runs.begin(person) for key, person in persons.items()}
            entered = {person.contact_key for person in entering}
            for each in expected:
                each.latest = begun.get(key := each.person.contact_key)
                if key in entered and begun[key].counts_for_re_entry:
                    each.last_entered_at = now
            runs.finish(expected, draft.definition.reentry)
            return _result(runs, Calendar(now, zone, days), conditions.level.limits.daily_limit, left_out)

        # A rehearsal of many people takes long, so it runs outside the read transaction and the event loop.
        return await asyncio.to_thread(compute)


class Calendar:
    """The days of a rehearsal in the tenant's time zone, in which some days have 23 or 25 hours."""

    def __init__(self, now: Instant, zone: str, days: int) -> None:
        place = zone_of(zone)
        first = datetime.fromtimestamp(now / 1000, UTC).astimezone(place).date()
        self.days = [first + timedelta(days=number) for number in range(days + 1)]
        self._midnights = [to_instant(datetime.combine(day, time(), tzinfo=place)) for day in self.days]

    def day_of(self, at: Instant) -> date:
        return self.days[bisect_right(self._midnights, at) - 1]


def _result(runs: RehearsedRuns, calendar: Calendar, daily_limit: int | None, left_out: LeftOut) -> Rehearsal:
    sent: dict[date, Counter[str]] = {day: Counter() for day in calendar.days}
    held: dict[date, Counter[tuple[str, str]]] = {day: Counter() for day in calendar.days}
    failed: Counter[tuple[date, str, str]] = Counter()
    cancelled = waiting = 0
    for email in runs.emails:
        day = calendar.day_of(email.due_at)
        for reason in email.reasons:
            held[day][email.step, reason] += 1
        if email.sent_at is not None:
            sent[calendar.day_of(email.sent_at)][email.step] += 1
        elif email.failed_because is not None:
            failed[day, email.step, email.failed_because] += 1
        elif email.is_cancelled:
            cancelled += 1
        else:
            waiting += 1
    days = tuple(
        RehearsedDay(
            day,
            sent[day].total(),
            dict(sent[day]),
            tuple(DeferredEmails(*key, number, failed[day, *key]) for key, number in held[day].items()),
        )
        for day in calendar.days
    )
    ends = [run.end for run in runs.runs]
    ended = Counter(end.end_reason for end in ends if end.end_reason is not None)
    stopped = Counter((end.step, end.failure) for end in ends if end.failure is not None)
    return Rehearsal(
        people=len({run.person.contact_key for run in runs.runs}),
        emails=sum(day.emails for day in days),
        failed=failed.total(),
        cancelled=cancelled,
        waiting=waiting,
        days=days,
        ended=dict(ended),
        still_in=len(ends) - ended.total(),
        daily_limit=daily_limit,
        failed_steps=tuple(FailedPeople(*failure, number) for failure, number in stopped.items()),
        already_in=left_out.already_in,
        re_entry=left_out.re_entry,
        unknown=left_out.unknown,
        excluded=left_out.excluded,
    )
