"""HTTP routes of DMARC reports."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.dmarc import require_reported_domain
from mailwright.domain.clock import DAY
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.outbox.dmarc_reports import list_refusals, list_totals, load_domain_report
from mailwright.schemas.dmarc import (
    DmarcDomainListResponse,
    DmarcImportQuery,
    DmarcImportResponse,
    DmarcQuery,
    DmarcReportResponse,
    dmarc_domain_response,
    dmarc_import_response,
    dmarc_report_response,
)
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


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: DmarcDomainListResponse}))
async def list_domains(engine: EngineDep, caller: CallerDep, query: Annotated[DmarcQuery, Query()]) -> Response:
    """List the domains that receivers have reported about, with their numbers."""
    since = engine.clock.now() - query.days * DAY
    found = await list_totals(engine.database, caller.tenant_id, since)
    return json_response(DmarcDomainListResponse(domains=[dmarc_domain_response(each) for each in found]))


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


@router.get(
    "/{domainName}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: DmarcReportResponse}, HTTPStatus.NOT_FOUND),
)
async def show(
    domainName: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[DmarcQuery, Query()],
) -> Response:
    """Show the reports about a domain by reporter, source and day, compared with the messages that Mailwright sent."""
    domain = await require_reported_domain(engine.database, engine.directory, caller.tenant_id, domainName)
    report = await load_domain_report(engine.database, caller.tenant_id, domain, engine.clock.now(), query.days)
    refused = await list_refusals(engine.database, caller.tenant_id, domain=domain)
    return json_response(dmarc_report_response(report, refused))
