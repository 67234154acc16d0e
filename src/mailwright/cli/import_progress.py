"""Show the progress of an import on stderr."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from mailwright.cli.output import aside


@contextmanager
def import_progress(size_bytes: int, read_bytes: int, rows: int) -> Iterator[Callable[[int, int], None]]:
    """Show a bar. The yielded function takes the number of bytes and rows that were read."""
    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[rows]} rows"), TimeRemainingColumn())
    with Progress(*columns, console=aside, transient=True) as progress:
        task = progress.add_task("", total=size_bytes, completed=read_bytes, rows=rows)
        yield lambda done_bytes, done_rows: progress.update(task, completed=done_bytes, rows=done_rows)
