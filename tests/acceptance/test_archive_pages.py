"""Sign-up, web view and archive in a real browser."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from playwright.async_api import Browser, async_playwright, expect

from mailwright.app.listening import address_of, listen
from mailwright.app.wiring import open_engine
from mailwright.audience import lists
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import SECOND, ManualClock
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.sources.campaigns.archive import Archive
from mailwright.web.app import create_app
from tests.builders import DEFAULT_TENANT, Bench, a_newsletter, settings_for
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, join
from tests.dashboard import CHROMIUM, LAUNCH

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

ADA = "ada@example.com"
# Each of these would change the title or leave the page if the browser ran it.
EVIL = """<html><head><title>harmless</title><meta http-equiv="refresh" content="0;url=/healthz"></head><body>
<script>document.title = "ran"</script><img src="x:" onerror="document.title = 'ran'">
<svg onload="document.title = 'ran'"></svg><a id="link" href="javascript:document.title = 'ran'">Here</a>
<form action="/unsubscribe" method="post"><button id="send">Send</button></form>
<iframe srcdoc="<script>top.document.title = 'ran'</script>"></iframe></body></html>"""


@dataclass
class Place:
    bench: Bench
    address: str


class Server(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


@pytest.fixture
async def place(empty_sqlite: bytes, tmp_path: Path) -> AsyncIterator[Place]:
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    listener, clock = listen("127.0.0.1", 0), ManualClock()
    address = address_of(listener)
    url = f"sqlite:///{tmp_path / 'mailwright.db'}"
    async with open_engine(settings_for(url, base_url=address, mailbox=tmp_path / "mailbox"), clock) as engine:
        server = Server(uvicorn.Config(create_app(engine), lifespan="off", log_config=None, ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield Place(Bench(engine, clock), address)
        server.should_exit = True
        await serving


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**LAUNCH)
        yield browser
        await browser.close()


async def test_sign_up_works_without_scripts(place: Place, browser: Browser) -> None:
    database, clock = place.bench.database, place.bench.clock
    await lists.create(database, clock, DEFAULT_TENANT, "weekly", name="Weekly digest")
    page = await (await browser.new_context(java_script_enabled=False, locale="pt-BR")).new_page()
    await page.goto(f"{place.address}/subscribe/weekly")
    await page.get_by_label("Endereço de e-mail").fill("ada at example.com")
    await page.get_by_role("button", name="Inscrever-se").click()
    assert "endereço de e-mail válido" in await page.get_by_role("alert").inner_text()
    await page.get_by_label("Endereço de e-mail").fill(ADA)
    await page.get_by_role("button", name="Inscrever-se").click()
    clock.advance(5 * SECOND)
    await page.get_by_role("button").click()
    await expect(page.get_by_role("heading", name="Obrigado")).to_be_visible()
    about = await ContactStatusService(database, clock).load_preferences(DEFAULT_TENANT, ADA)
    assert ([each.is_subscribed for each in about.lists], about.locale) == ([True], "pt")
    assert await page.context.cookies() == []


async def test_web_view_runs_no_scripts(place: Place, browser: Browser) -> None:
    message = a_newsletter(to=ADA, payload={"to": ADA, "subject": "Hello", "html": EVIL})
    await place.bench.accept(message)
    context = await browser.new_context()
    await context.add_cookies([{"name": "session", "value": "secret", "url": place.address}])
    page = await context.new_page()
    address = f"{place.address}/view/{WebViewTokens('s' * 32).make(message.outbox_id)}"
    await page.goto(address)
    await page.click("#link")
    await page.click("#send")
    await page.wait_for_timeout(300)
    assert (await page.title(), page.url) == ("harmless", address)


async def test_archived_issue_is_framed_and_links_to_sign_up(place: Place, browser: Browser) -> None:
    desk = CampaignHarness(place.bench)
    await join(desk.database, [ADA])
    body = '<p>Spring books for {{ name|default("you") }}</p><a href="{{ unsubscribe_url }}">Leave</a>'
    campaign_id = await desk.start(content={"subject": "Spring books", "body": body})
    await Archive(desk.database, desk.clock, place.bench.engine.templates).publish(OPERATOR, campaign_id)
    page = await (await browser.new_context(java_script_enabled=False)).new_page()
    await page.goto(f"{place.address}/archive/{NEWS}")
    await page.get_by_role("link", name="Spring books").click()
    await expect(page.get_by_role("heading", name="Spring books")).to_be_visible()
    await expect(page.frame_locator("iframe").get_by_text("Spring books for")).to_be_visible()
    await page.get_by_role("link", name=NEWS).click()
    await page.get_by_role("link", name="Subscribe").click()
    await expect(page).to_have_url(f"{place.address}/subscribe/{NEWS}")
