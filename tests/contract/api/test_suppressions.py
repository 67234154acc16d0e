"""Suppressions: addresses are normalised, the first reason stays, and nothing is sent."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from mailwright.audience import contacts, suppressions
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotFound
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.builders import claims_of

ROUTE = "/v1/suppressions"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_address_is_normalised_and_added_once(api: Api) -> None:
    added = await api.client.post(ROUTE, json={"email": "Reader@EXÄMPLE.com", "reason": "asked by phone"})
    again = await api.client.post(ROUTE, json={"email": "reader@exämple.com"})
    assert (added.status_code, again.status_code) == (201, 200)
    assert {**added.json(), "isNew": False} == again.json()
    assert added.json() == {
        "isNew": True,
        "email": "reader@xn--exmple-cua.com",
        "listKey": "*",
        "reason": "asked by phone",
        "source": "api",
        "createdAt": "2027-01-15T08:00:00.000Z",
    }


async def test_waiting_message_to_suppressed_address_is_explained(api: Api, clock: ManualClock) -> None:
    await api.send(to="Reader@example.com")
    await api.client.post(ROUTE, json={"email": "reader@example.com", "reason": "left"})
    [claimed] = await claims_of(api.engine.database, clock).claim(1)
    assert claimed.suppressed_because == "left"


async def test_removed_suppression_allows_sending_again(api: Api) -> None:
    database = api.engine.database
    await api.client.post(ROUTE, json={"email": "a/b@example.com"})
    assert await suppressions.is_suppressed(database, 1, "A/B@example.com")
    assert (await api.client.delete(f"{ROUTE}/{quote('A/B@example.com', safe='')}")).status_code == 204
    assert not await suppressions.is_suppressed(database, 1, "a/b@example.com")
    assert (await api.client.delete(f"{ROUTE}/a/b@example.com")).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "email"),
        ({"email": "nobody"}, "email"),
        ({"email": "a@example.com", "reason": ""}, "reason"),
        ({"email": "a@example.com", "reason": "x" * 201}, "reason"),
        ({"email": "a@example.com", "reason": "a\0"}, "reason"),
        ({"email": "a@example.com", "list": "news"}, "list"),
    ],
)
async def test_invalid_suppression_is_rejected(api: Api, body: dict[str, str], field: str) -> None:
    before = await api.stored()
    answer = await api.client.post(ROUTE, json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert await api.stored() == before
    assert (await api.client.delete(f"{ROUTE}/nobody")).status_code == 422


async def test_list_is_paged_latest_first(api: Api) -> None:
    for number in range(5):
        await api.client.post(ROUTE, json={"email": f"reader{number}@example.com"})
    await api.stranger.post(ROUTE, json={"email": "theirs@example.com"})
    found: list[str] = []
    cursor = None
    while True:
        page = (await api.client.get(ROUTE, params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        found.extend(entry["email"] for entry in page["suppressions"])
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert found == [f"reader{number}@example.com" for number in (4, 3, 2, 1, 0)]


@pytest.mark.promise("tenant-isolation")
async def test_suppressions_apply_to_their_tenant_only(api: Api) -> None:
    await api.stranger.post(ROUTE, json={"email": "reader@example.com"})
    assert not await suppressions.is_suppressed(api.engine.database, 1, "reader@example.com")
    async with api.engine.database.read() as tx:
        among = ["reader@example.com", "other@example.com"]
        assert await suppressions.suppressed_among(tx, 2, among) == {"reader@example.com"}
        assert await suppressions.suppressed_among(tx, 1, among) == set()
        assert await suppressions.suppressed_among(tx, 2, []) == set()


async def test_recipient_becomes_contact_and_can_be_erased(api: Api, clock: ManualClock) -> None:
    database = api.engine.database
    await api.send(to="Reader@example.com", recipient={"name": "Jane"})
    contact = await contacts.find_by_email(database, 1, "READER@example.com")
    assert (contact.email, contact.name, contact.status) == ("reader@example.com", "Jane", "active")
    assert await contacts.find_by_id(database, 1, contact.contact_id) == contact
    deleted = await contacts.delete(database, clock, 1, contact.contact_id)
    assert (deleted.is_deleted, deleted.deleted_at) == (True, clock.now())
    clock.advance(1_000)
    assert await contacts.delete(database, clock, 1, contact.contact_id) == deleted
    for missing in (
        contacts.find_by_email(database, 2, "reader@example.com"),
        contacts.find_by_email(database, 1, "nobody"),
        contacts.find_by_id(database, 2, contact.contact_id),
        contacts.delete(database, clock, 2, contact.contact_id),
    ):
        with pytest.raises(NotFound):
            await missing
