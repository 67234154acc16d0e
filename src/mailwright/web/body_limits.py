"""Limit the size of every request body while it is read, before a form parser stores it in memory or in a file."""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.sources.articles.files import MAX_FILE_BYTES
from mailwright.web.bodies import MAX_BATCH_BYTES, too_large
from mailwright.web.errors import respond_to_error

# Forms that anyone can send: a name, a password, a token.
SIGN_IN_BYTES: Final = 16 * 1024
# Forms of signed-in users, with the source of an email.
FORM_BYTES: Final = 4 * 1024 * 1024
# The fields and boundaries around an uploaded file. The route itself reports a file that is a little too large.
FORM_OVERHEAD: Final = 1024 * 1024


class LimitBodies:
    """ASGI middleware. The longest matching path decides; routes may have smaller limits of their own."""

    def __init__(self, app: ASGIApp, *, import_bytes: int) -> None:
        self._app = app
        self._limits: Mapping[str, int] = {
            "/": FORM_BYTES,
            "/sign-in": SIGN_IN_BYTES,
            "/set-up": SIGN_IN_BYTES,
            "/v1/": MAX_BATCH_BYTES,
            "/v1/contacts/imports": import_bytes + FORM_OVERHEAD,
            "/imports/file": import_bytes + FORM_OVERHEAD,
            "/articles/~import": MAX_FILE_BYTES + FORM_OVERHEAD,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        max_bytes = self._limit(scope["path"])
        closing = _closing_when_refused(send)
        if _announced(scope) > max_bytes:
            await respond_to_error(too_large(max_bytes), scope, receive, closing)
            return
        await self._app(scope, _counted(receive, max_bytes), closing)

    def _limit(self, path: str) -> int:
        return self._limits[max((prefix for prefix in self._limits if path.startswith(prefix)), key=len, default="/")]


def _announced(scope: Scope) -> int:
    """Return the Content-Length. The server has rejected a value that is not a number."""
    values = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(value) for value in values if value.isdigit()), default=0)


def _counted(receive: Receive, max_bytes: int) -> Receive:
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > max_bytes:
                raise too_large(max_bytes)
        return message

    return counted


def _closing_when_refused(send: Send) -> Send:
    """Close the connection after a 413, so that the client does not send the rest of its body."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 413:
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return closing
