"""Every route of the API states its permission, and refuses callers who lack it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import APIRouter
from starlette.routing import Route

from mailwright.access.roles import Role, Scope
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.web import app
from mailwright.web.api.caller import Credential, Permission, permission_of
from mailwright.web.api.routes import Routes, require_permissions
from tests.api import Api, an_api, client_of
from tests.contract.dashboard.test_entry import PASSWORD, Site

# Each permission was once decided by a pattern of the path. A line here changes only on purpose.
TABLE = Path(__file__).parent / "permissions.txt"


def _permission(method: str, path: str) -> Permission:
    found = permission_of(method, path)
    assert found is not None
    return found


ROUTES = [
    (method, route.path, _permission(method, route.path))
    for router in app.ROUTERS
    for route in router.routes
    if isinstance(route, Route) and route.path.startswith("/v1/")
    for method in sorted(route.methods or ())
]


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


def url_of(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", path)


def test_each_route_has_the_permission_of_the_table() -> None:
    stated = sorted(f"{path} {method} {needed.value} {role.value}" for method, path, (needed, role, _) in ROUTES)
    assert stated == TABLE.read_text(encoding="utf-8").splitlines()


def test_route_without_permission_stops_the_start() -> None:
    forgotten = APIRouter()
    forgotten.get("/v1/forgotten")(_do_nothing)
    with pytest.raises(TypeError, match="GET /v1/forgotten"):
        require_permissions(forgotten.routes)
    with pytest.raises(TypeError, match="scope"):
        Routes().get("/v1/forgotten")(_do_nothing)  # type: ignore[call-arg]


@pytest.mark.promise("api-key-scopes")
async def test_each_route_refuses_keys_without_its_scope(api: Api) -> None:
    for scope in Scope:
        key = await api.engine.keys.create(None if scope.is_platform else 1, str(scope), frozenset({scope}))
        async with client_of(api.app, key) as client:
            for method, path, (needed, *_) in ROUTES:
                if needed is Credential.SIGNATURE or (isinstance(needed, Scope) and scope.allows(needed)):
                    continue
                answer = await client.request(method, url_of(path))
                expected = 401 if needed is Credential.ADMINISTRATOR else 403
                assert (method, path, scope, answer.status_code) == (method, path, scope, expected)


async def test_each_route_refuses_callers_without_a_credential(api: Api) -> None:
    for method, path, (needed, *_) in ROUTES:
        answer = await api.anonymous.request(method, url_of(path))
        assert (method, path, answer.status_code) == (method, path, 403 if needed is Credential.SIGNATURE else 401)


async def test_each_route_refuses_users_without_its_role(api: Api) -> None:
    site = Site(api.app, api.engine)
    for user in Role:
        await api.engine.users.create(user, PASSWORD, user, actor="test")
        async with site.client() as client:
            client.headers["X-Form-Token"] = await site.sign_in(client, user)
            for method, path, (needed, role, _) in ROUTES:
                may_change = needed is Scope.READ or user is not Role.VIEWER
                least = Role.ADMIN if needed is Credential.ADMINISTRATOR else role
                if needed is Credential.SIGNATURE or path in SEGMENT or (user.allows(least) and may_change):
                    continue
                answer = await client.request(method, url_of(path))
                assert (method, path, user, answer.status_code) == (method, path, user, 403)


# Segment's API takes write keys only, no session.
SEGMENT = ("/v1/track", "/v1/identify", "/v1/batch")


async def _do_nothing() -> None:
    """Do nothing."""
