"""Addresses with a NUL in them: nothing has one in its name, and PostgreSQL cannot even be asked for it."""

from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from mailwright.web.errors import problem

_NUL = b"%00"
_NO_CHARACTER = b"%EF%BF%BD"  # U+FFFD, which stands for what cannot be shown


class RejectNul:
    """Around the whole application, so that no route has to think of it: such a path leads nowhere, and in a query the
    NUL is read as a character that is in no name either."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "\x00" in scope["path"]:
            await problem(HTTPStatus.NOT_FOUND, "NOT_FOUND", "There is nothing here.")(scope, receive, send)
            return
        if scope["type"] == "http" and _NUL in scope["query_string"]:
            scope = {**scope, "query_string": scope["query_string"].replace(_NUL, _NO_CHARACTER)}
        await self._app(scope, receive, send)
