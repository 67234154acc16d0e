"""Answer 405 for a method that a path does not declare, even if a path with a parameter would match it.

`GET /v1/email/send` would otherwise be read as the message with the ID `send`.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
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


def undeclared_methods(router: APIRouter, routers: Iterable[APIRouter]) -> list[BaseRoute]:
    """Return a 405 route for every path of a router if another path would match its undeclared methods."""
    routes = [route for each in routers for route in each.routes if isinstance(route, Route)]
    examples = [(route, _PARAMETER.sub("1", route.path)) for route in routes]
    own: dict[str, Route] = {route.path: route for route in router.routes if isinstance(route, Route)}
    found: list[BaseRoute] = []
    for path, route in sorted(own.items(), key=lambda item: len(_PARAMETER.findall(item[0]))):
        example = _PARAMETER.sub("1", path)
        # Keep the methods of fixed paths that this one also matches: `/imports/{importId}` matches `/imports/preview`.
        declared = _methods(each for each, other in examples if route.path_regex.match(other))
        taken = _methods(each for each in routes if each.path_regex.match(example))
        undeclared = [method for method in METHODS if method not in declared]
        if taken.intersection(undeclared):
            allowed = _methods(each for each in routes if each.path == path)
            found.append(Route(path, _refusal(sorted(allowed)), methods=undeclared))
    return found


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
