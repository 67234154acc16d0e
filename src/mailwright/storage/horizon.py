"""The event horizon: the largest key below which no new event can appear, so that a cursor skips no event.

Keys are assigned before a transaction commits. On PostgreSQL an event with a smaller key may therefore appear after one
with a larger key was read. On SQLite, which has one writer, this cannot happen. Code that reads events in key order
waits until all transactions that were running when it saw the newest key have ended.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from mailwright.storage.database import Transaction
from mailwright.storage.tables import events


@dataclass(frozen=True, slots=True)
class EventHorizon:
    newest: int  # The largest visible key.
    oldest_running: int  # Every transaction before this one has ended.
    next_to_run: int  # This transaction and all later ones have not begun.

    @property
    def is_quiet(self) -> bool:
        """Whether no transaction is writing, so that all events are visible."""
        return self.oldest_running >= self.next_to_run


async def event_horizon(tx: Transaction) -> EventHorizon:
    """Read the horizon. The caller's transaction must not have written anything, or it would wait for itself."""
    newest = select(func.coalesce(func.max(events.c.id), 0)).scalar_subquery()
    seen: Any = await tx.execute(select(newest, _oldest_running(), _next_to_run()))
    return EventHorizon(*seen[0])


class _oldest_running(FunctionElement[int]):  # noqa: N801 - a function of SQL
    type = BigInteger()
    inherit_cache = True


class _next_to_run(FunctionElement[int]):  # noqa: N801 - a function of SQL
    type = BigInteger()
    inherit_cache = True


@compiles(_oldest_running, "postgresql")
def _oldest_postgresql(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"


@compiles(_next_to_run, "postgresql")
def _next_postgresql(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"


@compiles(_oldest_running, "sqlite")
def _oldest_sqlite(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "0"


@compiles(_next_to_run, "sqlite")
def _next_sqlite(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "0"
