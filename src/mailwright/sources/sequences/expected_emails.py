"""Count the emails of running sequences that wait or become due soon, for the forecast of campaigns."""

from functools import lru_cache
from typing import NamedTuple

import orjson
from sqlalchemy import select

from mailwright.domain.clock import Instant
from mailwright.domain.lanes import sequence_lane
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.program import Program, successors
from mailwright.sources.sequences.versions import published_from
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import sequence_versions, sequences

COUNT_QUEUED_BY_HOUR = statement(__package__, "count_queued_by_hour")
COUNT_DUE_BY_HOUR = statement(__package__, "count_due_by_hour")


class ExpectedEmails(NamedTuple):
    """Emails of a tenant's sequences that are due at about the same time."""

    tenant_id: int
    due_at: Instant
    emails: float


async def count_expected(tx: Transaction, now: Instant, until: Instant) -> list[ExpectedEmails]:
    """Return the emails that wait, and those of steps that become due until a time, by hour.

    Emails after a person's next wait are not counted, nor are emails to people who enter in the meantime.
    """
    queued = await tx.run(COUNT_QUEUED_BY_HOUR, first_lane=sequence_lane(0, 0), now=now, until=until)
    found = [ExpectedEmails(row.tenant_id, row.due_at, float(row.emails)) for row in queued]
    due = await tx.run(COUNT_DUE_BY_HOUR, now=now, until=until)
    q, v = sequences.c, sequence_versions.c
    current = select(q.id, q.tenant_id, v.document).where(
        q.id.in_({row.sequence_key for row in due}), v.sequence_key == q.id, v.version == q.version
    )
    by_key = {row.id: row for row in await tx.execute(current)} if due else {}
    for row in due:
        sequence = by_key[row.sequence_key]
        expected = _emails_by_node(sequence.document)
        emails = row.people * expected.by_node.get(row.node, 0.0)
        if emails and not (row.is_waiting and row.node in expected.sends):  # Nobody knows whether they consent.
            found.append(ExpectedEmails(sequence.tenant_id, row.due_at, emails))
    return found


class _EmailsByNode(NamedTuple):
    """How many emails a person at each step gets until they wait again, and the steps that are emails."""

    by_node: dict[str | None, float]  # None is the start.
    sends: frozenset[str]


@lru_cache(maxsize=256)
def _emails_by_node(document: str) -> _EmailsByNode:
    program = published_from(orjson.loads(document)).program
    known: dict[int, float] = {}
    found: dict[str | None, float] = {None: _emails_from(program, 0, known)}
    for number, node in enumerate(program.nodes):
        # A person whose wait ends without the event takes the last path.
        first = successors(node)[-1] if program.is_at_wait(number) else number
        found[node.id] = _emails_from(program, first, known)
    return _EmailsByNode(found, frozenset(node.id for node in program.nodes if node.kind is StepKind.SEND))


def _emails_from(program: Program, number: int, known: dict[int, float]) -> float:
    """Estimate the emails from a node to the next wait. The paths of a branch count in equal shares."""
    if number not in known:
        node = program.nodes[number]
        paths = () if program.is_at_wait(number) else successors(node)
        is_split = node.kind is StepKind.SPLIT
        shares = [percent / 100 for percent in node.body] if is_split else [1 / len(paths) for _ in paths]
        following = sum(share * _emails_from(program, each, known) for share, each in zip(shares, paths, strict=True))
        known[number] = float(node.kind is StepKind.SEND) + following
    return known[number]
