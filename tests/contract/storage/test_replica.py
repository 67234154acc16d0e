"""Reports, exports and lists are read from a real replica that has every commit, otherwise from the primary."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import pytest
from sqlalchemy import text

import mailwright
from mailwright.app.databases import open_database
from mailwright.app.verify import verify
from mailwright.checks.health import check_health
from mailwright.checks.health_watch import FRESH
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.domain.findings import Finding, Verdict
from mailwright.ops.settings import Settings, load
from mailwright.outbox.installation_values import store_value
from mailwright.storage import replica
from mailwright.storage.database import Database, ReplicaReader, Transaction
from mailwright.storage.replica_state import ReplicaProblem
from mailwright.storage.server_history import COMPARED
from mailwright.storage.server_state import find_history
from tests.api import an_api
from tests.engines import PostgresServer, postgresql
from tests.pgbouncer import needs_pgbouncer, pgbouncer

Open = Callable[..., Database]


class Servers:
    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby

    def url(self, url: str) -> str:
        """Return the address of the same database on the replica."""
        return self.standby.url(url.partition("?")[0].rpartition("/")[2])


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with postgresql() as primary, tempfile.TemporaryDirectory(prefix="mwpg") as folder:
        Path(folder).chmod(0o777)
        standby = primary.copy(Path(folder) / "data")
        try:
            yield Servers(primary, standby)
        finally:
            standby.stop()


@pytest.fixture
async def url(servers: Servers) -> AsyncIterator[str]:
    """An empty database that the replica has, too."""
    url = await servers.primary.create()
    position = await servers.primary.value("SELECT pg_current_wal_flush_lsn()::text")
    while not await servers.standby.value(f"SELECT pg_last_wal_replay_lsn() >= '{position}'"):
        pass
    yield url
    await servers.standby.command("SELECT pg_wal_replay_resume()")


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Open databases, and close them after the test."""
    async with AsyncExitStack() as closing:

        def open_(url: str, read_url: str | None = None) -> Database:
            database = Database(url, read_url=read_url)
            closing.push_async_callback(database.close)
            return database

        yield open_


@pytest.fixture(autouse=True)
def wait(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let a slow machine replicate in time, and use the replica again at once after a failure."""
    monkeypatch.setattr("mailwright.storage.replica.WAIT_SECONDS", 20.0)
    monkeypatch.setattr("mailwright.storage.replica.CONNECT_SECONDS", 20.0)
    monkeypatch.setattr("mailwright.storage.replica.AVOID_SECONDS", 0.0)
    return monkeypatch


async def is_standby(tx: Transaction) -> bool:
    [row] = await tx.execute(text("SELECT pg_is_in_recovery()"))
    return bool(row[0])


async def reads_replica(database: Database) -> bool:
    async with database.reader.read() as tx:
        return await is_standby(tx)


async def problem_of(database: Database) -> ReplicaProblem | None:
    assert database.replica is not None
    return (await database.replica.measure()).problem


async def touch(database: Database, value: int) -> None:
    async with database.write() as tx:
        await tx.execute(text("UPDATE tenants SET created_at = :value"), {"value": value})


async def touched(database: Database) -> int:
    async with database.reader.read() as tx:
        [row] = await tx.execute(text("SELECT created_at FROM tenants"))
    return int(row[0])


async def test_replica_has_what_was_just_written(servers: Servers, url: str, opened: Open) -> None:
    database, other_process = opened(url, servers.url(url)), opened(url)
    for value in range(1, 30):
        await touch(other_process, value)
        assert await touched(database) == value
        assert await reads_replica(database)
    state = await database.replica.measure()  # type: ignore[union-attr]
    assert (state.problem, state.lag_seconds is not None) == (None, True)


async def test_primary_is_read_while_the_replica_is_behind(
    servers: Servers, url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    database = opened(url, servers.url(url))
    assert await reads_replica(database)
    wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 0.1)
    await servers.standby.command("SELECT pg_wal_replay_pause()")
    await touch(database, 7)
    assert await touched(database) == 7
    assert not await reads_replica(database)
    state = await database.replica.measure()  # type: ignore[union-attr]
    assert state.problem is ReplicaProblem.BEHIND
    assert state.lag_seconds is not None
    await servers.standby.command("SELECT pg_wal_replay_resume()")
    wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 20.0)
    assert await reads_replica(database)
    assert await touched(database) == 7


async def test_replica_of_an_idle_primary_is_not_late(servers: Servers, url: str, opened: Open) -> None:
    on_standby = opened(servers.url(url))

    async def age() -> float:
        async with on_standby.read() as tx:
            [row] = await tx.execute(replica._STANDBY)
        return float(row.age)

    while await age():
        pass
    await servers.standby.command("SELECT pg_wal_replay_pause()")
    await touch(opened(url), 7)
    while not await age():
        pass


async def test_late_replica_is_left_alone_for_a_while(
    servers: Servers, url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    database = opened(url, servers.url(url))
    wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 0.1)
    wait.setattr("mailwright.storage.replica.AVOID_SECONDS", 3600.0)
    await servers.standby.command("SELECT pg_wal_replay_pause()")
    await touch(database, 7)
    assert not await reads_replica(database)
    await servers.standby.command("SELECT pg_wal_replay_resume()")
    assert not await reads_replica(database)  # It does not wait for the replica again.


async def test_unreachable_replica_is_not_needed(url: str, opened: Open) -> None:
    database = opened(url, "postgresql://postgres@127.0.0.1:1/none?connect_timeout=1")
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.UNREACHABLE


async def test_replica_that_refuses_the_sign_in_is_not_needed(servers: Servers, url: str, opened: Open) -> None:
    database = opened(url, servers.standby.url("no_such_database"))
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.UNREACHABLE


async def test_primary_as_replica_is_refused(url: str, opened: Open) -> None:
    database = opened(url, url)
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.NOT_A_REPLICA


async def test_replica_of_another_server_is_refused(
    postgres_server: PostgresServer, servers: Servers, url: str, opened: Open
) -> None:
    other = await postgres_server.create()
    database = opened(other, servers.url(url))
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.OTHER_DATABASE
    await postgres_server.drop(other)


async def test_another_database_of_the_replica_is_refused(servers: Servers, url: str, opened: Open) -> None:
    database = opened(url, servers.standby.url("postgres"))
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.OTHER_DATABASE


async def test_replica_is_not_read_until_a_failover_is_compared(servers: Servers, url: str, opened: Open) -> None:
    database = opened(url, servers.url(url))
    async with database.write() as tx:
        await store_value(tx, COMPARED, "another history")
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.OTHER_HISTORY
    history = await find_history(database)
    async with database.write() as tx:
        await store_value(tx, COMPARED, str(history))
    assert await reads_replica(database)


@needs_pgbouncer
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_replica_behind_a_pooler_has_what_was_just_written(
    mode: str, servers: Servers, url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    with pgbouncer(servers.url(url), mode, size=2) as address:
        database = opened(url, address)
        for value in range(1, 10):
            await touch(database, value)
            assert await touched(database) == value
            assert await reads_replica(database)
        async with database.reader.read() as tx:
            before = [tuple(row) for row in await tx.execute(text("SELECT created_at FROM tenants"))]
            await touch(database, 99)
            assert before == [tuple(row) for row in await tx.execute(text("SELECT created_at FROM tenants"))]
        wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 0.1)
        await servers.standby.command("SELECT pg_wal_replay_pause()")
        await touch(database, 100)
        assert await touched(database) == 100
        assert await problem_of(database) is ReplicaProblem.BEHIND
        await database.close()


@pytest.fixture
async def impatient(servers: Servers) -> AsyncIterator[None]:
    """Let the replica end reads that keep it from catching up, instead of waiting for them."""
    await servers.standby.command("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await servers.standby.command("SELECT pg_reload_conf()")
    yield
    await servers.standby.command("ALTER SYSTEM RESET max_standby_streaming_delay")
    await servers.standby.command("SELECT pg_reload_conf()")


async def end_reads(servers: Servers, database: Database, url: str) -> None:
    """Remove rows that each earlier read of the replica still sees, and wait until none of them is left."""
    await touch(database, 1)
    await touch(database, 2)
    admin = await asyncpg.connect(url)
    await admin.execute("VACUUM (FREEZE) tenants")
    await admin.close()
    while await servers.standby.value(f"SELECT count(*) FROM pg_stat_activity WHERE {_READING}"):
        pass


_READING: Final = "application_name = 'mailwright' AND state IN ('active', 'idle in transaction')"
# Ends at once on the primary.
_LONG: Final = text("SELECT count(CASE WHEN pg_is_in_recovery() THEN pg_sleep(600) END) FROM tenants")


@pytest.mark.usefixtures("impatient")
async def test_statement_that_the_replica_cancels_is_repeated_on_the_primary(
    servers: Servers, url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    database = opened(url, servers.url(url))
    wait.setattr("mailwright.storage.replica.AVOID_SECONDS", 3600.0)

    async def read() -> list[int]:
        async with database.reader.read() as tx:
            return [row[0] for row in await tx.execute(_LONG)]

    reading = asyncio.create_task(read())
    while not await servers.standby.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
        pass
    await end_reads(servers, database, url)
    assert len(await reading) == 1
    assert not await reads_replica(database)  # It is left alone for a while.


@pytest.mark.usefixtures("impatient")
async def test_read_that_the_replica_ends_goes_on_at_the_primary(servers: Servers, url: str, opened: Open) -> None:
    database = opened(url, servers.url(url))
    count = text("SELECT count(*) FROM tenants")
    async with database.reader.read() as tx:
        assert [row[0] for row in await tx.execute(count)] == [1]
        await end_reads(servers, database, url)
        assert not await is_standby(tx)
        assert [row[0] for row in await tx.execute(count)] == [1]


@pytest.mark.usefixtures("impatient")
async def test_read_whose_rows_changed_since_fails(servers: Servers, url: str, opened: Open) -> None:
    """Its results would not agree."""
    database = opened(url, servers.url(url))

    async def read() -> None:
        async with database.reader.read() as tx:
            await tx.execute(text("SELECT created_at FROM tenants"))
            await end_reads(servers, database, url)
            await tx.execute(text("SELECT created_at FROM tenants"))

    with pytest.raises(NotDurable):
        await read()


async def test_replica_that_is_lost_after_the_last_row_fails_nothing(servers: Servers, url: str, opened: Open) -> None:
    database = opened(url, servers.url(url))
    async with database.reader.read() as tx:
        assert await is_standby(tx)
        await servers.standby.command(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'mailwright'"
        )


async def test_read_without_a_free_connection_reads_the_primary(
    servers: Servers, url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    wait.setattr("mailwright.storage.replica.CONNECTIONS", 1)
    wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 0.1)
    database = opened(url, servers.url(url))
    async with database.reader.read() as tx:
        assert await is_standby(tx)
        assert not await reads_replica(database)
        assert await problem_of(database) is ReplicaProblem.BUSY
    assert await reads_replica(database)


async def test_replica_that_accepts_no_sign_in_is_not_waited_for(
    url: str, wait: pytest.MonkeyPatch, opened: Open
) -> None:
    """It is a server that accepts connections and then says nothing."""
    wait.setattr("mailwright.storage.replica.CONNECT_SECONDS", 0.1)
    is_silent = asyncio.Event()

    async def stay_silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await is_silent.wait()
        writer.close()

    server = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    database = opened(url, f"postgresql://postgres@127.0.0.1:{port}/none?connect_timeout=600&sslmode=disable")
    assert not await reads_replica(database)
    assert await problem_of(database) is ReplicaProblem.UNREACHABLE
    is_silent.set()
    server.close()


@pytest.mark.parametrize("open_", [verify, open_database])
def test_replica_of_a_sqlite_file_is_refused(open_: Callable[[Settings], object]) -> None:
    settings = load(database_url="sqlite:///unused.db", database_read_url="postgresql://db.example.com/mailwright")
    with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_DATABASE_READ_URL: only PostgreSQL has replicas"):
        open_(settings)


@pytest.mark.parametrize("open_", [verify, open_database])
@pytest.mark.parametrize("address", ["sqlite:///replica.db", "mysql://db.example.com/mailwright", "replica"])
def test_address_of_no_postgresql_server_is_refused(address: str, open_: Callable[[Settings], object]) -> None:
    settings = load(database_url="postgresql://db.example.com/mailwright", database_read_url=address)
    with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_DATABASE_READ_URL: not the address of a PostgreSQL"):
        open_(settings)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/email",
        "/v1/contacts",
        "/v1/contacts/export",
        "/v1/lists?subscribers=true",
        "/v1/reports",
        "/v1/reports/export.csv",
        "/v1/dmarc-reports",
        "/v1/shadow",
    ],
)
async def test_lists_reports_and_exports_read_the_replica(
    servers: Servers, url: str, path: str, clock: ManualClock, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[bool] = []
    read = ReplicaReader.read

    @asynccontextmanager
    async def counted(self: ReplicaReader) -> AsyncIterator[Transaction]:
        async with read(self) as tx:
            reads.append(await is_standby(tx))
            yield tx

    monkeypatch.setattr(ReplicaReader, "read", counted)
    async with an_api(opened(url, servers.url(url)), clock) as api:
        await api.send()
        await api.client.post("/v1/lists", json={"listKey": "news"})
        assert reads == []  # Nothing that sends reads the replica.
        assert (await api.client.get(path)).status_code == 200
        assert reads
        assert all(reads)


def test_only_pages_and_commands_read_the_replica() -> None:
    source = Path(mailwright.__file__).parent
    users = {
        file.relative_to(source).parts[0] for file in source.rglob("*.py") if "database.reader" in file.read_text()
    }
    assert users == {"actions", "web"}


async def test_health_shows_the_replica(
    servers: Servers, url: str, clock: ManualClock, opened: Open, wait: pytest.MonkeyPatch
) -> None:
    database = opened(url, servers.url(url))
    async with an_api(database, clock) as api:

        async def found() -> Finding:
            [finding] = [
                each for each in await check_health(api.engine.settings, database, clock) if each.name == "replica"
            ]
            return finding

        assert (await found()).verdict is Verdict.OK
        metrics = (await api.anonymous.get("/metrics")).text
        assert "mailwright_replica_used 1.0" in metrics
        wait.setattr("mailwright.storage.replica.WAIT_SECONDS", 0.1)
        await servers.standby.command("SELECT pg_wal_replay_pause()")
        await touch(database, 7)
        finding = await found()
        assert finding.verdict is Verdict.WARNING
        assert "read the primary instead: it is behind" in str(finding.summary)
        clock.advance(FRESH)
        assert "mailwright_replica_used 0.0" in (await api.anonymous.get("/metrics")).text
