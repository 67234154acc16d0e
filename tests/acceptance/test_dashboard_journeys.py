"""From the first visit to the report of the first campaign, in a real browser, on both engines."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import ENGINES
from tests.dashboard import CHROMIUM, DESK, PASSWORD, a_dashboard, line_of
from tests.engines import PostgresServer

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Playwright runs an event loop in this thread, so coroutines run in another one."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'mailwright.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with ThreadPoolExecutor(1) as aside:
        url = aside.submit(asyncio.run, server.create()).result()
        yield url
        aside.submit(asyncio.run, server.drop(url)).result()


def test_first_visit_to_report_of_first_campaign(url: str, browser: Browser, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("email,name,city\n" + "".join(f"reader{n}@example.com,Reader {n},Lima\n" for n in range(6)))
    with a_dashboard(tmp_path, with_sample=False, people={}, url=url) as dashboard:
        context = browser.new_context(viewport=DESK)
        page = context.new_page()
        page.goto(f"{dashboard.address}/set-up?token={dashboard.do(dashboard.engine.initial_setup.create_token)}")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create account").click()
        page.get_by_role("link", name="Continue later").click()

        # Create a list and import contacts into it.
        page.get_by_role("link", name="Audience").click()
        page.get_by_role("link", name="Lists").click()
        page.get_by_role("link", name="New list").click()
        page.get_by_label("Name").fill("Shop news")
        page.get_by_label("Key").fill("news")
        page.get_by_label("Opt-in").select_option("Single opt-in")
        page.get_by_role("button", name="Create list").click()
        page.get_by_role("link", name="Import", exact=True).click()
        page.get_by_label("CSV or Excel file").set_input_files(people)
        page.get_by_role("button", name="Show preview").click()
        expect(page.locator("tbody")).to_contain_text("Reader 4")
        page.get_by_role("button", name="Start import").click()
        expect(page.locator("#import .status")).to_have_text("Completed")

        # Begin a campaign with a starter, change it in the composer and send a test email.
        page.get_by_role("link", name="Campaigns").click()
        page.get_by_role("link", name="Create campaign").click()
        page.get_by_label("Name", exact=True).fill("First newsletter")
        expect(page.get_by_role("button", name="Insert a variable into the subject").first).to_be_visible()
        line_of(page, "Subject").fill("News for {{ city }}")
        page.get_by_role("button", name=re.compile("^Newsletter")).click()
        expect(page.locator("#composer")).to_have_attribute("data-ready", "yes")
        line_of(page, "Subject").fill("Our news for {{ city }}")
        page.get_by_role("button", name="Send test").click()
        page.get_by_label("To", exact=True).fill("me@example.com")
        page.get_by_role("button", name="Send test email").click()
        expect(page.locator("#composer-toast")).to_contain_text("Test email sent to me@example.com.")
        page.get_by_role("link", name="Back to the campaign").click()
        page.get_by_role("button", name="Stay").click()
        page.get_by_role("link", name="Back to the campaign").click()
        page.get_by_role("button", name="Publish and return").click()
        expect(page.get_by_label("Template", exact=True)).to_have_value("first-newsletter")
        page.get_by_role("button", name="Continue", exact=True).click()

        # Schedule it with a limit of its own, withdraw it, and send it now.
        page.get_by_label("Shop news").first.check()
        page.get_by_role("button", name="Continue", exact=True).click()
        page.get_by_text("Send rate").click()
        page.get_by_label("Emails per hour").fill("4")
        page.get_by_label("At a certain time").check()
        page.get_by_label("Date and time").fill("2099-06-01T09:30")
        page.get_by_role("button", name="Continue to review").click()
        expect(page.locator(".checks")).to_contain_text("6 recipients at this time")
        page.get_by_role("button", name=re.compile("Schedule for")).click()
        page.locator("#confirm-yes").click()
        expect(page.locator("#header .status")).to_have_text("Scheduled")
        page.get_by_role("button", name="Withdraw and edit").click()
        page.locator("#confirm-yes").click()
        page.get_by_role("link", name="Schedule and limits").click()
        page.get_by_label("Now").check()
        page.get_by_role("button", name="Continue to review").click()
        expect(page.locator(".checks")).to_contain_text("6 recipients at this time")
        page.get_by_role("button", name="Send to the local mailbox (nobody receives it)").click()
        page.locator("#confirm-yes").click()
        expect(page.locator("#progress")).to_contain_text("4 of 6")
        expect(page.locator("#header")).to_contain_text(re.compile(r"Hourly limit reached until \S+"))

        # Pause and resume it, remove the limit, and let it finish.
        page.get_by_role("button", name="Pause campaign").click()
        expect(page.locator("#header .status")).to_have_text("Paused")
        page.get_by_role("button", name="Resume campaign").click()
        expect(page.get_by_role("button", name="Pause campaign")).to_be_visible()
        page.get_by_role("link", name="Content and limits").click()
        page.get_by_label("Emails per hour").fill("")
        page.get_by_role("button", name="Save limits").click()
        expect(page.locator("#flash")).to_be_visible()
        page.get_by_role("link", name="Progress").click()
        expect(page.locator("#progress")).to_contain_text("100 %")
        page.get_by_role("link", name="Report", exact=True).click()
        expect(page.locator(".figure", has_text="Sent")).to_contain_text("of 6")
        context.close()
