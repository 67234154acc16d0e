"""The people of a rehearsal: those in the sequence, those who enter now, and those whom its trigger enters later."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, and_, case, func, literal, null, select

from mailwright.audience.eligibility import (
    bases_of_bulk_email,
    exclusion,
    is_known,
    lacks_consent,
    may_receive,
    opt_out,
)
from mailwright.audience.filter_sql import filter_clause
from mailwright.content.template_store import latest_by_locale
from mailwright.content.template_syntax import InvalidTemplate
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.sources.api.validation import FieldError
from mailwright.sources.sequences.content_checks import notify_problem
from mailwright.sources.sequences.definition import InvalidSequence, StepKind, TriggerKind
from mailwright.sources.sequences.emails import notify_template, required_by_subject
from mailwright.sources.sequences.enrol import (
    People,
    count_contacts,
    counts_for_re_entry,
    is_in,
    kept_out,
    wanted_people,
)
from mailwright.sources.sequences.last_emails import LastEmail, load_last_emails
from mailwright.sources.sequences.program import START, Program
from mailwright.sources.sequences.publish import is_enrolled, plan_moves
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.rehearsed_runs import Entrant
from mailwright.sources.sequences.simulation import FactModel, Simulated, UnsentEmail
from mailwright.sources.sequences.triggers import date_part, date_times, schedule_times
from mailwright.sources.sequences.versions import Published, load_published
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, sequence_enrolments

_E = sequence_enrolments.c
_C = contacts.c


class LeftOut(NamedTuple):
    """How many of the requested people do not enter, and why."""

    already_in: int = 0  # They are in the sequence now.
    re_entry: int = 0  # They had a run before, and the re-entry rule does not let them enter again.
    unknown: int = 0  # There is no contact with the address.
    excluded: Mapping[str, int] = MappingProxyType({})  # They may not receive its emails, by reason.


class StartingPoint(NamedTuple):
    """Where a person is, and when their next step is due."""

    node: int
    entered_at: Instant
    waits_since: Instant | None
    due_at: Instant


class PeopleLoader:
    """Reads the people of one rehearsal."""

    def __init__(
        self, tx: Transaction, sequence: StoredSequence, draft: Published, model: FactModel, *, now: Instant, zone: str
    ) -> None:
        self._tx = tx
        self._sequence = sequence
        self._draft = draft
        self._now = now
        self._zone = zone
        self._columns = _columns(sequence.tenant_id, draft.program, model, now)
        self._stuck: set[int] = set()  # The contacts whose step failed. They stay in the sequence.
        # The variable that emails get from the trigger: the event, or the feed item.
        kind = draft.definition.trigger.kind
        self._start = {TriggerKind.EVENT: ("event",), TriggerKind.RSS: ("item",)}.get(kind, ())

    async def enrolled(self) -> list[Simulated]:
        """Return the people in the sequence, where the draft would move them. Overdue steps happen now."""
        sequence, program = self._sequence, self._draft.program
        if sequence.version is None:
            return []
        old = (await load_published(self._tx, sequence.id, sequence.version)).program
        plan = await plan_moves(self._tx, sequence.id, old, program, now=self._now, zone=self._zone)
        moved = {each.id: each for each in plan.affected}
        query = (
            select(_E.id, _E.entered_at, _E.node, _E.waits_since, _E.due_at, _E.event_key, _E.item_key, *self._columns)
            .join_from(sequence_enrolments, contacts, _C.id == _E.contact_key)
            .where(is_enrolled(sequence.id))
        )
        found = []
        rows: Any = await self._tx.execute(query)
        emails = await load_last_emails(self._tx, [row[0] for row in rows])
        for key, entered_at, *place, event_key, item_key, about in ((*row[:7], row[7:]) for row in rows):
            received: tuple[str, ...] = ()
            node, waits_since, due_at = place
            if (person := moved.get(key)) is not None:
                if person.to is None:
                    continue
                node, waits_since, due_at, received = person.to, person.waits_since, person.due_at, person.received
            if due_at is not None:
                number = START if node is None else program.by_id[node]
                if program.awaits_consent(node, waits_since):
                    due_at = self._now  # A worker notices within a minute that the person may receive the email.
                point = StartingPoint(number, entered_at, waits_since, max(due_at, self._now))
                start = [name for name, is_it in (("event", event_key), ("item", item_key)) if is_it is not None]
                simulated = self._simulated(about, point, start, frozenset(received))
                self._add_last_email(simulated, emails.get(key))
                found.append(simulated)
            else:
                self._stuck.add(about[0])
        return found

    def _add_last_email(self, person: Simulated, email: LastEmail | None) -> None:
        """Count the waits of a person from the time when their latest email left, or leaves in the rehearsal."""
        if email is None:
            return
        person.email_left_at = email.left_at
        if email.is_unsent:
            # The rehearsal applies limits itself and ignores a pause.
            person.unsent, person.is_email_unsent = UnsentEmail(email.step, max(email.due_at or 0, self._now)), True
            if person.waits_since is not None:
                person.due_at = person.email_left_at = self._now

    async def entering(self, people: People | None) -> tuple[list[Simulated], LeftOut]:
        """Return people as if they entered now, and why others do not. The re-entry rule applies."""
        if people is None:
            return [], LeftOut()
        tenant_id = self._sequence.tenant_id
        wanted, unknown = await wanted_people(self._tx, tenant_id, people, self._now)
        lists = self._draft.program.lists
        may_get = may_receive(tenant_id, lists)
        matching, allowed = and_(wanted, may_get), await count_contacts(self._tx, and_(wanted, may_get))
        in_now = is_in(self._sequence.id)
        reasons = select(exclusion(lists).label("reason")).where(wanted, ~may_get, ~in_now).subquery()
        excluded = await self._tx.execute(
            select(reasons.c.reason, func.count().label("people")).group_by(reasons.c.reason)
        )
        may_enter = _C.id.not_in(kept_out(self._sequence.id, self._draft.definition.reentry, self._now))
        rows: Any = await self._tx.execute(select(*self._columns).where(matching, may_enter))
        point = StartingPoint(START, self._now, None, self._now)
        found = [self._simulated(row, point, self._start) for row in rows]
        already_in = await count_contacts(self._tx, and_(wanted, in_now))
        re_entry = allowed - await count_contacts(self._tx, and_(matching, in_now)) - len(found)
        reasons_of = {row.reason: int(row.people) for row in excluded}
        return found, LeftOut(already_in, re_entry, unknown, reasons_of)

    async def expected(self, until: Instant) -> list[Entrant]:
        """Return the people who enter because of a schedule or a date until a time.

        Events and other triggers start nothing in a rehearsal.

        Read the people in the sequence first: those whose step failed do not enter again.
        """
        trigger, tenant_id = self._draft.definition.trigger, self._sequence.tenant_id
        part: ColumnElement[str] = literal("")
        match trigger.kind:
            case TriggerKind.SCHEDULE:
                times = {"": schedule_times(trigger, now=self._now, until=until, zone=self._zone)}
                group = People(list_key=trigger.body.list, segment=trigger.body.segment)
                matching, _ = await wanted_people(self._tx, tenant_id, group, self._now)
            case TriggerKind.DATE_ATTRIBUTE:
                times, part = date_times(trigger, now=self._now, until=until, zone=self._zone), date_part(trigger)
                matching = and_(is_known(tenant_id), part.in_(sorted(times)))
            case _:
                return []
        entered = select(func.max(_E.entered_at)).where(
            _E.sequence_key == self._sequence.id,
            _E.contact_key == _C.id,
            counts_for_re_entry(),
        )
        rows: Any = await self._tx.execute(select(part, entered.scalar_subquery(), *self._columns).where(matching))
        needs_eligibility = trigger.kind is TriggerKind.SCHEDULE
        point = StartingPoint(START, self._now, None, self._now)
        return [
            Entrant(self._simulated(about, point, ()), times[key], last, needs_eligibility)
            for key, last, about in ((row[0], row[1], row[2:]) for row in rows)
            if about[0] not in self._stuck
        ]

    def _simulated(
        self, row: Any, point: StartingPoint, start: Any, received: frozenset[str] = frozenset()
    ) -> Simulated:
        contact_key, contact_id, email, snoozed_until, own_zone, locale, attributes, *leaves = row
        return Simulated(
            contact_key,
            email,
            snoozed_until,
            f"{self._sequence.sequence_id}:{contact_id}",
            own_zone or self._zone,
            *point,
            [bool(each) for each in leaves],
            received,
            locale,
            set() if attributes is None else {*orjson.loads(attributes), *start},
        )


async def load_required(tx: Transaction, tenant_id: int, program: Program) -> dict[int, dict[str, frozenset[str]]]:
    """Return the variables that each email needs and its step does not set, by node and locale."""
    found: dict[int, dict[str, frozenset[str]]] = {}
    for number, node in enumerate(program.nodes):
        if node.kind is StepKind.NOTIFY:
            try:
                required = notify_template(node.body.subject, node.body.text).required
            except InvalidTemplate as error:
                raise InvalidSequence([notify_problem(node.where, error)]) from error
            if required:
                found[number] = {DEFAULT_LOCALE: required}
        elif node.kind is StepKind.SEND:
            try:
                own = required_by_subject(node.body.subject)
            except InvalidTemplate as error:
                problem = FieldError(f"{node.where}.send.subject", "TEMPLATE_INVALID", error.text)
                raise InvalidSequence([problem]) from error
            versions = await latest_by_locale(tx, tenant_id, node.body.template)
            given = KNOWN_VARIABLES | node.body.variables.keys()
            needed = {
                locale: (stored.compiled().required_variables | own) - given for locale, stored in versions.items()
            }
            if any(needed.values()):
                found[number] = needed
    return found


def _columns(tenant_id: int, program: Program, model: FactModel, now: Instant) -> list[Any]:
    """Return the columns of a person: who they are, what their emails need, and whether each condition holds."""
    clauses = [may_receive(tenant_id, program.lists), lacks_consent(program.lists)]
    clauses += [filter_clause(each, tenant_id, now) for each in model.conditions if each is not None]
    clauses += [opt_out(list_key).is_(None) for list_key in model.subscribed]
    clauses += bases_of_bulk_email(model.left) if model.left else []
    content = (_C.locale, _C.attributes) if model.required else (null(), null())
    about = (_C.id, _C.contact_id, _C.email, _C.snoozed_until, _C.timezone, *content)
    return [*about, *(case((each, 1), else_=0) for each in clauses)]
