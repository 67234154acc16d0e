"""Find the rule that keeps a person out of a sequence, as data: what happened, and what the sequence requires."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, case, select

from mailwright.audience.contact_events import ContactEvent, list_latest
from mailwright.audience.filters import ValueComparison
from mailwright.audience.value_matching import properties_match, value_matches
from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences import triggers
from mailwright.sources.sequences.definition import Definition, Trigger, TriggerKind
from mailwright.sources.sequences.enrol import People, wanted_people
from mailwright.sources.sequences.program import zone_of
from mailwright.sources.sequences.records import StoredSequence
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, sequence_members, sequence_versions, sequences, subscriptions

# The number of a person's latest events that are checked.
MAX_EVENTS: Final = 1_000
# How many of the latest versions are compared to find out since when a trigger applies.
_MAX_VERSIONS: Final = 100


class EntryRule(StrEnum):
    """Why a person is not in a sequence, or what makes them enter it."""

    MANUAL_ONLY = "manual_only"
    NOT_READ_YET = "not_read_yet"  # A worker looks within a minute.
    NOT_RUNNING = "not_running"  # The sequence was archived at that time.
    BEFORE_PUBLICATION = "before_publication"
    RE_ENTRY = "re_entry"
    ALREADY_IN = "already_in"
    NO_EVENT = "no_event"
    NOT_A_CONTACT = "not_a_contact"  # The event came before the person was a contact.
    LATE_EVENT = "late_event"
    OTHER_PROPERTY = "other_property"
    NOT_ON_LIST = "not_on_list"
    LEFT_LIST = "left_list"
    NOT_CONFIRMED = "not_confirmed"
    JOINED_BEFORE = "joined_before"
    JOINED_BY_IMPORT = "joined_by_import"  # An import that was not allowed to start sequences.
    NO_MATCH = "no_match"
    MATCHED_BEFORE = "matched_before"
    STILL_IN_SEGMENT = "still_in_segment"
    NEVER_IN_SEGMENT = "never_in_segment"
    NO_DATE = "no_date"
    DATE_AHEAD = "date_ahead"
    DATE_OVER = "date_over"
    NOT_IN_GROUP = "not_in_group"
    NEXT_SCHEDULE = "next_schedule"
    NEXT_ITEM = "next_item"


@dataclass(frozen=True, slots=True)
class NotEntered:
    """The rule that keeps a person out of a sequence, with its details."""

    rule: EntryRule
    trigger: TriggerKind
    subject: str | None = None  # The event, list, segment, campaign or attribute of the trigger.
    at: Instant | None = None  # When it happened, or when the person enters.
    reported_at: Instant | None = None  # When the event arrived, if the trigger is an event.
    again_at: Instant | None = None  # From when on the re-entry rule lets the person enter again; None for never.
    property: str | None = None  # The property of the event that is not as wanted.
    wanted: ValueComparison | None = None
    value: Any = None  # The value of the property or of the date attribute.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A person, their runs through a sequence, newest first, and the version that decides whether they enter."""

    sequence: StoredSequence
    definition: Definition
    contact_key: int
    email: str
    runs: Sequence[Any]
    now: Instant
    zone: str

    @property
    def trigger(self) -> Trigger:
        return self.definition.trigger

    def found(self, rule: EntryRule, **details: Any) -> NotEntered:
        return NotEntered(rule, self.trigger.kind, self.trigger.value, **details)

    @property
    def re_entry(self) -> NotEntered | None:
        """The re-entry rule, if it keeps the person out now."""
        counted = [run.entered_at for run in self.runs if run.counts]
        if not counted:
            return None
        if (days := self.definition.reentry) is None:
            return self.found(EntryRule.RE_ENTRY)
        again_at = max(counted) + days * DAY - DAY // 2  # With the tolerance of `enrol_contacts`.
        return self.found(EntryRule.RE_ENTRY, again_at=again_at) if again_at > self.now else None


async def find_rule(database: Database, tx: Transaction, person: Candidate) -> NotEntered | None:
    """Return which rule keeps a person out who is not in the sequence now; None if no rule does."""
    if person.trigger.kind is TriggerKind.EVENT:
        return await _event_rule(database, tx, person)
    if person.re_entry is not None:
        return person.re_entry
    found = await _FINDERS[person.trigger.kind](tx, person)
    return None if person.runs and found.rule in _PASSED_BEFORE else found


async def ignored_events(database: Database, tx: Transaction, person: Candidate) -> dict[int, list[ContactEvent]]:
    """Return, by run, the events that did not start the sequence because the person was already in it."""
    found: dict[int, list[ContactEvent]] = {}
    if person.trigger.kind is not TriggerKind.EVENT:
        return found
    read = await _read_position(tx, person)
    since = await _watched_since(tx, person)
    for event in await _events(database, person):
        if event.id <= read and event.received_at >= since and not event.is_late and _is_as_wanted(event, person):
            run = _run_during(event, person)
            if run is not None:
                found.setdefault(run.run, []).append(event)
    return found


async def _event_rule(database: Database, tx: Transaction, person: Candidate) -> NotEntered | None:
    events = await _events(database, person)
    if not events:
        return person.re_entry or person.found(EntryRule.NO_EVENT)
    newest = events[0]
    if newest.id in {run.event_key for run in person.runs}:
        return person.re_entry
    rule = await _rule_of_event(tx, newest, person)
    return replace(rule, at=newest.occurred_at, reported_at=newest.received_at)


async def _rule_of_event(  # noqa: PLR0911 - a table
    tx: Transaction, event: ContactEvent, person: Candidate
) -> NotEntered:
    """Return why the event did not start the sequence. The rules are checked in the same order as in workers."""
    if event.id > await _read_position(tx, person):
        return person.found(EntryRule.NOT_READ_YET)
    if event.received_at < await _watched_since(tx, person):
        return person.found(EntryRule.BEFORE_PUBLICATION)
    [contact] = await tx.execute(select(contacts.c.created_at).where(contacts.c.id == person.contact_key))
    if event.received_at < contact.created_at:
        return person.found(EntryRule.NOT_A_CONTACT)
    if event.is_late:
        return person.found(EntryRule.LATE_EVENT)
    for name, wanted in (person.trigger.body.where or {}).items():
        if not value_matches(wanted, value := event.properties.get(name)):
            return person.found(EntryRule.OTHER_PROPERTY, property=name, wanted=wanted, value=value)
    if _run_during(event, person) is not None:
        return replace(person.re_entry or person.found(EntryRule.RE_ENTRY), rule=EntryRule.ALREADY_IN)
    return person.re_entry or person.found(EntryRule.NOT_RUNNING)


async def _events(database: Database, person: Candidate) -> list[ContactEvent]:
    name, tenant_id = str(person.trigger.value), person.sequence.tenant_id
    return await list_latest(database, tenant_id, limit=MAX_EVENTS, email=person.email, name=name)


def _is_as_wanted(event: ContactEvent, person: Candidate) -> bool:
    return properties_match(person.trigger.body.where, event.properties)


def _run_during(event: ContactEvent, person: Candidate) -> Any:
    """Return the run that the person was in when an event came that started no run; None if there was none."""
    if event.id in {run.event_key for run in person.runs}:
        return None
    during = [
        run
        for run in person.runs
        if event.id > run.events_after and (run.ended_at is None or event.received_at <= run.ended_at)
    ]
    return during[0] if during else None


async def _manual_rule(_: Transaction, person: Candidate) -> NotEntered:
    return person.found(EntryRule.MANUAL_ONLY)


async def _list_rule(tx: Transaction, person: Candidate) -> NotEntered:
    s = subscriptions.c
    mine = (s.contact_key == person.contact_key, s.list_key == person.trigger.value)
    rows = await tx.execute(select(s.subscribed_at, s.unsubscribed_at, s.is_pending, s.confirmed_at).where(*mine))
    if not rows or rows[0].subscribed_at is None:
        return person.found(EntryRule.NOT_ON_LIST)
    row = rows[0]
    if row.unsubscribed_at is not None:
        return person.found(EntryRule.LEFT_LIST, at=row.unsubscribed_at)
    if row.is_pending:
        return person.found(EntryRule.NOT_CONFIRMED, at=row.subscribed_at)
    joined = row.confirmed_at or row.subscribed_at
    is_before = joined < await _watched_since(tx, person)
    return person.found(EntryRule.JOINED_BEFORE if is_before else EntryRule.JOINED_BY_IMPORT, at=joined)


async def _segment_rule(tx: Transaction, person: Candidate) -> NotEntered:
    clause = await triggers.condition_of(tx, person.sequence.tenant_id, person.trigger, person.now)
    matches = clause is not None and await _matches(tx, person, clause)
    leaves = person.trigger.kind is TriggerKind.LEAVES_SEGMENT
    if matches is leaves:
        return person.found(EntryRule.STILL_IN_SEGMENT if leaves else EntryRule.NO_MATCH)
    m = sequence_members.c
    mine = (m.sequence_key == person.sequence.id, m.contact_key == person.contact_key)
    was_member = bool(await tx.execute(select(m.contact_key).where(*mine)))
    if was_member is leaves:
        return person.found(EntryRule.NOT_READ_YET)
    if leaves:
        return person.found(EntryRule.NEVER_IN_SEGMENT)
    return person.found(EntryRule.MATCHED_BEFORE, at=await _watched_since(tx, person))


async def _date_rule(tx: Transaction, person: Candidate) -> NotEntered:
    [contact] = await tx.execute(select(contacts.c.attributes).where(contacts.c.id == person.contact_key))
    value = orjson.loads(contact.attributes or "{}").get(person.trigger.value)
    try:
        day = date.fromisoformat(str(value)[:10])
    except ValueError:
        return person.found(EntryRule.NO_DATE, value=value)
    next_at = _next_date(day, person)
    rule = EntryRule.DATE_AHEAD if next_at > person.now else EntryRule.DATE_OVER
    return person.found(rule, at=next_at, value=value)


def _next_date(day: date, person: Candidate) -> Instant:
    """Return when the date starts the sequence next, or when it started it last."""
    body = person.trigger.body
    today = datetime.fromtimestamp(person.now / 1000, UTC).astimezone(zone_of(person.zone)).date()
    days = [_in_year(day, today.year + years) for years in range(-11, 3)] if body.yearly else [day]
    starts = [triggers.starts_at(each + timedelta(days=body.offset_days), body.at, person.zone) for each in days]
    return next((each for each in starts if each > person.now), starts[-1])


def _in_year(day: date, year: int) -> date:
    """Return the date in a year. In other years, a leap day is celebrated the day before."""
    try:
        return day.replace(year=year)
    except ValueError:
        return date(year, 2, 28)


async def _group_rule(tx: Transaction, person: Candidate) -> NotEntered:
    body = person.trigger.body
    people = People(list_key=body.list, segment=body.segment)
    wanted, _ = await wanted_people(tx, person.sequence.tenant_id, people, person.now)
    if not await _matches(tx, person, wanted):
        return replace(person.found(EntryRule.NOT_IN_GROUP), subject=body.list or body.segment)
    if person.trigger.kind is TriggerKind.RSS:
        return person.found(EntryRule.NEXT_ITEM)
    q = sequences.c
    [row] = await tx.execute(select(q.next_entry_at).where(q.id == person.sequence.id))
    return person.found(EntryRule.NEXT_SCHEDULE, at=row.next_entry_at)


async def _matches(tx: Transaction, person: Candidate, clause: ColumnElement[bool]) -> bool:
    rows = await tx.execute(select(case((clause, 1), else_=0)).where(contacts.c.id == person.contact_key))
    return bool(rows and rows[0][0])


async def _read_position(tx: Transaction, person: Candidate) -> int:
    rows = await tx.execute(select(sequences.c.events_after).where(sequences.c.id == person.sequence.id))
    return int(rows[0].events_after or 0)


async def _watched_since(tx: Transaction, person: Candidate) -> Instant:
    """Return when the trigger of the published version was published first."""
    v = sequence_versions.c
    query = select(v.document, v.published_at).where(v.sequence_key == person.sequence.id)
    rows = await tx.execute(query.order_by(v.version.desc()).limit(_MAX_VERSIONS))
    current, since = None, 0
    for row in rows:
        trigger = orjson.loads(row.document)["trigger"]
        current = current or trigger
        if trigger != current:
            break
        since = row.published_at
    return since


# Rules that cannot keep out a person with earlier runs, because the person met them before.
_PASSED_BEFORE: Final = (
    EntryRule.MANUAL_ONLY,
    EntryRule.JOINED_BEFORE,
    EntryRule.JOINED_BY_IMPORT,
    EntryRule.MATCHED_BEFORE,
    EntryRule.NEVER_IN_SEGMENT,
    EntryRule.DATE_OVER,
)
_FINDERS: Final[Mapping[TriggerKind, Callable[[Transaction, Candidate], Awaitable[NotEntered]]]] = {
    TriggerKind.MANUAL: _manual_rule,
    TriggerKind.JOINS_LIST: _list_rule,
    TriggerKind.ENTERS_SEGMENT: _segment_rule,
    TriggerKind.LEAVES_SEGMENT: _segment_rule,
    TriggerKind.OPENS: _segment_rule,
    TriggerKind.CLICKS: _segment_rule,
    TriggerKind.DATE_ATTRIBUTE: _date_rule,
    TriggerKind.SCHEDULE: _group_rule,
    TriggerKind.RSS: _group_rule,
}
