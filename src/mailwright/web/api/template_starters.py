"""HTTP route of the starter templates."""

from http import HTTPStatus

from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.content.blocks.starters import list_starters
from mailwright.schemas.templates import StarterListResponse, starter_response
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response

router = Routes(prefix="/v1/template-starters", tags=["templates"])


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: StarterListResponse}))
async def list_template_starters(_caller: CallerDep) -> Response:
    """List complete emails to begin with. Save the `document` of one as the `blocks` of a template."""
    return json_response(StarterListResponse(starters=[starter_response(each) for each in list_starters()]))
