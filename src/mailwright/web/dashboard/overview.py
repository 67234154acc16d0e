"""Home: the last campaign, growth and next steps for editors; queue, forecast and health for administrators."""

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.access.roles import Forbidden, Role
from mailwright.app.sending import release_sending
from mailwright.app.setup import load_checklist
from mailwright.app.stored_settings import load_effective
from mailwright.app.wiring import Engine
from mailwright.audience.growth import AudienceGrowth, load_growth
from mailwright.domain.campaign import (
    AWAITING_WINNER,
    AWAITS_APPROVAL,
    GUARD_RAILS,
    NEXT_WAVE,
    PAUSED,
    SCHEDULE_OVERDUE,
    UNDECIDED,
    CampaignStatus,
)
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.findings import Finding, Verdict
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import quotas, tallies
from mailwright.outbox.sending_hold import DueMessages, find_hold
from mailwright.outbox.summary import MAX_COUNTED, QueueSummary, summarize_queue
from mailwright.outbox.workers import list_present
from mailwright.sources.campaigns.approval_records import count_waiting_for
from mailwright.sources.campaigns.comparison import load_history
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.forecast_values import CampaignForecast, summarize_segments
from mailwright.sources.campaigns.progress import (
    CampaignMessageCounts,
    QueuePosition,
    count_messages_of,
    list_positions,
)
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.storage.server_settings import find_unsafe_settings
from mailwright.texts.explanations import has_end
from mailwright.web.bodies import json_response
from mailwright.web.dashboard.axis import WIDTH, Axis, axis_for
from mailwright.web.dashboard.forms import read_fields
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import AdminDep, ViewerDep, Visitor, visitor_of
from mailwright.web.state import EngineDep, health_watch_of, result_cache_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A time range of the chart and the length of its bars."""

    label: str
    length: Instant
    step: Instant
    unit: str


RANGES: Final = {
    "hour": ChartRange(lazy_gettext("Hour"), HOUR, MINUTE, "minute"),
    "day": ChartRange(lazy_gettext("Day"), DAY, 15 * MINUTE, lazy_gettext("15 minutes")),
    "week": ChartRange(lazy_gettext("7 days"), 7 * DAY, 3 * HOUR, lazy_gettext("3 hours")),
    "month": ChartRange(lazy_gettext("30 days"), 30 * DAY, 12 * HOUR, lazy_gettext("12 hours")),
}
DEFAULT_RANGE: Final = "week"
_FORECAST_HORIZON: Final = 64 * DAY
# Spans too short to see are drawn at this width.
_MIN_SPAN_WIDTH: Final = 4.0
_MAX_CAMPAIGNS: Final = 12

_LISTED_CAMPAIGNS: Final = 50
_MAX_DRAFTS: Final = 5
_GROWTH_PERIOD: Final = 30 * DAY
# The views of Home. Without one, administrators see how sending goes, and others the campaigns.
CAMPAIGNS_VIEW, SENDING_VIEW = "campaigns", "sending"
VIEWS: Final = {CAMPAIGNS_VIEW: lazy_gettext("Campaigns"), SENDING_VIEW: lazy_gettext("Sending")}

ViewQuery = Annotated[str, Query(pattern=f"^({CAMPAIGNS_VIEW}|{SENDING_VIEW}|)$")]
RangeQuery = Annotated[str, Query(alias="range", pattern="^(hour|day|week|month)$")]


@dataclass(frozen=True, slots=True)
class CampaignQueueRow:
    """A queued campaign and its progress."""

    place: QueuePosition
    counts: CampaignMessageCounts

    @property
    def unwritten(self) -> int:
        """The number of recipients whose messages are not enqueued yet."""
        return self.counts.not_enqueued

    @property
    def waiting(self) -> int:
        return self.counts.waiting + self.unwritten

    @property
    def needs_action(self) -> bool:
        """Whether the campaign waits for a user. A wait with a known end does not count."""
        reasons = (PAUSED, AWAITING_WINNER, UNDECIDED, SCHEDULE_OVERDUE, GUARD_RAILS, NEXT_WAVE, AWAITS_APPROVAL)
        return self.place.defer_reason in reasons and not has_end(self.place.deferred_until)


@dataclass(frozen=True, slots=True)
class ForecastSpan:
    """A span of a forecast row, in thousandths of the axis."""

    x: float
    width: float
    kind: str  # full-speed, limited or waiting
    reason: str | None
    begins_at: Instant
    ends_at: Instant


@dataclass(frozen=True, slots=True)
class ForecastRow:
    campaign: CampaignForecast
    spans: tuple[ForecastSpan, ...]


@router.get("/")
async def show(request: Request, engine: EngineDep, span: RangeQuery = DEFAULT_RANGE, view: ViewQuery = "") -> Response:
    """Show Home; clients that do not accept HTML get links to the API description and health check."""
    if "text/html" not in request.headers.get("accept", "").lower():
        return json_response({"service": "Mailwright", "description": "/openapi.json", "health": "/readyz"})
    visitor = await visitor_of(request)
    view = view or (SENDING_VIEW if visitor.may(Role.ADMIN) else CAMPAIGNS_VIEW)
    return await page(
        request,
        visitor,
        "overview.html",
        ranges=RANGES,
        span=span,
        views=VIEWS,
        view=view,
        **(await _campaign_values(engine, visitor) if view == CAMPAIGNS_VIEW else {}),
        **await _start_values(engine, visitor),
        **await _current_values(request, engine, visitor, span),
    )


@router.get("/overview/stream")
async def listen(request: Request, engine: EngineDep, visitor: ViewerDep, span: RangeQuery = DEFAULT_RANGE) -> Response:
    async def render_parts() -> dict[str, str]:
        values = await _current_values(request, engine, visitor, span)
        names = ("hold", "figures", "chart-data", "chart-table", "action_needed", "queue", "health")
        return {name: render_part(request, visitor, f"overview/{name}.html", **values) for name in names}

    return stream(request, visitor, f"overview {span}", render_parts)


@router.get("/overview/forecast")
async def show_forecast(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Simulate the queue. Loaded after the page, because it is computed on each request."""
    found = await forecast(
        engine.database, engine.clock, engine.defaults, tenant_id=visitor.tenant_id, horizon=_FORECAST_HORIZON
    )
    shown = found.campaigns[:_MAX_CAMPAIGNS]
    axis = axis_for(found.computed_at, (campaign.finishes_at or found.looked_until for campaign in shown))
    rows = [_forecast_row(campaign, axis) for campaign in shown]
    values = {"found": found, "rows": rows, "axis": axis, "left_out": len(found.campaigns) - len(rows)}
    return fragment(request, visitor, "overview/forecast.html", **values)


@router.get("/overview/growth")
async def show_growth(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Count subscriptions. Loaded after the page, because it reads all of them."""
    since = engine.clock.now() - _GROWTH_PERIOD

    async def count() -> AudienceGrowth:
        return await load_growth(engine.database.reader, visitor.tenant_id, since=since)

    found = await result_cache_of(request).get(("growth", visitor.tenant_id), count)
    return fragment(request, visitor, "overview/growth.html", growth=found)


@router.post("/overview/release")
async def release(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Resume sending that is on hold because the database was restored or replaced."""
    if visitor.user.tenant_id is not None:
        raise Forbidden(
            gettext("Only a user of the whole installation can resume sending, because it affects every tenant.")
        )
    try:
        due = DueMessages((await read_fields(request))["due"])
        doubted, paused = await release_sending(engine.database, engine.clock, actor=visitor.actor, due=due)
    except (ValueError, NotPossibleNow) as error:
        return redirect(request, "/", error.text if isinstance(error, NotPossibleNow) else str(error), tone="bad")
    return redirect(
        request,
        "/",
        gettext(
            "Sending resumed. Unconfirmed emails: {doubted}. Paused campaigns: {paused}.",
            doubted=doubted,
            paused=len(paused.campaigns),
        ),
    )


async def _campaign_values(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    """Return the last campaign, and those that are not sent yet."""
    async with engine.database.reader.read() as tx:
        latest = await load_history(tx, visitor.tenant_id, engine.clock.now(), limit=1)
    newest = await engine.campaigns.list_page(tenant_id=visitor.tenant_id, limit=_LISTED_CAMPAIGNS)
    prepared = [each for each in newest if each.status in (CampaignStatus.DRAFT, CampaignStatus.READY)]
    return {"last": latest[0] if latest else None, "drafts": prepared[:_MAX_DRAFTS]}


async def _start_values(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    """Return the remaining set-up steps, and whether emails leave this machine."""
    effective = await load_effective(engine.settings, engine.database)
    used = effective.settings
    is_admin = visitor.user.tenant_id is None and visitor.may(Role.ADMIN)
    return {
        "checklist": await load_checklist(used, engine.database, visitor.tenant_id) if is_admin else None,
        "readiness": await readiness_of(engine, visitor, counts_consent=True),
        "settings_problems": effective.problems if is_admin else (),
    }


async def _current_values(request: Request, engine: Engine, visitor: Visitor, span: str) -> dict[str, Any]:
    now, tenant_id = engine.clock.now(), visitor.tenant_id
    seen = await summarize_queue(engine.database, now, tenant_id)
    past_day = {"tenant_id": tenant_id, "since": now - DAY}
    return {
        "summary": seen,
        "most": MAX_COUNTED,
        "rate": await _rate(engine, tenant_id, now),
        "sent_in_a_day": await tallies.count_events(engine.database, EventType.SENT, **past_day),
        **await _chart(engine, visitor, now, RANGES[span]),
        "range": RANGES[span],
        "in_line": await _queued_campaigns(engine, tenant_id),
        "other_lanes": [lane for lane in seen.lanes if not lane.is_of_campaign],
        **await _health(engine, now, seen),
        "findings": await _findings(request, visitor),
        "approvals_for_you": await count_waiting_for(engine.database, tenant_id, visitor.actor) or 0,
    }


async def _rate(engine: Engine, tenant_id: int, now: Instant) -> float:
    """Return emails per second over the last 60 seconds, from the tallies of this and the previous minute."""
    last = await tallies.load_buckets(engine.database, tenant_id=tenant_id, since=now - MINUTE, until=now)
    sent = [each.counts.get("SENT", 0) for each in last]
    passed = now % MINUTE / MINUTE
    return (sent[-1] + sent[0] * (1 - passed)) / 60 if len(sent) > 1 else sent[-1] / 60


async def _chart(engine: Engine, visitor: Visitor, now: Instant, wanted: ChartRange) -> dict[str, Any]:
    """Return the data of the chart, and its rows that are not empty for the table with the same figures."""
    found = await tallies.load_buckets(
        engine.database.reader, tenant_id=visitor.tenant_id, since=now - wanted.length, until=now, length=wanted.step
    )
    data: dict[str, Any] = {
        "zone": str(visitor.zone),
        "step": wanted.step // SECOND,
        "times": [each.begins_at // SECOND for each in found],
        "sent": [each.counts.get("SENT", 0) for each in found],
        "failed": [each.counts.get("FAILED", 0) + each.counts.get("bounce", 0) for each in found],
    }
    counted = zip(found, data["sent"], data["failed"], strict=True)
    rows = [(each.begins_at, sent, failed) for each, sent, failed in counted if sent or failed]
    return {"chart": orjson.dumps(data).decode(), "chart_rows": rows[::-1]}


async def _queued_campaigns(engine: Engine, tenant_id: int) -> list[CampaignQueueRow]:
    await refresh_queue(engine.database, engine.clock, engine.defaults)
    async with engine.database.read() as tx:
        line = (await list_positions(tx, tenant_id=tenant_id))[:_MAX_CAMPAIGNS]
        return [
            CampaignQueueRow(place, found) for place, found in zip(line, await count_messages_of(tx, line), strict=True)
        ]


async def _findings(request: Request, visitor: Visitor) -> list[Finding]:
    """Return the warnings and problems of the installation, for its users. Another row of the list shows a hold."""
    if visitor.user.tenant_id is not None:
        return []
    found = await health_watch_of(request).findings()
    return [each for each in found if each.verdict in (Verdict.WARNING, Verdict.PROBLEM) and each.name != "sending"]


async def _health(engine: Engine, now: Instant, seen: QueueSummary) -> dict[str, Any]:
    workers = [each for each in await list_present(engine.database, now) if not each.is_silent(now)]
    providers: dict[str, Any] = {}
    for presence in workers:
        if not presence.is_unavailable or presence.provider not in providers:
            providers[presence.provider] = presence if presence.is_unavailable else None
    oldest = min((lane.until or now for lane in seen.lanes if lane.due), default=None)
    return {
        "workers": sorted({presence.worker for presence in workers}),
        "providers": providers,
        "quotas": await quotas.load_quotas(engine.database),
        "is_worker_alive": engine.is_worker_alive() if engine.is_worker_alive is not None else None,
        "oldest_due": oldest,
        "engine": engine.database.dialect,
        "unsafe_settings": await find_unsafe_settings(engine.database),
        "hold": await find_hold(engine.database),
    }


def _forecast_row(campaign: CampaignForecast, axis: Axis) -> ForecastRow:
    spans = []
    for span in summarize_segments(campaign.segments):
        start, end = max(span.begins_at, axis.begins_at), min(span.ends_at, axis.ends_at)
        if end > start:
            kind = "full-speed" if span.reason is None else "limited" if span.sent else "waiting"
            width = round(max(axis.at(end) - axis.at(start), _MIN_SPAN_WIDTH), 2)
            x = min(axis.at(start), WIDTH - width)
            spans.append(ForecastSpan(x, width, kind, span.reason, span.begins_at, span.ends_at))
    return ForecastRow(campaign, tuple(spans))
