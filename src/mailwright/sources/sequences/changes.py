"""Apply the change steps of sequences: tags, attributes and subscriptions of the people who are at them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.audience import contact_changes, status
from mailwright.audience.contact_fields import merge_attributes
from mailwright.audience.eligibility import opt_out
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.enrolled import Enrolled
from mailwright.sources.sequences.program import Program
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts

# The outcome of a change. The lists to which the person was not subscribed follow, with the reasons.
CHANGED: Final = "changed"


async def apply_changes(
    tx: Transaction, sequence: Any, program: Program, people: Sequence[Enrolled], now: Instant
) -> dict[int, str]:
    """Apply the changes of the steps at which these people are, and return their outcomes by enrolment."""
    by_node: dict[int, list[Enrolled]] = defaultdict(list)
    for person in people:
        by_node[person.node].append(person)
    outcomes = dict.fromkeys((person.id for person in people), CHANGED)
    for node, group in by_node.items():
        body = program.nodes[node].body
        await _apply(tx, sequence, body, group, now)
        for list_key in body.subscribe:
            for key, reason in (await _subscribe(tx, sequence, list_key, group, now)).items():
                outcomes[key] += f"; {list_key}: {reason}"
    return outcomes


async def _apply(tx: Transaction, sequence: Any, body: Any, people: Sequence[Enrolled], now: Instant) -> None:
    tenant_id = sequence.tenant_id
    if body.remove_tags:
        rows = [(person.contact_key, tag) for person in people for tag in body.remove_tags]
        await contact_changes.remove_tags(tx, rows)
    if body.add_tags:
        rows = [(person.contact_key, tag) for person in people for tag in body.add_tags]
        await contact_changes.add_tags(tx, tenant_id, rows)
    if body.attributes:
        for person in people:
            person.attributes = _merged(person.attributes, body.attributes)
        await contact_changes.set_attributes(tx, [(person.contact_key, person.attributes) for person in people])
    facts = [
        status.unsubscribe_fact(tenant_id, person.email, list_key, source=_source(sequence), at=now)
        for list_key in body.unsubscribe
        for person in people
    ]
    if facts:
        await status.apply_facts(tx, facts, now)


async def _subscribe(
    tx: Transaction, sequence: Any, list_key: str, people: Sequence[Enrolled], now: Instant
) -> dict[int, str]:
    """Subscribe people, but never against their own decision.

    Return why the others are not subscribed, by enrolment.
    """
    reasons = select(contacts.c.id, opt_out(list_key).label("reason"))
    rows = await tx.execute(reasons.where(contacts.c.id.in_([person.contact_key for person in people])))
    against = {row.id: row.reason for row in rows if row.reason is not None}
    emails = [person.email for person in people if person.contact_key not in against]
    await status.subscribe(tx, sequence.tenant_id, emails, list_key, source=_source(sequence), now=now)
    return {person.id: against[person.contact_key] for person in people if person.contact_key in against}


def _source(sequence: Any) -> str:
    return f"sequence {sequence.sequence_id}"


def _merged(attributes: str, changes: dict[str, Any]) -> str:
    """Return the attributes with the changes. None removes an attribute."""
    return orjson.dumps(merge_attributes(orjson.loads(attributes), changes)).decode()
