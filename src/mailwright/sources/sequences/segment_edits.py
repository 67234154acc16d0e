"""Edit the filter of a segment that starts sequences: who would enter at once, and whether they do.

By default, people who match only because of the edit do not enter, so that an edit does not send a flood of emails.
"""

from typing import Any

from sqlalchemy import func, select

from mailwright.audience import filters, segments
from mailwright.audience.filter_references import require_references
from mailwright.audience.segments import Segment
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.send_approvals import SendKind, end_approvals, find_refusal
from mailwright.sources.sequences.definition import Trigger, TriggerKind
from mailwright.sources.sequences.enrol import OPEN_STATUSES, People, kept_out, planned_enrolment
from mailwright.sources.sequences.records import StoredSequence, columns, stored
from mailwright.sources.sequences.triggers import enrol_new_members, entered_by_edit, remember_members
from mailwright.sources.sequences.versions import load_published
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, sequences

_SEGMENT_TRIGGERS = (TriggerKind.ENTERS_SEGMENT.value, TriggerKind.LEAVES_SEGMENT.value)


@dataclass(frozen=True, slots=True)
class StartedSequence:
    """A sequence that a segment starts, and how many people would enter it because of an edit."""

    sequence_id: str
    name: str
    people: int


async def preview_edit(
    database: Database, clock: Clock, tenant_id: int, segment_key: str, filter_: Any
) -> tuple[StartedSequence, ...]:
    """Return which sequences people would enter at once if the segment had this filter."""
    filters.parse(filter_)
    async with database.read() as tx:
        await require_references(tx, tenant_id, filter_)
        found = [
            (sequence, await _count(tx, sequence, trigger, filter_, clock.now()))
            for sequence, trigger in await _started(tx, tenant_id, segment_key, locks=False)
        ]
    return tuple(StartedSequence(each.sequence_id, each.name, people) for each, people in found if people)


async def edit_segment(
    database: Database,
    clock: Clock,
    tenant_id: int,
    segment_key: str,
    *,
    filter_: Any = None,
    name: str | None = None,
    enrols: bool = False,
    actor: str,
) -> tuple[Segment, tuple[StartedSequence, ...]]:
    """Change a segment, and enrol or leave out the people who match only because of the change. Return their number."""
    now = clock.now()
    await segments.find(database, tenant_id, segment_key)
    if filter_ is not None:
        filters.parse(filter_)
    refusal = None
    async with database.write() as tx:
        started = await _started(tx, tenant_id, segment_key, locks=True) if filter_ is not None else []
        found = []
        for sequence, trigger in started:
            people = await _count(tx, sequence, trigger, filter_, now)
            found.append(StartedSequence(sequence.sequence_id, sequence.name, people))
            if enrols and people and refusal is None:
                planned = planned_enrolment(sequence, People(segment=segment_key), people, filter=filter_)
                refusal = await find_refusal(tx, now, planned, actor=actor)
        if refusal is None:
            for sequence, trigger in started:  # Who matched before the edit enters as always.
                await enrol_new_members(tx, sequence.id, tenant_id, trigger, now)
            entered = {each.sequence_id: each.people for each in found if each.people}
            detail = {"enrols": enrols, "sequences": entered} if entered else None
            await segments.change_in(
                tx, now, tenant_id, segment_key, filter_=filter_, name=name, actor=actor, detail=detail
            )
            for sequence, trigger in started:
                await (enrol_new_members if enrols else remember_members)(tx, sequence.id, tenant_id, trigger, now)
                if enrols:
                    await end_approvals(tx, tenant_id, SendKind.ENROLMENT, sequence.sequence_id)
    if refusal is not None:
        raise refusal  # After the commit, which keeps the request for an approval.
    return await segments.find(database, tenant_id, segment_key), tuple(each for each in found if each.people)


async def _started(
    tx: Transaction, tenant_id: int, segment_key: str, *, locks: bool
) -> list[tuple[StoredSequence, Trigger]]:
    """Return the running and paused sequences that the segment starts, with their triggers."""
    q = sequences.c
    matching = (q.tenant_id == tenant_id, q.trigger_kind.in_(_SEGMENT_TRIGGERS), q.trigger_value == segment_key)
    query = select(*columns()).where(*matching, q.status.in_([each.value for each in OPEN_STATUSES])).order_by(q.id)
    found = []
    for row in await tx.execute(query.with_for_update() if locks else query):
        sequence = stored(row)
        published = await load_published(tx, sequence.id, sequence.version or 1)
        found.append((sequence, published.definition.trigger))
    return found


async def _count(tx: Transaction, sequence: StoredSequence, trigger: Trigger, filter_: Any, now: Instant) -> int:
    """Count who would enter because of the new filter, under the re-entry rule."""
    [row] = await tx.execute(select(sequences.c.reentry_days).where(sequences.c.id == sequence.id))
    entering = await entered_by_edit(tx, sequence.tenant_id, trigger, filter_, now)
    may_enter = contacts.c.id.not_in(kept_out(sequence.id, row.reentry_days, now))
    rows = await tx.execute(select(func.count()).select_from(contacts).where(entering, may_enter))
    return int(rows[0][0])
