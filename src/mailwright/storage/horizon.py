"""The horizon: up to which event nothing can appear any more, so that a cursor over events passes over none.

Keys are given out before a transaction commits. On PostgreSQL an event with a smaller key may therefore appear after
one with a larger key was seen; on SQLite, with its one writer, it cannot. Whoever reads events in order waits until
every transaction has ended that was under way when the newest key was seen.
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
    newest: int  # the largest key that can be seen
    oldest_running: int  # every transaction before this one has ended
    next_to_run: int  # no transaction from this one on has begun

    @property
    def is_quiet(self) -> bool:
        """Nobody writes at this moment: what can be seen is all there is."""
        return self.oldest_running >= self.next_to_run


async def event_horizon(tx: Transaction) -> EventHorizon:
    """To be asked in a transaction that has written nothing: it would wait for itself."""
    newest = select(func.coalesce(func.max(events.c.id), 0)).scalar_subquery()
    seen: Any = await tx.execute(select(newest, _oldest_running(), _next_to_run()))
    return EventHorizon(*seen[0])


class _oldest_running(FunctionElement[int]):  # noqa: N801 - reads as the function that it is
    type = BigInteger()
    inherit_cache = True


class _next_to_run(FunctionElement[int]):  # noqa: N801 - reads as the function that it is
    type = BigInteger()
    inherit_cache = True


@compiles(_oldest_running, "postgresql")
def _oldest_postgresql(_element: Any, _compiler: Any, **_how: Any) -> str:
    return "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"


@compiles(_next_to_run, "postgresql")
def _next_postgresql(_element: Any, _compiler: Any, **_how: Any) -> str:
    return "CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)"


@compiles(_oldest_running, "sqlite")
def _oldest_sqlite(_element: Any, _compiler: Any, **_how: Any) -> str:
    return "0"


@compiles(_next_to_run, "sqlite")
def _next_sqlite(_element: Any, _compiler: Any, **_how: Any) -> str:
    return "0"
