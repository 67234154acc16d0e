"""Notice that commits wait for a synchronous standby of PostgreSQL, and which standbys are connected.

A commit that waits for a standby cannot be abandoned: its session, its locks and its connection stay until a standby
confirms it. So once one waits for long, the writes of this process fail at once, with the cause.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.engine.row import Row

from mailwright.domain.errors import DatabaseBlocked, NotDurable
from mailwright.storage.connection import Connection

# A confirmation usually takes milliseconds. After this long, the standby is taken as lost.
WAIT_SECONDS: Final = 3.0
# How long a result is used, and how long the server may take for it.
_FRESH_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5

# Every role sees the names of standbys and the waits of its own sessions. A backup is no standby.
STANDBYS: Final = text(
    "SELECT current_setting('synchronous_standby_names') AS names,"
    " ARRAY(SELECT application_name FROM pg_stat_replication"
    " WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal')) AS connected,"
    " (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND usename = current_user"
    " AND datname = current_database()"
    " AND query_start < clock_timestamp() - make_interval(secs => :seconds)) AS waiting"
).bindparams(seconds=WAIT_SECONDS)
_NAMES: Final = re.compile(r"^\s*(?:(?:FIRST|ANY)?\s*(\d+)\s*\((.*)\)|(.*))\s*$", re.IGNORECASE | re.DOTALL)

STANDBY_ADVICE: Final = (
    "Start the standby. If it is lost, set synchronous_standby_names = '' on the server and reload it: commits then "
    "wait for no standby, and a failover loses the latest ones."
)
Read = Callable[[float], AbstractAsyncContextManager[Connection]]


class StandbyMissing(DatabaseBlocked):
    """PostgreSQL does not confirm commits, because it waits for a synchronous standby."""


@dataclass(frozen=True, slots=True)
class Standbys:
    names: str = ""  # The setting synchronous_standby_names.
    connected: tuple[str, ...] = ()
    waiting: int = 0  # Commits that have waited for a standby for some time.

    @property
    def required(self) -> int:
        """Return how many standbys have to confirm a commit."""
        found = _NAMES.match(self.names)
        return int(found[1] or 1) if self.names.strip() and found else 0

    @property
    def synchronous(self) -> int:
        """Return how many of the connected standbys may confirm a commit."""
        found = _NAMES.match(self.names)
        names = (
            {each.strip().strip('"').lower() for each in (found[2] or found[3] or "").split(",")} if found else set()
        )
        return sum("*" in names or each.lower() in names for each in self.connected)

    @property
    def is_missing(self) -> bool:
        """Return whether no commit can be confirmed at present."""
        return bool(self.required) and (self.synchronous < self.required or self.waiting > 0)


def standbys_from(rows: Sequence[Row[Any]]) -> Standbys:
    [row] = rows
    return Standbys(row.names, tuple(row.connected), row.waiting)


class StandbyWatch:
    """Whether the commits of a process wait for a standby that is gone. Nothing is asked while writes succeed."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._found: Standbys | None = None
        self._looked_at = 0.0

    async def require_standby(self) -> None:
        """Raise an error if commits have been waiting, and still do."""
        if self._found is not None and await self.is_missing():
            raise self._error()

    async def explain(self, error: NotDurable) -> NotDurable:
        """Return the cause of a write that failed after a long wait."""
        return self._error() if await self.is_missing() else error

    async def is_missing(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= _FRESH_SECONDS:
            self._looked_at = now
            self._found = await self._look()
        return self._found is not None

    async def _look(self) -> Standbys | None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS), self._read(_LOOK_SECONDS) as connection:
                found = standbys_from((await connection.execute(STANDBYS)).rows)
        except (NotDurable, TimeoutError):
            return None
        return found if found.is_missing else None

    def _error(self) -> StandbyMissing:
        found = self._found or Standbys()
        return StandbyMissing(
            "PostgreSQL does not confirm commits, because it waits for a synchronous standby "
            f"(synchronous_standby_names = '{found.names}', required: {found.required}, connected: "
            f"{found.synchronous}). {STANDBY_ADVICE}"
        )
