"""HTTP routes of providers and their routes, which belong to the installation and not to a tenant."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Role, Scope
from mailwright.app.named_providers import named_provider
from mailwright.app.provider_test import advice_for
from mailwright.app.wiring import Engine
from mailwright.domain.provider_routes import INSTALLATION, parse_source
from mailwright.outbox import tenants
from mailwright.outbox.provider_configurations import ProviderConfiguration
from mailwright.outbox.quotas import load_quotas
from mailwright.outbox.workers import presence_by_provider
from mailwright.schemas.providers import (
    NamedProviderResponse,
    ProviderChangeRequest,
    ProviderCheckResponse,
    ProviderListResponse,
    ProviderRequest,
    ProviderRouteListResponse,
    ProviderRouteRequest,
    named_provider_response,
    provider_response,
    provider_route_response,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/providers", tags=["providers"])


@router.get(
    "",
    scope=Scope.PLATFORM_READ,
    role=Role.ADMIN,
    takes_password=True,
    responses=describe_responses({HTTPStatus.OK: ProviderListResponse}),
)
async def list_providers(engine: EngineDep, _caller: CallerDep) -> Response:
    """List the providers with their availability and quota: those of the installation, then the named ones."""
    workers = await presence_by_provider(
        engine.database, engine.clock.now(), [*engine.defaults.providers, *engine.named.by_name]
    )
    quotas = {quota.provider: quota for quota in await load_quotas(engine.database)}
    return json_response(
        ProviderListResponse(
            providers=[provider_response(name, presences, quotas.get(name)) for name, presences in workers.items()]
        )
    )


@router.post(
    "",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(ProviderRequest),
    responses=describe_responses({HTTPStatus.CREATED: NamedProviderResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create_provider(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a provider with its own credentials. No tenant uses it until a route contains its name."""
    wanted = parse(ProviderRequest, await read_json(request))
    made = await engine.providers.create(wanted.name, wanted.kind, wanted.settings, actor=caller.audit_name)
    engine.settings_saved.set()
    return json_response(await _described(engine, made), HTTPStatus.CREATED)


@router.get(
    "/routes",
    scope=Scope.PLATFORM_READ,
    role=Role.ADMIN,
    takes_password=True,
    responses=describe_responses({HTTPStatus.OK: ProviderRouteListResponse}),
)
async def list_provider_routes(engine: EngineDep, _caller: CallerDep) -> Response:
    """List the routes: which provider sends the messages of each tenant and source."""
    routes = (await engine.providers.list_all()).routes
    return json_response(ProviderRouteListResponse(routes=[provider_route_response(each) for each in routes]))


@router.put(
    "/routes",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    status_code=HTTPStatus.NO_CONTENT,
    openapi_extra=describe_body(ProviderRouteRequest),
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def set_provider_route(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Send the messages of a tenant, or of one of its sources, through a provider."""
    wanted = parse(ProviderRouteRequest, await read_json(request))
    source = parse_source(wanted.source)
    owner = await tenants.find(engine.database, wanted.tenant)
    provider = None if wanted.provider == INSTALLATION else wanted.provider
    await engine.providers.set_route(owner.id, source, provider, actor=caller.audit_name)
    engine.settings_saved.set()
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.delete(
    "/routes",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def delete_provider_route(engine: EngineDep, caller: CallerDep, tenant: str, source: str = "all") -> Response:
    """Delete the route of a tenant, or of one of its sources."""
    owner = await tenants.find(engine.database, tenant)
    await engine.providers.delete_route(owner.id, parse_source(source), actor=caller.audit_name)
    engine.settings_saved.set()
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.get(
    "/{providerName}",
    scope=Scope.PLATFORM_READ,
    role=Role.ADMIN,
    takes_password=True,
    responses=describe_responses({HTTPStatus.OK: NamedProviderResponse}, HTTPStatus.NOT_FOUND),
)
async def show_provider(providerName: str, engine: EngineDep, _caller: CallerDep) -> Response:  # noqa: N803
    """Show a named provider without its secrets, with its webhook URL and its routes."""
    return json_response(await _described(engine, await engine.providers.find(providerName)))


@router.patch(
    "/{providerName}",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    openapi_extra=describe_body(ProviderChangeRequest),
    responses=describe_responses(
        {HTTPStatus.OK: NamedProviderResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def edit_provider(
    providerName: str,  # noqa: N803
    request: Request,
    engine: EngineDep,
    caller: CallerDep,
) -> Response:
    """Change settings of a named provider and keep the others. Workers use them within seconds."""
    wanted = parse(ProviderChangeRequest, await read_json(request))
    changed = await engine.providers.edit(providerName, wanted.settings, actor=caller.audit_name)
    engine.settings_saved.set()
    return json_response(await _described(engine, changed))


@router.delete(
    "/{providerName}",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def delete_provider(providerName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a named provider that no route names."""
    await engine.providers.delete(providerName, actor=caller.audit_name)
    engine.settings_saved.set()
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{providerName}/test",
    scope=Scope.PLATFORM_MANAGE,
    role=Role.ADMIN,
    takes_password=True,
    responses=describe_responses({HTTPStatus.OK: ProviderCheckResponse}, HTTPStatus.NOT_FOUND),
)
async def check_provider(providerName: str, engine: EngineDep, _caller: CallerDep) -> Response:  # noqa: N803
    """Connect and sign in to a named provider without sending anything."""
    found = await engine.providers.test(providerName)
    return json_response(ProviderCheckResponse(is_ok=found.is_ok, summary=found.summary, advice=advice_for(found)))


async def _described(engine: Engine, found: ProviderConfiguration) -> NamedProviderResponse:
    problem = named_provider(found, engine.settings).problem
    everything = await engine.providers.list_all()
    return named_provider_response(found, everything, problem=problem, public_url=engine.public_url)
