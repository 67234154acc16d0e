"""Terminal output: tables for people, JSON for scripts. A status is always a word with a symbol, not just a colour."""

import asyncio
import json
import sys
from collections.abc import AsyncIterable, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailwright.domain.clock import Instant
from mailwright.texts.times import distance


class Display:
    """The time zone in which this process shows times: the one of the command's tenant, or of the installation."""

    zone: tzinfo = UTC


async def write_parts(parts: AsyncIterable[bytes | str], file: Path | None) -> None:
    """Write a long text to a file as its parts arrive. If `file` is None or `-`, write to stdout."""
    if file is None or str(file) == "-":
        async for part in parts:
            sys.stdout.buffer.write(part.encode() if isinstance(part, str) else part)
        return
    with await asyncio.to_thread(file.open, "wb") as opened:
        async for part in parts:
            opened.write(part.encode() if isinstance(part, str) else part)


display = Display()
out = Console(highlight=False)
# Progress and remarks go to stderr, so that stdout holds only the result.
aside = Console(stderr=True, highlight=False)


def print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def table(*columns: str, title: str | None = None) -> Table:
    """Build a table. A column name ending in # is numeric; one ending in ! does not wrap; {zone} is the time zone."""
    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.rstrip("#!").format(zone=display.zone),
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


def two_lines(first: str | Text, second: str) -> Text:
    """Build a cell with a main line and a dimmed second line, to save width."""
    cell = first if isinstance(first, Text) else Text(str(first))
    if second:
        cell.append(f"\n{second}", style="bright_black")
    return cell


def clock_time(instant: Instant | None) -> str:
    """Format as `2027-01-15 08:00:00` in the time zone of the command."""
    return "–" if instant is None else f"{datetime.fromtimestamp(instant // 1000, display.zone):%Y-%m-%d %H:%M:%S}"


def zone_time(instant: Instant) -> str:
    """Format as `2027-01-15 08:00:00 Europe/Lisbon`."""
    return f"{clock_time(instant)} {display.zone}"


def ago(instant: Instant, now: Instant) -> str:
    return distance(instant, now)
