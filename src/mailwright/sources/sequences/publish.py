"""What a new version means for the people in a sequence: who stays, who moves, who ends and who is overdue."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, func, select

from mailwright.audience.enrolments import end_enrolments
from mailwright.domain.clock import Instant
from mailwright.sources.sequences.content_checks import PublishWarning
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice, OverdueUndecided
from mailwright.sources.sequences.program import EndReason, Program, closest_node, wait_end
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, sequence_enrolments

REPLACE_POSITIONS = statement(__package__, "replace_positions")

_E = sequence_enrolments.c
_BATCH: Final = 5_000


@dataclass(frozen=True, slots=True)
class AffectedPerson:
    """Somebody who moves, ends, or whose wait changes."""

    id: int
    email: str
    node: str
    to: str | None  # None if nothing after the step exists any more.
    waits_since: Instant | None
    due_at: Instant | None
    is_overdue: bool


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
    def by_step(self) -> dict[tuple[str, str | None], int]:
        """How many people go from one step to another one."""
        return dict(Counter((each.node, each.to) for each in self.affected if each.to != each.node))


NOBODY: Final = MovePlan(0, ())


def is_enrolled(sequence_key: int) -> ColumnElement[bool]:
    return and_(_E.sequence_key == sequence_key, _E.ended_at.is_(None))


async def plan_moves(
    tx: Transaction, sequence_key: int, old: Program, new: Program, *, now: Instant, zone: str
) -> MovePlan:
    """Return what happens to everyone. Only people at steps that changed are read."""
    counted = select(_E.node, func.count().label("people")).where(is_enrolled(sequence_key)).group_by(_E.node)
    rows = await tx.execute(counted)
    targets: dict[str, str | None] = {}
    for row in rows:
        if row.node is not None:
            found = closest_node(old, old.by_id[row.node], new)
            to = None if found is None else new.nodes[found].id
            if to != row.node or _is_changed_wait(old, new, row.node):
                targets[row.node] = to
    affected = await _affected(tx, sequence_key, targets, new, now=now, zone=zone) if targets else ()
    return MovePlan(sum(row.people for row in rows), affected)


async def _affected(
    tx: Transaction, sequence_key: int, targets: dict[str, str | None], new: Program, *, now: Instant, zone: str
) -> tuple[AffectedPerson, ...]:
    columns = (_E.id, contacts.c.email, contacts.c.timezone, _E.node, _E.waits_since, _E.due_at)
    joined = select(*columns).join_from(sequence_enrolments, contacts, contacts.c.id == _E.contact_key)
    matching = and_(is_enrolled(sequence_key), _E.node.in_(list(targets)))
    found = []
    for row in await tx.execute(joined.where(matching).order_by(_E.contact_key)):
        # A step that failed has no time. If it was removed, what follows it happens now.
        to, waits_since = targets[row.node], None
        due_at = now if row.due_at is None and to != row.node else row.due_at
        if to == row.node:
            waits_since = row.waits_since
            if waits_since is not None and due_at is not None:
                due_at = wait_end(new.nodes[new.by_id[row.node]], waits_since, row.timezone or zone)
        # Those who move keep their time: what follows a removed step happens when that step would have ended.
        is_overdue = due_at is not None and due_at <= now < (row.due_at or 0)
        found.append(AffectedPerson(row.id, row.email, row.node, to, waits_since, due_at, is_overdue))
    return tuple(found)


async def move_everyone(
    tx: Transaction, plan: MovePlan, choice: OverdueChoice | None, now: Instant, *, is_paused: bool
) -> None:
    """Move everyone to the new version. Raise OverdueUndecided if somebody is overdue and nobody decided.

    While the sequence is paused, nothing happens to the overdue, and resuming it asks about them.
    """
    if plan.overdue and choice is None and not is_paused:
        raise OverdueUndecided(plan.overdue)
    kept = []
    for each in plan.affected:
        if each.to is not None:
            due_at = each.due_at
            if each.is_overdue and choice is not None:
                due_at = choice.due_at(each.id, now)
            is_skipped = each.is_overdue and choice is not None and choice.choice is Overdue.SKIP
            kept.append((each.id, each.to, each.waits_since, due_at, int(is_skipped)))
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
