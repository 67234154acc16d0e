"""Run functions that each write to the database in one transaction, which is committed or rolled back as a whole."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mailwright.storage.database import Database, T, Transaction
from mailwright.storage.hot import Change, Work


class OneTransaction(Database):
    """An open write as a database: reads see what was written in it, and its owner commits it."""

    def __init__(self, database: Database, tx: Transaction) -> None:
        self.url, self.secret_box, self.dialect = database.url, database.secret_box, database.dialect
        self._tx = tx

    @asynccontextmanager
    async def read(self, *, within: float | None = None) -> AsyncIterator[Transaction]:
        yield self._tx

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        yield self._tx

    async def transact(self, work: Work[T], *, within: float | None = None) -> T:
        raise TypeError("The hot path has connections of its own, so it cannot be part of this transaction.")

    async def apply(self, changes: Sequence[Change]) -> bool:
        raise TypeError("The hot path has connections of its own, so it cannot be part of this transaction.")
