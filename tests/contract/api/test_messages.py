"""HTTP API of messages: search, show, cancel, retry and resolve."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mailwright.domain.clock import HOUR, ManualClock
from mailwright.schemas.paging import encode_cursor
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.contract.outbox.test_operations import a_failed_message, a_message_in_doubt
from tests.engines import on_sqlite

UNKNOWN = "01a1dce8-30b8-745e-9adf-a067f60952fb"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def page(api: Api, **query: Any) -> dict[str, Any]:
    answer = await api.client.get("/v1/email", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_message_is_shown_with_its_events(api: Api) -> None:
    outbox_id = await api.send(
        tags=["receipt"], metadata={"order": 7}, recipient={"externalId": "42"}, expiresAt="2027-02-01T00:00:00Z"
    )
    await api.client.post(f"/v1/email/{outbox_id}/cancel")
    shown = (await api.client.get(f"/v1/email/{outbox_id}")).json()
    now = "2027-01-15T08:00:00.000Z"
    ids = {"outboxId": outbox_id, "requestId": shown["requestId"]}
    assert shown == {
        **ids,
        "companyId": "default",
        "recipientId": None,
        "externalId": "42",
        "to": "reader@example.com",
        "subject": "Hello",
        "status": "CANCELLED",
        "provider": None,
        "providerMessageId": None,
        "sesMessageId": None,
        "errorCode": None,
        "errorReason": None,
        "errorCategory": None,
        "lastError": None,
        "attempts": 0,
        "durationMs": None,
        "source": "api",
        "createdAt": now,
        "scheduledAt": None,
        "expiresAt": "2027-02-01T00:00:00.000Z",
        "copyOf": None,
        "nextAttemptAt": None,
        "sentAt": None,
        "failedAt": None,
        "processedAt": None,
        "deferReason": None,
        "shownStatus": "CANCELLED",
        "explanation": None,
        "tags": ["receipt"],
        "metadata": {"order": 7},
        "events": [{"type": "CANCELLED", "createdAt": now, "metadata": {"previousStatus": "PENDING", **ids}}],
    }


async def test_pages_are_followed_by_their_cursor(api: Api) -> None:
    sent = [await api.send(to=f"reader{number}@example.com") for number in range(5)]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        answer = await page(api, **query)
        found.extend(message["outboxId"] for message in answer["messages"])
        if answer["nextCursor"] is None:
            break
        query = {"limit": 2, "cursor": answer["nextCursor"]}
    assert found == sent[::-1]


async def test_search_filters_by_address_state_source_and_time(api: Api, clock: ManualClock) -> None:
    await a_failed_message(api.engine.database, clock)
    clock.advance(HOUR)
    ann = await api.send(to="Ann@Exämple.com")

    async def found(**query: Any) -> list[str]:
        return [message["outboxId"] for message in (await page(api, **query))["messages"]]

    assert await found(to="ANN@exämple.com") == [ann]
    assert await found(status="PENDING", source="api") == [ann]
    assert await found(since="2027-01-15T09:00:00Z") == [ann]
    assert await found(until="2027-01-15T09:00:00+00:00", status="PENDING") == []
    assert len(await found(status="FAILED")) == 1
    assert await found(source="campaign") == []


@on_sqlite
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"stauts": "FAILED"}, "stauts"),
        ({"status": "LOST"}, "status"),
        ({"source": "smoke"}, "source"),
        ({"to": "nobody"}, "to"),
        ({"to": "a\0@example.com"}, "to"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2027-01-15T08:00:00"}, "until"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "ü"}, "cursor"),
        ({"cursor": encode_cursor("suppression", 7)}, "cursor"),
        ({"cursor": encode_cursor("message", 7, 7)}, "cursor"),
        ({"cursor": encode_cursor("message", 2**63)}, "cursor"),
        ({"cursor": encode_cursor("message", 7) + "="}, "cursor"),
    ],
)
async def test_invalid_search_is_named(api: Api, query: dict[str, Any], field: str) -> None:
    answer = await api.client.get("/v1/email", params=query)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.promise("dead-letter")
async def test_dead_letter_is_listed_and_retried(api: Api, clock: ManualClock) -> None:
    dead_letters = [await a_failed_message(api.engine.database, clock) for _ in range(3)]
    first = (await api.client.get("/v1/dead-letters", params={"limit": 2})).json()
    rest = (await api.client.get("/v1/dead-letters", params={"cursor": first["nextCursor"]})).json()
    listed = [*first["deadLetters"], *rest["deadLetters"]]
    assert [dead_letter["outboxId"] for dead_letter in listed] == dead_letters[::-1]
    assert (listed[0]["code"], listed[0]["attempts"]) == ("MAX_ATTEMPTS_EXCEEDED", 1)
    assert rest["nextCursor"] is None
    answer = await api.client.post(f"/v1/email/{dead_letters[0]}/retry")
    assert (answer.status_code, answer.json()) == (200, {"outboxId": dead_letters[0], "status": "PENDING"})
    left = (await api.client.get("/v1/dead-letters")).json()["deadLetters"]
    assert [dead_letter["outboxId"] for dead_letter in left] == [dead_letters[2], dead_letters[1]]


@pytest.mark.promise("doubt-hold")
@pytest.mark.parametrize(
    ("word", "status"), [("sent", "SENT"), ("resend", "RETRY_SCHEDULED"), ("close", "CLOSED_UNKNOWN")]
)
async def test_message_in_doubt_is_resolved(api: Api, clock: ManualClock, word: str, status: str) -> None:
    outbox_id, _ = await a_message_in_doubt(api.engine.database, clock)
    answer = await api.client.post(f"/v1/email/{outbox_id}/resolve", json={"as": word})
    assert (answer.status_code, answer.json()) == (200, {"outboxId": outbox_id, "status": status})
    again = await api.client.post(f"/v1/email/{outbox_id}/resolve", json={"as": word})
    assert (again.status_code, again.json()["code"]) == (409, "NOT_POSSIBLE_NOW")


@pytest.mark.parametrize("body", [{}, {"as": "lost"}, {"as": "sent", "why": "x"}, {"as": None}, []])
async def test_resolution_must_be_a_known_value(api: Api, body: Any) -> None:
    answer = await api.client.post(f"/v1/email/{UNKNOWN}/resolve", json=body)
    assert answer.status_code == 422


async def test_impossible_action_is_409(api: Api) -> None:
    outbox_id = await api.send()
    assert (await api.client.post(f"/v1/email/{outbox_id}/cancel")).json()["status"] == "CANCELLED"
    for act in ("cancel", "retry"):
        answer = await api.client.post(f"/v1/email/{outbox_id}/{act}")
        assert (answer.status_code, answer.json()["code"]) == (409, "NOT_POSSIBLE_NOW")


@pytest.mark.parametrize("outbox_id", [UNKNOWN, UNKNOWN.upper(), "nonsense", "a%00b", "%F0%9F%8E%89", "1"])
async def test_unknown_resource_is_404(api: Api, outbox_id: str) -> None:
    answers = [
        await api.client.get(f"/v1/email/{outbox_id}"),
        await api.client.post(f"/v1/email/{outbox_id}/cancel"),
        await api.client.post(f"/v1/email/{outbox_id}/retry"),
        await api.client.post(f"/v1/email/{outbox_id}/resolve", json={"as": "sent"}),
        await api.client.get("/v1/nothing"),
    ]
    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(404, "NOT_FOUND")}


async def test_unsupported_method_is_405(api: Api) -> None:
    answer = await api.client.put("/v1/email/send")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["content-type"] == "application/problem+json"
