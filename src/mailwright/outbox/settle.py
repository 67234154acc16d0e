"""Settling: results and their events in one transaction, and the durable mark before the next sends."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from mailwright.domain.address import domain_of
from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.ids import token
from mailwright.domain.message import Admitted, Claimed, Delivered, Event, Outcome, Settlement
from mailwright.domain.states import EventType, Status
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

ATTEMPTS_UNDER_WAY = statement(__package__, "attempts_under_way")
BEGIN_ATTEMPTS = statement(__package__, "begin_attempts")
ATTEMPTS_IN_LANES = statement(__package__, "attempts_in_lanes")
OUT_OF_TURN = statement(__package__, "out_of_turn")
ATTEMPTS_TO_DOMAINS = statement(__package__, "attempts_to_domains")
LOCK_DOMAINS = statement(__package__, "lock_domains")
COPIES_LEFT = statement(__package__, "copies_left")
LOCK_TENANTS = statement(__package__, "lock_tenants")
SETTLE = statement(__package__, "settle")
SETTLE_SENT = statement(__package__, "settle_sent")
APPEND_EVENTS = statement(__package__, "append_events")
APPEND_SETTLED_EVENTS = statement(__package__, "append_settled_events")
FIND_BEGUN = statement(__package__, "find_begun")
APPEND_DEAD_LETTERS = statement(__package__, "append_dead_letters")
HOLD_ATTEMPTS = statement(__package__, "hold_attempts")
REPORTED_MEANWHILE = statement(__package__, "reported_meanwhile")
PROVE_SENT = statement(__package__, "prove_sent")
FORGET_DEAD_LETTERS = statement(__package__, "forget_dead_letters")

# As plain text: SQLite's driver looks for an adapter for everything else, which takes longer than writing the row.
RECEIVED, VALIDATED, SENT_ATTEMPT, SENT = (
    event.value for event in (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT, EventType.SENT)
)


@dataclass(frozen=True, slots=True)
class BegunAttempts:
    """Which of the wanted attempts may be sent now."""

    message_keys: frozenset[int]
    over_limit: frozenset[int]  # their tenant has as many under way as it may
    attempted_at: Instant
    over_domain_limit: frozenset[int] = frozenset()  # there are as many on their way to their domain as may be


class NextAttempt(Protocol):
    """An attempt that a worker wants to begin, with what the commit checks and records."""

    @property
    def claimed(self) -> Claimed: ...

    @property
    def admitted(self) -> Admitted: ...

    @property
    def provider(self) -> str | None:
        """The provider that will receive the message."""
        ...

    @property
    def copies(self) -> tuple[str, ...]:
        """The normalized addresses that receive a copy."""
        ...


@dataclass(frozen=True, slots=True)
class SentProof:
    """A report that names the mail by its id: the provider has it, whatever became of it."""

    message_key: int
    tenant_id: int
    settled_by: str = "report"
    provider_message_id: str | None = None


# What follows, in the same transaction, where servers refuse an address: somebody above this box knows.
BounceHandler = Callable[[Runner, Sequence[Settlement], Instant], Awaitable[None]]


class Settler:
    def __init__(self, database: Database, clock: Clock, consequences: BounceHandler | None = None) -> None:
        self._database = database
        self._clock = clock
        self._consequences = consequences

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt]) -> BegunAttempts:
        """Records what is done and marks what goes next, in one commit: a worker's heartbeat under load."""
        now = self._clock.now()
        return await self._database.transact(
            lambda tx: settle_and_begin(tx, outcomes, next_up, now, self._consequences)
        )


async def settle_and_begin(
    tx: Runner,
    outcomes: Sequence[Outcome],
    next_up: Sequence[NextAttempt],
    now: Instant,
    consequences: BounceHandler | None = None,
) -> BegunAttempts:
    delivered = [outcome for outcome in outcomes if isinstance(outcome, Delivered)]
    settlements = [outcome for outcome in outcomes if isinstance(outcome, Settlement)]
    for provider in {each.provider for each in delivered}:
        await settle_delivered(tx, [each for each in delivered if each.provider == provider], now)
    if settlements:
        await settle(tx, settlements, now)
        maybe_taken = [
            each.claimed for each in settlements if each.may_have_been_sent or may_be_with_provider(each.claimed)
        ]
        await settle_reported(tx, maybe_taken, now)
    if consequences is not None and (bounces := [each for each in settlements if each.bounce is not None]):
        await consequences(tx, bounces, now)
    if not next_up:
        return BegunAttempts(frozenset(), frozenset(), now)
    over_limit = await _over_limit(tx, next_up, now) | await _over_lane_limit(tx, next_up, now)
    within_limit = [attempt for attempt in next_up if attempt.claimed.message_key not in over_limit]
    over_domain_limit = await _over_domain_limit(tx, within_limit, now)
    not_now = over_domain_limit | await _copies_left(tx, within_limit)
    marks = [
        _mark(attempt.claimed, attempt.provider)
        for attempt in within_limit
        if attempt.claimed.message_key not in not_now
    ]
    return BegunAttempts(await _begin(tx, marks, now), over_limit, now, over_domain_limit)


async def settle_delivered(tx: Runner, delivered: Sequence[Delivered], now: Instant) -> int:
    """Writes what one provider took inside a transaction; answers how many were still the caller's to settle."""
    settlement = token()
    rows = [
        (each.claimed.message_key, each.claimed.claim_token, each.provider_message_id, each.duration_ms)
        for each in delivered
    ]
    count = await tx.count(SETTLE_SENT, sent=rows, provider=delivered[0].provider, settlement=settlement, now=now)
    if count < len(rows):
        settled = await _written_by(tx, settlement, [_mark(each.claimed) for each in delivered])
        delivered = [each for each in delivered if each.claimed.message_key in settled]
    await tx.count(APPEND_EVENTS, events=[row for each in delivered for row in _sent_events(each)])
    return count


async def settle(tx: Runner, settlements: Sequence[Settlement], now: Instant) -> int:
    """Writes other results inside a transaction; answers how many were still the caller's to settle."""
    settlement = token()
    rows = [_settlement_row(each, now) for each in settlements]
    count = await tx.count(SETTLE, settlements=rows, settlement=settlement)
    events = [
        event_row(each.claimed.message_key, each.claimed.tenant_id, event)
        for each in settlements
        for event in each.events
    ]
    for position, event in enumerate(events):
        event["position"] = position
    await tx.count(APPEND_SETTLED_EVENTS, events=events, settlement=settlement)
    letters = [_dead_letter_row(each, now) for each in settlements if each.is_dead_letter]
    if letters:
        await tx.count(APPEND_DEAD_LETTERS, letters=letters, settlement=settlement)
    return count


async def record_proofs(tx: Runner, proofs: Sequence[SentProof], now: Instant) -> int:
    """Ends, inside a transaction, the doubts about mails that a provider is known to have; answers how many."""
    if not proofs:
        return 0
    by_key = {proof.message_key: proof for proof in proofs}
    rows = [{"message_key": key, "provider_message_id": by_key[key].provider_message_id} for key in sorted(by_key)]
    await tx.run(HOLD_ATTEMPTS, proofs=rows)
    proven = [by_key[row.message_key] for row in await tx.run(PROVE_SENT, proofs=rows, now=now)]
    if proven:
        await tx.count(APPEND_EVENTS, events=[_proven(proof, now) for proof in proven])
        await tx.count(FORGET_DEAD_LETTERS, proven=[{"message_key": proof.message_key} for proof in proven])
    return len(proven)


def may_be_with_provider(claimed: Claimed) -> bool:
    """Whether a provider may have it from an attempt before this one."""
    return claimed.resends > 0 or claimed.only_provider is not None


async def settle_reported(tx: Runner, waiting: Sequence[Claimed], now: Instant) -> None:
    """A report that came while a mail was to be sent once more proves the time before: it is not sent another time."""
    if not waiting:
        return
    rows = await tx.run(REPORTED_MEANWHILE, wanted=[{"message_key": each.message_key} for each in waiting])
    await record_proofs(tx, [SentProof(row.message_key, row.tenant_id) for row in rows], now)


async def _begin(tx: Runner, marks: list[dict[str, Any]], now: Instant) -> frozenset[int]:
    settlement = token()
    if await tx.count(BEGIN_ATTEMPTS, claims=marks, settlement=settlement, now=now) == len(marks):
        return frozenset([mark["message_key"] for mark in marks])
    return await _written_by(tx, settlement, marks)


async def _written_by(tx: Runner, settlement: int, claims: list[dict[str, Any]]) -> frozenset[int]:
    """Those that were still the caller's, where not all were."""
    return frozenset([row.message_key for row in await tx.run(FIND_BEGUN, claims=claims, settlement=settlement)])


async def _over_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Those for which their tenant's limit of mails under way at once leaves no place, whichever worker has them."""
    limits = {
        attempt.claimed.tenant_id: attempt.admitted.tenant_limit
        for attempt in next_up
        if attempt.admitted.tenant_limit is not None
    }
    if not limits:
        return frozenset()
    tenants = [{"tenant_id": tenant_id} for tenant_id in limits]
    await tx.run(LOCK_TENANTS, tenants=tenants)
    under_way = {row.tenant_id: row.under_way for row in await tx.run(ATTEMPTS_UNDER_WAY, tenants=tenants, now=now)}
    room = {tenant_id: limit - under_way.get(tenant_id, 0) for tenant_id, limit in limits.items()}
    return _without_room([(attempt.claimed.message_key, attempt.claimed.tenant_id) for attempt in next_up], room)


async def _over_lane_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Those of campaigns whose mails go one after another: one is under way, or another comes first, whichever worker
    has it."""
    limits = {
        attempt.claimed.lane: attempt.admitted.lane_limit
        for attempt in next_up
        if attempt.admitted.lane_limit is not None
    }
    if not limits:
        return frozenset()
    locks = [{"name": f"mailer:lane:{lane}"} for lane in limits]
    await tx.run(LOCK_DOMAINS, locks=locks, expires_at=now + HOUR)
    lanes = [{"lane": lane} for lane in limits]
    under_way = {row.lane: row.under_way for row in await tx.run(ATTEMPTS_IN_LANES, lanes=lanes, now=now)}
    room = {lane: limit - under_way.get(lane, 0) for lane, limit in limits.items()}
    over = _without_room([(attempt.claimed.message_key, attempt.claimed.lane) for attempt in next_up], room)
    in_line = [_mark(attempt.claimed, attempt.provider) for attempt in next_up if attempt.claimed.lane in limits]
    return over | {row.message_key for row in await tx.run(OUT_OF_TURN, claims=in_line)}


async def _over_domain_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Those for which there are as many on their way to their domain as may be, whichever worker sends them."""
    limited = [attempt for attempt in next_up if attempt.admitted.domain_limit is not None]
    if not limited:
        return frozenset()
    limits = {domain_of(attempt.claimed.to_email): attempt.admitted.domain_limit or 0 for attempt in limited}
    locks = [{"name": f"mailer:domain:{domain}"} for domain in limits]
    await tx.run(LOCK_DOMAINS, locks=locks, expires_at=now + HOUR)
    domains = [{"domain": domain} for domain in limits]
    rows = await tx.run(ATTEMPTS_TO_DOMAINS, domains=domains, now=now)
    under_way = {row.domain: row.under_way for row in rows}
    room = {domain: limit - under_way.get(domain, 0) for domain, limit in limits.items()}
    wanted = [(attempt.claimed.message_key, domain_of(attempt.claimed.to_email)) for attempt in limited]
    return _without_room(wanted, room)


def _without_room(wanted: Sequence[tuple[int, Hashable]], room: Mapping[Any, int]) -> frozenset[int]:
    """Those that come after the last free place of their group; groups that have no number have places for all."""
    left = dict(room)
    over: set[int] = set()
    for message_key, group in wanted:
        if group in left:
            left[group] -= 1
            if left[group] < 0:
                over.add(message_key)
    return frozenset(over)


async def _copies_left(tx: Runner, next_up: Sequence[NextAttempt]) -> frozenset[int]:
    """Those with a copy to someone who has just left: given back, they are built anew without it."""
    copies = [
        {**_mark(attempt.claimed, attempt.provider), "email": email}
        for attempt in next_up
        if attempt.copies
        for email in attempt.copies
    ]
    if not copies:
        return frozenset()
    return frozenset([row.message_key for row in await tx.run(COPIES_LEFT, copies=copies)])


def event_row(message_key: int, tenant_id: int, event: Event) -> dict[str, Any]:
    return {
        "message_key": message_key,
        "tenant_id": tenant_id,
        "type": event.type,
        "created_at": event.at,
        "metadata": orjson.dumps(event.metadata).decode(),
    }


def _proven(proof: SentProof, now: Instant) -> Mapping[str, Any]:
    evidence = {"settledBy": proof.settled_by, "providerMessageId": proof.provider_message_id}
    return event_row(proof.message_key, proof.tenant_id, Event(EventType.SENT, now, evidence))


def _mark(claimed: Claimed, provider: str | None = None) -> dict[str, Any]:
    return {
        "message_key": claimed.message_key,
        "claim_token": claimed.claim_token,
        "tenant_id": claimed.tenant_id,
        "email": claimed.to_email,
        "list_key": claimed.list_key,
        "provider": provider,
    }


def _sent_events(delivered: Delivered) -> tuple[tuple[int, int, str, Instant, str], ...]:
    """The four events of an attempt that succeeded, in the order of the columns."""
    claimed = delivered.claimed
    key, tenant, attempt = claimed.message_key, claimed.tenant_id, claimed.attempts + 1
    outcome: dict[str, Any] = {
        "attempt": attempt,
        "provider": delivered.provider,
        "providerMessageId": delivered.provider_message_id,
        "durationMs": delivered.duration_ms,
    }
    if delivered.note:
        outcome["message"] = delivered.note
    begun = f'{{"attempt":{attempt}}}'
    handed = f'{{"attempt":{attempt},"provider":"{delivered.provider}"}}'  # a name of ours: nothing to escape
    return (
        (key, tenant, RECEIVED, claimed.received_at, begun),
        (key, tenant, VALIDATED, delivered.validated_at, begun),
        (key, tenant, SENT_ATTEMPT, delivered.attempted_at, handed),
        (key, tenant, SENT, delivered.sent_at, orjson.dumps(outcome).decode()),
    )


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
        "failed_at": now if status is Status.FAILED else None,
        # As long as somebody may have it, whatever was answered since.
        "in_doubt_since": now
        if in_doubt or settlement.may_have_been_sent or claimed.only_provider is not None
        else None,
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
