"""Providers with credentials of their own, and the routes that say which tenant and source uses which provider."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION, ProviderRoutes
from mailwright.outbox.audit_log import record
from mailwright.outbox.tenants import end_limit_deferrals
from mailwright.storage.database import Database, Transaction
from mailwright.storage.secret_box import SecretKeyInvalid
from mailwright.storage.statements import statement
from mailwright.storage.tables import provider_configurations, provider_routes, report_sources, tenants

STORE_PROVIDER_ROUTE = statement(__package__, "store_provider_route")


class ProviderExists(NotPossibleNow):
    """A provider with this name already exists."""

    code = "PROVIDER_EXISTS"


class ProviderInUse(NotPossibleNow):
    """Routes or report sources name this provider."""

    code = "PROVIDER_IN_USE"


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """A stored provider. `settings` are the texts by field of `Settings`."""

    name: str
    kind: str
    settings: Mapping[str, str] = field(repr=False)
    created_at: Instant
    updated_at: Instant
    updated_by: str
    problem: str | None = None  # Why the settings cannot be read.


@dataclass(frozen=True, slots=True)
class StoredRoute:
    """A route of a tenant. `source` None: every source without a route. `provider` None: that of the installation."""

    tenant_id: int
    tenant: str
    source: Source | None
    provider: str | None
    updated_at: Instant
    updated_by: str


@dataclass(frozen=True, slots=True)
class StoredProviders:
    """All providers and routes as they were at one moment. `version` differs for different contents."""

    configurations: tuple[ProviderConfiguration, ...] = ()
    routes: tuple[StoredRoute, ...] = ()
    version: str = ""

    @property
    def rules(self) -> ProviderRoutes:
        return ProviderRoutes({(route.tenant_id, route.source): route.provider for route in self.routes})


async def load_providers(database: Database) -> StoredProviders:
    r, c = provider_routes.c, provider_configurations.c
    routes = select(*r, tenants.c.name.label("tenant")).join(tenants, tenants.c.id == r.tenant_id)
    async with database.read() as tx:
        stored = await tx.execute(select(provider_configurations).order_by(c.name))
        routed = await tx.execute(routes.order_by(tenants.c.name, r.source))
    if not stored and not routed:
        return StoredProviders()
    digest = hashlib.sha256()
    for row in stored:
        digest.update(f"{row.name}\0{row.kind}\0{row.settings}\0".encode())
    for row in routed:
        digest.update(f"{row.tenant_id}\0{row.source}\0{row.provider}\0".encode())
    return StoredProviders(
        tuple(_configuration(database, row) for row in stored),
        tuple(_route(row) for row in routed),
        digest.hexdigest()[:16],
    )


async def load_routes(tx: Transaction) -> ProviderRoutes:
    rows = await tx.execute(select(provider_routes))
    return ProviderRoutes({(row.tenant_id, _source(row)): _provider(row) for row in rows})


async def find_configuration(database: Database, name: str) -> ProviderConfiguration:
    async with database.read() as tx:
        return _configuration(database, await _find(tx, name, locks=False))


async def create_configuration(
    database: Database, clock: Clock, name: str, kind: str, settings: Mapping[str, str], *, actor: str
) -> ProviderConfiguration:
    """Store a provider. The audit log gets the names of its settings, but no value."""
    now = clock.now()
    try:
        async with database.write() as tx:
            values = {"created_at": now, "updated_at": now, "updated_by": actor}
            text = await _encrypted(database, tx, settings)
            await tx.execute(insert(provider_configurations).values(name=name, kind=kind, settings=text, **values))
            detail = {"kind": kind, "settings": sorted(settings)}
            await record(tx, now, actor=actor, action="provider.create", subject=name, tenant_id=None, detail=detail)
    except IntegrityError as error:
        raise ProviderExists(f"There is already a provider {name}.", field="name") from error
    return await find_configuration(database, name)


async def edit_configuration(
    database: Database, clock: Clock, name: str, settings: Mapping[str, str], *, changed: Sequence[str], actor: str
) -> ProviderConfiguration:
    """Replace the settings of a provider. `changed` names those that differ, for the audit log."""
    now = clock.now()
    async with database.write() as tx:
        await _find(tx, name)
        values = {"settings": await _encrypted(database, tx, settings), "updated_at": now, "updated_by": actor}
        table = provider_configurations
        await tx.execute(update(table).where(table.c.name == name).values(**values))
        detail = {"settings": sorted(changed)}
        await record(tx, now, actor=actor, action="provider.edit", subject=name, tenant_id=None, detail=detail)
    return await find_configuration(database, name)


async def delete_configuration(database: Database, clock: Clock, name: str, *, actor: str) -> None:
    """Delete a provider. Refuse while something names it: its messages must not go to another provider."""
    table, now = provider_configurations, clock.now()
    async with database.write() as tx:
        if not await tx.execute(delete(table).where(table.c.name == name).returning(table.c.name)):
            raise _not_found(name)
        if await tx.execute(select(provider_routes.c.source).where(provider_routes.c.provider == name).limit(1)):
            raise ProviderInUse(f"Routes name the provider {name}. Change or delete these routes first.")
        if await tx.execute(select(report_sources.c.id).where(report_sources.c.provider == name).limit(1)):
            raise ProviderInUse(f"A report source names the provider {name}. Delete the report source first.")
        await record(tx, now, actor=actor, action="provider.delete", subject=name, tenant_id=None)


async def set_route(
    database: Database, clock: Clock, tenant_id: int, source: Source | None, provider: str | None, *, actor: str
) -> None:
    """Send the messages of a tenant's source through a provider; None is the provider of the installation."""
    now, stored = clock.now(), source or ALL_SOURCES
    async with database.write() as tx:
        if provider is not None:
            await _find(tx, provider)
        values = {"tenant_id": tenant_id, "source": stored, "provider": provider or INSTALLATION}
        await tx.run(STORE_PROVIDER_ROUTE, **values, now=now, actor=actor)
        await end_limit_deferrals(tx, tenant_id)
        detail = {"source": stored, "provider": provider or INSTALLATION}
        entry = {"actor": actor, "action": "provider_route.set", "subject": stored}
        await record(tx, now, **entry, tenant_id=tenant_id, detail=detail)


async def delete_route(database: Database, clock: Clock, tenant_id: int, source: Source | None, *, actor: str) -> None:
    table, now, stored = provider_routes, clock.now(), source or ALL_SOURCES
    wanted = (table.c.tenant_id == tenant_id) & (table.c.source == stored)
    async with database.write() as tx:
        if not await tx.execute(delete(table).where(wanted).returning(table.c.source)):
            raise NotFound("The tenant has no route for this source.", field="source")
        await end_limit_deferrals(tx, tenant_id)
        entry = {"actor": actor, "action": "provider_route.delete", "subject": stored}
        await record(tx, now, **entry, tenant_id=tenant_id, detail={"source": stored})


async def _encrypted(database: Database, tx: Transaction, settings: Mapping[str, str]) -> str:
    return await database.secret_box.encrypt(tx, orjson.dumps(dict(settings)).decode())


async def _find(tx: Transaction, name: str, *, locks: bool = True) -> Any:
    """Find a provider. `locks`: keep others from deleting it until the transaction ends."""
    table = provider_configurations
    query = select(table).where(table.c.name == name)
    rows = await tx.execute(query.with_for_update() if locks else query)
    if not rows:
        raise _not_found(name)
    return rows[0]


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no provider {name[:80]}. `mailwright provider list` lists them.", field="provider")


def _configuration(database: Database, row: Any) -> ProviderConfiguration:
    settings, problem = {}, None
    try:
        settings = orjson.loads(database.secret_box.decrypt(row.settings))
    except SecretKeyInvalid as error:
        problem = str(error)
    dates = row.created_at, row.updated_at, row.updated_by
    return ProviderConfiguration(row.name, row.kind, settings, *dates, problem=problem)


def _route(row: Any) -> StoredRoute:
    return StoredRoute(row.tenant_id, row.tenant, _source(row), _provider(row), row.updated_at, row.updated_by)


def _source(row: Any) -> Source | None:
    return None if row.source == ALL_SOURCES else Source(row.source)


def _provider(row: Any) -> str | None:
    return None if row.provider == INSTALLATION else str(row.provider)
