"""`mailwright serve`: the API and the dashboard, with a worker in the same process."""

from typing import Annotated

import typer
import uvloop

from mailwright.app.serving import Shutdown, address_of, listen
from mailwright.app.serving import serve as serve_until_stopped
from mailwright.app.wiring import Engine, open_engine
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import command
from mailwright.cli.output import out
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import save_address

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
) -> None:
    """Serve the API and the dashboard, with a worker in the same process.

    The schema of SQLite is upgraded automatically; on PostgreSQL run `mailwright db upgrade` first.

    SIGTERM or Ctrl-C starts a graceful shutdown: requests and sends in progress finish (SHUTDOWN_GRACE_SECONDS), exit
    code 0. A second signal stops at once.
    """
    uvloop.run(_serve(settings_for_service(host=host, port=port), with_worker=with_worker))


async def _serve(settings: Settings, *, with_worker: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    # Listen first, so that a port in use does not leave a new database behind.
    listener = listen(settings.host, settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})  # The chosen port, if it was 0.
    async with open_engine(settings) as engine:
        await save_address(engine.database, engine.settings.public_url)
        await _invite(engine, address_of(listener))
        await serve_until_stopped(engine, listener, shutdown, with_worker=with_worker)


async def _invite(engine: Engine, address: str) -> None:
    """Print the set-up link; it is not logged because it grants administrator access."""
    if engine.settings.admin_password is not None:
        return
    token = await engine.initial_setup.create_token()
    if token is not None:
        out.print(f"No user exists yet. Create the administrator at {address}/set-up?token={token}", soft_wrap=True)
