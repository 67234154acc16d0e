"""`POST /v1/events` answers for each event whether it is stored, a duplicate or refused, and why."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.access.roles import Scope
from mailwright.audience.event_schema import EventSchemaCounter
from mailwright.domain.clock import DAY, MINUTE, ManualClock, isoformat
from mailwright.storage.database import Database
from tests.api import Api, an_api, client_of


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


def an_event(**changes: Any) -> dict[str, Any]:
    event = {"event": "order.placed", "email": "Ada@Example.com", "properties": {"total": 20}, **changes}
    return {name: value for name, value in event.items() if value is not None}


async def submit(api: Api, body: Any, **headers: str) -> Any:
    return await api.client.post("/v1/events", json=body, headers=headers)


async def stored(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = await api.client.get("/v1/events", params=query)
    assert answer.status_code == 200, answer.text
    events: list[dict[str, Any]] = answer.json()["events"]
    return events


async def test_single_event_is_stored(api: Api, clock: ManualClock) -> None:
    answer = await submit(api, an_event(eventId="1"))
    result = {"eventId": "1", "status": "accepted", "error": None}
    assert (answer.status_code, answer.json()["results"]) == (202, [result])
    [event] = await stored(api)
    assert (event["event"], event["email"], event["properties"]) == ("order.placed", "ada@example.com", {"total": 20})
    assert (event["occurredAt"], event["isLate"]) == (isoformat(clock.now()), False)
    assert (await api.client.get("/v1/contacts")).json()["contacts"] == []


@pytest.mark.promise("event-once")
async def test_repeated_requests_store_events_once(api: Api) -> None:
    assert (await submit(api, an_event(), **{"Idempotency-Key": "a"})).status_code == 202
    again = await submit(api, an_event(), **{"Idempotency-Key": "a"})
    assert (again.status_code, again.headers["Idempotent-Replay"]) == (200, "true")
    other = await submit(api, an_event(event="order.paid"), **{"Idempotency-Key": "a"})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    batch = {"events": [an_event(), an_event(eventId="x"), an_event(eventId="x"), an_event(email="eve@example.com")]}
    first = (await submit(api, batch, **{"Idempotency-Key": "b"})).json()
    second = (await submit(api, batch, **{"Idempotency-Key": "b"})).json()
    assert [result["status"] for result in first["results"]] == ["accepted", "accepted", "duplicate", "accepted"]
    assert [result["status"] for result in second["results"]] == ["duplicate"] * 4
    assert [result["eventId"] for result in first["results"]] == [result["eventId"] for result in second["results"]]
    assert len(await stored(api)) == 4


REFUSED = [
    (an_event(event=" order"), "INVALID", "event"),
    (an_event(event="a" * 101), "TOO_LONG", "event"),
    (an_event(event=None), "REQUIRED", "event"),
    (an_event(email="nobody"), "INVALID_EMAIL", "email"),
    (an_event(properties=[1]), "WRONG_TYPE", "properties"),
    (an_event(properties={str(number): 1 for number in range(101)}), "TOO_MANY", "properties"),
    (an_event(properties={"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}), "TOO_DEEP", "properties"),
    (an_event(properties={"a": "a" * 40_000}), "TOO_LARGE", "properties"),
    (an_event(properties={"a" * 101: 1}), "INVALID_NAME", "properties"),
    (an_event(occurredAt="2027-01-15T08:00:00"), "TIME_WITHOUT_ZONE", "occurredAt"),
    (an_event(occurredAt="2999-01-01T00:00:00Z"), "IN_THE_FUTURE", "occurredAt"),
    (an_event(createContact="yes"), "BOOL_TYPE", "createContact"),
    (an_event(plan="pro"), "UNKNOWN_FIELD", "plan"),
    ("order.placed", "WRONG_TYPE", "body"),
]


async def test_bad_event_does_not_stop_the_others(api: Api) -> None:
    batch = [each for refused, _, _ in REFUSED for each in (refused, an_event())]
    answer = await submit(api, {"events": batch})
    content = answer.json()
    assert (answer.status_code, content["accepted"], content["refused"]) == (202, len(REFUSED), len(REFUSED))
    errors = [(result["error"]["code"], result["error"]["field"]) for result in content["results"][::2]]
    assert errors == [(code, field) for _, code, field in REFUSED]
    assert {result["status"] for result in content["results"][1::2]} == {"accepted"}
    single = await submit(api, REFUSED[0][0])
    assert (single.status_code, single.json()["errors"][0]["field"]) == (422, "event")


async def test_old_event_is_accepted_as_late(api: Api, clock: ManualClock) -> None:
    times = [clock.now() - DAY - 1, clock.now() - DAY, clock.now() + 10 * MINUTE]
    await submit(api, {"events": [an_event(eventId=str(time), occurredAt=isoformat(time)) for time in times]})
    assert {event["eventId"]: event["isLate"] for event in await stored(api)} == dict(
        zip(map(str, times), [True, False, False], strict=True)
    )


async def test_created_contact_is_not_subscribed(api: Api) -> None:
    await submit(api, an_event(createContact=True))
    contact = (await api.client.get("/v1/contacts/ada@example.com")).json()
    assert (contact["status"], contact["lists"]) == ("active", [])


async def test_events_scope_allows_only_events(api: Api) -> None:
    key = await api.engine.keys.create(1, scopes=frozenset({Scope.EVENTS}))
    async with client_of(api.app, key) as client:
        assert (await client.post("/v1/events", json=an_event())).status_code == 202
        assert (await client.get("/v1/events")).status_code == 403
        assert (await client.put("/v1/contacts/ada@example.com", json={})).status_code == 403
    key = await api.engine.keys.create(1, scopes=frozenset({Scope.SEND, Scope.READ}))
    async with client_of(api.app, key) as client:
        assert (await client.post("/v1/events", json=an_event())).status_code == 403


async def test_events_are_listed_in_pages_and_filtered(api: Api, clock: ManualClock) -> None:
    for number in range(3):
        await submit(api, {"events": [an_event(eventId=f"{number}{suffix}") for suffix in "ab"]})
        clock.advance(1)
    await submit(api, an_event(eventId="eve", email="eve@example.com", event="order.paid"))
    first = (await api.client.get("/v1/events", params={"limit": 4})).json()
    second = (await api.client.get("/v1/events", params={"limit": 4, "cursor": first["nextCursor"]})).json()
    ids = [event["eventId"] for page in (first, second) for event in page["events"]]
    assert ids == ["eve", "2b", "2a", "1b", "1a", "0b", "0a"]
    assert [event["eventId"] for event in await stored(api, email="EVE@example.com")] == ["eve"]
    assert [event["eventId"] for event in await stored(api, event="order.paid")] == ["eve"]


async def test_schema_shows_names_and_types(api: Api) -> None:
    await submit(api, {"events": [an_event(), an_event(properties={"total": "20", "code": None})]})
    await EventSchemaCounter(api.engine.database).count_all()
    [event] = (await api.client.get("/v1/events/schema")).json()["events"]
    assert (event["event"], event["count"]) == ("order.placed", 2)
    assert event["properties"] == [
        {"name": "code", "types": {"null": 1}},
        {"name": "total", "types": {"number": 1, "string": 1}},
    ]
    assert (await api.stranger.get("/v1/events/schema")).json() == {"events": []}
