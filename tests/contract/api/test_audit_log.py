"""HTTP API of the audit log, under its name and its former name."""

import csv
import io
import json
from collections.abc import AsyncIterator

import pytest

from mailwright.access.api_keys import platform_caller
from mailwright.actions.audit_log import AuditLogQuery, download_audit_log, download_audit_log_as_json
from mailwright.actions.context import Context
from mailwright.domain.clock import ManualClock
from mailwright.domain.translation import using
from mailwright.ops.catalogues import load_catalogue
from mailwright.outbox.audit_log import CONSOLE, list_entries, record
from mailwright.storage.database import Database
from mailwright.texts.audit_log import audit_sentence, searched_words
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_former_path_lists_the_same_entries(api: Api) -> None:
    for key in ("news", "offers"):
        await api.client.post("/v1/lists", json={"listKey": key})
    page = (await api.client.get("/v1/audit-log", params={"limit": 1})).json()
    [entry] = page["entries"]
    assert (entry["action"], entry["subject"]) == ("list.create", "offers")
    assert entry["sentence"].endswith("created the list “offers”")
    assert (await api.client.get("/v1/journal", params={"limit": 1})).json() == {
        "deeds": page["entries"],
        "nextCursor": page["nextCursor"],
    }
    following = await api.client.get("/v1/audit-log", params={"cursor": page["nextCursor"]})
    assert following.json()["entries"][0]["subject"] == "news"
    operations = (await api.client.get("/openapi.json")).json()["paths"]
    assert operations["/v1/journal"]["get"]["deprecated"] is True
    assert "deprecated" not in operations["/v1/audit-log"]["get"]


async def test_entries_are_filtered_by_actor_and_action(api: Api) -> None:
    await api.client.post("/v1/lists", json={"listKey": "news"})
    await api.client.patch("/v1/lists/news", json={"name": "News"})
    await api.client.post("/v1/lists/news/subscribe", json={"email": "ada@example.com", "confirmed": True})

    async def actions(**filters: str) -> list[str]:
        found = await api.client.get("/v1/audit-log", params=filters)
        return [entry["action"] for entry in found.json()["entries"]]

    everything = ["contact.subscribe", "list.edit", "list.create"]
    [actor] = {entry["actor"] for entry in (await api.client.get("/v1/audit-log")).json()["entries"]}
    assert await actions(actor=actor) == everything
    assert await actions(actor=actor.partition(":")[0]) == everything
    assert await actions(actor="nobody") == []
    assert await actions(action="list") == ["list.edit", "list.create"]
    assert await actions(action="list.create") == ["list.create"]
    assert await actions(action="lis") == []


async def test_entries_are_found_by_the_words_of_their_sentences(api: Api) -> None:
    await api.client.post("/v1/lists", json={"listKey": "news"})
    await api.client.post("/v1/lists", json={"listKey": "offers"})
    await api.client.patch("/v1/lists/news", json={"name": "News"})

    async def found(search: str) -> list[str]:
        answer = await api.client.get("/v1/audit-log", params={"search": search})
        return [f"{entry['action']} {entry['subject']}" for entry in answer.json()["entries"]]

    assert await found("created the list") == ["list.create offers", "list.create news"]
    assert await found("list “news”") == ["list.edit news", "list.create news"]
    assert await found("the API edited") == ["list.edit news"]
    assert await found("100%") == []


@pytest.mark.both_engines
async def test_search_finds_what_is_shown_and_no_keys(database: Database, clock: ManualClock) -> None:
    async def noted(actor: str, **detail: object) -> None:
        async with database.write() as tx:
            await record(
                tx,
                clock.now(),
                actor=actor,
                action="list.create",
                subject="id",
                tenant_id=DEFAULT_TENANT,
                detail=detail,
            )

    await noted("api:shop", name="Весна")
    await noted("api", name='A "quoted" path\\file', rows=[{"size": 120}])
    await noted("ada", name=None, is_public=True)

    async def found(search: str) -> set[str]:
        words = searched_words(search)
        return {each.actor for each in await list_entries(database, limit=10, tenant_id=DEFAULT_TENANT, words=words)}

    for entry in await list_entries(database, limit=10, tenant_id=DEFAULT_TENANT):
        assert entry.actor in await found(audit_sentence(entry))
        with using(load_catalogue("ru")):
            assert entry.actor in await found(audit_sentence(entry))
    assert await found("The API (key shop)") == await found("key") == {"api:shop"}
    assert await found("the API") == {"api:shop", "api"}
    for spelling in ("весна", "ВЕСНА", "весн"):
        assert await found(spelling) == {"api:shop"}, spelling
    assert await found("PATH\\FILE 120") == {"api"}
    for key in ("name", "rows", "size", "public", "true", "null"):
        assert await found(key) == set(), key


async def test_exports_have_every_entry_and_no_formulas(api: Api) -> None:
    await api.client.post("/v1/lists", json={"listKey": "news"})
    await api.client.post("/v1/suppressions", json={"email": "=cmd@example.com"})
    answer = await api.client.get("/v1/audit-log/entries.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    newest, oldest = csv.DictReader(io.StringIO(answer.text))
    assert (newest["action"], newest["subject"]) == ("suppression.add", "'=cmd@example.com")
    assert oldest["sentence"].endswith("created the list “news”")
    only = (await api.client.get("/v1/audit-log/entries.jsonl", params={"action": "list"})).text.splitlines()
    [entry] = (await api.client.get("/v1/audit-log", params={"action": "list"})).json()["entries"]
    assert [json.loads(line) for line in only] == [entry]


@pytest.mark.both_engines
async def test_exports_of_all_tenants_name_the_tenant(api: Api) -> None:
    engine, query = api.engine, AuditLogQuery(action="list")
    for client, key in ((api.client, "news"), (api.stranger, "offers")):
        await client.post("/v1/lists", json={"listKey": key})
    at = Context(engine.settings, engine.clock, engine.database, platform_caller(CONSOLE), "cli", sees_all_tenants=True)
    content = "".join([part async for part in (await download_audit_log(at, query)).parts])
    wanted = [("other", "offers"), ("default", "news")]
    assert [(row["tenant"], row["subject"]) for row in csv.DictReader(io.StringIO(content))] == wanted
    lines = [json.loads(line) async for line in (await download_audit_log_as_json(at, query)).parts]
    assert [(each["tenant"], each["subject"]) for each in lines] == wanted
    assert (await api.stranger.get("/v1/audit-log/entries.jsonl")).json()["tenant"] == "other"
