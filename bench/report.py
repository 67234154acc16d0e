"""Show the figures as a table in the terminal and as Markdown in docs/benchmarks.md."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from bench.contenders import CONTENDERS, Results
from bench.figures import Figure

CHECKOUT = Path(__file__).parent.parent
PAGE = CHECKOUT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
MET = {True: "yes", False: "no", None: "not measured"}

FIGURE_COLUMNS = ("id", "what", "Mailwright", "beside it", "ratio", "goal", "met", "command")
RUN_COLUMNS = (
    "contender",
    "messages/s",
    "lowest–highest",
    "CPU s per 1,000",
    "with database",
    "memory",
    "timed command",
)


def show(console: Console, figures: Sequence[Figure], results: Results) -> None:
    if results.runs:
        console.print(_table("Runs (medians)", RUN_COLUMNS, run_rows(results)))
    if figures:
        console.print(_table("Figures", FIGURE_COLUMNS, figure_rows(figures)))
    console.print(machine(), style="dim")


def write(figures: Sequence[Figure], results: Results) -> None:
    page = PAGE.read_text() if PAGE.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    if BEGIN not in page or END not in page:
        raise SystemExit(f"docs/benchmarks.md has no {BEGIN} … {END} to write between.")
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    tables = [_markdown(FIGURE_COLUMNS, figure_rows(figures)), _markdown(RUN_COLUMNS, run_rows(results))]
    PAGE.parent.mkdir(exist_ok=True)
    written = "\n".join([f"{machine()}\n", *tables]).replace(f"{CHECKOUT}/", "")
    PAGE.write_text(f"{head}{BEGIN}\n{written}{END}{tail}")


def figure_rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    return [
        (
            figure.id,
            figure.what,
            figure.ours,
            figure.theirs,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.goal,
            MET[figure.met],
            figure.command,
        )
        for figure in figures
    ]


def run_rows(results: Results) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, runs in results.runs.items():
        contender = CONTENDERS[name]
        if name in results.missing:
            rows.append((contender.title, f"not measured: {results.missing[name]}", "", "", "", "", ""))
            continue
        setting = results.settings[name]
        command = contender.command.format(concurrency=setting.concurrency)
        rates = [run.rate for run in runs]
        rows.append(
            (
                contender.title,
                f"{results.median(name, lambda run: run.rate):,.0f}",
                f"{min(rates):,.0f}–{max(rates):,.0f}",
                f"{results.median(name, lambda run: run.cpu_per_thousand):.3f}",
                f"{results.median(name, lambda run: run.cpu_per_thousand_with_database):.3f}",
                f"{results.median(name, lambda run: run.peak_rss_bytes) / 1e6:,.0f} MB",
                f"{runs[0].messages:,} messages: {command}"
                + (f", {setting.processes} of them" * (setting.processes > 1 and "--processes" not in command)),
            )
        )
    return rows


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release().split('-')[0]}, Python {platform.python_version()}; "
        "the sink and the databases run on the same cores."
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(' '.join(cell.split()).replace('|', '·') for cell in line)} |\n" for line in lines)
