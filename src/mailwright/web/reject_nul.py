"""Reject NUL characters in URLs. No name contains one, and PostgreSQL cannot store or compare them."""

from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from mailwright.web.errors import DETAILS, problem

_NUL = b"%00"
_REPLACEMENT = b"%EF%BF%BD"  # U+FFFD


class RejectNul:
    """ASGI middleware around all routes. A path with NUL gets 404, and NUL in a query string becomes U+FFFD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "\x00" in scope["path"]:
            await problem(HTTPStatus.NOT_FOUND, "NOT_FOUND", DETAILS[HTTPStatus.NOT_FOUND])(scope, receive, send)
            return
        if scope["type"] == "http" and _NUL in scope["query_string"]:
            scope = {**scope, "query_string": scope["query_string"].replace(_NUL, _REPLACEMENT)}
        await self._app(scope, receive, send)
