"""Rehearse a draft on a virtual clock: how many emails it sends on each of the next days, and by which step."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, case, select

from mailwright.audience.eligibility import may_receive
from mailwright.audience.filter_sql import filter_clause
from mailwright.domain.clock import DAY, Clock, Instant, to_instant
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrol import People, wanted_people
from mailwright.sources.sequences.program import START, Node, Program, closest_node, zone_of
from mailwright.sources.sequences.publish import is_enrolled
from mailwright.sources.sequences.records import StoredSequence, find_sequence
from mailwright.sources.sequences.references import require_known
from mailwright.sources.sequences.simulation import FactModel, OnStep, Simulated, ignore_step, make_model, simulate
from mailwright.sources.sequences.versions import load_published, published_from
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, sequence_enrolments, tenants

MAX_DAYS: Final = 366
_E = sequence_enrolments.c


@dataclass(frozen=True, slots=True)
class RehearsedDay:
    day: date
    emails: int
    by_step: Mapping[str, int]
    is_over_limit: bool


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a sequence would do if nobody did anything else meanwhile."""

    people: int
    emails: int
    days: tuple[RehearsedDay, ...]
    ended: Mapping[str, int]
    still_in: int
    daily_limit: int | None  # The tenant's limit, which defers what is above it to the next day.


class Rehearsals:
    def __init__(self, database: Database, clock: Clock, zone: str = "UTC") -> None:
        self._database = database
        self._clock = clock
        self._zone = zone

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
            owner = select(tenants.c.timezone, tenants.c.daily_limit).where(tenants.c.id == tenant_id)
            [tenant] = await tx.execute(owner)
            zone = tenant.timezone or self._zone
            columns = _columns(tenant_id, program, model, now)
            simulated = await self._enrolled(tx, sequence, program, columns, zone)
            if people is not None:
                wanted, _ = await wanted_people(tx, tenant_id, people, now)
                matching = and_(wanted, _may_receive(tenant_id, program))
                rows = await _entering(tx, sequence, matching, columns)
                simulated += [_simulated(sequence, row, zone, StartingPoint(START, None, now)) for row in rows]
        # A long computation, so it happens outside of the read transaction.
        emails = EmailCounts(now, zone, on_step)
        for person in simulated:
            simulate(program, model, person, now + days * DAY, emails.on_step)
        return emails.result(simulated, days, tenant.daily_limit)

    async def _enrolled(
        self, tx: Transaction, sequence: StoredSequence, program: Program, columns: list[Any], zone: str
    ) -> list[Simulated]:
        """Return the people in the sequence, at the steps to which the draft would move them."""
        if sequence.version is None:
            return []
        old = (await load_published(tx, sequence.id, sequence.version)).program
        query = (
            select(_E.node, _E.waits_since, _E.due_at, *columns)
            .join_from(sequence_enrolments, contacts, contacts.c.id == _E.contact_key)
            .where(is_enrolled(sequence.id), _E.due_at.is_not(None))
        )
        found = []
        rows: Any = await tx.execute(query)
        for row in rows:
            target = START if row[0] is None else closest_node(old, old.by_id[row[0]], program)
            if target is not None:
                is_same = target != START and program.nodes[target].id == row[0]
                since = row[1] if is_same else None
                due_at = max(row[2], self._clock.now())
                found.append(_simulated(sequence, row[3:], zone, StartingPoint(target, since, due_at)))
        return found


class StartingPoint(NamedTuple):
    """Where a person is, and when their next step is due."""

    node: int
    waits_since: Instant | None
    due_at: Instant


async def _entering(
    tx: Transaction, sequence: StoredSequence, matching: ColumnElement[bool], columns: list[Any]
) -> Sequence[Any]:
    enrolled = select(_E.contact_key).where(is_enrolled(sequence.id))
    return await tx.execute(select(*columns).where(matching, contacts.c.id.not_in(enrolled)))


def _simulated(sequence: StoredSequence, row: Any, zone: str, place: StartingPoint) -> Simulated:
    contact_key, contact_id, own_zone, *leaves = row
    seed = f"{sequence.sequence_id}:{contact_id}"
    return Simulated(contact_key, seed, own_zone or zone, *place, [bool(each) for each in leaves])


def _columns(tenant_id: int, program: Program, model: FactModel, now: Instant) -> list[Any]:
    """Return the columns of a person: the keys, the time zone, and whether each condition holds."""
    clauses = [_may_receive(tenant_id, program)]
    clauses += [filter_clause(each, tenant_id, now) for each in model.conditions if each is not None]
    return [contacts.c.id, contacts.c.contact_id, contacts.c.timezone, *(case((each, 1), else_=0) for each in clauses)]


def _may_receive(tenant_id: int, program: Program) -> ColumnElement[bool]:
    return may_receive(tenant_id, [] if program.list_key is None else [program.list_key])


class EmailCounts:
    """Counts the emails of a rehearsal by day and step."""

    def __init__(self, now: Instant, zone: str, on_step: OnStep) -> None:
        place = zone_of(zone)
        self._first_day = datetime.fromtimestamp(now / 1000, UTC).astimezone(place).date()
        self._midnight = to_instant(datetime.combine(self._first_day, time(), tzinfo=place))
        self._sent: Counter[tuple[int, str]] = Counter()
        self._on_step = on_step

    def on_step(self, person: Simulated, node: Node, outcome: str, at: Instant) -> None:
        if node.kind is StepKind.SEND:
            self._sent[(at - self._midnight) // DAY, node.id] += 1
        self._on_step(person, node, outcome, at)

    def result(self, people: Sequence[Simulated], days: int, daily_limit: int | None) -> Rehearsal:
        by_day: dict[int, dict[str, int]] = {}
        for (day, node), number in self._sent.items():
            by_day.setdefault(day, {})[node] = number
        ended = Counter(person.end_reason for person in people if person.end_reason is not None)
        rehearsed = []
        for day in range(days + 1):
            by_step = by_day.get(day, {})
            emails = sum(by_step.values())
            is_over = daily_limit is not None and emails > daily_limit
            rehearsed.append(RehearsedDay(self._first_day + timedelta(days=day), emails, by_step, is_over))
        return Rehearsal(
            len(people),
            sum(self._sent.values()),
            tuple(rehearsed),
            dict(ended),
            len(people) - sum(ended.values()),
            daily_limit,
        )
