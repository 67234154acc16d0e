"""Routes that are called for every message or event: their functions take the request and nothing else."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response


class PlainRoute(APIRoute):
    """Calls a function of the request alone directly: resolving its dependencies would take longer than the function.

    Functions with further parameters are called as usual.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        if [*inspect.signature(self.endpoint).parameters] == ["request"] and inspect.iscoroutinefunction(self.endpoint):
            return self.endpoint
        return super().get_route_handler()
