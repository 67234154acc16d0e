"""Limit the size of every request body while it is read, before a form parser stores it in memory or in a file."""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.content.attachments import MAX_ATTACHMENTS_BYTES
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES as MAX_DMARC_BYTES
from mailwright.ops.provider_kind import MAX_WEBHOOK_BYTES
from mailwright.ops.provider_kinds import KINDS
from mailwright.sources.articles.files import MAX_FILE_BYTES
from mailwright.web.bodies import MAX_BATCH_BYTES, too_large
from mailwright.web.errors import BodyTooLarge, respond_to_error

# Maximum size of forms that anyone can send: a name, a password, a token.
SIGN_IN_BYTES: Final = 16 * 1024
# Maximum size of forms of signed-in users, which can contain the source of an email.
FORM_BYTES: Final = 4 * 1024 * 1024
# Maximum number of bytes of a refused body that are read and discarded.
MAX_DISCARDED_BYTES: Final = 32 * 1024 * 1024
# Paths of the APIs of other email services; their routes apply the limits of each service.
DROP_IN_PREFIXES: Final = ("/v2/email/", "/v3/", "/email")
# Additional size for the form fields and boundaries around an uploaded file. The route checks the file's exact size.
FORM_OVERHEAD: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Limit:
    max_bytes: int
    file_bytes: int | None = None  # The limit of the file in an upload; the error names this limit.

    def refusal(self) -> BodyTooLarge:
        return too_large(self.max_bytes) if self.file_bytes is None else too_large(self.file_bytes, "upload")


class LimitBodies:
    """ASGI middleware. The longest matching path prefix decides the limit; a route can apply a smaller one."""

    def __init__(self, app: ASGIApp, *, import_bytes: int) -> None:
        self._app = app
        bodies = {
            "/": FORM_BYTES,
            "/sign-in": SIGN_IN_BYTES,
            "/set-up": SIGN_IN_BYTES,
            "/sns/": SIGN_IN_BYTES,
            "/v1/": MAX_BATCH_BYTES,
            **dict.fromkeys(DROP_IN_PREFIXES, MAX_BATCH_BYTES),
            "/provider-events/": MAX_WEBHOOK_BYTES,
            **{f"/{kind.name}-events": kind.webhook.max_bytes for kind in KINDS.values() if kind.webhook},
        }
        uploads = {
            "/v1/contacts/imports": import_bytes,
            "/v1/contacts/moves": import_bytes,
            "/images": MAX_UPLOAD_BYTES,
            "/v1/images": MAX_UPLOAD_BYTES,
            "/settings/brand": MAX_UPLOAD_BYTES,
            "/settings/domains/": MAX_DMARC_BYTES,
            "/imports/file": import_bytes,
            "/imports/~move": import_bytes,
            "/campaigns/~attachments/": MAX_ATTACHMENTS_BYTES,
            "/articles/~import": MAX_FILE_BYTES,
        }
        self._limits: Mapping[str, _Limit] = {
            **{prefix: _Limit(max_bytes) for prefix, max_bytes in bodies.items()},
            **{prefix: _Limit(file_bytes + FORM_OVERHEAD, file_bytes) for prefix, file_bytes in uploads.items()},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        body = _CountedBody(receive, limit)
        responding = _closing_when_refused(send, body)
        if _announced(scope) > limit.max_bytes:
            if not (_is_form_of_a_page(scope) or scope["path"].startswith(DROP_IN_PREFIXES)):
                await respond_to_error(limit.refusal(), scope, receive, responding)
                return
            body.refuse()  # The route then reads the body and shows the error as a page or in another API's format.
        await self._app(scope, body.receive, responding)

    def _limit(self, path: str) -> _Limit:
        known = (prefix for prefix in self._limits if path.startswith(prefix))
        return self._limits[max(known, key=len, default="/")]


def _announced(scope: Scope) -> int:
    """Return the Content-Length, or 0. The server has already rejected requests with an invalid number."""
    values = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(value) for value in values if value.isdigit()), default=0)


def _is_form_of_a_page(scope: Scope) -> bool:
    """Return whether a browser sent the body, so that the error must be a page instead of a problem document."""
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
    return b"text/html" in accepted.lower() and not scope["path"].startswith("/v1/")


class _CountedBody:
    """A request body that raises when it is too large."""

    def __init__(self, receive: Receive, limit: _Limit) -> None:
        self._receive = receive
        self._limit = limit
        self._size = 0
        self._is_complete = False

    def refuse(self) -> None:
        """Raise at the next read."""
        self._size = self._limit.max_bytes + 1

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        if self._size > self._limit.max_bytes:
            raise self._limit.refusal()
        return message

    async def discard(self) -> None:
        """Read the rest of the request, because a client whose connection is closed early never sees the response."""
        discarded = 0
        while not self._is_complete and discarded < MAX_DISCARDED_BYTES:
            message = await self._receive()
            discarded += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)


def _closing_when_refused(send: Send, body: _CountedBody) -> Send:
    """Close the connection after a 413, but let the client read the response first."""
    is_refused = False

    async def responding(message: Message) -> None:
        nonlocal is_refused
        if message["type"] == "http.response.start" and message["status"] == 413:
            is_refused = True
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        if is_refused and message["type"] == "http.response.body" and not message.get("more_body", False):
            await send({**message, "more_body": True})
            await body.discard()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return responding
