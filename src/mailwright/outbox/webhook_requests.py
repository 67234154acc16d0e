"""Queue requests to the webhooks of a tenant, in the caller's transaction. `events/outbound` sends them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import insert, select

from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.outbox.settle import NO_MESSAGE
from mailwright.storage.database import Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import webhook_deliveries, webhook_endpoints

WEBHOOK_TYPES = statement(__package__, "webhook_types")


# The formats of webhooks that can express the data of a step.
FORMATS_OF_STEPS: Final = ("mailwright", "standard")


class NoReceiver(StrEnum):
    """Why a webhook cannot get a request."""

    UNKNOWN = "unknown"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class DirectRequest:
    """A request to one webhook. `metadata` may contain the key of a contact, but no personal data."""

    webhook_id: str
    metadata: Mapping[str, Any]


async def wanted_types(tx: Runner, tenant_id: int) -> frozenset[str]:
    """Return the event types that active webhooks of the tenant subscribe to.

    Other events need not be stored for webhooks.
    """
    rows = await tx.run(WEBHOOK_TYPES, tenant_id=tenant_id)
    return frozenset(type_ for row in rows for type_ in orjson.loads(row.types))


async def request_deliveries(
    tx: Transaction, tenant_id: int, type_: EventType, requests: Sequence[DirectRequest], now: Instant
) -> list[str | NoReceiver]:
    """Store deliveries, and return the ID of each one, or why there is none.

    A paused webhook gets its deliveries later.
    """
    e = webhook_endpoints.c
    ids = sorted({each.webhook_id for each in requests})
    mine = (e.tenant_id == tenant_id, e.webhook_id.in_(ids), e.format.in_(FORMATS_OF_STEPS))
    query = select(e.id, e.webhook_id, e.is_active).where(*mine)
    endpoints = {row.webhook_id: row for row in await tx.execute(query)}
    results: list[str | NoReceiver] = []
    rows = []
    for request, delivery_id in zip(requests, uuid7s(now, len(requests)), strict=True):
        endpoint = endpoints.get(request.webhook_id)
        if endpoint is None or not endpoint.is_active:
            results.append(NoReceiver.UNKNOWN if endpoint is None else NoReceiver.OFF)
            continue
        results.append(delivery_id)
        rows.append(
            {
                "delivery_id": delivery_id,
                "endpoint_key": endpoint.id,
                "tenant_id": tenant_id,
                "event_at": now,
                "message_key": NO_MESSAGE,
                "type": type_,
                "status": "PENDING",
                "due_at": now,
                "attempts": 0,
                "log": "[]",
                "created_at": now,
                "metadata": orjson.dumps(request.metadata).decode(),
            }
        )
    if rows:
        await tx.execute(insert(webhook_deliveries), rows)
    return results
