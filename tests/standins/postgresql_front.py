"""A TCP address in front of a PostgreSQL socket, with TLS as a server that has a certificate offers it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.standins.smtp_sink import Certificate

# The request for TLS that a client sends first: its length and a number that no protocol version has.
_TLS_REQUEST = bytes.fromhex("00000008 04d2162f")


class Break(Enum):
    """Where a connection breaks around the commit of its next accepted message."""

    BEFORE_COMMIT = auto()
    BEFORE_RESPONSE = auto()


class PostgresqlFront:
    """Forwards in both directions. With a TLS context, it refuses connections without TLS."""

    def __init__(self, server: Path, tls: ssl.SSLContext | None) -> None:
        self._server = server
        self._tls = tls
        self.port = 0
        self.connections = 0
        self.breaks: Break | None = None  # Applies to one commit.

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            first = await reader.readexactly(8)
            if first == _TLS_REQUEST:
                writer.write(b"S" if self._tls else b"N")
                if self._tls:
                    await writer.start_tls(self._tls)
                first = await reader.readexactly(8)
            elif self._tls:
                writer.close()
                return
            self.connections += 1
            theirs, ours = await asyncio.open_unix_connection(str(self._server))
            ours.write(first)
            await asyncio.gather(self._forward(reader, ours, writer), self._forward(theirs, writer))
            ours.close()
        writer.close()

    async def _forward(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, client: asyncio.StreamWriter | None = None
    ) -> None:
        has_accepted = False
        while chunk := await source.read(65_536):
            has_accepted |= b"INSERT INTO messages" in chunk
            if client is not None and self.breaks is not None and has_accepted and b"COMMIT" in chunk:
                breaks, self.breaks = self.breaks, None
                client.transport.abort()
                if breaks is Break.BEFORE_COMMIT:
                    break
            target.write(chunk)
            await target.drain()
        target.close()


@asynccontextmanager
async def postgresql_front(url: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[PostgresqlFront]:
    [folder] = parse_qs(urlsplit(url).query)["host"]
    front = PostgresqlFront(Path(folder) / ".s.PGSQL.5432", tls)
    server = await asyncio.start_server(front.serve, "127.0.0.1", 0)
    front.port = server.sockets[0].getsockname()[1]
    try:
        yield front
    finally:
        server.close()


def a_tls_context(own: Certificate, client: Certificate | None = None) -> ssl.SSLContext:
    """Return the server's TLS context, which requires the certificate of a client if one is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.file, own.key_file)
    if client is not None:
        context.load_verify_locations(client.file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
