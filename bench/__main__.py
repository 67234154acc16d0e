"""`python -m bench [names…]`: measure the named figures (all by default) or the named contenders."""

import argparse
import signal
import sys
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import report
from bench.contenders import CONTENDERS, Results, compete
from bench.figures import ALONE, NAMES, RACERS, Figure, Order, of_race
from bench.stage import Stage


def main() -> None:
    asked = arguments()
    console = Console()
    if not console.is_terminal:
        console.width = 180  # Log files report no width.
    signal.signal(signal.SIGTERM, stop)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # Drawn manually: a refresh thread would take CPU time from the contenders.
        auto_refresh=False,
    )
    with Stage() as stage, progress:
        task = progress.add_task("…")

        def show(what: str, total: int) -> None:
            progress.reset(task, description=what, total=total or None)
            progress.refresh()
            if not console.is_terminal:
                console.print(what)

        def advance(done: int) -> None:
            progress.update(task, completed=done, refresh=True)

        stage.advance = advance
        figures, results = measure(asked, Order(stage, asked.count, asked.runs, asked.quick, show))
    report.show(console, figures, results)
    if asked.write:
        report.write(figures, results)
        console.print("Wrote docs/benchmarks.md.")


def measure(asked: argparse.Namespace, order: Order) -> tuple[list[Figure], Results]:
    figures: list[Figure] = []
    wanted = [name for name in NAMES if name in asked.names]
    needed = {racer for name in wanted for racer in RACERS.get(name, ())} | {*asked.names} & {*CONTENDERS}
    racers = [name for name in CONTENDERS if name in needed]
    results = compete(order.stage, racers, count=order.count, rounds=order.rounds, tell=order.tell)
    for name in wanted:
        figures += ALONE[name](order) if name in ALONE else of_race(name, order, results)
    return figures, results


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"figures {', '.join(NAMES)}; contenders {', '.join(CONTENDERS)}"
    )
    parser.add_argument("--count", type=int, help="messages per run (20,000; a fifth for Celery and procrastinate)")
    parser.add_argument("--runs", type=int, help="rounds in which all run alternately (5)")
    parser.add_argument("--quick", action="store_true", help="2,000 messages, one round: to see that everything works")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md (only with all figures)")
    asked = parser.parse_args()
    asked.count = asked.count or (2_000 if asked.quick else 20_000)
    asked.runs = asked.runs or (1 if asked.quick else 5)
    if unknown := {*asked.names} - {*NAMES} - {*CONTENDERS}:
        parser.error(f"no figure or contender is called {', '.join(sorted(unknown))}")
    if asked.write and (asked.names or asked.quick):
        parser.error("--write keeps a whole and honest table: not with names, not with --quick")
    asked.names = asked.names or list(NAMES)
    return asked


def stop(number: int, frame: FrameType | None) -> None:
    """Unwind on SIGTERM like on Ctrl-C, so that every started process is ended."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("Stopped; everything that was started is ended.")
