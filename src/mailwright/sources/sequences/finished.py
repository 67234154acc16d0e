"""Runs that have finished: they can still reach the goal for a while, and their unsent emails are cancelled after an
exit.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, and_, select, text

from mailwright.audience.enrolments import cancel_unsent, reach_goal_afterwards
from mailwright.domain.clock import Instant
from mailwright.domain.lanes import sequence_lane
from mailwright.sources.sequences.program import EndReason
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import IS_WAITING, contacts, deliveries, messages, sequence_enrolments

LATEST_RUNS = statement(__package__, "latest_runs")

_E = sequence_enrolments.c
# Literals instead of parameters, so that the database can use the partial indexes.
_IS_FINISHED = text("sequence_enrolments.end_reason = 'finished'")


async def load_latest_runs(tx: Transaction, sequence_key: int, contact_keys: Iterable[int]) -> list[Any]:
    """Return the latest run of each contact, if it is open or finished."""
    rows = await tx.run(LATEST_RUNS, contacts=[(key,) for key in sorted(contact_keys)], sequence_key=sequence_key)
    latest = {row.contact_key: row for row in rows}
    return [row for _, row in sorted(latest.items()) if row.end_reason in (None, EndReason.FINISHED)]


def split_runs(runs: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the open runs and the finished runs."""
    found = list(runs)
    return [row for row in found if row.ended_at is None], [row for row in found if row.ended_at is not None]


async def stop_finished(
    tx: Transaction, finished: Iterable[Any], reason: EndReason, since: Instant, now: Instant
) -> None:
    """Handle the goal or an exit of finished runs. The goal counts for those that finished after a time."""
    runs = list(finished)
    reached = {row.id for row in runs if reason is EndReason.GOAL and row.ended_at >= since}
    await reach_goal_afterwards(tx, reached, now)
    await cancel_unsent(tx, [row.id for row in runs if row.id not in reached], now)


def has_finished(sequence_key: int, since: Instant) -> ColumnElement[bool]:
    """Return the condition of runs that finished after a time."""
    return and_(_E.sequence_key == sequence_key, _IS_FINISHED, _E.ended_at >= since)


def has_unsent(tenant_id: int, sequence_key: int) -> ColumnElement[bool]:
    """Return the condition of finished runs of people to whom an email waits."""
    m, c = messages.c, contacts.alias("recipients").c
    waiting = select(c.id).where(
        IS_WAITING,
        deliveries.c.lane == sequence_lane(tenant_id, sequence_key),
        m.id == deliveries.c.message_key,
        c.tenant_id == tenant_id,
        c.email == m.to_email,
    )
    return and_(_E.sequence_key == sequence_key, _IS_FINISHED, _E.contact_key.in_(waiting))
