"""Find the route of a request by the first two segments of its path, instead of trying hundreds of routes in order."""

from functools import cache, cached_property

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from mailwright.web.plain_route import PlainRoute

Segments = tuple[str, str]
ANY = "{}"  # A segment with a parameter.


class RouteIndex:
    """Dispatches requests to a router's routes, which are indexed at the first request.

    Routes that can match the same path keep their order.
    """

    def __init__(self, router: APIRouter) -> None:
        self._router = router
        self._groups: dict[Segments, APIRouter] = {}

    @cached_property
    def _routes(self) -> list[tuple[Segments, BaseRoute]]:
        return [(_pattern(route), route) for route in self._router.routes]

    @cached_property
    def _fixed(self) -> list[set[str]]:
        return [{pattern[place] for pattern, _ in self._routes} for place in (0, 1)]

    @cached_property
    def _direct(self) -> dict[tuple[str, str], PlainRoute]:
        """The routes that can be called without a search: no earlier route matches their paths."""
        found: dict[tuple[str, str], PlainRoute] = {}
        for _, route in self._routes:
            if isinstance(route, PlainRoute) and route.is_direct and not route.param_convertors:
                for method in route.methods or ():
                    if self._first_match(method, route.path) is route:
                        found[method, route.path] = route
        return found

    def _first_match(self, method: str, path: str) -> BaseRoute | None:
        scope = {"type": "http", "method": method, "path": path}
        matches = (each for each in self.candidates(path).routes if each.matches(scope)[0] is Match.FULL)
        return next(matches, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._router.app(scope, receive, send)
            return
        scope.setdefault("router", self._router)
        direct = self._direct.get((scope.get("method", ""), scope["path"]))
        if direct is not None and not scope.get("root_path"):
            await direct.respond(scope, receive, send)
            return
        await self.candidates(scope["path"]).app(scope, receive, send)

    def candidates(self, path: str) -> APIRouter:
        """Return a router with the routes that can match the path."""
        first, second = _segments(path)
        # All unknown segments share one entry, so that requests for arbitrary paths do not fill the memory.
        key = (first if first in self._fixed[0] else ANY, second if second in self._fixed[1] else ANY)
        group = self._groups.get(key)
        if group is None:
            routes = [route for pattern, route in self._routes if _can_match(pattern, key)]
            group = self._groups[key] = APIRouter(routes=routes, default=self._router.default)
        return group


def _pattern(route: BaseRoute) -> Segments:
    return _path_pattern(route.path) if isinstance(route, Route) else (ANY, ANY)


@cache
def _path_pattern(path: str) -> Segments:
    first, second = _segments(path)
    if ":path}" in first:
        return ANY, ANY
    return ANY if "{" in first else first, ANY if "{" in second else second


def _segments(path: str) -> Segments:
    first, _, rest = path.removeprefix("/").partition("/")
    return first, rest.partition("/")[0]


def _can_match(pattern: Segments, key: Segments) -> bool:
    return pattern[0] in (ANY, key[0]) and pattern[1] in (ANY, key[1])
