"""Open the installation for one command and close it afterwards."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from mailwright.app.databases import open_database
from mailwright.app.stored_settings import load_effective
from mailwright.cli.output import aside, display
from mailwright.cli.remote import require_local
from mailwright.domain.clock import Clock, SystemClock
from mailwright.domain.errors import DatabaseNotReady
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops import logs
from mailwright.ops.settings import Settings, load
from mailwright.outbox import tenants
from mailwright.storage.database import Database, is_missing
from mailwright.storage.schema_state import require_usable

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Installation:
    settings: Settings
    clock: Clock
    database: Database


def run(
    work: Callable[[Installation], Awaitable[Result]],
    *,
    creates: bool = False,
    any_schema: bool = False,
    needs_file: bool = True,
) -> Result:
    """Open the installation, run the command and close everything.

    If `creates` is true, the command writes, so a missing SQLite file is created. If `any_schema` is true, the command
    works on the schema itself, which may not exist yet. If `needs_file` is false, a SQLite file may be missing too.
    """
    settings = settings_for_command()

    async def opened() -> Result:
        database = open_database(settings)
        try:
            if needs_file:
                await _require_file(settings, database, creates=creates)
            if not any_schema:
                await require_usable(database)
            found = settings if any_schema else await _with_stored(settings, database)
            display.zone = ZoneInfo(found.timezone)
            return await work(Installation(found, SystemClock(), database))
        finally:
            await database.close()

    return asyncio.run(opened())


async def find_tenant(at: Installation, name: str) -> tenants.Tenant:
    """Find the tenant that a command works on, and show all further times in that tenant's time zone."""
    tenant = await tenants.find(at.database, name)
    await show_zone_of(at, tenant.id)
    return tenant


async def show_zone_of(at: Installation, tenant_id: int) -> None:
    """Show times in the time zone of this tenant."""
    display.zone = await tenants.load_zone(at.database, tenant_id, at.settings.timezone)


async def warn_if_held(at: Installation) -> None:
    """Warn on stderr if all sending is on hold, because then a message that was just accepted is not sent yet."""
    from mailwright.outbox.sending_hold import find_hold  # noqa: PLC0415 - slow to import

    if (hold := await find_hold(at.database)) is not None:
        from mailwright.texts.explanations import hold_text  # noqa: PLC0415 - slow to import

        aside.print(
            f"! {hold_text(hold, at.clock.now(), display.zone)} To resume sending, run `mailwright quarantine list`, "
            "then `mailwright quarantine release` or `drop`.",
            markup=False,
        )


async def _with_stored(settings: Settings, database: Database) -> Settings:
    """Add the settings of the database. A command that does not send works although a secret cannot be read."""
    effective = await load_effective(settings, database)
    for problem in effective.problems:
        aside.print(f"! {problem}", markup=False)
    return effective.settings


def settings_for_command() -> Settings:
    """Load the settings. Commands print results on stdout, so only warnings are logged."""
    require_local("This command")
    settings = load()
    logs.configure("DEBUG" if settings.log_level == "DEBUG" else "WARNING", "console")
    return settings


def settings_for_service(**overrides: Any) -> Settings:
    """Load the settings of a service. It logs JSON lines to stderr, or readable lines on a terminal."""
    from mailwright.ops import tracing  # noqa: PLC0415 - only services need it

    require_local("This command")
    settings = load(**{name: value for name, value in overrides.items() if value is not None})
    is_terminal = sys.stderr.isatty() and "log_format" not in settings.model_fields_set
    logs.configure(settings.log_level, "console" if is_terminal else settings.log_format)
    tracing.configure()
    return settings


async def _require_file(settings: Settings, database: Database, *, creates: bool) -> None:
    """Raise an error if the SQLite file is missing: creating an empty one would hide that the path is wrong."""
    if not is_missing(database):
        return
    if not creates:
        raise DatabaseNotReady(
            f"There is no database at {database.url.database}. Create it with `mailwright db upgrade`, or set "
            "MAILWRIGHT_DATABASE_URL to another one."
        )
    from mailwright.app.restore_checks import mark_new_database, require_known_file  # noqa: PLC0415 - slow to import
    from mailwright.app.schema import prepare  # noqa: PLC0415 - Alembic is slow to import

    require_known_file(settings, database)
    await prepare(database)
    await mark_new_database(settings, database, SystemClock())
