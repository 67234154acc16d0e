"""HTTP routes of tenants that may not send, until they verify a domain or an administrator lifts the restriction."""

from http import HTTPStatus

from starlette.responses import Response

from mailwright.schemas.base import ResponseModel, Time
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.api.caller import Credential
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/restricted-tenants", tags=["domains"])


class RestrictedTenantResponse(ResponseModel):
    tenant: str
    restricted_since: Time


class RestrictedTenantListResponse(ResponseModel):
    tenants: list[RestrictedTenantResponse]


@router.get(
    "",
    scope=Credential.ADMINISTRATOR,
    responses=describe_responses({HTTPStatus.OK: RestrictedTenantListResponse}),
)
async def list_restricted_tenants(engine: EngineDep, _administrator: AdministratorDep) -> Response:
    """List the tenants that send nothing, because they had a verified sender domain and have none left."""
    found = [
        RestrictedTenantResponse(tenant=each.name, restricted_since=each.since)
        for each in await engine.sender_domains.list_restricted()
    ]
    return json_response(RestrictedTenantListResponse(tenants=found))


@router.delete(
    "/{tenantName}",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def unrestrict(tenantName: str, engine: EngineDep, administrator: AdministratorDep) -> Response:  # noqa: N803
    """Let a tenant without verified domains send again from every domain that belongs to no other tenant."""
    await engine.sender_domains.unrestrict(tenantName, actor=administrator.actor)
    return Response(status_code=HTTPStatus.NO_CONTENT)
