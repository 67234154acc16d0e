"""A fast SMTP sink in its own process. It records every complete message before it replies,
so its record is what a receiver may have, even if the sender crashed."""

import argparse
import asyncio
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import cast

import uvloop

MESSAGE = re.compile(rb"^X-Mailwright-Message: *(\S+)\r\n", re.MULTILINE | re.IGNORECASE)
RECIPIENT = re.compile(rb"RCPT TO:<([^>]*)>", re.IGNORECASE)


class Session(asyncio.Protocol):
    def __init__(self, book: int, latency_seconds: float) -> None:
        self._book = book
        self._latency_seconds = latency_seconds
        self._buffer = bytearray()
        self._recipients: list[bytes] = []
        self._is_content = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because the transports of uvloop are not subclasses of asyncio's.
        self._write = cast("asyncio.WriteTransport", transport).write
        self._say(b"220 sink\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        said: list[bytes] = []
        while (reply := self._content() if self._is_content else self._command()) is not None:
            said.append(reply)
        if said:
            self._say(b"".join(said))

    def _command(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        match line[:4].upper():
            case b"EHLO":
                return b"250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n"
            case b"RCPT":
                found = RECIPIENT.match(line)
                self._recipients.append(found[1] if found else b"?")
                return b"250 2.1.5 Ok\r\n"
            case b"DATA":
                self._is_content = True
                return b"354 go on\r\n"
            case b"QUIT":
                return b"221 2.0.0 Bye\r\n"
            case _:
                return b"250 2.0.0 Ok\r\n"

    def _content(self) -> bytes | None:
        end = self._buffer.find(b"\r\n.\r\n")
        if end < 0:
            return None
        content = bytes(self._buffer[: end + 2])
        del self._buffer[: end + 5]
        found = MESSAGE.search(content)
        name = found[1] if found else b"?"
        os.write(self._book, b"%d %s %s\n" % (time.time() * 1000, name, b",".join(self._recipients)))
        self._recipients = []
        self._is_content = False
        return b"250 2.0.0 Ok: queued as " + name + b"\r\n"

    def _say(self, reply: bytes) -> None:
        asyncio.get_running_loop().call_later(self._latency_seconds, self._write, reply)


def received(book: Path) -> Counter[str]:
    """Return how often each message arrived, by its outbox ID."""
    return Counter(line.split(" ")[1] for line in book.read_text().splitlines())


async def serve(book: Path, port_file: Path, latency_seconds: float) -> None:
    handle = os.open(book, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Session(handle, latency_seconds), "127.0.0.1", 0)
    unfinished = port_file.with_suffix(".tmp")
    unfinished.write_text(str(server.sockets[0].getsockname()[1]))
    unfinished.rename(port_file)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("book", type=Path)
    parser.add_argument("port_file", type=Path)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    given = parser.parse_args()
    uvloop.run(serve(given.book, given.port_file, given.latency))
