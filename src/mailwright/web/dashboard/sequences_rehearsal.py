"""The simulation of a sequence: the emails of the next days by step, on a virtual clock."""

from datetime import date
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.rehearsal import Rehearsal
from mailwright.texts.explanations import limit_name
from mailwright.texts.sequence_documents import describe_steps, walk_steps
from mailwright.texts.sequences import deferred_text, end_reason_text, left_out_texts, unsent_texts
from mailwright.texts.times import MONTHS
from mailwright.web.dashboard.axis import round_number
from mailwright.web.dashboard.sequences import header_values, list_options, problems_of, segment_options
from mailwright.web.dashboard.shell import PageRoute, page
from mailwright.web.session import ViewerDep
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sequences", route_class=PageRoute, include_in_schema=False)

DAYS: Final = 30
WIDTH: Final = 930
HEIGHT: Final = 220
# The number of colours of the chart; steps after the last one share it.
COLOURS: Final = 6
Key = Annotated[str, Query(max_length=63)]


@dataclass(frozen=True, slots=True)
class ChartBar:
    """The emails of one step on one day."""

    x: float
    y: float
    width: float
    height: float
    colour: int


@dataclass(frozen=True, slots=True)
class DayLabel:
    x: float
    text: str


@dataclass(frozen=True, slots=True)
class RehearsalChart:
    bars: list[ChartBar]
    labels: list[DayLabel]
    most: int  # The number at the top of the chart.
    limit_y: float | None


@router.get("/{sequence_id}/simulation")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    sequence_id: str,
    *,
    list_key: Annotated[str | None, Query(alias="list", max_length=63)] = None,
    segment: Key = "",
) -> Response:
    """Run the draft for the people in it, and for a list or a segment as if they entered now.

    Until the visitor chooses, it is the list or the segment that starts the sequence.
    """
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    lists, segments = await list_options(engine, visitor), await segment_options(engine, visitor)
    if list_key is None:
        list_key = _known(sequence.draft["trigger"].get(TriggerKind.JOINS_LIST.value), lists)
        segment = segment or _known(sequence.draft["trigger"].get(TriggerKind.ENTERS_SEGMENT.value), segments)
    people = People((), list_key or None, segment or None) if list_key or segment else None
    result: Rehearsal | None = None
    problems: list[str] = []
    try:
        result = await engine.sequences.rehearsals.rehearse(visitor.tenant_id, sequence_id, people=people, days=DAYS)
    except (InvalidInput, RequestInvalid) as error:
        problems = problems_of(sequence, error)
    sending = {step for day in result.days for step in day.by_step} if result is not None else set()
    steps = [step.id for step in walk_steps(describe_steps(sequence.draft["steps"])) if step.id in sending]
    values: dict[str, Any] = {
        **await header_values(engine, sequence),
        "result": result,
        "problems": problems,
        "steps": [(step, min(number, COLOURS - 1)) for number, step in enumerate(steps)],
        "chart": draw(result, steps) if result is not None and result.emails else None,
        "deferred": {limit_name(reason): emails for reason, emails in result.deferred.items()} if result else {},
        "left_out": left_out_texts(result) if result else [],
        "unsent": unsent_texts(result) if result else [],
        "deferred_text": deferred_text,
        "ended": {end_reason_text(reason): people for reason, people in result.ended.items()} if result else {},
        "list_key": list_key,
        "segment": segment,
        "lists": lists,
        "segments": segments,
        "days": DAYS,
        "size": (WIDTH, HEIGHT),
        "day_text": _day_text,
    }
    return await page(request, visitor, "sequences/simulation.html", **values)


def draw(result: Rehearsal, steps: list[str]) -> RehearsalChart:
    """Stack the emails of each day by step."""
    highest = max(day.emails for day in result.days)
    is_limit_near = result.daily_limit is not None and result.daily_limit <= 2 * highest
    most = round_number(max(highest, result.daily_limit if is_limit_near and result.daily_limit else 0))
    slot = WIDTH / len(result.days)
    bars, labels = [], []
    for number, day in enumerate(result.days):
        top = float(HEIGHT)
        for colour, step in enumerate(steps):
            height = HEIGHT * day.by_step.get(step, 0) / most
            if height:
                top -= height
                x = round(number * slot + slot * 0.14, 2)
                bars.append(
                    ChartBar(x, round(top, 2), round(slot * 0.72, 2), round(height, 2), min(colour, COLOURS - 1))
                )
        if number % 7 == 0:
            labels.append(DayLabel(round(number * slot + slot / 2, 2), _day_text(day.day)))
    limit_y = HEIGHT - HEIGHT * result.daily_limit / most if is_limit_near and result.daily_limit else None
    return RehearsalChart(bars, labels, most, limit_y)


def _known(key: Any, options: list[tuple[str, str]]) -> str:
    return key if isinstance(key, str) and key in dict(options) else ""


def _day_text(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]}"
