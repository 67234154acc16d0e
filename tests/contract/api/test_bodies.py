"""Every route, including future ones, distinguishes invalid JSON from invalid fields."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import Response

from mailwright.access.roles import PLATFORM_SCOPES
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.contract.api.test_isolation import body_of, is_open_to_all, is_platform, operations

PASSWORD = "a password of the administrator"
JSON = {"Content-Type": "application/json"}
DEEP = b'{"attributes": {"a": ' + b'{"a": ' * 1_000 + b"1" + b"}" * 1_002


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock, admin_password=PASSWORD) as api:
        yield api


async def refusal(api: Api, method: str, path: str, operation: dict[str, Any], **sent: Any) -> tuple[int, str]:
    """Return the status for a body, whether or not the resource exists."""
    answer = await answered(api, method, path, operation, **sent)
    return answer.status_code, answer.json()["code"]


async def answered(api: Api, method: str, path: str, operation: dict[str, Any], **sent: Any) -> Response:
    if is_platform(operation):
        key = await api.engine.keys.create(None, scopes=PLATFORM_SCOPES)
    else:
        key = PASSWORD if operation["security"] != [{"apiKey": []}] else api.key
    sent["headers"] = {**sent.get("headers", {}), "Authorization": f"Bearer {key}"}
    return await api.anonymous.request(method, re.sub(r"{\w+}", "nothing", path), **sent)


async def test_every_route_distinguishes_invalid_json_from_invalid_fields(api: Api) -> None:
    before, asked = await api.stored(), 0
    for method, path, operation in operations(api):
        body = body_of(operation)
        if body is None or is_open_to_all(path):  # A signature is verified before the body is read.
            continue
        asked += 1
        where = (api, method, path, operation)
        for content in (b"", b"{", b"{'to': 1}", b'{"a": NaN}', b"\xff", DEEP):
            assert await refusal(*where, content=content, headers=JSON) == (400, "INVALID_JSON"), (
                method,
                path,
                content,
            )
        assert await refusal(*where) == (400, "INVALID_JSON"), (method, path)
        for content in (b"[]", b"null", b'"text"'):
            assert await refusal(*where, content=content, headers=JSON) == (422, "INVALID_REQUEST"), (method, path)
        unknown = {**body, "noSuchField": 1}
        answer = await answered(*where, json=unknown)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST"), (method, path)
        found = {each["code"]: (each["field"], each["message"]) for each in answer.json()["errors"]}
        assert found["UNKNOWN_FIELD"] == ("noSuchField", "is not a known field"), (method, path, found)
    assert asked >= 30
    assert await api.stored() == before
