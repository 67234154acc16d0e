"""Fast routes for requests that come with every message or event. Their functions take only the request."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response


class PlainRoute(APIRoute):
    """Calls a function that takes only the request directly, because resolving dependencies would take longer.

    Functions with further parameters are called as usual.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        if [*inspect.signature(self.endpoint).parameters] == ["request"] and inspect.iscoroutinefunction(self.endpoint):
            return self.endpoint
        return super().get_route_handler()
