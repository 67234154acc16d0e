"""HTTP routes of suppressions."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.audience import suppressions
from mailwright.schemas.suppressions import (
    SuppressionListResponse,
    SuppressionQuery,
    SuppressionRequest,
    SuppressionResponse,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/suppressions", tags=["suppressions"])


@router.post(
    "",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(SuppressionRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: SuppressionResponse, HTTPStatus.OK: SuppressionResponse},
        *BODY_PROBLEMS,
    ),
)
async def add(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Suppress an address. Nothing more is sent to it, and queued messages to it are stopped.

    A `listKey` limits this: `general` to all bulk messages, a list key to the messages of that list. Adding the same
    suppression again keeps the first reason.
    """
    wanted = parse(SuppressionRequest, await read_json(request))
    entry, is_new = await suppressions.add(
        engine.database,
        engine.clock,
        caller.tenant_id,
        wanted.email,
        reason=wanted.reason,
        source="api",
        list_key=wanted.list_key,
        actor=actor_of(caller),
    )
    return json_response(SuppressionResponse.model_validate(entry), HTTPStatus.CREATED if is_new else HTTPStatus.OK)


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: SuppressionListResponse}))
async def list_suppressions(engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:
    """List the suppressions, latest first."""
    found = await suppressions.list_page(
        engine.database, caller.tenant_id, limit=page.limit, before=page.before("suppression")
    )
    next_cursor = page.next_cursor("suppression", [suppression.id for suppression in found])
    return json_response(SuppressionListResponse(suppressions=found, next_cursor=next_cursor))


# An address can contain a slash before its @.
@router.delete(
    "/{email:path}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove(
    email: str, engine: EngineDep, caller: CallerDep, only: Annotated[SuppressionQuery, Query()]
) -> Response:
    """Remove all suppressions of an address, or the one with this `listKey`."""
    await suppressions.remove(
        engine.database, caller.tenant_id, email, list_key=only.list_key, actor=actor_of(caller), clock=engine.clock
    )
    return Response(status_code=HTTPStatus.NO_CONTENT)
