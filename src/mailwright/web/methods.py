"""Answer 405 for a method that a path does not declare, even if a path with a parameter would match it.

`GET /v1/email/send` would otherwise be read as the message with the ID `send`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from http import HTTPMethod, HTTPStatus

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

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
    """Return a route for every path of a router whose undeclared methods another path would answer."""
    routes = [route for each in routers for route in each.routes if isinstance(route, Route)]
    examples = [(route, _PARAMETER.sub("1", route.path)) for route in routes]
    own: dict[str, Route] = {route.path: route for route in router.routes if isinstance(route, Route)}
    found: list[BaseRoute] = []
    for path, route in sorted(own.items(), key=lambda item: len(_PARAMETER.findall(item[0]))):
        example = _PARAMETER.sub("1", path)
        # Paths that this one also matches keep their methods: `/imports/preview` is more than an `/imports/{importId}`.
        declared = _methods(each for each, other in examples if route.path_regex.match(other))
        taken = _methods(each for each in routes if each.path_regex.match(example))
        undeclared = [method for method in METHODS if method not in declared]
        if taken.intersection(undeclared):
            allowed = _methods(each for each in routes if each.path == path)
            found.append(Route(path, _refusal(sorted(allowed)), methods=undeclared))
    return found


def _methods(routes: Iterable[Route]) -> set[str]:
    return {method for route in routes for method in route.methods or ()}


def _refusal(allowed: Sequence[str]) -> Callable[[Request], None]:
    def refuse(_request: Request) -> None:
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(allowed)})

    return refuse
