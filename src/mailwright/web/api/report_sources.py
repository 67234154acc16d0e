"""HTTP routes of report sources, which belong to the installation, and the route that receives their reports."""

from http import HTTPStatus

import orjson
from fastapi import Request
from starlette.responses import Response

from mailwright.domain.foreign_json import load_json
from mailwright.ops.provider_kind import MAX_WEBHOOK_BYTES
from mailwright.outbox import tenants
from mailwright.providers.inbound.rejected_events import EventRejected
from mailwright.schemas.base import extend
from mailwright.schemas.inbound_events import InboundEventsResponse
from mailwright.schemas.report_sources import (
    ReportSourceListResponse,
    ReportSourceRequest,
    ReportSourceSecretResponse,
    ReportsRequest,
    report_source_response,
)
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.api.caller import Credential
from mailwright.web.api.inbound import refuse_event
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_bytes, read_json
from mailwright.web.errors import InvalidJson
from mailwright.web.state import EngineDep

router = Routes(tags=["events"])

_PROBLEMS = (HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
_DESCRIBED = describe_responses({HTTPStatus.OK: InboundEventsResponse}, *_PROBLEMS, HTTPStatus.UNPROCESSABLE_ENTITY)


@router.post(
    "/v1/reports/{sourceName}",
    scope=Credential.SIGNATURE,
    openapi_extra=describe_body(ReportsRequest),
    responses={status: response for status, response in _DESCRIBED.items() if status != HTTPStatus.UNAUTHORIZED},
)
async def receive_reports(sourceName: str, request: Request, engine: EngineDep) -> Response:  # noqa: N803
    """Record reports about messages. The signature authenticates the request; a repeated report counts once."""
    body = await read_bytes(request, MAX_WEBHOOK_BYTES)
    try:
        source = await engine.report_sources.authenticate(sourceName, request.headers, body)
    except EventRejected as error:
        return refuse_event(request, error)
    try:
        wanted = parse(ReportsRequest, load_json(body))
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error
    for place, each in enumerate(wanted.reports):
        if source.provider is None and each.message_id is None:
            text = "This report source has no provider. Use messageId, or create the source for one provider."
            raise RequestInvalid([FieldError(f"reports[{place}].providerMessageId", "NO_PROVIDER", text)])
    now = engine.clock.now()
    counts = await engine.reports.receive([each.report(source, now) for each in wanted.reports])
    return json_response(InboundEventsResponse.model_validate(counts))


@router.get(
    "/v1/report-sources",
    scope=Credential.ADMINISTRATOR,
    responses=describe_responses({HTTPStatus.OK: ReportSourceListResponse}),
)
async def list_report_sources(engine: EngineDep, _administrator: AdministratorDep) -> Response:
    """List the report sources by name."""
    found = await engine.report_sources.list_all()
    shown = [report_source_response(each, engine.public_url) for each in found]
    return json_response(ReportSourceListResponse(report_sources=shown))


@router.post(
    "/v1/report-sources",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(ReportSourceRequest),
    responses=describe_responses({HTTPStatus.CREATED: ReportSourceSecretResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create_report_source(request: Request, engine: EngineDep, administrator: AdministratorDep) -> Response:
    """Create a report source. The response is the only place that shows its secret."""
    wanted = parse(ReportSourceRequest, await read_json(request))
    owner = None if wanted.tenant is None else await tenants.find(engine.database, wanted.tenant)
    made, secret = await engine.report_sources.create(
        wanted.name,
        tenant_id=None if owner is None else owner.id,
        provider=wanted.provider,
        actor=administrator.actor,
    )
    response = report_source_response(made, engine.public_url)
    return json_response(extend(ReportSourceSecretResponse, response, secret=secret), HTTPStatus.CREATED)


@router.delete(
    "/v1/report-sources/{sourceName}",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def delete_report_source(sourceName: str, engine: EngineDep, administrator: AdministratorDep) -> Response:  # noqa: N803
    """Delete a report source. Its requests are refused from now on."""
    await engine.report_sources.delete(sourceName, actor=administrator.actor)
    return Response(status_code=HTTPStatus.NO_CONTENT)
