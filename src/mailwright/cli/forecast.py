"""`mailwright forecast`: when each campaign begins and ends, drawn as a line of time."""

from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from mailwright.app.providers import providers_of
from mailwright.app.wiring import defaults_of
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import clock_time, out, print_json
from mailwright.domain.clock import DAY, Instant
from mailwright.outbox import tenants
from mailwright.outbox.explain import distance
from mailwright.sources.campaigns.forecast import Forecast
from mailwright.sources.campaigns.forecast import forecast as foresee
from mailwright.sources.campaigns.simulation import IN_LINE, CampaignForecast, ForecastSegment, summarize_segments
from mailwright.web.dashboard.labels import rule

app = command()

SENDING: Final = ("█", "green")
IN_PORTIONS: Final = ("▓", "cyan")
# Each rule has a shade of its own, and its word stands below: colours alone tell nobody.
SHADES: Final = {
    IN_LINE: ("·", "bright_black"),
    "rate_per_hour": ("░", "yellow"),
    "daily_limit": ("▒", "yellow"),
    "outside_hours": ("-", "blue"),
    "quota_exhausted": ("x", "red"),
    "warmup": ("~", "magenta"),
    "scheduled": (">", "cyan"),
    "paused": ("=", "red"),
    "waits_for_winner": ("?", "magenta"),
}
OTHER: Final = ("+", "yellow")
NARROWEST: Final = 20


@app.command()
def forecast(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant's campaigns.", show_default=False)
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="How far to look.")] = 365,
    as_json: Json = False,
) -> None:
    """Tell when each campaign in line begins and ends, and which rule holds it at each point.

    The same policies that hold real mail run on a virtual clock, with the counters as they stand now. The JSON has the
    fields of GET /v1/forecast.
    """

    async def work(at: Installation) -> Forecast:
        tenant_id = (await tenants.find(at.database, tenant)).id if tenant is not None else None
        defaults = defaults_of(at.settings, providers_of(at.settings))
        return await foresee(at.database, at.clock, defaults, tenant_id=tenant_id, horizon=days * DAY)

    found = run(work)
    if as_json:
        print_json(found.as_dict())
    elif found.campaigns:
        _draw(found)
    else:
        out.print("No campaign is in line.")


def _draw(found: Forecast) -> None:
    begins, ends = found.computed_at, _last_event(found)
    width = max(NARROWEST, min(out.width, 120) - 4)
    reasons: set[str | None] = set()
    paced: set[str] = set()
    for course in found.campaigns:
        spans = summarize_segments(course.segments)
        out.print(Text.assemble((course.name, "bold"), f"  {course.remaining:,} to send"))
        bar = Text("  ")
        for shape, colour in _cells(spans, begins, ends, width):
            bar.append(shape, style=colour)
        out.print(bar)
        out.print(_times(course, found), soft_wrap=True)
        reasons |= {span.reason for span in spans if not span.sent or span.reason is None}
        paced |= {span.reason for span in spans if span.sent and span.reason is not None}
    out.print(_scale(begins, ends, width))
    out.print(_legend(reasons, paced))
    for assumption in found.assumptions:
        out.print(Text(assumption, style="bright_black"), soft_wrap=True)


def _last_event(found: Forecast) -> Instant:
    """What has no end takes a tenth of the width more than what has."""
    ends = [course.finishes_at for course in found.campaigns if course.finishes_at is not None]
    changes = [span.begins_at for course in found.campaigns for span in summarize_segments(course.segments)]
    last = max([*ends, *changes])
    is_open = len(ends) < len(found.campaigns)
    return max(found.computed_at + 1, last + (last - found.computed_at) // 10 if is_open else last)


def _cells(spans: list[ForecastSegment], begins: Instant, ends: Instant, width: int) -> list[tuple[str, str]]:
    """What happens for the most part of each column; a portion that is sent is shown however short it is."""
    cells = []
    for column in range(width):
        left = begins + (ends - begins) * column // width
        right = max(left + 1, begins + (ends - begins) * (column + 1) // width)
        inside = [span for span in spans if span.begins_at < right and span.ends_at > left]
        cells.append(_cell(inside, left, right))
    return cells


def _cell(inside: list[ForecastSegment], left: Instant, right: Instant) -> tuple[str, str]:
    if not inside:
        return " ", ""
    for shown in inside:
        if shown.sent:
            return SENDING if shown.reason is None else IN_PORTIONS
    longest = max(inside, key=lambda span: min(right, span.ends_at) - max(left, span.begins_at))
    return SHADES.get(longest.reason or "", OTHER)


def _times(course: CampaignForecast, found: Forecast) -> Text:
    if course.starts_at is None:
        line = Text("  does not begin within the time looked at")
    elif course.finishes_at is None:
        line = Text(f"  begins {_moment(course.starts_at, found.computed_at)}, no end within the time looked at")
    else:
        starts, finishes = (_moment(moment, found.computed_at) for moment in (course.starts_at, course.finishes_at))
        line = Text(f"  begins {starts}, ends {finishes}")
    holding = summarize_segments(course.segments)[0] if course.segments else None
    if holding is not None and holding.sent == 0 and holding.reason is not None:
        line.append(f"; waits now: {rule(holding.reason)}")
    return line


def _moment(moment: Instant, now: Instant) -> str:
    return "now" if moment <= now else f"{clock_time(moment)[:16]} UTC ({distance(moment, now)})"


def _scale(begins: Instant, ends: Instant, width: int) -> Text:
    first, last = clock_time(begins)[:16], clock_time(ends)[:16]
    return Text(f"  {first}{last:>{width - len(first)}}", style="bright_black")


def _legend(reasons: set[str | None], paced: set[str]) -> Table:
    grid = Table.grid(padding=(0, 1))
    named = [(SENDING, "sends")] if None in reasons else []
    named += [(IN_PORTIONS, f"sends in portions: {', '.join(sorted(map(rule, paced)))}")] if paced else []
    waits = sorted(reason for reason in reasons if reason is not None)
    named += [(SHADES.get(reason, OTHER), f"waits: {rule(reason)}") for reason in waits]
    for (shape, colour), words in named:
        grid.add_row(" ", Text(shape * 2, style=colour), words)
    return grid
