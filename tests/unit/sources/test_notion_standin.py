"""The Notion stand-in behaves like Notion towards the official client, as far as we use it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from notion_client import APIErrorCode, APIResponseError, AsyncClient
from notion_client.helpers import async_collect_paginated_api

from mailwright.domain.clock import ManualClock
from tests.notion_pages import MAILOUT_COLUMNS, PIXEL, a_newsletter, said
from tests.standins.notion import MADE, TOKEN, NotionStandIn, busy, sample

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "notion"
MAILOUTS_PAGE = Path(__file__).resolve().parents[3] / "docs" / "mailouts.md"


@pytest.fixture
async def api() -> AsyncIterator[NotionStandIn]:
    async with NotionStandIn() as api:
        yield api


@pytest.fixture(params=["2025-09-03", "2026-03-11"])
async def client(api: NotionStandIn, request: pytest.FixtureRequest) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(auth=TOKEN, base_url=api.url, notion_version=request.param, retry=False) as client:
        yield client


async def test_page_is_created_read_and_updated(api: NotionStandIn, client: AsyncClient) -> None:
    database = api.add_database("Mailouts", MAILOUT_COLUMNS)
    source = (await client.databases.retrieve(database))["data_sources"][0]["id"]
    schema = (await client.data_sources.retrieve(source))["properties"]
    assert schema["Status"]["status"]["options"][2]["name"] == "Send"
    made = await client.pages.create(
        parent={"type": "data_source_id", "data_source_id": source},
        properties={"Name": {"title": [{"text": {"content": "March"}}]}, "Test": {"checkbox": True}},
    )
    await client.pages.update(made["id"], properties={"Status": {"status": {"name": "Send"}}})
    page = await client.pages.retrieve(made["id"].replace("-", ""))
    assert page["properties"]["Name"]["title"][0]["plain_text"] == "March"
    assert page["properties"]["Status"]["status"]["name"] == "Send"
    assert api.cells(made["id"])["Test"] is True


async def test_lists_are_paginated(api: NotionStandIn, client: AsyncClient) -> None:
    page = api.add_page(blocks=[said("paragraph", str(number)) for number in range(250)])
    blocks = await async_collect_paginated_api(client.blocks.children.list, block_id=page)
    assert [each["paragraph"]["rich_text"][0]["plain_text"] for each in blocks] == [str(n) for n in range(250)]
    database = api.add_database("Mailouts", MAILOUT_COLUMNS)
    made = [api.add_page(database, {"Name": str(number), "Test": number % 2 == 0}) for number in range(120)]
    even = {"property": "Test", "checkbox": {"equals": True}}
    query = client.data_sources.query
    rows = await async_collect_paginated_api(query, data_source_id=api.source_of(database), filter=even, page_size=7)
    assert [row["id"] for row in rows] == made[::2]


async def _refused(call: Any) -> tuple[int, str]:
    with pytest.raises(APIResponseError) as refused:
        await call
    return refused.value.status, str(APIErrorCode(refused.value.code).value)


async def test_refusals_match_those_of_notion(api: NotionStandIn, client: AsyncClient) -> None:
    database = api.add_database("Mailouts", MAILOUT_COLUMNS)
    page = api.add_page(database, {"Name": "March"})
    source, update = api.source_of(database), client.pages.update
    long = [{"text": {"content": "x" * 2_001}}]
    invalid = (400, "validation_error")
    assert await _refused(client.pages.retrieve("nonsense")) == invalid
    assert await _refused(client.pages.retrieve(database)) == invalid
    assert await _refused(update(page, properties={"Nope": {"number": 1}})) == invalid
    assert await _refused(update(page, properties={"Status": {"select": {"name": "Send"}}})) == invalid
    assert await _refused(update(page, properties={"Status": {"status": {"name": "Nope"}}})) == invalid
    assert await _refused(update(page, properties={"Name": {"title": long}})) == invalid
    assert await _refused(update(page, properties={"Sent Count": {"number": "three"}})) == invalid
    assert await _refused(update(page, properties={"Sent At": {"date": {"start": "tomorrow"}}})) == invalid
    assert await _refused(client.blocks.children.list(page, page_size=101)) == invalid
    assert await _refused(client.blocks.children.list(page, start_cursor="nowhere")) == invalid
    assert await _refused(client.data_sources.query(source, filter={"property": "x"})) == invalid
    assert await _refused(client.pages.create(parent={"page_id": page}, properties={})) == invalid
    assert await _refused(client.request("nonsense", "GET")) == (400, "invalid_request_url")
    assert await _refused(client.pages.retrieve(page, auth="wrong")) == (401, "unauthorized")
    api.hide(page)
    assert await _refused(client.pages.retrieve(page)) == (404, "object_not_found")
    api.show(page)
    api.trash(page)
    assert await _refused(update(page, properties={"Sent Count": {"number": 3}})) == invalid
    assert api.cells(page)["Sent Count"] is None
    api.answer(busy(429))
    assert await _refused(client.pages.retrieve(page)) == (429, "rate_limited")


async def test_missing_version_and_excess_requests_are_refused() -> None:
    clock = ManualClock()
    async with NotionStandIn(clock=clock) as api, AsyncClient(auth=TOKEN, base_url=api.url, retry=False) as client:
        for _ in range(3):
            await client.users.me()
        assert await _refused(client.users.me()) == (429, "rate_limited")
        clock.advance(1000)
        await client.users.me()
        old = AsyncClient(auth=TOKEN, base_url=api.url, notion_version="2021-01-01", retry=False)
        assert await _refused(old.users.me()) == (400, "validation_error")
        await old.aclose()


async def test_sample_workspace_exists(api: NotionStandIn, client: AsyncClient) -> None:
    named = dict(sample(api))
    blocks = await async_collect_paginated_api(client.blocks.children.list, block_id=named["a page to send"])
    assert len(blocks) == len(a_newsletter(""))
    (image,) = [each["image"]["file"]["url"] for each in blocks if each["type"] == "image"]
    assert (await client.client.get(image)).content == PIXEL
    statuses = [api.cells(page).get("Status") for name, page in named.items() if name.startswith("a page")]
    assert statuses == ["Draft", "Draft", "Ready"]
    assert api.cells(named["a page for `watch`"])["Status"] == "Ready"
    page_id = "b0b00000-0000-4000-8000-00000000beef"
    seed = {
        "databases": {"Newsletters": {"Name": "title", "Status": ["select", ["Ready"]]}},
        "pages": [
            {"database": "Newsletters", "id": page_id, "cells": {"Name": "May"}, "blocks": [said("quote", "Hm")]}
        ],
    }
    assert [name for name, _ in api.load(json.loads(json.dumps(seed)))] == ["a table Newsletters", "a page May"]
    assert (await client.blocks.children.list(page_id))["results"][0]["type"] == "quote"


async def test_file_of_a_page_is_served(api: NotionStandIn, client: AsyncClient) -> None:
    [shown] = re.findall(r"^```json\n(.*?)^```", MAILOUTS_PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    named = dict(api.load(json.loads(shown)))
    assert list(named) == ["NOTION_DB_MAILOUTS", "a page May"]
    [said_there] = (await client.blocks.children.list(named["a page May"]))["results"]
    assert said_there["paragraph"]["rich_text"][0]["plain_text"] == "Hello."


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="Notion's recorded answers are not here")
@pytest.mark.parametrize("kind", ["page", "database", "data_source", "block", "list"])
async def test_responses_have_only_recorded_fields(api: NotionStandIn, client: AsyncClient, kind: str) -> None:
    database = api.add_database("Mailouts", MAILOUT_COLUMNS)
    page = api.add_page(database, {"Name": "March"}, blocks=[said("paragraph", "x")])
    calls = {
        "page": client.pages.retrieve(page),
        "database": client.databases.retrieve(database),
        "data_source": client.data_sources.retrieve(api.source_of(database)),
        "block": client.blocks.retrieve(api.children_of(page)[0]),
        "list": client.data_sources.query(api.source_of(database)),
    }
    answers = {name: await call for name, call in calls.items()}
    recorded = {field for answer in _recorded(kind) for field in answer}
    assert recorded
    assert set(answers[kind]) <= recorded
    assert MADE in json.dumps(answers["page"])


def _recorded(kind: str) -> list[dict[str, Any]]:
    answers = []
    for file in FIXTURES.glob("*/test_*.json"):
        answers += [call["response_body"] for call in json.loads(file.read_text(encoding="utf-8"))]
    return [answer for answer in answers if isinstance(answer, dict) and answer.get("object") == kind]
