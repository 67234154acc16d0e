"""A mail server for tests that stores every byte and sends scripted replies."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_CHUNK = re.compile(rb"BDAT (\d+)( LAST)?", re.IGNORECASE)


@dataclass
class ReceivedEmail:
    """The received bytes of an email, including doubled dots and the commands of chunks."""

    commands: list[str]
    data: bytes


@dataclass
class RecordingRelay:
    port: int = 0
    tls: ssl.SSLContext | None = None
    extensions: list[str] = field(default_factory=lambda: ["8BITMIME", "SMTPUTF8", "CHUNKING", "DSN", "SIZE 99999999"])
    # Replies by the beginning of a command or, for the end of an email, ".". None ends the connection without a reply.
    replies: dict[str, str | None] = field(default_factory=dict)
    emails: list[ReceivedEmail] = field(default_factory=list)
    sign_ins: list[str] = field(default_factory=list)
    greetings: list[str] = field(default_factory=list)
    connections: int = 0
    accepted: Callable[[], None] = lambda: None  # Called before the reply to a whole email.

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            writer.write(b"220 relay.example.com ESMTP\r\n")
            await self._talk(reader, writer)
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        commands: list[str] = []
        chunks = b""
        while True:
            line = await reader.readuntil(b"\r\n")
            text = line[:-2].decode()
            reply = self._reply(text)
            if reply is None:
                return
            if found := _CHUNK.fullmatch(line[:-2]):
                chunks += line + await reader.readexactly(int(found[1]))
                if found[2]:
                    reply, chunks = self._finish(commands, chunks), b""
            elif reply.startswith("354"):
                writer.write(f"{reply}\r\n".encode())
                data = await reader.readuntil(b"\r\n.\r\n")
                reply = self._finish(commands, data)
            elif text.upper().startswith(("MAIL", "RCPT")):
                commands.append(text)
            elif text.upper() == "STARTTLS":
                writer.write(b"220 Go\r\n")
                assert self.tls is not None
                await writer.start_tls(self.tls)
                continue
            if reply is None:
                return
            if reply.startswith("2") and text.upper().startswith(("EHLO", "RSET", "BDAT", "DATA")):
                commands = commands if text.upper().startswith("BDAT") and chunks else []
            writer.write(f"{reply}\r\n".encode())
            if text.upper() == "QUIT":
                return

    def _finish(self, commands: list[str], data: bytes) -> str | None:
        self.emails.append(ReceivedEmail(list(commands), data))
        self.accepted()
        return self.replies.get(".", "250 2.0.0 queued as 4XyZ")

    def _reply(self, text: str) -> str | None:
        for start, reply in self.replies.items():
            if text.upper().startswith(start.upper()):
                return reply
        verb = text.partition(" ")[0].upper()
        if verb == "EHLO":
            self.greetings.append(text)
            lines = ["relay.example.com", *self.extensions, "AUTH PLAIN LOGIN"]
            lines += ["STARTTLS"] if self.tls is not None else []
            return "\r\n".join([*[f"250-{line}" for line in lines[:-1]], f"250 {lines[-1]}"])
        if verb == "AUTH":
            self.sign_ins.append(text)
            return "235 2.7.0 Welcome"
        return {"DATA": "354 Go on", "QUIT": "221 Bye"}.get(verb, "250 2.1.0 Relay says ok")


@asynccontextmanager
async def a_relay(**options: object) -> AsyncIterator[RecordingRelay]:
    relay = RecordingRelay(**options)  # type: ignore[arg-type]
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, limit=128 * 1024 * 1024)
    relay.port = server.sockets[0].getsockname()[1]
    async with server:
        yield relay
