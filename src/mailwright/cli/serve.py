"""`mailwright serve`: the API and the dashboard, with a worker in the same process."""

from collections.abc import Callable
from typing import Annotated

import typer
import uvloop
from fastapi import FastAPI

from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.initial_setup import InitialSetup
from mailwright.access.users import Users
from mailwright.app.notifications import notification_service_opener
from mailwright.app.providers import providers_of
from mailwright.app.serving import Shutdown, address_of, listen
from mailwright.app.serving import serve as serve_until_stopped
from mailwright.app.wiring import Engine, defaults_of, looked_at_identity, open_engine, sender_of
from mailwright.checks.sender_dns import check_sender
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import command
from mailwright.cli.output import out
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import save_address
from mailwright.web.app import ApiParts, create_app
from mailwright.web.parts import PublicPages

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
        await serve_until_stopped(engine, application, listener, shutdown, with_worker=with_worker)


async def _invite(engine: Engine, address: str) -> None:
    """Print the set-up link; it is not logged because it grants administrator access."""
    if engine.settings.admin_password is not None:
        return
    users = Users(engine.database, engine.clock, FailedSignIns(engine.database, engine.clock))
    token = await InitialSetup(engine.database, users).create_token()
    if token is not None:
        out.print(f"No user exists yet. Create the administrator at {address}/set-up?token={token}", soft_wrap=True)


def application(engine: Engine, is_worker_alive: Callable[[], bool] | None) -> FastAPI:
    settings = engine.settings
    return create_app(
        ApiParts(
            database=engine.database,
            clock=engine.clock,
            acceptor=engine.acceptor,
            public_url=settings.public_url,
            is_worker_alive=is_worker_alive,
            webhooks=engine.webhooks,
            defaults=defaults_of(settings, providers_of(settings)),
            images_folder=settings.images,
            imports_folder=settings.imports,
            import_bytes=settings.import_bytes,
            postal_address=settings.postal_address,
            check_sender=lambda: check_sender(settings),
            mailbox_folder=settings.mailbox if "mailbox" in providers_of(settings) else None,
            identity=looked_at_identity(settings),
            webhook_private=settings.webhook_private,
            mailouts=engine.mailouts,
            open_notifications=notification_service_opener(settings, engine.database, engine.clock),
            admin_password=password.get_secret_value() if (password := settings.admin_password) else None,
            public_pages=PublicPages(
                secret=secret.get_secret_value() if (secret := settings.unsubscribe_secret) else None,
                retired=tuple(each.get_secret_value() for each in settings.unsubscribe_retired_secrets),
                asks_first=settings.unsubscribe_confirm,
                sender=sender_of(settings).name,
                unsubscribe_url=settings.unsubscribe_url,
            ),
        )
    )
