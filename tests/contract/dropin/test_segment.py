"""Segment's own client against Mailwright."""

import asyncio
import gzip
from typing import Any

import orjson
import pytest
from segment.analytics.client import Client
from segment.analytics.request import APIError, post

from mailwright.access.roles import Scope
from mailwright.audience import contacts
from mailwright.audience.contact_events import ContactEvent, list_latest
from mailwright.audience.erasure import erase
from mailwright.domain.clock import MINUTE, ManualClock
from tests.api import socket_client
from tests.dropin import DropIn

pytestmark = pytest.mark.promise("drop-in-sdks")


async def upload(drop_in: DropIn, *calls: tuple[str, dict[str, Any]], **options: Any) -> None:
    """Let the client queue these calls and upload them in one batch."""

    def work() -> None:
        failures: list[Exception] = []
        client = Client(
            drop_in.key,
            host=drop_in.url,
            on_error=lambda error, _: failures.append(error),
            upload_interval=0.01,
            send=True,
            **options,
        )
        for name, values in calls:
            getattr(client, name)(**values)
        client.flush()
        client.shutdown()
        assert not failures

    await asyncio.to_thread(work)


async def events_of(drop_in: DropIn) -> list[ContactEvent]:
    return list(reversed(await list_latest(drop_in.engine.database, 1, limit=100)))


@pytest.mark.parametrize("is_compressed", [False, True])
async def test_identified_user_has_events(drop_in: DropIn, clock: ManualClock, is_compressed: bool) -> None:
    traits = {"email": "Ada@Example.com", "name": "Ada", "plan": "pro", "Favourite colour": "blue", "age": 36}
    order = {"event": "Order Completed", "properties": {"total": 20}}
    await upload(
        drop_in,
        ("identify", {"user_id": "user-17", "traits": traits}),
        ("track", {"user_id": "user-17", **order}),
        ("track", {"anonymous_id": "visitor", "event": "Signed Up", "properties": {"email": "eve@example.com"}}),
        ("track", {"user_id": "bob@example.com", "event": "Signed Up"}),
        gzip=is_compressed,
    )
    contact = await contacts.find_by_email(drop_in.engine.database, 1, "ada@example.com")
    assert (contact.name, contact.attributes) == ("Ada", {"plan": "pro", "favourite_colour": "blue", "age": 36})
    found = {event.email: (event.name, event.properties) for event in await events_of(drop_in)}
    assert found == {
        "ada@example.com": ("Order Completed", {"total": 20}),
        "eve@example.com": ("Signed Up", {"email": "eve@example.com"}),
        "bob@example.com": ("Signed Up", {}),
    }
    # The client's clock is years behind the server's: the difference to its time of sending counts.
    assert all(clock.now() - MINUTE < event.occurred_at <= clock.now() for event in await events_of(drop_in))
    details = await contacts.load_details(drop_in.engine.database, 1, "ada@example.com")
    assert details.lists == ()


def a_call(**changes: Any) -> dict[str, Any]:
    return {"type": "track", "event": "Paid", "userId": "ada@example.com", "messageId": "1", **changes}


@pytest.mark.promise("event-once")
async def test_message_id_is_stored_once(drop_in: DropIn) -> None:
    for _ in range(2):
        await asyncio.to_thread(post, drop_in.key, drop_in.url, batch=[a_call(), a_call()])
    assert [event.event_id for event in await events_of(drop_in)] == ["1"]


async def test_refused_calls_are_named(drop_in: DropIn) -> None:
    calls = [
        a_call(),
        a_call(userId="unknown", messageId="2"),
        a_call(type="page"),
        "track",
        a_call(traits=[]),
        a_call(event=None, messageId="3"),
        a_call(timestamp="yesterday"),
        {"type": "identify", "userId": "unknown"},
        a_call(timestamp="0001-01-01T00:00:00Z", sentAt="9999-12-31T23:59:59Z", messageId="4"),
    ]
    answer = await asyncio.to_thread(post, drop_in.key, drop_in.url, batch=calls)
    assert (answer.status_code, answer.json()["success"]) == (200, True)
    assert [error["index"] for error in answer.json()["errors"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(await events_of(drop_in)) == 1
    with pytest.raises(APIError, match=r"ADDRESS_UNKNOWN.*properties\.email") as refused:
        await asyncio.to_thread(post, drop_in.key, drop_in.url, batch=calls[1:])
    assert refused.value.status == 400


async def test_key_needs_the_events_scope(drop_in: DropIn) -> None:
    for key, status in ((await drop_in.key_with(Scope.SEND), 403), ("mw_unknown", 401)):
        with pytest.raises(APIError) as refused:
            await asyncio.to_thread(post, key, drop_in.url, batch=[a_call()])
        assert refused.value.status == status
    key = await drop_in.key_with(Scope.EVENTS)
    await asyncio.to_thread(post, key, drop_in.url, batch=[a_call()])
    assert len(await events_of(drop_in)) == 1


@pytest.mark.both_engines
async def test_single_calls_have_routes(drop_in: DropIn) -> None:
    async with socket_client(drop_in.url, auth=(drop_in.key, "")) as client:
        identified = await client.post("/v1/identify", json={"userId": "7", "traits": {"email": "ada@example.com"}})
        tracked = await client.post("/v1/track", json={"userId": "7", "event": "Paid"})
        refused = await client.post("/v1/track", json={"userId": "8", "event": "Paid"})
        bomb = gzip.compress(orjson.dumps({"batch": ["a" * 20_000_000]}))
        large = await client.post("/v1/batch", content=bomb, headers={"Content-Encoding": "gzip"})
    assert (identified.json(), tracked.json()) == ({"success": True}, {"success": True})
    assert (refused.status_code, refused.json()["code"]) == (400, "ADDRESS_UNKNOWN")
    assert (large.status_code, large.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert [event.email for event in await events_of(drop_in)] == ["ada@example.com"]


async def test_erased_contact_is_not_created_again(drop_in: DropIn, clock: ManualClock) -> None:
    identify = {"type": "identify", "userId": "7", "traits": {"email": "ada@example.com"}}
    await asyncio.to_thread(post, drop_in.key, drop_in.url, batch=[identify])
    await erase(drop_in.engine.database, clock, 1, "ada@example.com", actor="tests")
    await asyncio.to_thread(post, drop_in.key, drop_in.url, batch=[identify, a_call()])
    assert await contacts.list_page(drop_in.engine.database, 1, limit=10) == []
    assert await events_of(drop_in) == []
