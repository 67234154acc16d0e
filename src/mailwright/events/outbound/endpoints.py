"""Webhook endpoints of a tenant: URL, event types and signing secrets. A secret is shown only once."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import and_, delete, func, insert, select, update
from yarl import URL

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import is_private_host
from mailwright.domain.translation import lazy_gettext
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.mailwright import MailwrightFormat
from mailwright.events.outbound.formats.webhook_format import WebhookFormat
from mailwright.events.outbound.outbound_event import CONFIRMATION
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import events, webhook_deliveries, webhook_endpoints

MAX_ENDPOINTS: Final = 20
MAX_URL_LENGTH: Final = 2_000
# How long requests are also signed with a replaced secret.
SECRET_OVERLAP: Final[Instant] = DAY


class TooManyWebhooks(NotPossibleNow):
    """A tenant can have at most 20 webhooks."""

    code = "TOO_MANY_WEBHOOKS"


@dataclass(frozen=True, slots=True)
class SigningSecret:
    secret: str  # encrypted
    until: Instant | None = None  # None for the current secret

    def is_valid(self, now: Instant) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    key: int
    webhook_id: str
    tenant_id: int
    url: str
    description: str
    types: tuple[str, ...]
    format: str
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
    def shape(self) -> WebhookFormat:
        """The format of its requests."""
        return FORMATS[self.format]

    @property
    def state(self) -> str:
        """The status of the endpoint."""
        if not self.is_active:
            return "off"
        if self.paused_at is not None:
            return "paused"
        return "failing" if self.failures else "active"

    def keys(self, now: Instant) -> list[str]:
        """Return the secrets that sign requests now, newest first. They are encrypted."""
        return [secret.secret for secret in self.secrets if secret.is_valid(now)]


@dataclass(frozen=True, slots=True)
class WebhookEndpointInput:
    """The editable fields of an endpoint."""

    url: str
    types: tuple[str, ...] = ()  # empty means all
    description: str = ""
    is_active: bool = True
    format: str = MailwrightFormat.name  # never changes, because each format has its own kind of secret


class WebhookEndpoints:
    def __init__(self, database: Database, clock: Clock, *, allows_private: bool = False) -> None:
        """Create the store. `allows_private` permits http and private addresses, for receivers in the same network."""
        self._database = database
        self._clock = clock
        self._allows_private = allows_private

    async def create(self, tenant_id: int, values: WebhookEndpointInput, *, actor: str) -> tuple[WebhookEndpoint, str]:
        """Create an endpoint for events from now on. Return it with its secret, which is not shown again."""
        self._check_url(values)
        columns = _columns(values, values.format)
        now, shape = self._clock.now(), FORMATS[values.format]
        secret = await asyncio.to_thread(shape.make_secret)
        async with self._database.write() as tx:
            mine = webhook_endpoints.c.tenant_id == tenant_id
            count = (await tx.execute(select(func.count()).select_from(webhook_endpoints).where(mine)))[0][0]
            if count >= MAX_ENDPOINTS:
                raise TooManyWebhooks
            encrypted = await self._database.secret_box.encrypt(tx, secret.stored)
            rows = await tx.execute(
                insert(webhook_endpoints)
                .values(
                    **columns,
                    format=values.format,
                    webhook_id=uuid7(now),
                    tenant_id=tenant_id,
                    secrets=_secrets_json([SigningSecret(encrypted)]),
                    after_event=await _newest_event(tx),
                    failures=0,
                    deferred_until=0,
                    created_at=now,
                    updated_at=now,
                )
                .returning(webhook_endpoints)
            )
            endpoint = endpoint_from_row(rows[0])
            if shape.asks_to_confirm:
                await insert_delivery(tx, endpoint, CONFIRMATION, now)
            await self._audit(tx, actor, "create", endpoint)
        return endpoint, secret.shown

    async def list_all(self, tenant_id: int) -> list[WebhookEndpoint]:
        """Return the endpoints of a tenant, oldest first."""
        mine = webhook_endpoints.c.tenant_id == tenant_id
        async with self._database.read() as tx:
            rows = await tx.execute(select(webhook_endpoints).where(mine).order_by(webhook_endpoints.c.id))
        return [endpoint_from_row(row) for row in rows]

    async def find(self, webhook_id: str, *, tenant_id: int | None) -> WebhookEndpoint:
        """Find an endpoint. If `tenant_id` is None, which is for operators only, search all tenants."""
        async with self._database.read() as tx:
            return await _find(tx, webhook_id, tenant_id)

    async def edit(
        self, webhook_id: str, values: WebhookEndpointInput, *, tenant_id: int | None, actor: str
    ) -> WebhookEndpoint:
        """Replace the editable fields. If the endpoint is paused, resume it and send its pending deliveries first."""
        self._check_url(values)
        async with self._database.write() as tx:
            before = await _find(tx, webhook_id, tenant_id, for_update=True)
            changes: dict[str, Any] = {**_columns(values, before.format), "paused_at": None, "pause_reason": None}
            changes |= {"failing_since": None, "failures": 0, "deferred_until": 0, "updated_at": self._clock.now()}
            if before.state in ("off", "paused") and values.is_active:
                changes["after_event"] = await _newest_event(tx)
            await tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == before.key).values(**changes))
            after = await _find(tx, webhook_id, tenant_id)
            await self._audit(tx, actor, "edit", after)
        return after

    async def rotate(self, webhook_id: str, *, tenant_id: int | None, actor: str) -> tuple[WebhookEndpoint, str]:
        """Create a new secret.

        If the format allows it, requests are also signed with the old one for a day, so that receivers can switch.
        """
        now, shape = self._clock.now(), (await self.find(webhook_id, tenant_id=tenant_id)).shape
        secret = await asyncio.to_thread(shape.make_secret)
        async with self._database.write() as tx:
            before = await _find(tx, webhook_id, tenant_id, for_update=True)
            previous = [
                SigningSecret(old.secret, old.until or now + SECRET_OVERLAP)
                for old in before.secrets
                if old.is_valid(now) and before.shape.signs_with_all
            ]
            encrypted = await self._database.secret_box.encrypt(tx, secret.stored)
            # Limit the number of signatures of a request if the secret is rotated often.
            changes = {"secrets": _secrets_json([SigningSecret(encrypted), *previous[:2]]), "updated_at": now}
            await tx.execute(update(webhook_endpoints).where(webhook_endpoints.c.id == before.key).values(**changes))
            after = await _find(tx, webhook_id, tenant_id)
            await self._audit(tx, actor, "rotate", after)
        return after, secret.shown

    async def remove(self, webhook_id: str, *, tenant_id: int | None, actor: str) -> None:
        """Delete an endpoint and all its deliveries."""
        async with self._database.write() as tx:
            endpoint = await _find(tx, webhook_id, tenant_id, for_update=True)
            await tx.execute(delete(webhook_deliveries).where(webhook_deliveries.c.endpoint_key == endpoint.key))
            await tx.execute(delete(webhook_endpoints).where(webhook_endpoints.c.id == endpoint.key))
            await self._audit(tx, actor, "remove", endpoint)

    def _check_url(self, values: WebhookEndpointInput) -> None:
        if error := _url_error(values.url, allows_private=self._allows_private):
            raise InvalidInput(error, field="url")

    async def _audit(self, tx: Transaction, actor: str, action: str, endpoint: WebhookEndpoint) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"webhook.{action}",
            subject=endpoint.webhook_id,
            tenant_id=endpoint.tenant_id,
            detail={"url": url_without_query(endpoint.url)},
        )


async def insert_delivery(tx: Transaction, endpoint: WebhookEndpoint, type_: str, now: Instant) -> str:
    """Insert a delivery that belongs to no event, and return its ID."""
    delivery_id = uuid7(now)
    await tx.execute(
        insert(webhook_deliveries).values(
            delivery_id=delivery_id,
            endpoint_key=endpoint.key,
            tenant_id=endpoint.tenant_id,
            event_at=now,
            type=type_,
            status="PENDING",
            due_at=now,
            attempts=0,
            log="[]",
            created_at=now,
        )
    )
    return delivery_id


def url_without_query(url: str) -> str:
    """Remove the query from a URL for logs and the audit log, because it may contain a secret."""
    return url.partition("?")[0]


def endpoint_from_row(row: Any) -> WebhookEndpoint:
    fields = dict(row._mapping)
    fields["key"] = fields.pop("id")
    fields.pop("after_event")
    fields["types"] = tuple(orjson.loads(fields["types"]))
    fields["secrets"] = tuple(SigningSecret(**secret) for secret in orjson.loads(fields["secrets"]))
    return WebhookEndpoint(**fields)


def _url_error(url: str, *, allows_private: bool) -> str | None:
    """Validate a URL without network access. Resolved addresses are checked at every connection."""
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > MAX_URL_LENGTH:
        return lazy_gettext("must have at most {most} printable ASCII characters", most=MAX_URL_LENGTH)
    try:
        parsed = URL(url)
        is_web = parsed.scheme in ("https", "http") and bool(parsed.raw_host) and bool(parsed.port)
    except ValueError:
        is_web = False
    if not is_web:
        return lazy_gettext("must be a web address such as https://example.com/hooks/mail")
    if parsed.user is not None or parsed.password is not None:
        return lazy_gettext("must not contain a user name or password; requests are signed instead")
    if parsed.raw_fragment:
        return lazy_gettext("must not contain a fragment (#), which is never sent")
    return None if allows_private else _public_url_error(parsed)


def _public_url_error(url: URL) -> str | None:
    """Validate a URL that must be public."""
    if url.scheme == "http":
        return lazy_gettext(
            "must begin with https:// unless MAILWRIGHT_WEBHOOK_PRIVATE is set, because events contain personal data"
        )
    if is_private_host(str(url.raw_host)):
        return lazy_gettext("must not point to a private network unless MAILWRIGHT_WEBHOOK_PRIVATE is set")
    return None


async def _find(
    tx: Transaction, webhook_id: str, tenant_id: int | None, *, for_update: bool = False
) -> WebhookEndpoint:
    if not is_uuid(webhook_id):
        raise NotFound("There is no webhook with this id.")
    e = webhook_endpoints.c
    mine = (
        e.webhook_id == webhook_id if tenant_id is None else and_(e.webhook_id == webhook_id, e.tenant_id == tenant_id)
    )
    query = select(webhook_endpoints).where(mine)
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no webhook with this id.")
    return endpoint_from_row(rows[0])


async def _newest_event(tx: Transaction) -> int:
    return int((await tx.execute(select(func.coalesce(func.max(events.c.id), 0))))[0][0])


def _columns(values: WebhookEndpointInput, format_name: str) -> dict[str, Any]:
    return {
        "url": values.url,
        "description": values.description,
        "types": orjson.dumps(_checked_types(values.types, format_name)).decode(),
        "is_active": values.is_active,
    }


def _checked_types(wanted: Sequence[str], format_name: str) -> Sequence[str]:
    """Return the wanted event types in their order; all that the format can express if none is named."""
    if format_name not in FORMATS:
        raise InvalidInput(
            "{unknown} is not a webhook format; choose from {choices}",
            field="format",
            unknown=repr(format_name[:40]),
            choices=", ".join(FORMATS),
        )
    known = FORMATS[format_name].types
    if unknown := sorted(set(wanted) - set(known)):
        raise InvalidInput(
            "{unknown} is not an event type of webhooks in the format {format}; choose from {choices}",
            field="types",
            unknown=repr(unknown[0][:40]),
            format=format_name,
            choices=", ".join(known),
        )
    return [each for each in known if each in wanted] or known


def _secrets_json(secrets: Sequence[SigningSecret]) -> str:
    return orjson.dumps(list(secrets)).decode()
