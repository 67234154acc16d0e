"""Files of contacts over HTTP: handed in as they are, imported after the answer, with a report of every row."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mailwright.audience.importing.plan import ImportOptions
from mailwright.outbox.audit_log import API
from mailwright.schemas import answers
from mailwright.sources.api.requests import FieldError, RequestInvalid, RequestModel
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_files, describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/contacts/imports", tags=["contacts"])

_CHUNK = 256 * 1024
_CSV_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"text/csv": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class ImportQuery(RequestModel):
    list_key: Annotated[str | None, Field(max_length=63, description="The list to join.")] = None
    tag: Annotated[tuple[str, ...], Field(max_length=50, description="For everyone in the file.")] = ()
    map: Annotated[tuple[str, ...], Field(max_length=200, description="What a column is, as `E-Mail=email`.")] = ()
    encoding: Annotated[str | None, Field(max_length=40, description="As cp1251; found out if not given.")] = None
    confirmed: Annotated[bool, Field(description="They have confirmed elsewhere.")] = False
    file_name: Annotated[str, Field(max_length=255, description="What people know the file by.")] = "contacts.csv"

    def purpose(self) -> ImportOptions:
        pairs = [text.rpartition("=") for text in self.map]
        if any(not title or not sign or not target for title, sign, target in pairs):
            raise RequestInvalid([FieldError("map", "INVALID", "must look like E-Mail=email")])
        chosen = {title: target for title, _, target in pairs}
        return ImportOptions(self.list_key, tuple(self.tag), chosen, self.confirmed, self.encoding)


Wanted = Annotated[ImportQuery, Query()]


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=_CSV_BODY,
    responses=describe_responses({HTTPStatus.ACCEPTED: answers.ImportResponse}),
)
async def begin(request: Request, parts: Parts, caller: CallerDep, wanted: Wanted) -> Response:
    """The body is the file. It is stored whole and its columns are understood before the answer; the rows follow."""
    begun = await parts.import_uploads.receive(
        caller.tenant_id, request.stream(), wanted.purpose(), file_name=wanted.file_name, actor=API
    )
    return json_response(answers.importing(begun), HTTPStatus.ACCEPTED)


@router.post(
    "/preview", openapi_extra=_CSV_BODY, responses=describe_responses({HTTPStatus.OK: answers.ImportPreviewResponse})
)
async def preview(request: Request, parts: Parts, caller: CallerDep, wanted: Wanted) -> Response:
    """How the first rows would be read. Nothing is stored."""
    seen = await parts.import_uploads.preview(caller.tenant_id, request.stream(), wanted.purpose())
    return json_response(answers.previewing(seen))


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.ImportListResponse}))
async def list_imports(parts: Parts, caller: CallerDep) -> Response:
    """The latest first."""
    found = await parts.import_uploads.latest(caller.tenant_id, limit=100)
    return json_response({"imports": [answers.importing(each) for each in found]})


@router.get("/{importId}", responses=describe_responses({HTTPStatus.OK: answers.ImportResponse}, HTTPStatus.NOT_FOUND))
async def show(importId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """How far it has come."""
    return json_response(answers.importing(await parts.import_uploads.find(caller.tenant_id, importId)))


@router.get("/{importId}/report", responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def report(importId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """A line of CSV for every row that is done: line, email, outcome, why."""
    path, length = await parts.import_uploads.report(caller.tenant_id, importId)
    return StreamingResponse(beginning(path, length), media_type="text/csv; charset=utf-8")


async def beginning(path: Path, length: int) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while length > 0 and (chunk := await asyncio.to_thread(file.read, min(_CHUNK, length))):
            length -= len(chunk)
            yield chunk
