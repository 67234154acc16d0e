"""Load the facts about people in a sequence: which filters they match, what happened, and what they may receive."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, and_, case, select

from mailwright.audience.eligibility import lacks_consent, may_receive
from mailwright.audience.filter_sql import filter_clause, reported_after, reported_since
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.enrolled import Enrolled
from mailwright.sources.sequences.program import ELIGIBLE, LACKS_CONSENT, EventFact, Program
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, sequence_enrolments

_E = sequence_enrolments.c
_NO_FACTS: Mapping[int, bool] = {}


async def load_facts(
    tx: Transaction, tenant_id: int, program: Program, people: Collection[Enrolled], now: Instant
) -> dict[int, Mapping[int, bool]]:
    """Return the facts that the nodes of these people need, by contact."""
    numbers = sorted({number for node in {each.node for each in people} for number in program.needed_facts(node)})
    if not numbers:
        return dict.fromkeys((each.contact_key for each in people), _NO_FACTS)
    filters = [number for number in numbers if program.event_of(number) is None]
    columns = [case((fact_clause(tenant_id, program, number, now), 1), else_=0) for number in filters]
    keys = [each.contact_key for each in people]
    rows: Any = await tx.execute(select(contacts.c.id, *columns).where(contacts.c.id.in_(keys)))
    found = {row[0]: dict(zip(filters, map(bool, row[1:]), strict=True)) for row in rows}
    await _add_missing_consent(tx, program, found)
    for number in numbers:
        if (fact := program.event_of(number)) is not None:
            happened = await _had_event(tx, tenant_id, fact, people)
            for key, facts in found.items():
                facts[number] = key in happened
    return dict(found)


async def _add_missing_consent(tx: Transaction, program: Program, found: Mapping[int, dict[int, bool]]) -> None:
    """Of the people who may not receive an email, find out whose consent alone is missing."""
    excluded = [key for key, facts in found.items() if facts.get(ELIGIBLE) is False]
    if excluded:
        lacking = select(contacts.c.id).where(contacts.c.id.in_(excluded), lacks_consent(program.lists))
        waiting = {row.id for row in await tx.execute(lacking)}
        for key in excluded:
            found[key][LACKS_CONSENT] = key in waiting


async def _had_event(tx: Transaction, tenant_id: int, fact: EventFact, people: Iterable[Enrolled]) -> set[int]:
    """Return the contacts who had an event since they entered, or since they began to wait."""
    asked = [each.id for each in people if fact.is_since_entry or each.waits_since is not None]
    if not asked:
        return set()
    happened = and_(_E.id.in_(asked), contacts.c.id == _E.contact_key, event_clause(tenant_id, fact))
    return {row.contact_key for row in await tx.execute(select(_E.contact_key).where(happened))}


def event_clause(tenant_id: int, fact: EventFact) -> ColumnElement[bool]:
    """Return the condition of an event for a contact and their enrolment."""
    if fact.is_since_entry:
        return reported_after(fact.event, tenant_id, _E.events_after, _E.entered_at)
    return reported_since(fact.event, tenant_id, _E.waits_since)


def fact_clause(tenant_id: int, program: Program, number: int, now: Instant) -> ColumnElement[bool]:
    if number == ELIGIBLE:
        return may_receive(tenant_id, program.lists)
    condition: Any = program.conditions[number]
    return filter_clause(condition, tenant_id, now)
