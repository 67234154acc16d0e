"""Find the messages that replies answer."""

from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import func, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import ACCOUNT_EMAIL, FORWARDED_REPLY, OWN_MESSAGE_ID
from mailwright.domain.states import EventType
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import messages, reports, tenants

FIND_REPLIED_BY_KEY = statement(__package__, "find_replied_by_key")
FIND_REPLIED_BY_RECIPIENT = statement(__package__, "find_replied_by_recipient")

# The number of latest messages to an address that are searched for the message that a reply answers.
MAX_SEARCHED: Final = 500


@dataclass(frozen=True, slots=True)
class RepliedMessage:
    outbox_id: str
    tenant_id: int
    to_email: str
    is_bulk: bool
    may_forward: bool  # False for a reply that was forwarded, and for email about accounts, whose quotes hold links.
    forward_to: str | None  # The address of the tenant for replies; None if it has none.


async def find_by_id(database: Database, outbox_id: str) -> RepliedMessage | None:
    m, t = messages.c, tenants.c
    columns = (m.outbox_id, m.tenant_id, m.to_email, m.is_bulk, m.payload, t.reply_forward_to)
    query = select(*columns).join_from(messages, tenants, m.tenant_id == t.id).where(m.outbox_id == outbox_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    return _message(rows[0]) if rows else None


async def find_by_key(database: Database, dedupe_keys: Collection[str]) -> RepliedMessage | None:
    """Find the latest message with one of these deduplication keys. Return None if several tenants have one."""
    if not dedupe_keys:
        return None
    async with database.read() as tx:
        rows = await tx.run(FIND_REPLIED_BY_KEY, wanted=[{"dedupe_key": key} for key in sorted(set(dedupe_keys))])
    return _latest(rows)


async def find_by_message_id(database: Database, to_email: str, message_ids: Collection[str]) -> RepliedMessage | None:
    """Find the latest message to an address with one of these Message-IDs. Return None if several tenants have one."""
    if not message_ids:
        return None
    async with database.read() as tx:
        rows = await tx.run(FIND_REPLIED_BY_RECIPIENT, to_email=to_email, limit=MAX_SEARCHED)
    return _latest([row for row in rows if orjson.loads(row.payload).get(OWN_MESSAGE_ID) in message_ids])


async def count_replies(database: Database, outbox_id: str, since: Instant) -> int:
    """Count the replies to a message that arrived since a time. Their Date headers do not matter."""
    r, m = reports.c, messages.c
    arrived = (m.outbox_id == outbox_id, r.type == EventType.REPLIED.value, r.received_at > since)
    query = select(func.count()).select_from(reports.join(messages, r.message_key == m.id)).where(*arrived)
    async with database.read() as tx:
        return int((await tx.execute(query))[0][0])


async def count_forwarded(database: Database, tenant_id: int, forward_to: str, since: Instant) -> int:
    """Count the replies that were forwarded to an address since a time."""
    m = messages.c
    forwarded = (m.tenant_id == tenant_id, m.to_email == forward_to, m.dedupe_key.like("reply:%"), m.created_at > since)
    async with database.read() as tx:
        return int((await tx.execute(select(func.count()).where(*forwarded)))[0][0])


def _latest(rows: Sequence[Any]) -> RepliedMessage | None:
    """Return the latest message; None if there is none, or if they belong to several tenants."""
    if len({row.tenant_id for row in rows}) != 1:
        return None
    return _message(max(rows, key=lambda row: int(row.id)))


def _message(row: Any) -> RepliedMessage:
    payload = orjson.loads(row.payload)
    return RepliedMessage(
        outbox_id=row.outbox_id,
        tenant_id=row.tenant_id,
        to_email=row.to_email,
        is_bulk=bool(row.is_bulk),
        may_forward=FORWARDED_REPLY not in payload and ACCOUNT_EMAIL not in payload,
        forward_to=row.reply_forward_to,
    )
