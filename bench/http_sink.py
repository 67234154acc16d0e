"""The HTTP sink on loopback: accepts messages like SES and SendGrid, counts them and stores the first few.

`python -m bench.http_sink FOLDER PORT` runs the sink in its own process.
"""

import asyncio
import base64
import contextlib
import json
import mmap
import re
import struct
import sys
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import uvloop

from bench import job
from bench.children import Child, NotMeasured
from bench.sink import free_port, wait_for_port

REGION, ACCESS_KEY, SECRET_KEY = "eu-west-1", "AKIABENCH00000000000", "bench/not+a/secret"
SENDGRID_KEY = "SG.bench.not-a-secret"
KEPT = 20
COUNTER = struct.Struct("=Q")
# Python encodes an address that does not fit into a line, which makes it invalid.
UNFOLDED = policy.default.clone(max_line_length=998)
CHECKOUT = Path(__file__).parent.parent

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_READER = re.compile(r"reader(\d+)@")
_SES_BODY = b'{"MessageId":"0102018f00000000-00000000-0000-0000-0000-000000000000-000000"}'
# The smallest response that each client accepts as a success.
ANSWERS = {
    b"POST /v2/email/outbound-emails ": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(_SES_BODY), _SES_BODY)
    ),
    b"POST /webhook ": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"POST /v3/mail/send ": b"HTTP/1.1 202 Accepted\r\nX-Message-Id: bench\r\nContent-Length: 0\r\n\r\n",
}
UNKNOWN = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class HttpSink:
    """A running HTTP sink."""

    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._folder = folder
        with (folder / "count").open("rb") as file:
            self._count = mmap.mmap(file.fileno(), COUNTER.size, access=mmap.ACCESS_READ)

    def count(self) -> int:
        return int(COUNTER.unpack_from(self._count)[0])

    def look_at_the_first(self) -> None:
        """Verify that the received messages are those of the job."""
        for file in sorted(self._folder.glob("*.json")):
            recipient, message = _mail(json.loads(file.read_bytes()))
            number = _READER.match(recipient)
            objections = job.objections(message, int(number[1])) if number else ["it is not the job's reader"]
            if objections:
                raise NotMeasured(f"its message to {recipient} differs from the job: {'; '.join(objections)}")

    def close(self) -> None:
        self._count.close()


@contextlib.contextmanager
def started_http_sink(folder: Path) -> Iterator[HttpSink]:
    port = free_port()
    kept = folder / f"http-sink-{port}"
    kept.mkdir()
    (kept / "count").write_bytes(bytes(COUNTER.size))
    command: list[str | Path] = [sys.executable, "-m", "bench.http_sink", kept, str(port)]
    with Child(command, folder / f"http-sink-{port}.log", cwd=CHECKOUT) as child:
        wait_for_port(port, child)
        sink = HttpSink(port, kept)
        try:
            yield sink
        finally:
            sink.close()


def _mail(document: dict[str, Any]) -> tuple[str, bytes]:
    """Return the recipient and the message with LF line ends, from a request of either kind."""
    if "Content" in document:
        email = base64.b64decode(document["Content"]["Raw"]["Data"])
        return document["Destination"]["ToAddresses"][0], email.replace(b"\r\n", b"\n")
    message = EmailMessage(policy=UNFOLDED)
    message["Subject"] = document["subject"]
    for name, value in document["headers"].items():
        message[name] = value
    text, html = (part["value"] for part in document["content"])
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    return document["personalizations"][0]["to"][0]["email"], message.as_bytes()


class Taking(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, counter: mmap.mmap, folder: Path) -> None:
        self._counter = counter
        self._folder = folder
        self._received = bytearray()
        self._body_at = self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._end:
            head = self._received.find(b"\r\n\r\n")
            if head < 0:
                return
            length = _LENGTH.search(self._received, 0, head)
            self._body_at = head + 4
            self._end = self._body_at + (int(length[1]) if length else 0)
        if len(self._received) >= self._end:
            self._take()

    def _take(self) -> None:
        answer = next((each for start, each in ANSWERS.items() if self._received.startswith(start)), UNKNOWN)
        if answer is not UNKNOWN:
            (number,) = COUNTER.unpack_from(self._counter)
            COUNTER.pack_into(self._counter, 0, number + 1)
            if number < KEPT:
                (self._folder / f"{number:02d}.json").write_bytes(self._received[self._body_at : self._end])
        self._transport.write(answer)
        del self._received[: self._end]
        self._end = 0


async def serve(folder: Path, port: int) -> None:
    with (folder / "count").open("r+b") as file:
        counter = mmap.mmap(file.fileno(), COUNTER.size)
    server = await asyncio.get_running_loop().create_server(lambda: Taking(counter, folder), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
