"""Tenants: organizations with their own data, API keys and limits. The tenant `default` always exists."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError
from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy import delete as delete_from
from sqlalchemy.exc import IntegrityError

from mailwright.domain import address
from mailwright.domain.campaign import NON_LIMIT_REASONS
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.frequency import parse_frequency_cap
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.domain.lanes import lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import Priority
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.working_hours import parse_working_hours
from mailwright.outbox import audit_log
from mailwright.outbox.defer import end_cap_deferrals, end_deferrals
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import api_keys, lane_deferrals, metadata, sessions, tenants
from mailwright.storage.tables import audit_log as audit_table

DEFAULT = "default"

# Names are part of URLs, file names and shell commands, so they must not need quoting.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

# Maximum weight. A lane's share is its weight divided by the sum of weights, so larger weights would round other shares
# to zero.
_MAX_WEIGHT = 1_000
_MAX_LIMIT = 2**31 - 1


class TenantExists(MailwrightError):
    """A tenant with this name already exists."""

    code = "TENANT_EXISTS"


class TenantInUse(NotPossibleNow):
    """The tenant has data."""

    code = "TENANT_IN_USE"


class TenantMissing(InvalidInput):
    """There are several tenants. Choose one, or all tenants."""

    code = "TENANT_MISSING"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. A limit of None means that the limit from the settings applies."""

    id: int
    name: str
    weight: int
    max_in_flight: int | None
    rate_per_second: int | None
    rate_per_hour: int | None
    daily_limit: int | None
    working_hours: str | None
    timezone: str | None
    created_at: Instant
    warmup_since: str | None = None  # An ISO date.
    interval_ms: int | None = None
    one_at_a_time: bool | None = None
    tracking: str | None = None  # The tracking mode that the tenant allows at most.
    tracking_host: str | None = None  # The base URL of tracked links.
    guard_rails: str | None = None  # The tenant's own thresholds, as JSON.
    frequency_cap: str | None = None  # `3 per 7 days`, or `off`.
    reply_forward_to: str | None = None  # The address that replies are forwarded to.
    sections: str = ""  # The sections of the dashboard that were switched on.
    brand: str | None = None  # The brand kit, as JSON; read it with `Brands`.
    requires_second_factor: bool = False  # Users without two-factor authentication must set it up first.
    approval_over: int | None = None  # Campaigns with more recipients need a second person; None: no campaign does.
    senders_restricted_since: Instant | None = None  # See `SenderPolicy`. Only sender domains change it.


class TenantChanges(TypedDict, total=False):
    weight: int
    max_in_flight: int | None
    rate_per_second: int | None
    rate_per_hour: int | None
    daily_limit: int | None
    working_hours: str | None
    timezone: str | None
    warmup_since: str | None
    interval_ms: int | None
    one_at_a_time: bool | None
    tracking: str | None
    tracking_host: str | None
    guard_rails: str | None
    frequency_cap: str | None
    reply_forward_to: str | None
    sections: str
    requires_second_factor: bool
    approval_over: int | None


async def create(
    database: Database, clock: Clock, name: str, *, actor: str | None = None, **limits: Unpack[TenantChanges]
) -> Tenant:
    """Create a tenant. If `actor` is given, record the action in the audit log."""
    if not _NAME.fullmatch(name):
        raise InvalidInput("A tenant name has 1 to 63 characters: a-z, 0-9 and -, for example acme-shop.", field="name")
    _check(limits)
    try:
        async with database.write() as tx:
            values = {"name": name, "created_at": clock.now(), **limits}
            [created] = await tx.execute(insert(tenants).values(**values).returning(tenants.c.id))
            if actor is not None:
                entry = {"actor": actor, "action": "tenant.create", "subject": name}
                await audit_log.record(tx, clock.now(), **entry, tenant_id=created.id, detail={**limits})
    except IntegrityError as error:
        raise TenantExists("The tenant {name} already exists.", field="name", name=name) from error
    return await find(database, name)


async def find(database: Database, name: str) -> Tenant:
    async with database.read() as tx:
        rows = await tx.execute(select(tenants).where(tenants.c.name == name))
    return _only(rows, name)


async def find_one_or_all(database: Database, name: str | None, *, all_tenants: bool = False) -> Tenant | None:
    """Find the tenant of a new user; None means all tenants. If there are several tenants, the caller must choose."""
    if name is not None and all_tenants:
        raise InvalidInput("Choose one tenant or all tenants, not both.", field="tenant")
    if name is not None:
        return await find(database, name)
    if not all_tenants and len(await list_all(database)) > 1:
        raise TenantMissing(field="tenant")
    return None


async def load_zone(database: Database, tenant_id: int, default: str) -> ZoneInfo:
    """Return the tenant's time zone, or the installation's if the tenant has none."""
    async with database.read() as tx:
        rows = await tx.execute(select(tenants.c.timezone).where(tenants.c.id == tenant_id))
    return ZoneInfo((rows[0].timezone if rows else None) or default)


async def find_tracking_host(database: Database, tenant_id: int) -> str | None:
    """Return the base URL of the tenant's tracked links; None if it is the public URL."""
    async with database.read() as tx:
        rows = await tx.execute(select(tenants.c.tracking_host).where(tenants.c.id == tenant_id))
    return rows[0].tracking_host if rows else None


async def list_all(database: Database) -> list[Tenant]:
    async with database.read() as tx:
        rows = await tx.execute(select(tenants).order_by(tenants.c.name))
    return [_tenant(row) for row in rows]


async def change(
    database: Database,
    name: str,
    *,
    actor: str | None = None,
    clock: Clock | None = None,
    **changes: Unpack[TenantChanges],
) -> Tenant:
    """Change the given fields. None removes a limit.

    Deferrals caused by limits end, and workers apply the new limits. If `actor` and `clock` are given, record the
    change in the audit log.
    """
    _check(changes)
    if not changes:
        return await find(database, name)
    async with database.write() as tx:
        rows = await tx.execute(update(tenants).where(tenants.c.name == name).values(**changes).returning(tenants))
        changed = _only(rows, name)
        await end_limit_deferrals(tx, changed.id)
        if "frequency_cap" in changes:
            first_lane, after = (lane_number(Priority.BULK, tenant_id) for tenant_id in (changed.id, changed.id + 1))
            await end_cap_deferrals(tx, first_lane, after - 1)
        if actor is not None and clock is not None:
            entry = {"actor": actor, "action": "tenant.change", "subject": name}
            await audit_log.record(tx, clock.now(), **entry, tenant_id=changed.id, detail={**changes})
    return changed


async def delete(database: Database, clock: Clock, name: str, *, actor: str) -> None:
    """Delete a tenant without data: one that was never used, and whose keys were revoked a minute ago.

    A tenant with data stays, because its messages, suppressions and unsubscribe links must stay valid. Requests with a
    key that was just revoked can still arrive in other processes for a second, hence the minute.
    """
    now = clock.now()
    async with database.write() as tx:
        rows = await tx.execute(select(tenants).where(tenants.c.name == name).with_for_update())
        tenant = _only(rows, name)
        if name == DEFAULT:
            raise TenantInUse("The tenant default always exists.")
        is_valid = api_keys.c.revoked_at.is_(None) | (api_keys.c.revoked_at > now - MINUTE)
        if await tx.execute(select(api_keys.c.id).where(api_keys.c.tenant_id == tenant.id, is_valid).limit(1)):
            raise TenantInUse(
                "The tenant {name} has API keys. Revoke them first, and delete the tenant a minute later.", name=name
            )
        for table in _OWNED:
            if await tx.execute(select(table.c.tenant_id).where(table.c.tenant_id == tenant.id).limit(1)):
                raise TenantInUse(
                    "The tenant {name} has data ({kind}), so it cannot be deleted. To stop it, revoke its API keys and "
                    "disable its users.",
                    name=name,
                    kind=table.name.replace("_", " "),
                )
        for table in (api_keys, sessions):
            await tx.execute(delete_from(table).where(table.c.tenant_id == tenant.id))
        await end_deferrals(tx, _is_lane_of(tenant.id))
        # A later tenant can get the same id, and must not see these entries.
        await tx.execute(update(audit_table).where(audit_table.c.tenant_id == tenant.id).values(tenant_id=None))
        await tx.execute(delete_from(tenants).where(tenants.c.id == tenant.id))
        await audit_log.record(tx, now, actor=actor, action="tenant.delete", subject=name, tenant_id=None)


# The tables whose rows show that a tenant was used.
_OWNED: Final = tuple(
    table
    for table in metadata.sorted_tables
    if "tenant_id" in table.c and table.name not in {"api_keys", "audit_log", "sessions"}
)


async def store_brand(tx: Transaction, tenant_id: int, brand: str) -> str:
    """Store a tenant's brand kit, as JSON, and return the name of the tenant."""
    rows = await tx.execute(
        update(tenants).where(tenants.c.id == tenant_id).values(brand=brand).returning(tenants.c.name)
    )
    if not rows:
        raise NotFound("There is no such tenant.")
    return str(rows[0].name)


async def end_limit_deferrals(tx: Transaction, tenant_id: int) -> None:
    """End the tenant's deferrals that limits caused. Pauses, schedules and cancellations stay."""
    await end_deferrals(tx, _is_lane_of(tenant_id), lane_deferrals.c.defer_reason.not_in(NON_LIMIT_REASONS))


def _is_lane_of(tenant_id: int) -> ColumnElement[bool]:
    """Return the condition of the deferred lanes of a tenant."""
    without_priority = lane_deferrals.c.lane % lane_number(1, 0)
    return without_priority.between(lane_number(0, tenant_id), lane_number(0, tenant_id + 1) - 1)


def _only(rows: Sequence[Any], name: str) -> Tenant:
    if not rows:
        raise NotFound("There is no tenant {name}.", field="name", name=name[:80])
    return _tenant(rows[0])


def _tenant(row: Any) -> Tenant:
    return Tenant(**row._mapping)


def _check(changes: TenantChanges) -> None:
    if not 1 <= changes.get("weight", 1) <= _MAX_WEIGHT:
        raise InvalidInput(
            "The weight must be a number from 1 to {max_weight}.", field="weight", max_weight=_MAX_WEIGHT
        )
    numbers = ("max_in_flight", "rate_per_second", "rate_per_hour", "daily_limit", "interval_ms")
    limits: dict[str, Any] = dict(changes)
    for name in numbers:
        if (limit := limits.get(name)) is not None and not 1 <= limit <= _MAX_LIMIT:
            raise InvalidInput("{name} must be a positive number, or null for no limit.", field=name, name=name)
    if (over := changes.get("approval_over")) is not None and not 0 <= over <= _MAX_LIMIT:
        raise InvalidInput(
            "approval_over must be a number of recipients from 0, or null for no approvals.", field="approval_over"
        )
    if (hours := changes.get("working_hours")) is not None:
        _check_hours(hours)
    if (zone := changes.get("timezone")) is not None:
        _check_zone(zone)
    if (since := changes.get("warmup_since")) is not None:
        _check_date(since)
    if (mode := changes.get("tracking")) is not None and mode not in set(TrackingMode):
        raise InvalidInput("The tracking must be one of {modes}.", field="tracking", modes=", ".join(TrackingMode))
    if (host := changes.get("tracking_host")) is not None:
        _check_host(host)
    if (rails := changes.get("guard_rails")) is not None:
        _check_guard_rails(rails)
    parse_frequency_cap(changes.get("frequency_cap"))
    if (forward_to := changes.get("reply_forward_to")) is not None:
        _check_address(forward_to)


def _check_hours(text: str) -> None:
    try:
        parse_working_hours(text)
    except ValueError as error:
        raise InvalidInput("Working hours are invalid: {error}.", field="working_hours", error=error) from error


def _check_date(text: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            "The start of the warm-up must be a date such as 2027-01-15.", field="warmup_since"
        ) from error


def _check_host(url: str) -> None:
    parts = urlsplit(url)
    is_address = parts.scheme in ("https", "http") and parts.hostname and url == f"{parts.scheme}://{parts.netloc}"
    if not is_address or "@" in parts.netloc or not url.isascii() or not url.isprintable():
        raise InvalidInput(
            "The tracking host must be a URL without a path, for example https://click.example.com.",
            field="tracking_host",
        )


def _check_guard_rails(text: str) -> None:
    try:
        GuardRailSettings.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f".{part}" for part in first["loc"])
        example = '{"complaintStopPercent": 0.2}'
        raise InvalidInput(
            "{first}. Guard rails are JSON such as {example}.",
            field=f"guardRails{where}",
            first=first["msg"],
            example=example,
        ) from error


def _check_address(text: str) -> None:
    try:
        address.parse(text)
    except address.InvalidAddress as error:
        raise InvalidInput(
            "The address for replies is invalid: {error}. Use an address such as support@example.com.",
            field="reply_forward_to",
            error=error,
        ) from error


def _check_zone(text: str) -> None:
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            "The time zone must be an IANA name such as Europe/Lisbon or UTC.", field="timezone"
        ) from error
