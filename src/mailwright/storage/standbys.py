"""Notice that commits wait for a synchronous standby of PostgreSQL, and which standbys are connected.

A commit that waits for a standby cannot be abandoned: its session, its locks and its connection stay until a standby
confirms it. So once one waits for long, the writes of this process fail at once, with the cause.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Float, bindparam, text
from sqlalchemy.engine.row import Row

from mailwright.domain.errors import DatabaseBlocked, NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.connection import Connection

# A confirmation usually takes milliseconds. After this long, the standby is taken as lost.
WAIT_SECONDS: Final = 3.0
# How long a result is used, and how long the server may take for it, with a new connection.
_FRESH_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 1.0

# Every role sees the names of standbys and the waits of its own sessions. A backup is no standby.
# Building an index beside writes is one statement with several commits, so its age says nothing about their waits.
STANDBYS: Final = text(
    "WITH waits AS (SELECT pid, query ILIKE '%INDEX CONCURRENTLY%' AS commits_often FROM pg_stat_activity"
    " WHERE wait_event = 'SyncRep' AND usename = current_user AND datname = current_database()"
    " AND query_start < clock_timestamp() - make_interval(secs => :seconds))"
    " SELECT current_setting('synchronous_standby_names') AS names,"
    " ARRAY(SELECT application_name FROM pg_stat_replication"
    " WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal')) AS connected,"
    " ARRAY(SELECT pid FROM waits WHERE NOT commits_often) AS waiting,"
    " ARRAY(SELECT pid FROM waits WHERE commits_often) AS waiting_briefly"
    # A write that takes WAIT_SECONDS began its commit somewhat later.
).bindparams(bindparam("seconds", callable_=lambda: 0.9 * WAIT_SECONDS, type_=Float()))
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
    waiting: tuple[int, ...] = ()  # The sessions whose commits have waited for a standby for some time.

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
        return bool(self.required) and (self.synchronous < self.required or bool(self.waiting))


def standbys_from(rows: Sequence[Row[Any]]) -> Standbys:
    [row] = rows
    found = Standbys(row.names, tuple(row.connected), tuple(row.waiting))
    return replace(found, waiting=(*row.waiting, *row.waiting_briefly)) if found.is_missing else found


class StandbyWatch:
    """Whether the commits of a process wait for a standby that is gone. Nothing is asked while writes succeed."""

    def __init__(self, *reads: Read) -> None:
        """`reads` are the ways to read from the server. Each is tried if those before it fail."""
        self._reads = reads
        self._found: Standbys | None = None
        self._looked_at = -_FRESH_SECONDS
        self._looking = asyncio.Lock()

    async def require_standby(self) -> None:
        """Raise an error if commits have been waiting, and still do."""
        if self._found is not None and await self.is_missing():
            raise self._error()

    async def explain(self, error: NotDurable) -> NotDurable:
        """Return the cause of a write that failed after a long wait."""
        return self._error() if await self.is_missing() else error

    async def is_missing(self) -> bool:
        loop = asyncio.get_running_loop()
        async with self._looking:
            if loop.time() - self._looked_at >= _FRESH_SECONDS:
                await self._look()
                self._looked_at = loop.time()
        return self._found is not None

    async def is_stalled(self, session: int | None) -> bool:
        """Return whether the commit of a session waits for a standby that is gone.

        Behind a pooler, the session is unknown (None), and the commit of another one counts.
        """
        if not await self.is_missing() or self._found is None:
            return False
        return bool(self._found.waiting) if session is None else session in self._found.waiting

    async def _look(self) -> None:
        """Look at the standbys. If the server does not respond, what was found before still counts."""
        for read in self._reads:
            with suppress(NotDurable, TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS), read(_LOOK_SECONDS) as connection:
                    found = standbys_from((await connection.execute(STANDBYS)).rows)
                self._found = found if found.is_missing else None
                return

    def _error(self) -> StandbyMissing:
        found = self._found or Standbys()
        return StandbyMissing(
            "PostgreSQL does not confirm commits, because it waits for a synchronous standby "
            f"(synchronous_standby_names = '{found.names}', required: {found.required}, connected: "
            f"{found.synchronous}). {STANDBY_ADVICE}"
        )
