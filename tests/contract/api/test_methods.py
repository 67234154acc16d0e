"""Every path answers 405 to every method that it does not declare."""

import re
from collections.abc import AsyncIterator, Iterator

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.web.app import ROUTERS
from mailwright.web.methods import METHODS, undeclared_methods
from tests.api import Api, an_api
from tests.engines import on_sqlite


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


def declared_methods() -> dict[str, set[str]]:
    declared: dict[str, set[str]] = {}
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            declared.setdefault(re.sub(r"\{[^}]+\}", "1", route.path), set()).update(route.methods)
    return declared


def undeclared() -> Iterator[tuple[str, str]]:
    for path, methods in declared_methods().items():
        yield from ((path, method) for method in METHODS if method not in methods)


def test_declared_method_is_never_refused() -> None:
    refusals = [route for routes in undeclared_methods(ROUTERS) for route in routes]
    assert refusals
    for path, methods in declared_methods().items():
        for method in methods:
            scope = {"type": "http", "path": path, "method": method, "root_path": ""}
            assert all(route.matches(scope)[0] is not Match.FULL for route in refusals), (method, path)


@on_sqlite
async def test_undeclared_method_is_405_on_every_path(api: Api) -> None:
    for path, method in undeclared():
        answer = await api.client.request(method, path)
        assert answer.status_code == 405, (method, path, answer.status_code)
        assert method not in answer.headers["allow"].split(", "), (method, path)
    described = (await api.client.get("/openapi.json")).json()["paths"]
    assert len(declared_methods()) > len(described) > 50
    assert {("/v1/email/send", "GET"), ("/v1/contacts/imports", "PUT")} <= set(undeclared())
