"""Apply the change steps of sequences: tags, attributes and subscriptions of the people who are at them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson

from mailwright.audience import status
from mailwright.audience.contact_fields import merge_attributes
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.enrolled import Enrolled
from mailwright.sources.sequences.program import Program
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

ADD_TAGS = statement(__package__, "add_tags")
REMOVE_TAGS = statement(__package__, "remove_tags")
SET_ATTRIBUTES = statement(__package__, "set_attributes")


async def apply_changes(
    tx: Transaction, sequence: Any, program: Program, people: Sequence[Enrolled], now: Instant
) -> None:
    """Apply the changes of the steps at which these people are."""
    by_node: dict[int, list[Enrolled]] = defaultdict(list)
    for person in people:
        by_node[person.node].append(person)
    for node, group in by_node.items():
        await _apply(tx, sequence, program.nodes[node].body, group, now)


async def _apply(tx: Transaction, sequence: Any, body: Any, people: Sequence[Enrolled], now: Instant) -> None:
    tenant_id, source = sequence.tenant_id, f"sequence {sequence.sequence_id}"
    if body.remove_tags:
        rows = [(person.contact_key, tag) for person in people for tag in body.remove_tags]
        await tx.count(REMOVE_TAGS, tags=rows)
    if body.add_tags:
        rows = [(person.contact_key, tag) for person in people for tag in body.add_tags]
        await tx.count(ADD_TAGS, tags=rows, tenant_id=tenant_id)
    if body.attributes:
        for person in people:
            person.attributes = _merged(person.attributes, body.attributes)
        await tx.count(SET_ATTRIBUTES, contacts=[(person.contact_key, person.attributes) for person in people])
    emails = [person.email for person in people]
    for list_key in body.subscribe:
        await status.subscribe(tx, tenant_id, emails, list_key, source=source, now=now)
    facts = [
        status.unsubscribe_fact(tenant_id, email, list_key, source=source, at=now)
        for list_key in body.unsubscribe
        for email in emails
    ]
    if facts:
        await status.apply_facts(tx, facts, now)


def _merged(attributes: str, changes: dict[str, Any]) -> str:
    """Return the attributes with the changes. None removes an attribute."""
    return orjson.dumps(merge_attributes(orjson.loads(attributes), changes)).decode()
