"""Sign-in, roles, live updates and accessibility of the dashboard in a real browser."""

import contextlib
import json
import logging
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyotp
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from mailwright.access.roles import Role
from mailwright.domain.clock import DAY, isoformat
from mailwright.outbox import tenants
from tests.dashboard import (
    AXE,
    AXE_ALL,
    AXE_MAIN,
    CHROMIUM,
    DESK,
    PAGES,
    PASSWORD,
    PHONE,
    STANDALONE_PAGES,
    Dashboard,
    a_browser,
    a_dashboard,
    show,
    violations_of,
)
from tests.pages import forms_of

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
    pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core here; `make setup` fetches it"),
]


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with a_dashboard(tmp_path_factory.mktemp("dashboard")) as dashboard:
        yield dashboard


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="Europe/Lisbon")
    yield context
    context.close()


def complaints_of(page: Page) -> list[str]:
    """Collect browser errors and warnings, such as policy violations and script errors."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def test_sign_in_returns_to_requested_page(dashboard: Dashboard, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{dashboard.address}/settings/keys")
    expect(page).to_have_url(f"{dashboard.address}/sign-in?next=%2Fsettings%2Fkeys")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("not the password")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Wrong user name or password")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="API keys", level=1)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{dashboard.address}/sign-in")
    page.goto(f"{dashboard.address}/account")
    expect(page).to_have_url(f"{dashboard.address}/sign-in?next=%2Faccount")


@pytest.mark.promise("second-factor")
def test_second_factor_is_set_up_and_required(dashboard: Dashboard, context: BrowserContext) -> None:
    dashboard.do(lambda: dashboard.engine.users.create("mary", PASSWORD, Role.EDITOR, actor="test"))
    page = dashboard.sign_in(context, "mary")
    page.goto(f"{dashboard.address}/account")
    page.get_by_role("button", name="Set up two-factor authentication").click()
    expect(page.locator("svg.qr")).to_be_visible()
    generator = pyotp.TOTP(page.locator("#second-factor .copyable code").inner_text())
    page.get_by_label("Code").fill(generator.now())
    page.get_by_role("button", name="Turn on").click()
    expect(page.locator(".codes li")).to_have_count(10)
    codes = page.locator(".codes li").all_inner_texts()
    page.get_by_role("button", name="Sign out").click()
    page = dashboard.sign_in(context, "mary")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.goto(f"{dashboard.address}/")  # the password alone is not enough
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.get_by_label("Code").fill(codes[0])
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


@pytest.mark.promise("second-factor")
def test_passkey_signs_in_and_is_second_factor(browser: Browser, tmp_path: Path) -> None:
    with a_dashboard(tmp_path, with_sample=False, host="localhost") as dashboard:
        context = browser.new_context(viewport=DESK)
        page = dashboard.sign_in(context, "grace")
        complaints = complaints_of(page)
        devtools = context.new_cdp_session(page)
        devtools.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        verified = {**options, "isUserVerified": True, "automaticPresenceSimulation": True}
        devtools.send("WebAuthn.addVirtualAuthenticator", {"options": verified})
        page.goto(f"{dashboard.address}/account")
        card = page.locator("#passkeys")
        card.get_by_label("Name").fill("Laptop")
        card.get_by_label("Password").fill("not the password")
        card.get_by_role("button", name="Add a passkey").click()
        expect(card.get_by_role("alert")).to_have_text("The current password is wrong.")
        complaints.clear()  # The browser reports the status 422.
        card.get_by_label("Password").fill(PASSWORD)
        card.get_by_role("button", name="Add a passkey").click()
        expect(page.locator(".codes li")).to_have_count(10)
        page.goto(f"{dashboard.address}/account")
        card.get_by_text("Laptop").click()
        expect(card.get_by_role("button", name="Rename")).to_be_visible()
        assert violations_of(page) == []
        page.get_by_role("button", name="Sign out", exact=True).click()
        expect(page.get_by_role("button", name="Sign in with a passkey")).to_be_visible()
        assert violations_of(page) == []
        with page.expect_request(f"{dashboard.address}/sign-in/passkey") as sent:
            page.get_by_role("button", name="Sign in with a passkey").click()
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        headers = {name: value for name, value in sent.value.all_headers().items() if not name.startswith(":")}
        replayed = httpx.post(sent.value.url, content=sent.value.post_data_buffer, headers=headers, timeout=60)
        assert replayed.status_code == 403
        page.get_by_role("button", name="Sign out", exact=True).click()
        page.get_by_label("User name").fill("grace")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
        assert violations_of(page) == []
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("heading", name="Home")).to_be_visible()
        assert complaints == []
        context.close()


def test_viewer_cannot_open_settings(dashboard: Dashboard, context: BrowserContext) -> None:
    page = dashboard.sign_in(context, "alan")
    expect(page.get_by_role("link", name="Home", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Settings")).to_have_count(0)
    page.goto(f"{dashboard.address}/settings/users")
    expect(page.get_by_role("heading", name="Permission denied")).to_be_visible()


def test_overview_updates_live(browser: Browser, tmp_path: Path) -> None:
    with a_dashboard(tmp_path, with_sample=False) as dashboard:  # No worker sends, so only this test changes figures.
        context = browser.new_context(viewport=DESK)
        page = dashboard.sign_in(context)
        expect(page.locator("[data-state=live]")).to_be_visible()
        expect(page.locator("#figures dd").nth(1)).to_contain_text("0")
        key = dashboard.do(lambda: dashboard.engine.keys.create(1))
        tomorrow = isoformat(dashboard.engine.clock.now() + DAY)
        body = {"to": "x@example.com", "subject": "Hi", "html": "<p>Hi</p>", "scheduledAt": tomorrow}
        headers = {"Authorization": f"Bearer {key}"}
        assert (
            httpx.post(f"{dashboard.address}/v1/email/send", json=body, headers=headers, timeout=60).status_code == 202
        )
        expect(page.locator("#figures dd").nth(1)).to_contain_text("1")
        context.close()


def test_closed_streams_free_their_connections(dashboard: Dashboard, context: BrowserContext) -> None:
    page = dashboard.sign_in(context)
    for _ in range(12):
        page.goto(f"{dashboard.address}/", wait_until="commit")
    page.goto(f"{dashboard.address}/account")
    expect(page.get_by_role("heading", name="Password")).to_be_visible()


def test_disconnected_stream_logs_no_error(
    dashboard: Dashboard, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Disconnect before the first event, during rendering, and between events."""
    place = urlsplit(dashboard.address)
    with httpx.Client(base_url=dashboard.address, headers={"Origin": dashboard.address}, timeout=60) as client:
        client.post("/sign-in", data={"login": "ada", "password": PASSWORD})
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        for number in range(40):
            with socket.create_connection((place.hostname, place.port)) as listener:
                path = ("/overview/stream", "/campaigns/stream")[number % 2]
                listener.sendall(f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nCookie: {cookies}\r\n\r\n".encode())
                listener.settimeout(0.001 * (number % 10))
                with contextlib.suppress(OSError):
                    listener.recv(100)
                # Reset the connection, as a closed browser does.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert client.get("/account").status_code == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Traceback" not in "".join(capfd.readouterr())


def test_destructive_button_asks_for_confirmation(dashboard: Dashboard, context: BrowserContext) -> None:
    dashboard.do(lambda: dashboard.engine.keys.create(1, "to-revoke"))
    page = dashboard.sign_in(context)
    page.goto(f"{dashboard.address}/settings/keys")
    row = page.get_by_role("row").filter(has_text="to-revoke")
    row.get_by_role("button", name="Revoke key").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("Active")
    row.get_by_role("button", name="Revoke key").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke key").click()
    expect(page.locator(".flash")).to_contain_text("API key revoked.")
    expect(row).to_contain_text("Revoked")


def test_times_are_shown_in_the_tenants_time_zone(dashboard: Dashboard, browser: Browser) -> None:
    shown = {}
    for zone in ("Asia/Tokyo", "America/Lima"):
        dashboard.do(lambda zone=zone: tenants.change(dashboard.engine.database, "default", timezone=zone))
        context = browser.new_context(timezone_id="Europe/Lisbon")
        page = dashboard.sign_in(context)
        page.goto(f"{dashboard.address}/settings/audit-log")
        shown[zone] = page.locator("tbody time").first.inner_text()
        page.goto(dashboard.address)
        assert json.loads(page.locator("#chart-data").inner_text())["zone"] == zone
        context.close()
    dashboard.do(lambda: tenants.change(dashboard.engine.database, "default", timezone=None))
    assert shown["Asia/Tokyo"] != shown["America/Lima"]


def test_set_up_link_creates_the_first_administrator(browser: Browser, tmp_path: Path) -> None:
    with a_dashboard(tmp_path, with_sample=False, people={}) as empty:
        token = empty.do(empty.engine.initial_setup.create_token)
        page = browser.new_page()
        page.goto(f"{empty.address}/")
        expect(page.locator(".note")).to_contain_text("There are no users yet")
        page.goto(f"{empty.address}/set-up?token={token}")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create account").click()
        expect(page.get_by_role("heading", name="Who sends your emails?")).to_be_visible()
        page.close()


# Each size and color scheme is checked once. The page is opened on the narrow screen, and then gets more room.
LOOKS: list[tuple[Any, Any]] = [(PHONE, "dark"), (DESK, "light")]


@pytest.fixture(scope="module")
def screen(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield dashboard.sign_in(context)
    context.close()


@pytest.mark.promise("dashboard-usable")
@pytest.mark.parametrize("path", PAGES.values())
def test_every_page_is_accessible(dashboard: Dashboard, screen: Page, path: str) -> None:
    look_at(screen, dashboard.url(path), checks_menu=path == "/")


@pytest.mark.promise("dashboard-usable")
@pytest.mark.parametrize("path", STANDALONE_PAGES.values())
def test_sign_in_page_is_accessible(dashboard: Dashboard, context: BrowserContext, path: str) -> None:
    page = context.new_page()
    look_at(page, dashboard.url(path), checks_menu=True)
    assert page.url == dashboard.url(path)


def look_at(page: Page, url: str, *, checks_menu: bool) -> None:
    """Check that axe and the browser report nothing, and that the page fits the screen.

    The wide screen adds the menu, which is the same on all pages, so axe checks it on the first of them only.
    """
    complaints = complaints_of(page)
    show(page, *LOOKS[0])
    page.goto(url)
    expect(page.locator(".htmx-request")).to_have_count(0)
    for viewport, scheme in LOOKS:
        show(page, viewport, scheme)
        assert complaints == [], (viewport, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], (viewport, scheme)
        run = AXE_ALL if checks_menu or viewport == PHONE else AXE_MAIN
        assert violations_of(page, run) == [], (viewport, scheme)
        complaints.clear()  # Axe asks the frames of the page, and the browser reports the sandboxed ones.


def test_every_page_has_a_screenshot() -> None:
    shown = set(re.findall(r"screens/([\w-]+\.webp)", (DOCS / "dashboard.md").read_text()))
    wanted = {f"{name}-{size}.webp" for name in (*PAGES, *STANDALONE_PAGES) for size in ("desk", "phone")}
    assert shown == wanted
    assert {file.name for file in (DOCS / "screens").iterdir()} == wanted


def test_every_form_works_without_scripts(dashboard: Dashboard) -> None:
    """GET forms respond, and POST forms reach a route that checks the form token."""
    seen = set()
    with httpx.Client(base_url=dashboard.address, headers={"Origin": dashboard.address}, timeout=60) as client:
        client.post("/sign-in", data={"login": "ada", "password": PASSWORD})
        for path in PAGES.values():
            for form in forms_of(client.get(dashboard.url(path)).text):
                if form.method == "dialog":
                    continue  # the confirmation dialog, which needs scripts
                assert form.action, f"{path}: a form goes nowhere"
                assert any(words or has.get("aria-label") for words, has in form.buttons), f"{path}: {form.action}"
                for action in {form.action, *(has.get("formaction", form.action) for _, has in form.buttons)} - seen:
                    seen.add(action)
                    if form.method == "get":
                        assert client.get(action, params=form.filled({})).status_code == 200, action
                    else:
                        assert client.post(action).status_code == 403, action
    assert len(seen) > 60


@pytest.mark.promise("dashboard-usable")
def test_menu_opens_and_closes_with_keyboard(dashboard: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 780})
    page = dashboard.sign_in(context)
    link = page.get_by_role("link", name="Settings")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").press("Enter")
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    context.close()


def test_navigation_fits_into_the_window(dashboard: Dashboard, browser: Browser) -> None:
    for width, height in ((1440, 900), (1280, 720)):
        context = browser.new_context(viewport={"width": width, "height": height})
        page = dashboard.sign_in(context)
        for path in ("/", "/campaigns", "/contacts", "/settings/users"):
            page.goto(dashboard.url(path))
            bottoms = page.locator(".side a, .side button").evaluate_all(
                "all => all.filter(each => each.offsetParent).map(each => each.getBoundingClientRect().bottom)"
            )
            assert max(bottoms) <= height, (path, width, height)
            side = page.locator(".side")
            assert side.evaluate("each => each.scrollHeight <= each.clientHeight"), (path, width, height)
        context.close()
