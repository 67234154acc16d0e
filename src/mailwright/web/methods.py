"""Answer 405 for a method that a path does not declare, even if a path with a parameter would match it.

`GET /v1/email/send` would otherwise be read as the message with the ID `send`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from http import HTTPMethod, HTTPStatus

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match, Route

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
    declared: dict[str, set[str]] = {}
    for route in router.routes:
        if isinstance(route, Route):
            declared.setdefault(route.path, set()).update(route.methods or ())
    found: list[BaseRoute] = []
    for path, methods in sorted(declared.items(), key=lambda item: len(_PARAMETER.findall(item[0]))):
        undeclared = [method for method in METHODS if method not in methods]
        if any(_is_taken(path, method, routes) for method in undeclared):
            found.append(Route(path, _refusal(sorted(methods)), methods=undeclared))
    return found


def _is_taken(path: str, method: str, routes: Sequence[Route]) -> bool:
    scope = {"type": "http", "path": _PARAMETER.sub("1", path), "method": method, "root_path": ""}
    return any(route.matches(scope)[0] is Match.FULL for route in routes)


def _refusal(allowed: Sequence[str]) -> Callable[[Request], None]:
    def refuse(_request: Request) -> None:
        raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(allowed)})

    return refuse
