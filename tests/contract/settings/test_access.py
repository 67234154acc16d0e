"""Who can change the settings of the installation, and where secrets must not appear, on both engines."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.app.setup import load_progress
from mailwright.app.wiring import Engine
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import api_keys, stored_settings
from mailwright.web.app import create_app
from mailwright.web.dashboard import installation_settings, pages, set_up
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.smtp_sink import SmtpSink

SECRET = "correct-horse-battery-staple"
API_KEY = "SG.0123456789abcdefghijklmnop.wxyz"


@pytest.fixture
def web_engine(database: Database, clock: ManualClock, tmp_path: Path) -> Engine:
    return an_engine(database, clock, base_url=HOME, mailbox=tmp_path / "mailbox")


@pytest.fixture
async def app(web_engine: Engine) -> AsyncIterator[FastAPI]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    await web_engine.users.create("eve", PASSWORD, Role.ADMIN, tenant_id=DEFAULT_TENANT, actor="test")
    app = create_app(web_engine)
    yield app
    await app.state.finish()


def routes_of(*routers: object) -> Iterator[tuple[str, str]]:
    for router in routers:
        for route in router.routes:  # type: ignore[attr-defined]
            assert isinstance(route, APIRoute)
            path = route.path.replace("{step}", "sender").replace("/status", "/status?message=1")
            yield from ((method, path) for method in sorted(route.methods or ()) if method != "HEAD")


def an_smtp_form(sink: SmtpSink, **more: str) -> dict[str, str]:
    server = {"smtp_host": "127.0.0.1", "smtp_port": str(sink.port), "smtp_tls": "none"}
    return {"provider": "smtp", **server, **more}


async def form_token(visit: Visit) -> dict[str, str]:
    await visit.open("/account")
    found = re.search(r'name="form_token" value="([\w-]{43})"', visit.text)
    assert found is not None
    return {"form_token": found[1]}


@pytest.mark.promise("tenant-isolation")
async def test_tenant_administrator_cannot_change_the_installation(app: FastAPI, database: Database) -> None:
    routes = list(routes_of(set_up.router, installation_settings.router))
    assert len(routes) > 20
    async with SmtpSink() as sink, a_visit(app, "eve") as eve:
        form = await form_token(eve) | an_smtp_form(sink)
        form |= {"sender_address": "eve@example.com", "installation_tracking": "individual", "default_daily_limit": "1"}
        form |= {"name": "mine", "login": "mallory", "role": "admin", "to": "eve@example.com"}
        for method, path in routes:
            answer = await eve.client.request(method, path, data=form if method == "POST" else None)
            assert answer.status_code == 403, (method, path)
            assert "administrators of the installation" in answer.text, (method, path)
        assert sink.sessions == []
    async with database.read() as tx:
        assert await tx.execute(select(stored_settings)) == []
        assert await tx.execute(select(api_keys)) == []
    assert (await load_progress(database)).steps == {}


async def test_connection_test_connects_for_the_installation(app: FastAPI, database: Database) -> None:
    async with SmtpSink() as sink, a_visit(app) as ada:
        form = await form_token(ada) | an_smtp_form(sink)
        answer = await ada.client.post("/settings/providers/test", data=form)
        assert answer.status_code == 200
        assert "Connected" in answer.text
        assert len(sink.sessions) == 1
    async with database.read() as tx:
        assert await tx.execute(select(stored_settings)) == []


@pytest.mark.promise("logs-no-secret")
@pytest.mark.both_engines
async def test_stored_secret_is_on_no_page_and_in_no_log(
    app: FastAPI, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    async with SmtpSink(users={"ada": "another"}) as sink, a_visit(app) as ada:
        form = await form_token(ada)
        smtp = an_smtp_form(sink, smtp_user="ada", smtp_password=SECRET)
        refused = await ada.client.post("/settings/providers/test", data=form | smtp)
        assert "Connection failed" in refused.text
        assert SECRET not in refused.text
        sendgrid = {"provider": "sendgrid", "sendgrid_url": "https://api.sendgrid.com", "sendgrid_api_key": API_KEY}
        for changes in (sendgrid, smtp):
            assert (await ada.client.post("/settings/providers", data=form | changes)).status_code == 303
        # A refused form must not return the secret either.
        wrong = await ada.client.post("/settings/providers", data=form | smtp | {"smtp_port": "x"})
        assert (wrong.status_code, SECRET in wrong.text) == (422, False)
        shown = [path for method, path in routes_of(*pages.ROUTERS) if method == "GET" and "{" not in path]
        installation = [path for path in shown if path.startswith(("/settings", "/set-up"))]
        assert {"/settings/providers", "/settings/audit-log", "/set-up/provider"} <= set(installation)
        for path in ["/", *installation]:
            answer = await ada.client.get(path)
            assert not any(secret in answer.text for secret in (SECRET, API_KEY)), path
    async with database.read() as tx:
        kept = {row.name: row.value for row in await tx.execute(select(stored_settings))}
    assert {"smtp_url", "sendgrid_api_key"} <= set(kept)
    captured = capfd.readouterr()
    for secret in (SECRET, API_KEY):
        assert secret not in str(kept) + captured.out + captured.err
