"""Store webhook deliveries: claim them under a lease, settle them, and keep their log.

When a lease expires, the delivery is due again under the same ID, so each event is delivered at least once. A failure
that is reported after the lease has expired is ignored, but a success still counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, func, or_, select, true, update

from mailwright.audience.subscription_events import CONTACT_KEY
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid, token
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.retry import RetryPolicy
from mailwright.events.outbound.endpoints import WebhookEndpoint, endpoint_from_row, insert_delivery
from mailwright.events.outbound.formats.webhook_format import WebhookFormat
from mailwright.events.outbound.outbound_event import TEST, OutboundEvent
from mailwright.events.outbound.stored_messages import GIVEN, message_columns, message_from_row
from mailwright.outbox import audit_log
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.outbox.settle import NO_MESSAGE
from mailwright.providers.responses import mask_addresses
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts, events, messages, webhook_deliveries, webhook_endpoints

PENDING: Final = "PENDING"
DELIVERED: Final = "DELIVERED"
FAILED: Final = "FAILED"
# The metadata field with an event's campaign.
CAMPAIGN: Final = "campaign"

# Retry delays, three days in total, so that a receiver that fails on Friday evening can be repaired on Monday.
SCHEDULE: Final = RetryPolicy(
    "webhooks",
    12,
    (
        5 * SECOND,
        30 * SECOND,
        2 * MINUTE,
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
        3 * HOUR,
        6 * HOUR,
        12 * HOUR,
        DAY,
        DAY,
    ),
)
# Backoff of an endpoint after failures. Then it gets a single request before full batches.
ENDPOINT_BACKOFF: Final[tuple[Instant, ...]] = (SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE)
PAUSE_AFTER: Final[Instant] = 3 * DAY
# Duration of a lease. It must exceed the request timeout, otherwise a slow receiver would get the delivery twice.
LEASE: Final[Instant] = MINUTE
BATCH_SIZE: Final = 20
RETENTION: Final[Instant] = 30 * DAY
DELETE_BATCH_SIZE: Final = 5_000
# Only the beginning of a response is kept, for display.
MAX_EXCERPT_LENGTH: Final = 500
MAX_LOGGED_ATTEMPTS: Final = 30
NEWEST: Final = 2**63 - 1

GONE: Final = 410


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    key: int
    delivery_id: str
    webhook_id: str
    tenant_id: int
    type: str
    status: str
    attempts: int
    due_at: Instant
    event_at: Instant
    created_at: Instant
    ended_at: Instant | None
    outbox_id: str | None
    log: tuple[dict[str, Any], ...]

    @property
    def next_attempt_at(self) -> Instant | None:
        return self.due_at if self.status == PENDING else None


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A claimed delivery with its event."""

    key: int
    delivery_id: str
    token: int
    until: Instant
    attempts: int
    event: OutboundEvent


@dataclass(frozen=True, slots=True)
class ReceiverResponse:
    """A complete HTTP response. A status of 2xx is a success."""

    status: int
    excerpt: str
    milliseconds: int

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class NoReceiverResponse:
    """The outcome if no complete response was received, with the cause."""

    cause: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class ClaimExpired:
    """The outcome if the lease expired before the request was sent. Another process will make the delivery."""


@dataclass(frozen=True, slots=True)
class EventNotWritten:
    """The outcome if the format cannot express the event, with the cause. Another attempt would fail in the same way.

    The endpoint is not to blame, so its state does not change.
    """

    cause: str


DeliveryOutcome = ReceiverResponse | NoReceiverResponse | ClaimExpired | EventNotWritten


class WebhookDeliveries:
    def __init__(self, database: Database, clock: Clock, directory: SenderDirectory | None = None) -> None:
        """`directory` knows the default senders of tenants, which some formats need."""
        self._database = database
        self._clock = clock
        self._directory = directory

    # The API, the CLI and the dashboard use these methods.

    async def list_deliveries(
        self, endpoint: WebhookEndpoint, *, limit: int, before: int = NEWEST, status: str | None = None
    ) -> list[WebhookDelivery]:
        """Return the newest deliveries first."""
        d = webhook_deliveries.c
        query = _delivery_query().where(d.endpoint_key == endpoint.key, d.id < before)
        if status is not None:
            query = query.where(d.status == status)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(d.id.desc()).limit(limit))
        return [_delivery(row) for row in rows]

    async def find(self, delivery_id: str, *, tenant_id: int | None) -> WebhookDelivery:
        async with self._database.read() as tx:
            return await _find(tx, delivery_id, tenant_id)

    async def redeliver(self, delivery_id: str, *, tenant_id: int | None, actor: str) -> WebhookDelivery:
        """Make an ended delivery due again under the same id, with a fresh set of attempts."""
        async with self._database.write() as tx:
            delivery = await _find(tx, delivery_id, tenant_id)
            if delivery.status == PENDING:
                raise NotPossibleNow("The delivery is still pending. It can be redelivered after its last attempt.")
            reset = {
                "status": PENDING,
                "due_at": self._clock.now(),
                "attempts": 0,
                "ended_at": None,
                "claim_token": None,
            }
            await tx.execute(update(webhook_deliveries).where(webhook_deliveries.c.id == delivery.key).values(**reset))
            await self._audit(tx, actor, "redeliver", delivery)
            return await _find(tx, delivery_id, tenant_id)

    async def create_test(self, endpoint: WebhookEndpoint, *, actor: str) -> WebhookDelivery:
        """Create a test delivery, which belongs to no message."""
        now = self._clock.now()
        async with self._database.write() as tx:
            delivery_id = await insert_delivery(tx, endpoint, TEST, now)
            delivery = await _find(tx, delivery_id, endpoint.tenant_id)
            await self._audit(tx, actor, "test", delivery)
        return delivery

    # The dispatcher uses these methods.

    async def has_active_endpoints(self) -> bool:
        """Return whether any endpoint is active."""
        e = webhook_endpoints.c
        async with self._database.read() as tx:
            return bool(await tx.execute(select(e.id).where(e.is_active == true(), e.paused_at.is_(None)).limit(1)))

    async def due_endpoints(self, *, limit: int) -> list[WebhookEndpoint]:
        """Return endpoints with due deliveries. The endpoint that has waited longest comes first."""
        now, e, d = self._clock.now(), webhook_endpoints.c, webhook_deliveries.c
        has_due = select(d.id).where(d.endpoint_key == e.id, d.status == PENDING, d.due_at <= now)
        query = select(webhook_endpoints).where(
            e.is_active == true(), e.paused_at.is_(None), e.deferred_until <= now, has_due.exists()
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(e.deferred_until, e.id).limit(limit))
        return [endpoint_from_row(row) for row in rows]

    async def claim(self, endpoint: WebhookEndpoint, *, only: int | None = None) -> list[ClaimedDelivery]:
        """Claim due deliveries of an endpoint, or one while it fails. `only` restricts the claim to one delivery."""
        now, d = self._clock.now(), webhook_deliveries.c
        due = and_(d.endpoint_key == endpoint.key, d.status == PENDING, d.due_at <= now)
        if only is not None:
            due = and_(due, d.id == only)
        claim_token, until = token(), now + LEASE
        sender = await self._default_sender(endpoint)
        async with self._database.write() as tx:
            rows = await tx.execute(
                select(d.id)
                .where(due)
                .order_by(d.due_at, d.id)
                .limit(1 if endpoint.failures else BATCH_SIZE)
                .with_for_update(skip_locked=True)
            )
            keys = [row.id for row in rows]
            if not keys:
                return []
            lease = {"claim_token": claim_token, "due_at": until}
            await tx.execute(update(webhook_deliveries).where(d.id.in_(keys)).values(**lease))
            rows = await tx.execute(_event_query(d.id.in_(keys), endpoint.shape).order_by(d.id))
            contacts_by_key = await _find_contacts(tx, rows)
        return [
            ClaimedDelivery(row.id, row.delivery_id, claim_token, until, row.attempts, event)
            for row in rows
            for event in [_event(row, endpoint, contacts_by_key, sender)]
        ]

    async def _default_sender(self, endpoint: WebhookEndpoint) -> str:
        if self._directory is None or endpoint.shape.is_own:
            return ""
        return await self._directory.default_sender(endpoint.tenant_id)

    async def settle(
        self, endpoint: WebhookEndpoint, outcomes: Sequence[tuple[ClaimedDelivery, DeliveryOutcome]]
    ) -> None:
        """Record the outcomes of deliveries and the resulting state of the endpoint in one transaction."""
        now, mine = self._clock.now(), webhook_endpoints.c.id == endpoint.key
        async with self._database.write() as tx:
            # Lock the endpoint before its deliveries, in the same order as its removal, to avoid a deadlock.
            rows = await tx.execute(select(webhook_endpoints).where(mine).with_for_update())
            await _settle(tx, outcomes, now)
            # If the endpoint was edited in the meantime, these outcomes do not apply to its current settings.
            unchanged = [
                current for current in map(endpoint_from_row, rows) if current.updated_at == endpoint.updated_at
            ]
            if unchanged and (changes := _endpoint_changes(unchanged[0], [outcome for _, outcome in outcomes], now)):
                await tx.execute(update(webhook_endpoints).where(mine).values(**changes))

    async def delete_old(self) -> int:
        """Delete a batch of deliveries that ended long ago or whose endpoint was removed; return their number."""
        d = webhook_deliveries.c
        known = select(webhook_endpoints.c.id).where(webhook_endpoints.c.id == d.endpoint_key)
        old = or_(d.ended_at < self._clock.now() - RETENTION, ~known.exists())
        async with self._database.write() as tx:
            keys = [row.id for row in await tx.execute(select(d.id).where(old).limit(DELETE_BATCH_SIZE))]
            if keys:
                await tx.execute(delete(webhook_deliveries).where(d.id.in_(keys)))
        return len(keys)

    async def _audit(self, tx: Transaction, actor: str, action: str, delivery: WebhookDelivery) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"webhook.{action}",
            subject=delivery.webhook_id,
            tenant_id=delivery.tenant_id,
            detail={"deliveryId": delivery.delivery_id},
        )


async def _settle(tx: Transaction, outcomes: Sequence[tuple[ClaimedDelivery, DeliveryOutcome]], now: Instant) -> None:
    """Record the successes, which are most outcomes, with one statement, and each failure with its own."""
    d = webhook_deliveries.c
    keys = [claimed.key for claimed, _ in outcomes]
    rows = await tx.execute(select(d.id, d.log).where(d.id.in_(keys)).order_by(d.id).with_for_update())
    logs: dict[int, str] = {row.id: row.log for row in rows}
    delivered: list[dict[str, Any]] = []
    for claimed, outcome in outcomes:
        if claimed.key not in logs or isinstance(outcome, ClaimExpired):
            continue  # The endpoint was removed, or the delivery was not made.
        attempts = claimed.attempts + 1
        log = _append_log(logs[claimed.key], outcome, attempts, now)
        if _is_success(outcome):
            delivered.append({"key": claimed.key, "new_log": log, "made": attempts, "now": now})
        else:
            own_claim = and_(d.id == claimed.key, d.status == PENDING, d.claim_token == claimed.token)
            next_state = _next_state(claimed, outcome, attempts, now)
            await tx.execute(
                update(webhook_deliveries).where(own_claim).values(log=log, attempts=attempts, **next_state)
            )
    if delivered:
        await tx.execute(_END_DELIVERED, delivered)


# A success counts even after the lease has expired.
_END_DELIVERED: Final = (
    update(webhook_deliveries)
    .where(webhook_deliveries.c.id == bindparam("key"), webhook_deliveries.c.status == PENDING)
    .values(
        log=bindparam("new_log"),
        attempts=bindparam("made"),
        status=DELIVERED,
        ended_at=bindparam("now"),
        claim_token=None,
    )
)


def _next_state(claimed: ClaimedDelivery, outcome: DeliveryOutcome, attempts: int, now: Instant) -> dict[str, Any]:
    """Return the columns of a delivery that failed: it ends after the last attempt, otherwise it is due again."""
    if SCHEDULE.is_exhausted(attempts) or isinstance(outcome, EventNotWritten):
        return {"status": FAILED, "ended_at": now, "claim_token": None}
    return {"due_at": now + SCHEDULE.delay(claimed.delivery_id, attempts), "claim_token": None}


def _endpoint_changes(endpoint: WebhookEndpoint, outcomes: Sequence[DeliveryOutcome], now: Instant) -> dict[str, Any]:
    """Return the changed columns of the endpoint. One success resets its failures."""
    unrelated = (ClaimExpired, EventNotWritten)
    failures = [outcome for outcome in outcomes if not isinstance(outcome, unrelated) and not _is_success(outcome)]
    if any(_is_success(outcome) for outcome in outcomes):
        return {"failures": 0, "failing_since": None, "deferred_until": 0} if endpoint.failures else {}
    if not failures:
        return {}
    count, last = endpoint.failures + 1, failures[-1]
    since = now if endpoint.failing_since is None else endpoint.failing_since
    backoff = ENDPOINT_BACKOFF[min(count, len(ENDPOINT_BACKOFF)) - 1]
    changes: dict[str, Any] = {"failures": count, "failing_since": since, "deferred_until": now + backoff}
    if reason := _pause_reason(last, since, now):
        changes |= {"paused_at": now, "pause_reason": reason}
    return changes


def _is_success(outcome: DeliveryOutcome) -> bool:
    return isinstance(outcome, ReceiverResponse) and outcome.is_success


def _pause_reason(last: DeliveryOutcome, since: Instant, now: Instant) -> str | None:
    match last:
        case ReceiverResponse(status=status) if status == GONE:
            return "The endpoint returned 410 Gone."
        case ReceiverResponse(status=status) if now - since >= PAUSE_AFTER:
            return f"No delivery succeeded for three days. Last response: {status}."
        case NoReceiverResponse(cause=cause) if now - since >= PAUSE_AFTER:
            return f"No delivery succeeded for three days. Last error: {cause}."
        case _:
            return None


def _append_log(text: str, outcome: DeliveryOutcome, attempt: int, now: Instant) -> str:
    entry: dict[str, Any] = {"at": now, "attempt": attempt, "status": None, "answer": "", "error": None}
    match outcome:
        case ReceiverResponse(status=status, excerpt=excerpt, milliseconds=took):
            entry |= {
                "status": status,
                "answer": mask_addresses(excerpt.replace("\0", ""))[:MAX_EXCERPT_LENGTH],
                "milliseconds": took,
            }
        case NoReceiverResponse(cause=cause, milliseconds=took):
            entry |= {"error": cause, "milliseconds": took}
        case EventNotWritten(cause=cause):
            entry |= {"error": cause, "milliseconds": 0}
    return orjson.dumps([*orjson.loads(text), entry][-MAX_LOGGED_ATTEMPTS:]).decode()


def _event_query(condition: ColumnElement[bool], shape: WebhookFormat) -> Select[Any]:
    """Select deliveries with the current event and message, so that data of erased contacts is not included."""
    d, e, m = webhook_deliveries.c, events.c, messages.c
    joined = webhook_deliveries.outerjoin(messages, m.id == d.message_key).outerjoin(
        events, and_(e.id == d.event_key, e.created_at == d.event_at)
    )
    return (
        select(d.id, d.delivery_id, d.attempts, d.type, d.event_at, d.event_key, d.message_key)
        .add_columns(func.coalesce(d.metadata, e.metadata).label("metadata"))
        .add_columns(*message_columns(() if shape.is_own else GIVEN))
        .select_from(joined)
        .where(condition)
    )


async def _find_contacts(tx: Transaction, deliveries: Sequence[Any]) -> dict[int, dict[str, Any]]:
    """Return the contacts of events without a message, except erased ones."""
    about = [orjson.loads(row.metadata) for row in deliveries if row.message_key == NO_MESSAGE and row.metadata]
    keys = {each[CONTACT_KEY] for each in about if CONTACT_KEY in each}
    if not keys:
        return {}
    c = contacts.c
    rows = await tx.execute(select(c.id, c.contact_id, c.email).where(c.id.in_(sorted(keys)), c.deleted_at.is_(None)))
    return {row.id: {"contactId": row.contact_id, "email": row.email} for row in rows}


def _event(
    row: Any, endpoint: WebhookEndpoint, contacts_by_key: Mapping[int, dict[str, Any]], default_sender: str
) -> OutboundEvent:
    metadata = orjson.loads(row.metadata or "{}")
    contact_key, campaign = metadata.pop(CONTACT_KEY, None), metadata.pop(CAMPAIGN, None)
    event = OutboundEvent(
        row.delivery_id,
        endpoint.webhook_id,
        row.type,
        row.event_at,
        None if row.outbox_id is None else message_from_row(row, default_sender),
        contacts_by_key.get(contact_key),
        campaign,
        metadata,
        row.event_key,
    )
    return event.as_sample() if row.type == TEST and not endpoint.shape.is_own else event


def _delivery_query() -> Select[Any]:
    d = webhook_deliveries.c
    joined = webhook_deliveries.join(webhook_endpoints, webhook_endpoints.c.id == d.endpoint_key).outerjoin(
        messages, messages.c.id == d.message_key
    )
    columns = (d.id, d.delivery_id, d.tenant_id, d.type, d.status, d.attempts, d.due_at, d.event_at, d.created_at)
    return select(*columns, d.ended_at, d.log, webhook_endpoints.c.webhook_id, messages.c.outbox_id).select_from(joined)


async def _find(tx: Transaction, delivery_id: str, tenant_id: int | None) -> WebhookDelivery:
    if not is_uuid(delivery_id):
        raise NotFound
    d = webhook_deliveries.c
    query = _delivery_query().where(d.delivery_id == delivery_id)
    rows = await tx.execute(query if tenant_id is None else query.where(d.tenant_id == tenant_id))
    if not rows:
        raise NotFound
    return _delivery(rows[0])


def _delivery(row: Any) -> WebhookDelivery:
    fields = dict(row._mapping)
    fields["key"] = fields.pop("id")
    return WebhookDelivery(**{**fields, "log": tuple(orjson.loads(fields["log"]))})
