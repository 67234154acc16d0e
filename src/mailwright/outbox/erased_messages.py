"""Erase a contact from messages. They keep their rows, states and times, so that the audit still adds up."""

from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update

from mailwright.domain.clock import Instant
from mailwright.domain.message import FORWARDED_REPLY, Event, Source
from mailwright.domain.states import CLAIMABLE, EventType, Status
from mailwright.outbox.in_doubt import RESOLUTION_PERIOD
from mailwright.outbox.operations import LOCK_MESSAGE, RESOLVE, cancel_or_expire, cancel_waiting
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Transaction
from mailwright.storage.tables import (
    audit_log,
    bulk_sends,
    deleted_messages,
    deliveries,
    events,
    message_dead_letters,
    messages,
    raw_contents,
)

ERASED_SUBJECT: Final = "(erased)"
_IN_PROGRESS: Final = (Status.SENT_ATTEMPT, Status.IN_DOUBT)
# Maximum number of message keys in one statement. Most contacts have fewer messages.
BATCH_SIZE: Final = 500


class MessageInProgress(Exception):
    """A message that contains data of the contact has no result yet, or needs the data to be sent."""

    def __init__(self, outbox_id: str) -> None:
        super().__init__(outbox_id)
        self.outbox_id = outbox_id


async def stop_messages(tx: Transaction, tenant_id: int, email: str, now: Instant) -> None:
    """Cancel the pending messages to a contact. Those that a worker has begun to send are never sent again."""
    m, d = messages.c, deliveries.c
    unfinished = (m.tenant_id == tenant_id, m.to_email == email, d.status.in_((*_IN_PROGRESS, *CLAIMABLE)))
    columns = (d.message_key, d.tenant_id, d.status)
    query = select(*columns).join_from(messages, deliveries, d.message_key == m.id).where(*unfinished)
    await cancel_or_expire(tx, await tx.execute(query.order_by(m.id)), now)


async def find_settled(tx: Transaction, tenant_id: int, email: str, now: Instant) -> list[int]:
    """Return the keys of all messages to a contact, which can no longer change. Pending ones are cancelled.

    Raise `MessageInProgress` if one is being sent or in doubt.
    """
    rows = await tx.execute(
        select(messages.c.id, messages.c.outbox_id, deliveries.c.status)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(messages.c.tenant_id == tenant_id, messages.c.to_email == email)
        .order_by(messages.c.id)
    )
    await _cancel_unsent(tx, tenant_id, rows, now)
    return [row.id for row in rows]


async def find_last_result(
    tx: Transaction, tenant_id: int, email: str, outbox_id: str, now: Instant
) -> tuple[str, Instant]:
    """Return the message whose result comes last, and when it has one at the latest.

    Compare the messages to the contact with the message that has this outbox ID.
    """
    m, d = messages.c, deliveries.c
    own = and_(m.to_email == email, d.status.in_(_IN_PROGRESS))
    matching = (m.tenant_id == tenant_id, or_(own, m.outbox_id == outbox_id))
    columns = (m.outbox_id, d.status, d.in_doubt_since, d.claimable_at)
    rows = await tx.execute(select(*columns).join_from(messages, deliveries, d.message_key == m.id).where(*matching))
    ends = {row.outbox_id: _doubt_begins(row, now) + RESOLUTION_PERIOD for row in rows}
    last = max(ends, key=lambda each: (ends[each], each), default=outbox_id)
    return last, ends.get(last, now)


def _doubt_begins(row: Any, now: Instant) -> Instant:
    """Return when a message is in doubt at the latest; a claim that was lost ends with its lease."""
    return int(row.in_doubt_since if row.status == Status.IN_DOUBT else max(row.claimable_at, now))


async def close_overdue(tx: Transaction, tenant_id: int, outbox_id: str, now: Instant) -> None:
    """Close a message that is in doubt for longer than the resolution period.

    Workers do the same, but not while sending is on hold, and an erasure must not wait for that.
    """
    rows = await tx.run(LOCK_MESSAGE, outbox_id=outbox_id, tenant_id=tenant_id)
    for row in rows:
        if row.status == Status.IN_DOUBT:
            await tx.run(
                RESOLVE, message_key=row.message_key, now=now, status=Status.CLOSED_UNKNOWN.value, sent_at=None
            )
            event = Event(EventType.CLOSED_UNKNOWN, now, {"resolvedBy": "erasure"})
            await append_events(tx, [event_row(row.message_key, tenant_id, event)])


async def _cancel_unsent(tx: Transaction, tenant_id: int, rows: Sequence[Any], now: Instant) -> None:
    for row in rows:
        if row.status in CLAIMABLE and await cancel_waiting(tx, row.id, tenant_id, row.status, now):
            continue
        if row.status in (*_IN_PROGRESS, *CLAIMABLE):
            raise MessageInProgress(row.outbox_id)


async def erase_raw_contents(tx: Transaction, tenant_id: int, address: str) -> None:
    """Delete the stored raw emails that applications sent to the contact, also for their other recipients.

    Raise `MessageInProgress` if one of these emails must still be sent, because it cannot be sent without its content.
    """
    m, d = messages.c, deliveries.c
    mine = select(m.content_digest).where(
        m.tenant_id == tenant_id, m.to_email == address, m.content_digest.is_not(None)
    )
    unfinished = (*_IN_PROGRESS, *CLAIMABLE)
    waiting = (m.tenant_id == tenant_id, m.content_digest.in_(mine), d.status.in_(unfinished))
    query = select(m.outbox_id).join_from(messages, deliveries, d.message_key == m.id).where(*waiting)
    for row in await tx.execute(query.limit(1)):
        raise MessageInProgress(row.outbox_id)
    c = raw_contents.c
    await tx.execute(delete(raw_contents).where(c.tenant_id == tenant_id, c.digest.in_(mine)))


async def erase_messages(tx: Transaction, keys: list[int], placeholder: str, address: str) -> None:
    # The sender may have put the address into the request ID or the idempotency key.
    named = or_(*(contains(column, address) for column in (messages.c.request_id, messages.c.dedupe_key)))
    await tx.execute(
        update(messages).where(messages.c.id.in_(keys), named).values(request_id=messages.c.outbox_id, dedupe_key=None)
    )
    await tx.execute(
        update(messages)
        .where(messages.c.id.in_(keys))
        .values(
            to_email=placeholder,
            subject=ERASED_SUBJECT,
            payload="{}",
            recipient_id=None,
            external_id=None,
            content_digest=None,
        )
    )
    await tx.execute(
        update(deliveries).where(deliveries.c.message_key.in_(keys)).values(error_reason=None, subject=None)
    )
    await tx.execute(update(events).where(events.c.message_key.in_(keys)).values(metadata="{}"))
    await tx.execute(
        update(message_dead_letters).where(message_dead_letters.c.message_key.in_(keys)).values(reason=ERASED_SUBJECT)
    )


async def erase_forwarded_replies(tx: Transaction, tenant_id: int, keys: list[int], address: str) -> None:
    """Erase the replies by or to the contact that were forwarded. Raise `MessageInProgress` if one is not sent yet."""
    m, d = messages.c, deliveries.c
    columns = (m.id, m.outbox_id, m.payload, m.content_digest, d.status)
    for start in range(0, len(keys), BATCH_SIZE):
        some = m.id.in_(keys[start : start + BATCH_SIZE])
        rows = await tx.execute(select(*columns).join_from(messages, deliveries, d.message_key == m.id).where(some))
        replies = [row for row in rows if address in orjson.loads(row.payload).get(FORWARDED_REPLY, {}).values()]
        for row in replies:
            if row.status in (*_IN_PROGRESS, *CLAIMABLE):
                raise MessageInProgress(row.outbox_id)
        c, digests = raw_contents.c, [row.content_digest for row in replies]
        await tx.execute(delete(raw_contents).where(c.tenant_id == tenant_id, c.digest.in_(digests)))
        erased = {"subject": ERASED_SUBJECT, "payload": "{}", "content_digest": None}
        await tx.execute(update(messages).where(m.id.in_([row.id for row in replies])).values(**erased))
        await _erase_subjects(tx, [row.id for row in replies])


async def erase_team_notifications(tx: Transaction, tenant_id: int, keys: list[int], now: Instant) -> None:
    """Erase the emails in which steps of sequences notified the team about the contact. Unsent ones are cancelled."""
    m, d = messages.c, deliveries.c
    for start in range(0, len(keys), BATCH_SIZE):
        # Emails to other people in sequences have a recipient ID.
        some = (m.id.in_(keys[start : start + BATCH_SIZE]), m.source == Source.SEQUENCE, m.recipient_id.is_(None))
        query = select(m.id, m.outbox_id, d.status).join_from(messages, deliveries, d.message_key == m.id)
        rows = await tx.execute(query.where(*some))
        await _cancel_unsent(tx, tenant_id, rows, now)
        erased = {"subject": ERASED_SUBJECT, "payload": "{}"}
        await tx.execute(update(messages).where(m.id.in_([row.id for row in rows])).values(**erased))
        await _erase_subjects(tx, [row.id for row in rows])


async def _erase_subjects(tx: Transaction, keys: list[int]) -> None:
    await tx.execute(update(deliveries).where(deliveries.c.message_key.in_(keys)).values(subject=None))


async def find_copies(tx: Transaction, tenant_id: int, address: str, after: int) -> list[int]:
    """Return the keys of messages to others that have this address in Cc, forward its reply, or are about it."""
    matching = (
        messages.c.id > after,
        messages.c.tenant_id == tenant_id,
        messages.c.to_email != address,
        contains(messages.c.payload, address),
    )
    return [row.id for row in await tx.execute(select(messages.c.id).where(*matching))]


async def remove_from_copies(tx: Transaction, keys: list[int], address: str) -> None:
    for start in range(0, len(keys), BATCH_SIZE):
        some = messages.c.id.in_(keys[start : start + BATCH_SIZE])
        for row in await tx.execute(select(messages.c.id, messages.c.payload).where(some)):
            payload = orjson.loads(row.payload)
            others = {
                kind: [copy for copy in payload[kind] if copy.strip().lower() != address]
                for kind in ("cc", "bcc")
                if payload.get(kind)
            }
            if any(others[kind] != payload[kind] for kind in others):
                text = orjson.dumps({**payload, **others}).decode()
                await tx.execute(update(messages).where(messages.c.id == row.id).values(payload=text))


async def erase_records(tx: Transaction, tenant_id: int, address: str, placeholder: str) -> None:
    """Erase what else the outbox knows: counted sends, deleted messages and the subject of audit entries."""
    await tx.execute(delete(bulk_sends).where(bulk_sends.c.tenant_id == tenant_id, bulk_sends.c.email == address))
    deleted = (deleted_messages.c.tenant_id == tenant_id, deleted_messages.c.to_email == address)
    await tx.execute(delete(deleted_messages).where(*deleted))
    audited = (audit_log.c.tenant_id == tenant_id, audit_log.c.subject == address)
    await tx.execute(update(audit_log).where(*audited).values(subject=placeholder, detail="{}"))


def contains(column: ColumnElement[str], address: str) -> ColumnElement[bool]:
    return func.lower(column).contains(address, autoescape=True)
