"""HTTP routes of sender domains."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Role, Scope
from mailwright.app.wiring import Engine
from mailwright.outbox.sender_domains import SenderDomain
from mailwright.schemas.domains import (
    DomainListResponse,
    DomainRequest,
    DomainResponse,
    DomainRotationRequest,
    domain_response,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireEverySender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/domains", tags=["domains"], dependencies=[RequireEverySender])


@router.get("", scope=Scope.READ, role=Role.ADMIN, responses=describe_responses({HTTPStatus.OK: DomainListResponse}))
async def list_domains(engine: EngineDep, caller: CallerDep) -> Response:
    """List the sender domains by name, with their DNS records and DKIM keys."""
    found = await engine.sender_domains.list_all(caller.tenant_id)
    policy = await engine.directory.current()
    return json_response(
        DomainListResponse(
            domains=[await _described(engine, each) for each in found],
            sends_nothing=policy.has_none_left(caller.tenant_id),
        )
    )


@router.post(
    "",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(DomainRequest),
    responses=describe_responses({HTTPStatus.CREATED: DomainResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def add(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Add a domain and create its DKIM keys. From now on the tenant sends only from its verified domains."""
    wanted = parse(DomainRequest, await read_json(request))
    made = await engine.sender_domains.add(caller.tenant_id, wanted.name, sender=wanted.sender, actor=actor_of(caller))
    return json_response(await _described(engine, made), HTTPStatus.CREATED)


@router.get(
    "/{domainName}",
    scope=Scope.READ,
    role=Role.ADMIN,
    responses=describe_responses({HTTPStatus.OK: DomainResponse}, HTTPStatus.NOT_FOUND),
)
async def show(domainName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a domain with its DNS records, the result of the last check, and its DKIM keys."""
    return json_response(await _described(engine, await engine.sender_domains.find(caller.tenant_id, domainName)))


@router.delete(
    "/{domainName}",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def delete(domainName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a domain and its keys.

    Waiting messages from it fail. If the tenant has no other verified domain, all its messages fail.
    """
    await engine.sender_domains.delete(caller.tenant_id, domainName, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{domainName}/check",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    responses=describe_responses({HTTPStatus.OK: DomainResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def check(domainName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Look up the DNS records now. It takes at most about ten seconds."""
    found = await engine.sender_domains.check(caller.tenant_id, domainName, actor=actor_of(caller))
    return json_response(await _described(engine, found))


@router.post(
    "/{domainName}/rotate",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    openapi_extra=describe_body(DomainRotationRequest),
    responses=describe_responses(
        {HTTPStatus.OK: DomainResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def rotate(request: Request, domainName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create new DKIM keys. The old keys sign until a check sees the records of the new ones."""
    wanted = parse(DomainRotationRequest, await read_json(request))
    found = await engine.sender_domains.rotate(caller.tenant_id, domainName, force=wanted.force, actor=actor_of(caller))
    return json_response(await _described(engine, found))


async def _described(engine: Engine, domain: SenderDomain) -> DomainResponse:
    service = engine.sender_domains
    return domain_response(domain, await service.records(domain), await service.notes(domain))
