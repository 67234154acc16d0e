"""The command palette by keyboard and on a phone, dialogs and toasts, in a real browser."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard import AXE, CHROMIUM, PHONE, Dashboard

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
    pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core here; `make setup` fetches it"),
]


def problems_of(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then(({violations}) => violations)")
    return [each["id"] for each in found]


def selected(page: Page) -> str:
    """Return the option that the combobox announces."""
    option = page.get_by_role("combobox", name="Find anything").get_attribute("aria-activedescendant")
    return page.locator(f"#{option}[aria-selected=true]").inner_text()


@pytest.mark.promise("dashboard-usable")
@pytest.mark.parametrize("keys", ["Control+k", "Meta+k", "/"])
def test_palette_opens_by_keyboard_and_gives_focus_back(dashboard: Dashboard, ada: Page, keys: str) -> None:
    ada.goto(f"{dashboard.address}/lists")
    ada.get_by_role("link", name="New list").focus()
    ada.keyboard.press(keys)
    expect(ada.get_by_role("combobox", name="Find anything")).to_be_focused()
    expect(ada.get_by_role("option", name="New campaign")).to_be_visible()
    assert problems_of(ada) == []
    ada.keyboard.press("Escape")
    expect(ada.get_by_role("combobox", name="Find anything")).to_be_hidden()
    expect(ada.get_by_role("link", name="New list")).to_be_focused()


def test_slash_in_a_field_is_text(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/messages")
    ada.locator("#q").press("/")
    expect(ada.locator("#q")).to_have_value("/")
    expect(ada.locator("#palette")).to_be_hidden()


@pytest.mark.promise("dashboard-usable")
def test_arrow_keys_choose_and_enter_opens(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/")
    ada.keyboard.press("Control+k")
    ada.keyboard.type("campaign")
    expect(ada.locator("#palette")).to_have_attribute("data-answered", "campaign")
    assert selected(ada) == "New campaign"
    ada.keyboard.press("ArrowDown")
    assert selected(ada) == "Campaigns"
    ada.keyboard.press("ArrowUp")
    ada.keyboard.press("ArrowUp")
    expect(ada.get_by_role("option").last).to_have_attribute("aria-selected", "true")
    ada.keyboard.press("ArrowDown")
    ada.keyboard.press("ArrowDown")
    ada.keyboard.press("Enter")
    expect(ada).to_have_url(f"{dashboard.address}/campaigns")


@pytest.mark.promise("search-explains")
def test_palette_answers_the_question_of_the_open_message(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(dashboard.url("/messages/{email to tim@example.com}"))
    here = ada.url
    ada.keyboard.press("Control+k")
    ada.keyboard.type("why hasn't this been sent?")
    expect(ada.locator(".palette-answer")).to_have_count(1)
    expect(ada.locator(".palette-answer")).to_contain_text("provider")
    assert problems_of(ada) == []
    ada.keyboard.press("Enter")
    expect(ada).to_have_url(here)


@pytest.mark.promise("dashboard-usable")
def test_palette_works_on_a_phone(dashboard: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True, color_scheme="dark")
    page = dashboard.sign_in(context)
    page.locator("[data-palette]:visible").tap()
    page.get_by_role("combobox", name="Find anything").fill("ada@example.com")
    expect(page.locator(".palette-answer").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert problems_of(page) == []
    page.get_by_role("option", name="Ada Lovelace ada@example.com", exact=True).tap()
    expect(page).to_have_url(re.compile(r"/contacts/ada(@|%40)example\.com$"))
    context.close()


@pytest.mark.promise("dashboard-usable")
def test_create_form_opens_in_a_dialog_and_keeps_errors(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/lists")
    ada.get_by_role("link", name="New list").click()
    dialog = ada.get_by_role("dialog", name="New list")
    expect(dialog.get_by_label("Name")).to_be_focused()
    dialog.get_by_label("Name").fill("Workshop")
    dialog.get_by_label("Key").fill("Not a key")
    ada.keyboard.press("Enter")
    expect(dialog.locator("#listKey-error")).to_be_visible()
    expect(dialog.get_by_label("Key")).to_be_focused()
    expect(dialog.get_by_label("Name")).to_have_value("Workshop")
    assert problems_of(ada) == []
    dialog.get_by_label("Key").fill("workshop")
    ada.keyboard.press("Enter")
    expect(ada).to_have_url(f"{dashboard.address}/lists/workshop")
    expect(ada.get_by_role("status").filter(has_text="List created.")).to_be_visible()
    ada.get_by_role("button", name="Dismiss").click()
    expect(ada.locator("#flash")).to_be_empty()


def test_closed_dialog_gives_focus_back_to_its_link(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/suppressions")
    link = ada.get_by_role("link", name="Suppress address")
    link.press("Enter")
    expect(ada.get_by_role("dialog", name="Suppress address")).to_be_visible()
    ada.keyboard.press("Escape")
    expect(ada.get_by_role("dialog", name="Suppress address")).to_be_hidden()
    expect(link).to_be_focused()
