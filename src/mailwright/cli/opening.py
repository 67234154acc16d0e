"""Opening an installation for one command: its settings, clock and database, closed again whatever happens."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mailwright.app.addresses import located
from mailwright.domain.clock import Clock, SystemClock
from mailwright.domain.errors import NotDurable
from mailwright.ops import logs
from mailwright.ops.settings import Settings, load
from mailwright.storage.database import Database

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Installation:
    settings: Settings
    clock: Clock
    database: Database


def run(
    work: Callable[[Installation], Awaitable[Answer]], *, creates: bool = False, of_any_form: bool = False
) -> Answer:
    """`creates`: the command writes, so a SQLite file that is not there yet is made for it.
    `of_any_form`: the command is about the tables, which may not be there yet."""
    settings = settings_for_command()

    async def opened() -> Answer:
        database = Database(settings.database_url)
        try:
            await _find_file(database, creates=creates)
            found = settings if of_any_form else await located(settings, database)
            return await work(Installation(found, SystemClock(), database))
        finally:
            await database.close()

    return asyncio.run(opened())


def settings_for_command() -> Settings:
    """Commands answer on stdout; of the log, only what needs attention belongs beside it."""
    settings = load()
    logs.configure("DEBUG" if settings.log_level == "DEBUG" else "WARNING", "console")
    return settings


def settings_for_service(**overrides: Any) -> Settings:
    """Services log to stderr: JSON lines, or a form for people where a person watches and nobody chose."""
    from mailwright.ops import tracing  # noqa: PLC0415 - of services only

    settings = load(**{name: value for name, value in overrides.items() if value is not None})
    is_watched = sys.stderr.isatty() and "log_format" not in settings.model_fields_set
    logs.configure(settings.log_level, "console" if is_watched else settings.log_format)
    tracing.configure()
    return settings


async def _find_file(database: Database, *, creates: bool) -> None:
    """Looking at a file that is not there must not make an empty one: the wrong folder would answer with zeros."""
    if not _is_missing(database):
        return
    if not creates:
        raise NotDurable(
            f"There is no database at {database.url.database} yet. `mailwright serve` and `mailwright db upgrade` make "
            "one; MAILWRIGHT_DATABASE_URL names another."
        )
    from mailwright.app.schema import prepare  # noqa: PLC0415 - Alembic is slow to import and seldom needed

    await prepare(database)


def _is_missing(database: Database) -> bool:
    return database.dialect == "sqlite" and not Path(str(database.url.database)).exists()
