"""Retention rules over HTTP: a preview first, and nothing is deleted by a request itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.retention import RetentionKind
from mailwright.storage.database import Database
from mailwright.storage.tables import audit_log
from mailwright.web.session import FORM_HEADER, form_token
from tests.api import Api, an_api, client_of
from tests.builders import DEFAULT_TENANT

ROUTE = "/v1/retention"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_all_kinds_are_off_at_first(api: Api) -> None:
    rules = (await api.client.get(ROUTE)).json()["rules"]
    assert {rule["kind"]: rule["days"] for rule in rules} == dict.fromkeys(kind.value for kind in RetentionKind)


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
    nothing = {"rows": 0, "bytes": 0, "isEstimate": False}  # The message is not finished.
    assert found.json() == {"kind": "bodies", "days": 30, **nothing}
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


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", f"{ROUTE}/audit-log", 200),
        ("DELETE", f"{ROUTE}/bodies", 204),
        ("GET", ROUTE, 200),
        ("POST", "/v1/webhooks", 201),
        ("GET", "/v1/webhooks", 200),
    ],
)
async def test_session_needs_the_role_of_the_page(api: Api, method: str, path: str, allowed: int) -> None:
    await api.client.put(f"{ROUTE}/bodies", json={"days": 30})
    body = {"days": 30} if method == "PUT" else {"url": "https://hooks.example/in"} if method == "POST" else None
    statuses = {}
    for role in Role:
        headers = await signed_in_headers(api, role)
        async with client_of(api.app) as client:
            statuses[role] = (await client.request(method, path, json=body, headers=headers)).status_code
    assert statuses == {Role.VIEWER: 403, Role.EDITOR: 403, Role.ADMIN: allowed}


async def test_audit_log_names_who_changed_a_rule(api: Api, database: Database) -> None:
    key = await api.engine.keys.create(DEFAULT_TENANT, "nightly")
    async with client_of(api.app) as client:
        by_key = {"Authorization": f"Bearer {key}"}
        by_session = await signed_in_headers(api, Role.ADMIN)
        await client.put(f"{ROUTE}/bodies", json={"days": 30}, headers=by_key)
        await client.delete(f"{ROUTE}/bodies", headers=by_session)
    async with database.read() as tx:
        a = audit_log.c
        rows = await tx.execute(select(a.action, a.actor).where(a.action.like("retention.%")).order_by(a.id))
    assert [tuple(row) for row in rows] == [("retention.set", "api:nightly"), ("retention.remove", "admin")]


async def signed_in_headers(api: Api, role: Role) -> dict[str, str]:
    user = await api.engine.users.create(
        role.value, "correct horse battery staple", role, tenant_id=DEFAULT_TENANT, actor="test"
    )
    token = await api.engine.sessions.open(user, address="127.0.0.1", agent="test")
    cookies = f"mailwright={token}; __Host-mailwright={token}"
    return {"Origin": "http://mail.example", FORM_HEADER: form_token(token), "Cookie": cookies}


async def test_export_needs_a_folder(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    async with an_api(database, clock, retention_export=tmp_path) as api:
        saved = await api.client.put(f"{ROUTE}/events", json={"days": 90, "exports": True})
    assert saved.json()["exports"] is True
