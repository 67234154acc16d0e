"""`mailwright worker`: send due messages. Any number of workers can share a database."""

from typing import Annotated

import typer
import uvloop
from prometheus_client import start_http_server

from mailwright.app.serving import Shutdown, work
from mailwright.app.wiring import open_engine
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import command
from mailwright.ops import metrics
from mailwright.ops.settings import Settings

app = command()


@app.command()
def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum messages in flight. A crash can leave at most this many in doubt.", show_default="64"
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when nothing is due.")] = False,
) -> None:
    """Send due messages until stopped or drained.

    SIGTERM or Ctrl-C starts a graceful shutdown: the worker claims nothing more, finishes what is in flight
    (SHUTDOWN_GRACE_SECONDS), records the results, releases the rest and exits with 0. A second signal stops at once.
    """
    uvloop.run(_work(settings_for_service(concurrency=concurrency), drain=drain))


async def _work(settings: Settings, *, drain: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    if settings.metrics_port is not None:
        start_http_server(settings.metrics_port, settings.host, metrics.REGISTRY)
    has_moved = True
    while has_moved:
        async with open_engine(settings) as engine:
            has_moved = await work(engine, shutdown, drain=drain)
