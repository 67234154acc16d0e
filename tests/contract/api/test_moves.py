"""Contacts are moved from another product over HTTP, and every row of the files is counted."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mailwright.audience import lists
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT

MOVES = "/v1/contacts/moves"
LISTMONK = {"vendor": "listmonk", "listKey": "news", "fileName": "subscribers.csv", "confirmed": "true"}
SUBSCRIBERS = (
    b"uuid,email,name,attributes,status\n1,ada@example.com,Ada,{},enabled\n2,bob@example.com,Bob,{},blocklisted\n"
)
LEFT = b"email,status\ncleo@example.com,enabled\n"

pytestmark = pytest.mark.promise("import-never-revives")


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, imports=tmp_path / "imports") as api:
        yield api


async def upload(api: Api, content: bytes = SUBSCRIBERS, **changes: str) -> httpx.Response:
    return await api.client.post(MOVES, params={**LISTMONK, **changes}, content=content)


async def add(api: Api, move_id: str, **query: str) -> httpx.Response:
    return await api.client.post(f"{MOVES}/{move_id}/files", params=query, content=LEFT)


async def test_files_are_added_counted_and_moved_once(api: Api) -> None:
    created = await upload(api)
    move = created.json()
    assert (created.status_code, move["state"], move["counts"]) == (201, "staged", None)
    assert "Export them separately" in move["problem"]
    where = f"{MOVES}/{move['moveId']}"
    preview = (await add(api, move["moveId"], fileName="left.csv", status="unsubscribed")).json()
    numbers = {"rows": 3, "subscribed": 1, "unsubscribed": 2, "bounced": 0, "refused": 0, "repeated": 0}
    expected = {**numbers, "complained": 0, "alreadyUnsubscribed": 0}
    assert (preview["files"], preview["counts"]) == (["subscribers.csv", "left.csv"], expected)
    assert await lists.list_all(api.engine.database, DEFAULT_TENANT) == []
    started = await asyncio.gather(*[api.client.post(f"{where}/start") for _ in range(2)])
    assert [answer.status_code for answer in started] == [202, 202]
    await api.engine.switch_uploads.finish()
    moved = (await api.client.get(where)).json()
    assert (moved["state"], moved["counts"], moved["problem"]) == ("finished", expected, None)
    assert "left.csv,2,cleo@example.com,unsubscribed" in (await api.client.get(f"{where}/report")).text
    imports = (await api.client.get("/v1/contacts/imports")).json()["imports"]
    # Subscribers, blocklisted contacts and those who left; nothing twice.
    assert sorted((each["listKey"] or "", each["rows"]) for each in imports) == [("", 1), ("", 1), ("news", 1)]
    assert (await add(api, move["moveId"], fileName="late.csv")).status_code == 409


async def test_move_of_another_tenant_is_not_found(api: Api) -> None:
    move_id = (await upload(api)).json()["moveId"]
    for method, path in (("GET", ""), ("POST", "/start"), ("GET", "/report")):
        assert (await api.stranger.request(method, f"{MOVES}/{move_id}{path}")).status_code == 404
    added = await api.stranger.post(f"{MOVES}/{move_id}/files?fileName=a.csv", content=LEFT)
    assert (added.status_code, (await api.client.get(f"{MOVES}/{move_id}")).json()["files"]) == (
        404,
        ["subscribers.csv"],
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [({"vendor": "hubspot"}, "vendor"), ({"listKey": "No Key"}, "listKey"), ({"status": "left"}, "status")],
)
async def test_bad_options_are_named_and_nothing_is_kept(
    api: Api, tmp_path: Path, change: dict[str, str], field: str
) -> None:
    answer = await upload(api, **change)
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["errors"][0]["field"]) == (422, field)
    assert not list(tmp_path.glob("imports/*"))
