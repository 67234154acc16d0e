"""How fast the SMTP server accepts email durably, compared with smtp-sink, which stores nothing.

One client sends to both.
"""

import asyncio
import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench import mailwright
from bench.children import Child, NotMeasured, call
from bench.mailwright import PROGRAM
from bench.sink import free_port, wait_for_port
from bench.stage import Stage

EMAILS_PER_CONNECTION = 50
CONNECTIONS = 40
_BODY = b"<p>One crate of oranges, packed by hand, is on its way to you.</p>\r\n" * 28
_ENVELOPE = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<r%d@readers.example>\r\nDATA\r\n"
_EMAIL = (
    b"From: shop@example.com\r\nTo: r%d@readers.example\r\nSubject: Your receipt\r\nMessage-ID: <%d@shop>\r\n"
    b"Date: Mon, 16 Nov 2026 10:00:00 +0000\r\n"
    b"\r\n%b.\r\n"
)


@contextmanager
def listening(stage: Stage, database_url: str) -> Iterator[tuple[Child, int, str]]:
    """Run `mailwright smtp` in one process; return it with its port and a key."""
    port = free_port()
    env = {**mailwright.environment(database_url), "MAILWRIGHT_SMTP_LISTEN": f"127.0.0.1:{port}"}
    call([PROGRAM, "db", "upgrade"], env=env, cwd=stage.scratch)
    key = call([PROGRAM, "key", "create"], env=env, cwd=stage.scratch).strip()
    with Child([PROGRAM, "smtp"], stage.log("mailwright-smtp"), env, stage.scratch) as child:
        wait_for_port(port, child)
        yield child, port, key


def submitted_per_second(port: int, numbers: range, key: str | None) -> float:
    """Send numbered emails over connections of 50 emails each, pipelined; return how many were accepted in a second."""
    return asyncio.run(_submit(port, numbers, key))


async def _submit(port: int, numbers: range, key: str | None) -> float:
    batches = iter(range(0, len(numbers), EMAILS_PER_CONNECTION))

    async def client() -> None:
        for first in batches:
            await _connection(port, numbers[first : first + EMAILS_PER_CONNECTION], key)

    began = time.perf_counter()
    await asyncio.gather(*[client() for _ in range(CONNECTIONS)])
    return len(numbers) / (time.perf_counter() - began)


async def _connection(port: int, numbers: range, key: str | None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await _expect(reader, b"220")
        writer.write(b"EHLO bench.example.com\r\n")
        await _expect(reader, b"250")
        if key is not None:
            writer.write(b"AUTH PLAIN " + base64.b64encode(f"\0apikey\0{key}".encode()) + b"\r\n")
            await _expect(reader, b"235")
        writer.write(_ENVELOPE % numbers[0])
        for number in numbers:
            for code in (b"250", b"250", b"354"):
                await _expect(reader, code)
            following = _ENVELOPE % (number + 1) if number != numbers[-1] else b"QUIT\r\n"
            writer.write(_EMAIL % (number, number, _BODY) + following)
            await _expect(reader, b"250")
    finally:
        writer.close()


async def _expect(reader: asyncio.StreamReader, code: bytes) -> None:
    while True:
        line = await reader.readline()
        if not line.startswith(code):
            raise NotMeasured(f"the server answered {line!r} instead of {code.decode()}")
        if line[3:4] != b"-":
            return
