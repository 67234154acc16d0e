"""Fan out a notification queue: lock due rows, create their messages, and record each result once.

A message is sent only while its row is locked. If the queue is in another database, a step takes two commits; after a
crash between them, the row itself shows whether its result was recorded.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never
from uuid import UUID, uuid5

import orjson

from mailwright.content.headers import find_unwritable
from mailwright.content.template_store import StoredTemplate
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import DEDUPE_KEY_FIELD, NewMessage, Source
from mailwright.domain.retry import OUTSIDE
from mailwright.domain.states import OnDoubt, Priority
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.accept import accept
from mailwright.outbox.parking import release_parked, withdraw_parked
from mailwright.outbox.settle import lock_names
from mailwright.sources.failing_rows import FailingRows
from mailwright.sources.notifications import links, results, times
from mailwright.sources.notifications.decisions import (
    EndDecision,
    GiveUpDecision,
    NotificationConfig,
    RowContext,
    SendDecision,
    decide,
    expires_at,
    lock_wait,
)
from mailwright.sources.notifications.event_kinds import EventKind
from mailwright.sources.notifications.jobs import NotificationRow, RowError, SectionDetails, section_of
from mailwright.sources.notifications.links import MessageLink
from mailwright.sources.notifications.preferences import WaitDecision
from mailwright.sources.notifications.queue import NotificationQueue, RelatedRows, RowLock
from mailwright.sources.notifications.results import (
    NotificationResult,
    is_recorded,
    result_of,
    result_of_error,
    result_without_attempts,
)
from mailwright.sources.notifications.row_locks import RowLocks
from mailwright.sources.notifications.row_notes import RowNotes
from mailwright.sources.notifications.statuses import FanoutStatus as Status
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.sources.notifications.templates import NotificationTemplates
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

INSERT_LINKS = statement(__package__, "insert_links")
HOLD_LINKS = statement(__package__, "hold_links")
CLOSE_LINKS = statement(__package__, "close_links")

# Rows read and locked at once. The number is small because the program that owns the queue waits for these writes.
PAGE = 250
# Results recorded in one write. Like PAGE, not more than one statement takes as values (`storage/hot.py`), because
# SQLite may otherwise scan the whole queue.
BATCH = 250
# Longer dedupe keys are handed to the provider as a hash.
MAX_PROVIDER_KEY = 200
MESSAGE_ID_NAMESPACE = UUID("5d3c1f62-8a54-5b43-9a38-6d0b7c0b2c11")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CreateMessage:
    """Create a new message for the row."""

    send: SendDecision
    template: StoredTemplate
    generation: int


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """Release the parked message of the row."""

    link: MessageLink
    send: SendDecision


@dataclass(frozen=True, slots=True)
class AdoptMessage:
    """Take over a message in progress whose worker's lock has expired."""

    link: MessageLink


@dataclass(frozen=True, slots=True)
class RecordResult:
    """Record a result in the row."""

    result: NotificationResult
    link: MessageLink | None  # the link of its unfinished message, if any
    is_result: bool = False  # whether it is the result of the message


RowStep = CreateMessage | ReleaseMessage | AdoptMessage | RecordResult


class NotificationFanout:
    """Serves a queue for one worker. Any number of workers may serve the same queue."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        queue: NotificationQueue,
        templates: NotificationTemplates,
        config: NotificationConfig,
        *,
        tenant_id: int,
        worker: str,
    ) -> None:
        self._database = database
        self._clock = clock
        self._queue = queue
        self._templates = templates
        self._config = config
        self._tenant_id = tenant_id
        self._worker = worker
        self._failing = FailingRows()
        lifetime = config.kinds.shortest_lock_ttl
        self._notes = RowNotes(database, clock, queue, self._failing, tenant_id=tenant_id)
        self.locks = RowLocks(database, clock, queue, self._failing, worker=worker, lifetime=lifetime)

    async def claim_due(self, limit: int) -> int:
        """Lock due rows, about `limit` at most, and create their messages; return the number of rows processed."""
        await self._templates.refresh()
        processed = after = 0
        while processed < limit:
            now = self._clock.now()
            rows = await self._queue.pending(now - self._config.kinds.shortest_lock_ttl, after, PAGE)
            if not rows:
                break
            after = rows[-1].notification_id
            free = [row for row in rows if lock_wait(row, self._config.kinds, now) is None]
            free = [row for row in free if not self._failing.contains(row.key, now)]
            if free:
                processed += await self.process_rows(free, now)
        return processed

    async def record_results(self) -> int:
        """Record the results of messages in their rows; return the number of results recorded.

        Rows whose messages have no result state why: they are in doubt, or their provider cannot be used.
        """
        recorded = await self._record_finished()
        await self._notes.write()
        return recorded

    async def _record_finished(self) -> int:
        recorded = after = 0
        while True:
            async with self._database.read() as tx:
                found = await links.find_results(tx, self._queue.name, after, BATCH)
            if not found:
                return recorded
            after = found[-1].id  # a result that cannot be recorded now does not block the others
            now = self._clock.now()
            pairs = [(link, result) for link in found if (result := result_of(link))]
            pairs = [pair for pair in pairs if not self._failing.contains(pair[0].row_key, now)]
            written = await self._record_in_queue(pairs, now)
            ended = [pair for pair in pairs if pair[0].notification_id in written]
            lost = [pair for pair in pairs if pair[0].notification_id not in written]
            ended += await self._already_recorded(lost)
            if ended:
                await self._end_links(ended)
            recorded += len(ended)

    async def _record_in_queue(self, pairs: Sequence[tuple[MessageLink, NotificationResult]], now: Instant) -> set[int]:
        """Record results, each one alone if the queue refuses them together; return the ids of the updated rows."""
        if not pairs:
            return set()
        try:
            return await self._queue.record(pairs)
        except NotDurable:
            raise
        except Exception as error:
            if len(pairs) == 1:
                link = pairs[0][0]
                self._failing.add(link.row_key, now, link.notification_id, error)
                return set()
        return {key for pair in pairs for key in await self._record_in_queue([pair], now)}

    async def _end_links(self, ended: Sequence[tuple[MessageLink, NotificationResult]]) -> None:
        await self._database.transact(lambda tx: links.end_links(tx, [(link, result.state) for link, result in ended]))

    async def _already_recorded(
        self, lost: Sequence[tuple[MessageLink, NotificationResult]]
    ) -> list[tuple[MessageLink, NotificationResult]]:
        """Return the results that need no recording: the row has them already, or no longer waits for them.

        The worker that locks the row next records the others.
        """
        if not lost:
            return []
        rows = await self._queue.find([link.notification_id for link, _ in lost])
        return [
            (link, result) for link, result in lost if _needs_no_recording(rows.get(link.notification_id), link, result)
        ]

    async def process_rows(self, rows: Sequence[NotificationRow], now: Instant) -> int:
        """Decide and carry out the steps of these rows; return how many were carried out.

        If the queue refuses to change them, each row is tried alone, so that one bad row does not stop the others.
        """
        try:
            return await self._process(rows, now)
        except NotDurable:
            raise
        except Exception as error:
            if len(rows) == 1:
                self._failing.add(rows[0].key, now, rows[0].notification_id, error)
                return 0
        return sum([await self.process_rows([row], now) for row in rows])

    async def _process(self, rows: Sequence[NotificationRow], now: Instant) -> int:
        steps = await self._plan(rows, now)
        if not steps:
            return 0
        lock = RowLock(self._worker, times.format_time(now))

        async def take_over(tx: Runner) -> list[tuple[NotificationRow, RowStep]]:
            locked = await self._queue.lock(tx, [row for row, _ in steps], lock)
            ours = [(row, step) for row, step in steps if row.notification_id in locked]
            await self._record(tx, ours, lock)
            return ours

        ours = await self._queue.database.transact(take_over)
        try:
            handed_over = await self._database.transact(lambda tx: self._hand_over(tx, ours, lock, now))
        except NotDurable:
            await self._unlock([row for row, step in ours if not isinstance(step, RecordResult)], lock)
            raise
        kept = {row.notification_id for row, _ in handed_over}
        await self._unlock([row for row, _ in ours if row.notification_id not in kept], lock)
        metrics.ACCEPTED.labels(Source.NOTIFICATION).inc(
            sum(isinstance(step, CreateMessage) for _, step in handed_over)
        )
        return len(handed_over)

    async def _unlock(self, rows: Sequence[NotificationRow], lock: RowLock) -> None:
        await self._queue.unlock((row.notification_id, lock.worker, lock.at) for row in rows)

    async def _plan(self, rows: Sequence[NotificationRow], now: Instant) -> list[tuple[NotificationRow, RowStep]]:
        """Decide the step for each row; rows that wait have none."""
        async with self._database.read() as tx:
            known = await links.find_newest(tx, self._queue.name, [row.key for row in rows])
            in_progress = await links.count_in_progress(tx, self._queue.name, (row.subscription_id for row in rows))
        related = await self._queue.related(rows)
        steps = []
        for row in rows:
            link = known.get(row.key)
            if link is not None and _has_unrecorded_result(row, link):
                step: RowStep | None = _finish_step(row, link)
            else:
                step = self._new_step(row, link, row_context(row, related, in_progress), now)
            if step is not None:
                steps.append((row, step))
            if isinstance(step, CreateMessage | ReleaseMessage):
                in_progress[row.subscription_id] += 1
        return steps

    def _new_step(
        self, row: NotificationRow, link: MessageLink | None, context: RowContext, now: Instant
    ) -> RowStep | None:
        parked = link if link is not None and link.is_parked else None
        decision = decide(row, context, self._config, now)
        match decision:
            case WaitDecision():
                return None
            case GiveUpDecision():
                return RecordResult(result_without_attempts(row), parked)
            case EndDecision(status, reason):
                return RecordResult(result_of_error(reason, status, now), parked)
            case SendDecision() if parked is not None:
                return ReleaseMessage(parked, decision)
            case SendDecision():
                template = self._templates.pick(decision.job, decision.kind)
                if isinstance(template, RowError):
                    return RecordResult(result_of_error(template, Status.FAILED, now), None)
                return CreateMessage(decision, template, link.generation + 1 if link else 1)
            case _:
                assert_never(decision)

    async def _record(self, tx: Runner, ours: Sequence[tuple[NotificationRow, RowStep]], lock: RowLock) -> None:
        """Record results in the transaction that locks the rows, so that no other program sees these rows locked."""
        new: list[tuple[MessageLink, NotificationResult]] = []
        plain: list[tuple[int, str, str, int, NotificationResult]] = []
        for row, step in ours:
            match step:
                case RecordResult(result, MessageLink() as link, True):
                    new.append((replace(link, locked_by=lock.worker, locked_at=lock.at), result))
                case RecordResult(result):
                    plain.append((row.notification_id, lock.worker, lock.at, row.attempts, result))
                case _:
                    pass
        if new:
            await self._queue.record_in(tx, new)
        await results.write_results(tx, self._queue.statements, plain)

    async def _hand_over(
        self, tx: Runner, taken: Sequence[tuple[NotificationRow, RowStep]], lock: RowLock, now: Instant
    ) -> list[tuple[NotificationRow, RowStep]]:
        """Create, release and withdraw messages and their links in one transaction of our own database.

        Returns the steps carried out. A row waits if another worker has reached its subscriber's maximum in the
        meantime.
        """
        beyond = await self._beyond_maximum(tx, taken, now)
        ours = [(row, step) for row, step in taken if row.notification_id not in beyond]
        await self._deliver(tx, ours, lock, now)
        held = [_hold(row, step, lock) for row, step in ours if isinstance(step, ReleaseMessage | AdoptMessage)]
        if held:
            await tx.count(HOLD_LINKS, held=held)
        released = {
            step.link.message_key: _on_doubt(row, step.send.kind)
            for row, step in ours
            if isinstance(step, ReleaseMessage)
        }
        await release_parked(tx, released, now)
        await _end_steps(
            tx, [step for _, step in ours if isinstance(step, RecordResult) and step.link is not None], now
        )
        return ours

    async def _beyond_maximum(
        self, tx: Runner, taken: Sequence[tuple[NotificationRow, RowStep]], now: Instant
    ) -> set[int]:
        """Return rows beyond their subscriber's maximum. A lock per subscription serializes the workers."""
        limited = [
            (row.notification_id, row.subscription_id, step.send.room)
            for row, step in taken
            if isinstance(step, CreateMessage | ReleaseMessage) and step.send.room is not None
        ]
        if not limited:
            return set()
        subscriptions = {subscription_id for _, subscription_id, _ in limited}
        await lock_names(tx, [f"mailwright:subscription:{self._queue.name}:{each}" for each in subscriptions], now)
        in_progress = await links.count_in_progress(tx, self._queue.name, subscriptions)
        beyond: set[int] = set()
        for notification_id, subscription_id, room in limited:
            if in_progress[subscription_id] >= room:
                beyond.add(notification_id)
            else:
                in_progress[subscription_id] += 1
        return beyond

    async def _deliver(
        self, tx: Runner, ours: Sequence[tuple[NotificationRow, RowStep]], lock: RowLock, now: Instant
    ) -> None:
        new = [(row, step) for row, step in ours if isinstance(step, CreateMessage)]
        if not new:
            return
        messages = [self._message(row, step) for row, step in new]
        await accept(tx, messages, now)
        rows = [self._link(row, step, message, lock) for (row, step), message in zip(new, messages, strict=True)]
        await tx.count(INSERT_LINKS, links=rows, now=now)

    def _message(self, row: NotificationRow, step: CreateMessage) -> NewMessage:
        job, kind = step.send.job, step.send.kind
        outbox_id = self._outbox_id(row, step.generation)
        return NewMessage(
            outbox_id=outbox_id,
            tenant_id=self._tenant_id,
            source=Source.NOTIFICATION,
            request_id=job.get("traceId", f"notification-{row.notification_id}")[:200],
            to_email=address.normal(job["recipient"]["email"]),
            subject=step.template.subject,
            payload=_payload(job),
            external_id=f"subscription-{row.subscription_id}",
            contact_name=job["recipient"].get("name"),
            dedupe_key=f"notification:{outbox_id}",
            template_key=step.template.key,
            retry_policy=OUTSIDE.name,
            on_doubt=_on_doubt(row, kind),
            priority=Priority.TRANSACTIONAL,
            expires_at=expires_at(row, kind),
        )

    def _outbox_id(self, row: NotificationRow, generation: int) -> str:
        """Return the same id for every worker, so that a takeover finds the existing message."""
        return str(uuid5(MESSAGE_ID_NAMESPACE, f"{self._queue.name}:{row.key}:{generation}"))

    def _link(self, row: NotificationRow, step: CreateMessage, message: NewMessage, lock: RowLock) -> dict[str, Any]:
        return {
            "tenant_id": self._tenant_id,
            "queue": self._queue.name,
            "queue_schema": self._queue.schema if self._queue.is_shared else None,
            "notification_id": row.notification_id,
            "row_key": row.key,
            "generation": step.generation,
            "subscription_id": row.subscription_id,
            "outbox_id": message.outbox_id,
            "locked_by": lock.worker,
            "locked_at": lock.at,
            "attempts_before": row.attempts,
            "max_attempts": step.send.kind.max_attempts,
            "sent_event": orjson.dumps(_timeline_entry(row, step.send)).decode(),
        }


async def _end_steps(tx: Runner, steps: Sequence[RecordResult], now: Instant) -> None:
    """End the links of recorded results, and cancel parked messages whose row has ended."""
    recorded = [(step.link, step.result.state) for step in steps if step.link is not None]
    await links.end_links(tx, [pair for pair in recorded if pair[1] is not MessageLinkState.CLOSED])
    closed = [link for link, state in recorded if state is MessageLinkState.CLOSED]
    if closed:
        await tx.count(CLOSE_LINKS, closed=[{"id": link.id} for link in closed])
    withdrawn = [link.message_key for link in closed if link.is_parked]
    await withdraw_parked(tx, withdrawn, now, reason="The notification ended before this message was sent.")


def row_context(row: NotificationRow, related: RelatedRows, in_progress: Mapping[int, int]) -> RowContext:
    duplicates = related.duplicates.get((row.dedupe_key, row.subscription_id), ())
    return RowContext(
        related.details.get(section_of(row), SectionDetails()),
        related.sent.get(row.subscription_id, 0),
        in_progress.get(row.subscription_id, 0),
        [duplicate for duplicate in duplicates if duplicate.notification_id != row.notification_id],
    )


def _finish_step(row: NotificationRow, link: MessageLink) -> RowStep:
    """Return the step that completes an existing message after the lock of its row expired."""
    link = _with_attempts_of(row, link)
    result = result_of(link)
    if result is None:
        return AdoptMessage(link)
    if link.state is MessageLinkState.SENDING and not is_recorded(result, row):
        return RecordResult(result, link, is_result=True)
    # The attempt was already counted: its report came late, or an operator reset the row after it was sent.
    link = replace(link, attempts_before=row.attempts)
    return RecordResult(replace(result, completed=0), link, is_result=link.state is not MessageLinkState.CLOSED)


def _with_attempts_of(row: NotificationRow, link: MessageLink) -> MessageLink:
    """Return the link with the attempts that the row had before this message, whose lock expired.

    The row may state the attempts of the message already, or an operator may have reset it.
    """
    noted_at = times.parse(row.last_attempt_at)
    if link.calls and link.in_doubt_since is not None and noted_at is not None and noted_at >= link.in_doubt_since:
        return replace(link, attempts_before=row.attempts - link.calls)
    return replace(link, attempts_before=min(link.attempts_before, row.attempts))


def _payload(job: Mapping[str, Any]) -> dict[str, Any]:
    event = job["event"]
    metadata = {
        "subscriptionId": job["subscriptionId"],
        "openEventId": job["openEventId"],
        "term": event["termId"],
        "campus": event["campusCode"],
        "dedupeKey": job["dedupeKey"],
    }
    variables = job["template"]["variables"]
    payload = {
        "to": job["recipient"]["email"],
        "variables": variables,
        "metadata": metadata,
        "headers": {"Auto-Submitted": "auto-generated"},
    }
    if key := _provider_key(job["dedupeKey"]):
        payload[DEDUPE_KEY_FIELD] = key
    if variables["unsubscribeUrl"] != variables["manageUrl"]:  # One-click unsubscribe requires a token.
        payload["unsubscribeUrl"] = variables["unsubscribeUrl"]
    if "name" in job["recipient"]:
        payload["toName"] = job["recipient"]["name"]
    return payload


def _on_doubt(row: NotificationRow, kind: EventKind) -> OnDoubt:
    """Resend a message in doubt once, unless its attempt was the last one that the row allows."""
    return OnDoubt.RESEND if row.attempts + 1 < kind.max_attempts else OnDoubt.HOLD


def _provider_key(dedupe_key: str) -> str:
    """Return the key as every provider can get it: on one line and of limited length, otherwise its hash."""
    key = dedupe_key.strip()
    if len(key) <= MAX_PROVIDER_KEY and find_unwritable(key) is None:
        return key
    return f"sha256-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()}"


def _timeline_entry(row: NotificationRow, send: SendDecision) -> dict[str, Any]:
    ids = {
        "notificationId": row.notification_id,
        "openEventId": row.open_event_id,
        "dedupeKey": row.dedupe_key,
        "traceId": send.job.get("traceId"),
    }
    return {
        "sectionStatus": send.section_status,
        "payload": {name: value for name, value in ids.items() if value is not None},
    }


def _hold(row: NotificationRow, step: ReleaseMessage | AdoptMessage, lock: RowLock) -> dict[str, Any]:
    begins = isinstance(step, ReleaseMessage)
    return {
        "id": step.link.id,
        "locked_by": lock.worker,
        "locked_at": lock.at,
        "attempts_before": row.attempts if begins else step.link.attempts_before,
        "counted_before": step.link.counted if begins else step.link.counted_before,
        "max_attempts": step.send.kind.max_attempts if isinstance(step, ReleaseMessage) else step.link.max_attempts,
        "begins": int(begins),
    }


def _has_unrecorded_result(row: NotificationRow, link: MessageLink) -> bool:
    """Return whether the newest message of an unlocked row has a result that is not recorded."""
    result = result_of(link)
    if link.state is MessageLinkState.SENDING and (result is None or not is_recorded(result, row)):
        return True
    return result is not None and result.status is Status.SENT


def _needs_no_recording(row: NotificationRow | None, link: MessageLink, result: NotificationResult) -> bool:
    if row is None or row.key != link.row_key or row.status != Status.PENDING:
        return True
    return is_recorded(result, row)
