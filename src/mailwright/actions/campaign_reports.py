"""Reports of campaigns: every figure of their pages, their recipients, and the segments and drafts made from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from mailwright.actions.campaigns import (
    AbTestResponse,
    CampaignCountsResponse,
    CampaignResponse,
    CampaignResultsResponse,
    EngagementCountsResponse,
    LinkEngagementResponse,
    ab_test_response,
    actor,
    campaign_response,
    campaigns,
    find,
    noun,
)
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    AgentTool,
    CsvFile,
    JsonLinesFile,
    Line,
    Moment,
    Option,
    Table,
    TableOf,
    TwoLines,
    one_part,
)
from mailwright.actions.segments import SegmentResponse, segment_response
from mailwright.audience.csv_cells import csv_text
from mailwright.domain.buckets import Bucket
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import MINUTE, isoformat
from mailwright.domain.recipient_providers import RecipientProvider
from mailwright.domain.states import EventType
from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.base import From, ResponseModel, Time
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.schemas.recipient_report import recipients_csv, recipients_json_lines
from mailwright.sources.api.fields import RequestModel, SegmentName
from mailwright.sources.campaigns import report
from mailwright.sources.campaigns.breakdown import DelayInterval
from mailwright.sources.campaigns.comparison import MAX_HISTORY, CampaignResult, load_history
from mailwright.sources.campaigns.create_resend import create_resend
from mailwright.sources.campaigns.definition import SingleLine, Subject
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.report import RecipientFilter, RecipientResponse
from mailwright.sources.campaigns.report_figures import ReportFigures, load_figures
from mailwright.sources.campaigns.response_segments import ReportBar, SegmentOf, create_segment
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
    outbox_id: Annotated[str, From("message_id")]
    sent_at: Time | None
    error_code: str | None
    error_message: str | None


class CampaignRecipientListResponse(ResponseModel):
    recipients: list[CampaignRecipientResponse]
    next_cursor: str | None


class CampaignResendRequest(RequestModel):
    """The new subject, and optionally the name of the draft."""

    subject: Annotated[Subject, Field(description="The new subject.")]
    name: Annotated[SingleLine, Field(description="The internal name.")] | None = None


class CampaignSegmentRequest(RequestModel):
    """A bar of the report. `url` narrows clicks, the minutes after sending narrow opens and clicks."""

    of: Annotated[SegmentOf, Field(description="Which recipients the segment contains.")]
    url: Annotated[str, Field(min_length=1, max_length=2000, description="Only clicks of this link.")] | None = None
    domain: Annotated[str, Field(min_length=1, max_length=253, description="Only addresses at this domain.")] | None = (
        None
    )
    provider: Annotated[RecipientProvider, Field(description="Only this provider.")] | None = None
    after_minutes: Annotated[int, Field(ge=0, le=1_000_000, description="Minutes after sending.")] | None = None
    before_minutes: Annotated[int, Field(ge=1, le=1_000_000, description="Minutes after sending.")] | None = None
    segment_key: (
        Annotated[
            str, Option("--key", default="generated"), Field(max_length=63, description="The key of the segment.")
        ]
        | None
    ) = None
    name: Annotated[SegmentName, Option(default="generated"), Field(description="The name of the segment.")] | None = (
        None
    )

    @property
    def bar(self) -> ReportBar:
        return ReportBar(self.of, self.url, self.domain, self.provider, self.after_minutes, self.before_minutes)


def parse_recipient_filter(show: str) -> RecipientFilter | None:
    """Return the bucket or the response with this name, or None for `all`."""
    if show == "all":
        return None
    return RecipientResponse(show) if show in set(RecipientResponse) else Bucket(show)


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
        delays=[delay_response(each) for each in breakdown.delays] if breakdown else [],
        reasons=figures.reasons if figures else None,
        interval_minutes=figures.statistics.length // MINUTE if figures else None,
        intervals=list(_intervals(figures.statistics)) if figures else [],
    )


def figures_csv(report: CampaignReportResponse) -> str:
    """Return one line for each figure of the report: section, item, figure and value."""
    return csv_text([FIGURE_COLUMNS, *_figures(report.to_dict())])


def history_csv(results: Sequence[CampaignResult]) -> str:
    """Return one line for each campaign, with its totals and its rates."""
    names = [name for name in CampaignResult.__slots__ if name not in ("key", "started_at")]
    rates = list(results[0].rates) if results else []
    rows: list[Sequence[Any]] = [("started_at", *names, *(f"{name}_rate" for name in rates))]
    for each in results:
        values = [getattr(each, name) for name in names]
        rows.append((isoformat(each.started_at), *values, *(_rounded(rate) for rate in each.rates.values())))
    return csv_text(rows)


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


def delay_response(interval: DelayInterval) -> ResponseDelayResponse:
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


def duration_text(minutes: int) -> str:
    """Return `10 min`, `2 h` or `3 d`."""
    if minutes % (24 * 60) == 0:
        return f"{minutes // (24 * 60)} d"
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"


def delay_text(delay: ResponseDelayResponse) -> str:
    """Return `under 10 min`, `2 h to 6 h` or `7 d and later`."""
    begins = duration_text(delay.from_minutes)
    if delay.to_minutes is None:
        return f"{begins} and later"
    end = duration_text(delay.to_minutes)
    return f"{begins} to {end}" if delay.from_minutes else f"under {end}"


# Output.


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate * 100:.1f} %"


def _rate(name: str) -> Callable[[Any], str]:
    return lambda result: _percent(result.rates[name])


_HISTORY: Final = Table(
    "campaigns",
    {
        "Campaign and start ({zone})": lambda each: TwoLines(each.name, Moment(each.started_at)),
        "Sent#": "sent",
        "Opened#": _rate("opened"),
        "Clicked#": _rate("clicked"),
        "Bounced#": _rate("bounced"),
        "Unsubscribed#": _rate("unsubscribed"),
    },
    nothing="No campaign has started yet.",
)
_PROVIDERS: Final = Table(
    "providers",
    {
        "Provider": "name",
        "Sent#": "sent",
        "Opened#": "opened",
        "Clicked#": "clicked",
        "Bounced#": "bounced",
        "Complained#": "complained",
        "Unsubscribed#": "unsubscribed",
    },
    nothing="",
)
_DELAYS: Final = Table("delays", {"After sending": delay_text, "Opened#": "opened", "Clicked#": "clicked"}, nothing="")
_REASONS: Final = {
    "Bounce reason": "bounces",
    "Failure": "failures",
    "Complaint": "complaints",
    "Unsubscribed by": "unsubscribes",
}


def _shown_figures(found: CampaignReportResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    if found.counts is None:
        yield "The campaign has not started, so it has no figures."
        return
    yield f"{found.counts.sent + found.counts.bounced:,} sent, {found.tracked:,} of them tracked individually"
    if found.tracked and (groups := found.open_groups) is not None:
        yield (
            f"{groups.opened:,} opened, {groups.did_not_open:,} did not open, "
            f"{groups.only_machines:,} only by machines, {groups.not_measured:,} not measured"
        )
    if (compared := found.comparison) is not None:
        columns: dict[str, Callable[[Any], str]] = {
            "Rate": lambda each: each.name.capitalize(),
            "This campaign#": lambda each: _percent(each.rate),
        }
        if compared.campaigns:
            columns[f"Median of {compared.campaigns} before#"] = lambda each: _percent(each.median)
        yield TableOf(Table("rates", columns, nothing=""), compared)
    yield _PROVIDERS
    if answered := [each for each in found.delays if each.opened or each.clicked]:
        yield TableOf(_DELAYS, found.model_copy(update={"delays": answered}))
    for title, name in _REASONS.items():
        if getattr(found.reasons, name, None):
            yield TableOf(Table(name, {title: "name", "Recipients#": "recipients"}, nothing=""), found.reasons)


# All campaigns over time.


@noun.get("/v1/reports/export.csv")
async def download_reports(at: Context) -> CsvFile:
    """Download the results of your latest campaigns as CSV, at most 1,000."""
    async with at.database.reader.read() as tx:
        found = await load_history(tx, at.tenant_id, at.clock.now(), limit=MAX_HISTORY)
    return CsvFile(one_part(history_csv(found).encode()), "reports.csv")


@noun.get("/v1/reports", command="history", csv=download_reports, shown=_HISTORY)
async def list_reports(at: Context, page: Page) -> CampaignHistoryResponse:
    """Show the results of your campaigns over time, latest first: totals and rates of each."""
    before: Any = decode_cursor("report", page.cursor, 2) if page.cursor is not None else None
    async with at.database.reader.read() as tx:
        found = await load_history(tx, at.tenant_id, at.clock.now(), limit=page.limit, before=before)
    last = found[-1] if len(found) == page.limit else None
    following = encode_cursor("report", last.started_at or 0, last.key) if last else None
    return CampaignHistoryResponse.model_validate({"campaigns": found, "next_cursor": following})


# One campaign.


@noun.get("/{campaignId}/figures.csv")
async def download_figures(at: Context, campaign_id: str) -> CsvFile:
    """Download every figure of the report as CSV: section, item, figure and value."""
    report = await show_report(at, campaign_id)
    return CsvFile(one_part(figures_csv(report).encode()), f"figures-{campaign_id}.csv")


@noun.get(
    "/{campaignId}/report",
    command="figures",
    csv=download_figures,
    help="Show every figure of a campaign's report, with the fields of GET /v1/campaigns/{id}/report.",
    shown=_shown_figures,
    agent=AgentTool(
        "campaign_report",
        "Show the figures of a campaign: delivered, bounced, opened, clicked, unsubscribed, and each link.",
    ),
)
async def show_report(at: Context, campaign_id: str) -> CampaignReportResponse:
    """Show every figure of the report page: results, links, time to respond, domains, reasons and comparison."""
    campaign = await find(at, campaign_id)
    figures = await load_figures(at.database.reader, campaign, at.clock.now(), at.settings.tracking)
    return campaign_report_response(campaign, figures)


@noun.get("/{campaignId}/report.csv")
async def report_csv(at: Context, campaign_id: str, query: RecipientQuery) -> CsvFile:
    """Download the result of every recipient as CSV, by address; with `show`, of some of them."""
    campaign = await find(at, campaign_id)
    rows = report.report_rows(at.database, campaign.key, query.filter)
    return CsvFile(recipients_csv(rows), f"campaign-{campaign_id}.csv")


@noun.get("/{campaignId}/report.jsonl")
async def report_json_lines(at: Context, campaign_id: str, query: RecipientQuery) -> JsonLinesFile:
    """Download the result of every recipient as JSON lines, by address; with `show`, of some of them."""
    campaign = await find(at, campaign_id)
    rows = report.report_rows(at.database, campaign.key, query.filter)
    return JsonLinesFile(recipients_json_lines(rows), f"campaign-{campaign_id}.jsonl")


@noun.get("/{campaignId}/recipients")
async def recipients(at: Context, campaign_id: str, page: RecipientPage) -> CampaignRecipientListResponse:
    """List the recipients with a message, by address; with `show`, some of them.

    `show` is a status or a response of people. `nextCursor` is the `after` of the next page.
    """
    campaign = await find(at, campaign_id)
    found = await report.report_page(at.database, campaign.key, limit=page.limit, after=page.after, show=page.filter)
    following = found[-1].email if len(found) == page.limit else None
    return CampaignRecipientListResponse.model_validate({"recipients": found, "next_cursor": following})


@noun.post(
    "/{campaignId}/segments",
    status=HTTPStatus.CREATED,
    scope=MANAGE,
    audit="segment.create",
    command="segment",
    help="Create a segment of a campaign's recipients by their response, and print only its key on stdout.",
    shown="{segment_key}",
)
async def make_segment(at: Context, campaign_id: str, wanted: CampaignSegmentRequest) -> SegmentResponse:
    """Create a segment of recipients by their response. The same request returns the same segment."""
    campaign, named = await find(at, campaign_id), {"segment_key": wanted.segment_key, "name": wanted.name}
    return segment_response(await create_segment(at.database, at.clock, campaign, wanted.bar, actor=at.actor, **named))


@noun.post(
    "/{campaignId}/resend",
    status=HTTPStatus.CREATED,
    scope=MANAGE,
    audit="campaign.create",
    command="resend",
    help="""Create a draft for everyone who did not open a campaign, and print only its id on stdout.

    Possible once for each campaign, if its opens were recorded individually. Recipients without tracking consent, and
    those whose email only a machine opened, are left out.
    """,
    shown="{campaign_id}",
)
async def resend(at: Context, campaign_id: str, wanted: CampaignResendRequest) -> CampaignResponse:
    """Create a draft with a new subject for everyone who did not open the campaign. This is possible once.

    Recipients whose opens are not known are left out: those without tracking consent, and those whose email only a
    program opened. Mailwright determines who did not open when the draft starts.
    """
    made = await create_resend(
        at.database, campaigns(at), actor(at), campaign_id, subject=wanted.subject, name=wanted.name
    )
    return campaign_response(made, await load_numbers(at.database, made))
