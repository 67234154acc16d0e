"""Call a route of the application within the process, as an authenticated caller."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from starlette.types import ASGIApp, Message, Scope

from mailwright.access.api_keys import Caller
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web.api.caller import INTERNAL_CALLER


@dataclass(frozen=True, slots=True)
class InternalResponse:
    status: int
    content: bytes


async def call_route(
    app: ASGIApp,
    caller: Caller,
    method: str,
    path: str,
    *,
    query: Mapping[str, Any],
    headers: Mapping[str, str],
    body: Any | None,
) -> InternalResponse:
    """Send a request to the application. It passes the same checks as one from outside, except for the API key."""
    content = b"" if body is None else orjson.dumps(body)
    waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, bytearray()

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.extend(message.get("body", b""))

    scope = _scope(caller, method, path, query, content)
    scope["headers"] += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await app(scope, receive, send)
    return InternalResponse(status, bytes(parts))


def _scope(caller: Caller, method: str, path: str, query: Mapping[str, Any], content: bytes) -> Scope:
    headers = [(b"host", b"localhost"), (b"content-length", str(len(content)).encode())]
    if content:
        headers.append((b"content-type", b"application/json"))
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": urlencode(query, doseq=True).encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": ("localhost", 80),
        "state": {},
        INTERNAL_CALLER: caller,
    }
