"""Compare the database with markers stored outside of it, before and while a process sends."""

from typing import TYPE_CHECKING

from mailwright.domain.clock import Clock, utc_text
from mailwright.domain.errors import DatabaseNotReady
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.restore_guard import ADVANCE_SECONDS, FileMarker, MarkerStore, RestoreGuard, ValkeyMarker
from mailwright.sources.articles.runs import stop_open_runs
from mailwright.storage.database import Database, is_missing

if TYPE_CHECKING:
    from redis.asyncio import Redis


def make_guard(settings: Settings, database: Database, clock: Clock, valkey: "Redis | None") -> RestoreGuard:
    markers: list[MarkerStore] = [FileMarker(settings.state, database.url)]
    if valkey is not None:
        markers.append(ValkeyMarker(valkey, database.url))
    return RestoreGuard(database, clock, markers)


async def check_for_restore(guard: RestoreGuard, database: Database, clock: Clock) -> None:
    if await guard.check() is not None:
        await stop_open_runs(database, clock)


async def run_guard(guard: RestoreGuard, database: Database, clock: Clock) -> None:
    async def check() -> None:
        await check_for_restore(guard, database, clock)

    await run_periodically("restore_guard", check, seconds=ADVANCE_SECONDS, logs_expected=False)


async def mark_new_database(settings: Settings, database: Database, clock: Clock) -> None:
    """Mark a database that was just created, before anything is stored in it.

    Any copy of it that contains something then differs from a new database.
    """
    await make_guard(settings, database, clock, None).check()


def require_known_file(settings: Settings, database: Database) -> None:
    """Refuse to create an empty database in place of one that was used before and is missing."""
    if not is_missing(database):
        return
    mark = FileMarker(settings.state, database.url).read()
    if mark is not None:
        raise DatabaseNotReady(
            f"The database {database.url.database}, last used at {utc_text(mark.at)}, is missing. Restore it from a "
            "backup or correct MAILWRIGHT_DATABASE_URL. To start with an empty one, run `mailwright db upgrade --new`."
        )


def forget_missing_file(settings: Settings, database: Database) -> None:
    """Delete the marker of a missing database, so that an empty one may replace it."""
    if is_missing(database):
        FileMarker(settings.state, database.url).forget()
