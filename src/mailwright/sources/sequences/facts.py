"""Load the facts that decide about people in a sequence: whether they match its filters and may receive its emails."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, case, select

from mailwright.audience.eligibility import may_receive
from mailwright.audience.filter_sql import filter_clause
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.enrolled import Enrolled
from mailwright.sources.sequences.program import ELIGIBLE, Program
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts

HAD_EVENT = statement(__package__, "had_event")

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
    for number in numbers:
        if (name := program.event_of(number)) is not None:
            happened = await _had_event(tx, name, people)
            for key, facts in found.items():
                facts[number] = key in happened
    return dict(found)


async def _had_event(tx: Transaction, name: str, people: Iterable[Enrolled]) -> set[int]:
    """Return the contacts who had an event since they began to wait."""
    waiting = [(each.id, each.waits_since) for each in people if each.waits_since is not None]
    rows = await tx.run(HAD_EVENT, people=waiting, name=name) if waiting else ()
    return {row.contact_key for row in rows}


def fact_clause(tenant_id: int, program: Program, number: int, now: Instant) -> ColumnElement[bool]:
    if number == ELIGIBLE:
        return may_receive(tenant_id, [] if program.list_key is None else [program.list_key])
    condition: Any = program.filters[number]
    return filter_clause(condition, tenant_id, now)
