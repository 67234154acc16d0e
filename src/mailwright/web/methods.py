"""Answer 405 for a method that a path does not declare, even if a path with a parameter would match it.

`GET /v1/email/send` would otherwise be read as the message with the ID `send`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from http import HTTPMethod, HTTPStatus
from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from mailwright.web.errors import http_problem

METHODS = (
    HTTPMethod.GET,
    HTTPMethod.HEAD,
    HTTPMethod.POST,
    HTTPMethod.PUT,
    HTTPMethod.PATCH,
    HTTPMethod.DELETE,
    HTTPMethod.OPTIONS,
)

_PARAMETER = re.compile(r"\{[^}]+\}")


def undeclared_methods(routers: Sequence[APIRouter]) -> list[list[BaseRoute]]:
    """Return for each router a 405 route for every path whose undeclared methods another path would match."""
    paths = _Paths(routers)
    return [_refusals(router, paths) for router in routers]


def _refusals(router: APIRouter, paths: "_Paths") -> list[BaseRoute]:
    own: dict[str, Route] = {route.path: route for route in router.routes if isinstance(route, Route)}
    found: list[BaseRoute] = []
    for path, route in sorted(own.items(), key=lambda item: len(_PARAMETER.findall(item[0]))):
        # Keep the methods of fixed paths that this one also matches: `/imports/{importId}` matches `/imports/preview`.
        declared = _methods(paths.matched_by(route))
        undeclared = [method for method in METHODS if method not in declared]
        if _methods(paths.that_match(path)).intersection(undeclared):
            allowed = _methods(paths.routes_of(path))
            found.append(Route(path, _refusal(sorted(allowed)), methods=undeclared))
    return found


class _Paths:
    """All routes, by the fixed beginning of their path: comparing each with each would take a fifth of the start."""

    def __init__(self, routers: Iterable[APIRouter]) -> None:
        self._by_beginning: dict[str, list[Route]] = {}
        self._by_path: dict[str, list[Route]] = {}
        for route in (route for router in routers for route in router.routes if isinstance(route, Route)):
            self._by_beginning.setdefault(_beginning(route.path), []).append(route)
            self._by_path.setdefault(route.path, []).append(route)
        self._examples = sorted((_example(path), path) for path in self._by_path)

    def routes_of(self, path: str) -> list[Route]:
        return self._by_path[path]

    def that_match(self, path: str) -> Iterator[Route]:
        """Yield the routes that match an example of the path."""
        example = _example(path)
        for length in range(len(example) + 1):
            for route in self._by_beginning.get(example[:length], ()):
                if route.path_regex.match(example):
                    yield route

    def matched_by(self, route: Route) -> Iterator[Route]:
        """Yield the routes whose path has an example that the given route matches."""
        beginning = _beginning(route.path)
        for example, path in self._examples[bisect_left(self._examples, (beginning, "")) :]:
            if not example.startswith(beginning):
                return
            if route.path_regex.match(example):
                yield from self._by_path[path]


def _example(path: str) -> str:
    return _PARAMETER.sub("1", path)


def _beginning(path: str) -> str:
    return path.partition("{")[0]


def nearest_page_handler(
    routers: Iterable[APIRouter],
) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    """Return the handler of 405, which redirects a browser that opens the URL of a form to the nearest page above it.

    Users open such a URL with the back button, or by signing in again after a form was refused. Other clients get a
    problem document.
    """
    routes = [route for router in routers for route in router.routes if isinstance(route, Route)]

    async def open_nearest_page(request: Request, error: Exception) -> Response:
        path, accepted = request.url.path, request.headers.get("accept", "").lower()
        if request.method == HTTPMethod.GET and "text/html" in accepted and not path.startswith("/v1/"):
            while path not in ("", "/"):
                path = path.rpartition("/")[0] or "/"
                if HTTPMethod.GET in _methods(route for route in routes if route.path_regex.match(path)):
                    return RedirectResponse(path, HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})
        return await http_problem(request, error)

    return open_nearest_page


def _methods(routes: Iterable[Route]) -> set[str]:
    return {method for route in routes for method in route.methods or ()}


def _refusal(allowed: Sequence[str]) -> Callable[[Request], None]:
    def refuse(_request: Request) -> None:
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(allowed)})

    return refuse
