"""A request to send is accepted once and durably, or rejected with nothing stored."""

import asyncio
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import insert

from mailwright.domain.clock import DAY, ManualClock, isoformat
from mailwright.domain.ids import is_uuid
from mailwright.outbox import message_records
from mailwright.storage.database import Database
from mailwright.storage.tables import templates
from mailwright.web.app import create_app
from tests.api import Api, a_request, an_api, an_engine, client_of
from tests.builders import claims_of
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite
from tests.unit.test_api_models import BROKEN

SEND = "/v1/email/send"
BATCH = "/v1/email/batch"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def a_template(api: Api, template_id: str, version: int = 1, tenant_id: int = 1) -> None:
    values = {
        "tenant_id": tenant_id,
        "template_id": template_id,
        "version": version,
        "subject": f"Welcome, version {version}",
        "html": "<p>{{ name }}</p>",
        "created_at": 1,
    }
    async with api.engine.database.write() as tx:
        await tx.execute(insert(templates).values(**values))


async def test_accepted_request_can_be_claimed(api: Api, clock: ManualClock) -> None:
    answer = await api.client.post(SEND, json=a_request(), headers={"X-Request-Id": "mine-7"})
    assert answer.status_code == 202
    accepted = answer.json()
    assert is_uuid(accepted["outboxId"])
    assert accepted == {
        "outboxId": accepted["outboxId"],
        "jobId": accepted["outboxId"],
        "requestId": "mine-7",
        "status": "PENDING",
    }
    assert answer.headers["X-Request-Id"] == "mine-7"
    [claimed] = await claims_of(api.engine.database, clock).claim(10)
    assert claimed.outbox_id == accepted["outboxId"]
    assert claimed.request_id == "mine-7"
    assert claimed.payload == {"to": "reader@example.com", "subject": "Hello", "html": "<p>Hello</p>"}
    assert claimed.external_id is not None


@pytest.mark.promise("sender-domains")
async def test_foreign_from_is_accepted_with_a_warning(api: Api) -> None:
    foreign, own = ({**a_request(), "from": sender} for sender in ("boss@bank.example", "Shop <a@mail.example.com>"))
    accepted = (await api.client.post(SEND, json=foreign)).json()
    assert [each["code"] for each in accepted["warnings"]] == ["FOREIGN_FROM"]
    stored = (await api.client.get(f"/v1/email/{accepted['outboxId']}")).json()
    assert stored["warnings"] == accepted["warnings"]
    results = (await api.client.post("/v1/email/batch", json={"messages": [own, foreign]})).json()["results"]
    assert ["warnings" in result for result in results] == [False, True]


async def test_request_id_is_generated_if_missing(api: Api) -> None:
    answer = await api.client.post(SEND, json=a_request())
    assert is_uuid(answer.headers["X-Request-Id"])
    assert answer.json()["requestId"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize("given", ["", "x" * 129, "tab\there", "ünïcode"])
async def test_invalid_request_id_is_rejected(api: Api, given: str) -> None:
    before = await api.stored()
    answer = await api.client.post(SEND, json=a_request(), headers={b"X-Request-Id": given.encode()})
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["X-Request-Id"]
    assert is_uuid(answer.headers["X-Request-Id"])
    assert await api.stored() == before


@pytest.mark.promise("api-bad-input-stores-nothing")
async def test_invalid_input_is_422_and_stores_nothing(api: Api) -> None:
    before = await api.stored()
    for changes, field, code in BROKEN:
        answer = await api.client.post(SEND, content=orjson.dumps(a_request(**changes)), headers=JSON)
        assert answer.status_code == 422, (changes, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["code"] == "INVALID_REQUEST"
        assert problem["status"] == 422
        assert (field, code) in {(error["field"], error["code"]) for error in problem["errors"]}
    assert await api.stored() == before


@on_sqlite
@pytest.mark.promise("api-bad-input-stores-nothing")
@pytest.mark.parametrize("route", [SEND, BATCH])
@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{", JSON, 400, "INVALID_JSON"),
        (b"", JSON, 400, "INVALID_JSON"),
        (b'{"to": NaN}', JSON, 400, "INVALID_JSON"),
        (b'{"to": "\xff"}', JSON, 400, "INVALID_JSON"),
        (b"[" * 100_000, JSON, 400, "INVALID_JSON"),
        (b"[]", JSON, 422, "INVALID_REQUEST"),
        (b'"text"', JSON, 422, "INVALID_REQUEST"),
        (b"null", JSON, 422, "INVALID_REQUEST"),
        (b"{}", JSON, 422, "INVALID_REQUEST"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"{}", {}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"{}", {**JSON, "Idempotency-Key": "x" * 256}, 422, "INVALID_REQUEST"),
        (b"{}", {**JSON, "Idempotency-Key": ""}, 422, "INVALID_REQUEST"),
    ],
)
async def test_unreadable_body_is_rejected(
    api: Api, route: str, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    before = await api.stored()
    answer = await api.client.post(route, content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert await api.stored() == before


@pytest.mark.parametrize("is_announced", [True, False])
async def test_body_over_the_limit_is_413(api: Api, is_announced: bool) -> None:
    chunk = b" " * 1024 * 1024

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield chunk

    before = await api.stored()
    answer = await api.client.post(SEND, content=chunk * 17 if is_announced else chunks(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert await api.stored() == before


async def test_scheduled_message_waits_for_its_time(api: Api, clock: ManualClock) -> None:
    await api.send(scheduledAt=isoformat(clock.now() + DAY))
    worker = claims_of(api.engine.database, clock)
    assert await worker.claim(10) == []
    clock.advance(DAY)
    assert len(await worker.claim(10)) == 1


async def test_schedule_over_a_year_ahead_is_rejected(api: Api, clock: ManualClock) -> None:
    before = await api.stored()
    answer = await api.client.post(SEND, json=a_request(scheduledAt=isoformat(clock.now() + 367 * DAY)))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "scheduledAt")
    assert await api.stored() == before


async def test_template_is_sent_in_its_latest_version(api: Api, clock: ManualClock) -> None:
    await a_template(api, "welcome", 1)
    await a_template(api, "welcome", 2)
    await a_template(api, "welcome", 9, tenant_id=2)
    outbox_id = await api.send(html=None, subject=None, templateId="welcome", variables={"name": "Jane"})
    record = await message_records.find(api.engine.database, outbox_id, tenant_id=1)
    assert record.summary.subject == "Welcome, version 2"
    [claimed] = await claims_of(api.engine.database, clock).claim(1)
    assert claimed.template_key == 2
    assert claimed.payload == {"to": "reader@example.com", "variables": {"name": "Jane"}}


async def test_unknown_or_foreign_template_is_rejected(api: Api) -> None:
    await a_template(api, "theirs", tenant_id=2)
    before = await api.stored()
    for template_id in ("missing", "theirs"):
        answer = await api.client.post(SEND, json=a_request(html=None, templateId=template_id))
        assert (answer.status_code, answer.json()["code"]) == (422, "TEMPLATE_NOT_FOUND")
        assert answer.json()["errors"][0]["field"] == "templateId"
    assert await api.stored() == before


async def test_same_key_and_body_return_the_first_message(api: Api) -> None:
    headers = {"Idempotency-Key": "order-7"}
    first = await api.client.post(SEND, json=a_request(metadata={"a": 1, "b": 2}), headers=headers)
    stored = await api.stored()
    other_spelling = (
        b'{"metadata": {"b": 2, "a": 1}, "html":"<p>Hello</p>","subject":"Hello",  "to":"reader@example.com"}'
    )
    again = await api.client.post(SEND, content=other_spelling, headers={**headers, **JSON})
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replay"] == "true"
    assert "Idempotent-Replay" not in first.headers
    assert await api.stored() == stored


async def test_same_key_with_another_body_is_a_conflict(api: Api) -> None:
    headers = {"Idempotency-Key": "order-7"}
    await api.client.post(SEND, json=a_request(), headers=headers)
    stored = await api.stored()
    answer = await api.client.post(SEND, json=a_request(subject="Another"), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert await api.stored() == stored


async def test_key_belongs_to_its_tenant(api: Api) -> None:
    headers = {"Idempotency-Key": "order-7"}
    ours = await api.client.post(SEND, json=a_request(), headers=headers)
    theirs = await api.stranger.post(SEND, json=a_request(subject="Another"), headers=headers)
    assert (ours.status_code, theirs.status_code) == (202, 202)


async def test_fifty_clients_accept_one_message_per_idempotency_key(api: Api) -> None:
    async def send(key: int) -> httpx.Response:
        return await api.client.post(SEND, json=a_request(), headers={"Idempotency-Key": f"key-{key}"})

    answers = await asyncio.gather(*(send(key) for key in range(10) for _ in range(50)))
    assert sorted({answer.status_code for answer in answers}) == [200, 202]
    assert sum(answer.status_code == 202 for answer in answers) == 10
    assert len({answer.json()["outboxId"] for answer in answers}) == 10
    assert len(await message_records.search(api.engine.database, 1, message_records.MessageSearch(), limit=200)) == 10


async def test_two_processes_accept_one_message_per_idempotency_key(
    api: Api, engine: DatabaseAddress, clock: ManualClock
) -> None:
    other_process = Database(engine.url)
    app = create_app(an_engine(other_process, clock))
    keys = [{"Idempotency-Key": f"key-{key}"} for key in range(20)]
    async with client_of(app, api.key) as other:
        answers = await asyncio.gather(
            *(client.post(SEND, json=a_request(), headers=key) for key in keys for client in (api.client, other))
        )
    await other_process.close()
    assert sum(answer.status_code == 202 for answer in answers) == 20
    assert len({answer.json()["outboxId"] for answer in answers}) == 20


async def test_invalid_batch_item_does_not_stop_others(api: Api) -> None:
    items = [
        a_request(to="one@example.com"),
        a_request(to="nobody"),
        "not an object",
        a_request(html=None, templateId="missing"),
        a_request(to="two@example.com"),
    ]
    answer = await api.client.post(BATCH, json={"messages": items}, headers={"X-Request-Id": "batch-1"})
    assert answer.status_code == 202
    first, second, third, fourth, fifth = answer.json()["results"]
    assert second == {"error": {"code": "INVALID_EMAIL", "detail": "must look like name@example.com", "field": "to"}}
    assert third["error"]["code"] == "WRONG_TYPE"
    assert fourth["error"]["code"] == "TEMPLATE_NOT_FOUND"
    found = await message_records.search(api.engine.database, 1, message_records.MessageSearch(), limit=10)
    assert {message.outbox_id: message.to_email for message in found} == {
        first["outboxId"]: "one@example.com",
        fifth["outboxId"]: "two@example.com",
    }
    assert {message.request_id for message in found} == {"batch-1"}
    assert first["status"] == "PENDING"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [a_request()] * 1_001}, "messages"),
        ({"messages": "all"}, "messages"),
        ({}, "messages"),
        ({"messages": [a_request()], "atomic": True}, "atomic"),
    ],
)
async def test_invalid_batch_stores_nothing(api: Api, body: dict[str, Any], field: str) -> None:
    before = await api.stored()
    answer = await api.client.post(BATCH, json=body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    assert await api.stored() == before


async def test_batch_accepts_a_thousand_messages(api: Api) -> None:
    items = [a_request(to=f"reader{n}@example.com") for n in range(1_000)]
    answer = await api.client.post(BATCH, json={"messages": items})
    assert len({result["outboxId"] for result in answer.json()["results"]}) == 1_000


async def test_repeated_batch_sends_once_and_reports_conflicts(api: Api) -> None:
    headers = {"Idempotency-Key": "batch-7"}
    items = [a_request(to=f"reader{n}@example.com") for n in range(3)]
    first = await api.client.post(BATCH, json={"messages": items}, headers=headers)
    items[1] = a_request(to="somebody@example.com")
    again = await api.client.post(BATCH, json={"messages": [*items, a_request()]}, headers=headers)
    before, after = first.json()["results"], again.json()["results"]
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1]["error"]["code"] == "IDEMPOTENCY_CONFLICT"
    assert after[3]["outboxId"] not in {result["outboxId"] for result in before}


async def test_unexpected_error_shows_no_internals(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("password=hunter2 in /srv/secret.py")

    monkeypatch.setattr(message_records, "find", fail)
    monkeypatch.setattr("mailwright.web.errors.log", SimpleNamespace(error=lambda *_, **__: None))
    answer = await api.client.get("/v1/email/anything")
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_ERROR")
    assert "hunter2" not in answer.text
    assert is_uuid(answer.headers["X-Request-Id"])


async def test_repeated_request_after_its_send_time_gets_the_stored_answer(api: Api, clock: ManualClock) -> None:
    later = isoformat(clock.now() + DAY)
    email, key = a_request(scheduledAt=later), {"Idempotency-Key": "order-7"}
    raw = f"From: a@example.com\r\nTo: b@example.com, c@example.com\r\nX-Mailwright-Send-At: {later}\r\n\r\nHi\r\n"
    resend = {"from": "a@example.com", "to": ["b@example.com", "c@example.com"], "subject": "Hi", "text": "Hi"}
    requests: list[tuple[str, dict[str, Any]]] = [
        (SEND, {"json": email, "headers": key}),
        (BATCH, {"json": {"messages": [email, a_request()]}, "headers": key}),
        ("/v1/email/raw", {"content": raw.encode(), "headers": {**key, "Content-Type": "message/rfc822"}}),
        ("/emails", {"json": {**resend, "scheduled_at": later}, "headers": key}),
        ("/emails/batch", {"json": [{**resend, "scheduled_at": later}], "headers": {**key, "Idempotency-Key": "2"}}),
    ]
    permissive = {"Idempotency-Key": "3", "x-batch-validation": "permissive"}
    requests.append(("/emails/batch", {"json": [{**resend, "scheduled_at": later}], "headers": permissive}))
    first = [await api.client.post(path, **request) for path, request in requests]
    assert all(answer.is_success for answer in first), [answer.text for answer in first]
    stored = await api.stored()
    clock.advance(2 * DAY)
    again = [await api.client.post(path, **request) for path, request in requests]
    assert [_ids(answer) for answer in again] == [_ids(answer) for answer in first]
    assert again[0].headers["Idempotent-Replay"] == "true"
    assert await api.stored() == stored
    changed = await api.client.post(SEND, json={**email, "subject": "Other"}, headers=key)
    assert (changed.status_code, changed.json()["errors"][0]["code"]) == (422, "IN_THE_PAST")
    assert (await api.client.post(SEND, json=email)).status_code == 422


def _ids(answer: httpx.Response) -> list[str]:
    """Return all ids in a response, in their order."""
    return re.findall(r'"(?:outboxId|id)":"([\w-]+)"', answer.text.replace(" ", ""))
