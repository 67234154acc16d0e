"""Mailgun's events and suppressions: what is refused, and the order and pages of events."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from mailwright.access.roles import Scope
from mailwright.audience.suppressions import is_suppressed, list_page
from mailwright.domain.clock import DAY, SECOND, ManualClock
from tests.builders import suppress
from tests.dropin import DropIn

pytestmark = pytest.mark.promise("drop-in-sdks")


async def call(drop_in: DropIn, method: str, path: str, key: str | None = None, **given: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=drop_in.url, auth=("api", key or drop_in.key)) as client:
        return await client.request(method, f"/v3/example.com{path}", **given)


async def send(drop_in: DropIn, clock: ManualClock, *names: str) -> None:
    for name in names:
        email = {"from": "shop@example.com", "to": f"{name}@example.com", "subject": "Order", "text": "Sent."}
        reply = await call(drop_in, "POST", "/messages", data={**email, "o:tag": name})
        assert reply.status_code == 200
        await drop_in.deliver(clock)
        clock.advance(2_000)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["cyd", "bob", "ada"]),
        ({"ascending": "yes", "begin": "0"}, ["ada", "bob", "cyd"]),
        ({"event": "accepted OR failed", "tags": "ada OR cyd", "ascending": "yes"}, ["ada", "cyd"]),
        ({"event": "opened"}, []),
        ({"recipient": "Bob@example.com"}, ["bob"]),
        ({"severity": "permanent"}, []),
        ({"limit": "2"}, ["cyd", "bob"]),
        ({"limit": "1", "tags": "ada OR bob"}, ["bob"]),
    ],
)
async def test_events_are_filtered_and_ordered(
    drop_in: DropIn, clock: ManualClock, query: Mapping[str, str], expected: list[str]
) -> None:
    await send(drop_in, clock, "ada", "bob", "cyd")
    found = (await call(drop_in, "GET", "/events", params=query)).json()
    assert [each["recipient"].partition("@")[0] for each in found["items"]] == expected


async def test_email_is_found_by_its_message_id(drop_in: DropIn, clock: ManualClock) -> None:
    headers = {"Authorization": f"Bearer {drop_in.key}"}
    named = "From: shop@example.com\r\nTo: ada@example.com\r\nMessage-ID: <7@shop.example>\r\n"
    raw = f"{named}Subject: Order\r\n\r\nSent.\r\n"
    async with httpx.AsyncClient(base_url=drop_in.url, headers=headers) as client:
        await client.post("/v1/email/raw", content=raw, headers={"Content-Type": "message/rfc822"})
        email = {"to": "bob@example.com", "subject": "Order", "text": "Sent."}
        reply = await client.post("/v1/email/send", json=email, headers={"Idempotency-Key": "7"})
        assert reply.is_success, reply.text
    emails = {each["To"]: each["Message-ID"].strip("<>") for each in await drop_in.deliver(clock)}
    assert emails["ada@example.com"] == "7@shop.example"
    for to, message_id in emails.items():
        found = (await call(drop_in, "GET", "/events", params={"message-id": message_id})).json()
        assert [each["recipient"] for each in found["items"]] == [to]
        assert found["items"][0]["message"]["headers"]["from"]


@pytest.mark.parametrize("query", [{}, {"ascending": "yes"}, {"begin": "4000000000"}])
async def test_events_of_last_month_are_listed_by_default(
    drop_in: DropIn, clock: ManualClock, query: Mapping[str, str]
) -> None:
    began = clock.now()
    await send(drop_in, clock, "ada")
    clock.advance(31 * DAY)
    await send(drop_in, clock, "bob")
    recent = (await call(drop_in, "GET", "/events", params=query)).json()
    assert [each["tags"] for each in recent["items"]] == [["bob"]]
    since = {"begin": began / SECOND, "ascending": "yes"}
    assert len((await call(drop_in, "GET", "/events", params=since)).json()["items"]) == 2


async def test_search_is_limited_and_continues_on_the_next_page(
    drop_in: DropIn, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(drop_in, clock, "ada", "bob", "cyd", "dan")
    monkeypatch.setattr("mailwright.events.outbound.history.MAX_SEARCHED", 2)
    monkeypatch.setattr("mailwright.events.outbound.history.BATCH_SIZE", 1)
    query = {"ascending": "yes", "tags": "ada OR dan"}
    first = (await call(drop_in, "GET", "/events", params=query)).json()
    assert [each["tags"] for each in first["items"]] == [["ada"]]
    path = first["paging"]["next"].partition("/v3/example.com")[2]
    assert [each["tags"] for each in (await call(drop_in, "GET", path)).json()["items"]] == [["dan"]]
    reply = await call(drop_in, "GET", "/events", params={**query, "tags": "dan"})
    assert reply.status_code == 400
    assert "tags parameter matches none of the" in reply.json()["message"]


async def test_pages_lead_forward_and_back(drop_in: DropIn, clock: ManualClock) -> None:
    began = clock.now()
    await send(drop_in, clock, "ada", "bob", "cyd")
    query = {"begin": began / SECOND, "end": (clock.now() - 1) / SECOND, "limit": 2}

    async def follow(page: dict[str, Any], name: str) -> tuple[list[str], dict[str, Any]]:
        path = page["paging"][name].partition("/v3/example.com")[2]
        found = (await call(drop_in, "GET", path)).json()
        return [each["tags"][0] for each in found["items"]], found

    first = (await call(drop_in, "GET", "/events", params=query)).json()
    assert [each["tags"][0] for each in first["items"]] == ["ada", "bob"]
    following, second = await follow(first, "next")
    assert following == ["cyd"]
    nothing, third = await follow(second, "next")
    assert nothing == []
    assert (await follow(third, "previous"))[0] == ["ada", "bob"]
    assert (await follow(second, "previous"))[0] == ["ada", "bob"]
    assert (await follow(second, "first"))[0] == ["ada", "bob"]
    assert (await follow(first, "last"))[0] == ["bob", "cyd"]
    await send(drop_in, clock, "dan")
    assert (await follow(third, "next"))[0] == []  # The range has an end.


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/events?limit=301", "limit parameter must be a number from 1 to 300"),
        ("/events?begin=yesterday", "begin parameter must be a time"),
        ("/events?ascending=up", "ascending parameter must be yes or no"),
        ("/events?event=lost", "event parameter has 'lost'"),
        ("/events?recipient=nobody", "recipient parameter is not an email address"),
        ("/events?subject=Order", "subject parameter is not supported"),
        ("/events/x", "page parameter is not a page of this API"),
        ("/events/W10", "page parameter is not a page of this API"),
        ("/bounces?limit=0", "limit parameter must be a number"),
        ("/bounces/nobody", "address parameter is not an email address"),
    ],
)
async def test_bad_request_gets_the_error_of_mailgun(drop_in: DropIn, path: str, words: str) -> None:
    reply = await call(drop_in, "GET", path)
    assert reply.status_code == 400
    assert words in reply.json()["message"]


@pytest.mark.parametrize(
    "given",
    [
        {"data": {"address": "nobody"}},
        {"data": {"address": "ada@example.com", "tag": "weekly"}},
        {"data": {"address": "ada@example.com", "color": "red"}},
        {"json": [{"address": "ada@example.com"}, {"address": "nobody"}]},
        {"json": []},
        {"json": ["ada@example.com"]},
    ],
)
async def test_refused_suppression_stores_nothing(drop_in: DropIn, given: dict[str, Any]) -> None:
    reply = await call(drop_in, "POST", "/unsubscribes", **given)
    assert (reply.status_code, set(reply.json())) == (400, {"message"})
    assert await list_page(drop_in.engine.database, 1, limit=9) == []


async def test_key_needs_the_scopes(drop_in: DropIn) -> None:
    key = await drop_in.key_with(Scope.SEND)
    for method, path in (
        ("GET", "/events"),
        ("GET", "/bounces"),
        ("POST", "/bounces"),
        ("DELETE", "/bounces/a@b.example"),
    ):
        assert (await call(drop_in, method, path, key)).status_code == 403
        assert (await call(drop_in, method, path, "nothing")).status_code == 401


async def test_removing_a_bounce_keeps_the_unsubscribe(drop_in: DropIn) -> None:
    database = drop_in.engine.database
    await suppress(database, "ada@example.com")
    assert (await call(drop_in, "DELETE", "/bounces/ada@example.com")).status_code == 404
    assert await is_suppressed(database, 1, "ada@example.com", "general")


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("first", "second", "remaining"),
    [
        ("bounces", "unsubscribes", "unsubscribes"),
        ("bounces", "complaints", "complaints"),
        ("unsubscribes", "bounces", "unsubscribes"),
        ("complaints", "bounces", "complaints"),
        ("complaints", "unsubscribes", "unsubscribes"),
        ("complaints", "unsubscribes", "complaints"),
        ("unsubscribes", "complaints", "unsubscribes"),
        ("unsubscribes", "complaints", "complaints"),
    ],
)
async def test_removing_one_kind_keeps_the_other(drop_in: DropIn, first: str, second: str, remaining: str) -> None:
    address = "ada@example.com"
    for name in (first, second):
        assert (await call(drop_in, "POST", f"/{name}", data={"address": address})).status_code == 200
    assert (await call(drop_in, "GET", f"/{remaining}/{address}")).status_code == 200
    removed = second if remaining == first else first
    status = 404 if removed == "bounces" else 200
    assert (await call(drop_in, "DELETE", f"/{removed}/{address}")).status_code == status
    assert (await call(drop_in, "GET", f"/{removed}/{address}")).status_code == 404
    assert (await call(drop_in, "GET", f"/{remaining}/{address}")).status_code == 200
    assert await is_suppressed(drop_in.engine.database, 1, address, "general")
    is_wide = await is_suppressed(drop_in.engine.database, 1, address)
    assert is_wide or (first, remaining) == ("complaints", "unsubscribes")
    assert (await call(drop_in, "DELETE", f"/{remaining}/{address}")).status_code == 200
    assert not await is_suppressed(drop_in.engine.database, 1, address, "general")


@pytest.mark.parametrize("domain", ["%3F", "%23", "example.com%3Fa", "bounces%23"])
async def test_domain_may_contain_any_character(drop_in: DropIn, domain: str) -> None:
    async with httpx.AsyncClient(base_url=drop_in.url, auth=("api", drop_in.key)) as client:
        reply = await client.get(f"/v3/{domain}/unsubscribes")
        missing = await client.get(f"/v3/{domain}/unsubscribes/ada@example.com")
    assert (reply.status_code, reply.json()["items"], missing.status_code) == (200, [], 404)
