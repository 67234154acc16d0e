"""Models of the guard rails of campaigns."""

from mailwright.domain.guard_rails import GuardAction, Incident
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.campaigns.guard_rails import GuardReport


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

    rails: GuardRailsResponse
    messages: int
    hard_bounces: int
    complaints: int
    counted_since: Time | None
    finding: GuardFindingResponse | None
    slow_per_hour: int | None
    wave: WaveResponse | None


def guard_report_response(report: GuardReport) -> GuardReportResponse:
    state, found = report.state, report.state.finding
    finding = None
    if found is not None:
        finding = GuardFindingResponse(
            kind=found.kind,
            action=found.action,
            incidents=found.incidents,
            messages=found.messages,
            percent=round(found.percent, 3),
            threshold_percent=found.threshold,
            found_at=state.found_at,
        )
    return GuardReportResponse(
        rails=GuardRailsResponse.model_validate(report.rails),
        messages=report.counts.messages,
        hard_bounces=report.counts.hard_bounces,
        complaints=report.counts.complaints,
        counted_since=state.since or None,
        finding=finding,
        slow_per_hour=state.slow_per_hour,
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
