"""Create, edit, publish, pause, resume and archive sequences. Every action is recorded in the audit log."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import orjson
from sqlalchemy import and_, case, delete, func, insert, or_, select, update

from mailwright.audience.enrolments import end_enrolments
from mailwright.domain.campaign import CANCELLED, INDEFINITELY, PAUSED
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.outbox.defer import end_lane_deferral, record_lane_deferral
from mailwright.sources.api.validation import FieldError
from mailwright.sources.feeds.follow import FollowedFeed, find_feed, unfollow
from mailwright.sources.feeds.reader import Fetch
from mailwright.sources.own_drafts import require_own_draft
from mailwright.sources.send_approvals import SendKind, end_approvals
from mailwright.sources.sequences import triggers
from mailwright.sources.sequences.approval import require_publication
from mailwright.sources.sequences.content_checks import PublishWarning, check_emails
from mailwright.sources.sequences.definition import Definition, TriggerKind
from mailwright.sources.sequences.enrol import Enrolments
from mailwright.sources.sequences.explain import SequenceExplanations
from mailwright.sources.sequences.overdue import (
    OverdueChoice,
    OverdueUndecided,
    apply_choice,
    cancel_emails,
    release_emails,
)
from mailwright.sources.sequences.program import EndReason
from mailwright.sources.sequences.publish import (
    NOBODY,
    MovePlan,
    Received,
    audit_detail,
    is_enrolled,
    move_everyone,
    plan_moves,
)
from mailwright.sources.sequences.records import SequenceStatus, StoredSequence, columns, find_sequence, stored
from mailwright.sources.sequences.references import find_unknown, require_known
from mailwright.sources.sequences.rehearsal import Rehearsals
from mailwright.sources.sequences.simulated_sending import SendingRules, load_frequency_cap
from mailwright.sources.sequences.step_checks import check_steps
from mailwright.sources.sequences.versions import Published, load_published, published_from
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import sequence_enrolments, sequence_versions, sequences, tenants

COUNT_OVERDUE = statement(__package__, "count_overdue")

MAX_DOCUMENT_BYTES: Final = 512 * 1024


class SequenceChanged(NotPossibleNow):
    """Somebody else changed the sequence."""

    code = "SEQUENCE_CHANGED"

    def __init__(self, revision: int) -> None:
        super().__init__(
            "Somebody else changed the sequence (revision {revision}). Load it again and repeat your change.",
            field="revision",
            revision=revision,
        )


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """How many people are in a sequence, and how their runs ended."""

    enrolled: int
    failed: int
    overdue: int
    ended: Mapping[str, int]
    by_step: Mapping[str | None, int]
    next_entry_at: Instant | None = None  # When the schedule of the trigger is due.
    feed: FollowedFeed | None = None


class Sequences:
    def __init__(
        self, database: Database, clock: Clock, rules: SendingRules | None = None, *, fetch_feed: Fetch | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules = rules or SendingRules()
        self._zone = rules.defaults.limits.timezone
        self.fetch_feed = fetch_feed
        self.enrolments = Enrolments(database, clock)
        self.explanations = SequenceExplanations(database, clock, self._zone)
        self.rehearsals = Rehearsals(database, clock, rules)

    async def create(self, tenant_id: int, document: Any, *, actor: str) -> StoredSequence:
        """Store a draft. It runs once it is published."""
        definition = _checked(document)
        now = self._clock.now()
        sequence_id = uuid7(now)
        values = {"name": definition.name, "draft": orjson.dumps(document).decode(), "updated_at": now}
        async with self._database.write() as tx:
            await tx.execute(
                insert(sequences).values(
                    sequence_id=sequence_id,
                    tenant_id=tenant_id,
                    status=SequenceStatus.DRAFT.value,
                    revision=1,
                    created_at=now,
                    **values,
                )
            )
            await self._record(tx, tenant_id, sequence_id, actor, "create", name=definition.name)
            return await find_sequence(tx, tenant_id, sequence_id)

    async def edit(
        self,
        tenant_id: int,
        sequence_id: str,
        document: Any,
        *,
        revision: int | None,
        actor: str,
        must_be_own: bool = False,
    ) -> StoredSequence:
        """Replace the draft. People in the sequence are not affected until it is published.

        `must_be_own` refuses a sequence that was published, or that somebody else created or changed.
        """
        definition = _checked(document)
        async with self._database.write() as tx:
            sequence = await self._locked(tx, tenant_id, sequence_id, revision)
            if must_be_own:
                if sequence.version is not None:
                    raise NotPossibleNow("The sequence was published. Changing it requires the scope `manage`.")
                await require_own_draft(tx, tenant_id, sequence_id, actor)
            values = {"name": definition.name, "draft": orjson.dumps(document).decode()}
            await self._change(tx, sequence, revision=sequence.revision + 1, **values)
            detail = {"revision": sequence.revision + 1}
            await self._record(tx, tenant_id, sequence_id, actor, "edit", name=definition.name, detail=detail)
            return await find_sequence(tx, tenant_id, sequence_id)

    async def find(self, tenant_id: int, sequence_id: str) -> StoredSequence:
        async with self._database.read() as tx:
            return await find_sequence(tx, tenant_id, sequence_id)

    async def missing(self, sequence: StoredSequence) -> tuple[FieldError, ...]:
        """Return the objects that the draft refers to and the tenant does not have, such as the templates of an
        imported document.
        """
        async with self._database.read() as tx:
            return await find_unknown(tx, sequence.tenant_id, published_from(sequence.draft).definition)

    async def resolve(self, tenant_id: int, reference: str) -> str:
        """Return the ID of a sequence that is named by its ID or its name. Archived ones do not block a name."""
        q = sequences.c
        named = (q.tenant_id == tenant_id, or_(q.sequence_id == reference, q.name == reference))
        async with self._database.read() as tx:
            query = select(q.sequence_id, q.status).where(*named).order_by(q.status == SequenceStatus.ARCHIVED, q.id)
            found = await tx.execute(query.limit(2))
        if not found:
            raise NotFound("There is no such sequence.")
        rows = [row for row in found if row.status != SequenceStatus.ARCHIVED] or found
        if len(rows) > 1:
            raise InvalidInput(
                "Several sequences are named {reference}. Use the ID.", field="SEQUENCE", reference=reference
            )
        return str(rows[0].sequence_id)

    async def list_all(self, tenant_id: int) -> list[StoredSequence]:
        """Return the sequences of a tenant, the newest first."""
        query = select(*columns()).where(sequences.c.tenant_id == tenant_id).order_by(sequences.c.id.desc())
        async with self._database.read() as tx:
            return [stored(row) for row in await tx.execute(query)]

    async def counts(self, sequence: StoredSequence) -> SequenceCounts:
        e, now = sequence_enrolments.c, self._clock.now()
        mine = e.sequence_key == sequence.id
        async with self._database.read() as tx:
            # One scan of everyone who is or was in it.
            here = case((e.ended_at.is_(None), e.node))
            failed = func.count(case((e.ended_at.is_(None), e.failure)))
            totals: Any = await tx.execute(
                select(e.end_reason, here, func.count(), failed).where(mine).group_by(e.end_reason, here)
            )
            overdue = await tx.execute(select(func.count()).where(_is_overdue(sequence.id, now)))
            [due] = await tx.execute(select(sequences.c.next_entry_at).where(sequences.c.id == sequence.id))
            feed = await find_feed(tx, triggers.feed_owner(sequence.id))
        places = {row[1]: row[2] for row in totals if row[0] is None}
        return SequenceCounts(
            sum(places.values()),
            sum(row[3] for row in totals),
            overdue[0][0],
            {row[0]: row[2] for row in totals if row[0] is not None},
            places,
            due.next_entry_at,
            feed,
        )

    async def preview_publish(self, tenant_id: int, sequence_id: str) -> MovePlan:
        """Return how publishing the draft would affect people, without publishing it."""
        cap = await load_frequency_cap(self._database, self._rules, tenant_id)
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            new, old, plan = await self._prepare(tx, sequence)
            warnings = await check_emails(tx, tenant_id, new.definition, self._rules.postal_address)
            warnings += await check_steps(tx, tenant_id, new.program, cap, self._rules.lifetime)
        trigger = new.definition.trigger
        is_new = old is None or old.definition.trigger != trigger
        if is_new and trigger.kind is TriggerKind.RSS and self.fetch_feed is not None:
            unreachable = await triggers.check_feed(self.fetch_feed, trigger.body.rss)
            if unreachable is not None:
                warnings = (*warnings, PublishWarning(None, None, "", "FEED_UNREACHABLE", unreachable))
        return replace(plan, warnings=warnings)

    async def publish(
        self,
        tenant_id: int,
        sequence_id: str,
        *,
        revision: int | None = None,
        overdue: OverdueChoice | None = None,
        received: Received = Received.SKIP,
        actor: str,
    ) -> tuple[StoredSequence, MovePlan]:
        """Publish the draft and move everyone to it. The first publication starts the sequence."""
        # Raises if the draft is invalid, so that nobody is asked to approve it.
        warnings = (await self.preview_publish(tenant_id, sequence_id)).warnings
        checked, digest = await require_publication(self._database, self._clock, tenant_id, sequence_id, actor=actor)
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await self._locked(tx, tenant_id, sequence_id, revision)
            if sequence.revision != checked:
                raise SequenceChanged(sequence.revision)
            is_first = sequence.status in (SequenceStatus.DRAFT, SequenceStatus.ARCHIVED)
            mine = select(sequence_enrolments.c.id).where(is_enrolled(sequence.id))
            # All code locks enrolments in this order.
            await tx.execute(mine.order_by(sequence_enrolments.c.contact_key).with_for_update())
            new, old, plan = await self._prepare(tx, sequence)
            definition = new.definition
            is_paused = sequence.status is SequenceStatus.PAUSED
            await move_everyone(tx, sequence.id, plan, overdue, now, is_paused=is_paused, received=received)
            if is_first:
                await end_lane_deferral(tx, sequence.lane)
            is_new = old is None or old.definition.trigger != definition.trigger or is_first
            await triggers.follow_events(tx, sequence.id, new, restarts=is_new)
            if is_new:
                zone = await self._zone_of(tx, tenant_id)
                await triggers.reset(tx, sequence.id, tenant_id, definition.trigger, now=now, zone=zone)
            await end_approvals(tx, tenant_id, SendKind.SEQUENCE, sequence_id, but=digest)
            version = (sequence.version or 0) + 1
            await tx.execute(
                insert(sequence_versions).values(
                    sequence_key=sequence.id,
                    version=version,
                    document=orjson.dumps(sequence.draft).decode(),
                    published_at=now,
                    published_by=actor,
                )
            )
            await self._change(
                tx,
                sequence,
                version=version,
                status=SequenceStatus.RUNNING.value if is_first else sequence.status.value,
                trigger_kind=definition.trigger.kind.value,
                trigger_value=definition.trigger.value,
                reentry_days=definition.reentry,
                list_key=definition.list_key,
            )
            detail = {"version": version, **audit_detail(plan, received)}
            await self._record(tx, tenant_id, sequence_id, actor, "publish", name=definition.name, detail=detail)
            return await find_sequence(tx, tenant_id, sequence_id), replace(plan, warnings=warnings)

    async def pause(self, tenant_id: int, sequence_id: str, *, actor: str) -> StoredSequence:
        """Stop running steps, and hold unsent emails. Everyone keeps their place, and new people still enter."""
        async with self._database.write() as tx:
            sequence = await self._in_status(tx, tenant_id, sequence_id, SequenceStatus.RUNNING)
            await record_lane_deferral(tx, sequence.lane, PAUSED, INDEFINITELY)
            await self._change(tx, sequence, status=SequenceStatus.PAUSED.value)
            await self._record(tx, tenant_id, sequence_id, actor, "pause", name=sequence.name)
        return replace(sequence, status=SequenceStatus.PAUSED)

    async def count_overdue(self, tenant_id: int, sequence_id: str) -> int:
        """Return how many people have an overdue step or an unsent email."""
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            return await _count_overdue(tx, sequence, self._clock.now())

    async def resume(
        self, tenant_id: int, sequence_id: str, *, overdue: OverdueChoice | None = None, actor: str
    ) -> tuple[StoredSequence, int]:
        """Run steps again. Raise OverdueUndecided if somebody is overdue and nobody decided what happens to them."""
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await self._in_status(tx, tenant_id, sequence_id, SequenceStatus.PAUSED)
            late = _is_overdue(sequence.id, now)
            people = await _count_overdue(tx, sequence, now)
            if people and overdue is None:
                raise OverdueUndecided(people, has_emails=True)
            if overdue is not None:
                await apply_choice(tx, overdue, late, now)
            await release_emails(tx, overdue, sequence.lane, now)
            await self._change(tx, sequence, status=SequenceStatus.RUNNING.value)
            await self._record(
                tx, tenant_id, sequence_id, actor, "resume", name=sequence.name, detail={"overdue": people}
            )
        return replace(sequence, status=SequenceStatus.RUNNING), people

    async def remove(self, tenant_id: int, sequence_id: str, *, actor: str) -> None:
        """Delete a draft that was never published. Archive any other sequence, which ends it for everyone."""
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id, for_update=True)
            if sequence.version is None:
                await tx.execute(delete(sequences).where(sequences.c.id == sequence.id))
                await self._record(tx, tenant_id, sequence_id, actor, "delete", name=sequence.name)
                return
            rows = await tx.execute(select(sequence_enrolments.c.id).where(is_enrolled(sequence.id)))
            await end_enrolments(tx, [(row.id, EndReason.REMOVED.value) for row in rows], now)
            # Also emails of finished runs, and emails that a worker puts back into the queue later.
            await record_lane_deferral(tx, sequence.lane, CANCELLED, INDEFINITELY)
            await cancel_emails(tx, sequence.lane, now)
            await unfollow(tx, triggers.feed_owner(sequence.id))
            await self._change(tx, sequence, status=SequenceStatus.ARCHIVED.value)
            await self._record(tx, tenant_id, sequence_id, actor, "archive", name=sequence.name)

    async def _prepare(self, tx: Transaction, sequence: StoredSequence) -> tuple[Published, Published | None, MovePlan]:
        """Check the draft, and plan what happens to the people in the published version."""
        new = published_from(sequence.draft)
        await require_known(tx, sequence.tenant_id, new.definition)
        if sequence.version is None:
            return new, None, NOBODY
        old = await load_published(tx, sequence.id, sequence.version)
        zone = await self._zone_of(tx, sequence.tenant_id)
        return new, old, await plan_moves(tx, sequence.id, old.program, new.program, now=self._clock.now(), zone=zone)

    async def _zone_of(self, tx: Transaction, tenant_id: int) -> str:
        rows = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
        return rows[0].timezone or self._zone

    async def _locked(self, tx: Transaction, tenant_id: int, sequence_id: str, revision: int | None) -> StoredSequence:
        sequence = await find_sequence(tx, tenant_id, sequence_id, for_update=True)
        if revision is not None and revision != sequence.revision:
            raise SequenceChanged(sequence.revision)
        return sequence

    async def _in_status(
        self, tx: Transaction, tenant_id: int, sequence_id: str, status: SequenceStatus
    ) -> StoredSequence:
        sequence = await find_sequence(tx, tenant_id, sequence_id, for_update=True)
        if sequence.status is not status:
            raise NotPossibleNow(
                "The sequence is {status}, not {wanted}.", status=sequence.status.phrase, wanted=status.phrase
            )
        return sequence

    async def _change(self, tx: Transaction, sequence: StoredSequence, **values: Any) -> None:
        changed = update(sequences).where(sequences.c.id == sequence.id)
        await tx.execute(changed.values(updated_at=self._clock.now(), **values))

    async def _record(
        self,
        tx: Transaction,
        tenant_id: int,
        sequence_id: str,
        actor: str,
        action: str,
        *,
        name: str,
        detail: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"sequence.{action}",
            subject=sequence_id,
            tenant_id=tenant_id,
            detail={"name": name, **detail},
        )


def _checked(document: Any) -> Definition:
    """Parse a document and check its cycles and its size."""
    definition = published_from(document).definition
    if len(orjson.dumps(document)) > MAX_DOCUMENT_BYTES:
        raise InvalidInput(
            "The document is larger than {kilobytes} KB.", field="document", kilobytes=MAX_DOCUMENT_BYTES // 1024
        )
    return definition


async def _count_overdue(tx: Transaction, sequence: StoredSequence, now: Instant) -> int:
    [row] = await tx.run(COUNT_OVERDUE, sequence_key=sequence.id, lane=sequence.lane, now=now)
    return int(row.people)


def _is_overdue(sequence_key: int, now: Instant) -> Any:
    e = sequence_enrolments.c
    return and_(is_enrolled(sequence_key), e.due_at.is_not(None), e.due_at <= now)
