"""The report of a campaign: every figure of its page, as JSON and as CSV."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from mailwright.actions.campaigns import (
    AbTestResponse,
    CampaignCountsResponse,
    CampaignResultsResponse,
    EngagementCountsResponse,
    LinkEngagementResponse,
    ab_test_response,
)
from mailwright.audience.csv_cells import escape_formula
from mailwright.domain.buckets import Bucket
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import MINUTE, Instant, isoformat
from mailwright.domain.recipient_providers import RecipientProvider
from mailwright.domain.states import EventType
from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel, SegmentName
from mailwright.sources.campaigns.breakdown import DelayInterval
from mailwright.sources.campaigns.comparison import CampaignResult
from mailwright.sources.campaigns.definition import SingleLine, Subject
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.report import RecipientFilter, RecipientResponse, ReportRow
from mailwright.sources.campaigns.report_figures import ReportFigures
from mailwright.sources.campaigns.response_segments import ReportBar, SegmentOf
from mailwright.sources.campaigns.statistics import CampaignStatistics

FIGURE_COLUMNS: Final = ("section", "item", "figure", "value")


class DomainResultsResponse(ResponseModel):
    """Recipients of one domain or mailbox provider; each counts once in each field. `sent` includes `bounced`."""

    name: str
    sent: int
    bounced: int
    opened: int
    clicked: int
    machine_opened: int
    machine_clicked: int
    complained: int
    unsubscribed: int


class ResponseDelayResponse(ResponseModel):
    """The number of recipients who first opened or clicked within these minutes after their email was sent.

    The last interval has no end.
    """

    from_minutes: int
    to_minutes: int | None
    opened: int
    clicked: int


class ReasonResponse(ResponseModel):
    """A reason and the number of its recipients. `example` is the response of a server for one of them."""

    name: str
    recipients: int
    example: str | None


class OpenGroupsResponse(ResponseModel):
    """Everyone who received the campaign, each in one group.

    `onlyMachines`: only programs opened it, and a person may be behind one of them, for example at Gmail.
    `notMeasured`: recipients without tracking consent, and emails that were not tracked for another reason.
    """

    opened: int
    did_not_open: int
    only_machines: int
    not_measured: int


class ReasonsResponse(ResponseModel):
    bounces: list[ReasonResponse]
    complaints: list[ReasonResponse]
    unsubscribes: list[ReasonResponse]
    failures: list[ReasonResponse]


class ComparedRateResponse(ResponseModel):
    """Shares from 0 to 1, null if nothing was measured. Opens and clicks refer to the tracked emails."""

    name: str
    rate: float | None
    median: float | None


class ComparisonResponse(ResponseModel):
    """This campaign and the median of the last ten `campaigns` before it."""

    campaigns: int
    rates: list[ComparedRateResponse]


class ReportIntervalResponse(ResponseModel):
    begins_at: Time
    sent: int
    opened: int
    clicked: int


class CampaignReportResponse(ResponseModel):
    """All figures of the report page, null or empty before the start. `links`: the most clicked link first.

    `tracked`: the number of emails whose opens and clicks were recorded individually. `otherDomains`: the sum of the
    domains that are not in `domains`.
    """

    campaign_id: str
    name: str
    status: CampaignStatus
    counts: CampaignCountsResponse | None
    results: CampaignResultsResponse | None
    opens: EngagementCountsResponse | None
    clicks: EngagementCountsResponse | None
    tracking: TrackingMode | None
    tracked: int
    open_groups: OpenGroupsResponse | None
    links: list[LinkEngagementResponse]
    ab_test: AbTestResponse | None
    comparison: ComparisonResponse | None
    providers: list[DomainResultsResponse]
    domains: list[DomainResultsResponse]
    other_domains: DomainResultsResponse | None
    delays: list[ResponseDelayResponse]
    reasons: ReasonsResponse | None
    interval_minutes: int | None
    intervals: list[ReportIntervalResponse]


class CampaignResultResponse(ResponseModel):
    """The totals of one campaign. `opened` and `clicked` count people; `rates` are shares from 0 to 1, or null."""

    campaign_id: str
    name: str
    started_at: Time | None
    sent: int
    tracked: int
    delivered: int
    opened: int
    clicked: int
    machine_opened: int
    machine_clicked: int
    bounced: int
    complained: int
    unsubscribed: int
    rates: dict[str, float | None]


class CampaignHistoryResponse(ResponseModel):
    """The totals of the campaigns over time, newest first."""

    campaigns: list[CampaignResultResponse]
    next_cursor: str | None


RecipientShow = Literal[
    "all",
    "waiting",
    "sending",
    "sent",
    "bounced",
    "failed",
    "suppressed",
    "in_doubt",
    "closed_unknown",
    "cancelled",
    "opened",
    "clicked",
    "did_not_open",
    "complained",
    "unsubscribed",
]


class RecipientQuery(RequestModel):
    """`show`: a status such as `bounced`, or a response of people such as `opened` or `did_not_open`."""

    show: RecipientShow = "all"

    @property
    def filter(self) -> RecipientFilter | None:
        return parse_recipient_filter(self.show)


class RecipientPage(RecipientQuery):
    limit: Annotated[int, Field(ge=1, le=200, description="Maximum number of entries.")] = 50
    after: Annotated[str, Field(max_length=320, description="Last address of the previous page.")] = ""


class CampaignRecipientResponse(ResponseModel):
    """A recipient with a message. `status` is the status of the message in capitals."""

    email: str
    status: str
    outbox_id: str
    sent_at: Time | None
    error_code: str | None
    error_message: str | None


class CampaignRecipientListResponse(ResponseModel):
    recipients: list[CampaignRecipientResponse]
    next_cursor: str | None


class CampaignResendRequest(RequestModel):
    """The new subject, and optionally the name of the draft."""

    subject: Subject
    name: SingleLine | None = None


class CampaignSegmentRequest(RequestModel):
    """A bar of the report. `url` narrows clicks, the minutes after sending narrow opens and clicks."""

    of: SegmentOf
    url: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    domain: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    provider: RecipientProvider | None = None
    after_minutes: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    before_minutes: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    segment_key: Annotated[str, Field(max_length=63)] | None = None
    name: SegmentName | None = None

    @property
    def bar(self) -> ReportBar:
        return ReportBar(self.of, self.url, self.domain, self.provider, self.after_minutes, self.before_minutes)


def parse_recipient_filter(show: str) -> RecipientFilter | None:
    """Return the bucket or the response with this name, or None for `all`."""
    if show == "all":
        return None
    return RecipientResponse(show) if show in set(RecipientResponse) else Bucket(show)


def recipient_response(row: ReportRow) -> CampaignRecipientResponse:
    return CampaignRecipientResponse(
        email=row.email,
        status=row.status,
        outbox_id=row.message_id,
        sent_at=row.sent_at,
        error_code=row.error_code,
        error_message=row.error_message,
    )


def campaign_report_response(campaign: Campaign, figures: ReportFigures | None) -> CampaignReportResponse:
    numbers = figures.numbers if figures else None
    engagement = numbers.engagement if numbers else None
    breakdown = figures.breakdown if figures else None
    return CampaignReportResponse(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        status=campaign.status,
        counts=numbers.counts if numbers else None,
        results=numbers.results if numbers else None,
        opens=engagement.opens if engagement else None,
        clicks=engagement.clicks if engagement else None,
        tracking=figures.tracking.mode if figures else None,
        tracked=figures.totals.tracked if figures else 0,
        open_groups=figures.open_groups if figures else None,
        links=engagement.links if engagement else [],
        ab_test=ab_test_response(numbers.ab_test) if numbers else None,
        comparison=figures.comparison if figures else None,
        providers=breakdown.providers if breakdown else [],
        domains=breakdown.domains if breakdown else [],
        other_domains=breakdown.other_domains if breakdown else None,
        delays=[_delay(each) for each in breakdown.delays] if breakdown else [],
        reasons=figures.reasons if figures else None,
        interval_minutes=figures.statistics.length // MINUTE if figures else None,
        intervals=list(_intervals(figures.statistics)) if figures else [],
    )


def campaign_result_response(result: CampaignResult) -> CampaignResultResponse:
    return CampaignResultResponse.model_validate(result)


def figures_csv(report: CampaignReportResponse) -> str:
    """Return one line for each figure of the report: section, item, figure and value."""
    return _csv([FIGURE_COLUMNS, *_figures(report.to_dict())])


def history_csv(results: Sequence[CampaignResult]) -> str:
    """Return one line for each campaign, with its totals and its rates."""
    names = [name for name in CampaignResult.__slots__ if name not in ("key", "started_at")]
    rates = list(results[0].rates) if results else []
    rows: list[Sequence[Any]] = [("started_at", *names, *(f"{name}_rate" for name in rates))]
    for each in results:
        values = [getattr(each, name) for name in names]
        rows.append((isoformat(each.started_at), *values, *(_rounded(rate) for rate in each.rates.values())))
    return _csv(rows)


# The fields that can name an item of a list. The first one that exists is used.
_ITEM_NAMES: Final = ("name", "url", "beginsAt")


def _figures(report: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for section, value in report.items():
        match value:
            case dict():
                yield from _section(section, "", value)
            case list():
                for item in value:
                    yield from _section(section, _item_name(item), item)
            case None:
                continue
            case _:
                yield "campaign", "", section, value


def _section(section: str, item: str, values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for name, value in values.items():
        if isinstance(value, list):
            for each in value:
                yield from _section(f"{section}.{name}", _item_name(each), each)
        elif value is not None and (name not in _ITEM_NAMES or not item):
            yield section, item, name, value


def _item_name(item: dict[str, Any]) -> str:
    if "fromMinutes" in item:
        return f"{item['fromMinutes']}-{item['toMinutes'] or ''} min"
    return next((str(item[name]) for name in _ITEM_NAMES if item.get(name)), "")


def _delay(interval: DelayInterval) -> ResponseDelayResponse:
    return ResponseDelayResponse(
        from_minutes=interval.begins // MINUTE,
        to_minutes=None if interval.ends is None else interval.ends // MINUTE,
        opened=interval.opened,
        clicked=interval.clicked,
    )


def _intervals(statistics: CampaignStatistics) -> Iterator[ReportIntervalResponse]:
    names = {"sent": EventType.SENT, "opened": EventType.OPENED, "clicked": EventType.CLICKED}
    for each in statistics.intervals:
        counts = {name: each.counts.get(type_, 0) for name, type_ in names.items()}
        yield ReportIntervalResponse.model_validate({"begins_at": each.begins_at, **counts})


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 6)


def _csv(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    cells = ([escape_formula("" if cell is None else str(cell)) for cell in row] for row in rows)
    csv.writer(text, lineterminator="\r\n").writerows(cells)
    return text.getvalue()


def duration_text(length: Instant) -> str:
    """Return `10 min`, `2 h` or `3 d`."""
    minutes = length // MINUTE
    if minutes % (24 * 60) == 0:
        return f"{minutes // (24 * 60)} d"
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"


def delay_text(interval: DelayInterval) -> str:
    """Return `under 10 min`, `2 h to 6 h` or `7 d and later`."""
    if interval.ends is None:
        return f"{duration_text(interval.begins)} and later"
    end = duration_text(interval.ends)
    return f"under {end}" if not interval.begins else f"{duration_text(interval.begins)} to {end}"
