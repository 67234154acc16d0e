"""A small HTTP client with a kept connection, faster than the API."""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import orjson


@dataclass(frozen=True, slots=True)
class ApiResponse:
    status: int
    headers: dict[str, str]
    body: dict[str, Any]


class Client:
    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hang_up()

    async def send(
        self, body: dict[str, Any], idempotency_key: str | None = None, seconds: float = 60.0
    ) -> ApiResponse:
        """Post one message. Raise if the connection fails, as the result is unknown then."""
        content = orjson.dumps(body)
        head = [
            "POST /v1/email/send HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self._key}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        if idempotency_key is not None:
            head.append(f"Idempotency-Key: {idempotency_key}")
        try:
            async with asyncio.timeout(seconds):
                reader, writer = self._streams or await self._connect()
                writer.write("\r\n".join([*head, "", ""]).encode() + content)
                return await _answer(reader)
        except BaseException:
            self._hang_up()
            raise

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return self._streams

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(reader: asyncio.StreamReader) -> ApiResponse:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    content = await reader.readexactly(int(headers["content-length"]))
    return ApiResponse(int(head[0].split(" ")[1]), headers, orjson.loads(content))


def a_mail(number: int | str) -> dict[str, Any]:
    return {"to": f"reader{number}@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
