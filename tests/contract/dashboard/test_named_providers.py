"""Dashboard pages of providers with credentials of their own."""

import re

import pytest
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import provider_configurations
from tests.api import an_api
from tests.builders import a_tenant
from tests.standins.smtp_sink import SmtpSink

PASSWORD = "correct horse battery"
HOME = "/settings/named-providers"
SOURCES = "/settings/report-sources"


@pytest.mark.promise("provider-per-tenant")
async def test_administrator_adds_tests_routes_and_deletes(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api, SmtpSink() as sink:
        await a_tenant(database, "acme")
        await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        browser = api.anonymous
        browser.headers.update({"Origin": "http://mail.example", "Accept": "text/html"})
        await browser.post("/sign-in", data={"login": "ada", "password": PASSWORD})
        found = re.search(r'name="form_token" value="([\w-]+)"', (await browser.get("/account")).text)
        assert found
        token = {"form_token": found[1]}
        assert "MAILWRIGHT_SMTP_URL" in (await browser.get(f"{HOME}/~new?kind=smtp")).text
        bad = await browser.post(HOME, data={**token, "kind": "smtp", "name": "acme-smtp"})
        assert bad.status_code == 422
        assert "This setting is required for smtp." in bad.text
        given = {**token, "kind": "smtp", "name": "acme-smtp", "MAILWRIGHT_SMTP_URL": sink.url}
        assert (await browser.post(HOME, data=given)).headers["location"] == f"{HOME}/acme-smtp"
        page = await browser.get(f"{HOME}/acme-smtp")
        assert sink.url not in page.text
        change = {**token, "MAILWRIGHT_SMTP_CONNECTIONS": "3"}
        stale = await browser.post(f"{HOME}/acme-smtp", data={**change, "seen-at": "1"})
        assert stale.status_code == 422
        assert "Reload it" in stale.text
        [seen_at] = re.findall(r'name="seen-at" value="(\d+)"', stale.text)
        kept = await browser.post(f"{HOME}/acme-smtp", data={**change, "seen-at": seen_at})
        assert kept.status_code == 303
        stored = (await api.engine.providers.find("acme-smtp")).settings
        assert stored == {"smtp_url": sink.url, "smtp_connections": "3"}
        await browser.post(f"{HOME}/acme-smtp/test", data=token)
        assert "Connection works" in (await browser.get(f"{HOME}/acme-smtp")).text
        route = {**token, "tenant": "acme", "source": "campaign", "provider": "acme-smtp"}
        assert (await browser.post(f"{HOME}/~routes", data=route)).status_code == 303
        assert "acme-smtp" in (await browser.get(HOME)).text
        await browser.post(f"{HOME}/acme-smtp/delete", data=token)
        assert "Change or delete these routes first" in (await browser.get(HOME)).text
        assert (await browser.post(f"{HOME}/~routes/delete", data=route)).status_code == 303
        await browser.post(f"{HOME}/acme-smtp/delete", data=token)
        assert (await api.engine.providers.list_all()).configurations == ()


async def test_page_of_a_removed_kind_says_why(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        given = {"MAILWRIGHT_SMTP_URL": "smtp://localhost:2525", "MAILWRIGHT_SMTP_CONNECTIONS": "3"}
        await api.engine.providers.create("acme-smtp", "smtp", given, actor="test")
        async with database.write() as tx:
            await tx.execute(update(provider_configurations).values(kind="gone"))
        await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        browser = api.anonymous
        browser.headers.update({"Origin": "http://mail.example", "Accept": "text/html"})
        await browser.post("/sign-in", data={"login": "ada", "password": PASSWORD})
        for path in (HOME, f"{HOME}/acme-smtp"):
            page = await browser.get(path)
            assert page.status_code == 200, path
            assert "gone" in page.text
        assert "no installed package adds the provider gone" in page.text.lower()


async def test_administrator_adds_and_deletes_a_report_source(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        await api.engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        browser = api.anonymous
        browser.headers.update({"Origin": "http://mail.example", "Accept": "text/html"})
        await browser.post("/sign-in", data={"login": "ada", "password": PASSWORD})
        found = re.search(r'name="form_token" value="([\w-]+)"', (await browser.get("/account")).text)
        assert found
        given = {"form_token": found[1], "name": "Postfix", "tenant": "default"}
        refused = await browser.post(SOURCES, data=given)
        assert (refused.status_code, "2 to 40 characters" in refused.text) == (422, True)
        made = await browser.post(SOURCES, data={**given, "name": "postfix-1"})
        [secret] = set(re.findall(r"rpsec_[\w-]{40,}", made.text))
        [source] = await api.engine.report_sources.list_all()
        assert (source.name, source.tenant, source.provider) == ("postfix-1", "default", None)
        shown = (await browser.get(SOURCES)).text
        assert "/v1/reports/postfix-1" in shown
        assert secret not in shown
        await browser.post(f"{SOURCES}/postfix-1/delete", data=given)
        assert await api.engine.report_sources.list_all() == []


async def test_tenant_administrator_sees_no_named_providers(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        tenant_id = await a_tenant(database, "acme")
        await api.engine.users.create("eve", PASSWORD, Role.ADMIN, tenant_id=tenant_id, actor="test")
        api.anonymous.headers.update({"Origin": "http://mail.example", "Accept": "text/html"})
        await api.anonymous.post("/sign-in", data={"login": "eve", "password": PASSWORD})
        assert (await api.anonymous.get(HOME)).status_code == 403
        assert (await api.anonymous.get(SOURCES)).status_code == 403
