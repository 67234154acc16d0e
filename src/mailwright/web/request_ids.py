"""Give every request an id, either the caller's or a generated one, and return it in the response."""

import re
from collections.abc import Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.domain.clock import Clock
from mailwright.domain.ids import uuid7
from mailwright.sources.api.validation import FieldError, RequestInvalid

NAME = "X-Request-Id"
PATTERN = r"^[ -~]{1,128}$"

_HEADER = NAME.lower().encode()
_ALLOWED = re.compile(rb"[ -~]{1,128}")


class RequestIds:
    """ASGI middleware that reads the request id and adds it to the response."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _given_id(scope["headers"])
        is_allowed = given is not None and _ALLOWED.fullmatch(given) is not None
        request_id = given if given is not None and is_allowed else uuid7(self._clock.now()).encode()
        # Authenticated routes reject an invalid id; the response then has a generated one.
        scope.setdefault("state", {}).update(
            request_id=request_id.decode(), has_bad_request_id=given is not None and not is_allowed
        )

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, request_id)]
            await send(message)

        await self._app(scope, receive, send_with_id)


def request_id_of(request: Request) -> str:
    if request.state.has_bad_request_id:
        message = "must have 1 to 128 printable ASCII characters"
        raise RequestInvalid([FieldError(NAME, "INVALID", message)])
    found: str = request.state.request_id
    return found


def _given_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    return next((value for name, value in headers if name == _HEADER), None)
