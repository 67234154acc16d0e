"""The manual and the API reference in a real browser: no blocked code, no other host, and they do their work."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from mailwright.web.manual import SITE
from tests.dashboard import CHROMIUM, DESK, PHONE, Dashboard, a_browser, a_dashboard, show

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
built = pytest.mark.skipif(not SITE.is_file(), reason="the manual is not built; run `make manual`")

LOOKS = [(DESK, "light"), (PHONE, "dark")]


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with a_dashboard(tmp_path_factory.mktemp("documentation"), with_sample=False, people={}) as dashboard:
        yield dashboard


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


def watched(page: Page, dashboard: Dashboard) -> list[str]:
    """Return a list that fills with errors of the browser and requests to other hosts."""
    problems: list[str] = []
    page.on("console", lambda line: problems.append(line.text) if line.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda sent: problems.append(sent.url) if not _is_own(sent.url, dashboard) else None)
    return problems


def _is_own(url: str, dashboard: Dashboard) -> bool:
    return url.startswith((dashboard.address, "data:"))


@built
@pytest.mark.promise("manual-served")
@pytest.mark.parametrize(("viewport", "scheme"), LOOKS)
@pytest.mark.parametrize("path", ["index.html", "configuration.html", "operating.html"])
def test_manual_fits_every_screen_without_errors(
    path: str, viewport: dict[str, int], scheme: str, browser: Browser, dashboard: Dashboard
) -> None:
    page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    problems = watched(page, dashboard)
    page.goto(f"{dashboard.address}/manual/{path}")
    expect(page.locator("h1").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert problems == []
    page.context.close()


@built
@pytest.mark.promise("manual-served")
def test_search_leads_to_the_page(browser: Browser, dashboard: Dashboard) -> None:
    page = browser.new_page()
    problems = watched(page, dashboard)
    page.goto(f"{dashboard.address}/manual/")
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("dead-letter retry")
    page.get_by_role("option").filter(has_text="Commands").first.click()
    page.wait_for_url("**/commands.html*")
    expect(page.locator("article")).to_contain_text("mailwright dead-letter retry")
    assert problems == []
    page.context.close()


@pytest.mark.promise("manual-served")
def test_email_can_be_sent_from_the_reference(browser: Browser, dashboard: Dashboard) -> None:
    key = dashboard.do(lambda: dashboard.engine.keys.create(1))
    page = browser.new_context(viewport=PHONE, color_scheme="dark").new_page()
    problems = watched(page, dashboard)
    page.goto(f"{dashboard.address}/docs")
    page.get_by_role("searchbox").fill("post send email")
    page.get_by_role("link", name="POST /v1/email/send").click()
    send = page.locator("article", has=page.get_by_role("link", name="POST /v1/email/send"))
    send.get_by_text("Try it").click()
    send.get_by_role("button", name="Send request").click()
    expect(send.get_by_role("alert")).to_contain_text("Enter an API key")
    page.get_by_label("API key", exact=True).fill(key)
    send.get_by_label("Body").fill('{"to": "nobody"')
    send.get_by_role("button", name="Send request").click()
    expect(send.get_by_role("alert")).to_contain_text("not valid JSON")
    send.get_by_label("Body").fill('{"to": "ada@example.com", "subject": "Hello", "html": "<p>Hi</p>"}')
    send.get_by_role("button", name="Send request").click()
    sent, received = send.locator(".exchange pre").all()
    expect(received).to_contain_text("202 Accepted")
    expect(received).to_contain_text('"status": "PENDING"')
    expect(sent).to_contain_text("POST /v1/email/send")
    expect(sent).not_to_contain_text(key)
    for viewport, scheme in reversed(LOOKS):
        show(page, viewport, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert problems == []
    page.context.close()


@pytest.mark.promise("manual-served")
def test_reference_keeps_the_chosen_language(browser: Browser, dashboard: Dashboard) -> None:
    page = browser.new_context(viewport=DESK).new_page()
    problems = watched(page, dashboard)
    page.goto(f"{dashboard.address}/docs/lists")
    page.get_by_role("tab", name="TypeScript").first.click()
    expect(page.get_by_text("await client.lists.create(").first).to_be_visible()
    page.get_by_role("link", name="Webhooks").click()
    expect(page.get_by_text("await client.webhooks.list()").first).to_be_visible()
    expect(page.get_by_text('curl "').first).to_be_hidden()
    for viewport, scheme in LOOKS:
        show(page, viewport, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert problems == []
    page.context.close()
