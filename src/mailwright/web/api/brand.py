"""HTTP routes of the brand kit."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Role, Scope
from mailwright.content.brand import Brand
from mailwright.schemas.brand import BrandResponse, brand_response
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/brand", tags=["brand"])


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: BrandResponse}))
async def show_brand(engine: EngineDep, caller: CallerDep) -> Response:
    """Return the brand kit, with warnings about colours that are hard to read."""
    return json_response(brand_response(await engine.brands.load(caller.tenant_id)))


@router.put(
    "",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    openapi_extra=describe_body(Brand),
    responses=describe_responses({HTTPStatus.OK: BrandResponse}, *BODY_PROBLEMS),
)
async def save_brand(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Replace the brand kit. A field that is missing gets its default."""
    brand = parse(Brand, await read_json(request))
    await engine.brands.save(caller.tenant_id, brand, actor=actor_of(caller))
    return json_response(brand_response(brand))
