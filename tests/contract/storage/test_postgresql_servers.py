"""Connections with TLS, to several servers, and after a server became a standby."""

import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from sqlalchemy import text

from mailwright.domain.errors import NotDurable
from mailwright.storage.database import Database
from mailwright.storage.statements import Statement
from tests.engines import PostgresServer, postgresql
from tests.ports import free_port
from tests.standins.postgresql_front import a_tls_context, postgresql_front
from tests.standins.smtp_sink import a_certificate

TOUCH = Statement("touch", "UPDATE tenants SET created_at = 2 RETURNING name")


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def use(address: str) -> None:
    """Use both ways to the database: SQLAlchemy and the hot path."""
    database = Database(address)
    try:
        async with database.read() as tx:
            await tx.execute(text("SELECT count(*) FROM tenants"))
        async with database.write() as tx:
            await tx.execute(text("UPDATE tenants SET created_at = 1"))
        await database.transact(_touch)
    finally:
        await database.close()


async def _touch(runner: Any) -> None:
    await runner.run(TOUCH)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ("sslmode=require", None),
        ("ssl=true", None),
        ("sslmode=verify-ca&sslrootcert={root}", None),
        ("sslmode=verify-full&sslrootcert={root}", None),
        ("sslmode=require&channel_binding=require&sslrootcert={root}", None),
        ("sslmode=disable", "."),
        ("sslmode=verify-full&sslrootcert={other}", "certificate verify failed"),
        ("sslmode=verify-full&sslrootcert=system", "certificate verify failed"),
        ("sslmode=require&channel_binding=require", "certificate verify failed"),
    ],
)
async def test_tls_is_used_as_the_address_says(url: str, parameters: str, problem: str | None) -> None:
    own, other = a_certificate(), a_certificate("other.example.com")
    async with postgresql_front(url, a_tls_context(own)) as front:
        query = parameters.format(root=own.file, other=other.file)
        address = f"postgresql://postgres@localhost:{front.port}/{name_of(url)}?{query}"
        if problem is None:
            await use(address)
            return
        with pytest.raises(NotDurable, match=problem):
            await use(address)


async def test_server_with_another_name_is_refused(url: str) -> None:
    own = a_certificate("db.example.com")
    async with postgresql_front(url, a_tls_context(own)) as front:
        address = f"postgresql://postgres@localhost:{front.port}/{name_of(url)}?sslrootcert={own.file}&sslmode="
        await use(f"{address}verify-ca")
        with pytest.raises(NotDurable, match="certificate is not valid for 'localhost'"):
            await use(f"{address}verify-full")


async def test_client_certificate_is_presented(url: str) -> None:
    own, client = a_certificate(), a_certificate("mailwright")
    async with postgresql_front(url, a_tls_context(own, client)) as front:
        address = f"postgresql://postgres@localhost:{front.port}/{name_of(url)}?sslmode=require"
        with pytest.raises(NotDurable):
            await use(address)
        await use(f"{address}&sslcert={client.file}&sslkey={client.key_file}")


async def test_front_of_these_tests_speaks_tls_as_libpq_expects(url: str) -> None:
    own = a_certificate()
    async with postgresql_front(url, a_tls_context(own)) as front:
        address = (
            f"postgresql://postgres@localhost:{front.port}/{name_of(url)}?sslmode=verify-full&sslrootcert={own.file}"
        )
        async with await psycopg.AsyncConnection.connect(address) as connection:
            assert connection.info.status.name == "OK"


@contextmanager
def a_silent_port() -> Iterator[int]:
    """Listen without ever responding, like a server that vanished behind its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("order", [1, -1])
async def test_first_suitable_server_is_used_in_any_order(
    url: str, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailwright.storage.postgresql_servers._NEXT_HOST_SECONDS", 0.2)
    async with postgresql_front(url) as front:
        with a_silent_port() as silent:
            ports, name = [silent, front.port, free_port()][::order], name_of(url)
            hosts = ",".join(f"localhost:{port}" for port in ports)
            await use(f"postgresql://postgres@{hosts}/{name}")
            await use(f"postgresql://postgres@/{name}?host={hosts}")
            await use(
                f"host=localhost,localhost,localhost port={','.join(map(str, ports))} user=postgres dbname={name}"
            )


async def test_single_server_of_another_role_is_named_or_used(url: str) -> None:
    front = f"{url}&target_session_attrs="
    await use(f"{front}prefer-standby")
    with pytest.raises(NotDurable, match="is not standby"):
        await use(f"{front}standby")


async def write(database: Database) -> str:
    """Write on both ways to the database, and return the folder of its server."""
    await database.transact(_touch)
    async with database.write() as tx:
        [row] = await tx.execute(text("UPDATE tenants SET created_at = 1 RETURNING current_setting('data_directory')"))
    return str(row[0])


async def test_writes_follow_the_primary_to_another_server() -> None:
    with postgresql() as primary, tempfile.TemporaryDirectory(prefix="mwpg") as folder:
        Path(folder).chmod(0o777)
        url = await primary.create()
        standby = primary.copy(Path(folder) / "data")
        try:
            sockets = [parse_qs(urlsplit(each.url("x")).query)["host"][0] for each in (standby, primary)]
            database = Database(f"postgresql://postgres@/{name_of(url)}?host={','.join(sockets)}")
            first = await write(database)
            reader = Database(
                f"postgresql://postgres@/{name_of(url)}?host={','.join(sockets)}&target_session_attrs=standby"
            )
            with pytest.raises(NotDurable):
                await write(reader)
            await reader.close()
            # The connections stay open while their server stops to accept writes, as in a managed failover.
            await primary.command("ALTER SYSTEM SET default_transaction_read_only = on")
            await primary.command("SELECT pg_reload_conf()")
            await standby.command("SELECT pg_promote()")
            for _ in range(3):  # One failed write for each way closes its connection.
                with suppress(NotDurable):
                    second = await write(database)
            assert (first.endswith("data"), second) == (True, str(Path(folder) / "data"))
            await database.close()
        finally:
            standby.stop()
