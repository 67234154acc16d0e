"""`mailwright worker`: sends what is due. Any number of them may run on one database."""

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
            min=1, help="Mails with the provider at once: what a crash can leave in doubt.", show_default="64"
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit once nothing is due.")] = False,
) -> None:
    """Send what is due, until stopped or drained.

    SIGTERM or Ctrl-C: nothing more is claimed, what is in flight finishes (SHUTDOWN_GRACE_SECONDS), its results are
    recorded, the rest is released, exit 0. A second signal ends it at once.
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
