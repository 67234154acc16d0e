"""Report pages: the figures of a campaign, its click map, segments and drafts created from them, and all campaigns over
time.
"""

from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.actions import campaign_reports
from mailwright.actions.campaign_reports import (
    CampaignResendRequest,
    CampaignSegmentRequest,
    RecipientQuery,
    delay_response,
    delay_text,
)
from mailwright.app.wiring import Engine
from mailwright.domain.campaign import ALLOWED_STATUSES, CampaignAction
from mailwright.domain.clock import HOUR, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotPossibleNow
from mailwright.domain.states import EventType
from mailwright.domain.translation import gettext
from mailwright.pipeline.tracking import OWN_PATHS
from mailwright.sources.api.validation import RequestInvalid, parse
from mailwright.sources.campaigns.comparison import CampaignResult, load_history
from mailwright.sources.campaigns.create_resend import create_resend
from mailwright.sources.campaigns.engagement import load_engagement
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.report_figures import ReportFigures, load_figures
from mailwright.sources.campaigns.response_segments import create_segment
from mailwright.sources.campaigns.review import review_started
from mailwright.sources.campaigns.statistics import CHARTED_EVENTS, CampaignStatistics, count_results
from mailwright.sources.campaigns.test_send import CampaignTestSend, render_variants
from mailwright.sources.campaigns.tracking_plan import load_tracking
from mailwright.web.api.derived import file_response
from mailwright.web.context import visitor_context
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.axis import round_number
from mailwright.web.dashboard.campaigns import find_visible, load_row, tabs_of
from mailwright.web.dashboard.click_map import click_map_html
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, email_frame, fragment, page, redirect
from mailwright.web.dashboard.sorting import sort_rows
from mailwright.web.session import EditorDep, ViewerDep
from mailwright.web.state import EngineDep, result_cache_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MAX_SHOWN_LINKS: Final = 100
MAX_SHOWN_DOMAINS: Final = 15
_CHARTED_CAMPAIGNS: Final = 50
_MAX_AXIS_LABELS: Final = 4


@router.get("/reports")
async def show_history(request: Request, engine: EngineDep, visitor: ViewerDep, sort: str = "") -> Response:
    """Show the results of the tenant's campaigns over time."""
    async with engine.database.reader.read() as tx:
        found = await load_history(tx, visitor.tenant_id, engine.clock.now(), limit=_CHARTED_CAMPAIGNS)
    charts = [_rate_chart(found, name) for name in ("opened", "clicked", "bounced", "unsubscribed")]
    rows, order = sort_rows(found, sort, _HISTORY_ORDERS, "-started")
    return await page(request, visitor, "campaigns/history.html", found=rows, charts=charts, order=order)


@router.get("/reports.csv")
async def download_history(request: Request, visitor: ViewerDep) -> Response:
    return file_response(await campaign_reports.download_reports(visitor_context(request, visitor)))


@router.get("/campaigns/{campaign_id}/report")
async def show_report(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
    variants = line.campaign.definition.ab_test.variants if line.campaign.definition.ab_test else ()
    names = [variant.name for variant in variants]
    return await page(request, visitor, "campaigns/report.html", line=line, tabs=tabs_of(line), variants=names)


@router.get("/campaigns/{campaign_id}/report/figures")
async def show_figures(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    """Show the figures. Loaded after the page, because they read all responses to the campaign."""
    line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
    try:
        found = await _figures(request, engine, line.campaign)
    except TimeoutError:
        return _pending(request, visitor, line.campaign, "figures")
    values: dict[str, Any] = {"line": line, "found": found, "reviewed": review_started(line.campaign)}
    if found is not None:
        tested = found.numbers.ab_test
        values |= {
            "series": [each.value for each in CHARTED_EVENTS],
            "top": round_number(found.statistics.largest),
            "marks": _marks(found.statistics),
            "has_days": _has_days(found.statistics),
            "links": (found.numbers.engagement.links if found.numbers.engagement else ())[:MAX_SHOWN_LINKS],
            "delay_text": lambda each: delay_text(delay_response(each)),
            "delay_top": round_number(max(max(each.opened, each.clicked) for each in found.breakdown.delays)),
            "domains": found.breakdown.domains[:MAX_SHOWN_DOMAINS],
            "may_choose": tested is not None and tested.can_choose and line.may(CampaignAction.CHOOSE_WINNER),
        }
    return fragment(request, visitor, "campaigns/figures.html", **values)


@router.get("/campaigns/{campaign_id}/report/opens")
async def show_opens(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    """Show who opened, and the form to send the campaign again.

    The part is not refreshed, so that it keeps the user's input.
    """
    return await _opens(request, engine, visitor, await find_visible(engine, visitor, campaign_id))


@router.get("/campaigns/{campaign_id}/click-map")
async def show_click_map(
    engine: EngineDep, visitor: ViewerDep, campaign_id: str, *, version: str = "", scheme: str = "light"
) -> Response:
    """Render the email for a frame, with the clicks at each of its links."""
    campaign = await find_visible(engine, visitor, campaign_id)
    trial = CampaignTestSend(campaign_id, visitor.tenant_id, campaign.definition, ())
    try:
        versions = await render_variants(engine.database, engine.templates, trial)
    except MailwrightError as error:
        return email_frame(previews.notice(error.text))
    rendered = versions.get(version) or next(iter(versions.values()))
    if rendered.html is None:
        return email_frame(previews.notice(gettext("This email has no HTML, so its links are not tracked.")))
    async with engine.database.reader.read() as tx:
        results = await count_results(tx, campaign.key)
        engagement = await load_engagement(tx, campaign.key, results)
        tracking = await load_tracking(tx, campaign, engine.settings.tracking, results[EventType.SENT])
    own_pages = (engine.settings.unsubscribe_url, *(f"{engine.public_url}{path}" for path in OWN_PATHS))
    is_tracked = bool(engagement.links) or not tracking.records_nothing
    html = click_map_html(rendered.html, engagement, campaign.definition, own_pages, is_tracked=is_tracked)
    return email_frame(previews.in_dark(html) if scheme == "dark" else previews.in_light(html))


@router.get("/campaigns/{campaign_id}/report.csv")
async def download_report(
    request: Request, visitor: ViewerDep, campaign_id: str, query: Annotated[RecipientQuery, Query()]
) -> Response:
    """Download the same report file as the API."""
    return file_response(await campaign_reports.report_csv(visitor_context(request, visitor), campaign_id, query))


@router.get("/campaigns/{campaign_id}/figures.csv")
async def download_figures(request: Request, visitor: ViewerDep, campaign_id: str) -> Response:
    """Download every figure of the report."""
    return file_response(await campaign_reports.download_figures(visitor_context(request, visitor), campaign_id))


@router.post("/campaigns/{campaign_id}/segments")
async def make_segment(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Create a segment from a bar of the report, and show it."""
    campaign = await find_visible(engine, visitor, campaign_id)
    form = await read_fields(request)
    names = ("of", "url", "domain", "provider", "afterMinutes", "beforeMinutes")
    try:
        wanted = parse(CampaignSegmentRequest, {name: form[name] for name in names if form[name]})
        made = await create_segment(engine.database, engine.clock, campaign, wanted.bar, actor=visitor.actor)
    except (InvalidInput, RequestInvalid, NotPossibleNow) as error:
        return redirect(request, f"/campaigns/{campaign_id}/report", error.text, tone="bad")
    return redirect(
        request, f"/segments/{made.segment_key}", gettext("Segment created. It always contains the contacts who match.")
    )


@router.post("/campaigns/{campaign_id}/resend")
async def resend(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Create the draft for everyone who did not open the campaign, and show it."""
    form, actor = await read_fields(request), Actor(visitor.actor, visitor.tenant_id)
    try:
        wanted = parse(CampaignResendRequest, {"subject": form["subject"]})
        made = await create_resend(engine.database, engine.campaigns, actor, campaign_id, subject=wanted.subject)
    except (InvalidInput, RequestInvalid, NotPossibleNow) as error:
        campaign = await find_visible(engine, visitor, campaign_id)
        return await _opens(request, engine, visitor, campaign, form=form, error=error)
    return redirect(request, f"/campaigns/{made.campaign_id}", gettext("Draft created. Check it and start it."))


async def _opens(
    request: Request,
    engine: Engine,
    visitor: ViewerDep,
    campaign: Campaign,
    *,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    try:
        found = await _figures(request, engine, campaign)
    except TimeoutError:
        if error is None:
            return _pending(request, visitor, campaign, "opens")
        found = None  # The page shows the error without the figures.
    values: dict[str, Any] = {
        "campaign": campaign,
        "found": found,
        "form": form or Fields(),
        "errors": field_errors(error) if error is not None else Errors(),
        "problem": error.text if isinstance(error, NotPossibleNow) else None,
        "may_resend": campaign.status in ALLOWED_STATUSES[CampaignAction.RESEND]
        and campaign.definition.resend_of is None,
    }
    if error is None:
        return fragment(request, visitor, "campaigns/opens.html", **values)
    status = HTTPStatus.CONFLICT if isinstance(error, NotPossibleNow) else HTTPStatus.UNPROCESSABLE_ENTITY
    return await page(request, visitor, "campaigns/opens_page.html", status=status, **values)


async def _figures(request: Request, engine: Engine, campaign: Campaign) -> ReportFigures | None:
    async def load() -> ReportFigures | None:
        return await load_figures(engine.database.reader, campaign, engine.clock.now(), engine.settings.tracking)

    return await result_cache_of(request).get_soon(("figures", campaign.key), load)


def _pending(request: Request, visitor: ViewerDep, campaign: Campaign, part: str) -> Response:
    """Say that a part of the report is being computed. The part replaces the message when it is ready."""
    return fragment(request, visitor, "campaigns/pending.html", campaign=campaign, part=part)


def _rate_order(name: str) -> Callable[[CampaignResult], Any]:
    """Return the sort key of a rate. A rate that was not measured sorts below every other rate."""

    def order(each: CampaignResult) -> float:
        rate = each.rates[name]
        return -1.0 if rate is None else rate

    return order


# The columns by which the reports can be sorted.
_HISTORY_ORDERS: Final[dict[str, Callable[[CampaignResult], Any]]] = {
    "campaign": lambda each: each.name.casefold(),
    "started": lambda each: each.started_at or 0,
    "sent": lambda each: each.sent,
    **{name: _rate_order(name) for name in ("opened", "clicked", "bounced", "complained", "unsubscribed")},
}


def _rate_chart(found: list[CampaignResult], name: str) -> dict[str, Any]:
    """Return the rates of one kind, oldest first, and the top of their axis in percent."""
    rates = [(each, each.rates[name]) for each in found[::-1]]
    largest = max((rate for _, rate in rates if rate is not None), default=0)
    return {"name": name, "rates": rates, "top": round_number(max(ceil(largest * 100), 1))}


def _has_days(found: CampaignStatistics) -> bool:
    return found.length >= 24 * HOUR or len(found.intervals) * found.length > 24 * HOUR


def _marks(found: CampaignStatistics) -> list[Instant]:
    """Return the times to label along the axis, including the first and the last."""
    if not found.intervals:
        return []
    number = len(found.intervals)
    parts = min(_MAX_AXIS_LABELS, number)
    begins_at = [found.intervals[number * part // parts].begins_at for part in range(parts)]
    return [*begins_at, found.intervals[-1].begins_at + found.length]
