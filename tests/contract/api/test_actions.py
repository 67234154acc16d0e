"""Every action refuses callers without its permission, and objects of other tenants."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import delete, select, update

from mailwright.access.roles import PLATFORM_SCOPES, Role, Scope
from mailwright.actions import load_nouns
from mailwright.actions.declaration import DeclaredAction
from mailwright.domain.clock import ManualClock
from mailwright.events.outbound.deliveries import FAILED
from mailwright.outbox import tenants
from mailwright.sources.articles.runs import RunRequest
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.send_approvals import PlannedSend, SendKind, require_approval
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys, audit_log, sender_domains, sequence_enrolments, webhook_deliveries
from tests.api import Api, a_request, an_api, client_of
from tests.contract.dashboard.test_entry import PASSWORD, Site
from tests.pictures import a_png

ACTIONS = [action for noun in load_nouns() for action in noun.actions]
OF_TENANTS = [action for action in ACTIONS if not action.is_platform]
OF_PLATFORM = [action for action in ACTIONS if action.is_platform]
FILTER = {"tag": "vip"}
A_SEQUENCE = {"name": "Welcome", "trigger": {"manual": True}, "steps": [{"id": "pause", "wait": {"days": 1}}]}
# A valid body of each action that takes one. The names of path parameters follow below.
CAMPAIGN = {
    "name": "News",
    "lists": ["weekly"],
    "filter": {"tag": "nobody"},
    "content": {"subject": "News", "body": "<p>{{ unsubscribe_url }}</p>"},
}
A_SLICE = {"article_key": "spring-vote", "body_md": "Hello", "publish_status": "published"}
BODIES: dict[str, Any] = {
    "approval change_rule": {"over": 100},
    "approval approve_send": {"digest": "0"},
    "approval reject_send": {"digest": "0", "comment": "Too early."},
    "archive set_archived": {"isPublic": True},
    "article preview": {},
    "article coverage": {},
    "article put_slice": {**A_SLICE, "sort_index": 1},
    "article change_slice": {**A_SLICE, "title": "Vote"},
    "brand save_brand": {"name": "Acme"},
    "brand edit_brand": {"primary": "#112233"},
    "campaign create": CAMPAIGN,
    "campaign edit": {**CAMPAIGN, "name": "Renamed"},
    "campaign reschedule": {"scheduledAt": None},
    "campaign move": {"position": 1},
    "campaign resolve_in_doubt": {"as": "close"},
    "campaign duplicate": {},
    "campaign test": {"addresses": ["me@example.com"]},
    "campaign extend": {},
    "campaign choose_winner": {"version": "A"},
    "campaign edit_limits": {"dailyLimit": 5},
    "campaign attach": {"filename": "a.txt", "content": "aGVsbG8="},
    "campaign approve": {"digest": "0"},
    "campaign make_segment": {"of": "sent"},
    "campaign resend": {"subject": "Again"},
    "campaign reject": {"digest": "0", "comment": "Too dear."},
    "campaign set_repeat": {"time": "09:00"},
    "contact snooze": {"until": "2027-06-01T00:00:00Z"},
    "contact put": {"legalBasis": "contract"},
    "contact legal_basis": {"basis": "contract"},
    "contact tracking_consent": {"isGiven": False},
    "domain add": {"name": "fresh.example"},
    "domain rotate": {"force": True},
    "form create": {"name": "Fresh", "listKey": "weekly"},
    "form edit": {"name": "Renamed", "listKey": "weekly", "title": "Join"},
    "image change": {"alt": "Our logo"},
    "key create": {"tenant": "other"},
    "key edit": {"owner": "ada"},
    "list create": {"listKey": "fresh"},
    "list change": {"name": "Renamed"},
    "list subscribe": {"email": "ada@example.com"},
    "list unsubscribe": {"email": "ada@example.com"},
    "notify emit": {"termId": "1", "campusCode": "NB", "indexNumber": "2", "statusAfter": "Open"},
    "notify requeue_many": {"status": "failed"},
    "provider create_provider": {"name": "acme", "kind": "mailbox"},
    "provider edit_provider": {"settings": {"MAILWRIGHT_RATE_PER_HOUR": "100"}},
    "provider set_provider_route": {"tenant": "empty", "provider": "spare"},
    "report-source create_report_source": {"name": "postfix-2"},
    "retention save": {"days": 90},
    "segment create": {"segmentKey": "fresh", "filter": FILTER},
    "segment count": {"filter": FILTER},
    "segment change": {"name": "Renamed"},
    "message resolve": {"as": "close"},
    "sequence create": {"document": A_SEQUENCE},
    "sequence edit": {"document": A_SEQUENCE, "revision": 1},
    "sequence publish": {},
    "sequence resume": {"overdue": "send"},
    "sequence enrol": {"emails": ["carol@example.com"]},
    "sequence retry": {},
    "sequence remove_person": {"email": "carol@example.com"},
    "sequence rehearse": {},
    "suppression add": {"email": "grace@example.com"},
    "template write": {"subject": "Hello", "html": "<p>Hello</p>"},
    "template preview": {},
    "setting change": {"settings": {"MAILWRIGHT_DAILY_LIMIT": "5000"}},
    "user create": {"login": "fresh", "password": PASSWORD, "allTenants": True},
    "user invite": {"email": "grace@example.com", "allTenants": True},
    "user change": {"role": "editor"},
    "tenant create": {"name": "fresh"},
    "tenant edit": {"weight": 2},
    "webhook create": {"url": "https://example.com/fresh"},
    "webhook edit": {"url": "https://example.com/changed"},
}
# The query parameters of actions that need some.
QUERIES: dict[str, dict[str, Any]] = {
    "archive list_archived": {"listKey": "news"},
    "contact create": {"vendor": "listmonk"},
    "image upload": {"name": "new.png"},
    "provider delete_provider_route": {"tenant": "empty"},
    "retention preview": {"days": 30},
}
# The body of actions that take a file.
PEOPLE = b"email\nada@example.com\n"
SLICES = b"article_key,section_order,body_md\nspring-vote,3,Hello\n"
FILES: dict[str, bytes] = {"image upload": a_png(), "dmarc import_file": b"no report", "article import_slices": SLICES}
# Actions that other tests perform, because they need what happens in the background, or a deleted object.
ELSEWHERE = {"contact report", "contact start", "domain unrestrict", "image restore"}
# Actions that are audited only if they change something, which their request here does not.
UNCHANGED = {"domain check"}
# Actions that need a campaign with recipients, while the one here is an empty draft. Other tests perform them.
NEED_RECIPIENTS = {
    "archive show_archived",
    "archive set_archived",
    "campaign start",
    "campaign override_sender_rules",
    "campaign move",
    "campaign pause",
    "campaign resume",
    "campaign withdraw",
    "campaign retry_failed",
    "campaign resolve_in_doubt",
    "campaign accept_failures",
    "campaign request_approval",
    "campaign resend",
    "campaign show_extension",
    "campaign extend",
    "campaign choose_winner",
    "campaign show_guard_rails",
    "campaign accept_incidents",
    "campaign open_wave",
    "campaign show_repeat",
}
# Actions that need a queue of notifications. Other tests perform them.
NEED_QUEUE = {"notify emit", "notify show", "notify requeue", "notify requeue_many"}
# Actions that need a failed message or one in doubt, while the one here waits. Other tests perform them.
NEED_OTHER_STATUS = {"message retry", "message resolve"}
# Actions that only signed-in users can perform. Other tests perform them.
NEED_PERSON = {
    "approval change_rule",
    "approval withdraw_send",
    "approval approve_send",
    "approval reject_send",
    "campaign withdraw_request",
    "campaign approve",
    "campaign reject",
}
# Actions whose object is that of the caller's tenant.
MAKES_ONES_OWN = {"contact put", "retention preview", "retention save", "template write"}


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, imports=tmp_path / "imports", images=tmp_path / "images") as api:
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
    for html in ("<p>Hello</p>", "<p>Hello again</p>"):
        await api.client.put("/v1/templates/receipt", json={"subject": "Hello", "html": html})
    await api.client.post("/v1/lists/weekly/subscribe", json={"email": "carol@example.com", "confirmed": True})
    sequence = (await api.client.post("/v1/sequences", json={"document": A_SEQUENCE})).json()["sequenceId"]
    named |= {"sequenceId": sequence, "templateId": "receipt", "domainName": "acme.example", "formId": form}
    await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    await tenants.create(api.engine.database, api.engine.clock, "empty")
    key = await api.engine.keys.issue(1, "spare")
    await api.engine.users.create("linus", PASSWORD, Role.VIEWER, actor="test")
    await api.engine.report_sources.create("postfix-1", tenant_id=None, provider=None, actor="test")
    await api.client.put("/v1/retention/bodies", json={"days": 30})
    image = await api.client.post("/v1/images", content=a_png(), params={"name": "logo.png"})
    begun = await api.client.post("/v1/contacts/imports", content=PEOPLE)
    move = await api.client.post("/v1/contacts/moves", content=PEOPLE, params={"vendor": "listmonk"})
    named |= {"kind": "bodies", "imageName": image.json()["name"], "importId": begun.json()["importId"]}
    named |= {"moveId": move.json()["moveId"]}
    await api.engine.providers.create("spare", "mailbox", {}, actor="test")
    platform = {
        "providerName": "spare",
        "tenantName": "empty",
        "keyId": str(key.id),
        "login": "linus",
        "settingName": "daily_limit",
        "sourceName": "postfix-1",
    }
    campaign = (await api.client.post("/v1/campaigns", json=CAMPAIGN)).json()["campaignId"]
    attached = await api.client.post(f"/v1/campaigns/{campaign}/attachments", json=BODIES["campaign attach"])
    named |= {"campaignId": campaign, "attachmentId": attached.json()["attachments"][0]["attachmentId"]}
    message = (await api.client.post("/v1/email/send", json=a_request())).json()["outboxId"]
    named |= {"outboxId": message}
    named |= {"notificationId": "1"}
    named |= {"approvalId": await _request_approval(api)}
    mailout = await api.engine.mailout_runs.accept(1, token_hex(16), actor="test")
    stored = (await api.client.put("/v1/slices", json=A_SLICE)).json()
    order = RunRequest("spring", A_SLICE["article_key"], str(uuid4()), {})
    run, _ = await api.engine.article_runs.start("test", 1, order)
    named |= {"mailoutId": mailout.mailout_id, "sliceId": stored["slice_id"], "runId": run.run_id}
    named |= {"articleKey": A_SLICE["article_key"]}
    return {**named, **platform, "webhookId": webhook, "deliveryId": delivery}


async def _request_approval(api: Api) -> str:
    """Request the approval of a sequence, and return its id."""
    database, clock = api.engine.database, api.engine.clock
    await tenants.change(database, tenants.DEFAULT, approval_over=0)
    with pytest.raises(AwaitsApproval):
        await require_approval(
            database, clock, PlannedSend(1, SendKind.SEQUENCE, "welcome", "Welcome", 3, {}), actor="ada"
        )
    await tenants.change(database, tenants.DEFAULT, approval_over=None)
    [waiting] = await api.engine.send_approvals.list_waiting(1)
    return str(waiting.id)


@pytest.fixture
async def platform(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client with a platform key."""
    async with client_of(api.app, await api.engine.keys.create(None, "ops", PLATFORM_SCOPES)) as client:
        yield client


async def key_with(api: Api, scope: Scope) -> str:
    return await api.engine.keys.create(None if scope.is_platform else 1, str(scope), frozenset({scope}))


def request_of(action: DeclaredAction, places: dict[str, str]) -> dict[str, Any]:
    url = re.sub(r"\{([\w:]+)\}", lambda found: places[found[1]], action.path)
    if action.file_body is not None:
        content = FILES.get(named(action), PEOPLE)
        return {"method": action.method, "url": url, "content": content, "params": QUERIES.get(named(action))}
    given = {"json": BODIES.get(named(action)) if action.has_body else None, "params": QUERIES.get(named(action))}
    return {"method": action.method, "url": url, **given}


@pytest.mark.promise("api-key-scopes")
async def test_each_action_needs_its_scope(api: Api, places: dict[str, str]) -> None:
    for scope in Scope:
        async with client_of(api.app, await key_with(api, scope)) as client:
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
    for action in OF_TENANTS:
        if action.parameters and named(action) not in MAKES_ONES_OWN:
            answer = await api.stranger.request(**request_of(action, places))
            assert (named(action), answer.status_code) == (named(action), 404)
    before = [
        (await api.client.get(f"/v1/{noun}")).json() for noun in ("lists", "segments", "suppressions", "webhooks")
    ]
    assert [len(next(iter(each.values()))) for each in before] == [2, 1, 1, 1]


async def test_no_key_of_a_tenant_manages_the_installation(api: Api, places: dict[str, str]) -> None:
    for action in OF_PLATFORM:
        answer = await api.client.request(**request_of(action, places))
        assert (named(action), answer.status_code) == (named(action), 403)
        assert answer.json()["code"] == "PLATFORM_KEY_REQUIRED"


async def test_platform_key_reaches_no_data_of_a_tenant(
    api: Api, platform: httpx.AsyncClient, places: dict[str, str]
) -> None:
    before = await api.stored()
    for action in OF_TENANTS:
        answer = await platform.request(**request_of(action, places))
        assert (named(action), answer.status_code) == (named(action), 403)
    sent = await platform.post("/v1/email/send", json=a_request())
    assert (sent.status_code, sent.json()["code"]) == (403, "TENANT_KEY_REQUIRED")
    assert (await platform.get("/v1/contacts")).status_code == 403
    assert (await platform.post("/mcp", json={})).status_code == 403
    assert await api.stored() == before


@pytest.mark.parametrize("kind", ["revoked", "forged", "of a deleted tenant"])
async def test_invalid_key_manages_nothing(api: Api, places: dict[str, str], kind: str) -> None:
    made = await api.engine.keys.issue(None, "ops", PLATFORM_SCOPES)
    key = made.key
    if kind == "revoked":
        await api.engine.keys.revoke(None, made.id)
    elif kind == "forged":
        key = made.key[:-1] + ("A" if made.key[-1] != "A" else "B")
    else:
        async with api.engine.database.write() as tx:
            await tx.execute(update(api_keys).values(tenant_id=999))
    async with client_of(api.app, key) as client:
        for action in OF_PLATFORM:
            answer = await client.request(**request_of(action, places))
            assert (named(action), answer.status_code) == (named(action), 401)


async def test_stored_scopes_of_the_other_kind_are_ignored(api: Api) -> None:
    tenant = await api.engine.keys.issue(1, "shop")
    ops = await api.engine.keys.issue(None, "ops", PLATFORM_SCOPES)
    async with api.engine.database.write() as tx:
        await tx.execute(update(api_keys).values(scopes=" ".join(Scope)))
    for key, path in ((tenant.key, "/v1/tenants"), (ops.key, "/v1/lists")):
        async with client_of(api.app, key) as client:
            assert (await client.get(path)).status_code == 403


async def test_each_action_works_with_its_scope_and_is_audited(
    api: Api, platform: httpx.AsyncClient, places: dict[str, str]
) -> None:
    last = (
        "cancel",
        "archive",
        "restore",
        "remove",
        "revoke",
        "unset",
        "disable",
        "enable",
        "delete",
        "delete_provider",
        "erase",
        "show_erasure",
    )
    for action in sorted(ACTIONS, key=lambda each: last.index(each.name) if each.name in last else -1):
        await api.client.post("/v1/suppressions", json={"email": "bob@example.com"})  # Another action has lifted it.
        async with api.engine.database.write() as tx:
            await tx.execute(delete(audit_log))
            await tx.execute(update(webhook_deliveries).values(status=FAILED))  # Only these can be redelivered.
            await tx.execute(update(sequence_enrolments).values(failure="No template."))  # Only these can be retried.
            await tx.execute(update(sender_domains).values(verified_at=1))  # Only its keys can be rotated.
        client = platform if action.is_platform else api.client
        answer = await client.request(**request_of(action, places))
        if named(action) in ELSEWHERE:
            continue
        if named(action) in NEED_RECIPIENTS | NEED_OTHER_STATUS | NEED_QUEUE:
            assert answer.status_code in (404, 409, 422), (named(action), answer.text)
            continue
        if named(action) in NEED_PERSON:
            assert (answer.status_code, "signed-in user" in answer.text) == (403, True), (named(action), answer.text)
            continue
        assert answer.status_code == action.status, (named(action), answer.text)
        async with api.engine.database.read() as tx:
            rows = await tx.execute(select(audit_log.c.action, audit_log.c.actor))
        expected = set() if action.audit is None or named(action) in UNCHANGED else {action.audit}
        assert (named(action), {row.action for row in rows}) == (named(action), expected)
        assert {row.actor for row in rows} <= {"api:ops" if action.is_platform else "api"}


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


async def test_only_administrators_of_the_installation_manage_it(api: Api, places: dict[str, str]) -> None:
    site = Site(api.app, api.engine)
    await api.engine.users.create("tenant-admin", PASSWORD, Role.ADMIN, tenant_id=1, actor="test")
    async with site.client() as client:
        client.headers["X-Form-Token"] = await site.sign_in(client, "tenant-admin")
        for action in OF_PLATFORM:
            answer = await client.request(**request_of(action, places))
            assert (named(action), answer.status_code) == (named(action), 403)
    async with site.client() as client:
        client.headers["X-Form-Token"] = await site.sign_in(client, "ada")
        assert (await client.get("/v1/tenants")).status_code == 200
        del client.headers["X-Form-Token"]
        assert (await client.post("/v1/tenants", json={"name": "forged"})).status_code == 403
