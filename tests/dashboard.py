"""A served dashboard with the sample data of `mailwright demo`, for browser tests.

The server runs in its own thread and event loop. Tests use it through a browser, and reach its services with `do`.
"""

import asyncio
import contextlib
import re
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import uvicorn
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from mailwright.access.roles import Role
from mailwright.app.listening import address_of, listen
from mailwright.app.schema import prepare
from mailwright.app.wiring import Engine, make_worker, open_engine
from mailwright.demo.sample import load_sample, settle
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.message_records import MessageSearch, search
from mailwright.outbox.tallies import EventTallier
from mailwright.sources.send_approvals import PlannedSend, SendKind, find_refusal
from mailwright.web.app import create_app
from tests.builders import DEFAULT_TENANT, settings_for

CHROMIUM: Final = shutil.which("chromium-headless-shell") or shutil.which("chromium")
LAUNCH: Final[dict[str, Any]] = {"executable_path": CHROMIUM, "args": ["--no-sandbox", "--disable-gpu"]}
AXE: Final = Path(__file__).parent.parent / "tools/assets/node_modules/axe-core/axe.min.js"
PASSWORD: Final = "correct horse battery"
PEOPLE: Final = {"ada": Role.ADMIN, "grace": Role.EDITOR, "alan": Role.VIEWER}
PHONE: Final = {"width": 375, "height": 780}
DESK: Final = {"width": 1440, "height": 900}

# Every page of an administrator by the name of its screenshot. `{Name}` is a campaign of the sample,
# `{email to …}` the latest message to that address.
PAGES: Final = {
    "overview": "/",
    "campaigns": "/campaigns",
    "campaign": "/campaigns/{Spring catalogue}",
    "campaign-draft": "/campaigns/{A/B test of two subjects}",
    "campaign-compose": "/campaigns/{A/B test of two subjects}/edit/content",
    "campaign-audience": "/campaigns/{A/B test of two subjects}/edit/audience",
    "campaign-schedule": "/campaigns/{A/B test of two subjects}/edit/schedule",
    "campaign-repeat": "/campaigns/{A/B test of two subjects}/repeat",
    "campaign-approval": "/campaigns/{A/B test of two subjects}/approval",
    "approvals": "/approvals",
    "approval": "/approvals/1",
    "campaign-recipients": "/campaigns/{Spring catalogue}/recipients",
    "campaign-report": "/campaigns/{Thanks to collectors}/report",
    "reports": "/reports",
    "campaign-content": "/campaigns/{Spring catalogue}/content",
    "campaign-excluded": "/campaigns/{Spring catalogue}/excluded",
    "sequences": "/sequences",
    "sequence-new": "/sequences/~new",
    "sequence": "/sequences/{sequence Welcome series}",
    "sequence-branches": "/sequences/{sequence Thanks and review request}",
    "sequence-step": "/sequences/{sequence Welcome series}/steps/hello/edit",
    "sequence-preview": "/sequences/{sequence Welcome series}/steps/hello/preview",
    "sequence-trigger": "/sequences/{sequence Welcome series}/trigger?kind=event",
    "sequence-goal": "/sequences/{sequence Welcome series}/filters/goal",
    "sequence-publish": "/sequences/{sequence Thanks and review request}/publish",
    "sequence-simulation": "/sequences/{sequence Welcome series}/simulation?list=news",
    "sequence-people": "/sequences/{sequence Welcome series}/people",
    "sequence-source": "/sequences/{sequence Welcome series}/source",
    "templates": "/templates",
    "template": "/templates/receipt",
    "template-start": "/templates/~start",
    "template-edit": "/templates/receipt/edit",
    "template-compose": "/templates/spring-newsletter/compose",
    "images": "/images",
    "template-diff": "/templates/open-seat.v1/diff?before=1&after=2",
    "messages": "/messages",
    "message-bounced": "/messages/{email to lukasz@example.com}",
    "message-in-doubt": "/messages/{email to tim@example.com}",
    "dead-letters": "/dead-letters",
    "mailbox": "/mailbox",
    "mailbox-email": "/mailbox/{email to ada@example.com}",
    "contacts": "/contacts",
    "contact": "/contacts/ada@example.com",
    "contact-new": "/contacts/new",
    "lists": "/lists",
    "list-new": "/lists/~new",
    "list": "/lists/news",
    "list-edit": "/lists/news/edit",
    "forms": "/forms",
    "form-new": "/forms/~new",
    "segments": "/segments",
    "segment": "/segments/collectors",
    "segment-edit": "/segments/collectors/edit",
    "events": "/events",
    "imports": "/imports",
    "import-move": "/imports/~move",
    "suppressions": "/suppressions",
    "suppression-new": "/suppressions/~new",
    "search": "/search?q=ada",
    "articles": "/articles",
    "article": "/articles/spring-vote",
    "article-preview": "/articles/spring-vote/preview?as=columbus@example.com",
    "article-coverage": "/articles/spring-vote/coverage",
    "article-runs": "/articles/spring-vote/runs",
    "article-send": "/articles/spring-vote/send",
    "article-import": "/articles/~import",
    "article-slice": "/articles/~new?article=spring-vote",
    "mailouts": "/mailouts",
    "notifications": "/notifications",
    "notification": "/notifications/1",
    "notification-types": "/notifications/types",
    "settings-webhooks": "/settings/webhooks",
    "account": "/account",
    "settings-users": "/settings/users",
    "settings-user": "/settings/users/grace",
    "settings-keys": "/settings/keys",
    "settings-brand": "/settings/brand",
    "settings-sender": "/settings/sender",
    "settings-limits": "/settings/limits",
    "settings-tracking": "/settings/tracking",
    "settings-providers": "/settings/providers",
    "settings-named-providers": "/settings/named-providers",
    "settings-named-provider-new": "/settings/named-providers/~new?kind=postmark",
    "settings-report-sources": "/settings/report-sources",
    "settings-domain": "/settings/domain",
    "settings-domains": "/settings/domains",
    "settings-dmarc": "/settings/domains/example.com/dmarc",
    "settings-sections": "/settings/sections",
    "settings-health": "/settings/health",
    "settings-retention": "/settings/retention",
    "settings-audit-log": "/settings/audit-log",
    "set-up-sender": "/set-up/sender",
    "set-up-provider": "/set-up/provider",
    "set-up-domain": "/set-up/domain",
    "set-up-key": "/set-up/key",
    "set-up-test": "/set-up/test",
    "set-up-team": "/set-up/team",
    "set-up-done": "/set-up/done",
}
# Pages without navigation, for visitors who are not signed in.
STANDALONE_PAGES: Final = {"sign-in": "/sign-in", "sign-up-form": "/form/{form Shop window}"}

T = TypeVar("T")


@dataclass(frozen=True)
class Dashboard:
    address: str
    engine: Engine
    loop: asyncio.AbstractEventLoop

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the event loop of the server."""

        async def doing() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(doing(), self.loop).result(60)

    def url(self, path: str) -> str:
        """Return the address of a page in PAGES."""
        return self.address + re.sub(r"\{([^}]+)\}", lambda found: self._id_of(found[1]), path)

    def _id_of(self, name: str) -> str:
        if name.startswith("email to "):
            address = name.removeprefix("email to ")
            [message] = self.do(
                lambda: search(self.engine.database, DEFAULT_TENANT, MessageSearch(to_email=address), limit=1)
            )
            return message.outbox_id
        if name.startswith("form "):
            forms = self.do(lambda: self.engine.forms.list_all(DEFAULT_TENANT))
            return next(each.form_id for each, _ in forms if each.name == name.removeprefix("form "))
        if name.startswith("sequence "):
            return self.do(lambda: self.engine.sequences.resolve(DEFAULT_TENANT, name.removeprefix("sequence ")))
        some = self.do(lambda: self.engine.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=100))
        return next(each.campaign_id for each in some if each.name == name)

    def open_page(self, context: BrowserContext, login: str = "ada") -> Page:
        """Return an empty page of a signed-in user, without the two pages of the sign-in."""

        async def open_session() -> str:
            return await self.engine.sessions.open(await self.engine.users.find(login), address="127.0.0.1", agent="")

        context.add_cookies([{"name": "mailwright", "value": self.do(open_session), "url": self.address}])
        return context.new_page()

    def sign_in(self, context: BrowserContext, login: str = "ada", password: str = PASSWORD) -> Page:
        page = context.new_page()
        page.goto(f"{self.address}/sign-in")
        page.get_by_label("User name").fill(login)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_load_state()
        return page


def _settings(folder: Path, address: str, url: str | None, **changes: Any) -> Settings:
    return settings_for(
        url or f"sqlite:///{folder / 'mailwright.db'}",
        base_url=address,
        mailbox=folder / "mailbox",
        images=folder / "images",
        imports=folder / "imports",
        notify_database_url=f"sqlite:///{folder / 'seats.db'}",
        sender="Analytical Engines <shop@example.com>",
        postal_address="Analytical Engines Ltd, 12 Byron Street, London W1U 5HP",
        **{"tracking": "individual", **changes},
    )


async def _request_approval(engine: Engine) -> None:
    """Let a sequence wait for an approval, while the tenant requires none."""
    document = {
        "name": "Welcome",
        "trigger": {"joinsList": "news"},
        "steps": [{"id": "hello", "send": {"template": "receipt"}}, {"id": "pause", "wait": {"days": 3}}],
    }
    content = {"sequence": "Welcome", "list": "news", "subjects": {"receipt": ["Your receipt"]}, "document": document}
    send = PlannedSend(DEFAULT_TENANT, SendKind.SEQUENCE, "welcome", "Welcome", 1_240, content)
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=1_000)
    async with engine.database.write() as tx:
        assert await find_refusal(tx, engine.clock.now(), send, actor="grace") is not None
    await tenants.change(engine.database, tenants.DEFAULT, approval_over=None)


@contextmanager
def a_dashboard(
    folder: Path,
    *,
    with_sample: bool = True,
    moves: bool = False,
    url: str | None = None,
    people: Mapping[str, Role] = PEOPLE,
    host: str = "127.0.0.1",
    **changes: Any,
) -> Iterator[Dashboard]:
    """Serve a dashboard. `moves` adds a campaign that is being sent continuously. A worker runs if there is a sample
    or a database `url`. Browsers offer passkeys only if the `host` is a name."""
    ready: dict[str, Any] = {}
    is_ready = threading.Event()

    async def serve() -> None:
        listener = listen("127.0.0.1", 0)
        address = address_of(listener).replace("127.0.0.1", host)
        settings = _settings(folder, address, url, demo=with_sample, **changes)
        async with open_engine(settings) as engine:
            await prepare(engine.database)
            sample = await load_sample(engine, moves=moves) if with_sample else None
            worker = await make_worker(engine)
            working = asyncio.create_task(worker.run()) if sample or url else None
            if sample:
                await settle(engine, sample)
                await EventTallier(engine.database, engine.clock).add_existing()
                await _request_approval(engine)
            app = create_app(engine)
            for login, role in people.items():
                await engine.users.create(login, PASSWORD, role, actor="test")
            server = _Server(uvicorn.Config(app, lifespan="off", log_config=None, ws="none"))
            ready.update(
                dashboard=Dashboard(address, engine, asyncio.get_running_loop()), server=server, stop=app.state.stop
            )
            is_ready.set()
            await server.serve(sockets=[listener])
            await app.state.finish()
            if working is not None:
                worker.stop()
                await working

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            ready["error"] = error
            raise
        finally:
            is_ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert is_ready.wait(60)
    if "error" in ready:
        raise ready["error"]
    try:
        yield ready["dashboard"]
    finally:
        ready["dashboard"].loop.call_soon_threadsafe(ready["stop"])
        ready["server"].should_exit = True
        thread.join()


@contextmanager
def a_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**LAUNCH)
        expect.set_options(timeout=30_000)  # A long limit, because the machine may be busy.
        yield browser
        browser.close()


def line_of(page: Page, name: str) -> Locator:
    """Return the field with variables of that name, once its script has replaced the plain field."""
    return page.get_by_role("textbox", name=name).and_(page.locator("[contenteditable]"))


def open_editor(page: Page) -> None:
    """Put the cursor into the editor of a source. A key that is pressed before it has the focus can be lost."""
    page.locator(".editor .cm-content").click()
    expect(page.locator(".editor .cm-content")).to_be_focused()


def show(page: Page, viewport: Any, scheme: Any) -> None:
    """Change the size and the color scheme of the open page, without transitions between the colors."""
    page.set_viewport_size(viewport)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    # Scripts and styles have applied both when the next frame is drawn.
    page.evaluate("new Promise(requestAnimationFrame)")


AXE_ALL: Final = "axe.run({resultTypes: ['violations']})"
AXE_MAIN: Final = "axe.run('main', {resultTypes: ['violations'], iframes: false})"


def violations_of(page: Page, run: str = AXE_ALL) -> list[tuple[str, list[str]]]:
    """Return what axe reports about the open page."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())  # The browser evaluates it despite the content security policy of the page.
    found = page.evaluate(f"{run}.then(({{violations}}) => violations)")
    return [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in found]


def check_main(page: Page, looks: Sequence[tuple[Any, Any]]) -> None:
    """Check in each look that axe reports nothing about the main part of the page, and that the page fits the screen.

    The narrow screen comes first, so that the page never has to shrink.
    """
    for viewport, scheme in looks:
        show(page, viewport, scheme)
        found = violations_of(page, AXE_MAIN)
        assert found == [], (page.url, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], f"{page.url} is too wide"


class _Server(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()
