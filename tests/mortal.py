"""A database whose user dies before a statement of its writes, or after a commit, as a killed process does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mailwright.storage.database import Database, Transaction


class Killed(BaseException):
    """The worker is gone: nothing of its open transaction is committed."""


class MortalTransaction:
    """Dies before the given statement."""

    def __init__(self, tx: Transaction, life: "MortalDatabase") -> None:
        self._tx = tx
        self._life = life

    async def run(self, *arguments: Any, **parameters: Any) -> Any:
        self._life.use()
        return await self._tx.run(*arguments, **parameters)

    async def count(self, *arguments: Any, **parameters: Any) -> Any:
        self._life.use()
        return await self._tx.count(*arguments, **parameters)

    async def execute(self, *arguments: Any) -> Any:
        self._life.use()
        return await self._tx.execute(*arguments)


class MortalDatabase:
    """A database whose user dies before a statement of its writes, or after a commit."""

    def __init__(self, database: Database, statements: int) -> None:
        self._database = database
        self.has_history = database.has_history
        self._left = statements

    def use(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed

    def read(self) -> Any:
        return self._database.read()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[MortalTransaction]:
        async with self._database.write() as tx:
            yield MortalTransaction(tx, self)
        self.use()
