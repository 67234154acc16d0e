"""Templates that once ended the process, sent or stored before, on both engines: every route answers an error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import templates
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT
from tests.campaigns import NEWS, a_list

CHAIN = "<p>{{ " + "1+" * 17_500 + "1 }}</p>"
PASSWORD = "correct horse battery"


@asynccontextmanager
async def a_visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    headers = {"Origin": "http://mail.example", "Accept": "text/html"}
    transport = httpx.ASGITransport(api.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://mail.example", headers=headers) as client:
        assert (await client.post("/sign-in", data={"login": "ada", "password": PASSWORD})).status_code == 303
        yield client


@pytest.mark.promise("body-limits")
async def test_every_route_refuses_a_hostile_template(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        await a_list(database)
        content = {"subject": "x", "body": CHAIN}
        template = await api.client.put("/v1/templates/bad", json={"subject": "x", "html": CHAIN})
        campaign = await api.client.post("/v1/campaigns", json={"name": "x", "content": content, "lists": [NEWS]})
        subject = await api.client.post(
            "/v1/campaigns", json={"name": "x", "content": {"subject": CHAIN[3:-4], "body": "x"}, "lists": [NEWS]}
        )
        assert template.status_code == 422, template.text
        assert "One tag has more than 500" in template.text
        for answer in (campaign, subject):
            assert answer.status_code in (201, 422), answer.text
            if answer.status_code == 201:
                path = f"/v1/campaigns/{answer.json()['campaignId']}"
                assert (await api.client.get(path)).status_code == 200
                assert (await api.client.post(f"{path}/start")).status_code in (409, 422)
        async with a_visitor(api) as visitor:
            for answer in (campaign, subject):
                page = f"/campaigns/{answer.json().get('campaignId', 'none')}"
                for part in ("", "/mail", "/content", "/checks", "/edit/content", "/recipients", "/forecast"):
                    assert (await visitor.get(page + part)).status_code < 500, part


@pytest.mark.promise("body-limits")
async def test_hostile_template_stored_before_is_reported(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        stored = await api.client.put("/v1/templates/old", json={"subject": "x", "html": "<p>{{ name }}</p>"})
        assert stored.status_code in (200, 201), stored.text
        async with database.write() as tx:
            await tx.execute(update(templates).where(templates.c.tenant_id == DEFAULT_TENANT).values(html=CHAIN))
        assert (await api.client.get("/v1/templates/old")).status_code < 500
        assert (await api.client.post("/v1/templates/old/preview", json={})).status_code == 422
        sent = await api.client.post("/v1/email/send", json={"to": "a@example.com", "templateId": "old", "data": {}})
        assert sent.status_code < 500, sent.text
        async with a_visitor(api) as visitor:
            for path in ("", "/mail", "/edit", "/diff"):
                assert (await visitor.get(f"/templates/old{path}")).status_code < 500, path
