"""Show a campaign in a terminal: its status, its progress and its deferral."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mailwright.cli.output import aside, display, zone_time
from mailwright.content.presend_checks import PresendIssue
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sending_readiness import Destination, SendingReadiness
from mailwright.domain.sizes import size_text
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.engagement import CampaignEngagement
from mailwright.sources.campaigns.numbers import CampaignNumbers
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.variants import CampaignProblem
from mailwright.texts.ab_tests import ab_test_text
from mailwright.texts.buckets import bucket_parts
from mailwright.texts.explanations import deferral_text
from mailwright.texts.sending_readiness import readiness_text, sent_note

SHAPES: Final = {
    CampaignStatus.DRAFT: ("·", "bright_black"),
    CampaignStatus.READY: ("○", "cyan"),
    CampaignStatus.SENDING: ("→", "cyan"),
    CampaignStatus.PAUSED: ("=", "yellow"),
    CampaignStatus.SENT: ("✓", "green"),
    CampaignStatus.CANCELLED: ("–", "bright_black"),
}
MAX_SHOWN_LINKS = 10
BAR_WIDTH: Final = 40


@dataclass(frozen=True, slots=True)
class View:
    """A campaign at one point in time. Drafts have no queue position, and drafts and lists load no numbers."""

    campaign: Campaign
    place: QueuePosition | None
    numbers: CampaignNumbers | None
    now: Instant
    readiness: SendingReadiness | None = None  # not loaded for lists
    sent_to: Destination | None = None  # where its sent messages went

    @property
    def is_over(self) -> bool:
        """Whether the campaign no longer changes unless a user acts."""
        return self.place is None or self.place.status == "COMPLETED"


def status(found: CampaignStatus) -> Text:
    shape, colour = SHAPES[found]
    return Text(f"{shape} {found}", style=colour)


def waiting(place: QueuePosition | None, now: Instant) -> str | None:
    """Return a text like `Hourly limit reached until 15:00 UTC (in 12 minutes)`, or None if it is not deferred."""
    if place is None or place.defer_reason is None:
        return None
    return deferral_text(place.defer_reason, place.deferred_until, now, display.zone)


def repeat_text(campaign: Campaign) -> str | None:
    """Return a text like `Repeats, next 2027-01-18 09:00:00 Europe/Lisbon`, or None if it does not repeat."""
    if campaign.repeat is None:
        return None
    if campaign.repeat.next_at is None:
        return f"Repeating is paused. {campaign.repeat.last_result or ''}".strip()
    return f"Repeats, next {zone_time(campaign.repeat.next_at)}"


def picture(view: View) -> RenderableType:
    campaign, counts = view.campaign, view.numbers.counts if view.numbers else None
    facts: list[tuple[str, Any]] = [
        ("campaign", campaign.campaign_id),
        ("name", campaign.name),
        ("status", status(campaign.status)),
        ("subject", campaign.definition.content.subject),
        ("template", campaign.definition.content.template_id),
        ("scheduled", _time(campaign.definition.scheduled_at)),
        ("repeats", repeat_text(campaign)),
        ("made by", campaign.repeat_of),
        ("deferred", None if view.is_over else waiting(view.place, view.now)),
        ("audience", ", ".join(_audience(campaign))),
        ("attachments", "\n".join(f"{each.filename} ({size_text(each.size_bytes)})" for each in campaign.attachments)),
        ("waves", campaign.definition.waves.sentence if campaign.definition.waves else None),
        ("limits", ", ".join(limits(campaign.definition.limits)) or None),
        ("tracking", campaign.definition.tracking),
        ("delivery", _delivery(view)),
        ("started", _time(campaign.started_at)),
        ("finished", _time(campaign.finished_at)),
    ]
    grid = _grid(facts)
    if counts is None:
        return grid
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=max(counts.audience, 1), completed=counts.done, width=BAR_WIDTH), f"{counts.percent:g} %"
    )
    lines = [Text(_figures(counts))]
    if reported := _results(view.numbers):
        lines.append(Text(reported))
    if view.numbers is not None and view.numbers.engagement is not None:
        lines += [Text(line) for line in _engagement(view.numbers.engagement)]
    if view.numbers is not None and view.numbers.ab_test is not None:
        lines.append(Text(ab_test_text(view.numbers.ab_test)))
    return Group(grid, bar, *lines)


def _delivery(view: View) -> str | None:
    """Say whether the rest leaves this machine, and where sent messages went."""
    if view.is_over and view.sent_to is not None:
        return sent_note(view.sent_to)
    return None if view.readiness is None else readiness_text(view.readiness)


def limits(own: CampaignLimits) -> Iterable[str]:
    for words, value in (
        ("{} per second", own.rate_per_second),
        ("{} ms apart", own.interval_ms),
        ("{} per hour", own.rate_per_hour),
        ("{} per day", own.daily_limit),
        ("{}", own.working_hours),
        ("{}", own.timezone),
    ):
        if value is not None:
            yield words.format(value)
    if own.warmup:
        yield "warm-up"
    if own.one_at_a_time:
        yield "one at a time"
    if own.in_readers_time_zone:
        yield "in recipients' time zones"
    if own.ignore_frequency_cap is not None:
        yield f"no frequency cap ({own.ignore_frequency_cap})"
    if own.guard_rails is not None:
        given = own.guard_rails.model_dump(exclude_none=True)
        yield f"guard rails: {', '.join(_guard_rail_text(name, value) for name, value in given.items())}"


def _guard_rail_text(name: str, value: float | str) -> str:
    """Return `complaint stop 0.2 %`."""
    words = name.removesuffix("_percent").replace("_", " ")
    return f"{words} {value} %" if name.endswith("_percent") else f"{words} {str(value).replace('_', ' ')}"


def _audience(campaign: Campaign) -> Iterable[str]:
    definition = campaign.definition
    yield from definition.lists
    if definition.segment is not None:
        yield f"segment {definition.segment}"
    if definition.filter is not None:
        yield "a filter"
    if definition.resend_of is not None:
        yield f"those who did not open campaign {definition.resend_of}"


def _figures(counts: CampaignMessageCounts) -> str:
    """Return the size of the audience and the counts per outcome, which add up to it."""
    return ", ".join([f"{counts.sent:,} of {counts.audience:,} sent", *bucket_parts(counts)])


def _results(numbers: CampaignNumbers | None) -> str:
    """Return the counts of reported events, for example `opened 12, clicked 3`."""
    if numbers is None:
        return ""
    return ", ".join(
        f"{name.replace('_', '-')} {number:,}" for name, number in asdict(numbers.results).items() if number
    )


def _engagement(engagement: CampaignEngagement) -> Iterable[str]:
    """Yield the opens and clicks by recipients, in total and by machines, then the most clicked links."""
    for name, counts in (("opens", engagement.opens), ("clicks", engagement.clicks)):
        if counts.machines or counts.total > counts.people:
            yield f"{name}: {counts.people:,} by recipients, {counts.total:,} in total, {counts.machines:,} by machines"
    for link in engagement.links[:MAX_SHOWN_LINKS]:
        yield f"clicked by {link.people:,}, {link.total:,} in total: {link.url}"


def _grid(facts: Iterable[tuple[str, Any]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts:
        if value:
            grid.add_row(name, value if isinstance(value, Text) else Text(str(value)))
    return grid


def _time(instant: Instant | None) -> str | None:
    return None if instant is None else zone_time(instant)


def print_problems(problems: Iterable[CampaignProblem]) -> None:
    for each in problems:
        aside.print(Text(f"✗ {each.field}: {each.message} [{each.code}]", style="red"), soft_wrap=True)


def print_warnings(found: Iterable[PresendIssue]) -> None:
    for each in found:
        aside.print(Text(f"! {each.where}: {each.sentence} [{each.code}]", style="yellow"), soft_wrap=True)
