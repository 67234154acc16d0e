"""`mailwright notify run` and `init`. The other commands are derived from the actions."""

from typing import Annotated

import typer
import uvloop

from mailwright.actions import load_noun
from mailwright.app.notification_queue import open_queue_database
from mailwright.app.notifications import notify
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import open_engine
from mailwright.cli.derived import local_option, make_group
from mailwright.cli.opening import Installation, run, settings_for_service
from mailwright.cli.output import out
from mailwright.ops.settings import Settings
from mailwright.sources.notifications.queue import create_queue

noun = load_noun("notify")
app = make_group(noun)

DatabaseUrl = Annotated[str | None, local_option(noun, "database")]
Schema = Annotated[str | None, local_option(noun, "schema")]


@app.command("run")
def run_command(
    database: DatabaseUrl = None,
    schema: Schema = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when nothing is due.")] = False,
) -> None:
    """Process a queue until stopped or drained: lock due rows, send them and record the results.

    The queue's schema is never changed. Several processes can serve one queue if they share MAILWRIGHT_DATABASE_URL.
    """
    settings = settings_for_service(notify_database_url=database, notify_schema=schema)
    uvloop.run(_run(settings, drain=drain))


async def _run(settings: Settings, *, drain: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    async with open_engine(settings) as engine:
        await notify(engine, shutdown, drain=drain)


@app.command("init")
def init_command(database: DatabaseUrl = None, schema: Schema = None) -> None:
    """Create the tables of a queue. Existing tables stay unchanged."""
    given = {"notify_database_url": database, "notify_schema": schema}

    async def work(at: Installation) -> None:
        settings = at.settings.model_copy(update={name: value for name, value in given.items() if value is not None})
        async with open_queue_database(settings, at.database) as queue:
            await create_queue(queue, settings.notify_schema)

    run(work, creates=True)
    out.print("The queue's tables are ready.", markup=False)
