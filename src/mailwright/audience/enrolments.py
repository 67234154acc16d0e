"""Start and end runs through sequences because of subscriptions and unsubscribes, in the same transaction.

Every function that subscribes contacts calls `enrol_subscribers`, and every function that suppresses addresses calls
`end_suppressed`. `sources/sequences` runs the steps.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import select

from mailwright.audience.subscription_events import CONTACT_KEY
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.operations import cancel_or_expire
from mailwright.outbox.settle import NO_MESSAGE, append_events, event_row
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import sequence_enrolments, sequence_steps, sequences

ENROL_SUBSCRIBERS = statement(__package__, "enrol_subscribers")
END_ENROLMENTS = statement(__package__, "end_enrolments")
ENDED_FOR_WEBHOOKS = statement(__package__, "ended_for_webhooks")
HAS_LIST_SEQUENCE = statement(__package__, "has_list_sequence")
LOCK_ENROLMENTS_OF_CONTACT = statement(__package__, "lock_enrolments_of_contact")
LOCK_ENROLMENTS_TO_END = statement(__package__, "lock_enrolments_to_end")
REACH_GOAL_AFTERWARDS = statement(__package__, "reach_goal_afterwards")
UNSENT_OF_ENROLMENTS = statement(__package__, "unsent_of_enrolments")

FINISHED: Final = "finished"
GOAL: Final = "goal"


@dataclass(frozen=True, slots=True)
class SuppressedAddress:
    """An address that no longer receives email of a scope, and the reason."""

    tenant_id: int
    email: str
    list_key: str  # The scope: a list, `general` or `*`.
    reason: str


async def enrol_subscribers(
    tx: Runner, tenant_id: int, emails: Iterable[str], list_key: str, *, now: Instant, since: Instant = 0
) -> None:
    """Enrol contacts who have just joined a list into the sequences that it starts.

    `since` leaves out those who were subscribed before.
    """
    if not await starts_sequence(tx, tenant_id, list_key):
        return
    rows = [(email,) for email in sorted(set(emails))]
    values = {"tenant_id": tenant_id, "list_key": list_key, "because": f"list {list_key}", "since": since, "now": now}
    await tx.count(ENROL_SUBSCRIBERS, contacts=rows, **values)


async def starts_sequence(tx: Runner, tenant_id: int, list_key: str) -> bool:
    """Return whether contacts who join the list enter a sequence."""
    return bool(await tx.run(HAS_LIST_SEQUENCE, tenant_id=tenant_id, list_key=list_key))


async def end_suppressed(tx: Runner, addresses: Sequence[SuppressedAddress], now: Instant) -> None:
    """End the enrolments of people who unsubscribed, bounced or complained, and cancel their unsent messages."""
    rows = [(each.tenant_id, each.email, each.list_key, each.reason) for each in addresses]
    if rows:
        found = {row.id: row.reason for row in await tx.run(LOCK_ENROLMENTS_TO_END, facts=rows)}
        await end_enrolments(tx, found.items(), now)


async def end_of_contact(tx: Runner, contact_key: int, reason: str, now: Instant) -> None:
    """End all enrolments of a contact who is deleted or erased."""
    rows = await tx.run(LOCK_ENROLMENTS_OF_CONTACT, contact_key=contact_key)
    await end_enrolments(tx, [(row.id, reason) for row in rows], now)


async def end_enrolments(tx: Runner, ended: Iterable[tuple[int, str]], now: Instant) -> None:
    """End enrolments with their reasons, and cancel their messages that no worker has begun to send.

    A finished run keeps its messages, unless the person reaches the goal or an exit before they are sent.
    """
    rows = sorted(ended)
    if not rows:
        return
    await tx.count(END_ENROLMENTS, ended=rows, now=now)
    await _publish_ends(tx, rows, now)
    await cancel_unsent(tx, [key for key, reason in rows if reason != FINISHED], now)


async def reach_goal_afterwards(tx: Runner, finished: Iterable[int], now: Instant) -> None:
    """Record that people reached the goal after their runs had finished, and cancel their unsent messages."""
    rows = [(key, GOAL) for key in sorted(finished)]
    if rows:
        await tx.count(REACH_GOAL_AFTERWARDS, reached=rows, now=now)
        await _publish_ends(tx, rows, now)
        await cancel_unsent(tx, [key for key, _ in rows], now)


async def cancel_unsent(tx: Runner, enrolments: Collection[int], now: Instant) -> None:
    """Cancel the unsent messages of enrolments. Attempts that workers have begun still finish."""
    if enrolments:
        unsent = await tx.run(UNSENT_OF_ENROLMENTS, ended=[(key,) for key in enrolments])
        await cancel_or_expire(tx, unsent, now)


async def _publish_ends(tx: Runner, ended: Sequence[tuple[int, str]], now: Instant) -> None:
    """Append an event for each run that ended, if a webhook of the tenant subscribes to such events."""
    pattern = f'%"{EventType.SEQUENCE_ENDED}"%'
    rows = await tx.run(ENDED_FOR_WEBHOOKS, ended=ended, now=now, pattern=pattern)
    if rows:
        facts = [(row, sequence_facts(row, row.contact_key, row.run)) for row in rows]
        ends = [
            event_row(
                NO_MESSAGE,
                row.tenant_id,
                Event(EventType.SEQUENCE_ENDED, now, {**about, "step": row.node, "reason": row.end_reason}),
            )
            for row, about in facts
        ]
        await append_events(tx, ends)


def sequence_facts(sequence: Any, contact_key: int, run: int) -> dict[str, Any]:
    """Return the data that all events of sequences contain.

    They refer to the contact by its key, so that an erasure also applies to them.
    """
    return {CONTACT_KEY: contact_key, "sequenceId": sequence.sequence_id, "sequence": sequence.name, "run": run}


async def export_enrolments(database: Database, contact_key: int) -> list[dict[str, Any]]:
    """Return the contact's runs through sequences with their steps, for a data access request."""
    q, e, s = sequences.c, sequence_enrolments.c, sequence_steps.c
    runs = select(q.name, e.id, e.entered_at, e.entered_because, e.node, e.ended_at, e.end_reason).join_from(
        sequence_enrolments, sequences, q.id == e.sequence_key
    )
    done = select(s.enrolment_key, s.node, s.kind, s.at, s.outcome).join_from(
        sequence_steps, sequence_enrolments, e.id == s.enrolment_key
    )
    mine = e.contact_key == contact_key
    async with database.read() as tx:
        rows = await tx.execute(runs.where(mine).order_by(e.id))
        steps: dict[int, list[dict[str, Any]]] = {row.id: [] for row in rows}
        for row in await tx.execute(done.where(mine).order_by(s.enrolment_key, s.visit)):
            step = {"step": row.node, "kind": row.kind, "at": isoformat(row.at), "outcome": row.outcome}
            steps[row.enrolment_key].append(step)
    return [
        {
            "name": row.name,
            "enteredAt": isoformat(row.entered_at),
            "enteredBecause": row.entered_because,
            "step": row.node,
            "endedAt": isoformat(row.ended_at),
            "endReason": row.end_reason,
            "steps": steps[row.id],
        }
        for row in rows
    ]
