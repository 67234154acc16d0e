"""Request ids: every answer says under which id it is logged, the caller's own or one that we made."""

import re
from typing import Annotated

from fastapi import Header, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.domain.clock import Clock
from mailwright.domain.ids import uuid7

NAME = "X-Request-Id"
PATTERN = r"^[ -~]{1,128}$"

_ALLOWED = re.compile(PATTERN)


class RequestIds:
    """Plain ASGI: one dictionary lookup on the way in, one header on the way out."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(NAME)
        # An id that is not allowed is refused by the route; its answer gets an id of ours.
        request_id = given if given is not None and _ALLOWED.fullmatch(given) else uuid7(self._clock.now())
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[NAME] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


async def request_id(
    request: Request,
    _given: Annotated[
        str | None,
        Header(alias=NAME, pattern=PATTERN, description="Your own id of this request; one is made if you give none."),
    ] = None,
) -> str:
    found: str = request.state.request_id
    return found
