"""API keys belong to one tenant, are stored as digests, and stop working when revoked."""

import re
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from mailwright.access.api_keys import CACHE_TIME
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys
from mailwright.web.app import create_app
from tests.api import Api, an_api, an_engine, client_of


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


@pytest.mark.promise("api-key-scopes")
async def test_key_is_shown_once_and_stored_as_digest(api: Api) -> None:
    key = await api.engine.keys.create(1, "shop")
    assert re.fullmatch(r"mw_[A-Za-z0-9_-]{43}", key)
    async with api.engine.database.read() as tx:
        rows = await tx.execute(select(api_keys).where(api_keys.c.name == "shop"))
    assert key not in str(rows)
    listed = (await api.engine.keys.list_all(1))[-1]
    assert (listed.tenant, listed.name, listed.hint, listed.revoked_at) == ("default", "shop", key[-4:], None)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer mw_made-up",
        "Basic bXc6",
        "mw_made-up",
        "Bearer " + "m" * 10_000,
        "Bearer ä",
    ],
)
async def test_missing_or_wrong_key_is_401(api: Api, authorization: str | None) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode()}
    answer = await api.anonymous.get("/v1/email", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


async def test_authentication_precedes_all_other_checks(api: Api) -> None:
    answers = [
        await api.anonymous.post("/v1/email/send", content=b"{"),
        await api.anonymous.get("/v1/email?limit=0&cursor=x", headers={"X-Request-Id": ""}),
        await api.anonymous.get("/v1/email/nonsense"),
    ]
    assert {answer.status_code for answer in answers} == {401}


async def test_revoked_key_stops_working_in_every_process(api: Api, clock: ManualClock) -> None:
    elsewhere = create_app(an_engine(api.engine.database, clock))
    async with client_of(elsewhere, api.key) as other_process:
        assert (await api.client.get("/v1/email")).status_code == 200
        assert (await other_process.get("/v1/email")).status_code == 200
        [key] = [key for key in await api.engine.keys.list_all(1) if key.hint == api.key[-4:]]
        await api.engine.keys.revoke(1, key.id)
        assert (await api.client.get("/v1/email")).status_code == 401
        clock.advance(CACHE_TIME)
        assert (await other_process.get("/v1/email")).status_code == 401
    assert CACHE_TIME <= 1_000


@pytest.mark.promise("tenant-isolation")
async def test_tenant_cannot_access_keys_of_another(api: Api) -> None:
    [theirs] = await api.engine.keys.list_all(2)
    with pytest.raises(NotFound):
        await api.engine.keys.revoke(1, theirs.id)
    assert theirs not in await api.engine.keys.list_all(1)
    assert (await api.stranger.get("/v1/email")).status_code == 200


async def test_revoking_twice_keeps_the_first_time(api: Api, clock: ManualClock) -> None:
    [key] = await api.engine.keys.list_all(2)
    await api.engine.keys.revoke(2, key.id)
    revoked_at = clock.now()
    clock.advance(1_000)
    await api.engine.keys.revoke(2, key.id)
    assert [key.revoked_at for key in await api.engine.keys.list_all(2)] == [revoked_at]


async def test_key_name_is_short_and_printable(api: Api) -> None:
    for name in ("x" * 101, "a\nb", "a\0"):
        with pytest.raises(InvalidInput):
            await api.engine.keys.create(1, name)
