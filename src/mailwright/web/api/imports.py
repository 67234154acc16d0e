"""HTTP routes of contact imports: a file is stored during the request and imported afterwards."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.outbox.audit_log import API
from mailwright.schemas.imports import (
    ImportListResponse,
    ImportPreviewResponse,
    ImportQuery,
    ImportResponse,
    import_preview_response,
    import_response,
)
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import describe_files, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, stream_body
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/contacts/imports", tags=["contacts"])

_CHUNK_BYTES = 256 * 1024
_CSV_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"text/csv": {"schema": {"type": "string", "format": "binary"}}},
    }
}


ImportQueryDep = Annotated[ImportQuery, Query()]


@router.post(
    "",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=_CSV_BODY,
    responses=describe_responses({HTTPStatus.ACCEPTED: ImportResponse}),
)
async def begin(request: Request, engine: EngineDep, caller: CallerDep, query: ImportQueryDep) -> Response:
    """Upload a file of contacts as the body. The response comes after its columns are read; the rows follow later."""
    started = await engine.import_uploads.receive(
        caller.tenant_id, stream_body(request), query.options(API), file_name=query.file_name, actor=actor_of(caller)
    )
    return json_response(import_response(started), HTTPStatus.ACCEPTED)


@router.post(
    "/preview",
    scope=Scope.MANAGE,
    openapi_extra=_CSV_BODY,
    responses=describe_responses({HTTPStatus.OK: ImportPreviewResponse}),
)
async def preview(request: Request, engine: EngineDep, caller: CallerDep, query: ImportQueryDep) -> Response:
    """Show how the first rows would be read. Nothing is stored."""
    parsed = await engine.import_uploads.preview(caller.tenant_id, stream_body(request), query.options(API))
    return json_response(import_preview_response(parsed))


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ImportListResponse}))
async def list_imports(engine: EngineDep, caller: CallerDep) -> Response:
    """List the imports, latest first."""
    imports = await engine.import_uploads.latest(caller.tenant_id, limit=100)
    return json_response(ImportListResponse(imports=[import_response(import_) for import_ in imports]))


@router.get(
    "/{importId}", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ImportResponse}, HTTPStatus.NOT_FOUND)
)
async def show(importId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show the progress of an import."""
    return json_response(import_response(await engine.import_uploads.find(caller.tenant_id, importId)))


@router.get("/{importId}/report", scope=Scope.READ, responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def report(importId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Download the report as CSV, one line for every imported row: line, email, outcome, reason."""
    path, length = await engine.import_uploads.report(caller.tenant_id, importId)
    return StreamingResponse(read_beginning(path, length), media_type="text/csv; charset=utf-8")


async def read_beginning(path: Path, length: int) -> AsyncIterator[bytes]:
    """Read only the first `length` bytes, because the import may still be appending to the file."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while length > 0 and (chunk := await asyncio.to_thread(file.read, min(_CHUNK_BYTES, length))):
            length -= len(chunk)
            yield chunk
