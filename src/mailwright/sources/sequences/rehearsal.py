"""Rehearse a draft on a virtual clock: the emails of each of the next days by step, and the limits that hold them."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, or_, select, true

from mailwright.audience.eligibility import may_receive
from mailwright.audience.filter_sql import filter_clause
from mailwright.domain.clock import DAY, Clock, Instant, to_instant
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrol import People, wanted_people
from mailwright.sources.sequences.program import ALREADY_RECEIVED, START, EndReason, Node, Program, zone_of
from mailwright.sources.sequences.publish import is_enrolled, plan_moves
from mailwright.sources.sequences.records import StoredSequence, find_sequence
from mailwright.sources.sequences.references import require_known
from mailwright.sources.sequences.simulated_sending import (
    RehearsedEmail,
    SendingRules,
    SimulatedSending,
    load_conditions,
)
from mailwright.sources.sequences.simulation import FactModel, OnStep, Simulated, ignore_step, make_model, simulate
from mailwright.sources.sequences.versions import load_published, published_from
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, sequence_enrolments, tenants

MAX_DAYS: Final = 366
_E = sequence_enrolments.c


@dataclass(frozen=True, slots=True)
class DeferredEmails:
    """The emails of a step that a limit holds, and how many of them fail because they would be sent too late."""

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
class Rehearsal:
    """What a sequence would do if nobody did anything else meanwhile."""

    people: int
    emails: int  # Sent until the end of the rehearsal.
    failed: int  # Never sent, because a limit holds them until after their lifetime.
    cancelled: int  # Never sent, because the person left the sequence while a limit held them.
    waiting: int  # Still held at the end of the rehearsal.
    days: tuple[RehearsedDay, ...]
    ended: Mapping[str, int]
    still_in: int
    daily_limit: int | None

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
        on_step: OnStep = ignore_step,
    ) -> Rehearsal:
        """Rehearse the draft for the people in the sequence, and for others as if they entered now."""
        now = self._clock.now()
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            published = published_from(sequence.draft)
            await require_known(tx, tenant_id, published.definition)
            program, model = published.program, make_model(published.program)
            [tenant] = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
            zone = tenant.timezone or self._rules.defaults.limits.timezone
            columns = _columns(tenant_id, program, model, now)
            simulated = await self._enrolled(tx, sequence, program, columns, zone)
            if people is not None:
                wanted, _ = await wanted_people(tx, tenant_id, people, now)
                matching = and_(wanted, _may_receive(tenant_id, program))
                may_enter = contacts.c.id.not_in(_kept_out(sequence, published.definition.reentry, now))
                rows: Any = await tx.execute(select(*columns).where(matching, may_enter))
                simulated += [_simulated(sequence, row, zone, StartingPoint(START, None, now)) for row in rows]
        addresses = (person.email for person in simulated)
        conditions = await load_conditions(self._database, self._rules, tenant_id, addresses, now)

        def compute() -> Rehearsal:
            emails = EmailCollector(on_step)
            for person in simulated:
                simulate(program, model, person, now + days * DAY, emails.on_step)
            SimulatedSending(conditions).send(emails.found, now + days * DAY)
            return _result(simulated, emails.found, Calendar(now, zone, days), conditions.level.limits.daily_limit)

        # Long for many people, so it holds neither the read transaction nor the event loop.
        return await asyncio.to_thread(compute)

    async def _enrolled(
        self, tx: Transaction, sequence: StoredSequence, program: Program, columns: list[Any], zone: str
    ) -> list[Simulated]:
        """Return the people in the sequence, where the draft would move them. Overdue steps happen now."""
        if sequence.version is None:
            return []
        now, old = self._clock.now(), (await load_published(tx, sequence.id, sequence.version)).program
        plan = await plan_moves(tx, sequence.id, old, program, now=now, zone=zone)
        moved = {each.id: each for each in plan.affected}
        query = (
            select(_E.id, _E.node, _E.waits_since, _E.due_at, *columns)
            .join_from(sequence_enrolments, contacts, contacts.c.id == _E.contact_key)
            .where(is_enrolled(sequence.id))
        )
        found = []
        rows: Any = await tx.execute(query)
        for key, *place, about in ((*row[:4], row[4:]) for row in rows):
            received: tuple[str, ...] = ()
            node, waits_since, due_at = place
            if (person := moved.get(key)) is not None:
                if person.to is None:
                    continue
                node, waits_since, due_at, received = person.to, person.waits_since, person.due_at, person.received
            if due_at is not None:
                point = StartingPoint(START if node is None else program.by_id[node], waits_since, max(due_at, now))
                found.append(_simulated(sequence, about, zone, point, frozenset(received)))
        return found


class StartingPoint(NamedTuple):
    """Where a person is, and when their next step is due."""

    node: int
    waits_since: Instant | None
    due_at: Instant


def _kept_out(sequence: StoredSequence, reentry: int | None, now: Instant) -> Select[tuple[int]]:
    """Return who is in the sequence or may not enter it again yet, by the rule of `enrol_contacts.sql`."""
    is_too_early = true() if reentry is None else _E.entered_at > now - reentry * DAY + DAY // 2
    was_in = and_(_E.end_reason != EndReason.ENTRY.value, is_too_early)
    return select(_E.contact_key).where(_E.sequence_key == sequence.id, or_(_E.ended_at.is_(None), was_in))


def _simulated(
    sequence: StoredSequence, row: Any, zone: str, place: StartingPoint, received: frozenset[str] = frozenset()
) -> Simulated:
    contact_key, contact_id, email, snoozed_until, own_zone, *leaves = row
    seed = f"{sequence.sequence_id}:{contact_id}"
    holds = [bool(each) for each in leaves]
    return Simulated(contact_key, email, snoozed_until, seed, own_zone or zone, *place, holds, received)


def _columns(tenant_id: int, program: Program, model: FactModel, now: Instant) -> list[Any]:
    """Return the columns of a person: who they are, their time zone, and whether each condition holds."""
    clauses = [_may_receive(tenant_id, program)]
    clauses += [filter_clause(each, tenant_id, now) for each in model.conditions if each is not None]
    c = contacts.c
    about = (c.id, c.contact_id, c.email, c.snoozed_until, c.timezone)
    return [*about, *(case((each, 1), else_=0) for each in clauses)]


def _may_receive(tenant_id: int, program: Program) -> ColumnElement[bool]:
    return may_receive(tenant_id, [] if program.list_key is None else [program.list_key])


class EmailCollector:
    """Collects the emails of the simulated steps."""

    def __init__(self, on_step: OnStep) -> None:
        self.found: list[RehearsedEmail] = []
        self._on_step = on_step

    def on_step(self, person: Simulated, node: Node, outcome: str, at: Instant) -> None:
        if node.kind is StepKind.SEND and outcome != ALREADY_RECEIVED:
            self.found.append(RehearsedEmail(person, node.id, at))
        self._on_step(person, node, outcome, at)


class Calendar:
    """The days of a rehearsal in the tenant's time zone, in which some days have 23 or 25 hours."""

    def __init__(self, now: Instant, zone: str, days: int) -> None:
        place = zone_of(zone)
        first = datetime.fromtimestamp(now / 1000, UTC).astimezone(place).date()
        self.days = [first + timedelta(days=number) for number in range(days + 1)]
        self._midnights = [to_instant(datetime.combine(day, time(), tzinfo=place)) for day in self.days]

    def day_of(self, at: Instant) -> date:
        return self.days[bisect_right(self._midnights, at) - 1]


def _result(
    people: Sequence[Simulated], emails: Iterable[RehearsedEmail], calendar: Calendar, daily_limit: int | None
) -> Rehearsal:
    sent: dict[date, Counter[str]] = {day: Counter() for day in calendar.days}
    held: dict[date, Counter[tuple[str, str]]] = {day: Counter() for day in calendar.days}
    failed: Counter[tuple[date, str, str]] = Counter()
    cancelled = waiting = 0
    for email in emails:
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
    ended = Counter(person.end_reason for person in people if person.end_reason is not None)
    return Rehearsal(
        people=len(people),
        emails=sum(day.emails for day in days),
        failed=failed.total(),
        cancelled=cancelled,
        waiting=waiting,
        days=days,
        ended=dict(ended),
        still_in=len(people) - ended.total(),
        daily_limit=daily_limit,
    )
