"""HTTP API of lists and contacts, and messages of a list."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import select

from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import ManualClock
from mailwright.domain.lanes import lane_number
from mailwright.domain.states import OnDoubt, Priority
from mailwright.outbox import audit_log, tenants
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, messages
from tests.api import Api, a_request, an_api
from tests.builders import DEFAULT_TENANT, claims_of

NOW = "2027-01-15T08:00:00.000Z"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        made = await api.client.post("/v1/lists", json={"listKey": "news", "name": "Product news"})
        assert made.status_code == 201, made.text
        yield api


async def test_message_of_a_list_is_bulk(api: Api) -> None:
    await api.send(listKey="news")
    await api.send(listKey="general")
    await api.send()
    async with api.engine.database.read() as tx:
        rows = await tx.execute(
            select(messages, deliveries.c.lane)
            .join(deliveries, deliveries.c.message_key == messages.c.id)
            .order_by(messages.c.id)
        )
    bulk, single = lane_number(Priority.BULK, 1), lane_number(Priority.TRANSACTIONAL, 1)
    assert [(row.list_key, row.is_bulk, row.on_doubt, row.lane) for row in rows] == [
        ("news", True, OnDoubt.HOLD, bulk),
        ("general", True, OnDoubt.HOLD, bulk),
        (None, False, OnDoubt.RESEND, single),
    ]


async def test_unknown_list_error_says_how_to_create_it(api: Api) -> None:
    before = await api.stored()
    answer = await api.client.post("/v1/email/send", json=a_request(listKey="other"))
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["code"]) == (422, "listKey", "LIST_NOT_FOUND")
    assert error["message"] == "There is no list 'other'. Create it first."
    theirs = await api.stranger.post("/v1/email/send", json=a_request(listKey="news"))
    assert theirs.json()["code"] == "LIST_NOT_FOUND"
    invalid = await api.client.post("/v1/email/send", json=a_request(listKey="No List"))
    assert (invalid.status_code, invalid.json()["errors"][0]["field"]) == (422, "listKey")
    assert await api.stored() == before
    batch = {"messages": [a_request(listKey="other"), a_request(listKey="news")]}
    first, second = (await api.client.post("/v1/email/batch", json=batch)).json()["results"]
    assert (first["error"]["code"], first["error"]["field"]) == ("LIST_NOT_FOUND", "listKey")
    assert second["status"] == "PENDING"


async def test_suppression_can_apply_to_one_list(api: Api, clock: ManualClock) -> None:
    entry = {"email": "reader@example.com", "reason": "asked", "listKey": "news"}
    made = await api.client.post("/v1/suppressions", json=entry)
    assert (made.status_code, made.json()["listKey"]) == (201, "news")
    assert (await api.client.post("/v1/suppressions", json={**entry, "listKey": "general"})).status_code == 201
    unknown = await api.client.post("/v1/suppressions", json={**entry, "listKey": "other"})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "listKey")
    assert (await api.client.delete("/v1/suppressions/reader@example.com?listKey=general")).status_code == 204
    for message in ({}, {"listKey": "news"}, {"listKey": "general"}):
        await api.send(**message)
    claimed = await claims_of(api.engine.database, clock).claim(3)
    assert {each.list_key: each.suppressed_because for each in claimed} == {
        None: None,
        "news": "asked",
        "general": None,
    }
    assert (await api.client.delete("/v1/suppressions/reader@example.com")).status_code == 204
    assert (await api.client.get("/v1/suppressions")).json()["suppressions"] == []


async def test_list_is_created_once_and_listed(api: Api) -> None:
    again = await api.client.post("/v1/lists", json={"listKey": "news"})
    assert (again.status_code, again.json()["code"]) == (409, "LIST_EXISTS")
    assert (await api.client.post("/v1/lists", json={"listKey": "general"})).status_code == 409
    private = {"listKey": "beta", "name": "Another", "description": "For few", "isPublic": False}
    private["requiresConfirmation"] = True
    created = {**private, "createdAt": NOW, "tracking": None, "archivedAt": None, "subscribers": None}
    assert (await api.client.post("/v1/lists", json=private)).json() == created
    assert (await api.client.get("/v1/lists/beta")).json() == {**created, "subscribers": 0}
    assert (await api.client.get("/v1/lists/nothing")).status_code == 404
    assert [entry["listKey"] for entry in (await api.client.get("/v1/lists")).json()["lists"]] == ["beta", "news"]
    assert (await api.stranger.get("/v1/lists")).json() == {"lists": []}
    for bad in ({}, {"listKey": "a b"}, {"listKey": "x", "name": "a\nb"}, {"listKey": "x", "extra": 1}):
        assert (await api.client.post("/v1/lists", json=bad)).status_code == 422


async def test_contact_subscribes_and_unsubscribes(api: Api, clock: ManualClock) -> None:
    await api.send(to="a/b@example.com")
    joined = await api.client.post("/v1/lists/news/subscribe", json={"email": "A/B@example.com"})
    assert joined.status_code == 200, joined.text
    clock.advance(1_000)
    left = await api.client.post("/v1/lists/news/unsubscribe", json={"email": "a/b@example.com"})
    shown = await api.client.get(f"/v1/contacts/{quote('A/B@example.com', safe='')}")
    assert shown.json() == left.json()
    later = "2027-01-15T08:00:01.000Z"
    person = shown.json()
    assert person["lists"] == [{"listKey": "news", "subscribedAt": NOW, "unsubscribedAt": later, "isPending": False}]
    assert person["suppressions"] == [
        {
            "email": "a/b@example.com",
            "listKey": "news",
            "reason": "unsubscribed",
            "source": "api",
            "createdAt": later,
        }
    ]
    assert (person["status"], person["statusUpdatedAt"], len(person["messages"])) == ("active", None, 1)
    await api.client.post("/v1/lists/general/unsubscribe", json={"email": "a/b@example.com"})
    person = (await api.client.get("/v1/contacts/a/b@example.com")).json()
    assert (person["status"], person["statusUpdatedAt"]) == ("unsubscribed", later)
    for path in ("/v1/contacts/nobody@example.com", "/v1/contacts/nobody"):
        assert (await api.client.get(path)).status_code == 404
    for path in ("/v1/lists/other/subscribe", "/v1/lists/a%00/unsubscribe"):
        assert (await api.client.post(path, json={"email": "a@example.com"})).status_code == 404
    assert (await api.client.post("/v1/lists/news/subscribe", json={"email": "nobody"})).status_code == 422


async def test_list_update_changes_only_given_fields(api: Api) -> None:
    await api.client.post("/v1/lists/news/subscribe", json={"email": "ada@example.com"})
    known = (await api.client.get("/v1/lists")).json()["lists"][0]
    asks = {"description": "Once a month", "requiresConfirmation": True}
    answer = await api.client.patch("/v1/lists/news", json=asks)
    assert (answer.status_code, answer.json()) == (200, {**known, **asks})
    assert (await api.client.get("/v1/lists")).json()["lists"] == [answer.json()]
    hidden = (await api.client.patch("/v1/lists/news", json={"description": "", "isPublic": False})).json()
    assert hidden == {**known, "description": None, "isPublic": False, "requiresConfirmation": True}
    assert (await api.client.patch("/v1/lists/news", json={})).json() == hidden
    [on_it] = (await api.client.get("/v1/contacts/ada@example.com")).json()["lists"]
    assert (on_it["listKey"], on_it["isPending"], on_it["unsubscribedAt"]) == ("news", False, None)
    for key in ("other", "general", "a%00"):
        assert (await api.client.patch(f"/v1/lists/{key}", json={"name": "N"})).status_code == 404
    for wrong in ({"name": ""}, {"name": "two\nlines"}, {"listKey": "other"}, {"isPublic": "perhaps"}):
        assert (await api.client.patch("/v1/lists/news", json=wrong)).status_code == 422
    found = await audit_log.list_entries(api.engine.database, tenant_id=1, limit=10, subject="news")
    assert [each.action for each in found] == [
        "list.edit",
        "list.edit",
        "list.create",
    ]  # An edit that changes nothing is not logged.


async def test_bounced_contact_can_be_activated(api: Api) -> None:
    path = "/v1/contacts/a/b@example.com"
    await ContactStatusService(api.engine.database, api.engine.clock).bounce(
        DEFAULT_TENANT, "a/b@example.com", source="test"
    )
    assert (await api.client.get(path)).json()["status"] == "bounced"
    again = await api.client.post(f"{path}/activate")
    assert again.status_code == 200
    assert (again.json()["status"], again.json()["suppressions"]) == ("active", [])
    assert (await api.stranger.post(f"{path}/activate")).status_code == 404
    assert (await api.client.post("/v1/contacts/nobody@example.com/activate")).status_code == 404


async def test_contacts_are_paged_and_filtered_by_status(api: Api) -> None:
    for number in range(3):
        await api.send(to=f"reader{number}@example.com")
    await api.client.post("/v1/lists/general/unsubscribe", json={"email": "reader1@example.com"})
    first = (await api.client.get("/v1/contacts", params={"limit": 2})).json()
    rest = (await api.client.get("/v1/contacts", params={"limit": 2, "cursor": first["nextCursor"]})).json()
    found = [person["email"] for page in (first, rest) for person in page["contacts"]]
    assert found == [f"reader{number}@example.com" for number in (2, 1, 0)]
    gone = (await api.client.get("/v1/contacts", params={"status": "unsubscribed"})).json()["contacts"]
    assert [person["email"] for person in gone] == ["reader1@example.com"]
    assert (await api.client.get("/v1/contacts", params={"status": "gone"})).status_code == 422
    assert (await api.stranger.get("/v1/contacts")).json()["contacts"] == []


async def test_changes_with_an_api_key_are_in_the_audit_log(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    async with an_api(database, clock, imports=tmp_path / "imports") as api:
        await api.client.post("/v1/lists", json={"listKey": "news"})
        await api.client.post("/v1/segments", json={"segmentKey": "vip", "filter": {"tag": "vip"}})
        await api.client.delete("/v1/segments/vip")
        await api.client.post("/v1/suppressions", json={"email": "ada@example.com", "reason": "asked"})
        await api.client.delete("/v1/suppressions/ada@example.com")
        csv = {"Content-Type": "text/csv"}
        await api.client.post("/v1/contacts/imports", content=b"email\nada@example.com\n", headers=csv)
    await tenants.create(database, clock, "acme", actor=audit_log.CONSOLE)
    await tenants.change(database, "acme", actor=audit_log.CONSOLE, clock=clock, weight=2)
    found = [(entry.actor, entry.action) for entry in await audit_log.list_entries(database, tenant_id=None, limit=20)]
    assert [each for each in reversed(found) if each[0] == "api"] == [
        ("api", "list.create"),
        ("api", "segment.create"),
        ("api", "segment.forget"),
        ("api", "suppression.add"),
        ("api", "suppression.lift"),
        ("api", "import.begin"),
    ]
    assert found[:2] == [("console", "tenant.change"), ("console", "tenant.create")]


async def test_contact_is_snoozed_and_woken(api: Api) -> None:
    await api.client.put("/v1/contacts/ada@example.com", json={"name": "Ada"})
    until = "2027-02-15T08:00:00.000Z"
    paused = await api.client.post("/v1/contacts/ada@example.com/snooze", json={"until": until})
    assert (paused.status_code, paused.json()["snoozedUntil"]) == (200, until)
    woken = await api.client.post("/v1/contacts/Ada@Example.com/snooze", json={"until": None})
    assert woken.json()["snoozedUntil"] is None
    past = await api.client.post("/v1/contacts/ada@example.com/snooze", json={"until": NOW})
    assert (past.status_code, past.json()["errors"][0]["field"]) == (422, "until")
    unknown = await api.client.post("/v1/contacts/nobody@example.com/snooze", json={"until": until})
    assert unknown.status_code == 404
