"""How a new version affects the people in a sequence: who stays, who moves, whose run ends and who is overdue."""

from collections import Counter, defaultdict
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import ColumnElement, and_, func, or_, select, update

from mailwright.audience.enrolments import end_enrolments
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
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
from mailwright.sources.sequences.versions import load_published
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, sequence_enrolments, sequence_steps

REPLACE_POSITIONS = statement(__package__, "replace_positions")

_E = sequence_enrolments.c
_S = sequence_steps.c
_PERSON: Final = (_E.id, contacts.c.email, contacts.c.timezone, _E.node, _E.waits_since, _E.due_at)
_JOINED: Final = (sequence_enrolments, contacts, contacts.c.id == _E.contact_key)
_WAS_SENT: Final = and_(_S.kind == StepKind.SEND.value, _S.outcome == "sent")
_BATCH: Final = 5_000


class Received(StrEnum):
    """Whether a person gets an email a second time, if a new version has its step or template after their position."""

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
            to, email = targets[row.node], emails.get(row.id)
            if to != row.node and old.awaits_consent(row.node, row.waits_since):
                # The step after a removed email runs now, or waits for the same consent.
                person = AffectedPerson(row.id, row.email, row.node, to, None, now, False, received)
            else:
                person = _moved(row, to, new, received, email, now=now, zone=zone)
            affected.append(person)
    for row, received in repeated.values():
        affected.append(
            AffectedPerson(row.id, row.email, row.node, row.node, row.waits_since, row.due_at, False, received)
        )
    return MovePlan(sum(row.people for row in rows), tuple(affected))


async def _repeated_emails(
    tx: Transaction, sequence_key: int, old: Program, new: Program, places: dict[str, int | None]
) -> dict[int, tuple[Any, tuple[str, ...]]]:
    """Return the people who would get an email a second time in this run because of the new version.

    A step sends the same email as another one if it has its ID, or its template and variables. Emails in a cycle are
    meant to be sent again.
    """
    once, added, coming = emails_sent_once(new), {}, {}
    for node, position in places.items():
        if position is not None:
            ahead = {new.nodes[each].id for each in once & steps_ahead(new, position)}
            expected = {old.nodes[each].id for each in steps_ahead(old, old.by_id[node])}
            changed = {step for step in ahead & expected if _email_of(old, step) != _email_of(new, step)}
            added[node], coming[node] = _AddedEmails(ahead - expected, changed), ahead
    repeats = await _repeats(tx, sequence_key, new, added)
    moved = [and_(_E.node == node, or_(*map(_is_step, emails))) for node, emails in repeats.items()]
    query = (
        select(*_PERSON, _E.received_steps, _S.version, _S.node.label("step"))
        .join_from(*_JOINED)
        .join(sequence_steps, _S.enrolment_key == _E.id)
        .where(is_enrolled(sequence_key), _WAS_SENT, or_(_E.received_steps.is_not(None), *moved))
    )
    people: dict[int, Any] = {}
    found: defaultdict[int, set[str]] = defaultdict(set)
    for row in await tx.execute(query.order_by(_E.contact_key)):
        # An email that an earlier version skipped is still skipped.
        again = received_steps(row.received_steps) & coming.get(row.node, set())
        again |= repeats.get(row.node, {}).get((row.version, row.step), frozenset())
        if again:
            people[row.id] = row
            found[row.id] |= again
    return {key: (row, tuple(sorted(found[key]))) for key, row in people.items()}


class _AddedEmails(NamedTuple):
    """The email steps that a new version adds after a position, and those there that send another email than before."""

    steps: set[str]
    changed: set[str]


async def _repeats(
    tx: Transaction, sequence_key: int, new: Program, added: dict[str, _AddedEmails]
) -> dict[str, dict[tuple[int, str], frozenset[str]]]:
    """Return, by the position of people, which recorded emails the added steps would send again.

    A recorded email is a version and a step of it, because a step can have another template in each version.
    """
    positions = [node for node, emails in added.items() if emails.steps or emails.changed]
    if not positions:
        return {}
    recorded = select(_S.version, _S.node).join_from(sequence_steps, sequence_enrolments, _E.id == _S.enrolment_key)
    recorded = recorded.where(is_enrolled(sequence_key), _E.node.in_(positions), _WAS_SENT).distinct()
    sent = [(row.version, row.node) for row in await tx.execute(recorded)]
    versions = {each: await load_published(tx, sequence_key, each) for each in sorted({version for version, _ in sent})}
    emails = {(version, node): _email_of(versions[version].program, node) for version, node in sent}
    found: dict[str, dict[tuple[int, str], frozenset[str]]] = {}
    for position in positions:
        steps, changed = added[position]
        for key, email in emails.items():
            same = {step for step in steps | changed if _email_of(new, step) == email} | (steps & {key[1]})
            if same:
                found.setdefault(position, {})[key] = frozenset(same)
    return found


def _email_of(program: Program, step: str) -> tuple[str, dict[str, Any]] | None:
    """Return what a step sends, None if it is no email. Its subject can differ for the same email."""
    node = program.nodes[program.by_id[step]]
    return (node.body.template, node.body.variables) if node.kind is StepKind.SEND else None


def _is_step(recorded: tuple[int, str]) -> ColumnElement[bool]:
    version, node = recorded
    return and_(_S.version == version, _S.node == node)


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
    if to is not None and to == row.node and new.is_at_wait(new.by_id[to]):
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
    """Return whether a step is another wait than before, or is a wait only in one of the versions."""
    position = new.by_id.get(node)
    if position is None or not (new.is_at_wait(position) or old.is_at_wait(old.by_id[node])):
        return False
    before, after = old.nodes[old.by_id[node]], new.nodes[position]
    return (before.kind, before.body) != (after.kind, after.body)
