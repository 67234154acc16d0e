"""Approvals in the dashboard and the API: who can request, approve, reject and change the rule."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from mailwright.access.roles import Role, Scope
from mailwright.domain.clock import ManualClock
from mailwright.outbox import tenants
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.send_approvals import PlannedSend, SendKind, find_refusal
from mailwright.storage.database import Database
from mailwright.web.app import create_app
from tests.api import an_engine, client_of
from tests.builders import DEFAULT_TENANT
from tests.campaigns import a_definition, address_of, join
from tests.contract.dashboard.test_entry import HOME, PASSWORD, Site
from tests.sequences import WELCOME, a_document

PEOPLE = {"ada": Role.ADMIN, "grace": Role.EDITOR, "alan": Role.VIEWER}


@pytest.fixture
async def site(database: Database, clock: ManualClock) -> AsyncIterator[Site]:
    engine = an_engine(database, clock, base_url=HOME)
    for login, role in PEOPLE.items():
        await engine.users.create(login, PASSWORD, role, actor="test")
    await join(database, [address_of(number) for number in range(3)])
    app = create_app(engine)
    yield Site(app, engine)
    await app.state.finish()
    await engine.close()


@asynccontextmanager
async def signed_in(site: Site, login: str) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        client.headers["X-Form-Token"] = await site.sign_in(client, login)
        yield client


async def a_draft(site: Site, actor: str = "ada") -> str:
    made = await site.engine.campaigns.create(Actor(actor, DEFAULT_TENANT), DEFAULT_TENANT, a_definition())
    return made.campaign_id


async def test_second_person_approves_in_the_dashboard(site: Site) -> None:
    campaign_id = await a_draft(site)
    path = f"/campaigns/{campaign_id}"
    async with signed_in(site, "ada") as ada, signed_in(site, "grace") as grace:
        assert (await ada.post("/settings/approvals", data={"approval_over": "2"})).status_code == 303
        checks = (await ada.get(f"{path}/checks", headers={"HX-Request": "true"})).text
        assert "Request approval" in checks
        assert "more than 2. Request approval." in checks
        started = await ada.post(f"{path}/start", data={"reviewed": ""})
        assert started.status_code == 422
        assert (await ada.post(f"{path}/approval/request")).status_code == 303
        own = (await ada.get(f"{path}/approval")).text
        assert "because you requested the approval" in own
        assert 'value="approve"' not in own
        assert "Waiting for someone else" in (await ada.get("/approvals")).text
        listed = (await grace.get("/")).text
        assert "waiting for your approval" in listed
        assert 'class="nav-count">1<' in listed
        shown = (await grace.get(f"{path}/approval")).text
        [digest] = re.findall(r'name="digest" value="(\w+)"', shown)
        refused = await grace.post(f"{path}/approval", data={"digest": digest, "decision": "reject", "comment": " "})
        assert (refused.status_code, "say what has to change" in refused.text.lower()) == (422, True)
        assert (await grace.post(f"{path}/approval", data={"digest": digest, "decision": "approve"})).is_redirect
        approved = (await ada.get(f"{path}/approval")).text
        assert ("grace approved it" in approved, "Withdraw approval" in approved) == (True, True)
    await site.engine.campaigns.start(Actor("ada", DEFAULT_TENANT), campaign_id)


async def test_void_approval_shows_the_difference(site: Site) -> None:
    campaign_id = await a_draft(site)
    approvals, ada = site.engine.campaign_approvals, Actor("ada", DEFAULT_TENANT)
    requested = await approvals.request(ada, campaign_id)
    grace = await site.engine.users.find("grace")
    await approvals.approve(grace, DEFAULT_TENANT, campaign_id, requested.plan.digest)
    await site.engine.campaigns.edit(ada, campaign_id, a_definition(content={"subject": "Now", "body": "<p>Late</p>"}))
    async with signed_in(site, "grace") as client:
        page = (await client.get(f"/campaigns/{campaign_id}/approval")).text
    assert "Changes since the request" in page
    assert "<del>News for {{ name }}</del> <ins>Now</ins>" in page
    assert '<span class="is-new">+Late</span>' in page


async def test_only_signed_in_people_approve_and_set_the_rule(site: Site) -> None:
    engine = site.engine
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=2)
    campaign_id = await a_draft(site, "api:robot")
    path = f"/v1/campaigns/{campaign_id}"
    async with client_of(
        site.app, await engine.keys.create(1, "robot", frozenset({Scope.PROPOSE}), owner="ada")
    ) as robot:
        plan = (await robot.post(f"{path}/plan")).json()
        assert (plan["recipients"], plan["approval"]["status"], plan["isApprovalRequired"]) == (3, "waiting", True)
        assert (await robot.delete(f"{path}/plan")).status_code == 403
    decision = {"digest": plan["digest"], "comment": "Good."}
    async with client_of(site.app, await engine.keys.create(1, "manager")) as key:
        assert (await key.post(f"{path}/approve", json=decision)).status_code == 403
        assert (await key.put("/v1/approvals", json={"over": None})).status_code == 403
        assert (await key.delete(f"{path}/plan")).status_code == 403
        refused = await key.post(f"{path}/start")
        assert (refused.status_code, refused.json()["code"]) == (409, "AWAITS_APPROVAL")
        explained = (await key.get(f"{path}/explain")).json()
        assert (explained["reason"], explained["actions"][0]["do"]) == ("awaits_approval", "show_plan")
    async with signed_in(site, "alan") as viewer, signed_in(site, "grace") as editor, signed_in(site, "ada") as admin:
        assert (await viewer.post(f"{path}/approve", json=decision)).status_code == 403
        assert (await editor.put("/v1/approvals", json={"over": None})).status_code == 403
        approved = await editor.post(f"{path}/approve", json=decision)
        assert (approved.json()["status"], approved.json()["decidedBy"]) == ("approved", "grace")
        assert (await admin.put("/v1/approvals", json={"over": 10})).json() == {
            "over": 10,
            "waiting": [],
            "rejected": [],
            "sends": [],
            "rejectedSends": [],
        }


async def test_only_an_administrator_lifts_a_rejection(site: Site) -> None:
    campaign_id = await a_draft(site, "grace")
    page, path = f"/campaigns/{campaign_id}/approval", f"/v1/campaigns/{campaign_id}"
    async with signed_in(site, "grace") as editor, signed_in(site, "ada") as admin:
        digest = (await editor.post(f"{path}/plan")).json()["digest"]
        assert (
            await admin.post(f"{path}/reject", json={"digest": digest, "comment": "Wrong price."})
        ).status_code == 200
        listed = (await editor.get("/approvals")).text
        assert (page in listed, "Wrong price." in listed, "To lift a rejection" in listed) == (True, True, True)
        [rejected] = (await editor.get("/v1/approvals")).json()["rejected"]
        assert (rejected["campaignId"], rejected["approval"]["decidedBy"]) == (campaign_id, "ada")
        assert "Lift rejection" not in (await editor.get(page)).text
        assert "Lift rejection" in (await admin.get(page)).text
        assert (await editor.delete(f"{path}/plan?reason=Please")).status_code == 409
        assert (await admin.delete(f"{path}/plan")).status_code == 409
        await editor.post(f"{page}/withdraw", data={"reason": "Please"})
        assert (await editor.get(f"{path}/plan")).json()["approval"]["status"] == "rejected"
        await admin.post(f"{page}/withdraw", data={"reason": "It is fine."})
        assert (await editor.get(f"{path}/plan")).json()["approval"]["status"] == "withdrawn"
        assert (await editor.get("/v1/approvals")).json()["rejected"] == []


async def test_only_an_administrator_lifts_the_rejection_of_a_sequence(site: Site) -> None:
    engine = site.engine
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=2)
    await engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Welcome", html="<p>Hello</p>", text=None)
    made = await engine.sequences.create(DEFAULT_TENANT, a_document(), actor="grace")
    publish = f"/v1/sequences/{made.sequence_id}/publish"
    async with signed_in(site, "grace") as editor, signed_in(site, "ada") as admin:
        assert (await editor.post(publish, json={})).status_code == 409
        [waiting] = (await editor.get("/v1/approvals")).json()["sends"]
        page = f"/approvals/{waiting['id']}"
        assert "Withdraw request" in (await editor.get(page)).text
        rejection = {"digest": waiting["digest"], "comment": "Too early."}
        assert (await admin.post(f"/v1{page}/reject", json=rejection)).status_code == 200
        listed = (await editor.get("/approvals")).text
        assert (page in listed, "Too early." in listed) == (True, True)
        assert [("Lift rejection" in (await each.get(page)).text) for each in (editor, admin)] == [False, True]
        refused = [await editor.delete(f"/v1{page}?reason=Please"), await admin.delete(f"/v1{page}")]
        assert [each.status_code for each in refused] == [409, 409]
        await editor.post(f"{page}/withdraw", data={"reason": "Please"})
        async with client_of(site.app, await engine.keys.create(1, "robot")) as key:
            assert (await key.delete(f"/v1{page}?reason=Please")).status_code == 403
        [rejected] = (await editor.get("/v1/approvals")).json()["rejectedSends"]
        assert (rejected["id"], rejected["status"]) == (waiting["id"], "rejected")
        await admin.post(f"{page}/withdraw", data={"reason": "It is time."})
        assert (await editor.get(f"/v1{page}")).json()["status"] == "withdrawn"
        await tenants.change(engine.database, tenants.DEFAULT, approval_over=None)
        assert (await editor.post(publish, json={})).status_code == 200


async def test_administrator_becomes_owner_of_a_console_key(site: Site) -> None:
    engine = site.engine
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=2)
    path = f"/v1/campaigns/{await a_draft(site)}/plan"
    async with client_of(site.app, await engine.keys.create(1, "robot")) as robot, signed_in(site, "ada") as ada:
        refused = await robot.post(path)
        assert (refused.status_code, refused.json()["code"]) == (409, "KEY_WITHOUT_OWNER")
        own = f"/settings/keys/{(await engine.keys.list_all(1))[-1].id}/own"
        assert own in (await ada.get("/settings/keys")).text
        assert (await ada.post(own)).is_redirect
        assert (await robot.post(path)).status_code == 200
        assert own not in (await ada.get("/settings/keys")).text
        assert (await ada.post(own)).status_code == 409


async def test_sequence_is_approved_in_dashboard_and_api(site: Site) -> None:
    engine = site.engine
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=2)
    await engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Welcome", html="<p>Hello</p>", text=None)
    made = await engine.sequences.create(DEFAULT_TENANT, a_document(), actor="ada")
    path = f"/v1/sequences/{made.sequence_id}/publish"
    async with signed_in(site, "ada") as ada, signed_in(site, "grace") as grace, signed_in(site, "alan") as alan:
        refused = await ada.post(path, json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "AWAITS_APPROVAL")
        [waiting] = (await ada.get("/v1/approvals")).json()["sends"]
        page = f"/approvals/{waiting['id']}"
        assert page in (await ada.get("/approvals")).text
        own = (await ada.get(page)).text
        assert ("because you requested" in own, 'value="approve"' in own) == (True, False)
        assert 'class="nav-count">1<' in (await grace.get("/")).text
        decision = {"digest": waiting["digest"], "decision": "approve"}
        assert (await alan.post(page, data=decision)).status_code == 403
        assert (await alan.post(f"/v1{page}/approve", json={"digest": waiting["digest"]})).status_code == 403
        refused = await grace.post(page, data={**decision, "decision": "reject", "comment": " "})
        assert (refused.status_code, "say what has to change" in refused.text.lower()) == (422, True)
        assert "Template welcome" in (await grace.get(page)).text
        assert (await grace.post(page, data=decision)).is_redirect
        assert (await grace.post(f"/v1{page}/approve", json={"digest": waiting["digest"]})).status_code == 409
        assert (await ada.get(f"/v1{page}")).json()["decidedBy"] == "grace"
        assert (await ada.post(path, json={})).status_code == 200
    async with client_of(site.app, await engine.keys.create(1, "robot")) as key:
        rejection = {"digest": waiting["digest"], "comment": "No."}
        assert (await key.post(f"/v1{page}/reject", json=rejection)).status_code == 403


async def test_approver_sees_the_email_of_a_mailout(site: Site) -> None:
    engine = site.engine
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=2)
    content = {"subject": "News", "text": "Hello", "html": "<p>Hello <b>you</b></p><script>x()</script>"}
    planned = PlannedSend(DEFAULT_TENANT, SendKind.MAILOUT, "run-1", "News", 3, content)
    async with engine.database.write() as tx:
        await find_refusal(tx, engine.clock.now(), planned, actor="ada")
    [waiting] = await engine.send_approvals.list_waiting(DEFAULT_TENANT)
    async with signed_in(site, "grace") as grace:
        assert f'src="/approvals/{waiting.id}/email"' in (await grace.get(f"/approvals/{waiting.id}")).text
        frame = await grace.get(f"/approvals/{waiting.id}/email")
        assert "<b>you</b>" in frame.text
        assert "script-src" in frame.headers["Content-Security-Policy"] or "default-src 'none'" in str(frame.headers)
        assert (await grace.get("/approvals/999/email")).status_code == 404
