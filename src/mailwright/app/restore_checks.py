"""Compare the database with markers stored outside of it, before and while a process sends."""

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mailwright.app.sending import pause_sends
from mailwright.domain.clock import Clock, utc_text
from mailwright.domain.errors import DatabaseNotReady
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.attempt_recorder import AttemptRecorder, open_recorder
from mailwright.outbox.audit_log import SYSTEM
from mailwright.outbox.failover import FailoverGuard
from mailwright.outbox.restore_guard import (
    ADVANCE_SECONDS,
    FileMarker,
    MarkerStore,
    RestoreGuard,
    ValkeyMarker,
    database_name,
)
from mailwright.sources.articles.runs import stop_open_runs
from mailwright.storage.database import Database, is_missing

if TYPE_CHECKING:
    from redis.asyncio import Redis

FAILOVER_SECONDS: Final = 1.0


def make_guard(settings: Settings, database: Database, clock: Clock, valkey: "Redis | None") -> RestoreGuard:
    markers: list[MarkerStore] = [FileMarker(settings.state, database.url)]
    if valkey is not None:
        markers.append(ValkeyMarker(valkey, database.url))
    return RestoreGuard(database, clock, markers)


class DatabaseGuard:
    """Checks whether the database is the one that this process used before, and not an earlier state of it."""

    def __init__(self, settings: Settings, database: Database, clock: Clock, valkey: "Redis | None") -> None:
        self._database = database
        self._clock = clock
        self._restores = make_guard(settings, database, clock, valkey)
        self._failovers = FailoverGuard(
            database,
            clock,
            attempt_folder(settings, database),
            pause_bulk=self._pause_bulk,
            newest_mark=self._restores.newest_mark,
        )

    async def check(self) -> None:
        """Compare the database with what this machine knows, before anything is sent and periodically after that."""
        await self._failovers.check()
        if await self._restores.check() is not None:
            await stop_open_runs(self._database, self._clock)

    async def run(self) -> None:
        """Check which server it is every second, because a failover takes seconds; the rest less often."""
        rounds = cycle([*[self._failovers.check] * (int(ADVANCE_SECONDS / FAILOVER_SECONDS) - 1), self.check])

        async def check() -> None:
            await next(rounds)()

        await run_periodically("database_guard", check, seconds=FAILOVER_SECONDS, logs_expected=False)

    async def run_failovers(self) -> None:
        """Run the part of the checks that each of several processes needs."""
        check = self._failovers.check
        await run_periodically("database_guard", check, seconds=FAILOVER_SECONDS, logs_expected=False)

    async def _pause_bulk(self) -> None:
        await pause_sends(self._database, self._clock, actor=SYSTEM)
        await stop_open_runs(self._database, self._clock)


def attempt_folder(settings: Settings, database: Database) -> Path:
    """Return the folder with the latest attempts of this machine's processes."""
    return settings.state / f"attempts-{database_name(database.url)}"


def open_attempt_recorder(settings: Settings, database: Database) -> AttemptRecorder | None:
    """Open the attempt file of this process. SQLite needs none, because no other server can take over."""
    return None if database.dialect == "sqlite" else open_recorder(attempt_folder(settings, database))


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
