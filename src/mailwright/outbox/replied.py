"""Find the messages that replies answer."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, select

from mailwright.domain.message import FORWARDED_REPLY
from mailwright.storage.database import Database
from mailwright.storage.tables import messages, tenants


@dataclass(frozen=True, slots=True)
class RepliedMessage:
    outbox_id: str
    tenant_id: int
    to_email: str
    is_bulk: bool
    is_forwarded_reply: bool  # The message is itself a reply that was forwarded.
    forward_to: str | None  # The address of the tenant for replies; None if it has none.


async def find_by_id(database: Database, outbox_id: str) -> RepliedMessage | None:
    return await _find(database, messages.c.outbox_id == outbox_id)


async def find_by_key(database: Database, dedupe_keys: Collection[str]) -> RepliedMessage | None:
    """Find the message with one of these deduplication keys. Return None if several tenants have one."""
    return await _find(database, messages.c.dedupe_key.in_(dedupe_keys)) if dedupe_keys else None


async def _find(database: Database, condition: ColumnElement[bool]) -> RepliedMessage | None:
    m, t = messages.c, tenants.c
    columns = (m.outbox_id, m.tenant_id, m.to_email, m.is_bulk, m.payload, t.reply_forward_to)
    # The join with tenants lets the database use the index of keys, which begins with the tenant.
    query = select(*columns).join_from(tenants, messages, m.tenant_id == t.id).where(condition).order_by(m.id.desc())
    async with database.read() as tx:
        rows = await tx.execute(query.limit(20))
    return _message(rows[0]) if len({row.tenant_id for row in rows}) == 1 else None


def _message(row: Any) -> RepliedMessage:
    return RepliedMessage(
        outbox_id=row.outbox_id,
        tenant_id=row.tenant_id,
        to_email=row.to_email,
        is_bulk=bool(row.is_bulk),
        is_forwarded_reply=FORWARDED_REPLY in orjson.loads(row.payload),
        forward_to=row.reply_forward_to,
    )
