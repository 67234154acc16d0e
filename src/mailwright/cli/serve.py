"""`mailwright serve`: the API and the dashboard, with a worker in the same process."""

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from mailwright.app.listening import address_of, listen
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import Processes, command
from mailwright.cli.output import out
from mailwright.ops.child_process import this_child
from mailwright.ops.paused_collection import paused_collection
from mailwright.ops.settings import Settings

if TYPE_CHECKING:
    from mailwright.app.wiring import Engine

app = command()


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.", show_default="MAILWRIGHT_HOST")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.", show_default="MAILWRIGHT_PORT"),
    ] = None,
    with_worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Also send messages from this process.")
    ] = True,
    processes: Processes = 1,
) -> None:
    """Serve the API and the dashboard, with a worker in the same process.

    The schema of SQLite is upgraded automatically; on PostgreSQL run `mailwright db upgrade` first.

    SIGTERM or Ctrl-C starts a graceful shutdown: requests and sends in progress finish within SHUTDOWN_GRACE_SECONDS,
    and the exit code is 0. A second signal stops at once.
    """
    settings = settings_for_service(host=host, port=port)
    if processes != 1:
        raise typer.Exit(_supervise(settings, processes, with_worker=with_worker))
    import uvloop  # noqa: PLC0415 - a supervisor does not need it

    uvloop.run(_serve(settings, with_worker=with_worker))


def _supervise(settings: Settings, processes: int, *, with_worker: bool) -> int:
    from mailwright.app.supervisor import ProcessGroup, core_count, supervise  # noqa: PLC0415 - only for several

    listener = listen(settings.host, settings.port)
    arguments = ["serve", "--host", settings.host, "--port", str(listener.getsockname()[1])]
    arguments += ["--worker" if with_worker else "--no-worker"]
    group = ProcessGroup(arguments, processes or core_count(), sends=with_worker, listener=listener)
    return supervise(group, settings)


async def _serve(settings: Settings, *, with_worker: bool) -> None:
    # A supervisor does not need these, and they take most of the memory of a process.
    with paused_collection():
        from mailwright.app.serving import serve as serve_until_stopped  # noqa: PLC0415
        from mailwright.app.shutdown import Shutdown  # noqa: PLC0415
        from mailwright.app.submission import open_submission  # noqa: PLC0415
        from mailwright.app.wiring import open_engine  # noqa: PLC0415
        from mailwright.outbox.installation import save_address  # noqa: PLC0415

    shutdown = Shutdown()
    shutdown.listen()
    # Listen first, so that a port in use does not leave a new database behind.
    listener = _listener(settings)
    submission = open_submission(settings)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # The chosen port, if it was 0.
    async with open_engine(settings) as engine:
        await save_address(engine.database, engine.settings.public_url)
        if _greets():
            # With a public address, cookies work only there.
            await _invite(engine, engine.settings.public_url if engine.settings.base_url else address_of(listener))
        await serve_until_stopped(engine, listener, shutdown, with_worker=with_worker, submission=submission)


def _listener(settings: Settings) -> socket.socket:
    """Return the listening socket that the supervisor passed on, or a new one."""
    child = this_child()
    if child is not None and child.listener is not None:
        return socket.socket(fileno=child.listener)
    return listen(settings.host, settings.port)


def _greets() -> bool:
    """Return whether this process prints the set-up link. Only one does, because a new link invalidates the last."""
    child = this_child()
    return child is None or (child.number == 1 and not child.is_restart)


async def _invite(engine: "Engine", address: str) -> None:
    """Print the set-up link; it is not logged because it grants administrator access."""
    if engine.settings.admin_password is not None:
        return
    token = await engine.initial_setup.create_token()
    if token is not None:
        out.print(f"No user exists yet. Create the administrator at {address}/set-up?token={token}", soft_wrap=True)
