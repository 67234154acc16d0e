"""How a new version affects the people in a sequence: who stays, who moves, whose run ends and who is overdue."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, func, or_, select, update

from mailwright.audience.enrolments import end_enrolments
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.content_checks import PublishWarning
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrolled import received_steps
from mailwright.sources.sequences.last_emails import LastEmail, load_last_emails
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice, OverdueUndecided
from mailwright.sources.sequences.program import (
    EndReason,
    Program,
    closest_node,
    emails_sent_once,
    steps_ahead,
    wait_end,
)
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, sequence_enrolments, sequence_steps

REPLACE_POSITIONS = statement(__package__, "replace_positions")

_E = sequence_enrolments.c
_S = sequence_steps.c
_PERSON: Final = (_E.id, contacts.c.email, contacts.c.timezone, _E.node, _E.waits_since, _E.due_at)
_JOINED: Final = (sequence_enrolments, contacts, contacts.c.id == _E.contact_key)
_BATCH: Final = 5_000


class Received(StrEnum):
    """Whether a person gets an email a second time, if a new version moves its step after their position."""

    SKIP = "skip"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class AffectedPerson:
    """A person whom a new version moves, whose run it ends, whose wait it changes, or who would get an email a second
    time.
    """

    id: int
    email: str
    node: str
    to: str | None  # None if nothing after the step exists any more.
    waits_since: Instant | None
    due_at: Instant | None
    is_overdue: bool
    received: tuple[str, ...] = ()  # Emails that lie ahead of them again.


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Who is affected by a new version, in totals and person by person."""

    enrolled: int
    affected: tuple[AffectedPerson, ...]
    warnings: tuple[PublishWarning, ...] = ()  # Of the pre-send check of its emails and its feed.

    @property
    def stays(self) -> int:
        return self.enrolled - self.moves - self.ends

    @property
    def moves(self) -> int:
        return sum(each.to not in (each.node, None) for each in self.affected)

    @property
    def ends(self) -> int:
        return sum(each.to is None for each in self.affected)

    @property
    def overdue(self) -> int:
        return sum(each.is_overdue for each in self.affected)

    @property
    def received(self) -> dict[str, int]:
        """The number of people who would get an email a second time, by step."""
        return dict(Counter(step for each in self.affected for step in each.received))

    @property
    def by_step(self) -> dict[tuple[str, str | None], int]:
        """How many people go from one step to another one."""
        return dict(Counter((each.node, each.to) for each in self.affected if each.to != each.node))


NOBODY: Final = MovePlan(0, ())


def audit_detail(plan: MovePlan, choice: Received) -> dict[str, Any]:
    """Return what the audit log records about a publication."""
    totals = {"stays": plan.stays, "moves": plan.moves, "ends": plan.ends, "overdue": plan.overdue}
    return totals | ({"received": plan.received, "received_choice": choice.value} if plan.received else {})


def is_enrolled(sequence_key: int) -> ColumnElement[bool]:
    return and_(_E.sequence_key == sequence_key, _E.ended_at.is_(None))


async def plan_moves(
    tx: Transaction, sequence_key: int, old: Program, new: Program, *, now: Instant, zone: str
) -> MovePlan:
    """Return what happens to everyone.

    Read only the people at changed steps and those who would get an email a second time.
    """
    counted = select(_E.node, func.count().label("people")).where(is_enrolled(sequence_key)).group_by(_E.node)
    rows = await tx.execute(counted)
    places = {row.node: closest_node(old, old.by_id[row.node], new) for row in rows if row.node is not None}
    targets = {node: None if to is None else new.nodes[to].id for node, to in places.items()}
    changed = [node for node, to in targets.items() if to != node or _is_changed_wait(old, new, node)]
    repeated = await _repeated_emails(tx, sequence_key, old, new, places)
    affected = []
    if changed:
        matching = and_(is_enrolled(sequence_key), _E.node.in_(changed))
        people = await tx.execute(select(*_PERSON).join_from(*_JOINED).where(matching).order_by(_E.contact_key))
        emails = await load_last_emails(tx, [row.id for row in people if row.waits_since is not None])
        for row in people:
            _, received = repeated.pop(row.id, (row, ()))
            affected.append(_moved(row, targets[row.node], new, received, emails.get(row.id), now=now, zone=zone))
    for row, received in repeated.values():
        affected.append(
            AffectedPerson(row.id, row.email, row.node, row.node, row.waits_since, row.due_at, False, received)
        )
    return MovePlan(sum(row.people for row in rows), tuple(affected))


async def _repeated_emails(
    tx: Transaction, sequence_key: int, old: Program, new: Program, places: dict[str, int | None]
) -> dict[int, tuple[Any, tuple[str, ...]]]:
    """Return the people who would get an email a second time in this run because of the new version.

    Emails in a cycle are meant to be sent again.
    """
    once, added, coming = emails_sent_once(new), {}, {}
    for node, position in places.items():
        if position is not None:
            ahead = {new.nodes[each].id for each in once & steps_ahead(new, position)}
            expected = {old.nodes[each].id for each in steps_ahead(old, old.by_id[node])}
            added[node], coming[node] = ahead - expected, ahead
    moved = [and_(_E.node == node, _S.node.in_(sorted(steps))) for node, steps in added.items() if steps]
    was_sent = and_(_S.kind == StepKind.SEND.value, _S.outcome == "sent", or_(_E.received_steps.is_not(None), *moved))
    query = (
        select(*_PERSON, _E.received_steps, _S.node.label("step"))
        .join_from(*_JOINED)
        .join(sequence_steps, _S.enrolment_key == _E.id)
    )
    people, found = {}, defaultdict(set)
    for row in await tx.execute(query.where(is_enrolled(sequence_key), was_sent).order_by(_E.contact_key)):
        # An email that an earlier version skipped is still skipped.
        left_out = row.step in received_steps(row.received_steps) and row.step in coming.get(row.node, ())
        if left_out or row.step in added.get(row.node, ()):
            people[row.id] = row
            found[row.id].add(row.step)
    return {key: (row, tuple(sorted(found[key]))) for key, row in people.items()}


def _moved(
    row: Any,
    to: str | None,
    new: Program,
    received: tuple[str, ...],
    email: LastEmail | None,
    *,
    now: Instant,
    zone: str,
) -> AffectedPerson:
    # A failed step has no time. If it was removed, the step after it runs now.
    waits_since = None
    due_at = now if row.due_at is None and to != row.node else row.due_at
    if to == row.node:
        waits_since = row.waits_since
        if waits_since is not None and due_at is not None:
            left_at = None if email is None else email.leaves_at(now)
            due_at = wait_end(new.nodes[new.by_id[row.node]], waits_since, row.timezone or zone, left_at)
    # People who move keep their time: the step after a removed step runs when the removed step would have ended.
    is_overdue = due_at is not None and due_at <= now < (row.due_at or 0)
    return AffectedPerson(row.id, row.email, row.node, to, waits_since, due_at, is_overdue, received)


async def move_everyone(
    tx: Transaction,
    sequence_key: int,
    plan: MovePlan,
    choice: OverdueChoice | None,
    now: Instant,
    *,
    is_paused: bool,
    received: Received,
) -> None:
    """Move everyone to the new version. Raise OverdueUndecided if somebody is overdue and nobody decided.

    While the sequence is paused, overdue steps do not run, and resuming the sequence asks for the decision.
    """
    if plan.overdue and choice is None and not is_paused:
        raise OverdueUndecided(plan.overdue)
    left_out = and_(is_enrolled(sequence_key), _E.received_steps.is_not(None))
    await tx.execute(update(sequence_enrolments).where(left_out).values(received_steps=None))
    kept = []
    for each in plan.affected:
        if each.to is not None:
            due_at = each.due_at
            if each.is_overdue and choice is not None:
                due_at = choice.due_at(each.id, now)
            is_skipped = each.is_overdue and choice is not None and choice.choice is Overdue.SKIP
            skips = orjson.dumps(each.received).decode() if each.received and received is Received.SKIP else None
            kept.append((each.id, each.to, each.waits_since, due_at, int(is_skipped), skips))
    for start in range(0, len(kept), _BATCH):
        await tx.count(REPLACE_POSITIONS, moved=kept[start : start + _BATCH])
    ended = [(each.id, EndReason.REMOVED.value) for each in plan.affected if each.to is None]
    await end_enrolments(tx, ended, now)


def _is_changed_wait(old: Program, new: Program, node: str) -> bool:
    position = new.by_id.get(node)
    if position is None or not new.is_at_wait(position) or not old.is_at_wait(old.by_id[node]):
        return False
    before, after = old.nodes[old.by_id[node]], new.nodes[position]
    return (before.kind, before.body) != (after.kind, after.body)
