"""The server closes connections whose requests arrive too slowly, and keeps those that are only large."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from mailwright.app import http_protocol
from mailwright.app.http_protocol import TimedHttpProtocol


class Impatient(TimedHttpProtocol):
    head_seconds = 0.05
    body_seconds = 0.05


async def echo_size(scope: Any, receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    content = str(size).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]}
    )
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def a_server(protocol: type[TimedHttpProtocol]) -> AsyncIterator[int]:
    server = uvicorn.Server(
        uvicorn.Config(echo_size, port=0, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False)
    )
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await server.shutdown()


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /sign-in HTTP/1.1\r\nHost: a\r\nX-Half: ",
        b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
        b"POST /sign-in HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\n",
    ],
)
async def test_half_sent_requests_are_closed(sent: bytes) -> None:
    async with a_server(Impatient) as port:
        async with asyncio.timeout(30):
            responses = await asyncio.gather(*(_request(port, sent) for _ in range(30)))
    assert b"408 Request Timeout" in max(responses)
    assert all(not response or b"408 Request Timeout" in response for response in responses)


async def _request(port: int, sent: bytes) -> bytes:
    """Return the response; nothing if the server closed the connection before it got the request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.promise("body-limits")
async def test_dripping_body_is_closed() -> None:
    async with a_server(Impatient) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        async with asyncio.timeout(30):
            while not reader.at_eof():
                writer.write(b"x")
                try:
                    await asyncio.wait_for(reader.read(1_000), 0.01)
                except (TimeoutError, ConnectionResetError):
                    continue
        writer.close()


async def test_large_body_and_next_request_are_served() -> None:
    async with a_server(TimedHttpProtocol) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"200 OK" in head
            assert await reader.readexactly(7) == b"3000000"
        writer.close()


async def test_endless_headers_are_refused() -> None:
    async with a_server(TimedHttpProtocol) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n")
        for number in range(http_protocol.MAX_HEAD_BYTES // 100 + 1):
            writer.write(f"X-{number}: {'a' * 100}\r\n".encode())
        try:
            response = await reader.read()
        except ConnectionResetError:  # The server closed the connection while the client was still sending.
            response = b"431 "
        assert b"431 " in response
        writer.close()
