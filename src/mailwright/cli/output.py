"""How answers look: tables for people, JSON for scripts. A status is a word with a shape, never colour alone."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.states import Status
from mailwright.outbox.explain import distance

SHAPES: Final = {
    Status.PENDING: ("○", "cyan"),
    Status.SENT_ATTEMPT: ("→", "cyan"),
    Status.RETRY_SCHEDULED: ("↻", "yellow"),
    Status.SENT: ("✓", "green"),
    Status.FAILED: ("✗", "red"),
    Status.IN_DOUBT: ("?", "magenta"),
    Status.CLOSED_UNKNOWN: ("⊘", "magenta"),
    Status.CANCELLED: ("–", "bright_black"),
}

out = Console(highlight=False)
# Progress and remarks go here, so that stdout holds the answer and nothing else.
aside = Console(stderr=True, highlight=False)


def print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def table(*columns: str, title: str | None = None) -> Table:
    """A column whose name ends in # holds numbers; one that ends in ! is never broken."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.rstrip("#!"),
            justify="right" if column.endswith("#") else "left",
            no_wrap=column.endswith(("!", "#")),
            overflow="fold",
        )
    return made


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, nothing: str) -> None:
    made = table(*columns)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text("" if cell is None else str(cell)) for cell in row))
    if made.row_count:
        out.print(made)
    else:
        out.print(nothing)


def status_text(status: str) -> Text:
    shape, colour = SHAPES[Status(status)]
    return Text(f"{shape} {status}", style=colour)


def two_lines(first: str, second: str) -> Text:
    """A cell that says one thing and, below it, the rest: narrow terminals have more height than width."""
    cell = Text(first)
    if second:
        cell.append(f"\n{second}", style="bright_black")
    return cell


def clock_time(instant: Instant | None) -> str:
    """`2027-01-15 08:00:00`, in UTC."""
    return (isoformat(instant) or "–")[:19].replace("T", " ")


def ago(instant: Instant, now: Instant) -> str:
    return distance(instant, now)
