"""Accepting: a message is accepted by a committed row, or not at all.

Callers that arrive at the same time share one commit, so that a busy API pays for one flush of the disk, not for one
each; nobody is answered before the commit that holds their message.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7s
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Accepted, NewMessage
from mailwright.domain.states import Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.ops import metrics
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_REPLAYS = statement(__package__, "find_replays")
FIND_STORED = statement(__package__, "find_stored")
INSERT_CONTACTS = statement(__package__, "insert_contacts")
INSERT_MESSAGES = statement(__package__, "insert_messages")
INSERT_DELIVERIES = statement(__package__, "insert_deliveries")
INSERT_ACCEPTED_COUNTS = statement(__package__, "insert_accepted_counts")

PENDING = Status.PENDING.value

# One transaction takes at most this many: a commit must stay short while workers wait for their turn.
LARGEST_COMMIT = 2_000
# In portions whose rows SQLite takes as parameters of one statement: a table for more of them would be one copy more.
PORTION = 250
# And at most so much text: what PostgreSQL takes as one JSON value has an end.
LARGEST_COMMIT_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Waiting:
    messages: Sequence[NewMessage]
    answer: asyncio.Future[list[Accepted]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True)
class _Known:
    """The message that a key stands for."""

    outbox_id: str
    request_id: str
    status: str
    body_digest: str | None


class Acceptor:
    """Accepts messages. `announce` is told after each commit, to wake a worker that has nothing to do."""

    def __init__(self, database: Database, clock: Clock, announce: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._clock = clock
        self._announce = announce
        self._waiting: list[_Waiting] = []
        self._committing: asyncio.Task[None] | None = None

    async def accept(self, messages: Sequence[NewMessage]) -> list[Accepted]:
        """All of them in one transaction; the answers come in the order of the messages."""
        if not messages:
            return []
        waiting = _Waiting(messages)
        self._waiting.append(waiting)
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_all())
        return await waiting.answer

    async def close(self) -> None:
        if self._committing is not None:
            await self._committing

    async def _commit_all(self) -> None:
        while self._waiting:
            group = self._next_group()
            try:
                answers = await self._commit([message for waiting in group for message in waiting.messages])
            except NotDurable as error:
                _tell(group, error)
            except Exception:  # somebody's message cannot be stored; the others of the group must not pay for it
                await self._commit_one_by_one(group)
            else:
                for waiting in group:
                    mine, answers = answers[: len(waiting.messages)], answers[len(waiting.messages) :]
                    if not waiting.answer.done():
                        waiting.answer.set_result(mine)
            await self._announce()

    async def _commit_one_by_one(self, group: Sequence[_Waiting]) -> None:
        for waiting in group:
            if waiting.answer.done():
                continue
            try:
                waiting.answer.set_result(await self._commit(waiting.messages))
            except Exception as error:
                _tell([waiting], error)

    async def _commit(self, messages: Sequence[NewMessage]) -> list[Accepted]:
        accepted = await self._database.transact(lambda tx: accept(tx, messages, self._clock.now()))
        fresh = [message.source for message, answer in zip(messages, accepted, strict=True) if not answer.is_replay]
        for source, count in Counter(fresh).items():
            metrics.ACCEPTED.labels(source).inc(count)
        return accepted

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        count = size = 0
        while self._waiting:
            waiting = self._waiting[0]
            count += len(waiting.messages)
            size += sum([_size(message) for message in waiting.messages])
            if group and (count > LARGEST_COMMIT or size > LARGEST_COMMIT_BYTES):
                break
            group.append(self._waiting.pop(0))
        return group


def _size(message: NewMessage) -> int:
    """About: what is large in a mail is its content and its attachments."""
    payload = message.payload
    attachments = payload.get("attachments")
    attached = sum([len(str(attachment)) for attachment in attachments]) if attachments else 0
    return len(str(payload.get("html", ""))) + len(str(payload.get("text", ""))) + attached + 1_000


def _tell(group: Sequence[_Waiting], error: Exception) -> None:
    for waiting in group:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)


async def accept(tx: Runner, messages: Sequence[NewMessage], now: Instant) -> list[Accepted]:
    """Accepts inside the caller's transaction: a source writes its own rows and its messages together."""
    replays = await _find_replays(tx, messages)
    fresh = _first_of_each_key(messages, replays)
    stored = await _insert(tx, fresh, now)
    if len(stored) == len(messages):
        return [Accepted(message.outbox_id, message.request_id, PENDING) for message in messages]
    if len(stored) < len(fresh):  # another process took a key between our look and our insert
        replays = await _find_replays(tx, messages)
    known = replays | {(m.tenant_id, m.dedupe_key): _known(m) for m in stored.values()}
    return [_answer(message, stored, known) for message in messages]


async def _find_replays(tx: Runner, messages: Sequence[NewMessage]) -> dict[tuple[int, str | None], _Known]:
    wanted = [
        {"tenant_id": message.tenant_id, "dedupe_key": message.dedupe_key}
        for message in messages
        if message.dedupe_key is not None
    ]
    if not wanted:
        return {}
    return {
        (row.tenant_id, row.dedupe_key): _Known(row.outbox_id, row.request_id, row.status, row.body_digest)
        for row in await tx.run(FIND_REPLAYS, wanted=wanted)
    }


def _known(message: NewMessage) -> _Known:
    return _Known(message.outbox_id, message.request_id, PENDING, message.body_digest)


def _first_of_each_key(
    messages: Sequence[NewMessage], replays: Mapping[tuple[int, str | None], _Known]
) -> dict[str, NewMessage]:
    """What is to be stored, by outbox id; within one group, too, a key counts once."""
    taken = set(replays)
    fresh: dict[str, NewMessage] = {}
    for message in messages:
        if message.dedupe_key is not None:
            key = (message.tenant_id, message.dedupe_key)
            if key in taken:
                continue
            taken.add(key)
        fresh[message.outbox_id] = message
    return fresh


async def _insert(tx: Runner, fresh: dict[str, NewMessage], now: Instant) -> dict[str, NewMessage]:
    if not fresh:
        return {}
    await _insert_contacts(tx, fresh.values(), now)
    messages = list(fresh.values())
    stored: dict[str, NewMessage] = {}
    for start in range(0, len(messages), PORTION):
        stored |= await _insert_portion(tx, messages[start : start + PORTION], now)
    counts = Counter([(message.tenant_id, message.source) for message in stored.values()])
    batches = [{"tenant_id": t, "source": source, "accepted": count} for (t, source), count in counts.items()]
    await tx.count(INSERT_ACCEPTED_COUNTS, batches=batches, now=now)
    return stored


async def _insert_portion(tx: Runner, messages: Sequence[NewMessage], now: Instant) -> dict[str, NewMessage]:
    """Those that were stored, by outbox id: another process may have taken a key meanwhile."""
    stored = {message.outbox_id: message for message in messages}
    rows = [_message_row(message, position) for position, message in enumerate(messages)]
    if await tx.count(INSERT_MESSAGES, messages=rows, now=now) < len(rows):
        stored = {row.outbox_id: stored[row.outbox_id] for row in await tx.run(FIND_STORED, wanted=rows)}
    await tx.count(INSERT_DELIVERIES, deliveries=[_delivery_row(message, now) for message in stored.values()])
    return stored


async def _insert_contacts(tx: Runner, messages: Iterable[NewMessage], now: Instant) -> None:
    people = {(message.tenant_id, message.to_email): message for message in messages if message.recipient_id is None}
    if not people:
        return
    contacts = [
        {"contact_id": contact_id, "tenant_id": tenant_id, "email": email, "name": message.contact_name}
        for contact_id, ((tenant_id, email), message) in zip(uuid7s(now, len(people)), people.items(), strict=True)
    ]
    await tx.count(INSERT_CONTACTS, contacts=contacts, now=now)


def _delivery_row(message: NewMessage, now: Instant) -> dict[str, object]:
    return {
        "outbox_id": message.outbox_id,
        "tenant_id": message.tenant_id,
        "lane": lane_number(message.priority, message.tenant_id),
        "due_at": max(now, message.scheduled_at or now),
    }


def _message_row(message: NewMessage, position: int) -> dict[str, object]:
    # Bulk mail that names no list is of the general one, which everybody can leave.
    list_key = message.list_key or (GENERAL if message.is_bulk else None)
    return {
        "outbox_id": message.outbox_id,
        "tenant_id": message.tenant_id,
        "source": message.source.value,  # plain text: SQLite's driver looks for an adapter for everything else
        "request_id": message.request_id,
        "dedupe_key": message.dedupe_key,
        "body_digest": message.body_digest,
        "to_email": message.to_email,
        "recipient_id": message.recipient_id,
        "external_id": message.external_id,
        "subject": message.subject,
        "template_key": message.template_key,
        "payload": orjson.dumps(message.payload).decode(),
        "retry_policy": message.retry_policy,
        "on_doubt": message.on_doubt.value,
        "is_bulk": int(list_key is not None),
        "list_key": list_key,
        "expires_at": message.expires_at,
        "scheduled_at": message.scheduled_at,
        "position": position,  # the order in which they were given is the order of their keys
    }


def _answer(
    message: NewMessage, stored: Mapping[str, NewMessage], known: Mapping[tuple[int, str | None], _Known]
) -> Accepted:
    """Compared with the caller's own body: whoever shares the commit may have used the key for something else."""
    if message.outbox_id in stored:
        return Accepted(message.outbox_id, message.request_id, PENDING)
    first = known[message.tenant_id, message.dedupe_key]
    is_conflict = first.body_digest != message.body_digest
    return Accepted(first.outbox_id, first.request_id, first.status, is_replay=True, is_conflict=is_conflict)
