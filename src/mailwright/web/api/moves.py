"""HTTP routes that move contacts from another product: upload its export files, see the numbers, then start."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import FileResponse, Response

from mailwright.access.roles import Scope
from mailwright.audience.switching.uploads import UploadedExport
from mailwright.schemas.moves import MoveFileQuery, MoveQuery, MoveResponse, move_response
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import describe_files, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, stream_body
from mailwright.web.state import switch_uploads_of

router = Routes(prefix="/v1/contacts/moves", tags=["contacts"])

_FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=_FILE_BODY,
    responses=describe_responses({HTTPStatus.CREATED: MoveResponse}),
)
async def create(request: Request, caller: CallerDep, query: Annotated[MoveQuery, Query()]) -> Response:
    """Upload the first export file as the body: CSV, .xlsx, or a zip archive of CSV files. Nothing is stored yet."""
    file = UploadedExport(query.file_name, query.member_status, stream_body(request))
    token = await switch_uploads_of(request).stage(caller.tenant_id, query.options, [file])
    return json_response(await _response(request, caller.tenant_id, token), HTTPStatus.CREATED)


@router.post(
    "/{moveId}/files",
    scope=Scope.MANAGE,
    openapi_extra=_FILE_BODY,
    responses=describe_responses({HTTPStatus.OK: MoveResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def add_file(
    moveId: str,  # noqa: N803
    request: Request,
    caller: CallerDep,
    query: Annotated[MoveFileQuery, Query()],
) -> Response:
    """Upload a further export file before the start, for example that of the contacts who unsubscribed."""
    file = UploadedExport(query.file_name, query.member_status, stream_body(request))
    await switch_uploads_of(request).add_file(caller.tenant_id, moveId, file)
    return json_response(await _response(request, caller.tenant_id, moveId))


@router.get(
    "/{moveId}", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: MoveResponse}, HTTPStatus.NOT_FOUND)
)
async def show(moveId: str, request: Request, caller: CallerDep) -> Response:  # noqa: N803
    """Show the numbers before the start, the state of a running move, or the result."""
    return json_response(await _response(request, caller.tenant_id, moveId))


@router.post(
    "/{moveId}/start",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.ACCEPTED,
    responses=describe_responses({HTTPStatus.ACCEPTED: MoveResponse}, HTTPStatus.NOT_FOUND),
)
async def start(moveId: str, request: Request, caller: CallerDep) -> Response:  # noqa: N803
    """Move the contacts in the background, or continue after an interruption. Repeating it starts nothing twice."""
    await switch_uploads_of(request).begin(caller.tenant_id, moveId, actor=actor_of(caller))
    return json_response(await _response(request, caller.tenant_id, moveId), HTTPStatus.ACCEPTED)


@router.get("/{moveId}/report", scope=Scope.READ, responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def report(moveId: str, request: Request, caller: CallerDep) -> Response:  # noqa: N803
    """Download the result of each row as CSV: file, line, email, result, remark."""
    path = await switch_uploads_of(request).report(caller.tenant_id, moveId)
    return FileResponse(path, media_type="text/csv; charset=utf-8")


async def _response(request: Request, tenant_id: int, token: str) -> MoveResponse:
    return move_response(*await switch_uploads_of(request).describe(tenant_id, token))
