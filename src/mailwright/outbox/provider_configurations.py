"""Named providers with their own credentials, and the routes that choose the provider for each tenant and source."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, Literal

import orjson
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import token
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION, ProviderRoutes
from mailwright.outbox.audit_log import record
from mailwright.outbox.defer import end_provider_deferrals
from mailwright.outbox.provider_limits import end_provider_limit_deferrals
from mailwright.outbox.tenants import end_limit_deferrals
from mailwright.storage.database import Database, Transaction
from mailwright.storage.secret_box import SecretKeyInvalid
from mailwright.storage.statements import statement
from mailwright.storage.tables import provider_configurations, provider_routes, report_sources, tenants

STORE_PROVIDER_ROUTE = statement(__package__, "store_provider_route")
COUNT_UNFINISHED_OF_PROVIDER = statement(__package__, "count_unfinished_of_provider")
DETACH_FAILED_FROM_PROVIDER = statement(__package__, "detach_failed_from_provider")

# The suffix of the provider name in failed messages that a no longer used server may have. No real name ends like this.
FORMER_SUFFIX: Final = ":former"


class ProviderExists(NotPossibleNow):
    """A provider with this name already exists."""

    code = "PROVIDER_EXISTS"


class ProviderInUse(NotPossibleNow):
    """Routes or report sources name this provider."""

    code = "PROVIDER_IN_USE"


class ProviderHasMessages(NotPossibleNow):
    """The server of this provider may have unfinished messages, which must not go to another server."""

    code = "PROVIDER_HAS_MESSAGES"


class ProviderChanged(NotPossibleNow):
    """Somebody has changed this provider in the meantime."""

    code = "PROVIDER_CHANGED"


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """A stored provider. `settings` has the values as text, by the field names of `Settings`.

    `account` is a random number that changes with the server or the account, and with nothing else.
    """

    name: str
    kind: str
    settings: Mapping[str, str] = field(repr=False)
    account: int
    created_at: Instant
    updated_at: Instant
    updated_by: str
    problem: str | None = None  # Why the settings cannot be read.


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """New settings of a provider. `keeps_account`: the server and the account stay the same."""

    settings: Mapping[str, str] = field(repr=False)
    keeps_account: bool


@dataclass(frozen=True, slots=True)
class StoredRoute:
    """A route of a tenant.

    `source`: None means every source without its own route. `provider`: None means the provider of the installation.
    """

    tenant_id: int
    tenant: str
    source: Source | None
    provider: str | None
    updated_at: Instant
    updated_by: str


@dataclass(frozen=True, slots=True)
class StoredProviders:
    """All providers and routes at one moment. `version` changes with every change of the content."""

    configurations: tuple[ProviderConfiguration, ...] = ()
    routes: tuple[StoredRoute, ...] = ()
    version: str = ""

    @property
    def changed_at(self) -> Instant:
        changes = [each.updated_at for each in self.configurations] + [each.updated_at for each in self.routes]
        return max(changes, default=0)

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


async def load_names(tx: Transaction) -> frozenset[str]:
    return frozenset(row.name for row in await tx.execute(select(provider_configurations.c.name)))


async def find_configuration(database: Database, name: str) -> ProviderConfiguration:
    async with database.read() as tx:
        return _configuration(database, await _find(tx, name))


async def create_configuration(
    database: Database, clock: Clock, name: str, kind: str, settings: Mapping[str, str], *, actor: str
) -> ProviderConfiguration:
    """Store a provider. The audit log gets the names of its settings, but no value."""
    now = clock.now()
    try:
        async with database.write() as tx:
            values = {"account": token(), "created_at": now, "updated_at": now, "updated_by": actor}
            text = await _encrypted(database, tx, settings)
            await tx.execute(insert(provider_configurations).values(name=name, kind=kind, settings=text, **values))
            detail = {"kind": kind, "settings": sorted(settings)}
            await record(tx, now, actor=actor, action="provider.create", subject=name, tenant_id=None, detail=detail)
    except IntegrityError as error:
        raise ProviderExists("There is already a provider {name}.", field="name", name=name) from error
    return await find_configuration(database, name)


async def edit_configuration(
    database: Database,
    clock: Clock,
    name: str,
    change: Callable[[ProviderConfiguration], ProviderChange],
    *,
    actor: str,
    seen_at: Instant | None = None,
) -> ProviderConfiguration:
    """Change the settings of a provider. `change` gets the stored ones in the transaction, so that none is lost.

    `seen_at`: refuse if somebody has changed the provider since then.
    """
    table, now = provider_configurations, clock.now()
    async with database.write() as tx:
        found = _configuration(database, await _find(tx, name, keep="row"))
        if seen_at is not None and found.updated_at != seen_at:
            raise ProviderChanged(
                "The provider {name} was just changed by {updated_by}. Reload it and repeat your change.",
                updated_by=found.updated_by,
                name=name,
            )
        wanted = change(found)
        texts = found.settings
        changed = sorted(each for each in {*texts, *wanted.settings} if texts.get(each) != wanted.settings.get(each))
        if not changed:
            return found
        values: dict[str, Any] = {"settings": await _encrypted(database, tx, wanted.settings)}
        if not wanted.keeps_account:
            await _leave_account(tx, name)
            values["account"] = token()
        await end_provider_limit_deferrals(tx)
        # A later time than before, so that `seen_at` notices each change.
        values |= {"updated_at": max(now, found.updated_at + 1), "updated_by": actor}
        await tx.execute(update(table).where(table.c.name == name).values(**values))
        detail = {"settings": changed}
        await record(tx, now, actor=actor, action="provider.edit", subject=name, tenant_id=None, detail=detail)
    return await find_configuration(database, name)


async def delete_configuration(database: Database, clock: Clock, name: str, *, actor: str) -> None:
    """Delete a provider.

    Refuse while a route, a report source or an unfinished message refers to it, because its messages must not go to
    another provider.
    """
    table, now = provider_configurations, clock.now()
    async with database.write() as tx:
        if not await tx.execute(delete(table).where(table.c.name == name).returning(table.c.name)):
            raise _not_found(name)
        if await tx.execute(select(provider_routes.c.source).where(provider_routes.c.provider == name).limit(1)):
            raise ProviderInUse("Routes name the provider {name}. Change or delete these routes first.", name=name)
        if await tx.execute(select(report_sources.c.id).where(report_sources.c.provider == name).limit(1)):
            raise ProviderInUse("A report source names the provider {name}. Delete the report source first.", name=name)
        await _leave_account(tx, name)
        await record(tx, now, actor=actor, action="provider.delete", subject=name, tenant_id=None)


async def _leave_account(tx: Transaction, name: str) -> None:
    """Refuse while the server of a provider may have unfinished messages, because a new server under the same name must
    not get them. The caller has locked the provider, so no attempt begins during this check. Failed messages come
    first, so that a message that is retried at the same moment is either renamed or counted.
    """
    await tx.count(DETACH_FAILED_FROM_PROVIDER, provider=name, former=f"{name}{FORMER_SUFFIX}")
    [row] = await tx.run(COUNT_UNFINISHED_OF_PROVIDER, provider=name)
    if not (total := row.sending + row.in_doubt + row.waiting):
        return
    raise ProviderHasMessages(
        "The server of {name} may have {total} unfinished messages, which must not go to another server: {in_doubt} "
        "in doubt, {sending} being sent and {waiting} waiting for another attempt. Resolve those in doubt and wait for "
        "the others, or create a provider with another name and route to it. You can change a password or token of the "
        "same account now.",
        name=name,
        total=total,
        in_doubt=row.in_doubt,
        sending=row.sending,
        waiting=row.waiting,
    )


async def set_route(
    database: Database, clock: Clock, tenant_id: int, source: Source | None, provider: str | None, *, actor: str
) -> None:
    """Send the messages of a tenant's source through a provider; None is the provider of the installation."""
    now, stored = clock.now(), source or ALL_SOURCES
    async with database.write() as tx:
        if provider is not None:
            await _find(tx, provider, keep="name")
        values = {"tenant_id": tenant_id, "source": stored, "provider": provider or INSTALLATION}
        await tx.run(STORE_PROVIDER_ROUTE, **values, now=now, actor=actor)
        await end_limit_deferrals(tx, tenant_id)
        await end_provider_deferrals(tx, tenant_id, now)
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
        await end_provider_deferrals(tx, tenant_id, now)
        entry = {"actor": actor, "action": "provider_route.delete", "subject": stored}
        await record(tx, now, **entry, tenant_id=tenant_id, detail={"source": stored})


async def _encrypted(database: Database, tx: Transaction, settings: Mapping[str, str]) -> str:
    return await database.secret_box.encrypt(tx, orjson.dumps(dict(settings)).decode())


async def _find(tx: Transaction, name: str, keep: Literal["no", "row", "name"] = "no") -> Any:
    """Find a provider. `keep` locks the row until the transaction ends, against changes or only against deletion."""
    query = select(provider_configurations).where(provider_configurations.c.name == name)
    if keep != "no":
        query = query.with_for_update(read=keep == "name", key_share=keep == "name")
    rows = await tx.execute(query)
    if not rows:
        raise _not_found(name)
    return rows[0]


def _not_found(name: str) -> NotFound:
    return NotFound("There is no provider {name}.", field="provider", name=name[:80])


def _configuration(database: Database, row: Any) -> ProviderConfiguration:
    settings, problem = {}, None
    try:
        settings = orjson.loads(database.secret_box.decrypt(row.settings))
    except SecretKeyInvalid as error:
        problem = str(error)
    dates = row.created_at, row.updated_at, row.updated_by
    return ProviderConfiguration(row.name, row.kind, settings, row.account, *dates, problem=problem)


def _route(row: Any) -> StoredRoute:
    return StoredRoute(row.tenant_id, row.tenant, _source(row), _provider(row), row.updated_at, row.updated_by)


def _source(row: Any) -> Source | None:
    return None if row.source == ALL_SOURCES else Source(row.source)


def _provider(row: Any) -> str | None:
    return None if row.provider == INSTALLATION else str(row.provider)
