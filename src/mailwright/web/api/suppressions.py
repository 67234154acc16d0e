"""Suppressions over HTTP: whom a tenant does not write to."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.audience import suppressions
from mailwright.outbox.audit_log import API
from mailwright.schemas import answers
from mailwright.schemas.paging import PageQuery, decode_cursor, encode_cursor
from mailwright.sources.api.requests import RequestModel, Scope, SuppressionRequest, parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import Parts


class OneScope(RequestModel):
    list_key: Annotated[Scope | None, Field(description="Only this entry of the address.")] = None


ScopeQuery = Annotated[OneScope, Query()]

router = APIRouter(prefix="/v1/suppressions", tags=["suppressions"])


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(SuppressionRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: answers.SuppressionResponse, HTTPStatus.OK: answers.SuppressionResponse},
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
)
async def add(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """Nothing is sent to this address any more, not even what already waits. Adding it again keeps the first reason.

    A `listKey` narrows that: `general` stops all bulk mail, a list's key the mail of that list.
    """
    wanted = parse(SuppressionRequest, await read_json(request))
    entry, is_new = await suppressions.add(
        parts.database,
        parts.clock,
        caller.tenant_id,
        wanted.email,
        reason=wanted.reason,
        source="api",
        list_key=wanted.list_key,
        actor=API,
    )
    return json_response(answers.suppression(entry), HTTPStatus.CREATED if is_new else HTTPStatus.OK)


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.SuppressionListResponse}))
async def list_suppressions(parts: Parts, caller: CallerDep, page: PageQuery) -> Response:
    """The latest first."""
    before = decode_cursor("suppression", page.cursor)[0] if page.cursor is not None else suppressions.NEWEST
    found = await suppressions.list_page(parts.database, caller.tenant_id, limit=page.limit, before=before)
    following = encode_cursor("suppression", found[-1].id) if len(found) == page.limit else None
    return json_response({"suppressions": [answers.suppression(entry) for entry in found], "nextCursor": following})


# An address may hold a slash before its @.
@router.delete(
    "/{email:path}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def remove(email: str, parts: Parts, caller: CallerDep, only: ScopeQuery) -> Response:
    """The address may be written to again: altogether, or by what its `listKey` names."""
    await suppressions.remove(
        parts.database, caller.tenant_id, email, list_key=only.list_key, actor=API, clock=parts.clock
    )
    return Response(status_code=HTTPStatus.NO_CONTENT)
