"""`mailwright outbox`: email that an application writes to a table of its own database."""

import asyncio
from typing import Annotated

import typer

from mailwright.app.outbox_table import drain_outbox_table, open_application_database, open_relay, relay_table
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import open_engine
from mailwright.cli.opening import settings_for_service
from mailwright.cli.options import group
from mailwright.cli.output import out
from mailwright.ops.settings import Settings, load
from mailwright.storage.outbox_table import DEFINITIONS, TABLE, create_outbox_table

app = group("Email from a table in an application's own database.")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database", metavar="URL", help="The application's database.", show_default="MAILWRIGHT_OUTBOX_DATABASE_URL"
    ),
]


@app.command("init")
def init_command(
    database: DatabaseUrl = None,
    prints: Annotated[
        bool, typer.Option("--print", help="Print the SQL, for example for a migration, and change nothing.")
    ] = False,
) -> None:
    """Create the table `mailwright_outbox` in the application's database. An existing one stays unchanged."""
    asyncio.run(_init(database or load().outbox_database_url, prints=prints))


async def _init(url: str | None, *, prints: bool) -> None:
    async with open_application_database(url) as database:
        if prints:
            typer.echo("".join(f"{statement};\n" for statement in DEFINITIONS[database.dialect]), nl=False)
            return
        await create_outbox_table(database)
    out.print(f"The table {TABLE} is ready.", markup=False)


@app.command("run")
def run_command(
    database: DatabaseUrl = None,
    tenant: Annotated[
        str | None,
        typer.Option(help="The tenant that sends the messages.", show_default="MAILWRIGHT_OUTBOX_TENANT"),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when no row is pending.")] = False,
) -> None:
    """Accept the rows of the table until stopped or drained. Workers send the messages.

    `mailwright serve` and `mailwright worker` do the same if MAILWRIGHT_OUTBOX_DATABASE_URL is set.
    """
    settings = settings_for_service(outbox_database_url=database, outbox_tenant=tenant)
    asyncio.run(_run(settings, drain=drain))


async def _run(settings: Settings, *, drain: bool) -> None:
    shutdown, stop = Shutdown(), asyncio.Event()
    shutdown.listen()
    shutdown.calls(stop.set)
    async with open_engine(settings) as engine, open_relay(engine) as relay:
        if drain:
            out.print(f"Rows processed: {await drain_outbox_table(relay)}.", markup=False)
        else:
            await relay_table(relay, stop)
