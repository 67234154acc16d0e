"""Count the messages that were sent to some domains in an interval, by the domain of the sender."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import orjson
from sqlalchemy import func, select

from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.states import EventType
from mailwright.outbox.search import event_keys_between
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_value, position
from mailwright.storage.tables import events, messages


async def count_sent(
    tx: Transaction, tenant_id: int, recipient_domains: Collection[str], since: Instant, until: Instant
) -> Counter[str | None]:
    """Return the number of messages by the domain of their From address.

    The key None is for messages without their own From address.
    """
    after, before = await event_keys_between(tx, since, until)
    e, m = events.c, messages.c
    sender = json_value(m.payload, "from").label("sender")
    query = (
        select(sender, func.count().label("sent"))
        .select_from(events.join(messages, m.id == e.message_key))
        .where(
            e.id > after,
            e.id <= before,
            e.tenant_id == tenant_id,
            e.type == EventType.SENT,
            e.created_at >= since,
            e.created_at < until,
            func.substr(m.to_email, position(m.to_email, "@") + 1).in_(list(recipient_domains)),
        )
        .group_by(sender)
    )
    counts: Counter[str | None] = Counter()
    for row in await tx.execute(query):
        counts[_domain(row.sender)] += row.sent
    return counts


def _domain(sender: Any) -> str | None:
    value = orjson.loads(sender) if isinstance(sender, str) else sender
    if not value:
        return None
    email = value.get("email") if isinstance(value, dict) else address.split_mailbox(str(value))[1]
    return address.domain_of(str(email)).lower()
