"""The HTTP route that imports DMARC reports. It is written by hand, because its body is a file."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.actions.dmarc_reports import DmarcImportResponse, dmarc_import_response
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.sources.api.fields import RequestModel
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/dmarc-reports", tags=["dmarc reports"])

_MEDIA_TYPES = ("application/xml", "application/gzip", "application/zip", "message/rfc822", "application/octet-stream")
_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {each: {"schema": {"type": "string", "format": "binary"}} for each in _MEDIA_TYPES},
    }
}


class DmarcImportQuery(RequestModel):
    file_name: Annotated[str, Field(max_length=255, description="The name of the file, for error messages.")] = ""


@router.post(
    "",
    scope=Scope.MANAGE,
    openapi_extra=_FILE,
    responses=describe_responses({HTTPStatus.OK: DmarcImportResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def import_file(
    request: Request, engine: EngineDep, caller: CallerDep, query: Annotated[DmarcImportQuery, Query()]
) -> Response:
    """Store the aggregate reports in a file: XML, gzip, zip, or an email with them. A report is stored once."""
    content = await read_bytes(request, MAX_FILE_BYTES)
    return json_response(
        dmarc_import_response(await engine.dmarc.import_file(caller.tenant_id, content, query.file_name))
    )
