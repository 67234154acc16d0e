"""Fanning out: rows that are due are locked and become messages, and every result is told to its row, once.

A row's message goes only while the row is locked. Where the queue is in another database, two commits are needed for
one step; whichever of them a crash leaves out, the row itself tells whether its result has been told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never
from uuid import UUID, uuid5

import orjson

from mailwright.content.template_store import StoredTemplate
from mailwright.domain import address
from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Event, NewMessage, Source
from mailwright.domain.retry import OUTSIDE
from mailwright.domain.states import EventType, OnDoubt, Priority
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.accept import accept
from mailwright.outbox.settle import APPEND_EVENTS, LOCK_DOMAINS, event_row
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
from mailwright.sources.notifications.jobs import NotificationRow, RowError, SectionDetails
from mailwright.sources.notifications.links import PARKED, MessageLink
from mailwright.sources.notifications.preferences import WaitDecision
from mailwright.sources.notifications.queue import NotificationQueue, RelatedRows, RowLock, section_of
from mailwright.sources.notifications.results import NotificationResult, is_recorded, result_of, result_of_error
from mailwright.sources.notifications.statuses import FanoutStatus as Status
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.sources.notifications.templates import NotificationTemplates
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

INSERT_LINKS = statement(__package__, "insert_links")
HOLD_LINKS = statement(__package__, "hold_links")
RENEW_LINKS = statement(__package__, "renew_links")
CLOSE_LINKS = statement(__package__, "close_links")
RELEASE_MESSAGES = statement(__package__, "release_messages")
PARK_MESSAGES = statement(__package__, "park_messages")
WITHDRAW_MESSAGES = statement(__package__, "withdraw_messages")

# Rows that are looked at in one read and locked in one write: their owner's own writes wait no longer than for that.
PAGE = 250
# Results that are told in one write. Like a page, no more than a statement takes as values (`storage/hot.py`): given
# more, SQLite may read the whole queue first to know which rows are not there.
BATCH = 250
# A renewal comes when a third of the lock's time is over.
RENEWALS_PER_LOCK = 3
MESSAGES_OF_ROWS = UUID("5d3c1f62-8a54-5b43-9a38-6d0b7c0b2c11")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class CreateMessage:
    """A new message."""

    send: SendDecision
    template: StoredTemplate
    generation: int


@dataclass(frozen=True, slots=True)
class ReleaseMessage:
    """The parked message may go."""

    link: MessageLink
    send: SendDecision


@dataclass(frozen=True, slots=True)
class AdoptMessage:
    """Another worker's lock has ended while its message is on the way: the message is ours to wait for."""

    link: MessageLink


@dataclass(frozen=True, slots=True)
class RecordResult:
    """The row is told something now."""

    told: NotificationResult
    link: MessageLink | None  # its message, where it has one that is not done with
    is_result: bool = False  # of that message


RowStep = CreateMessage | ReleaseMessage | AdoptMessage | RecordResult


class NotificationFanout:
    """One worker's share of a queue. Any number of them may serve one queue, on one database of messages."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        queue: NotificationQueue,
        letters: NotificationTemplates,
        house: NotificationConfig,
        *,
        tenant_id: int,
        worker: str,
    ) -> None:
        self._database = database
        self._clock = clock
        self._queue = queue
        self._letters = letters
        self._house = house
        self._tenant_id = tenant_id
        self._worker = worker
        self._renew_every = house.kinds.shortest_lock_ttl // RENEWALS_PER_LOCK

    async def claim_due(self, most: int) -> int:
        """Locks what is due, at most about so many rows, and hands it over; answers how many rows it dealt with."""
        await self._letters.refresh()
        dealt_with = after = 0
        while dealt_with < most:
            now = self._clock.now()
            rows = await self._queue.pending(now - self._house.kinds.shortest_lock_ttl, after, PAGE)
            if not rows:
                break
            after = rows[-1].notification_id
            free = [row for row in rows if lock_wait(row, self._house.kinds, now) is None]
            if free:
                dealt_with += await self._deal_with(free, now)
        return dealt_with

    async def record_results(self) -> int:
        """Tells rows what became of their messages; answers how many were told."""
        told = after = 0
        while True:
            async with self._database.read() as tx:
                found = await links.untold(tx, self._queue.name, after, BATCH)
            if not found:
                return told
            after = found[-1].id  # what cannot be told now keeps nobody else waiting
            pairs = [(link, what) for link in found if (what := result_of(link))]
            written = await self._queue.record(pairs) if pairs else set()
            ended = [pair for pair in pairs if pair[0].notification_id in written]
            lost = [pair for pair in pairs if pair[0].notification_id not in written]
            ended += await self._told_before(lost)
            if ended:
                await self._end_links(ended)
            told += len(ended)

    async def count_locked_rows(self) -> int:
        """How many rows this worker has locked and not told."""
        async with self._database.read() as tx:
            return await links.count_held(tx, self._queue.name, self._worker)

    async def renew_locks(self) -> None:
        """Keeps the locks on rows whose messages wait or are being sent."""
        now = self._clock.now()
        before, at = times.format_time(now - self._renew_every), times.format_time(now)
        async with self._database.read() as tx:
            held = await links.held(tx, self._queue.name, self._worker, before, BATCH)
        if not held:
            return
        renewed = await self._queue.renew_locks(held, at)
        rows = [_lock_of(link) for link in held if link.notification_id in renewed]
        if rows:
            await self._database.transact(lambda tx: tx.count(RENEW_LINKS, held=rows, at=at))

    async def release_locks(self) -> int:
        """Before leaving: what was not begun is parked, and its rows are free for others at once."""
        async with self._database.read() as tx:
            held = await links.held(tx, self._queue.name, self._worker, times.format_time(self._clock.now()), 1_000_000)
        if not held:
            return 0

        async def park(tx: Runner) -> list[MessageLink]:
            given = [{"message_key": link.message_key} for link in held if result_of(link) is None]
            parked = (
                {row.message_key for row in await tx.run(PARK_MESSAGES, given=given, parked=PARKED)} if given else set()
            )
            free = [link for link in held if link.message_key in parked]
            await links.end(tx, [(link, MessageLinkState.WAITING) for link in free])
            return free

        free = await self._database.transact(park)
        await self._queue.unlock((link.notification_id, link.locked_by, link.locked_at) for link in free)
        return len(free)

    async def _end_links(self, ended: Sequence[tuple[MessageLink, NotificationResult]]) -> None:
        await self._database.transact(lambda tx: links.end(tx, [(link, told.state) for link, told in ended]))

    async def _told_before(
        self, lost: Sequence[tuple[MessageLink, NotificationResult]]
    ) -> list[tuple[MessageLink, NotificationResult]]:
        """Of results that no row took: those that a row has already, or that no row waits for. The others are told by
        whoever locks their row next."""
        if not lost:
            return []
        rows = await self._queue.find([link.notification_id for link, _ in lost])
        return [(link, told) for link, told in lost if _is_told(rows.get(link.notification_id), link, told)]

    async def _deal_with(self, rows: Sequence[NotificationRow], now: Instant) -> int:
        steps = await self._plan(rows, now)
        if not steps:
            return 0
        lock = RowLock(self._worker, times.format_time(now))

        async def take_over(tx: Runner) -> list[tuple[NotificationRow, RowStep]]:
            locked = await self._queue.lock(tx, [row for row, _ in steps], lock)
            ours = [(row, step) for row, step in steps if row.notification_id in locked]
            await self._tell(tx, ours, lock)
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
        """What is to be done with each row; nothing for those that wait."""
        async with self._database.read() as tx:
            known = await links.newest(tx, self._queue.name, [row.key for row in rows])
            under_way = await links.under_way(tx, self._queue.name, (row.subscription_id for row in rows))
        neighbours = await self._queue.neighbours(rows)
        steps = []
        for row in rows:
            step = self._step(row, known.get(row.key), row_context(row, neighbours, under_way), now)
            if step is not None:
                steps.append((row, step))
            if isinstance(step, CreateMessage | ReleaseMessage):
                under_way[row.subscription_id] += 1
        return steps

    def _step(self, row: NotificationRow, link: MessageLink | None, near: RowContext, now: Instant) -> RowStep | None:
        return self._left_over(row, link) if link and _is_left_over(row, link) else self._new_step(row, link, near, now)

    def _left_over(self, row: NotificationRow, link: MessageLink) -> RowStep:
        """What a lock that has ended left to do for a message that is there already."""
        told = result_of(link)
        if told is None:
            return AdoptMessage(link)
        if link.state is MessageLinkState.SENDING and not is_recorded(told, row.last_attempt_at):
            return RecordResult(told, link, is_result=True)
        # A late report, of an attempt that was counted already; or somebody reset a row whose mail was sent.
        return RecordResult(replace(told, completed=0), link, is_result=link.state is not MessageLinkState.CLOSED)

    def _new_step(
        self, row: NotificationRow, link: MessageLink | None, near: RowContext, now: Instant
    ) -> RowStep | None:
        parked = link if link is not None and link.is_parked else None
        decision = decide(row, near, self._house, now)
        match decision:
            case WaitDecision():
                return None
            case GiveUpDecision():
                return RecordResult(NotificationResult(Status.FAILED, None, None, 0), parked)
            case EndDecision(status, because):
                return RecordResult(result_of_error(because, status, now), parked)
            case SendDecision() if parked is not None:
                return ReleaseMessage(parked, decision)
            case SendDecision():
                template = self._letters.pick(decision.job, decision.kind)
                if isinstance(template, RowError):
                    return RecordResult(result_of_error(template, Status.FAILED, now), None)
                return CreateMessage(decision, template, link.generation + 1 if link else 1)
            case _:
                assert_never(decision)

    async def _tell(self, tx: Runner, ours: Sequence[tuple[NotificationRow, RowStep]], lock: RowLock) -> None:
        """In the transaction that locks the rows: nobody sees them locked."""
        new: list[tuple[MessageLink, NotificationResult]] = []
        plain: list[tuple[int, str, str, NotificationResult]] = []
        for row, step in ours:
            match step:
                case RecordResult(told, MessageLink() as link, True):
                    new.append((replace(link, locked_by=lock.worker, locked_at=lock.at), told))
                case RecordResult(told):
                    plain.append((row.notification_id, lock.worker, lock.at, told))
                case _:
                    pass
        if new:
            await results.record_results(tx, self._queue.statements, new)
        await results.write_results(tx, self._queue.statements, plain)

    async def _hand_over(
        self, tx: Runner, taken: Sequence[tuple[NotificationRow, RowStep]], lock: RowLock, now: Instant
    ) -> list[tuple[NotificationRow, RowStep]]:
        """All in one commit of our own database: messages, their links, and what is released or withdrawn.

        Answers what was handed over: of a subscriber to whom another worker sends meanwhile, some may have to wait.
        """
        beyond = await self._beyond_maximum(tx, taken, now)
        ours = [(row, step) for row, step in taken if row.notification_id not in beyond]
        await self._deliver(tx, ours, lock, now)
        held = [_hold(row, step, lock) for row, step in ours if isinstance(step, ReleaseMessage | AdoptMessage)]
        if held:
            await tx.count(HOLD_LINKS, held=held)
        released = [{"message_key": step.link.message_key} for _, step in ours if isinstance(step, ReleaseMessage)]
        if released:
            await tx.run(RELEASE_MESSAGES, released=released, now=now, parked=PARKED)
        await self._end(tx, [step for _, step in ours if isinstance(step, RecordResult) and step.link is not None], now)
        return ours

    async def _beyond_maximum(
        self, tx: Runner, taken: Sequence[tuple[NotificationRow, RowStep]], now: Instant
    ) -> set[int]:
        """Rows whose subscribers want no more of them: workers take turns, and see what the others have under way."""
        limited = [
            (row.notification_id, row.subscription_id, step.send.room)
            for row, step in taken
            if isinstance(step, CreateMessage | ReleaseMessage) and step.send.room is not None
        ]
        if not limited:
            return set()
        subscriptions = {subscription_id for _, subscription_id, _ in limited}
        locks = [{"name": f"mailer:subscription:{self._queue.name}:{each}"} for each in subscriptions]
        await tx.run(LOCK_DOMAINS, locks=locks, expires_at=now + HOUR)
        under_way = await links.under_way(tx, self._queue.name, subscriptions)
        beyond: set[int] = set()
        for notification_id, subscription_id, room in limited:
            if under_way[subscription_id] >= room:
                beyond.add(notification_id)
            else:
                under_way[subscription_id] += 1
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

    async def _end(self, tx: Runner, steps: Sequence[RecordResult], now: Instant) -> None:
        """Links whose rows were told. A message that was parked and has no row to wait for any more is withdrawn."""
        told = [(step.link, step.told.state) for step in steps if step.link is not None]
        await links.end(tx, [pair for pair in told if pair[1] is not MessageLinkState.CLOSED])
        closed = [link for link, state in told if state is MessageLinkState.CLOSED]
        if closed:
            await tx.count(CLOSE_LINKS, closed=[{"id": link.id} for link in closed])
        if withdrawn := [link for link in closed if link.is_parked]:
            ended = [{"message_key": link.message_key} for link in withdrawn]
            rows = await tx.run(WITHDRAW_MESSAGES, ended=ended, parked=PARKED)
            metadata = {"previousStatus": "parked", "message": "Its notification ended without it."}
            events = [
                event_row(row.message_key, row.tenant_id, Event(EventType.CANCELLED, now, metadata)) for row in rows
            ]
            if events:
                await tx.count(APPEND_EVENTS, events=events)

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
            on_doubt=OnDoubt.RESEND,
            priority=Priority.TRANSACTIONAL,
            expires_at=expires_at(row, kind),
        )

    def _outbox_id(self, row: NotificationRow, generation: int) -> str:
        """The same for every worker that takes this row: a take-over finds the message that is there."""
        return str(uuid5(MESSAGES_OF_ROWS, f"{self._queue.name}:{row.key}:{generation}"))

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
            "sent_event": orjson.dumps(_timeline(row, step.send)).decode(),
        }


def row_context(row: NotificationRow, neighbours: RelatedRows, under_way: Mapping[int, int]) -> RowContext:
    twins = neighbours.twins.get((row.dedupe_key, row.subscription_id), ())
    return RowContext(
        neighbours.surroundings.get(section_of(row), SectionDetails()),
        neighbours.sent.get(row.subscription_id, 0),
        under_way.get(row.subscription_id, 0),
        [twin for twin in twins if twin.notification_id != row.notification_id],
    )


def _payload(job: Mapping[str, Any]) -> dict[str, Any]:
    event = job["event"]
    metadata = {
        "subscriptionId": job["subscriptionId"],
        "openEventId": job["openEventId"],
        "term": event["termId"],
        "campus": event["campusCode"],
        "dedupeKey": job["dedupeKey"],
    }
    said = {"to": job["recipient"]["email"], "variables": job["template"]["variables"], "metadata": metadata}
    if "name" in job["recipient"]:
        said["toName"] = job["recipient"]["name"]
    return said


def _timeline(row: NotificationRow, send: SendDecision) -> dict[str, Any]:
    known = {
        "notificationId": row.notification_id,
        "openEventId": row.open_event_id,
        "dedupeKey": row.dedupe_key,
        "traceId": send.job.get("traceId"),
    }
    return {
        "sectionStatus": send.section_status,
        "payload": {name: value for name, value in known.items() if value is not None},
    }


def _hold(row: NotificationRow, step: ReleaseMessage | AdoptMessage, lock: RowLock) -> dict[str, Any]:
    begins = isinstance(step, ReleaseMessage)
    return {
        "id": step.link.id,
        "locked_by": lock.worker,
        "locked_at": lock.at,
        "attempts_before": row.attempts,
        "max_attempts": step.send.kind.max_attempts if isinstance(step, ReleaseMessage) else step.link.max_attempts,
        "begins": int(begins),
    }


def _lock_of(link: MessageLink) -> dict[str, Any]:
    return {"id": link.id, "locked_by": link.locked_by, "locked_at": link.locked_at}


def _is_left_over(row: NotificationRow, link: MessageLink) -> bool:
    """Whether the newest message of a row that nobody holds has something to say that the row has not heard."""
    told = result_of(link)
    if link.state is MessageLinkState.SENDING and (told is None or not is_recorded(told, row.last_attempt_at)):
        return True
    return told is not None and told.status is Status.SENT


def _is_told(row: NotificationRow | None, link: MessageLink, told: NotificationResult) -> bool:
    if row is None or row.key != link.row_key or row.status != Status.PENDING:
        return True
    return is_recorded(told, row.last_attempt_at)
