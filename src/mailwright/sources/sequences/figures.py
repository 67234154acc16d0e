"""Figures of sequences: people, emails, goals, and how many people took each step."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, case, func, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.program import EndReason
from mailwright.sources.sequences.records import StoredSequence
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import sequence_enrolments, sequence_steps, sequence_versions, sequences

COUNT_UNSENT = statement(__package__, "count_unsent")

_E = sequence_enrolments.c
_S = sequence_steps.c
# Only people who took at least one step before they reached the goal.
_REACHED_GOAL = and_(_E.end_reason == EndReason.GOAL.value, _E.visit > 0)


@dataclass(frozen=True, slots=True)
class SequenceFigures:
    """Totals of a sequence. `goals` are people who reached the goal after at least one step."""

    entered: int = 0
    enrolled: int = 0
    goals: int = 0
    emails: int = 0

    @property
    def goal_rate(self) -> float | None:
        return self.goals / self.entered if self.entered else None


@dataclass(frozen=True, slots=True)
class StepFigures:
    waiting: int = 0  # They are at this step now.
    failed: int = 0
    passed: int = 0
    by_outcome: Mapping[str, int] = field(default_factory=dict)
    unsent: int = 0  # They are at this wait, which counts from when their previous email is sent.


@dataclass(frozen=True, slots=True)
class StepReport:
    """What happened at each step, by its ID, and how long people took to reach the goal."""

    starting: int
    steps: Mapping[str, StepFigures]
    median_to_goal: Instant | None


async def load_figures(database: Readable, tenant_id: int) -> dict[int, SequenceFigures]:
    """Return the figures of a tenant's sequences by key. Sequences that nobody entered are left out."""
    mine = _E.sequence_key.in_(select(sequences.c.id).where(sequences.c.tenant_id == tenant_id))
    totals = select(
        _E.sequence_key,
        func.count().label("entered"),
        func.sum(case((_E.ended_at.is_(None), 1), else_=0)).label("enrolled"),
        func.sum(case((_REACHED_GOAL, 1), else_=0)).label("goals"),
    )
    sent = select(_E.sequence_key, func.count().label("emails")).join_from(
        sequence_steps, sequence_enrolments, _E.id == _S.enrolment_key
    )
    is_email = (_S.kind == StepKind.SEND.value, _S.outcome == "sent")
    async with database.read() as tx:
        rows = await tx.execute(totals.where(mine).group_by(_E.sequence_key))
        emails = await tx.execute(sent.where(mine, *is_email).group_by(_E.sequence_key))
    by_key = {row.sequence_key: row.emails for row in emails}
    return {
        row.sequence_key: SequenceFigures(
            row.entered, int(row.enrolled), int(row.goals), by_key.get(row.sequence_key, 0)
        )
        for row in rows
    }


async def load_step_report(database: Readable, sequence: StoredSequence) -> StepReport:
    """Return the figures of each step of a sequence."""
    mine = _E.sequence_key == sequence.id
    is_failed = case((_E.failure.is_not(None), 1), else_=0)
    places = select(_E.node, func.count().label("people"), func.sum(is_failed).label("failed"))
    taken = select(_S.node, _S.outcome, func.count().label("people")).join_from(
        sequence_steps, sequence_enrolments, _E.id == _S.enrolment_key
    )
    async with database.read() as tx:
        at = await tx.execute(places.where(mine, _E.ended_at.is_(None)).group_by(_E.node))
        passed = await tx.execute(taken.where(mine).group_by(_S.node, _S.outcome))
        median = await _median_to_goal(tx, and_(mine, _REACHED_GOAL))
        waiting = await tx.run(COUNT_UNSENT, sequence_key=sequence.id, lane=sequence.lane)
    unsent = {row.node: row.people for row in waiting}
    outcomes: dict[str, dict[str, int]] = {}
    for row in passed:
        outcomes.setdefault(row.node, {})[row.outcome] = row.people
    here = {row.node: (row.people - int(row.failed), int(row.failed)) for row in at}
    starting = sum(here.pop(None, (0, 0)))
    steps = {
        node: StepFigures(
            *here.get(node, (0, 0)),
            sum(outcomes.get(node, {}).values()),
            outcomes.get(node, {}),
            unsent.get(node, 0),
        )
        for node in here.keys() | outcomes.keys()
    }
    return StepReport(starting, steps, median)


async def load_published_document(database: Database, sequence: StoredSequence) -> Any:
    """Return the published document; None if the sequence was never published."""
    v = sequence_versions.c
    query = select(v.document).where(v.sequence_key == sequence.id, v.version == sequence.version)
    async with database.read() as tx:
        rows = await tx.execute(query)
    return orjson.loads(rows[0].document) if rows else None


async def load_published_triggers(database: Database, tenant_id: int) -> dict[int, Any]:
    """Return the triggers of the published versions, by the key of the sequence."""
    v, q = sequence_versions.c, sequences.c
    current = (v.sequence_key == q.id) & (v.version == q.version)
    query = select(q.id, v.document).join_from(sequences, sequence_versions, current).where(q.tenant_id == tenant_id)
    async with database.read() as tx:
        return {row.id: orjson.loads(row.document)["trigger"] for row in await tx.execute(query)}


async def _median_to_goal(tx: Transaction, matching: ColumnElement[bool]) -> Instant | None:
    people = (await tx.execute(select(func.count()).select_from(sequence_enrolments).where(matching)))[0][0]
    length = _E.ended_at - _E.entered_at
    rows = await tx.execute(select(length).where(matching).order_by(length).offset(people // 2).limit(1))
    return int(rows[0][0]) if rows else None
