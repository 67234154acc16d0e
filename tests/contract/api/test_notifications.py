"""HTTP API of notifications, with a real queue."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailwright.app.notification_queue import notification_service_opener
from mailwright.domain.clock import ManualClock
from tests.api import Api, an_api
from tests.builders import REFUSAL
from tests.notifications import QueueSetup, a_queue_setup, make_tables
from tests.standins.provider import ScriptedProvider

EXAMPLES = Path(__file__).parents[3] / "examples" / "notifications"
SEAT = {"termId": "92026", "campusCode": "NB", "indexNumber": "10001", "statusBefore": "Closed", "statusAfter": "Open"}


@dataclass(frozen=True)
class Served:
    api: Api
    setup: QueueSetup


@pytest.fixture
async def served(tmp_path: Path, empty_sqlite: bytes, clock: ManualClock) -> AsyncIterator[Served]:
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    url, theirs = f"sqlite:///{tmp_path}/mailwright.db", f"sqlite:///{tmp_path}/queue.db"
    await make_tables(theirs)
    async with a_queue_setup(url, theirs, None, clock, notify_kinds=EXAMPLES / "kinds.toml") as setup:
        opener = notification_service_opener(setup.bench.engine.settings, setup.bench.database, clock)
        async with an_api(setup.bench.database, clock, open_notifications=opener) as api:
            yield Served(api, setup)


async def test_event_notifies_each_active_subscriber_once(served: Served) -> None:
    owner = served.setup.owner
    for status in ("active", "active", "unsubscribed"):
        await owner.subscriber(1, status=status)
    await owner.subscriber(2)  # Subscribed to another section.
    payload = {"courseTitle": "Algebra", "sectionNumber": "02"}
    answer = await served.api.client.post("/v1/notifications/events", json={**SEAT, "payload": payload})
    assert (answer.status_code, answer.json()["notifications"]) == (201, 2), answer.text
    again = await served.api.client.post("/v1/notifications/events", json=SEAT)
    assert again.json() == {"openEventId": answer.json()["openEventId"], "notifications": 0, "isRepeat": True}
    provider = ScriptedProvider()
    await served.setup.round(provider)
    assert len(provider.messages) == 2
    served.setup.advance(180_000)
    later = await served.api.client.post("/v1/notifications/events", json=SEAT)
    assert (later.json()["notifications"], later.json()["isRepeat"]) == (2, False)


async def test_new_event_kind_needs_only_a_template(served: Served) -> None:
    await served.setup.owner.subscriber(1, locale="pt")
    kind = {"eventType": "back-in-stock", "statusBefore": "SoldOut", "statusAfter": "InStock"}
    said = {"variables": {"product": "Lamp", "price": "€ 20"}}
    answer = await served.api.client.post("/v1/notifications/events", json={**SEAT, **kind, "payload": said})
    assert answer.status_code == 201, answer.text
    provider = ScriptedProvider()
    await served.setup.round(provider)
    [message] = provider.messages
    assert b"Lamp" in message.content
    served.setup.advance(3_600_000)
    await served.api.client.post("/v1/notifications/events", json={**SEAT, **kind, "payload": {}})
    await served.setup.round(provider)
    assert (await served.setup.owner.error(2))["path"] == "/template/variables/product"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"eventType": "unheard-of"}, "eventType"),
        ({"statusAfter": "Closed"}, "statusAfter"),
        ({"termId": ""}, "termId"),
        ({"unknown": 1}, "unknown"),
        ({"eventAt": "yesterday"}, "eventAt"),
    ],
)
async def test_invalid_event_names_its_field_and_stores_nothing(served: Served, change: Any, field: str) -> None:
    await served.setup.owner.subscriber(1)
    answer = await served.api.client.post("/v1/notifications/events", json={**SEAT, **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field
    assert await served.setup.owner.rows() == []


async def test_ended_notification_is_explained_and_requeued(served: Served) -> None:
    number = await served.setup.owner.notification()
    await served.setup.round(ScriptedProvider(REFUSAL))
    client = served.api.client
    [shown] = (await client.get("/v1/notifications", params={"status": "failed"})).json()["notifications"]
    assert (shown["notificationId"], shown["error"]["code"], shown["wait"]) == (number, "REFUSED", None)
    requeued = (await client.post(f"/v1/notifications/{number}/requeue")).json()
    assert (requeued["status"], requeued["attempts"], requeued["error"]) == ("pending", 0, None)
    assert requeued["outlook"]
    again = await client.post(f"/v1/notifications/{number}/requeue")
    assert (again.status_code, again.json()["code"]) == (409, "NOT_POSSIBLE_NOW")


async def test_failed_notifications_are_requeued_together(served: Served) -> None:
    first, second = [await served.setup.owner.notification() for _ in range(2)]
    await served.setup.round(ScriptedProvider(REFUSAL, REFUSAL))
    client = served.api.client
    for body in ({}, {"status": "failed", "notificationId": first}):
        unclear = await client.post("/v1/notifications/requeue", json=body)
        assert (unclear.status_code, unclear.json()["errors"][0]["field"]) == (422, "status")
    one = await client.post("/v1/notifications/requeue", json={"notificationId": first})
    assert one.json() == {"requeued": 1}
    unknown = await client.post("/v1/notifications/requeue", json={"notificationId": 999_999})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "notificationId")
    rest = await client.post("/v1/notifications/requeue", json={"status": "failed"})
    assert rest.json() == {"requeued": 1}
    assert (await client.get(f"/v1/notifications/{second}")).json()["status"] == "pending"
    refused = await client.post("/v1/notifications/requeue", json={"status": "sent"})
    assert (refused.status_code, refused.json()["code"]) == (409, "NOT_POSSIBLE_NOW")


@pytest.mark.promise("tenant-isolation")
async def test_queue_is_visible_to_its_tenant_only(served: Served) -> None:
    number = await served.setup.owner.notification()
    stranger = served.api.stranger
    assert (await stranger.get("/v1/notifications")).json() == {"notifications": [], "nextCursor": None}
    assert (await stranger.get(f"/v1/notifications/{number}")).status_code == 404
    assert (await stranger.post(f"/v1/notifications/{number}/requeue")).status_code == 404
    assert (await stranger.post("/v1/notifications/events", json=SEAT)).status_code == 409
    assert len(await served.setup.owner.rows()) == 1
    assert (await served.api.client.get(f"/v1/notifications/{number}")).json()["to"] == "reader1@example.com"
