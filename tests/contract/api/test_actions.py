"""Every action refuses callers without its permission, and objects of other tenants."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from mailwright.access.roles import Role, Scope
from mailwright.actions import load_nouns
from mailwright.actions.declaration import DeclaredAction
from mailwright.domain.clock import ManualClock
from mailwright.events.outbound.deliveries import FAILED
from mailwright.storage.database import Database
from mailwright.storage.tables import audit_log, sender_domains, webhook_deliveries
from tests.api import Api, an_api, client_of
from tests.contract.dashboard.test_entry import PASSWORD, Site

ACTIONS = [action for noun in load_nouns() for action in noun.actions]
FILTER = {"tag": "vip"}
# A valid body of each action that takes one. The names of path parameters follow below.
BODIES: dict[str, Any] = {
    "contact snooze": {"until": "2027-06-01T00:00:00Z"},
    "contact put": {"legalBasis": "contract"},
    "domain add": {"name": "fresh.example"},
    "domain rotate": {"force": True},
    "form create": {"name": "Fresh", "listKey": "weekly"},
    "form edit": {"name": "Renamed", "listKey": "weekly", "title": "Join"},
    "list create": {"listKey": "fresh"},
    "list change": {"name": "Renamed"},
    "list subscribe": {"email": "ada@example.com"},
    "list unsubscribe": {"email": "ada@example.com"},
    "segment create": {"segmentKey": "fresh", "filter": FILTER},
    "segment count": {"filter": FILTER},
    "segment change": {"name": "Renamed"},
    "suppression add": {"email": "grace@example.com"},
    "webhook create": {"url": "https://example.com/fresh"},
    "webhook edit": {"url": "https://example.com/changed"},
}
# Actions that are audited only if they change something, which their request here does not.
UNCHANGED = {"domain check"}
# Actions that create the object in the caller's tenant.
MAKES_ONES_OWN = {"contact put"}


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


def named(action: DeclaredAction) -> str:
    return f"{action.noun.command} {action.name}"


@pytest.fixture
async def places(api: Api) -> dict[str, str]:
    """Return a value of the tenant `default` for each placeholder."""
    await api.client.post("/v1/lists", json={"listKey": "news"})
    await api.client.post("/v1/lists", json={"listKey": "weekly"})
    await api.client.post("/v1/segments", json={"segmentKey": "vip", "filter": FILTER})
    await api.client.put("/v1/contacts/bob@example.com", json={})
    await api.client.post("/v1/suppressions", json={"email": "bob@example.com"})
    await api.client.post("/v1/domains", json={"name": "acme.example"})
    form = (await api.client.post("/v1/forms", json={"name": "Shop", "listKey": "weekly"})).json()["formId"]
    webhook = (await api.client.post("/v1/webhooks", json={"url": "https://example.com/hook"})).json()["webhookId"]
    delivery = (await api.client.post(f"/v1/webhooks/{webhook}/test")).json()["deliveryId"]
    named = {"listKey": "news", "segmentKey": "vip", "email:path": "bob@example.com"}
    named |= {"domainName": "acme.example", "formId": form}
    return {**named, "webhookId": webhook, "deliveryId": delivery}


def request_of(action: DeclaredAction, places: dict[str, str]) -> dict[str, Any]:
    url = re.sub(r"\{([\w:]+)\}", lambda found: places[found[1]], action.path)
    return {"method": action.method, "url": url, "json": BODIES.get(named(action)) if action.has_body else None}


@pytest.mark.promise("api-key-scopes")
async def test_each_action_needs_its_scope(api: Api, places: dict[str, str]) -> None:
    for scope in Scope:
        key = await api.engine.keys.create(1, str(scope), frozenset({scope}))
        async with client_of(api.app, key) as client:
            for action in ACTIONS:
                if scope.allows(action.scope):
                    continue
                answer = await client.request(**request_of(action, places))
                assert (named(action), answer.status_code) == (named(action), 403)
                assert action.scope in answer.json()["detail"]


async def test_each_action_needs_a_key(api: Api, places: dict[str, str]) -> None:
    for action in ACTIONS:
        answer = await api.anonymous.request(**{**request_of(action, places), "json": None})
        assert (named(action), answer.status_code) == (named(action), 401)


@pytest.mark.promise("tenant-isolation")
async def test_no_action_reaches_an_object_of_another_tenant(api: Api, places: dict[str, str]) -> None:
    await api.stranger.post("/v1/lists", json={"listKey": "weekly"})  # The body of `form edit` names it.
    for action in ACTIONS:
        if action.parameters and named(action) not in MAKES_ONES_OWN:
            answer = await api.stranger.request(**request_of(action, places))
            assert (named(action), answer.status_code) == (named(action), 404)
    before = [
        (await api.client.get(f"/v1/{noun}")).json() for noun in ("lists", "segments", "suppressions", "webhooks")
    ]
    assert [len(next(iter(each.values()))) for each in before] == [2, 1, 1, 1]


async def test_each_action_works_with_its_scope_and_is_audited(api: Api, places: dict[str, str]) -> None:
    last = ("archive", "restore", "remove", "delete", "erase", "show_erasure")
    for action in sorted(ACTIONS, key=lambda each: last.index(each.name) if each.name in last else -1):
        await api.client.post("/v1/suppressions", json={"email": "bob@example.com"})  # Another action has lifted it.
        async with api.engine.database.write() as tx:
            await tx.execute(delete(audit_log))
            await tx.execute(update(webhook_deliveries).values(status=FAILED))  # Only these can be redelivered.
            await tx.execute(update(sender_domains).values(verified_at=1))  # Only its keys can be rotated.
        answer = await api.client.request(**request_of(action, places))
        assert answer.status_code == action.status, (named(action), answer.text)
        async with api.engine.database.read() as tx:
            verbs = {row.action for row in await tx.execute(select(audit_log.c.action))}
        expected = set() if action.audit is None or named(action) in UNCHANGED else {action.audit}
        assert (named(action), verbs) == (named(action), expected)


async def test_each_action_needs_its_role(api: Api, places: dict[str, str]) -> None:
    site = Site(api.app, api.engine)
    for role in Role:
        await api.engine.users.create(role, PASSWORD, role, actor="test")
        async with site.client() as client:
            client.headers["X-Form-Token"] = await site.sign_in(client, role)
            for action in ACTIONS:
                is_allowed = role.allows(action.role) and (action.scope is Scope.READ or role is not Role.VIEWER)
                if not is_allowed:
                    answer = await client.request(**request_of(action, places))
                    assert (named(action), role, answer.status_code) == (named(action), role, 403)
