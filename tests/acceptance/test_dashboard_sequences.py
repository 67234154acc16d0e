"""Sequences in a real browser: from a ready-made one to its publication, with the keyboard, and on a phone."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.builders import DEFAULT_TENANT
from tests.dashboard import CHROMIUM, PHONE, Dashboard

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


def order_of(page: Page) -> list[str]:
    return page.locator("#steps .track > li > article > .step-text code").all_inner_texts()


def test_ready_made_sequence_is_edited_and_published(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/sequences")
    ada.get_by_role("link", name="New sequence").click()
    ada.get_by_label("Abandoned cart").check()
    ada.get_by_role("button", name="Create draft").click()
    expect(ada.get_by_role("heading", name="Abandoned cart")).to_be_visible()
    # Add a step between two others, in a dialog.
    ada.locator(".add-place summary").nth(2).click()
    ada.locator(".adder[open]").get_by_role("link", name="Change contact").click()
    dialog = ada.get_by_role("dialog")
    dialog.get_by_role("button", name="Add step").last.click()
    expect(dialog).to_contain_text("needs addTags")
    dialog.get_by_label("Add tags").fill("left a cart")
    dialog.get_by_role("button", name="Add step").last.click()
    expect(ada.locator("#step-change")).to_contain_text("Add the tag left a cart")
    assert order_of(ada) == ["one-hour", "reminder", "change", "one-day", "questions", "two-days"]
    # Move it by drag and drop, and take it back.
    ada.locator("#step-change .step-icon").drag_to(ada.locator(".add-place").first)
    expect(ada.locator(".undo")).to_contain_text("Step change moved.")
    assert order_of(ada)[0] == "change"
    ada.get_by_role("button", name="Undo").click()
    expect(ada.locator(".undo")).to_contain_text("Change undone.")
    assert order_of(ada)[2] == "change"
    # Look at the next 30 days, then publish.
    ada.get_by_role("link", name="Simulation").click()
    ada.get_by_label("Everyone on this list enters now").select_option("news")
    ada.get_by_role("button", name="Simulate").click()
    expect(ada.get_by_role("img", name="Emails per day")).to_be_visible()
    ada.get_by_role("link", name="Publish").click()
    dialog.get_by_role("button", name="Publish").click()
    expect(ada.locator("#flash")).to_contain_text("Version 1 is published.")
    expect(ada.locator(".heading")).to_contain_text("Running")


def test_steps_are_moved_and_deleted_on_a_phone_by_keyboard(dashboard: Dashboard, browser: Browser) -> None:
    document = {"name": "Keyboard", "trigger": {"manual": True}, "steps": [{"id": "a", "wait": {"days": 1}}]}
    document["steps"] += [{"id": name, "wait": {"days": 2}} for name in "bc"]
    made = dashboard.do(lambda: dashboard.engine.sequences.create(DEFAULT_TENANT, document, actor="test"))
    context = browser.new_context(viewport=PHONE)
    page = dashboard.sign_in(context, "grace")
    page.goto(f"{dashboard.address}/sequences/{made.sequence_id}")
    page.get_by_role("button", name="Move down a").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".undo")).to_contain_text("Step a moved down.")
    assert order_of(page) == ["b", "a", "c"]
    # The focus stays on the button, so that the step can be moved on.
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Move down a")).to_be_disabled()
    assert order_of(page) == ["b", "c", "a"]
    page.get_by_role("button", name="Delete c").press("Enter")
    expect(page.locator("#step-c")).to_have_count(0)
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.locator("#step-c")).to_be_visible()
    # Somebody else saves meanwhile: the change is refused and nothing is overwritten.
    other = {**document, "name": "Changed by somebody else"}
    dashboard.do(
        lambda: dashboard.engine.sequences.edit(DEFAULT_TENANT, made.sequence_id, other, revision=None, actor="test")
    )
    page.get_by_role("button", name="Delete c").press("Enter")
    expect(page.locator("#flash")).to_contain_text("Somebody else changed the sequence")
    context.close()
