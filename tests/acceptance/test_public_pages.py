"""The public pages in a real browser without scripts, opened from an email in the local mailbox."""

import asyncio
import contextlib
import email
import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.policy import SMTP
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from mailwright.app.listening import address_of, listen
from mailwright.app.wiring import open_engine
from mailwright.audience import lists
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import ContactStatusService
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.message import NewMessage
from mailwright.web.app import create_app
from tests.builders import DEFAULT_TENANT, Bench, a_newsletter, settings_for
from tests.dashboard import CHROMIUM, LAUNCH
from tests.tracking import BROWSER

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
PHONE: ViewportSize = {"width": 375, "height": 720}
DESK: ViewportSize = {"width": 1440, "height": 900}
JANE = "jane@example.org"


class Server(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


@dataclass
class Post:
    """A running installation with a local mailbox, and its only recipient."""

    bench: Bench
    mailbox: Path
    folder: Path
    template_key: int
    address: str

    async def send(self, list_key: str) -> str:
        [outbox_id] = await self.bench.accept(self._newsletter(list_key))
        await self.bench.drain()
        return (await self.bench.record(outbox_id)).summary.status

    def latest(self) -> Path:
        return max((self.mailbox / "new").iterdir(), key=lambda file: file.stat().st_mtime_ns)

    def opened(self) -> Path:
        """Write the HTML of the latest email to a file, as an email client shows it."""
        message = email.message_from_bytes(self.latest().read_bytes(), policy=SMTP)
        body = message.get_body(("html",))
        assert body is not None
        shown = self.folder / "mail.html"
        shown.write_text(body.get_content())
        return shown

    async def receives(self) -> dict[str, bool]:
        about = await ContactStatusService(self.bench.database, self.bench.clock).load_preferences(DEFAULT_TENANT, JANE)
        stopped = about.scopes.keys() & {GENERAL, ALL_MESSAGES}
        return {each.list_key: each.is_subscribed and not stopped for each in about.lists}

    def _newsletter(self, list_key: str) -> NewMessage:
        payload = {"to": JANE, "variables": {"headline": "Spring books"}}
        return a_newsletter(to=JANE, list_key=list_key, payload=payload, template_key=self.template_key)


@pytest.fixture
async def post(empty_sqlite: bytes, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Post]:
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    listener = listen("127.0.0.1", 0)
    address, clock, mailbox = address_of(listener), ManualClock(), tmp_path / "mailbox"
    settings = settings_for(
        f"sqlite:///{tmp_path / 'mailwright.db'}",
        base_url=address,
        mailbox=mailbox,
        sender="Northwind Books <books@example.com>",
        unsubscribe_confirm=getattr(request, "param", "false"),
    )
    async with open_engine(settings, clock) as engine:
        for key, name, about in (
            ("weekly", "Weekly digest", "The five stories of the week, on Friday morning."),
            ("offers", "Offers", None),
        ):
            await lists.create(engine.database, clock, DEFAULT_TENANT, key, name=name, description=about)
            await ContactStatusService(engine.database, clock).subscribe(DEFAULT_TENANT, JANE, key, source="test")
        template = await engine.templates.put(
            DEFAULT_TENANT,
            "news",
            subject="{{ headline }}",
            html='<p>{{ headline }}</p><p><a href="{{ unsubscribe_url }}">Unsubscribe</a></p>',
            text=None,
        )
        server = Server(uvicorn.Config(create_app(engine), lifespan="off", log_config=None, ws="none"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield Post(Bench(engine, clock), mailbox, tmp_path, template.key, address)
        server.should_exit = True
        await serving


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**LAUNCH)
        yield browser
        await browser.close()


@dataclass
class Desk:
    """A browser without scripts, which records its requests and its error messages."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def page(self, **options: Any) -> Page:
        context = await self.browser.new_context(java_script_enabled=False, viewport=DESK, **options)
        context.set_default_timeout(30_000)
        page = await context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("request", lambda request: self.requests.append(request.url))
        return page


@pytest.fixture
async def desk(browser: Browser) -> AsyncIterator[Desk]:
    desk = Desk(browser)
    yield desk
    assert desk.complaints == []  # Above all, the page's content security policy blocked nothing.


async def heading(page: Page) -> str:
    return await page.get_by_role("heading", level=1).inner_text()


async def test_unsubscribe_and_resubscribe_apply_to_next_email(post: Post, desk: Desk) -> None:
    assert await post.send("weekly") == "SENT"
    page = await desk.page()
    await page.goto(post.opened().as_uri())
    await page.get_by_role("link", name="Unsubscribe").click()
    assert await heading(page) == "You are unsubscribed"
    assert await page.title() == "You are unsubscribed · Northwind Books"
    assert await post.receives() == {"weekly": False, "offers": True}
    assert await post.send("weekly") == "FAILED"
    assert await post.send("offers") == "SENT"

    await page.get_by_role("button", name="Resubscribe").click()
    assert await heading(page) == "You are subscribed again"
    assert await post.receives() == {"weekly": True, "offers": True}
    assert await post.send("weekly") == "SENT"

    assert await page.context.cookies() == []
    pages = [url for url in desk.requests if not url.startswith("file:")]
    assert {url.partition("?")[0] for url in pages} == {f"{post.address}/unsubscribe", f"{post.address}/resubscribe"}


@pytest.mark.promise("unsubscribe-one-click")
async def test_one_click_unsubscribe_needs_only_email_headers(post: Post) -> None:
    """As RFC 8058 requires: one request without cookies, and a response without a redirect, with any other headers."""
    await post.send("weekly")
    [url] = re.findall(r"List-Unsubscribe: <([^>]+)>", post.latest().read_text())
    async with httpx.AsyncClient(timeout=20) as provider:
        looked = await provider.head(url)
        assert (looked.status_code, looked.content) == (200, b"")
        assert await post.receives() == {"weekly": True, "offers": True}
        clicked = await provider.post(url, files={"List-Unsubscribe": (None, "One-Click")})
        assert (clicked.status_code, clicked.is_redirect, provider.cookies) == (200, False, httpx.Cookies())
        assert await post.receives() == {"weekly": False, "offers": True}
        large = await provider.post(url, content=b"x" * 2_000_000)
        assert large.status_code == 413
        assert (await provider.post(url, data={"List-Unsubscribe": "One-Click"})).status_code == 200


async def test_preferences_are_changed_by_keyboard(post: Post, desk: Desk) -> None:
    await post.send("weekly")
    page = await desk.page(locale="en-US")
    await page.goto(post.opened().as_uri())
    await page.get_by_role("link", name="Unsubscribe").click()
    await page.get_by_role("link", name="Manage preferences").click()
    assert await heading(page) == "Email preferences"
    boxes = page.get_by_role("group", name="Newsletters").get_by_role("checkbox")
    assert [await box.is_checked() for box in await boxes.all()] == [True, False]  # by name: Offers, Weekly digest

    await page.get_by_role("checkbox", name="Offers", exact=True).focus()
    await page.keyboard.press("Space")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Space")  # Weekly digest
    await page.keyboard.press("Tab")
    await page.keyboard.press("ArrowDown")  # Changes the language from English.
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")  # Save
    await page.get_by_role("status").wait_for()
    assert await page.locator("html").get_attribute("lang") == "ru"
    assert (await page.title()).startswith("Настройки сохранены")  # A screen reader reads the title first.
    said = await page.get_by_role("status").inner_text()
    assert "Вы подписаны на Weekly digest." in said
    assert "Вы отписались от Offers." in said
    assert "Ваш язык: Русский." in said
    assert await post.receives() == {"weekly": True, "offers": False}
    assert (await post.send("weekly"), await post.send("offers")) == ("SENT", "FAILED")

    await page.get_by_role("button", name="Отписаться от всех").click()
    await page.get_by_text("Вы отписались от всех рассылок.", exact=True).wait_for()
    assert await post.receives() == {"weekly": False, "offers": False}
    assert await post.send("weekly") == "FAILED"


@pytest.mark.promise("unsubscribe-one-click")
@pytest.mark.parametrize("post", ["true"], indirect=True)
async def test_unsubscribe_asks_first_if_configured(post: Post, desk: Desk) -> None:
    await post.send("weekly")
    page = await desk.page(locale="pt-BR")
    await page.goto(post.opened().as_uri())
    await page.get_by_role("link", name="Unsubscribe").click()
    assert await heading(page) == "Cancelar a inscrição?"
    assert await post.receives() == {"weekly": True, "offers": True}
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Inscrição cancelada").wait_for()
    assert await post.receives() == {"weekly": False, "offers": True}


@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("post", ["auto"], indirect=True)
async def test_click_in_a_browser_unsubscribes_at_once(post: Post, desk: Desk) -> None:
    await post.send("weekly")
    post.bench.clock.advance(MINUTE)
    scanner, person = await desk.page(), await desk.page(user_agent=BROWSER)  # The first one is a headless browser.
    for page, shown, receives in ((scanner, "Unsubscribe?", True), (person, "You are unsubscribed", False)):
        await page.goto(post.opened().as_uri())
        await page.get_by_role("link", name="Unsubscribe").click()
        assert await heading(page) == shown
        assert await post.receives() == {"weekly": receives, "offers": True}


async def test_pages_fit_screens_and_follow_color_scheme(post: Post, desk: Desk) -> None:
    await post.send("weekly")
    link = re.search(r'href="([^"]+)"', post.opened().read_text())
    assert link
    leave = html.unescape(link[1])
    page = await desk.page()
    for address in (leave, leave.replace("/unsubscribe", "/preferences"), f"{post.address}/unsubscribe?token=x"):
        for language in ("en", "ru", "pt"):
            await page.goto(f"{address}&lang={language}")
            assert await page.locator("html").get_attribute("lang") == language
            assert await page.get_by_role("heading", level=1).count() == 1
            for size in (PHONE, DESK):
                await page.set_viewport_size(size)
                # A wider page would scroll sideways.
                assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]
                heights = await page.locator("button, select").evaluate_all("all => all.map(one => one.offsetHeight)")
                assert all(height >= 44 for height in heights)
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
                is_dark = sum(map(int, re.findall(r"\d+", background))) < 3 * 128
                assert is_dark == (scheme == "dark")
    # A link that is not ours is answered with 400, which browsers mention.
    desk.complaints[:] = [each for each in desk.complaints if "400 (Bad Request)" not in each]
