"""The set-up of a new installation in a browser, by mouse and by keyboard."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard import DESK, PASSWORD, PHONE, a_dashboard


def started(page: Page, address: str, token: str | None) -> None:
    page.goto(f"{address}/set-up?token={token}")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", name="Who sends your emails?")).to_be_visible()


@pytest.mark.promise("dashboard-usable")
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_set_up_is_skipped_and_resumed(browser: Browser, tmp_path: Path, viewport: dict[str, int]) -> None:
    with a_dashboard(tmp_path, with_sample=False, people={}) as empty:
        context = browser.new_context(viewport=viewport)
        page = context.new_page()
        started(page, empty.address, empty.do(empty.engine.initial_setup.create_token))
        page.get_by_role("button", name="Skip this step").click()

        # A refused connection is reported beside the form, and nothing is stored.
        page.get_by_label("SMTP server").check()
        page.get_by_label("Host").first.fill("127.0.0.1")
        page.get_by_label("Port").first.fill("1")
        page.get_by_label("Encryption").first.select_option("none")
        page.get_by_role("button", name="Test connection").click()
        expect(page.locator("#connection")).to_contain_text("Connection failed")
        page.get_by_role("link", name="Continue later").click()
        expect(page.get_by_role("heading", name="Get started")).to_be_visible()
        expect(page.locator("main")).to_contain_text("No email leaves this machine")

        # The set-up continues where it was left.
        page.get_by_role("link", name="Continue the set-up").click()
        expect(page.get_by_role("heading", name="How should emails be delivered?")).to_be_visible()
        page.get_by_label("Local mailbox").check()
        page.get_by_role("button", name="Save and continue").click()
        page.get_by_role("button", name="Continue", exact=True).click()
        page.get_by_label("What is the key for?").fill("shop")
        page.get_by_role("button", name="Create key").click()
        expect(page.locator(".copyable code")).to_contain_text("mw_")
        page.get_by_role("link", name="Continue", exact=True).click()
        page.get_by_label("Your address").fill("ada@example.com")
        page.get_by_role("button", name="Send test email").click()
        expect(page.get_by_role("link", name="Continue", exact=True)).to_be_visible()
        page.goto(f"{empty.address}/set-up/test")
        expect(page.get_by_label("Your address")).to_have_value("ada@example.com")
        page.get_by_role("button", name="Skip this step").click()
        page.get_by_label("Email address").fill("grace@example.com")
        page.get_by_role("button", name="Invite").click()
        expect(page.get_by_role("heading", name="Invitation to grace@example.com")).to_be_visible()
        expect(page.locator(".copyable code")).to_contain_text("/sign-in/invitation?token=")
        page.get_by_role("link", name="Continue", exact=True).click()
        expect(page.get_by_role("heading", name="Not ready yet")).to_be_visible()
        expect(page.get_by_role("alert", name="Delivery")).to_contain_text("No worker is running, so nothing is sent.")
        page.goto(f"{empty.address}/nowhere")
        expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
        expect(page.locator("#navigation")).to_be_attached()
        context.close()


def test_provider_is_chosen_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with a_dashboard(tmp_path, with_sample=False, people={}) as empty:
        context = browser.new_context(viewport=DESK)
        page = context.new_page()
        started(page, empty.address, empty.do(empty.engine.initial_setup.create_token))
        page.goto(f"{empty.address}/set-up/provider")
        page.get_by_label("Local mailbox").focus()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_label("SMTP server")).to_be_checked()
        page.keyboard.press("Tab")
        page.keyboard.type("smtp.example.com")
        expect(page.get_by_label("Host").first).to_have_value("smtp.example.com")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Publish your DNS records")).to_be_visible()
        context.close()
