"""`mailwright worker`: send due messages. Any number of workers can share a database."""

from typing import Annotated

import typer

from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import Processes, command
from mailwright.ops.paused_collection import paused_collection
from mailwright.ops.settings import Settings

app = command()


@app.command()
def worker(
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Maximum messages in flight per process. A crash can leave at most this many in doubt.",
            show_default="64",
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when nothing is due.")] = False,
    processes: Processes = 1,
) -> None:
    """Send due messages until stopped or drained.

    SIGTERM or Ctrl-C starts a graceful shutdown: the worker claims no more messages, finishes those in flight within
    SHUTDOWN_GRACE_SECONDS, records the results, releases the rest and exits with 0. A second signal stops at once.
    """
    settings = settings_for_service(concurrency=concurrency)
    if processes != 1:
        raise typer.Exit(_supervise(settings, processes, concurrency, drain=drain))
    import uvloop  # noqa: PLC0415 - a supervisor does not need it

    uvloop.run(_work(settings, drain=drain))


def _supervise(settings: Settings, processes: int, concurrency: int | None, *, drain: bool) -> int:
    from mailwright.app.supervisor import ProcessGroup, core_count, supervise  # noqa: PLC0415 - only for several

    arguments = ["worker", *([] if concurrency is None else ["--concurrency", str(concurrency)])]
    arguments += ["--drain"] if drain else []
    return supervise(ProcessGroup(arguments, processes or core_count(), drains=drain), settings)


async def _work(settings: Settings, *, drain: bool) -> None:
    # A supervisor does not need these, and they take most of the memory of a process.
    with paused_collection():
        from prometheus_client import start_http_server  # noqa: PLC0415

        from mailwright.app.serving import work  # noqa: PLC0415
        from mailwright.app.shutdown import Shutdown  # noqa: PLC0415
        from mailwright.app.wiring import open_engine  # noqa: PLC0415
        from mailwright.ops import metrics  # noqa: PLC0415
        from mailwright.ops.child_process import this_child  # noqa: PLC0415

    shutdown = Shutdown()
    shutdown.listen()
    if settings.metrics_port is not None and this_child() is None:
        start_http_server(settings.metrics_port, settings.host, metrics.REGISTRY)
    async with open_engine(settings) as engine:
        await work(engine, shutdown, drain=drain)
