"""Claim due messages under an expiring lease, so that a crashed worker never loses one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.ids import token
from mailwright.domain.lanes import Lane, in_turn, is_of_campaign, place_of, shares
from mailwright.domain.message import Claimed, Source, personalize_payload
from mailwright.domain.permits import MIN_DEFERRAL
from mailwright.domain.provider_routes import EVERYTHING, ClaimScope
from mailwright.outbox.ledger import ADD_TO_COUNTER, split_permits
from mailwright.outbox.sending_hold import is_held
from mailwright.outbox.settle import may_be_with_provider, settle_reported
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner, parsed
from mailwright.storage.statements import statement

DUE_LANES = statement(__package__, "due_lanes")
LOST_PERMITS = statement(__package__, "lost_permits")
FORGET_PERMITS = statement(__package__, "forget_permits")
IS_BEHIND = statement(__package__, "is_behind")
CLAIM_LANE = statement(__package__, "claim_lane")
CLAIM_LANE_OF_SOURCES = statement(__package__, "claim_lane_of_sources")
CLAIM_SUSPECTS = statement(__package__, "claim_suspects")
FIND_LOST_WORK = statement(__package__, "find_lost_work")
CLAIMED_FACTS = statement(__package__, "claimed_facts")
UNCLAIMED_FACTS = statement(__package__, "unclaimed_facts")
APPEND_WITHDRAWALS = statement(__package__, "append_withdrawals")
RELEASE = statement(__package__, "release")
RENEW = statement(__package__, "renew")

# Duration of a lease. Workers renew it, so it can be shorter than a slow send. After a crash, messages wait this long.
MAX_LEASE: Instant = 30 * SECOND
# After this many claims without a result, a message is considered to crash its workers.
MAX_CLAIMS = 5


class Claims:
    """The claims of one worker. Each claim has a token, so that a worker that lost its lease cannot write results."""

    def __init__(
        self, database: Database, clock: Clock, worker: str, lock_ttl: Instant, scope: ClaimScope | None = None
    ) -> None:
        """Create the claims of a worker. `scope` limits the messages that it claims; None means all messages."""
        self._scope = scope
        self._database = database
        self._clock = clock
        self._worker = worker
        self._lock_ttl = lock_ttl
        self._last_lane = 0
        self._skipped_lanes: dict[int, Instant] = {}  # Lane and the time until which it is skipped.
        self.pending_lanes: set[int] = set()  # Claimed campaigns that are recorded as pending.
        self.is_turn_awaited = False  # Whether a campaign waited at the last claim for the one before it.

    async def claim(self, limit: int, before: int | None = None) -> list[Claimed]:
        """Claim up to `limit` due messages: highest priority first, and a fair share for each lane of a priority.

        If `before` is given, claim only messages with a higher priority than this.
        """
        return await self._database.transact(lambda tx: self._claim(tx, limit, before))

    async def claim_suspects(self, limit: int) -> list[Claimed]:
        """Claim messages whose lease expired without a result, in small batches, to isolate a crashing one."""
        return await self._database.transact(lambda tx: self._claim_suspects(tx, limit))

    def skip_lane(self, lane: int, until: Instant) -> None:
        """Claim nothing from a lane until the given time. Later campaigns of its tenant wait for it."""
        self._skipped_lanes[lane] = until

    async def find_lost_work(self) -> Any:
        """Return a row with `has_lost_attempts`, `has_due_doubts` and, for this worker to claim, `has_suspects`."""
        async with self._database.read() as tx:
            [found] = await tx.run(FIND_LOST_WORK, now=self._clock.now(), **self._suspects_in_scope())
        return found

    def shares_lane(self, lane: int) -> bool:
        """Return whether a worker of another provider claims some messages of this lane."""
        return self._scope is not None and not place_of(lane) and not self._scope.is_whole(Lane(lane).tenant_id)

    async def release(self, claims: Iterable[Claimed]) -> None:
        """Give back claims that were not attempted. The messages are due at the same time as before the claim."""
        released = list(claims)
        if released:
            await self._database.transact(lambda tx: self._release(tx, released))

    async def renew(self, claims: Iterable[Claimed]) -> dict[int, Instant]:
        """Extend leases while a provider is slow, and return the new end of each lease that was extended.

        Skips messages that another worker has claimed, and those whose result is being written.
        """
        locked_until = self._clock.now() + self._lock_ttl
        rows = [_fence(claimed) for claimed in claims]
        if not rows:
            return {}
        renewed = await self._database.transact(lambda tx: tx.run(RENEW, claims=rows, locked_until=locked_until))
        return {row.message_key: locked_until for row in renewed}

    async def _claim(self, tx: Runner, limit: int, before: int | None) -> list[Claimed]:
        if await is_held(tx, self._database):
            return []
        now, name = self._clock.now(), token()
        left = limit
        lanes = [lane for lane in await _due_lanes(tx, now) if before is None or lane.priority < before]
        lanes = self._in_turn([lane for lane in lanes if self._may_claim(lane)], now)
        while lanes and left > 0:
            offered = shares(lanes, left, self._last_lane)
            tried = {lane for lane, _ in offered}
            # Lanes without a share come next, because other lanes may have fewer due messages than their share.
            unfinished = [lane for lane in lanes if lane not in tried]
            for lane, share in offered:
                if await self._is_behind(tx, lane, now):
                    unfinished = _without_campaigns(unfinished, lane)
                    self.is_turn_awaited = True
                    continue
                taken = await self._claim_lane(tx, lane, share, self._lock_parameters(name, now), now)
                left -= taken
                self._last_lane = lane.number
                if taken == share and lane.at_most is None:
                    unfinished.append(lane)
                else:
                    # The next campaign follows when the attempts of these messages have begun. If none was taken,
                    # another worker is claiming them.
                    unfinished = _without_campaigns(unfinished, lane)
                    self.is_turn_awaited |= not taken
            lanes = unfinished
        return await self._taken(tx, name, now) if left < limit else []

    def _in_turn(self, lanes: Sequence[Lane], now: Instant) -> list[Lane]:
        """Return the lanes to claim from, without skipped ones and without campaigns that wait for an earlier one."""
        self._skipped_lanes = {lane: until for lane, until in self._skipped_lanes.items() if until > now}
        self.pending_lanes.update(lane.number for lane in lanes if lane.is_pending)
        self.pending_lanes.difference_update(lane.number for lane in lanes if not lane.is_pending)
        self.is_turn_awaited = False
        return in_turn(lanes, self._skipped_lanes)

    async def _is_behind(self, tx: Runner, lane: Lane, now: Instant) -> bool:
        """Return whether a campaign waits for messages of an earlier campaign of its tenant."""
        if not is_of_campaign(lane.number):
            return False
        sources = self._sources(lane.tenant_id)
        scope = {"has_campaigns": int(Source.CAMPAIGN in sources), "has_mailouts": int(Source.MAILOUT in sources)}
        return bool(await tx.run(IS_BEHIND, entry_id=place_of(lane.number), now=now, **scope))

    def _may_claim(self, lane: Lane) -> bool:
        """Return whether the lane may have messages that this worker claims."""
        if self._scope is None:
            return True
        sources = self._sources(lane.tenant_id)
        return bool(sources) if lane.source is None else lane.source in sources

    def _sources(self, tenant_id: int) -> frozenset[str]:
        return (self._scope or EVERYTHING).sources(tenant_id)

    async def _claim_lane(self, tx: Runner, lane: Lane, limit: int, lock: dict[str, Any], now: Instant) -> int:
        if not self.shares_lane(lane.number):
            return await tx.count(CLAIM_LANE, lane=lane.number, limit=limit, now=now, **lock)
        sources = [(source,) for source in sorted(self._sources(lane.tenant_id))]
        statement = CLAIM_LANE_OF_SOURCES
        return await tx.count(statement, lane=lane.number, limit=limit, now=now, sources=sources, **lock)

    async def _claim_suspects(self, tx: Runner, limit: int) -> list[Claimed]:
        if await is_held(tx, self._database):
            return []
        now, name = self._clock.now(), token()
        lock = self._lock_parameters(name, now)
        if await tx.count(CLAIM_SUSPECTS, limit=limit, now=now, **self._suspects_in_scope(), **lock):
            await _return_lost_permits(tx, name, lock["locked_until"])
        return await self._taken(tx, name, now)

    def _suspects_in_scope(self) -> dict[str, Any]:
        scope = self._scope or EVERYTHING
        return {"pairs": scope.pairs, "is_listed": int(scope.is_listed)}

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
    """Load messages as a worker would claim them, for a preview. They are not claimed, so they must not be sent."""
    wanted = [{"outbox_id": outbox_id} for outbox_id in outbox_ids]
    rows = await tx.run(UNCLAIMED_FACTS, wanted=wanted, tenant_id=tenant_id)
    return [_claimed(row, claim_token=0, locked_until=now, now=now) for row in rows]


async def _due_lanes(tx: Runner, now: Instant) -> list[Lane]:
    return [
        Lane(
            row.lane,
            row.weight,
            row.max_in_flight,
            row.place,
            row.due_since,
            is_due=bool(row.is_due),
            is_pending=bool(row.is_pending),
            source=row.source,
        )
        for row in await tx.run(DUE_LANES, now=now, soon=now + MIN_DEFERRAL)
    ]


async def _return_lost_permits(tx: Runner, token: int, locked_until: Instant) -> None:
    """Return the permits of messages whose worker was lost. They are reserved again before the messages are sent."""
    claim = {"token": token, "locked_until": locked_until}
    lost = await tx.run(LOST_PERMITS, **claim)
    counts: Counter[str] = Counter()
    for row in lost:
        counts.update(dict.fromkeys(split_permits(row.permits), row.messages))
    for name in sorted(counts):
        await tx.count(ADD_TO_COUNTER, name=name, count=-counts[name])
    if lost:
        await tx.count(FORGET_PERMITS, **claim)


def _without_campaigns(lanes: Sequence[Lane], ahead: Lane) -> list[Lane]:
    """Return the lanes without the campaigns that follow one of the same tenant."""
    if not is_of_campaign(ahead.number):
        return list(lanes)
    return [lane for lane in lanes if lane.queue != ahead.queue or not is_of_campaign(lane.number)]


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
        deferrals=row.deferrals,
        excused_attempts=row.excused_attempts,
        scheduled_at=row.scheduled_at,
        deferred_since=row.deferred_since,
        retry_until=row.retry_until,
        content_digest=row.content_digest,
        campaign_key=row.campaign_key,
        tenant_tracking=row.tenant_tracking,
        list_tracking=row.list_tracking,
        tracking_host=row.tracking_host,
        consents_to_tracking=None if row.consents_to_tracking is None else bool(row.consents_to_tracking),
        snoozed_until=row.snoozed_until,
    )


def _payload(row: Any) -> dict[str, Any]:
    payload: dict[str, Any] = parsed(row.payload_json) or {}
    if row.attributes_json is None:
        return payload
    return personalize_payload(payload, parsed(row.attributes_json), row.to_email, row.contact_name)
