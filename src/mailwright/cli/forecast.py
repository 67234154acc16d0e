"""`mailwright forecast`: a timeline of when each campaign starts and finishes."""

from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from mailwright.actions.campaign_explanations import forecast_response
from mailwright.app.limits import defaults_of
from mailwright.cli.opening import Installation, find_tenant, run, show_zone_of
from mailwright.cli.options import Json, command
from mailwright.cli.output import clock_time, display, out, print_json
from mailwright.domain.campaign import PAUSED
from mailwright.domain.clock import DAY, Instant
from mailwright.providers.route import providers_of
from mailwright.sources.campaigns.forecast import Forecast
from mailwright.sources.campaigns.forecast import forecast as compute_forecast
from mailwright.sources.campaigns.forecast_values import (
    IN_LINE,
    CampaignForecast,
    ForecastAssumption,
    ForecastSegment,
    summarize_segments,
)
from mailwright.texts.explanations import (
    assumption_text,
    bulk_limit_text,
    deferral_label,
    included_texts,
    limit_name,
)
from mailwright.texts.times import distance

app = command()

SENDING: Final = ("█", "green")
SENDING_IN_BATCHES: Final = ("▓", "cyan")
# Each reason has a shape as well as a colour, and the legend names it.
SHAPES: Final = {
    IN_LINE: ("·", "bright_black"),
    "rate_per_hour": ("░", "yellow"),
    "daily_limit": ("▒", "yellow"),
    "outside_hours": ("-", "blue"),
    "quota_exhausted": ("x", "red"),
    "warmup": ("~", "magenta"),
    "scheduled": (">", "cyan"),
    "paused": ("=", "red"),
    "waits_for_winner": ("?", "magenta"),
    "ab_test_undecided": ("?", "magenta"),
    "next_wave": ("~", "magenta"),
    "guard_rails": ("!", "red"),
    "frequency_cap": ("#", "yellow"),
    "snoozed": ("z", "blue"),
}
OTHER: Final = ("+", "yellow")
MIN_WIDTH: Final = 20
MAX_WIDTH: Final = 120


@app.command()
def forecast(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant's campaigns.", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="Number of days to forecast.")] = 365,
    as_json: Json = False,
) -> None:
    """Show when each queued campaign starts and finishes, and which limits defer it.

    The forecast applies the real limits on a virtual clock, starting from the current counters. The JSON has the
    fields of GET /v1/forecast.
    """

    async def work(at: Installation) -> Forecast:
        tenant_id = (await find_tenant(at, tenant)).id if tenant is not None else None
        defaults = defaults_of(at.settings, providers_of(at.settings))
        found = await compute_forecast(at.database, at.clock, defaults, tenant_id=tenant_id, horizon=days * DAY)
        shown = {campaign.tenant_id for campaign in found.campaigns}
        if len(shown) == 1:
            await show_zone_of(at, shown.pop())
        return found

    found = run(work)
    if as_json:
        print_json(forecast_response(found).to_dict())
    elif found.campaigns:
        _draw(found)
    else:
        out.print("No campaign is queued.")


def _draw(found: Forecast) -> None:
    if not found.workers:
        out.print(Text("No worker is running. The times apply if one starts now.", style="yellow"), soft_wrap=True)
    begins, ends = found.computed_at, _end_of_axis(found)
    width = max(MIN_WIDTH, min(out.width, MAX_WIDTH) - 4)
    waits: set[str] = set()
    batches: set[str] = set()
    sends_freely = False
    for campaign in found.campaigns:
        segments = summarize_segments(campaign.segments)
        out.print(Text.assemble((campaign.name, "bold"), f"  {campaign.remaining:,} to send"))
        bar = Text("  ")
        for shape, color in _cells(segments, begins, ends, width):
            bar.append(shape, style=color)
        out.print(bar)
        out.print(_times(campaign, found), soft_wrap=True)
        sends_freely |= any(segment.reason is None for segment in segments)
        waits |= {segment.reason for segment in segments if not segment.sent and segment.reason is not None}
        batches |= {segment.reason for segment in segments if segment.sent and segment.reason is not None}
    out.print(_scale(begins, ends, width))
    out.print(_legend(waits, batches, sends_freely=sends_freely))
    for text in included_texts(found.sequence_emails, found.occurrence_emails):
        out.print(Text(text), soft_wrap=True)
    for limit in found.limits:
        out.print(Text(bulk_limit_text(limit)), soft_wrap=True)
    for assumption in found.assumptions:
        if assumption is ForecastAssumption.NO_WORKER:
            continue  # The legend shows this reason first.
        out.print(Text(assumption_text(assumption), style="bright_black"), soft_wrap=True)


def _end_of_axis(found: Forecast) -> Instant:
    """Return the end of the axis. If a campaign has no end, extend the axis by a tenth after the last event."""
    ends = [campaign.finishes_at for campaign in found.campaigns if campaign.finishes_at is not None]
    changes = [segment.begins_at for campaign in found.campaigns for segment in summarize_segments(campaign.segments)]
    last = max([*ends, *changes])
    is_open = len(ends) < len(found.campaigns)
    return max(found.computed_at + 1, last + (last - found.computed_at) // 10 if is_open else last)


def _cells(segments: list[ForecastSegment], begins: Instant, ends: Instant, width: int) -> list[tuple[str, str]]:
    cells = []
    for column in range(width):
        left = begins + (ends - begins) * column // width
        right = max(left + 1, begins + (ends - begins) * (column + 1) // width)
        inside = [segment for segment in segments if segment.begins_at < right and segment.ends_at > left]
        cells.append(_cell(inside, left, right))
    return cells


def _cell(inside: list[ForecastSegment], left: Instant, right: Instant) -> tuple[str, str]:
    """Return the symbol of a column: "sending" if anything is sent in it, else the reason that fills most of it."""
    if not inside:
        return " ", ""
    for segment in inside:
        if segment.sent:
            return SENDING if segment.reason is None else SENDING_IN_BATCHES
    longest = max(inside, key=lambda segment: min(right, segment.ends_at) - max(left, segment.begins_at))
    return SHAPES.get(longest.reason or "", OTHER)


def _times(campaign: CampaignForecast, found: Forecast) -> Text:
    start = "resume" if campaign.has_begun else "start"
    if campaign.starts_at is None:
        if any(segment.reason == PAUSED for segment in campaign.segments):
            return Text("  Paused; nothing is sent before somebody resumes it")
        line = Text(f"  does not {start} within the forecast")
    elif campaign.finishes_at is None:
        line = Text(f"  {start}s {_time(campaign.starts_at, found.computed_at)}, {_open_end(campaign)}")
    else:
        starts, finishes = (_time(time, found.computed_at) for time in (campaign.starts_at, campaign.finishes_at))
        line = Text(f"  {start}s {starts}, finishes {finishes}")
    first = next(iter(summarize_segments(campaign.segments)), None)
    if first is not None and first.sent == 0 and first.reason is not None:
        line.append(f"; now: {deferral_label(first.reason).text}")
    return line


def _open_end(campaign: CampaignForecast) -> str:
    if campaign.is_rate_unknown:
        return "end not known until the send rate is measured"
    why = f": {limit_name(campaign.blocker)}" if campaign.blocker else ""
    return f"does not finish within the forecast{why}"


def _time(time: Instant, now: Instant) -> str:
    return "now" if time <= now else f"{clock_time(time)[:16]} {display.zone} ({distance(time, now)})"


def _scale(begins: Instant, ends: Instant, width: int) -> Text:
    first, last = clock_time(begins)[:16], clock_time(ends)[:16]
    return Text(f"  {first}{last:>{width - len(first)}}", style="bright_black")


def _legend(waits: set[str], batches: set[str], *, sends_freely: bool) -> Table:
    grid = Table.grid(padding=(0, 1))
    entries = [(SENDING, "sending")] if sends_freely else []
    if batches:
        entries.append((SENDING_IN_BATCHES, f"sending in batches: {', '.join(sorted(map(limit_name, batches)))}"))
    entries += [(SHAPES.get(reason, OTHER), deferral_label(reason).text) for reason in sorted(waits)]
    for (shape, color), text in entries:
        grid.add_row(" ", Text(shape * 2, style=color), text)
    return grid
