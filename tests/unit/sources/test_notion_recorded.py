"""Recorded responses of the real Notion, read and rendered by our client without losing text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.notion import (
    VERSIONS,
    MailoutColumns,
    Notion,
    NotionRefused,
    read_content,
    read_mailout,
)
from mailwright.sources.mailouts.notion.pages import every
from mailwright.sources.mailouts.rendering import render
from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.notion import error

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "notion"
FILES = sorted([*FIXTURES.glob("ultimate-notion/*.json"), *FIXTURES.glob("notion-sdk-py/*.json")])
pytestmark = pytest.mark.skipif(not FILES, reason="recorded answers of Notion are not here")


class RecordedNotion(HttpStandIn):
    """Replays the last recorded response of a request and API version; unknown requests are not found."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        super().__init__()
        self.calls = calls
        self.version = next((call["notion_version"] for call in calls), VERSIONS[0])
        self.answers = {
            (call["method"], urlsplit(call["uri"]).path): (call["status"], call["response_body"])
            for call in calls
            if isinstance(call["response_body"], dict) and not call["response_body"].get("has_more")
        }

    def usual(self, request: Request) -> Answer:
        if request.headers["Notion-Version"] != self.version:
            return error(400, "missing_version", "It was recorded in another version.")
        found = self.answers.get((request.method, request.path))
        return json_answer(*found) if found else error(404, "object_not_found", "Never recorded.")

    def asked(self, beginning: str, ending: str = "") -> Iterator[str]:
        """Ids in the paths of the recorded requests."""
        for method, path in self.answers:
            if method == "GET" and path.startswith(beginning) and path.endswith(ending):
                yield path.removeprefix(beginning).removesuffix(ending)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_recorded_page_is_rendered_completely(file: Path) -> None:
    clock, http = ManualClock(), HttpClient(connections=2)

    async def nap(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    async with RecordedNotion(json.loads(file.read_text(encoding="utf-8"))) as api:
        notion = Notion(http, "recorded", clock, url=api.url, version=api.version, sleep=nap)
        for page_id in api.asked("/v1/pages/"):
            if "/" not in page_id:
                await _read(notion, page_id)
        for block_id in api.asked("/v1/blocks/", "/children"):
            try:
                blocks = await read_content(notion, block_id)
            except NotionRefused:
                continue  # something on it was not read at the time
            found = render(blocks, {})
            for block in every(blocks):
                for piece in block.content.get("rich_text", []):
                    assert _squeezed(piece["plain_text"]) in _squeezed(found.text) or piece["type"] == "mention"
        assert not api.violations
    await http.close()


async def _read(notion: Notion, page_id: str) -> None:
    try:
        page = await notion.page(page_id)
    except NotionRefused as refused:
        assert refused.code in ("NOTION_NOT_SHARED", "NOTION_IN_TRASH")  # noqa: PT017 - either was recorded
        return
    assert read_mailout(page, MailoutColumns()).status is None


async def test_recorded_tables_are_parsed() -> None:
    clock, http = ManualClock(), HttpClient(connections=2)

    async def nap(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    understood = 0
    versions = set()
    for file in FILES:
        async with RecordedNotion(json.loads(file.read_text(encoding="utf-8"))) as api:
            notion = Notion(http, "recorded", clock, url=api.url, version=api.version, sleep=nap)
            for source_id in api.asked("/v1/data_sources/"):
                table = await notion.data_source(source_id)
                assert "title" in table.types.values()
                understood += 1
                versions.add(api.version)
                _, rows = api.answers.get(("POST", f"/v1/data_sources/{source_id}/query"), (404, {"results": []}))
                if rows["results"]:
                    recorded = [row["id"] for row in rows["results"] if row["object"] == "page"]
                    assert [page.id async for page in notion.query(table, where={"or": []})] == recorded
    assert understood >= 4
    assert versions == {*VERSIONS}
    await http.close()


def _squeezed(words: str) -> str:
    return "".join(words.split()).replace(">", "")
