"""Providers with credentials of their own, and which tenants use them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    PLATFORM_MANAGE,
    PLATFORM_READ,
    Argument,
    Aside,
    Badge,
    Line,
    Moment,
    Noun,
    Table,
)
from mailwright.app.named_providers import ProviderService, fields_of, is_secret, named_provider
from mailwright.app.provider_test import advice_for
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION, parse_source
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import variable_of
from mailwright.outbox import tenants
from mailwright.outbox.provider_configurations import ProviderConfiguration, StoredProviders, StoredRoute
from mailwright.outbox.quotas import ProviderQuota, load_quotas
from mailwright.outbox.workers import WorkerPresence, learned_rate_of, presence_by_provider
from mailwright.providers.route import providers_of
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "provider",
    "Providers with credentials of their own, and which tenants use them.",
    "/v1/providers",
    reads=PLATFORM_READ,
    takes_password=True,
    parameters={"provider_name": ("NAME", "The name of the provider, for example acme-postmark.")},
)

_Name = Annotated[str, Field(min_length=1, max_length=80)]
_Text = Annotated[str, Field(max_length=20_000)]
_SourceName = Annotated[_Name, Field(description=f"Only messages of this source: {', '.join(Source)}.")]


class ProviderRequest(RequestModel):
    """A named provider with its own credentials.

    `settings`: the settings of its kind, by the names of their variables.
    """

    name: Annotated[_Name, Field(description="acme-postmark")]
    kind: Annotated[_Name, Field(description="postmark")]
    settings: Annotated[dict[_Name, _Text], Field(max_length=40, default_factory=dict)]


class ProviderChangeRequest(RequestModel):
    """The settings to change; null removes a setting. The others stay."""

    settings: Annotated[dict[_Name, _Text | None], Field(max_length=40)]


class ProviderRouteRequest(RequestModel):
    """The provider that sends the messages of a tenant's source. `installation`: the provider of the installation."""

    tenant: Annotated[_Name, Field(description="Tenant name.")]
    source: _SourceName = ALL_SOURCES
    provider: Annotated[
        _Name, Argument("NAME"), Field(description=f"The provider; {INSTALLATION} for that of the installation.")
    ]


class ProviderRouteQuery(RequestModel):
    tenant: Annotated[_Name, Field(description="Tenant name.")]
    source: _SourceName = ALL_SOURCES


class ProviderCheckResponse(ResponseModel):
    """The result of a connection test. `advice` is the next step, if it is known."""

    is_ok: bool
    summary: str
    advice: str


class QuotaResponse(ResponseModel):
    """The quota that the provider last reported, and how much has been used since.

    `isRateKept`: false if the provider has not confirmed its send rate for too long, so that it no longer applies.
    """

    remaining: int | None
    sent_since: int
    limit_per_day: int | None
    rate_per_second: int | None
    is_rate_kept: bool
    missed: int
    detail: str
    synced_at: Time
    failed_at: Time | None
    failure: str | None


class ProviderQuotaResponse(QuotaResponse):
    """The quota of a provider. `failedSyncs`: consecutive failures, the same as `missed`."""

    provider: str
    failed_syncs: int


class ProviderResponse(ResponseModel):
    """`left_alone`: no worker uses the provider until `unavailableUntil`. `unused`: no worker has it in its route.

    `learnedRate`: the total rate of all workers in messages per second while the provider throttles them.
    """

    provider: str
    status: Literal["ok", "left_alone", "unused"]
    workers: int
    unavailable_until: Time | None
    unavailable_reason: str | None
    learned_rate: float | None
    quota: QuotaResponse | None


class ProviderRouteResponse(ResponseModel):
    """`source`: `all` for every source of the tenant without its own route.

    `provider`: `installation` for the provider of the installation.
    """

    tenant: str
    source: str
    provider: str
    updated_at: Time
    updated_by: str


class ProviderSettingResponse(ResponseModel):
    """A setting of a provider. A secret has no `value`."""

    name: str
    value: str | None
    is_secret: bool


class NamedProviderResponse(ResponseModel):
    """`problem`: why the provider cannot be used. Its messages wait until that is corrected.

    `webhookUrl`: where the provider reports events, if it can.
    """

    name: str
    kind: str
    settings: list[ProviderSettingResponse]
    problem: str | None
    webhook_url: str | None
    routes: list[ProviderRouteResponse]
    created_at: Time
    updated_at: Time
    updated_by: str

    @property
    def used_by(self) -> str:
        uses = (each.tenant if each.source == ALL_SOURCES else f"{each.tenant} ({each.source})" for each in self.routes)
        return ", ".join(uses) or "nobody"


class ProviderRouteListResponse(ResponseModel):
    routes: list[ProviderRouteResponse]


class ProviderListResponse(ResponseModel):
    """`providers`: those of the installation, then the named ones. `named`: how these are configured and used."""

    providers: list[ProviderResponse]
    named: list[NamedProviderResponse]


_BY_DEFAULT: Final = {"tenant": tenants.DEFAULT}


def _installation(found: ProviderListResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    named = {each.name for each in found.named}
    own = ", ".join(each.provider for each in found.providers if each.provider not in named)
    yield f"Everything else goes through the installation's provider ({own})."


@noun.get(
    command="list",
    help="List the providers and the tenants that use them.",
    shown=Table(
        "named",
        {
            "Name!": "name",
            "Kind": "kind",
            "Used by": "used_by",
            "State": lambda each: Badge("cannot be used", "bad") if each.problem else "",
        },
        nothing="There are no named providers.",
        then=_installation,
    ),
)
async def list_providers(at: Context) -> ProviderListResponse:
    """List the providers with their availability and quota: those of the installation, then the named ones."""
    stored = await _service(at).list_all()
    own = providers_of(at.settings) if at.engine is None else at.engine.defaults.providers
    names = [*own, *sorted({each.name for each in stored.configurations})]
    workers = await presence_by_provider(at.database, at.clock.now(), names)
    quotas = {quota.provider: quota for quota in await load_quotas(at.database)}
    return ProviderListResponse(
        providers=[_provider(name, presences, quotas.get(name)) for name, presences in workers.items()],
        named=[named_provider_response(each, stored, at.settings) for each in stored.configurations],
    )


# `provider create` and `edit` are written by hand, because they read secrets from standard input.
@noun.post(scope=PLATFORM_MANAGE, audit="provider.create")
async def create_provider(at: Context, wanted: ProviderRequest) -> NamedProviderResponse:
    """Create a provider with its own credentials. No tenant uses it until a route contains its name."""
    made = await _service(at).create(wanted.name, wanted.kind, wanted.settings, actor=at.actor)
    return await _saved(at, made)


@noun.get(
    "/routes",
    command="routes",
    shown=Table(
        "routes",
        {"Tenant!": "tenant", "Source": "source", "Provider": "provider"},
        nothing="Everything goes through the installation's provider.",
    ),
)
async def list_provider_routes(at: Context) -> ProviderRouteListResponse:
    """List the routes: which provider sends the messages of each tenant and source."""
    return ProviderRouteListResponse(routes=[_route(each) for each in (await _service(at).list_all()).routes])


@noun.put(
    "/routes",
    scope=PLATFORM_MANAGE,
    audit="provider_route.set",
    command="route",
    command_defaults=_BY_DEFAULT,
    shown="{tenant}, {source}: through {provider}. Workers use the route within seconds.",
)
async def set_provider_route(at: Context, wanted: ProviderRouteRequest) -> None:
    """Send the messages of a tenant, or of one of its sources, through a provider."""
    source, owner = parse_source(wanted.source), await tenants.find(at.database, wanted.tenant)
    provider = None if wanted.provider == INSTALLATION else wanted.provider
    await _service(at).set_route(owner.id, source, provider, actor=at.actor)
    _notify(at)


@noun.delete(
    "/routes",
    scope=PLATFORM_MANAGE,
    audit="provider_route.delete",
    command="unroute",
    command_defaults=_BY_DEFAULT,
    shown="Route of {tenant}, {source} deleted.",
)
async def delete_provider_route(at: Context, which: ProviderRouteQuery) -> None:
    """Delete the route of a tenant, or of one of its sources."""
    owner = await tenants.find(at.database, which.tenant)
    await _service(at).delete_route(owner.id, parse_source(which.source), actor=at.actor)
    _notify(at)


def _lines(found: NamedProviderResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"{found.name} ({found.kind})"
    if found.problem is not None:
        yield Badge("Cannot be used", "bad", found.problem)
    yield from (f"{each.name}: {'set' if each.is_secret else each.value}" for each in found.settings)
    if found.webhook_url is not None:
        yield f"Events: {found.webhook_url}"
    yield f"Used by: {found.used_by}"
    yield (f"Changed by {found.updated_by} at ", Moment(found.updated_at))


@noun.get(
    "/{providerName}",
    command="show",
    help="Show a provider: its settings without secrets, its webhook URL and its routes.",
    shown=_lines,
)
async def show_provider(at: Context, provider_name: str) -> NamedProviderResponse:
    """Show a named provider without its secrets, with its webhook URL and its routes."""
    found = await _service(at).find(provider_name)
    return named_provider_response(found, await _service(at).list_all(), at.settings)


@noun.patch("/{providerName}", scope=PLATFORM_MANAGE, audit="provider.edit")
async def edit_provider(at: Context, provider_name: str, wanted: ProviderChangeRequest) -> NamedProviderResponse:
    """Change settings of a named provider and keep the others. Workers use them within seconds."""
    return await _saved(at, await _service(at).edit(provider_name, wanted.settings, actor=at.actor))


@noun.delete(
    "/{providerName}",
    scope=PLATFORM_MANAGE,
    audit="provider.delete",
    command="delete",
    question="Delete the provider {provider_name}?",
    shown="Provider {provider_name} deleted.",
)
async def delete_provider(at: Context, provider_name: str) -> None:
    """Delete a named provider that no route names."""
    await _service(at).delete(provider_name, actor=at.actor)
    _notify(at)


def _checked(found: ProviderCheckResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Badge(found.summary, "good" if found.is_ok else "bad")
    if found.advice:
        yield Aside(found.advice, None)


@noun.post(
    "/{providerName}/test",
    scope=PLATFORM_MANAGE,
    audit=None,
    command="test",
    help="Connect and sign in to a provider without sending anything. Exit code 1 if that fails.",
    shown=_checked,
    is_negative=lambda found: not found.is_ok,
)
async def check_provider(at: Context, provider_name: str) -> ProviderCheckResponse:
    """Connect and sign in to a named provider without sending anything."""
    found = await _service(at).test(provider_name)
    return combine(ProviderCheckResponse, found, advice=advice_for(found))


def _service(at: Context) -> ProviderService:
    return ProviderService(at.settings, at.database, at.clock)


def _notify(at: Context) -> None:
    """Let the workers of this server read the providers at once."""
    if at.engine is not None:
        at.engine.settings_saved.set()


async def _saved(at: Context, found: ProviderConfiguration) -> NamedProviderResponse:
    _notify(at)
    return named_provider_response(found, await _service(at).list_all(), at.settings)


def _provider(name: str, seen: Sequence[WorkerPresence], quota: ProviderQuota | None) -> ProviderResponse:
    """Build the response. The status is `left_alone` only if no worker uses the provider at present."""
    unavailable = [presence for presence in seen if presence.unavailable_until is not None]
    first = unavailable[0] if unavailable and len(unavailable) == len(seen) else None
    return ProviderResponse(
        provider=name,
        status="unused" if not seen else "left_alone" if first else "ok",
        workers=len(seen),
        unavailable_until=first.unavailable_until if first else None,
        unavailable_reason=first.unavailable_reason if first else None,
        learned_rate=None if (rate := learned_rate_of(seen)) is None else round(rate, 1),
        quota=combine(QuotaResponse, quota, missed=quota.failed_syncs) if quota else None,
    )


def named_provider_response(
    found: ProviderConfiguration, everything: StoredProviders, settings: Settings
) -> NamedProviderResponse:
    shown = [
        ProviderSettingResponse(
            name=variable_of(name), value=None if is_secret(name) else found.settings[name], is_secret=is_secret(name)
        )
        for name in fields_of(found.kind)
        if name in found.settings
    ]
    return combine(
        NamedProviderResponse,
        found,
        settings=shown,
        problem=named_provider(found, settings).problem,
        webhook_url=f"{settings.public_url}/provider-events/{found.name}" if KINDS[found.kind].webhook else None,
        routes=[_route(route) for route in everything.routes if route.provider == found.name],
    )


def _route(route: StoredRoute) -> ProviderRouteResponse:
    return combine(
        ProviderRouteResponse, route, source=route.source or ALL_SOURCES, provider=route.provider or INSTALLATION
    )
