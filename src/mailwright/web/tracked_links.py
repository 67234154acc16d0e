"""Serve tracked links and open pixels before all other middleware, so that a redirect takes 0.1 milliseconds."""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from mailwright.domain.errors import NotDurable
from mailwright.domain.tracking_tokens import TrackingToken
from mailwright.domain.unsubscribe_tokens import InvalidToken
from mailwright.events.tracking.redirects import Redirects, is_invisible, is_open, location_of
from mailwright.ops.logs import logger
from mailwright.pipeline.tracking import PATH
from mailwright.web.languages import language_of
from mailwright.web.public.pages import page
from mailwright.web.public.subscribers import error_page

# A transparent GIF of one pixel.
PIXEL: Final = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")
# Caches must not store the response, and the target must not see the token in the Referer header.
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex, nofollow"),
    (b"x-content-type-options", b"nosniff"),
)
_METHODS: Final = ("GET", "HEAD")

log = logger(__name__)


class TrackedLinks:
    def __init__(self, app: ASGIApp, redirects: Redirects) -> None:
        self._app = app
        self._redirects = redirects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await self._app(scope, receive, send)
            return
        if scope["method"] not in _METHODS:
            await _respond(send, HTTPStatus.METHOD_NOT_ALLOWED, b"", (b"allow", b"GET, HEAD"))
            return
        try:
            token = await self._redirects.parse(scope["path"].removeprefix(PATH))
            await self._serve(scope, receive, send, token)
        except InvalidToken as error:
            response = error_page(Request(scope), "broken_link", HTTPStatus.NOT_FOUND, error.code, str(error))
            await response(scope, receive, send)
        except NotDurable as error:
            log.warning("not_durable", path=PATH, reason=str(error))
            status = HTTPStatus.SERVICE_UNAVAILABLE
            response = error_page(Request(scope), "link_unavailable", status, error.code, str(NotDurable()))
            await response(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, token: TrackingToken) -> None:
        """Record an open or a click, then respond. Nothing is recorded for HEAD, which only programs send."""
        has_no_target = is_open(token) or is_invisible(token)
        target = None if has_no_target else await self._redirects.target(token)
        if scope["method"] == "GET":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            client = scope.get("client")
            self._redirects.record(token, target, headers, client[0] if client else None)
        if is_invisible(token):
            response = page("invisible_link", language_of(Request(scope)), here=None)
            await response(scope, receive, send)
        elif target is None:
            content = PIXEL if scope["method"] == "GET" else b""
            await _respond(send, HTTPStatus.OK, content, (b"content-type", b"image/gif"))
        else:
            await _respond(send, HTTPStatus.FOUND, b"", (b"location", location_of(target).encode("ascii")))


async def _respond(send: Send, status: HTTPStatus, content: bytes, header: tuple[bytes, bytes]) -> None:
    headers = [header, (b"content-length", b"%d" % len(content)), *_HEADERS]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": content})
