"""Fast routes for requests that come with every message or event. Their functions take only the request."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class PlainRoute(APIRoute):
    """Calls a function that takes only the request directly, because resolving dependencies would take longer.

    Functions with further parameters are called as usual.
    """

    @property
    def is_direct(self) -> bool:
        parameters = [*inspect.signature(self.endpoint).parameters]
        return parameters == ["request"] and inspect.iscoroutinefunction(self.endpoint)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint if self.is_direct else super().get_route_handler()

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call a direct function without the contexts that FastAPI opens for dependencies."""
        scope.update(route=self, endpoint=self.endpoint, path_params={})
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
