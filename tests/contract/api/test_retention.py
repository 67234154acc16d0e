"""Retention rules over HTTP: a preview first, and nothing is deleted by a request itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailwright.domain.clock import DAY, ManualClock
from mailwright.storage.database import Database
from tests.api import Api, an_api

ROUTE = "/v1/retention"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_all_kinds_are_off_at_first(api: Api) -> None:
    rules = (await api.client.get(ROUTE)).json()["rules"]
    assert {rule["kind"]: rule["days"] for rule in rules} == dict.fromkeys(
        ("bodies", "events", "messages", "reports", "audit-log", "imports")
    )


async def test_rule_is_set_changed_and_removed(api: Api) -> None:
    saved = await api.client.put(f"{ROUTE}/bodies", json={"days": 90})
    assert (saved.status_code, saved.json()["days"], saved.json()["minDays"]) == (200, 90, 7)
    changed = await api.client.put(f"{ROUTE}/bodies", json={"days": 30})
    assert changed.json()["days"] == 30
    assert (await api.client.delete(f"{ROUTE}/bodies")).status_code == 204
    assert (await api.client.delete(f"{ROUTE}/bodies")).status_code == 404


async def test_preview_counts_and_deletes_nothing(api: Api, clock: ManualClock) -> None:
    await api.send(to="reader@example.com")
    clock.advance(40 * DAY)
    found = await api.client.get(f"{ROUTE}/bodies/preview", params={"days": 30})
    assert found.json() == {"kind": "bodies", "days": 30, "rows": 0, "bytes": 0}  # The message is not finished.
    assert (await api.client.get(ROUTE)).json()["rules"][0]["days"] is None


@pytest.mark.parametrize(
    ("kind", "body", "status", "text"),
    [
        ("bodies", {"days": 6}, 422, "7 to"),
        ("messages", {"days": 29}, 422, "30 to"),
        ("bodies", {"days": 0}, 422, "days"),
        ("bodies", {}, 422, "days"),
        ("bodies", {"days": 90, "exports": True}, 422, "MAILWRIGHT_RETENTION_EXPORT"),
        ("contacts", {"days": 90}, 404, "There is no kind of data contacts"),
    ],
)
async def test_bad_rule_is_refused(api: Api, kind: str, body: dict[str, object], status: int, text: str) -> None:
    answer = await api.client.put(f"{ROUTE}/{kind}", json=body)
    assert answer.status_code == status
    assert text in answer.text
    assert all(rule["days"] is None for rule in (await api.client.get(ROUTE)).json()["rules"])


async def test_export_needs_a_folder(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    async with an_api(database, clock, retention_export=tmp_path) as api:
        saved = await api.client.put(f"{ROUTE}/events", json={"days": 90, "exports": True})
    assert saved.json()["exports"] is True
