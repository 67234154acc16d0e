"""HTTP routes of reports: the figures of campaigns, their recipients, and the segments and drafts created from them."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.actions.campaign_reports import (
    CampaignHistoryResponse,
    CampaignRecipientListResponse,
    CampaignReportResponse,
    CampaignResendRequest,
    CampaignSegmentRequest,
    RecipientPage,
    RecipientQuery,
    campaign_report_response,
    campaign_result_response,
    figures_csv,
    history_csv,
    recipient_response,
)
from mailwright.actions.campaigns import CampaignResponse, campaign_response
from mailwright.actions.segments import SegmentResponse, segment_response
from mailwright.app.wiring import Engine
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.schemas.recipient_report import report_csv as csv_lines
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns import report
from mailwright.sources.campaigns.comparison import MAX_HISTORY, CampaignResult, load_history
from mailwright.sources.campaigns.create_resend import create_resend
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.report_figures import load_figures
from mailwright.sources.campaigns.response_segments import create_segment
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_files, describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1", tags=["campaigns"], dependencies=[RequireCampaignSender])

_CSV = "text/csv; charset=utf-8"


@router.get("/reports", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: CampaignHistoryResponse}))
async def list_reports(engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:
    """Show the results of your campaigns over time, latest first: totals and rates of each."""
    before: Any = decode_cursor("report", page.cursor, 2) if page.cursor is not None else None
    async with engine.database.reader.read() as tx:
        found = await load_history(tx, caller.tenant_id, engine.clock.now(), limit=page.limit, before=before)
    last = found[-1] if len(found) == page.limit else None
    return json_response(
        CampaignHistoryResponse(
            campaigns=[campaign_result_response(each) for each in found],
            next_cursor=encode_cursor("report", last.started_at or 0, last.key) if last else None,
        )
    )


@router.get("/reports/export.csv", scope=Scope.READ, responses=describe_files(("text/csv",)))
async def download_reports(engine: EngineDep, caller: CallerDep) -> Response:
    """Download the results of your latest campaigns as CSV, at most 1,000."""
    return csv_file(history_csv(await load_latest(engine, caller.tenant_id)), "reports.csv")


@router.get(
    "/campaigns/{campaignId}/report",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignReportResponse}, HTTPStatus.NOT_FOUND),
)
async def show_report(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show every figure of the report page: results, links, time to respond, domains, reasons and comparison."""
    return json_response(await load_report(engine, await _find(engine, caller.tenant_id, campaignId)))


@router.get(
    "/campaigns/{campaignId}/figures.csv",
    scope=Scope.READ,
    responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND),
)
async def download_figures(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Download every figure of the report as CSV: section, item, figure and value."""
    return await figures_file(engine, await _find(engine, caller.tenant_id, campaignId))


@router.get(
    "/campaigns/{campaignId}/report.csv",
    scope=Scope.READ,
    responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND),
)
async def report_csv(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    query: Annotated[RecipientQuery, Query()],
) -> Response:
    """Download the result of every recipient as CSV, by address; with `show`, of some of them."""
    campaign = await _find(engine, caller.tenant_id, campaignId)
    lines = csv_lines(report.report_rows(engine.database, campaign.key, query.filter))
    headers = {"Content-Disposition": f'attachment; filename="campaign-{campaign.campaign_id}.csv"'}
    return StreamingResponse(lines, media_type=_CSV, headers=headers)


@router.get(
    "/campaigns/{campaignId}/recipients",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: CampaignRecipientListResponse}, HTTPStatus.NOT_FOUND),
)
async def recipients(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    page: Annotated[RecipientPage, Query()],
) -> Response:
    """List the recipients with a message, by address; with `show`, some of them.

    `show` is a status or a response of people. `nextCursor` is the `after` of the next page.
    """
    campaign = await _find(engine, caller.tenant_id, campaignId)
    found = await report.report_page(
        engine.database, campaign.key, limit=page.limit, after=page.after, show=page.filter
    )
    return json_response(
        CampaignRecipientListResponse(
            recipients=[recipient_response(each) for each in found],
            next_cursor=found[-1].email if len(found) == page.limit else None,
        )
    )


@router.post(
    "/campaigns/{campaignId}/segments",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignSegmentRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: SegmentResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def make_segment(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create a segment of recipients by their response. The same request returns the same segment."""
    wanted = parse_strict(CampaignSegmentRequest, await read_json(request))
    campaign = await _find(engine, caller.tenant_id, campaignId)
    made = await create_segment(
        engine.database,
        engine.clock,
        campaign,
        wanted.bar,
        actor=actor_of(caller),
        segment_key=wanted.segment_key,
        name=wanted.name,
    )
    return json_response(segment_response(made), HTTPStatus.CREATED)


@router.post(
    "/campaigns/{campaignId}/resend",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(CampaignResendRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: CampaignResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
    ),
)
async def resend(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create a draft with a new subject for everyone who did not open the campaign. This is possible once.

    Recipients whose opens are not known are left out: those without tracking consent, and those whose email only a
    program opened. Mailwright determines who did not open when the draft starts.
    """
    wanted = parse_strict(CampaignResendRequest, await read_json(request))
    actor = Actor(actor_of(caller), caller.tenant_id)
    made = await create_resend(
        engine.database, engine.campaigns, actor, campaignId, subject=wanted.subject, name=wanted.name
    )
    numbers = await load_numbers(engine.database, made)
    return json_response(campaign_response(made, numbers), HTTPStatus.CREATED)


async def load_report(engine: Engine, campaign: Campaign) -> CampaignReportResponse:
    figures = await load_figures(engine.database.reader, campaign, engine.clock.now(), engine.settings.tracking)
    return campaign_report_response(campaign, figures)


async def figures_file(engine: Engine, campaign: Campaign) -> Response:
    return csv_file(figures_csv(await load_report(engine, campaign)), f"figures-{campaign.campaign_id}.csv")


async def load_latest(engine: Engine, tenant_id: int) -> list[CampaignResult]:
    async with engine.database.reader.read() as tx:
        return await load_history(tx, tenant_id, engine.clock.now(), limit=MAX_HISTORY)


def csv_file(text: str, name: str) -> Response:
    return Response(text, media_type=_CSV, headers={"Content-Disposition": f'attachment; filename="{name}"'})


async def _find(engine: Engine, tenant_id: int, campaign_id: str) -> Campaign:
    return await engine.campaigns.find(campaign_id, tenant_id=tenant_id)
