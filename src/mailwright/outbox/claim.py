"""Claiming: a worker takes due messages for a while. A crash costs the lock, never the mail."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.ids import token
from mailwright.domain.lanes import Lane, shares
from mailwright.domain.message import Claimed, personalize_payload
from mailwright.outbox.settle import may_be_with_provider, settle_reported
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

DUE_LANES = statement(__package__, "due_lanes")
CLAIM_LANE = statement(__package__, "claim_lane")
CLAIM_SUSPECTS = statement(__package__, "claim_suspects")
HAS_SUSPECTS = statement(__package__, "has_suspects")
CLAIMED_FACTS = statement(__package__, "claimed_facts")
LOOKED_AT_FACTS = statement(__package__, "looked_at_facts")
APPEND_WITHDRAWALS = statement(__package__, "append_withdrawals")
RELEASE = statement(__package__, "release")
RENEW = statement(__package__, "renew")

# A message that was claimed this often without a result has killed its worker every time.
MAX_CLAIMS = 5


class Claims:
    """What one worker holds. Every claim has a token; whoever lost the claim can no longer write."""

    def __init__(self, database: Database, clock: Clock, worker: str, lock_ttl: Instant) -> None:
        self._database = database
        self._clock = clock
        self._worker = worker
        self._lock_ttl = lock_ttl
        self._last_lane = 0
        self._left_to_others: dict[int, Instant] = {}  # lanes, and until when

    async def claim(self, limit: int) -> list[Claimed]:
        """Takes up to `limit` due messages: the best priority first, and among equals each lane its share."""
        return await self._database.transact(lambda tx: self._claim(tx, limit))

    async def claim_suspects(self, limit: int) -> list[Claimed]:
        """Takes messages whose last claim ended without a result, in small company, so that a killer is found."""
        return await self._database.transact(lambda tx: self._claim_suspects(tx, limit))

    def skip_lane(self, lane: int, until: Instant) -> None:
        """Another worker sees to this lane: nothing is taken from it before then."""
        self._left_to_others[lane] = until

    async def has_suspects(self) -> bool:
        async with self._database.read() as tx:
            return bool(await tx.run(HAS_SUSPECTS, now=self._clock.now()))

    async def release(self, claims: Iterable[Claimed]) -> None:
        """Gives back what was not started: it is as due as it was before the claim."""
        given_back = list(claims)
        if given_back:
            await self._database.transact(lambda tx: self._release(tx, given_back))

    async def renew(self, claims: Iterable[Claimed]) -> dict[int, Instant]:
        """Holds on to messages whose provider takes its time; answers until when each is held that was renewed.

        Neither those that others have now are renewed, nor those whose result is being written.
        """
        locked_until = self._clock.now() + self._lock_ttl
        rows = [_fence(claimed) for claimed in claims]
        if not rows:
            return {}
        renewed = await self._database.transact(lambda tx: tx.run(RENEW, claims=rows, locked_until=locked_until))
        return {row.message_key: locked_until for row in renewed}

    async def _claim(self, tx: Runner, limit: int) -> list[Claimed]:
        now, name = self._clock.now(), token()
        left = limit
        lanes = await _due_lanes(tx, now)
        if self._left_to_others:
            self._left_to_others = {lane: until for lane, until in self._left_to_others.items() if until > now}
            lanes = [lane for lane in lanes if lane.number not in self._left_to_others]
        while lanes and left > 0:
            offered = shares(lanes, left, self._last_lane)
            asked = {lane for lane, _ in offered}
            # Lanes that got no place because better ones were promised more than they had are asked next.
            unfinished = [lane for lane in lanes if lane not in asked]
            for lane, share in offered:
                lock = self._lock_parameters(name, now)
                taken = await tx.count(CLAIM_LANE, lane=lane.number, limit=share, now=now, **lock)
                left -= taken
                self._last_lane = lane.number
                if taken == share and lane.at_most is None:
                    unfinished.append(lane)
            lanes = unfinished
        return await self._taken(tx, name, now) if left < limit else []

    async def _claim_suspects(self, tx: Runner, limit: int) -> list[Claimed]:
        now, name = self._clock.now(), token()
        await tx.count(CLAIM_SUSPECTS, limit=limit, now=now, **self._lock_parameters(name, now))
        return await self._taken(tx, name, now)

    async def _release(self, tx: Runner, claims: Sequence[Claimed]) -> None:
        now = self._clock.now()
        rows = [{**_fence(claimed), "only_provider": claimed.only_provider} for claimed in claims]
        await tx.count(APPEND_WITHDRAWALS, claims=rows, now=now)
        await tx.count(RELEASE, claims=rows)
        await settle_reported(tx, [claimed for claimed in claims if may_be_with_provider(claimed)], now)

    def _lock_parameters(self, name: int, now: Instant) -> dict[str, Any]:
        return {"token": name, "worker": self._worker, "locked_until": now + self._lock_ttl}

    async def _taken(self, tx: Runner, name: int, now: Instant) -> list[Claimed]:
        locked_until = now + self._lock_ttl
        rows = await tx.run(CLAIMED_FACTS, token=name, locked_until=locked_until)
        return [_claimed(row, claim_token=name, locked_until=locked_until, now=now) for row in rows]


async def load_unclaimed(tx: Runner, outbox_ids: Iterable[str], *, tenant_id: int, now: Instant) -> list[Claimed]:
    """Messages as a worker would hold them, which nobody holds: to be looked at, and never to be sent."""
    wanted = [{"outbox_id": outbox_id} for outbox_id in outbox_ids]
    rows = await tx.run(LOOKED_AT_FACTS, wanted=wanted, tenant_id=tenant_id)
    return [_claimed(row, claim_token=0, locked_until=now, now=now) for row in rows]


async def _due_lanes(tx: Runner, now: Instant) -> list[Lane]:
    return [Lane(row.lane, row.weight, row.max_in_flight) for row in await tx.run(DUE_LANES, now=now)]


def _fence(claimed: Claimed) -> dict[str, int]:
    return {"message_key": claimed.message_key, "claim_token": claimed.claim_token}


def _claimed(row: Any, *, claim_token: int, locked_until: Instant, now: Instant) -> Claimed:
    return Claimed(
        message_key=row.message_key,
        claim_token=claim_token,
        tenant_id=row.tenant_id,
        lane=row.lane,
        attempts=row.attempts,
        claims=row.claims,
        resends=row.resends,
        tenant_name=row.company or "",
        created_at=row.created_at or now,
        is_in_outbox=row.outbox_id is not None,
        outbox_id=row.outbox_id or "",
        source=row.source or "",
        request_id=row.request_id or "",
        to_email=row.to_email or "",
        payload=_payload(row),
        template_key=row.template_key,
        retry_policy=row.retry_policy or "",
        is_bulk=bool(row.is_bulk),
        expires_at=row.expires_at,
        recipient_id=row.recipient_id,
        external_id=row.external_id,
        contact_email=row.contact_email,
        is_contact_deleted=row.contact_deleted_at is not None,
        suppressed_because=row.suppressed_because,
        leased_until=locked_until,
        received_at=now,
        tenant_limit=row.max_in_flight,
        list_key=row.list_key,
        only_provider=row.only_provider,
        failed_provider=row.failed_provider,
        recipient_zone=row.contact_timezone,
    )


def _payload(row: Any) -> dict[str, Any]:
    payload: dict[str, Any] = orjson.loads(row.payload or "{}")
    if row.attributes is None:
        return payload
    return personalize_payload(payload, orjson.loads(row.attributes), row.to_email, row.contact_name)
