"""HTTP route of providers, which belong to the installation and not to a tenant."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from mailwright.outbox.quotas import load_quotas
from mailwright.outbox.workers import presence_by_provider
from mailwright.schemas.providers import ProviderListResponse, provider_response
from mailwright.web.api.administrator import ADMINISTRATORS_ONLY, AdministratorDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/v1/providers", tags=["providers"])


@router.get("", openapi_extra=ADMINISTRATORS_ONLY, responses=describe_responses({HTTPStatus.OK: ProviderListResponse}))
async def list_providers(engine: EngineDep, _administrator: AdministratorDep) -> Response:
    """List the providers with their availability and quota, in the order of the route."""
    workers = await presence_by_provider(engine.database, engine.clock.now(), engine.defaults.providers)
    quotas = {quota.provider: quota for quota in await load_quotas(engine.database)}
    return json_response(
        ProviderListResponse(
            providers=[provider_response(name, presences, quotas.get(name)) for name, presences in workers.items()]
        )
    )
