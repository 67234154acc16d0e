"""Endpoints: where a tenant wants to be told, of what, and with which secret. The secret is shown once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import and_, delete, func, insert, select, update
from yarl import URL

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.network import is_private_host
from mailwright.domain.states import EventType
from mailwright.events.outbound.signature import make_secret
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import events, webhook_deliveries, webhook_endpoints

# What can be told. Our own steps on the way are nobody's business: only where a message arrived, what was reported, and
# who joined or left on our pages.
WEBHOOK_EVENT_TYPES: Final = (
    EventType.SENT,
    EventType.FAILED,
    EventType.IN_DOUBT,
    EventType.CLOSED_UNKNOWN,
    EventType.CANCELLED,
    EventType.ACCEPTED,
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.UNSUBSCRIBED,
    EventType.DEFERRED,
    EventType.JOINED,
    EventType.LEFT,
)
MAX_ENDPOINTS: Final = 20
MAX_URL_LENGTH: Final = 2_000
# A secret that was replaced signs for so long beside the new one.
SECRET_OVERLAP: Final[Instant] = DAY


class TooManyWebhooks(NotPossibleNow):
    """A tenant has at most twenty webhooks."""

    code = "TOO_MANY_WEBHOOKS"


@dataclass(frozen=True, slots=True)
class SigningSecret:
    secret: str
    until: Instant | None = None  # None for the one that stays

    def is_good(self, now: Instant) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    key: int
    webhook_id: str
    tenant_id: int
    url: str
    description: str
    types: tuple[str, ...]
    secrets: tuple[SigningSecret, ...]
    is_active: bool
    paused_at: Instant | None
    pause_reason: str | None
    failing_since: Instant | None
    failures: int
    deferred_until: Instant
    created_at: Instant
    updated_at: Instant

    @property
    def state(self) -> str:
        """One word: what becomes of the next event."""
        if not self.is_active:
            return "off"
        if self.paused_at is not None:
            return "paused"
        return "failing" if self.failures else "active"

    def keys(self, now: Instant) -> list[str]:
        """What signs at this moment, the newest first."""
        return [each.secret for each in self.secrets if each.is_good(now)]


@dataclass(frozen=True, slots=True)
class WebhookEndpointInput:
    """What a person writes down."""

    url: str
    types: tuple[str, ...] = ()  # none stands for all
    description: str = ""
    is_active: bool = True


class WebhookEndpoints:
    def __init__(self, database: Database, clock: Clock, *, allows_private: bool = False) -> None:
        """`allows_private`: plain http and private addresses are taken as well, for receivers in the same network."""
        self._database = database
        self._clock = clock
        self._allows_private = allows_private

    async def create(self, tenant_id: int, wanted: WebhookEndpointInput, *, actor: str) -> tuple[WebhookEndpoint, str]:
        """With its secret, which is not shown again. It is told what happens from now on."""
        self._check(wanted)
        now, secret = self._clock.now(), make_secret()
        async with self._database.write() as tx:
            mine = webhook_endpoints.c.tenant_id == tenant_id
            count = (await tx.execute(select(func.count()).select_from(webhook_endpoints).where(mine)))[0][0]
            if count >= MAX_ENDPOINTS:
                raise TooManyWebhooks
            rows = await tx.execute(
                insert(webhook_endpoints)
                .values(
                    **_values(wanted),
                    webhook_id=uuid7(now),
                    tenant_id=tenant_id,
                    secrets=_as_text([SigningSecret(secret)]),
                    after_event=await _newest_event(tx),
                    failures=0,
                    deferred_until=0,
                    created_at=now,
                    updated_at=now,
                )
                .returning(webhook_endpoints)
            )
            made = endpoint_from_row(rows[0])
            await self._note(tx, actor, "create", made)
        return made, secret

    async def list_all(self, tenant_id: int) -> list[WebhookEndpoint]:
        """The oldest first."""
        mine = webhook_endpoints.c.tenant_id == tenant_id
        async with self._database.read() as tx:
            rows = await tx.execute(select(webhook_endpoints).where(mine).order_by(webhook_endpoints.c.id))
        return [endpoint_from_row(row) for row in rows]

    async def find(self, webhook_id: str, *, tenant_id: int | None) -> WebhookEndpoint:
        """`tenant_id` None is an operator, who sees all tenants'."""
        async with self._database.read() as tx:
            return await _find(tx, webhook_id, tenant_id)

    async def edit(
        self, webhook_id: str, wanted: WebhookEndpointInput, *, tenant_id: int | None, actor: str
    ) -> WebhookEndpoint:
        """Replaces all that a person writes down. One that was paused is tried again; what waited for it goes first."""
        self._check(wanted)
        async with self._database.write() as tx:
            before = await _find(tx, webhook_id, tenant_id, to_change=True)
            changes: dict[str, Any] = {**_values(wanted), "paused_at": None, "pause_reason": None}
            changes |= {"failing_since": None, "failures": 0, "deferred_until": 0, "updated_at": self._clock.now()}
            if before.state in ("off", "paused") and wanted.is_active:
                changes["after_event"] = await _newest_event(tx)
            await tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == before.key).values(**changes))
            after = await _find(tx, webhook_id, tenant_id)
            await self._note(tx, actor, "edit", after)
        return after

    async def rotate(self, webhook_id: str, *, tenant_id: int | None, actor: str) -> tuple[WebhookEndpoint, str]:
        """A new secret; the one before signs beside it for a day, so that receivers can change in their own time."""
        now, secret = self._clock.now(), make_secret()
        async with self._database.write() as tx:
            before = await _find(tx, webhook_id, tenant_id, to_change=True)
            kept = [
                SigningSecret(each.secret, each.until or now + SECRET_OVERLAP)
                for each in before.secrets
                if each.is_good(now)
            ]
            # However often it is asked for, a request carries a few signatures.
            changes = {"secrets": _as_text([SigningSecret(secret), *kept[:2]]), "updated_at": now}
            await tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == before.key).values(**changes))
            after = await _find(tx, webhook_id, tenant_id)
            await self._note(tx, actor, "rotate", after)
        return after, secret

    async def remove(self, webhook_id: str, *, tenant_id: int | None, actor: str) -> None:
        """With all that was told to it, and all that was to be told."""
        async with self._database.write() as tx:
            found = await _find(tx, webhook_id, tenant_id, to_change=True)
            await tx.execute(delete(webhook_deliveries).where(webhook_deliveries.c.endpoint_key == found.key))
            await tx.execute(delete(webhook_endpoints).where(webhook_endpoints.c.id == found.key))
            await self._note(tx, actor, "remove", found)

    def _check(self, wanted: WebhookEndpointInput) -> None:
        if objection := _objection(wanted.url, allows_private=self._allows_private):
            raise InvalidInput(objection, field="url")
        if unknown := sorted(set(wanted.types) - set(WEBHOOK_EVENT_TYPES)):
            choices = ", ".join(WEBHOOK_EVENT_TYPES)
            raise InvalidInput(f"{unknown[0][:40]!r} is not a webhook event type; choose from {choices}", field="types")

    async def _note(self, tx: Transaction, actor: str, action: str, about: WebhookEndpoint) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"webhook.{action}",
            subject=about.webhook_id,
            tenant_id=about.tenant_id,
            detail={"url": url_without_query(about.url)},
        )


def url_without_query(url: str) -> str:
    """For journals and logs: what follows the path may be a secret."""
    return url.partition("?")[0]


def endpoint_from_row(row: Any) -> WebhookEndpoint:
    fields = dict(row._mapping)
    fields["key"] = fields.pop("id")
    fields.pop("after_event")
    fields["types"] = tuple(orjson.loads(fields["types"]))
    fields["secrets"] = tuple(SigningSecret(**each) for each in orjson.loads(fields["secrets"]))
    return WebhookEndpoint(**fields)


def _objection(url: str, *, allows_private: bool) -> str | None:
    """What needs no look at the network; which addresses a name leads to is judged whenever it is connected to."""
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > MAX_URL_LENGTH:
        return f"must have at most {MAX_URL_LENGTH} printable ASCII characters"
    try:
        parsed = URL(url)
        is_web = parsed.scheme in ("https", "http") and bool(parsed.raw_host) and bool(parsed.port)
    except ValueError:
        is_web = False
    if not is_web:
        return "must be a web address, as https://example.com/hooks/mail"
    if parsed.user is not None or parsed.password is not None:
        return "must not hold a name or a password: requests are signed instead"
    if parsed.raw_fragment:
        return "must not hold a #: what follows it is never sent"
    return None if allows_private else _objection_of_strangers(parsed)


def _objection_of_strangers(url: URL) -> str | None:
    """Of those who may reach nothing that is not public."""
    if url.scheme == "http":
        return "must begin with https://, unless MAILWRIGHT_WEBHOOK_PRIVATE is set: it is told about people"
    if is_private_host(str(url.raw_host)):
        return "must not lead into a private network, unless MAILWRIGHT_WEBHOOK_PRIVATE is set"
    return None


async def _find(tx: Transaction, webhook_id: str, tenant_id: int | None, *, to_change: bool = False) -> WebhookEndpoint:
    if not is_uuid(webhook_id):
        raise NotFound
    e = webhook_endpoints.c
    mine = (
        e.webhook_id == webhook_id if tenant_id is None else and_(e.webhook_id == webhook_id, e.tenant_id == tenant_id)
    )
    query = select(webhook_endpoints).where(mine)
    rows = await tx.execute(query.with_for_update() if to_change else query)
    if not rows:
        raise NotFound
    return endpoint_from_row(rows[0])


async def _newest_event(tx: Transaction) -> int:
    return int((await tx.execute(select(func.coalesce(func.max(events.c.id), 0))))[0][0])


def _values(wanted: WebhookEndpointInput) -> dict[str, Any]:
    types = [each for each in WEBHOOK_EVENT_TYPES if each in wanted.types] or list(WEBHOOK_EVENT_TYPES)
    return {
        "url": wanted.url,
        "description": wanted.description,
        "types": orjson.dumps(types).decode(),
        "is_active": wanted.is_active,
    }


def _as_text(kept: Sequence[SigningSecret]) -> str:
    return orjson.dumps(list(kept)).decode()
