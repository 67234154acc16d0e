"""Settling: results and their events in one transaction, and the durable mark before the next sends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.message import Claimed, Event, Settlement
from mailwright.domain.states import Status
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

ATTEMPTS_UNDER_WAY = statement(__package__, "attempts_under_way")
BEGIN_ATTEMPTS = statement(__package__, "begin_attempts")
LOCK_TENANTS = statement(__package__, "lock_tenants")
SETTLE = statement(__package__, "settle")
APPEND_EVENTS = statement(__package__, "append_events")
APPEND_DEAD_LETTERS = statement(__package__, "append_dead_letters")


@dataclass(frozen=True, slots=True)
class Begun:
    """Which of the wanted attempts may be sent now, and until when the worker holds them."""

    message_keys: frozenset[int]
    over_limit: frozenset[int]  # their tenant has as many under way as it may
    attempted_at: Instant
    locked_until: Instant


class Settling:
    def __init__(self, database: Database, clock: Clock, lock_ttl: Instant) -> None:
        self._database = database
        self._clock = clock
        self._lock_ttl = lock_ttl

    async def exchange(self, settlements: Sequence[Settlement], next_up: Sequence[Claimed]) -> Begun:
        """Records what is done and marks what goes next, in one commit: a worker's heartbeat under load."""
        now = self._clock.now()
        locked_until = now + self._lock_ttl
        begun: frozenset[int] = frozenset()
        over_limit: frozenset[int] = frozenset()
        async with self._database.write() as tx:
            if settlements:
                await settle(tx, settlements, now)
            if next_up:
                over_limit = await _over_limit(tx, next_up, now)
                marks = [_mark(claimed) for claimed in next_up if claimed.message_key not in over_limit]
                rows = await tx.run(BEGIN_ATTEMPTS, claims=marks, now=now, locked_until=locked_until)
                begun = frozenset(row.message_key for row in rows)
        return Begun(begun, over_limit, now, locked_until)


async def settle(tx: Transaction, settlements: Sequence[Settlement], now: Instant) -> frozenset[int]:
    """Writes results inside a transaction; answers which were still the caller's to settle."""
    rows = await tx.run(SETTLE, settlements=[_settlement_row(settlement, now) for settlement in settlements])
    settled = frozenset(row.message_key for row in rows)
    ours = [settlement for settlement in settlements if settlement.claimed.message_key in settled]
    events = [
        event_row(settlement.claimed.message_key, settlement.claimed.tenant_id, event)
        for settlement in ours
        for event in settlement.events
    ]
    if events:
        await tx.run(APPEND_EVENTS, events=events)
    letters = [_dead_letter_row(settlement, now) for settlement in ours if settlement.is_dead_letter]
    if letters:
        await tx.run(APPEND_DEAD_LETTERS, letters=letters)
    return settled


async def _over_limit(tx: Transaction, next_up: Sequence[Claimed], now: Instant) -> frozenset[int]:
    """Those for which their tenant's limit of mails under way at once leaves no place, whichever worker has them."""
    limits = {claimed.tenant_id: claimed.tenant_limit for claimed in next_up if claimed.tenant_limit is not None}
    if not limits:
        return frozenset()
    tenants = [{"tenant_id": tenant_id} for tenant_id in limits]
    await tx.run(LOCK_TENANTS, tenants=tenants)
    under_way = {row.tenant_id: row.under_way for row in await tx.run(ATTEMPTS_UNDER_WAY, tenants=tenants, now=now)}
    room = {tenant_id: limit - under_way.get(tenant_id, 0) for tenant_id, limit in limits.items()}
    over: set[int] = set()
    for claimed in next_up:
        if claimed.tenant_id not in room:
            continue
        room[claimed.tenant_id] -= 1
        if room[claimed.tenant_id] < 0:
            over.add(claimed.message_key)
    return frozenset(over)


def event_row(message_key: int, tenant_id: int, event: Event) -> dict[str, Any]:
    return {
        "message_key": message_key,
        "tenant_id": tenant_id,
        "type": event.type,
        "created_at": event.at,
        "metadata": orjson.dumps(event.metadata).decode(),
    }


def _mark(claimed: Claimed) -> dict[str, Any]:
    return {
        "message_key": claimed.message_key,
        "claim_token": claimed.claim_token,
        "tenant_id": claimed.tenant_id,
        "email": claimed.to_email,
    }


def _settlement_row(settlement: Settlement, now: Instant) -> dict[str, Any]:
    claimed, status = settlement.claimed, settlement.status
    in_doubt = status is Status.IN_DOUBT
    return {
        "message_key": claimed.message_key,
        "claim_token": claimed.claim_token,
        # A doubt keeps its token: the worker that raised it may still learn the answer.
        "next_token": claimed.claim_token if in_doubt else None,
        "status": status,
        "due_at": settlement.due_at,
        "next_attempt_at": settlement.due_at if status is Status.RETRY_SCHEDULED else None,
        "defer_reason": settlement.defer_reason,
        "completed": int(settlement.completes_attempt),
        "provider": settlement.provider,
        "provider_message_id": settlement.provider_message_id,
        "error_code": settlement.error_code,
        "error_category": settlement.error_category,
        "error_reason": settlement.error_reason,
        "duration_ms": settlement.duration_ms,
        "sent_at": now if status is Status.SENT else None,
        "failed_at": now if status is Status.FAILED else None,
        "doubted_at": now if in_doubt else None,
    }


def _dead_letter_row(settlement: Settlement, now: Instant) -> dict[str, Any]:
    return {
        "message_key": settlement.claimed.message_key,
        "tenant_id": settlement.claimed.tenant_id,
        "code": settlement.error_code,
        "reason": settlement.error_reason,
        "attempts": settlement.claimed.attempts + int(settlement.completes_attempt),
        "created_at": now,
    }
