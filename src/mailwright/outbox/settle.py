"""Record the results of attempts with their events, and the start of the next attempts, in one transaction."""

from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

import orjson

from mailwright.domain.address import domain_of
from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.frequency import CapReached
from mailwright.domain.ids import token
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Admitted, Claimed, Delivered, Event, NewMessage, Outcome, Settlement
from mailwright.domain.states import VALIDATIONS, EventType, Status
from mailwright.outbox.accept import accept
from mailwright.outbox.copies import deferred_copies
from mailwright.outbox.frequency import reached_caps, record_sends
from mailwright.storage.database import Database
from mailwright.storage.hot import Change, Runner
from mailwright.storage.statements import statement

COUNT_ATTEMPTS_OF_TENANTS = statement(__package__, "count_attempts_of_tenants")
BEGIN_ATTEMPTS = statement(__package__, "begin_attempts")
FIND_HELD_LANES = statement(__package__, "find_held_lanes")
COUNT_ATTEMPTS_OF_SOURCES = statement(__package__, "count_attempts_of_sources")
COUNT_ATTEMPTS_IN_LANES = statement(__package__, "count_attempts_in_lanes")
FIND_OUT_OF_TURN = statement(__package__, "find_out_of_turn")
COUNT_ATTEMPTS_TO_DOMAINS = statement(__package__, "count_attempts_to_domains")
LOCK_NAMES = statement(__package__, "lock_names")
FIND_SUPPRESSED_COPIES = statement(__package__, "find_suppressed_copies")
LOCK_TENANTS = statement(__package__, "lock_tenants")
LOCK_PROVIDER_ACCOUNT = statement(__package__, "lock_provider_account")
SETTLE = statement(__package__, "settle")
SETTLE_SENT = statement(__package__, "settle_sent")
APPEND_EVENTS = statement(__package__, "append_events")
APPEND_SETTLED_EVENTS = statement(__package__, "append_settled_events")
FIND_LATE_RESULTS = statement(__package__, "find_late_results")
FIND_SETTLED = statement(__package__, "find_settled")
APPEND_DEAD_LETTERS = statement(__package__, "append_dead_letters")
LOCK_UNSENT = statement(__package__, "lock_unsent")
FIND_REPORTED_MEANWHILE = statement(__package__, "find_reported_meanwhile")
MARK_BOUNCED = statement(__package__, "mark_bounced")
MARK_PROVEN_SENT = statement(__package__, "mark_proven_sent")
DELETE_DEAD_LETTERS = statement(__package__, "delete_dead_letters")

# Plain str values, because SQLite's driver searches adapters for other types, which takes longer than writing the row.
RECEIVED, VALIDATED, SENT_ATTEMPT, SENT = (
    event.value for event in (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT, EventType.SENT)
)
# The events with which an attempt begins.
BEGINNING = (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT)


_VALIDATIONS_JSON: Final = orjson.dumps(VALIDATIONS).decode()
# An attempt without a limit of its tenant, lane, domain or recipient.
NO_LIMITS: Final = (None, None, None, None)
# The message key of events that belong to no message.
NO_MESSAGE: Final = 0


@dataclass(frozen=True, slots=True)
class BegunAttempts:
    """The attempts that have begun and may be sent now, and those that may not."""

    message_keys: frozenset[int]
    over_limit: frozenset[int]  # Messages whose tenant has reached its limit of messages in flight.
    attempted_at: Instant
    over_domain_limit: frozenset[int] = frozenset()  # Messages whose recipient domain has reached its limit.
    held_lanes: frozenset[int] = frozenset()  # Lanes that were paused, cancelled or closed since the claim.
    reached_caps: Mapping[int, CapReached] = field(default_factory=dict)  # Messages over a frequency cap.
    is_account_replaced: bool = False  # The provider has another server or account now, so no attempt has begun.


class NextAttempt(Protocol):
    """An attempt that a worker wants to begin, with the data that the commit checks and records."""

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
class ProviderAccount:
    """The server and account that a worker of a named provider sends with: see `provider_configurations.account`."""

    name: str
    account: int


@dataclass(frozen=True, slots=True)
class SentProof:
    """A report that identifies the message by its ID, which proves that the provider has the message."""

    message_key: int
    tenant_id: int
    settled_by: str = "report"
    provider_message_id: str | None = None


# A callback that receives the bounces among the results and records their consequences in the same transaction.
BounceHandler = Callable[[Runner, Sequence[Outcome], Instant], Awaitable[None]]


class Settler:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        consequences: BounceHandler | None = None,
        account: ProviderAccount | None = None,
    ) -> None:
        """Create the settler of a worker.

        With `account`, begin attempts only while the provider still uses this account.
        """
        self._database = database
        self._clock = clock
        self._consequences = consequences
        self._account = account

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt]) -> BegunAttempts:
        """Write results and begin the next attempts in one commit, the most frequent commit of a busy worker."""
        now = self._clock.now()
        changes = _independent_changes(outcomes, next_up, now) if self._account is None else []
        if changes and await self._database.apply(changes):
            return BegunAttempts(frozenset([attempt.claimed.message_key for attempt in next_up]), frozenset(), now)
        return await self._database.transact(
            lambda tx: settle_and_begin(tx, outcomes, next_up, now, self._consequences, account=self._account)
        )


async def settle_and_begin(
    tx: Runner,
    outcomes: Sequence[Outcome],
    next_up: Sequence[NextAttempt],
    now: Instant,
    consequences: BounceHandler | None = None,
    *,
    account: ProviderAccount | None = None,
) -> BegunAttempts:
    delivered = [outcome for outcome in outcomes if isinstance(outcome, Delivered)]
    settlements = [outcome for outcome in outcomes if isinstance(outcome, Settlement)]
    for group in _by_provider(delivered):
        await settle_delivered(tx, group, now)
    if settlements:
        await settle(tx, settlements, now)
        maybe_sent = [
            each.claimed for each in settlements if each.may_have_been_sent or may_be_with_provider(each.claimed)
        ]
        await settle_reported(tx, maybe_sent, now)
    if consequences is not None and (bounced := [each for each in outcomes if _has_bounce(each)]):
        await consequences(tx, bounced, now)
    if not next_up:
        return BegunAttempts(frozenset(), frozenset(), now)
    if account is not None and not await tx.run(LOCK_PROVIDER_ACCOUNT, name=account.name, account=account.account):
        return BegunAttempts(frozenset(), frozenset(), now, is_account_replaced=True)
    over_limit = await _over_limit(tx, next_up, now) | await _over_lane_limit(tx, next_up, now)
    over_limit |= await _over_source_limit(tx, next_up, over_limit, now)
    within_limit = [attempt for attempt in next_up if attempt.claimed.message_key not in over_limit]
    over_domain_limit = await _over_domain_limit(tx, within_limit, now)
    not_now = over_domain_limit | await _newly_suppressed_copies(tx, within_limit)
    possible = [attempt for attempt in within_limit if attempt.claimed.message_key not in not_now]
    caps = await reached_caps(tx, [attempt.admitted for attempt in possible], now)
    attempts = [
        _attempt_row(attempt.claimed, attempt.provider)
        for attempt in possible
        if attempt.claimed.message_key not in caps
    ]
    begun = await _begin(tx, attempts, now)
    await record_sends(tx, [each.admitted for each in possible if each.claimed.message_key in begun], now)
    held_lanes = await _held_lanes(tx, attempts, now) if len(begun) < len(attempts) else frozenset()
    return BegunAttempts(begun, over_limit, now, over_domain_limit, held_lanes, caps)


async def settle_delivered(tx: Runner, delivered: Sequence[Delivered], now: Instant) -> int:
    """Settle messages that one provider accepted. Return how many of them the caller still had a claim on."""
    settlement = token()
    late: Mapping[int, Any] = {}
    count = await tx.count(SETTLE_SENT, **_sent_parameters(delivered, settlement, now))
    if count < len(delivered):
        claims = [_attempt_row(each.claimed) for each in delivered]
        late = await _late_results(tx, claims)
        if late:
            missing = [each for each in delivered if each.claimed.message_key in late]
            count += await tx.count(SETTLE_SENT, **_sent_parameters(missing, settlement, now, late))
        settled = await _written_by(tx, settlement, claims)
        delivered = [each for each in delivered if each.claimed.message_key in settled]
    copies = deferred_copies(delivered, now) if any(each.deferred_recipients for each in delivered) else {}
    await tx.count(APPEND_EVENTS, events=_sent_events(delivered, copies, late))
    if copies:
        await accept(tx, [message for messages in copies.values() for message in messages], now)
    return count


async def settle(tx: Runner, settlements: Sequence[Settlement], now: Instant) -> int:
    """Settle all other results. Return how many of these messages the caller still had a claim on."""
    settlement = token()
    late = await _late_results(tx, [_attempt_row(each.claimed) for each in settlements])
    rows = [_settlement_row(each, now, late) for each in settlements]
    count = await tx.count(SETTLE, settlements=rows, settlement=settlement)
    events = [
        event_row(each.claimed.message_key, each.claimed.tenant_id, event)
        for each in settlements
        for event in each.events
        if not (event.type in BEGINNING and _is_recorded(each.claimed, late))
    ]
    for position, event in enumerate(events):
        event["position"] = position
    await tx.count(APPEND_SETTLED_EVENTS, events=events, settlement=settlement)
    dead_letters = [_dead_letter_row(each, now) for each in settlements if each.is_dead_letter]
    if dead_letters:
        await tx.count(APPEND_DEAD_LETTERS, dead_letters=dead_letters, settlement=settlement)
    return count


async def record_bounces(tx: Runner, bounces: Mapping[int, Instant]) -> None:
    """Record the time when each of these messages bounced after a provider had accepted it."""
    rows = [{"message_key": key, "at": at} for key, at in sorted(bounces.items())]
    if rows:
        await tx.count(MARK_BOUNCED, bounces=rows)


async def record_proofs(tx: Runner, proofs: Sequence[SentProof], now: Instant) -> int:
    """Store proofs that a provider has a message, mark messages in doubt as sent, and return their number."""
    if not proofs:
        return 0
    by_key = {proof.message_key: proof for proof in proofs}
    rows = [{"message_key": key, "provider_message_id": by_key[key].provider_message_id} for key in sorted(by_key)]
    await tx.run(LOCK_UNSENT, proofs=rows)
    proven = await tx.run(MARK_PROVEN_SENT, proofs=rows, now=now)
    if proven:
        await append_events(tx, [_proven(by_key[row.message_key], now, is_ses=bool(row.is_ses)) for row in proven])
        await tx.count(DELETE_DEAD_LETTERS, proven=[{"message_key": row.message_key} for row in proven])
    return len(proven)


def may_be_with_provider(claimed: Claimed) -> bool:
    """Return whether a provider may have the message from an earlier attempt."""
    return claimed.resends > 0 or claimed.only_provider is not None


async def settle_reported(tx: Runner, waiting: Sequence[Claimed], now: Instant) -> None:
    """Mark messages as sent if a report about their earlier attempt arrived while they waited for a resend."""
    await settle_proven(tx, [each.message_key for each in waiting], now)


async def settle_proven(tx: Runner, message_keys: Sequence[int], now: Instant) -> int:
    """Mark the messages as sent for which a report proves that the provider has them, and return their number."""
    if not message_keys:
        return 0
    rows = await tx.run(FIND_REPORTED_MEANWHILE, wanted=[{"message_key": key} for key in message_keys])
    return await record_proofs(tx, [SentProof(row.message_key, row.tenant_id) for row in rows], now)


def _independent_changes(outcomes: Sequence[Outcome], next_up: Sequence[NextAttempt], now: Instant) -> list[Change]:
    """Return the changes of an exchange that has only successes and attempts without limits; otherwise none.

    Each of them changes different rows, so they can run in any order. All other exchanges read between their writes.
    """
    delivered = [each for each in outcomes if isinstance(each, Delivered) and not _needs_more(each)]
    if len(delivered) < len(outcomes) or any(map(_needs_check, next_up)):
        return []
    changes: list[Change] = []
    for group in _by_provider(delivered):
        events = _sent_events(group, {}, {})
        changes.append(Change(SETTLE_SENT, _sent_parameters(group, token(), now), len(group)))
        changes.append(Change(APPEND_EVENTS, {"events": events}, len(events)))
    if next_up:
        claims = [_attempt_row(attempt.claimed, attempt.provider) for attempt in next_up]
        changes.append(Change(BEGIN_ATTEMPTS, {"claims": claims, "settlement": token(), "now": now}, len(claims)))
    return changes


def _needs_check(attempt: NextAttempt) -> bool:
    """Return whether rows of other messages decide if the attempt may begin."""
    admitted = attempt.admitted
    # A message with a limit of its source also has a limit of its lane.
    limits = (admitted.tenant_limit, admitted.lane_limit, admitted.domain_limit, admitted.frequency_cap)
    return bool(attempt.copies) or limits != NO_LIMITS


def _needs_more(delivered: Delivered) -> bool:
    """Return whether a sent message has copies that were deferred or that bounced."""
    return bool(delivered.deferred_recipients or delivered.bounced_copies)


def _has_bounce(outcome: Outcome) -> bool:
    return bool(outcome.bounced_copies) or (isinstance(outcome, Settlement) and outcome.bounce is not None)


def _by_provider(delivered: Sequence[Delivered]) -> list[list[Delivered]]:
    providers = {each.provider for each in delivered}
    return [[each for each in delivered if each.provider == provider] for provider in providers]


async def _begin(tx: Runner, attempts: list[dict[str, Any]], now: Instant) -> frozenset[int]:
    settlement = token()
    if await tx.count(BEGIN_ATTEMPTS, claims=attempts, settlement=settlement, now=now) == len(attempts):
        return frozenset([attempt["message_key"] for attempt in attempts])
    return await _written_by(tx, settlement, attempts)


async def _held_lanes(tx: Runner, attempts: list[dict[str, Any]], now: Instant) -> frozenset[int]:
    lanes = [{"lane": lane} for lane in {attempt["lane"] for attempt in attempts}]
    return frozenset([row.lane for row in await tx.run(FIND_HELD_LANES, lanes=lanes, now=now)])


async def _late_results(tx: Runner, claims: list[dict[str, Any]]) -> Mapping[int, Any]:
    """Return the attempts that were put in doubt before this result, by message."""
    return {row.message_key: row for row in await tx.run(FIND_LATE_RESULTS, claims=claims)}


def _is_recorded(claimed: Claimed, late: Mapping[int, Any]) -> bool:
    """Return whether the beginning of the attempt is already on the timeline."""
    return claimed.message_key in late and bool(late[claimed.message_key].is_recorded)


def _counts(claimed: Claimed, late: Mapping[int, Any]) -> int:
    """Return 1 if the attempt was not counted when it was put in doubt, and 0 otherwise."""
    return 1 - (late[claimed.message_key].is_counted if claimed.message_key in late else 0)


async def _written_by(tx: Runner, settlement: int, claims: list[dict[str, Any]]) -> frozenset[int]:
    """Return the messages that the statement changed. Needed only if it did not change all of them."""
    return frozenset([row.message_key for row in await tx.run(FIND_SETTLED, claims=claims, settlement=settlement)])


async def _over_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Return the messages that exceed their tenant's limit of messages in flight. The limit covers all workers."""
    limits = {
        attempt.claimed.tenant_id: attempt.admitted.tenant_limit
        for attempt in next_up
        if attempt.admitted.tenant_limit is not None
    }
    if not limits:
        return frozenset()
    tenants = [{"tenant_id": tenant_id} for tenant_id in limits]
    await tx.run(LOCK_TENANTS, tenants=tenants)
    in_flight = {
        row.tenant_id: row.in_flight for row in await tx.run(COUNT_ATTEMPTS_OF_TENANTS, tenants=tenants, now=now)
    }
    room = {tenant_id: limit - in_flight.get(tenant_id, 0) for tenant_id, limit in limits.items()}
    return _without_room([(attempt.claimed.message_key, attempt.claimed.tenant_id) for attempt in next_up], room)


async def _over_lane_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Return the messages of one-at-a-time campaigns that must wait: another one is in flight or comes first."""
    limits = {
        attempt.claimed.lane: attempt.admitted.lane_limit
        for attempt in next_up
        if attempt.admitted.lane_limit is not None
    }
    if not limits:
        return frozenset()
    await lock_names(tx, [f"mailwright:lane:{lane}" for lane in limits], now)
    lanes = [{"lane": lane} for lane in limits]
    in_flight = {row.lane: row.in_flight for row in await tx.run(COUNT_ATTEMPTS_IN_LANES, lanes=lanes, now=now)}
    room = {lane: limit - in_flight.get(lane, 0) for lane, limit in limits.items()}
    over = _without_room([(attempt.claimed.message_key, attempt.claimed.lane) for attempt in next_up], room)
    in_line = [_attempt_row(attempt.claimed, attempt.provider) for attempt in next_up if attempt.claimed.lane in limits]
    return over | {row.message_key for row in await tx.run(FIND_OUT_OF_TURN, claims=in_line)}


async def _over_source_limit(
    tx: Runner, next_up: Sequence[NextAttempt], over_limit: Collection[int], now: Instant
) -> frozenset[int]:
    """Return the messages that must wait because others of their source are in flight, in any lane of any tenant."""
    limited = [attempt for attempt in next_up if attempt.admitted.source_limit is not None]
    if not limited:
        return frozenset()
    limits = {attempt.claimed.source: attempt.admitted.source_limit or 0 for attempt in limited}
    await lock_names(tx, [f"mailwright:source:{source}" for source in limits], now)
    sources = [{"source": source} for source in limits]
    rows = await tx.run(COUNT_ATTEMPTS_OF_SOURCES, sources=sources, now=now)
    in_flight = {row.source: row.in_flight for row in rows}
    room = {source: limit - in_flight.get(source, 0) for source, limit in limits.items()}
    possible = [attempt.claimed for attempt in limited if attempt.claimed.message_key not in over_limit]
    return _without_room([(claimed.message_key, claimed.source) for claimed in possible], room)


async def _over_domain_limit(tx: Runner, next_up: Sequence[NextAttempt], now: Instant) -> frozenset[int]:
    """Return the messages that exceed their recipient domain's limit. The limit covers all workers."""
    limited = [attempt for attempt in next_up if attempt.admitted.domain_limit is not None]
    if not limited:
        return frozenset()
    limits = {domain_of(attempt.claimed.to_email): attempt.admitted.domain_limit or 0 for attempt in limited}
    await lock_names(tx, [f"mailwright:domain:{domain}" for domain in limits], now)
    domains = [{"domain": domain} for domain in limits]
    rows = await tx.run(COUNT_ATTEMPTS_TO_DOMAINS, domains=domains, now=now)
    in_flight = {row.domain: row.in_flight for row in rows}
    room = {domain: limit - in_flight.get(domain, 0) for domain, limit in limits.items()}
    wanted = [(attempt.claimed.message_key, domain_of(attempt.claimed.to_email)) for attempt in limited]
    return _without_room(wanted, room)


def _without_room(wanted: Sequence[tuple[int, Hashable]], room: Mapping[Any, int]) -> frozenset[int]:
    """Return the messages that do not fit in the free places of their group. Groups not in `room` are unlimited."""
    left = dict(room)
    over: set[int] = set()
    for message_key, group in wanted:
        if group in left:
            left[group] -= 1
            if left[group] < 0:
                over.add(message_key)
    return frozenset(over)


async def _newly_suppressed_copies(tx: Runner, next_up: Sequence[NextAttempt]) -> frozenset[int]:
    """Return the messages with a copy to a recipient who was just suppressed. They are rebuilt without this copy."""
    copies = [
        {**_attempt_row(attempt.claimed, attempt.provider), "email": email}
        for attempt in next_up
        if attempt.copies
        for email in attempt.copies
    ]
    if not copies:
        return frozenset()
    return frozenset([row.message_key for row in await tx.run(FIND_SUPPRESSED_COPIES, copies=copies)])


async def append_events(tx: Runner, events: Sequence[Mapping[str, Any]]) -> None:
    """Append the events, each made by `event_row`."""
    await tx.count(APPEND_EVENTS, events=events)


async def lock_names(tx: Runner, names: Iterable[str], now: Instant) -> None:
    """Lock the named counters, in order, until the transaction ends."""
    await tx.run(LOCK_NAMES, locks=[{"name": name} for name in names], expires_at=now + HOUR)


def event_row(message_key: int, tenant_id: int, event: Event) -> dict[str, Any]:
    return {
        "message_key": message_key,
        "tenant_id": tenant_id,
        "type": event.type,
        "created_at": event.at,
        "metadata": orjson.dumps(event.metadata).decode(),
    }


def _proven(proof: SentProof, now: Instant, *, is_ses: bool) -> Mapping[str, Any]:
    evidence = {"settledBy": proof.settled_by, "providerMessageId": proof.provider_message_id}
    if is_ses:
        evidence["sesMessageId"] = proof.provider_message_id
    return event_row(proof.message_key, proof.tenant_id, Event(EventType.SENT, now, evidence))


def _attempt_row(claimed: Claimed, provider: str | None = None) -> dict[str, Any]:
    return {
        "message_key": claimed.message_key,
        "claim_token": claimed.claim_token,
        "tenant_id": claimed.tenant_id,
        "email": claimed.to_email,
        "list_key": claimed.list_key,
        "provider": provider,
        "lane": claimed.lane,
        "is_bulk": int(claimed.is_bulk),
    }


def _sent_parameters(
    delivered: Sequence[Delivered], settlement: int, now: Instant, late: Mapping[int, Any] | None = None
) -> dict[str, Any]:
    rows = [
        (
            each.claimed.message_key,
            each.claimed.claim_token,
            each.provider_message_id,
            each.duration_ms,
            each.subject,
            _counts(each.claimed, late or {}),
            int(bool(late)),
        )
        for each in delivered
    ]
    return {"sent": rows, "provider": delivered[0].provider, "settlement": settlement, "now": now}


def _sent_events(
    delivered: Iterable[Delivered], copies: Mapping[int, Sequence[NewMessage]], late: Mapping[int, Any]
) -> list[tuple[int, int, str, Instant, str]]:
    return [
        row
        for each in delivered
        for row in (_events_of(each, copies)[-1:] if _is_recorded(each.claimed, late) else _events_of(each, copies))
    ]


def _events_of(
    delivered: Delivered, copies: Mapping[int, Sequence[NewMessage]]
) -> tuple[tuple[int, int, str, Instant, str], ...]:
    """Return the four events of a successful attempt, in the order of the columns."""
    claimed = delivered.claimed
    key, tenant, attempt = claimed.message_key, claimed.tenant_id, claimed.attempts + 1
    outcome: dict[str, Any] = {
        "attempt": attempt,
        "provider": delivered.provider,
        "providerMessageId": delivered.provider_message_id,
        "durationMs": delivered.duration_ms,
    }
    if delivered.is_ses:
        outcome["sesMessageId"] = delivered.provider_message_id
    if delivered.is_tracked:
        outcome["isTracked"] = True
    if delivered.note:
        outcome["message"] = delivered.note
    if key in copies:
        outcome["deferredCopies"] = [message.outbox_id for message in copies[key]]
    begun = f'{{"attempt":{attempt}}}'
    validated = f'{{"attempt":{attempt},"validations":{_VALIDATIONS_JSON}}}'
    handed = f'{{"attempt":{attempt},"provider":"{delivered.provider}"}}'  # Provider names need no escaping.
    return (
        (key, tenant, RECEIVED, claimed.received_at, begun),
        (key, tenant, VALIDATED, delivered.validated_at, validated),
        (key, tenant, SENT_ATTEMPT, delivered.attempted_at, handed),
        (key, tenant, SENT, delivered.sent_at, orjson.dumps(outcome).decode()),
    )


def _settlement_row(settlement: Settlement, now: Instant, late: Mapping[int, Any]) -> dict[str, Any]:
    claimed, status = settlement.claimed, settlement.status
    in_doubt = status is Status.IN_DOUBT
    return {
        "message_key": claimed.message_key,
        "claim_token": claimed.claim_token,
        # A message in doubt keeps its token, because its worker may still receive the response.
        "next_token": claimed.claim_token if in_doubt else None,
        "status": status,
        "due_at": settlement.due_at,
        "next_attempt_at": settlement.due_at if status is Status.RETRY_SCHEDULED else None,
        "defer_reason": settlement.defer_reason,
        "completed": int(settlement.completes_attempt) * _counts(claimed, late),
        "excused": int(settlement.completes_attempt and settlement.is_excused) * _counts(claimed, late),
        "provider": settlement.provider,
        "provider_message_id": settlement.provider_message_id,
        "error_code": settlement.error_code,
        "error_category": settlement.error_category,
        "error_reason": settlement.error_reason,
        "duration_ms": settlement.duration_ms,
        "failed_at": now if status is Status.FAILED else None,
        # Set as long as a provider may have the message, regardless of later responses.
        "in_doubt_since": now
        if in_doubt or settlement.may_have_been_sent or claimed.only_provider is not None
        else None,
        "deferred_at": settlement.deferred_at,
        "retry_until": settlement.retry_until,
        "subject": settlement.subject,
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
