"""The guard rails and waves of campaigns."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.campaigns import ReviewedQuery, actor, find, noun, shown_status
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Line, Moment
from mailwright.app.limits import guard_rails
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.guard_rails import GuardAction, GuardFinding, Incident
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.guard_rails import GuardReport
from mailwright.sources.campaigns.records import Campaign
from mailwright.texts.explanations import GUARD_ACTIONS, guard_finding_text


class GuardRailsResponse(ResponseModel):
    """The thresholds that apply, in percent; 0 turns a threshold off. `atWarning`: `warn` or `slow_down`."""

    complaint_warn_percent: float
    complaint_stop_percent: float
    hard_bounce_warn_percent: float
    hard_bounce_stop_percent: float
    min_messages: int
    at_warning: str
    slow_per_hour: int


class GuardFindingResponse(ResponseModel):
    """A threshold that the campaign has passed. `action`: `warn`, `slow_down` or `stop`."""

    kind: Incident
    action: GuardAction
    incidents: int
    messages: int
    percent: float
    threshold_percent: float
    found_at: Time | None


class WaveResponse(ResponseModel):
    """The open wave, from 1, and the share of the audience that has a message after it. `opensAt`: when the next wave
    opens if the guard rails find nothing; null while the open wave is being sent.
    """

    number: int
    waves: int
    percent: int
    opens_at: Time | None


class GuardReportResponse(ResponseModel):
    """`messages`: messages with a result since `countedSince`, which is null for all of them.

    `finding`: the threshold that the campaign has passed, or null. `slowPerHour`: set while the campaign is slowed
    down. `wave`: null without waves and after the last one has opened.
    """

    campaign_id: str
    name: str
    status: CampaignStatus
    rails: GuardRailsResponse
    messages: int
    hard_bounces: int
    complaints: int
    counted_since: Time | None
    finding: GuardFindingResponse | None
    slow_per_hour: int | None
    wave: WaveResponse | None


class OpenWaveQuery(ReviewedQuery):
    wave: Annotated[
        int | None, Field(ge=0, le=1_000_000, description="The number of the open wave. If another is open, it stays.")
    ] = None


def guard_report_response(campaign: Campaign, report: GuardReport) -> GuardReportResponse:
    state, found = report.state, report.state.finding
    finding = None
    if found is not None:
        percent = round(found.percent, 3)
        finding = combine(GuardFindingResponse, found, state, percent=percent, threshold_percent=found.threshold)
    return combine(
        GuardReportResponse,
        campaign,
        report.counts,
        state,
        rails=report.rails,
        counted_since=state.since or None,
        finding=finding,
        wave=_wave(report),
    )


def _wave(report: GuardReport) -> WaveResponse | None:
    if report.wave is None or report.waves is None:
        return None
    percents = report.waves.percents
    return WaveResponse(
        number=report.wave,
        waves=len(percents) + 1,
        percent=percents[report.wave - 1],
        opens_at=report.waves.opens_at,
    )


def _shown_report(found: GuardReportResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the counts of the guard rails, their thresholds and their actions so far."""
    rails, wave = found.rails, found.wave
    if wave is not None:
        opens = () if wave.opens_at is None else (", the next one opens at ", Moment(wave.opens_at, names_zone=True))
        yield (f"wave {wave.number} of {wave.waves}", *opens)
    since = () if found.counted_since is None else (" since ", Moment(found.counted_since, names_zone=True))
    incidents = f": {found.hard_bounces:,} hard bounces, {found.complaints:,} complaints"
    yield (f"{found.messages:,} emails", *since, incidents)
    yield f"hard bounces: warn at {rails.hard_bounce_warn_percent:g} %, stop at {rails.hard_bounce_stop_percent:g} %"
    yield f"complaints: warn at {rails.complaint_warn_percent:g} %, stop at {rails.complaint_stop_percent:g} %"
    if (each := found.finding) is not None:
        text = guard_finding_text(
            GuardFinding(each.kind, each.action, each.incidents, each.messages, each.threshold_percent)
        )
        yield (f"{GUARD_ACTIONS[each.action]} at ", Moment(each.found_at, names_zone=True), f": {text}")


def _actions(at: Context) -> CampaignGuardActions:
    return CampaignGuardActions(at.database, at.clock, guard_rails(at.settings))


@noun.get("/{campaignId}/guard-rails", command="guard-rails", shown=_shown_report)
async def show_guard_rails(at: Context, campaign_id: str) -> GuardReportResponse:
    """Show the guard rails of a started campaign, their counts and their actions so far."""
    report = await _actions(at).report(campaign_id, tenant_id=at.tenant_id)
    return guard_report_response(await find(at, campaign_id), report)


@noun.post(
    "/{campaignId}/accept-incidents",
    scope=MANAGE,
    audit="campaign.accept_incidents",
    command="accept-incidents",
    shown=shown_status,
)
async def accept_incidents(at: Context, campaign_id: str) -> GuardReportResponse:
    """End a warning or a slow-down by the guard rails. Only messages sent from now on count."""
    await _actions(at).accept_incidents(actor(at), campaign_id)
    return await show_guard_rails(at, campaign_id)


@noun.post("/{campaignId}/open-wave", scope=MANAGE, audit="campaign.open_wave", command="open-wave", shown=shown_status)
async def open_wave(at: Context, campaign_id: str, query: OpenWaveQuery) -> GuardReportResponse:
    """Open the next wave now, also if guard rails hold it."""
    await _actions(at).open_next_wave(actor(at), campaign_id, wave=query.wave, reviewed=query.reviewed)
    return await show_guard_rails(at, campaign_id)
