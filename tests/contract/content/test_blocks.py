"""Templates of blocks on both engines: saved through the API, sent in campaigns, and shown to segments."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from mailwright.app.wiring import make_worker, open_engine
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import ManualClock
from mailwright.ops.settings import load
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.builders import a_message
from tests.conftest import DatabaseAddress

DOCUMENT: dict[str, Any] = {
    "version": 1,
    "blocks": [
        {"id": "b1", "type": "heading", "html": 'Hello <span data-variable="name" data-fallback="you">name</span>'},
        {"id": "b2", "type": "image", "src": "cat.png", "alt": "A cat"},
        {"id": "b3", "type": "future", "kept": [1, None]},
        {"id": "b4", "type": "footer"},
    ],
}


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, images=tmp_path / "images", postal_address="Street 1") as api:
        yield api


async def test_block_template_is_saved_and_previewed_by_api(api: Api) -> None:
    saved = await api.client.put("/v1/templates/news", json={"subject": "News", "blocks": DOCUMENT})
    assert (saved.status_code, saved.json()["format"]) == (201, "blocks")
    assert orjson.loads(saved.json()["body"]) == DOCUMENT
    shown = await api.client.post("/v1/templates/news/preview", json={"variables": {"name": "Ada"}})
    assert shown.json()["text"].startswith("Hello Ada")
    broken = {"version": 1, "blocks": [{"id": "b9", "type": "button", "href": "javascript:x"}]}
    refused = await api.client.put("/v1/templates/news", json={"subject": "News", "blocks": broken})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "blocks"
    assert "Block 'b9', field href" in refused.json()["errors"][0]["message"]


async def test_block_template_is_sent(engine: DatabaseAddress, tmp_path: Path) -> None:
    settings = load(database_url=engine.url, mailbox=tmp_path / "box", postal_address="Workshop, Street 1")
    draft = TemplateDraft(subject="News", body=orjson.dumps(DOCUMENT).decode(), format=TemplateFormat.BLOCKS)
    async with open_engine(settings) as opened:
        template = await opened.templates.write(1, "news", draft)
        payload = {"to": "ada@example.com", "toName": "Ada"}
        await opened.acceptor.accept([a_message(to="ada@example.com", template_key=template.key, payload=payload)])
        await (await make_worker(opened)).run(drain=True)
    [file] = (tmp_path / "box" / "new").iterdir()
    content = file.read_bytes()
    assert b"Hello Ada" in content
    assert b"Workshop, Street 1" in content
