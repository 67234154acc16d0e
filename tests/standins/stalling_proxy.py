"""A proxy in front of a PostgreSQL socket that can stop forwarding, like a server that is frozen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_SOCKET = ".s.PGSQL.5432"


class StallingProxy:
    """Forwards in both directions while `flows` is set. Otherwise it still accepts connections, as a kernel does."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self.flows = asyncio.Event()
        self.flows.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_unix_connection(str(self._server))
        with suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._forward(reader, ours), self._forward(theirs, writer))
        ours.close()
        writer.close()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(65_536):
            await self.flows.wait()
            target.write(chunk)
            await target.drain()
        target.close()


@asynccontextmanager
async def stalling_proxy(url: str, folder: Path) -> AsyncIterator[tuple[str, StallingProxy]]:
    """Yield the URL of the same database behind the proxy, and the proxy."""
    [host] = parse_qs(urlsplit(url).query)["host"]
    proxy = StallingProxy(Path(host) / _SOCKET)
    server = await asyncio.start_unix_server(proxy.serve, folder / _SOCKET)
    try:
        yield url.replace(host, str(folder)), proxy
    finally:
        proxy.flows.set()
        server.close()
