"""`mailwright bench`: measure this machine with a temporary database."""

import ipaddress
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
import uvloop
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mailwright.app.measure import Measurement, measure
from mailwright.cli.options import Json, command
from mailwright.cli.output import aside, out, print_json, table
from mailwright.ops import logs

app = command()


@app.command()
def bench(
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of messages.")] = 2_000,
    smtp_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send to an SMTP server on this machine.", show_default="a temporary mailbox"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure this machine: template messages from accept to settle, in a temporary database.

    Every message is accepted in a batch, claimed, validated, built, sent and settled, and SQLite flushes every commit
    to disk. Your database and provider are not used, and no email leaves this machine.
    """
    if smtp_url is not None:
        _require_loopback(smtp_url)
    logs.configure("ERROR", "console")
    with tempfile.TemporaryDirectory(prefix="mailwright-bench-") as folder:
        measured = _measure(Path(folder), count, smtp_url)
    if as_json:
        print_json({**asdict(measured), "mails_per_second": _per_second(count, _total(measured))})
    else:
        _print(measured)


def _require_loopback(smtp_url: str) -> None:
    """Reject other hosts, because thousands of sample messages must not reach someone else's server."""
    host = urlsplit(smtp_url).hostname or ""
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if not is_here:
        raise typer.BadParameter(
            "the server must be on this machine, for example smtp://127.0.0.1:2525", param_hint="--smtp-url"
        )


def _measure(folder: Path, count: int, smtp_url: str | None) -> Measurement:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=aside, transient=True) as progress:
        accepting = progress.add_task("Accepting ", total=count)
        sending = progress.add_task("Delivering", total=count)

        def show(accepted: int, sent: int) -> None:
            progress.update(accepting, completed=accepted)
            progress.update(sending, completed=sent)

        return uvloop.run(measure(folder, count, smtp_url, show))


def _print(measured: Measurement) -> None:
    made = table("Step", "Seconds#", "Messages per second#")
    for name, seconds in (
        ("accept (in batches, flushed to disk)", measured.accept_seconds),
        ("deliver (claim to settle)", measured.deliver_seconds),
        ("both", _total(measured)),
    ):
        made.add_row(name, f"{seconds:.2f}", f"{_per_second(measured.count, seconds):,}")
    out.print(made)
    spent = table("Time per message after its claim", "Milliseconds#")
    for name, milliseconds in (
        ("validate and build its batch", measured.building),
        ("wait for a connection and record the attempt", measured.marking),
        ("hand over to the provider", measured.sending),
    ):
        spent.add_row(name, f"{milliseconds:,.1f}")
    out.print(spent)
    share = measured.cpu_seconds / _total(measured)
    out.print(f"{measured.count:,} messages; {share:.0%} of one core.")


def _total(measured: Measurement) -> float:
    return measured.accept_seconds + measured.deliver_seconds


def _per_second(count: int, seconds: float) -> int:
    return round(count / seconds)
