"""`mailwright serve`: the HTTP API, with a worker in the same process."""

from collections.abc import Callable
from typing import Annotated

import typer
import uvloop
from fastapi import FastAPI

from mailwright.app.carriers import providers_of
from mailwright.app.schema import prepare
from mailwright.app.serving import Shutdown, listen
from mailwright.app.serving import serve as serve_until_stopped
from mailwright.app.wiring import Engine, defaults_of, open_engine, sender_of
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import command
from mailwright.ops.settings import Settings
from mailwright.web.app import ApiParts, create_app
from mailwright.web.parts import PublicPages

app = command()


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen.", show_default="MAILWRIGHT_HOST")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Its port; 0 takes a free one.", show_default="MAILWRIGHT_PORT")
    ] = None,
    with_worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Send mail from this process too.")] = True,
) -> None:
    """Serve the HTTP API, with a worker in the same process.

    SQLite is brought to the newest form by itself; on PostgreSQL run `mailwright db upgrade` first.

    SIGTERM or Ctrl-C: no new requests, what is under way finishes (SHUTDOWN_GRACE_SECONDS), exit 0. A second signal
    ends it at once.
    """
    uvloop.run(_serve(settings_for_service(host=host, port=port), with_worker=with_worker))


async def _serve(settings: Settings, *, with_worker: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    async with open_engine(settings) as engine:
        await prepare(engine.database)
        listener = listen(settings.host, settings.port)
        await serve_until_stopped(engine, application, listener, shutdown, with_worker=with_worker)


def application(engine: Engine, is_worker_alive: Callable[[], bool] | None) -> FastAPI:
    settings = engine.settings
    return create_app(
        ApiParts(
            database=engine.database,
            clock=engine.clock,
            intake=engine.intake,
            public_url=settings.public_url,
            is_worker_alive=is_worker_alive,
            webhooks=engine.webhooks,
            defaults=defaults_of(settings, list(providers_of(settings))),
            images_folder=settings.images,
            imports_folder=settings.imports,
            import_bytes=settings.import_bytes,
            postal_address=settings.postal_address,
            public_pages=PublicPages(
                secret=secret.get_secret_value() if (secret := settings.unsubscribe_secret) else None,
                retired=tuple(each.get_secret_value() for each in settings.unsubscribe_retired_secrets),
                asks_first=settings.unsubscribe_confirm,
                sender=sender_of(settings).name,
            ),
        )
    )
