"""Accept messages: the only code that inserts into `messages` and `deliveries`.

A message is accepted if and only if its row is committed. Every function in this module also counts the accepted
messages, for the audit.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from sqlalchemy import ColumnElement, Select, and_, func, insert, literal, select

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lanes import lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Accepted, NewMessage, Source
from mailwright.domain.states import Priority, Status
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox.pending_erasures import find_erasing
from mailwright.storage.database import PROMPT_SECONDS, Database, Transaction
from mailwright.storage.group_commit import GroupCommit
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import accepted_counts, deliveries, messages

FIND_REPLAYS = statement(__package__, "find_replays")
FIND_STORED = statement(__package__, "find_stored")
INSERT_CONTACTS = statement(__package__, "insert_contacts")
INSERT_RAW_CONTENTS = statement(__package__, "insert_raw_contents")
INSERT_MESSAGES = statement(__package__, "insert_messages")
INSERT_DELIVERIES = statement(__package__, "insert_deliveries")
INSERT_RUN_MESSAGES = statement(__package__, "insert_run_messages")
INSERT_RUN_DELIVERIES = statement(__package__, "insert_run_deliveries")
INSERT_EXTERNAL_MESSAGES = statement(__package__, "insert_external_messages")
INSERT_ACCEPTED_COUNTS = statement(__package__, "insert_accepted_counts")

PENDING = Status.PENDING.value

# Maximum number of messages per commit. A commit must stay short, because workers wait for it.
MAX_COMMIT_MESSAGES = 2_000
# PostgreSQL receives the messages of a statement as one JSON value, whose size is limited.
MAX_COMMIT_BYTES = 64 * 1024 * 1024
# Maximum number of rows that SQLite takes as parameters of one statement. More would go through a temporary table.
BATCH_SIZE = 250


# Of one process, to name those that a failover of the database has lost.
RECENTLY_ACCEPTED = 20_000
_recently_accepted: WeakKeyDictionary[Database, deque[str]] = WeakKeyDictionary()


def recently_accepted(database: Database) -> deque[str]:
    """Return the IDs of the messages that this process accepted last."""
    return _recently_accepted.setdefault(database, deque(maxlen=RECENTLY_ACCEPTED))


class Acceptor:
    """Accepts messages from concurrent callers. `announce` runs after each commit, to wake an idle worker."""

    def __init__(self, database: Database, clock: Clock, announce: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._clock = clock
        self._recent = recently_accepted(database)
        self._group_commit = GroupCommit(
            self._commit,
            after_commit=announce,
            max_items=MAX_COMMIT_MESSAGES,
            max_bytes=MAX_COMMIT_BYTES,
            size_of=_approximate_size,
        )

    async def accept(self, messages: Sequence[NewMessage]) -> list[Accepted]:
        """Accept all messages in one transaction. The results are in the order of the messages."""
        return await self._group_commit.submit(messages) if messages else []

    async def find_accepted(self, tenant_id: int, digests: Mapping[str, str]) -> dict[str, Accepted]:
        """Return the messages that have these deduplication keys and the same body, by key.

        A request that was accepted can be invalid when it is repeated, for example because its send time has passed.
        """
        wanted = [{"tenant_id": tenant_id, "dedupe_key": key} for key in digests]
        if not wanted:
            return {}
        async with self._database.read(within=PROMPT_SECONDS) as tx:
            rows = await tx.run(FIND_REPLAYS, wanted=wanted)
        return {
            row.dedupe_key: Accepted(row.outbox_id, row.request_id, row.status, is_replay=True)
            for row in rows
            if row.body_digest == digests[row.dedupe_key]
        }

    async def close(self) -> None:
        await self._group_commit.close()

    async def _commit(self, messages: Sequence[NewMessage]) -> list[Accepted]:
        accepted = await self._database.transact(
            lambda tx: accept(tx, messages, self._clock.now(), refuses_erasing=True), within=PROMPT_SECONDS
        )
        fresh = [
            message.source
            for message, result in zip(messages, accepted, strict=True)
            if not result.is_replay and not result.is_erasing
        ]
        self._recent.extend([result.outbox_id for result in accepted if not result.is_erasing])
        for source, count in Counter(fresh).items():
            count_accepted(source, count)
        return accepted


def count_accepted(source: Source, messages: int) -> None:
    """Count accepted messages in the metrics."""
    from mailwright.ops import metrics  # noqa: PLC0415 - slow to import, and most commands accept nothing

    metrics.ACCEPTED.labels(source).inc(messages)


def _approximate_size(message: NewMessage) -> int:
    """Return the size in bytes of the fields that can be large: the content and the attachments."""
    payload = message.payload
    attachments = payload.get("attachments")
    attached = sum([len(str(attachment)) for attachment in attachments]) if attachments else 0
    if message.raw is not None:
        return len(message.raw.content) + 1_000
    return len(str(payload.get("html", ""))) + len(str(payload.get("text", ""))) + attached + 1_000


# Messages of the API and of notifications. Each one has its own content.


@dataclass(frozen=True, slots=True)
class _StoredMessage:
    """The message that a deduplication key belongs to."""

    outbox_id: str
    request_id: str
    status: str
    body_digest: str | None


async def accept(
    tx: Runner, messages: Sequence[NewMessage], now: Instant, *, refuses_erasing: bool = False
) -> list[Accepted]:
    """Accept messages inside the caller's transaction, together with the rows that their source writes.

    With `refuses_erasing`, do not store messages to addresses that are being erased. A worker would not send them.
    """
    replays = await _find_replays(tx, messages)
    fresh = _first_of_each_key(messages, replays)
    erasing = await _find_to_erasing(tx, fresh) if refuses_erasing else frozenset()
    if erasing:
        fresh = {outbox_id: message for outbox_id, message in fresh.items() if outbox_id not in erasing}
    stored = await _insert(tx, fresh, now)
    if len(stored) == len(messages):
        return [Accepted(message.outbox_id, message.request_id, PENDING) for message in messages]
    if len(stored) < len(fresh):  # Another process used a key between the lookup and the insert.
        replays = await _find_replays(tx, messages)
    by_key = replays | {(message.tenant_id, message.dedupe_key): _as_stored(message) for message in stored.values()}
    return [
        Accepted(message.outbox_id, message.request_id, PENDING, is_erasing=True)
        if message.outbox_id in erasing
        else _accepted(message, stored, by_key)
        for message in messages
    ]


async def _find_to_erasing(tx: Runner, fresh: Mapping[str, NewMessage]) -> frozenset[str]:
    """Return the outbox IDs of the messages to addresses that are being erased."""
    erasing = await find_erasing(tx, [(message.tenant_id, message.to_email) for message in fresh.values()])
    if not erasing:
        return frozenset()
    return frozenset(key for key, message in fresh.items() if (message.tenant_id, message.to_email) in erasing)


async def _insert_contents(tx: Runner, messages: Sequence[NewMessage], now: Instant) -> None:
    """Store the raw emails of applications. All recipients of an email share one row."""
    contents = {(message.tenant_id, message.raw.key): message.raw.content for message in messages if message.raw}
    if contents:
        rows = [(tenant_id, key, content) for (tenant_id, key), content in sorted(contents.items())]
        await tx.count(INSERT_RAW_CONTENTS, contents=rows, now=now)


async def _find_replays(tx: Runner, messages: Sequence[NewMessage]) -> dict[tuple[int, str | None], _StoredMessage]:
    wanted = [(message.tenant_id, message.dedupe_key) for message in messages if message.dedupe_key is not None]
    if not wanted:
        return {}
    return {
        (row.tenant_id, row.dedupe_key): _StoredMessage(row.outbox_id, row.request_id, row.status, row.body_digest)
        for row in await tx.run(FIND_REPLAYS, wanted=wanted)
    }


def _as_stored(message: NewMessage) -> _StoredMessage:
    return _StoredMessage(message.outbox_id, message.request_id, PENDING, message.body_digest)


def _first_of_each_key(
    messages: Sequence[NewMessage], replays: Mapping[tuple[int, str | None], _StoredMessage]
) -> dict[str, NewMessage]:
    """Return the messages to store, by outbox ID: only the first message with each deduplication key."""
    taken = {key: stored.body_digest for key, stored in replays.items()}
    fresh: dict[str, NewMessage] = {}
    refused: set[str] = set()
    for message in messages:
        if message.dedupe_key is not None:
            key = (message.tenant_id, message.dedupe_key)
            if key in taken:
                if message.submission_id is not None and taken[key] != message.body_digest:
                    refused.add(message.submission_id)
                continue
            taken[key] = message.body_digest
        fresh[message.outbox_id] = message
    if not refused:
        return fresh
    # If one message is refused, refuse the whole submission, because its caller gets a single response.
    return {outbox_id: message for outbox_id, message in fresh.items() if message.submission_id not in refused}


async def _insert(tx: Runner, fresh: dict[str, NewMessage], now: Instant) -> dict[str, NewMessage]:
    if not fresh:
        return {}
    await _insert_recipients(tx, fresh.values(), now)
    messages = list(fresh.values())
    stored: dict[str, NewMessage] = {}
    for start in range(0, len(messages), BATCH_SIZE):
        stored |= await _insert_batch(tx, messages[start : start + BATCH_SIZE], now)
    await _count(tx, Counter([(message.tenant_id, message.source) for message in stored.values()]), now)
    return stored


async def _insert_batch(tx: Runner, messages: Sequence[NewMessage], now: Instant) -> dict[str, NewMessage]:
    """Insert messages and return the stored ones, by outbox ID.

    A message is not stored if another process has used its deduplication key in the meantime.
    """
    stored = {message.outbox_id: message for message in messages}
    rows = [_message_row(message, position) for position, message in enumerate(messages)]
    await _insert_contents(tx, messages, now)
    if await tx.count(INSERT_MESSAGES, messages=rows, now=now) < len(rows):
        stored = {outbox_id: stored[outbox_id] for outbox_id in await _find_stored(tx, list(stored))}
    await tx.count(INSERT_DELIVERIES, deliveries=[_delivery_row(message, now) for message in stored.values()])
    return stored


async def _find_stored(tx: Runner, outbox_ids: Iterable[str]) -> list[str]:
    rows = await tx.run(FIND_STORED, wanted=[{"outbox_id": outbox_id} for outbox_id in outbox_ids])
    return [row.outbox_id for row in rows]


async def _insert_recipients(tx: Runner, messages: Iterable[NewMessage], now: Instant) -> None:
    recipients = {
        (message.tenant_id, message.to_email): message
        for message in messages
        if message.recipient_id is None and message.creates_contact
    }
    if not recipients:
        return
    contacts = [
        (contact_id, tenant_id, email, message.contact_name)
        for contact_id, ((tenant_id, email), message) in zip(
            uuid7s(now, len(recipients)), recipients.items(), strict=True
        )
    ]
    await tx.count(INSERT_CONTACTS, contacts=contacts, now=now)


async def insert_contacts(tx: Runner, contacts: Sequence[Mapping[str, Any]], now: Instant) -> None:
    """Add contacts, as rows with a contact ID, tenant, email and name. Existing contacts stay as they are."""
    await tx.count(INSERT_CONTACTS, contacts=contacts, now=now)


async def _count(tx: Runner, accepted: Mapping[tuple[int, Source], int], now: Instant) -> None:
    counts = [
        {"tenant_id": tenant_id, "source": source.value, "accepted": count}
        for (tenant_id, source), count in accepted.items()
    ]
    await tx.count(INSERT_ACCEPTED_COUNTS, counts=counts, now=now)


# Rows are tuples in the order of the statement's columns, because they are created for each message.


def _delivery_row(message: NewMessage, now: Instant) -> tuple[object, ...]:
    """Return a row of `insert_deliveries.sql`."""
    lane = message.lane or lane_number(message.priority, message.tenant_id)
    due_at = now if message.scheduled_at is None else max(now, message.scheduled_at)
    return (message.outbox_id, message.tenant_id, lane, due_at)


def _message_row(message: NewMessage, position: int) -> tuple[object, ...]:
    """Return a row of `insert_messages.sql`."""
    # Bulk email without a list belongs to the general one, so that everyone can unsubscribe from it.
    list_key = message.list_key or (GENERAL if message.is_bulk else None)
    return (
        message.outbox_id,
        message.tenant_id,
        message.source.value,  # A plain str, because SQLite's driver searches adapters for other types.
        message.request_id,
        message.dedupe_key,
        message.body_digest,
        message.to_email,
        message.recipient_id,
        message.external_id,
        message.subject,
        message.template_key,
        orjson.dumps(message.payload).decode(),
        message.retry_policy,
        message.on_doubt.value,
        int(list_key is not None),
        list_key,
        message.expires_at,
        message.scheduled_at,
        message.raw.key if message.raw is not None else None,
        position,  # Keys are assigned in the order in which the messages were submitted.
    )


def _accepted(
    message: NewMessage,
    stored: Mapping[str, NewMessage],
    by_key: Mapping[tuple[int, str | None], _StoredMessage],
) -> Accepted:
    """Return the result for one caller.

    The body is compared again, because another caller in the same commit may have used the key for a different body.
    """
    if message.outbox_id in stored:
        return Accepted(message.outbox_id, message.request_id, PENDING)
    first = by_key.get((message.tenant_id, message.dedupe_key))
    if first is None:  # The submission was refused because of another recipient.
        return Accepted(message.outbox_id, message.request_id, PENDING, is_conflict=True)
    is_conflict = first.body_digest != message.body_digest
    return Accepted(first.outbox_id, first.request_id, first.status, is_replay=True, is_conflict=is_conflict)


# Messages of bulk sources. Thousands are accepted at once, and they share their content.


async def accept_select(
    tx: Transaction,
    values: Mapping[str, ColumnElement[Any]],
    rows: Select[Any],
    *,
    tenant_id: int,
    campaign_key: int,
    lane: int,
    now: Instant,
) -> int:
    """Accept the campaign messages of a SELECT inside the database (INSERT … SELECT), and return their number."""
    before = (await tx.execute(select(func.coalesce(func.max(messages.c.id), 0))))[0][0]
    await tx.execute(insert(messages).from_select(list(values), rows))
    # Scan the newest keys, because the campaign's index would read every earlier batch again. COALESCE prevents the use
    # of that index.
    is_new = and_(messages.c.id > before, func.coalesce(messages.c.campaign_key, 0) == campaign_key)
    delivery = {
        "message_key": messages.c.id,
        "tenant_id": messages.c.tenant_id,
        "lane": literal(lane),
        "status": literal(PENDING),
        "claimable_at": literal(now),
        "next_attempt_at": literal(now),
        "attempts": literal(0),
        "claims": literal(0),
        "resends": literal(0),
    }
    new_deliveries = select(*delivery.values()).where(is_new).order_by(messages.c.id)
    await tx.execute(insert(deliveries).from_select(list(delivery), new_deliveries))
    accepted = int((await tx.execute(select(func.count()).select_from(messages).where(is_new)))[0][0])
    if accepted:
        count = {"tenant_id": tenant_id, "source": Source.CAMPAIGN.value, "accepted": accepted, "created_at": now}
        await tx.execute(insert(accepted_counts).values(**count))
    return accepted


# The columns of `insert_run_messages.sql`: outbox ID, contact key, email, subject, template key and payload. A tuple is
# the fastest type, and every recipient needs one.
RunMessage = tuple[str, int, str, str, int, str]


async def accept_run(
    tx: Runner,
    run_messages: Sequence[RunMessage],
    *,
    tenant_id: int,
    run_id: str,
    list_key: str,
    retry_policy: str,
    after_key: int,
    now: Instant,
) -> list[bool]:
    """Accept a batch of an article run, and return for each message whether its contact still exists.

    `after_key` is the newest message key before this transaction.
    """
    shared = {"source": Source.ARTICLE.value, "run_id": run_id, "list_key": list_key, "retry_policy": retry_policy}
    accepted = await tx.count(INSERT_RUN_MESSAGES, messages=run_messages, now=now, **shared)
    lane = lane_number(Priority.BULK, tenant_id)
    await tx.count(INSERT_RUN_DELIVERIES, after_key=after_key, run_id=run_id, lane=lane, now=now)
    if accepted:
        await _count(tx, {(tenant_id, Source.ARTICLE): accepted}, now)
    if accepted == len(run_messages):
        return [True] * accepted
    stored = set(await _find_stored(tx, [message[0] for message in run_messages]))
    return [message[0] in stored for message in run_messages]


@dataclass(frozen=True, slots=True)
class ExternalMessage:
    """A message of a campaign to a recipient that another source selected."""

    outbox_id: str
    email: str
    payload: Mapping[str, Any]


async def accept_external(
    tx: Runner,
    external: Sequence[ExternalMessage],
    *,
    source: Source,
    tenant_id: int,
    campaign_key: int,
    campaign_id: str,
    subject: str,
    template_key: int,
    lane: int,
    now: Instant,
) -> int:
    """Accept messages of a campaign in this order, one per address, and return the number of new messages."""
    rows = [
        {
            "outbox_id": message.outbox_id,
            "email": message.email,
            "payload": orjson.dumps(message.payload).decode(),
            "position": position,
        }
        for position, message in enumerate(external)
    ]
    shared = {
        "campaign_id": campaign_id,
        "campaign_key": campaign_key,
        "subject": subject,
        "template_key": template_key,
    }
    accepted = await tx.count(
        INSERT_EXTERNAL_MESSAGES, recipients=rows, source=source.value, tenant_id=tenant_id, now=now, **shared
    )
    if accepted:
        due = {"tenant_id": tenant_id, "lane": lane, "due_at": now}
        await tx.count(INSERT_DELIVERIES, deliveries=[{"outbox_id": message.outbox_id, **due} for message in external])
        await _count(tx, {(tenant_id, source): accepted}, now)
    return accepted
