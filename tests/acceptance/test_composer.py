"""Journeys through the composer in a real browser: by mouse, by keyboard, on a desktop and on a phone."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from mailwright.content.template_drafts import DraftKey
from mailwright.outbox.message_records import MessageSearch, search
from tests.builders import DEFAULT_TENANT
from tests.composing import DOCUMENT, a_block_template
from tests.dashboard import AXE, CHROMIUM, DESK, PHONE, Dashboard, show

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NUMBERS = count(1)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK, timezone_id="Europe/Lisbon")
    yield context
    context.close()


@pytest.fixture
def template_id(dashboard: Dashboard) -> str:
    name = f"composed-{next(NUMBERS)}"
    dashboard.do(lambda: a_block_template(dashboard.engine, name))
    return name


def compose(dashboard: Dashboard, page: Page, template_id: str, query: str = "") -> Page:
    page.goto(f"{dashboard.address}/templates/{template_id}/compose{query}")
    expect(page.locator("#composer")).to_have_attribute("data-ready", "yes")
    return page


@pytest.fixture
def editor(dashboard: Dashboard, context: BrowserContext, template_id: str) -> Page:
    return compose(dashboard, dashboard.open_page(context), template_id)


def block(page: Page, block_id: str) -> Locator:
    return page.locator(f".c-block[data-id={block_id}]")


def kinds(page: Page) -> list[str]:
    return page.locator("#composer-canvas > .c-email > .c-list > .c-block").evaluate_all(
        "blocks => blocks.map((block) => block.dataset.type)"
    )


def expect_kinds(page: Page, wanted: list[str]) -> None:
    blocks = page.locator("#composer-canvas > .c-email > .c-list > .c-block")
    expect(blocks).to_have_count(len(wanted))
    assert kinds(page) == wanted


def expect_saved(page: Page) -> None:
    expect(page.locator("#composer-state")).to_have_text(re.compile(r"^Draft saved \d\d:\d\d"))


def draft_of(dashboard: Dashboard, template_id: str) -> Any:
    found = dashboard.do(lambda: dashboard.engine.template_drafts.find(DraftKey(DEFAULT_TENANT, template_id)))
    assert found is not None
    return found


def published(dashboard: Dashboard, template_id: str) -> Any:
    return dashboard.do(lambda: dashboard.engine.templates.latest(DEFAULT_TENANT, template_id))


# By mouse.


def test_marketer_writes_tests_and_saves_an_email(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.get_by_role("textbox", name="Subject").fill("Summer news for ")
    page.get_by_role("button", name="Insert a variable into the subject").click()
    page.get_by_label("If a contact has none, write").fill("you")
    page.get_by_role("button", name="Insert", exact=True).click()
    expect(page.get_by_role("textbox", name="Subject")).to_have_text("Summer news for name or “you”")
    page.get_by_role("textbox", name="Preview text").fill("Twelve new machines, {{ city|upper }}")
    block(page, "more").click()
    page.get_by_role("button", name="Text", exact=True).click()
    expect_kinds(page, ["heading", "text", "button", "text", "footer"])
    page.keyboard.type("Dear ")
    page.get_by_role("button", name="Variable", exact=True).last.click()
    page.get_by_label("Find a variable").fill("name")
    page.get_by_label("If a contact has none, write").fill("friend")
    page.get_by_role("button", name="Insert", exact=True).click()
    page.keyboard.type(", welcome")
    expect(page.locator("#composer-canvas .c-chip")).to_have_text("name or “friend”")
    expect_saved(page)
    page.get_by_role("button", name="Send test").click()
    page.get_by_label("To", exact=True).fill("composer-test@example.com")
    page.get_by_label("With the data of").fill("ada@example.com")
    page.get_by_role("button", name="Send test email").click()
    expect(page.locator("#composer-toast")).to_contain_text("Test email sent to composer-test@example.com.")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#composer-state")).to_have_text("Published as version 2")
    stored = published(dashboard, template_id)
    assert (stored.subject, stored.version) == ('Summer news for {{ name|default("you", true) }}', 2)
    assert 'name|default("friend", true)' in stored.html.replace("'", '"')
    assert "Twelve new machines, {{ city|upper }}" in stored.html
    assert draft_of(dashboard, template_id).document is None
    html = received_html(dashboard, page, "composer-test@example.com")
    assert "Dear Ada" in html


def received_html(dashboard: Dashboard, page: Page, address: str) -> str:
    """Wait until the local mailbox shows the email to this address, and return its HTML."""
    [message] = dashboard.do(
        lambda: search(dashboard.engine.database, DEFAULT_TENANT, MessageSearch(to_email=address), limit=1)
    )
    for _ in range(100):
        answer = page.request.get(f"{dashboard.address}/mailbox/{message.outbox_id}")
        if answer.ok:
            break
        page.wait_for_timeout(100)
    frame = re.search(r'src="(/mailbox/[^"]+)"', answer.text())
    assert frame is not None
    return page.request.get(dashboard.address + frame[1].replace("&amp;", "&")).text()


def test_blocks_are_dragged_and_undone(editor: Page) -> None:
    page = editor
    drag(page, page.locator("[data-adds=image]"), block(page, "words"))
    expect_kinds(page, ["heading", "image", "text", "button", "footer"])
    block(page, "more").click()
    drag(page, block(page, "more").locator(".c-handle"), block(page, "title"))
    expect_kinds(page, ["button", "heading", "image", "text", "footer"])
    page.get_by_role("button", name="Undo", exact=True).click()
    expect_kinds(page, ["heading", "image", "text", "button", "footer"])
    page.get_by_role("button", name="Undo", exact=True).click()
    expect_kinds(page, ["heading", "text", "button", "footer"])
    page.get_by_role("button", name="Redo").click()
    expect_kinds(page, ["heading", "image", "text", "button", "footer"])
    expect_saved(page)


def drag(page: Page, handle: Locator, target: Locator) -> None:
    """Drag a block to above the target, and drop it when it is there. Blocks move while others make room."""
    start = handle.bounding_box()
    assert start is not None
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    for _ in range(200):
        end = target.bounding_box()
        assert end is not None
        page.mouse.move(end["x"] + 100, end["y"] + 4, steps=4)
        page.mouse.move(end["x"] + 102, end["y"] + 5)
        if target.evaluate("block => Boolean(block.previousElementSibling?.matches('.is-ghost'))"):
            break
    page.mouse.up()


def test_columns_hold_blocks_and_no_columns(editor: Page) -> None:
    page = editor
    block(page, "words").click()
    page.get_by_role("button", name="Columns").click()
    expect_kinds(page, ["heading", "text", "columns", "button", "footer"])
    columns = page.locator(".c-block[data-type=columns]")
    columns.get_by_role("button", name="Add block").first.click()
    menu = page.get_by_role("menu", name="Add block")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    expect(menu.get_by_role("menuitem", name="Columns")).to_have_count(0)
    menu.get_by_role("menuitem", name="Button", exact=True).click()
    expect(menu).to_have_count(0)
    expect(columns.locator(".c-block[data-type=button]")).to_have_count(1)
    columns.get_by_role("button", name="Add block").last.click()
    page.get_by_role("button", name="Columns").click()
    expect(columns.locator(".c-block[data-type=columns]")).to_have_count(0)
    expect(page.locator(".c-block[data-type=columns]")).to_have_count(2)


def test_block_is_added_between_two_others(editor: Page) -> None:
    page = editor
    block(page, "title").hover()
    block(page, "title").locator("> .c-insert").click()
    page.get_by_role("menuitem", name="Quote").click()
    expect_kinds(page, ["heading", "quote", "text", "button", "footer"])
    page.get_by_role("button", name="Insert below").click()
    page.get_by_role("menuitem", name="Divider").click()
    expect_kinds(page, ["heading", "quote", "divider", "text", "button", "footer"])


def test_image_is_uploaded_and_needs_a_description(editor: Page) -> None:
    page = editor
    block(page, "words").click()
    page.locator("[data-adds=image]").click()
    page.locator(".c-block[data-type=image]").get_by_role("button", name="Choose image").click()
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"This is no image."}
    page.get_by_label("Upload an image").set_input_files(broken)
    problem = page.get_by_role("dialog").get_by_role("alert")
    expect(problem).to_be_visible()
    expect(problem).not_to_contain_text("Uploading")
    expect(page.get_by_label("Upload an image")).to_have_value("")
    page.get_by_label("Upload an image").set_input_files({"name": "cat.png", "mimeType": "image/png", "buffer": PIXEL})
    expect(page.locator(".c-block[data-type=image] img.c-picture")).to_be_visible()
    expect(page.get_by_text("Describe the image, or mark it as decoration.")).to_be_visible()
    page.get_by_role("tab", name="Warnings").click()
    expect(page.locator("#composer-warnings")).to_contain_text("Image: The image has no alternative text")
    page.get_by_role("tab", name="Settings").click()
    page.get_by_label("Decoration only").check()
    expect(page.locator("#composer-warnings")).not_to_contain_text("alternative text")


def test_formatting_link_and_list(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.locator(".c-block[data-id=words] .ProseMirror").click()
    page.keyboard.press("Control+A")
    page.get_by_role("button", name="Bold").click()
    page.get_by_role("button", name="Link", exact=True).click()
    page.get_by_label("Address").fill("javascript:alert(1)")
    page.get_by_role("button", name="Add link").click()
    expect(page.get_by_text("Use an address that begins with https://")).to_be_visible()
    page.get_by_label("Address").fill("example.com/news")
    page.get_by_role("button", name="Add link").click()
    page.get_by_role("button", name="Bulleted list").click()
    expect_saved(page)
    [words] = [each for each in draft_of(dashboard, template_id).document["blocks"] if each["id"] == "words"]
    link = '<a href="https://example.com/news"><strong>The catalogue is here.</strong></a>'
    assert words["html"] == f"<ul><li>{link}</li></ul>"


def paste_html(page: Page, html: str) -> None:
    page.evaluate(
        """html => {
          const data = new DataTransfer();
          data.setData("text/html", html);
          const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
          document.activeElement.dispatchEvent(event);
        }""",
        html,
    )


WORD = """<html><head><style>p.MsoNormal{margin:0}</style></head><body><!--StartFragment-->
<p class=MsoNormal style='margin:0cm'><b><span lang=EN-US style='font-family:Calibri;color:black'>Bold</span></b> words
<o:p></o:p></p><p class=MsoListParagraph style='mso-list:l0 level1 lfo1'><span style='mso-list:Ignore'>·<span>&nbsp;
</span></span>First</p><script>alert(1)</script><!--EndFragment--></body></html>"""


def test_text_from_word_is_cleaned(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.locator(".c-block[data-id=words] .ProseMirror").click()
    page.keyboard.press("Control+A")
    paste_html(page, WORD)
    expect(page.locator(".c-block[data-id=words] li")).to_have_text("First")
    expect_saved(page)
    [words] = [each for each in draft_of(dashboard, template_id).document["blocks"] if each["id"] == "words"]
    assert words["html"] == "<p><strong>Bold</strong> words</p><ul><li>First</li></ul>"


def test_pasted_page_becomes_blocks(editor: Page) -> None:
    page = editor
    block(page, "words").focus()
    paste_html(page, "<h2>Spring</h2><p>First <b>words</b></p><script>alert(1)</script><h2>Summer</h2>")
    expect_kinds(page, ["heading", "text", "heading", "text", "heading", "button", "footer"])
    page.locator(".c-block[data-id=words] .ProseMirror").click()
    page.keyboard.press("Control+A")
    table = "<table><tr><td>Mon</td><td>9 am</td></tr></table>"
    paste_html(page, f"<h2>Autumn</h2><p>Hours</p>{table}<img src='file:///C:/cat.png'>")
    expect(block(page, "words")).to_have_count(0)
    expect_kinds(page, ["heading", "heading", "text", "heading", "text", "heading", "button", "footer"])
    expect(page.locator("#composer-toast")).to_contain_text("1 image was left out")
    expect(page.locator("#composer-toast")).to_contain_text("A table became text.")
    page.keyboard.press("Control+z")
    expect(block(page, "words")).to_contain_text("The catalogue is here.")


def test_new_email_begins_with_a_starter(dashboard: Dashboard, context: BrowserContext) -> None:
    page = dashboard.open_page(context)
    page.goto(f"{dashboard.address}/templates")
    page.get_by_role("link", name="New template").click()
    page.get_by_label("Name").fill("Winter news!")
    page.get_by_label("Announcement").check()
    page.get_by_role("button", name="Create and edit").click()
    expect(page).to_have_url(f"{dashboard.address}/templates/winter-news/compose")
    expect(page.locator("#composer")).to_have_attribute("data-ready", "yes")
    expect(page.locator(".c-block[data-type=footer]")).to_be_visible()
    assert published(dashboard, "winter-news").format == "blocks"


def test_new_email_begins_with_pasted_markdown(dashboard: Dashboard, context: BrowserContext) -> None:
    page = dashboard.open_page(context)
    page.goto(f"{dashboard.address}/templates/~start")
    page.get_by_label("Name").fill("From Markdown")
    page.get_by_label("HTML or Markdown").check()
    page.get_by_role("button", name="Create and edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").select_option("markdown")
    dialog.get_by_label("Text").fill("# Hello\n\nThese are **words** for {{ city }}.")
    dialog.get_by_role("button", name="Insert").click()
    expect(page.locator("#composer-toast")).to_contain_text("The content has template code")
    expect_kinds(page, ["header", "heading", "text", "footer"])
    expect_saved(page)


# By keyboard.


def test_email_is_written_by_keyboard_alone(editor: Page) -> None:
    page = editor
    said = page.locator("#composer-announcements")
    block(page, "title").focus()
    page.keyboard.press("Alt+ArrowDown")
    expect(said).to_have_text("Heading moved to 2 of 4.")
    expect_kinds(page, ["text", "heading", "button", "footer"])
    expect(block(page, "title")).to_be_focused()
    page.keyboard.press("Control+d")
    expect(said).to_have_text("Heading duplicated.")
    expect_kinds(page, ["text", "heading", "heading", "button", "footer"])
    page.keyboard.press("Delete")
    expect(said).to_have_text("Heading deleted.")
    expect(page.locator("#composer-toast")).to_contain_text("Heading deleted.")
    page.keyboard.press("Control+z")
    expect(page.locator("#composer-toast")).to_be_hidden()
    expect_kinds(page, ["text", "heading", "heading", "button", "footer"])
    page.keyboard.press("Control+y")
    expect_kinds(page, ["text", "heading", "button", "footer"])
    block(page, "words").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.type(" Come and see.")
    expect(block(page, "words")).to_contain_text("The catalogue is here. Come and see.")
    undo_and_redo_while_typing(page)
    page.keyboard.press("Alt+F10")
    expect(page.get_by_role("button", name="Bold")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Italic")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(block(page, "words")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(block(page, "title")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("menuitem", name="Heading")).to_be_focused()
    page.keyboard.press("Escape")
    expect(block(page, "title")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("b")
    expect(page.get_by_role("menuitem", name="Button")).to_be_focused()
    page.keyboard.press("Enter")
    expect_kinds(page, ["text", "heading", "button", "button", "footer"])
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("example.com")
    page.keyboard.press("Shift+Tab")
    page.keyboard.type("Visit us")
    expect(page.locator(".c-block.is-selected")).to_contain_text("Visit us")
    expect(page.locator("#composer-settings").get_by_label("Link")).to_have_value("https://example.com")
    page.keyboard.press("Escape")
    expect(page.locator(".c-block.is-selected")).to_be_focused()
    page.keyboard.press("Control+s")
    expect(page.locator("#composer-state")).to_have_text("Published as version 2")


def test_empty_email_is_begun_by_keyboard(editor: Page) -> None:
    page = editor
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the email")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(block(page, "title")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Delete")
    expect_kinds(page, [])
    expect(page.locator("#composer-canvas")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("menuitem", name="Text")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("Hello ")
    page.keyboard.press("Alt+F10")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.get_by_label("Find a variable").fill("no such thing")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No variable matches.")).to_be_visible()
    page.get_by_label("Find a variable").fill("name")
    page.keyboard.press("Enter")
    expect(page.locator(".c-block .c-chip")).to_have_text("name")
    expect_saved(page)


def undo_and_redo_while_typing(page: Page) -> None:
    """Typing and blocks have one history. The cursor follows to the text that changed."""
    words, writes = block(page, "words"), page.locator(".ProseMirror:focus")
    block(page, "title").locator(".ProseMirror").focus()
    page.keyboard.insert_text("New! ")
    expect(block(page, "title")).to_contain_text("New! ")
    words.locator(".ProseMirror").focus()
    page.keyboard.press("Control+z")
    expect(writes).to_have_text("Spring news")
    words.locator(".ProseMirror").focus()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(" Bring a friend.")
    expect(words).to_contain_text("Come and see. Bring a friend.")
    page.keyboard.press("Control+z")
    expect(words).not_to_contain_text("Bring a friend.")
    page.keyboard.press("Control+y")
    expect(words).to_contain_text("Come and see. Bring a friend.")
    page.keyboard.press("Control+Shift+z")
    page.keyboard.press("Control+z")
    expect(writes).to_have_text("The catalogue is here. Come and see.")
    page.keyboard.insert_text(" Soon.")
    expect(words).to_contain_text("Come and see. Soon.")


def test_undo_covers_a_hundred_steps(editor: Page) -> None:
    page = editor
    block(page, "title").focus()
    for _ in range(60):
        page.keyboard.press("Control+d")
        page.keyboard.press("Alt+ArrowUp")
    expect(page.locator(".c-block[data-type=heading]")).to_have_count(61)
    for _ in range(120):
        page.keyboard.press("Control+z")
    expect_kinds(page, ["heading", "text", "button", "footer"])


def test_blocks_are_copied_to_another_email(dashboard: Dashboard, editor: Page) -> None:
    page = editor
    other = f"composed-{next(NUMBERS)}"
    dashboard.do(lambda: a_block_template(dashboard.engine, other))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block(page, "more").focus()
    page.keyboard.press("Control+c")
    expect(page.locator("#composer-announcements")).to_have_text("Block copied.")
    compose(dashboard, page, other)
    block(page, "title").focus()
    page.keyboard.press("Control+v")
    expect_kinds(page, ["heading", "button", "text", "button", "footer"])


# Nothing is lost.


def test_reload_shows_the_saved_draft(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.get_by_role("textbox", name="Subject").fill("Changed")
    expect_saved(page)
    compose(dashboard, page, template_id)
    expect(page.get_by_role("textbox", name="Subject")).to_have_text("Changed")
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)
    assert published(dashboard, template_id).subject == "Spring news"


def test_offline_changes_survive_a_crash(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.context.set_offline(True)
    page.get_by_role("textbox", name="Subject").fill("Written on a train")
    expect(page.locator("#composer-state")).to_have_text("Offline: kept in this browser")
    crashed = page.context.new_page()
    page.close(run_before_unload=False)
    crashed.context.set_offline(False)
    compose(dashboard, crashed, template_id)
    expect(crashed.get_by_role("textbox", name="Subject")).to_have_text("Spring news")
    crashed.get_by_role("button", name="Restore").click()
    expect(crashed.get_by_role("textbox", name="Subject")).to_have_text("Written on a train")
    expect_saved(crashed)
    assert draft_of(dashboard, template_id).subject == "Written on a train"


def test_lost_response_is_no_conflict_with_oneself(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    def lose(route: Route) -> None:
        route.fetch()
        route.abort()

    subject = editor.get_by_role("textbox", name="Subject")
    editor.route("**/autosave", lose, times=1)
    subject.fill("Saved, not confirmed")
    expect(editor.locator("#composer-state")).to_have_text("Offline: kept in this browser")
    subject.fill("Written since")
    expect_saved(editor)
    assert draft_of(dashboard, template_id).subject == "Written since"


@pytest.fixture
def other(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=DESK, timezone_id="Europe/Lisbon")
    yield dashboard.open_page(context, "grace")
    context.close()


def test_two_editors_are_warned_and_lose_nothing(
    dashboard: Dashboard, editor: Page, other: Page, template_id: str
) -> None:
    compose(dashboard, other, template_id)
    expect(other.locator("#composer-banners")).to_contain_text("ada is editing this email too.")
    expect(editor.locator("#composer-banners")).to_contain_text("grace is editing this email too.")
    other.get_by_role("textbox", name="Subject").fill("From Grace")
    expect_saved(other)
    editor.get_by_role("textbox", name="Subject").fill("From Ada")
    dialog = editor.get_by_role("dialog")
    expect(dialog).to_contain_text("grace saved this email at")
    dialog.get_by_role("button", name="Compare").click()
    expect(editor.frame_locator("iframe[name=composer-theirs]").get_by_text("Spring news")).to_be_visible()
    expect(editor.get_by_role("region", name="Differences").get_by_role("row").last).to_contain_text(
        "From AdaFrom Grace"
    )
    editor.locator("iframe[name=composer-theirs]").click()
    editor.keyboard.press("Escape")
    editor.get_by_role("button", name="Keep mine as a copy").click()
    expect(editor).to_have_url(f"{dashboard.address}/templates/{template_id}-copy/compose")
    expect(editor.get_by_role("textbox", name="Subject")).to_have_text("From Ada")
    assert draft_of(dashboard, template_id).subject == "From Grace"


def test_taking_theirs_keeps_mine_in_the_history(
    dashboard: Dashboard, editor: Page, other: Page, template_id: str
) -> None:
    compose(dashboard, other, template_id)
    other.get_by_role("textbox", name="Subject").fill("From Grace")
    expect_saved(other)
    editor.get_by_role("textbox", name="Subject").fill("From Ada")
    revision = draft_of(dashboard, template_id).revision
    editor.get_by_role("button", name="Take theirs").click()
    expect(editor.get_by_role("textbox", name="Subject")).to_have_text("From Grace")
    expect_saved(editor)
    assert draft_of(dashboard, template_id).revision == revision  # Nothing is new for the others.
    editor.get_by_role("button", name="Undo", exact=True).click()
    expect(editor.get_by_role("textbox", name="Subject")).to_have_text("From Ada")
    expect_saved(editor)


def test_expired_session_loses_nothing(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.get_by_role("textbox", name="Subject").fill("Written while signed out")
    expect(page.get_by_text("Your session has ended. Nothing is lost")).to_be_visible()
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    page.get_by_role("button", name="I have signed in").click()
    expect_saved(page)
    assert draft_of(dashboard, template_id).subject == "Written while signed out"


def test_discarded_draft_comes_back_by_undo(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.get_by_role("textbox", name="Subject").fill("Draft subject")
    expect_saved(page)
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Discard draft").click()
    expect(page.get_by_role("textbox", name="Subject")).to_have_text("Spring news")
    page.locator("#composer-toast").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("textbox", name="Subject")).to_have_text("Draft subject")
    expect_saved(page)
    assert draft_of(dashboard, template_id).subject == "Draft subject"


def test_switch_to_source_keeps_blocks_in_history(dashboard: Dashboard, editor: Page, template_id: str) -> None:
    page = editor
    page.get_by_role("textbox", name="Subject").fill("Last with blocks")
    page.get_by_label("More actions").click()
    page.get_by_role("button", name="Switch to source…").click()
    expect(page.get_by_role("dialog")).to_contain_text("What cannot come back")
    page.get_by_role("button", name="Switch to source", exact=True).click()
    expect(page).to_have_url(re.compile(rf"/templates/{template_id}/edit\?version=3$"))
    versions = dashboard.do(lambda: dashboard.engine.templates.versions(DEFAULT_TENANT, template_id))
    assert [each.format for each in versions] == ["mjml", "blocks", "blocks"]
    compose(dashboard, page, template_id, "?version=2")
    expect(page.get_by_role("textbox", name="Subject")).to_have_text("Last with blocks")


# Locked blocks.


def test_locked_and_unknown_blocks_are_kept(dashboard: Dashboard, context: BrowserContext) -> None:
    name = f"composed-{next(NUMBERS)}"
    guarded = [
        {"id": "law", "type": "text", "locked": True, "html": "<p>Legal text</p>"},
        {"id": "new", "type": "hologram", "depth": 3},
    ]
    document = {"version": 1, "blocks": [*guarded, *DOCUMENT["blocks"]]}
    dashboard.do(lambda: a_block_template(dashboard.engine, name, document))
    page = compose(dashboard, dashboard.open_page(context), name)
    expect(block(page, "new")).to_contain_text("is not known to this version. It is kept")
    block(page, "law").focus()
    page.keyboard.press("Delete")
    expect(page.locator("#composer-announcements")).to_have_text("This block is locked.")
    expect(block(page, "law").locator(".ProseMirror")).to_have_attribute("contenteditable", "false")
    page.get_by_role("textbox", name="Subject").fill("Saved")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#composer-state")).to_have_text("Published as version 2")
    assert json.loads(published(dashboard, name).body)["blocks"][:2] == guarded


def test_slots_show_only_their_fields(dashboard: Dashboard, context: BrowserContext) -> None:
    name = f"composed-{next(NUMBERS)}"
    mjml = (
        "<mjml><mj-body><mj-section><mj-column><mj-text>[[intro]]</mj-text></mj-column></mj-section></mj-body></mjml>"
    )
    slot = {"id": "s1", "type": "slot", "name": "intro", "label": "Introduction", "kind": "text", "value": "Hello"}
    dashboard.do(lambda: a_block_template(dashboard.engine, name, {"version": 1, "mjml": mjml, "blocks": [slot]}))
    page = compose(dashboard, dashboard.open_page(context), name)
    expect(page.locator("[data-adds]")).to_have_count(0)
    block(page, "s1").click()
    page.get_by_label("Introduction", exact=True).fill("Good morning")
    expect(block(page, "s1")).to_contain_text("Good morning")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#composer-state")).to_have_text("Published as version 2")
    assert "Good morning" in published(dashboard, name).html


# Everywhere.


def test_email_is_composed_on_a_phone(dashboard: Dashboard, browser: Browser, template_id: str) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True, color_scheme="dark")
    page = compose(dashboard, dashboard.open_page(context), template_id)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    bar = page.get_by_role("navigation", name="Editor")
    bar.get_by_role("button", name="Add block").tap()
    page.locator("[data-adds=divider]").tap()
    expect_kinds(page, ["heading", "text", "button", "divider", "footer"])
    block(page, "more").tap()
    bar.get_by_role("button", name="Settings").tap()
    page.get_by_label("Label", exact=True).fill("Order now")
    page.get_by_role("button", name="Close settings").tap()
    expect(block(page, "more")).to_contain_text("Order now")
    block(page, "more").get_by_role("button", name="Move up").tap()
    expect_kinds(page, ["heading", "button", "text", "divider", "footer"])
    expect_saved(page)
    context.close()


@pytest.mark.skipif(not AXE.exists(), reason="there is no axe-core here; `make setup` fetches it")
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_composer_is_accessible_in_every_state(
    dashboard: Dashboard, browser: Browser, template_id: str, viewport: Any
) -> None:
    context = browser.new_context(viewport=viewport)
    page = dashboard.open_page(context)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    compose(dashboard, page, template_id)
    page.evaluate(AXE.read_text())
    expect(page.locator("#composer-warnings").get_by_text("102 KB").first).to_be_attached()
    states: list[Callable[[], None]] = [
        lambda: None,
        page.locator(".c-block[data-id=words] .ProseMirror").click,
        lambda: open_preview(page),
    ]
    for reach in states:
        reach()
        for scheme in ("light", "dark"):
            show(page, viewport, scheme)
            found = page.evaluate("axe.run(document.querySelector('dialog[open]') ?? document, {iframes: false})")
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert complaints == []
    context.close()


def open_preview(page: Page) -> None:
    page.get_by_role("button", name="Preview", exact=True).click()
    frame = page.frame_locator("iframe[name=composer-preview]")
    expect(frame.get_by_text("The catalogue is here.")).to_be_visible()


def test_preview_shows_data_of_contact_on_phone_in_dark_mode(editor: Page) -> None:
    page = editor
    page.get_by_role("textbox", name="Subject").fill("Hello {{ name }}")
    page.get_by_role("button", name="Preview", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("As contact").fill("ada@example.com")
    dialog.get_by_label("As contact").press("Enter")
    expect(dialog.locator(".c-preview-subject")).to_have_text(re.compile("Hello Ada"))
    dialog.get_by_role("button", name="Phone").click()
    expect(dialog.locator(".c-stage")).to_have_attribute("data-screen", "phone")
    dialog.get_by_role("button", name="Dark").click()
    frame = page.frame_locator("iframe[name=composer-preview]")
    expect(frame.get_by_text("The catalogue is here.")).to_be_visible()
    dialog.get_by_role("button", name="Plain text").click()
    expect(dialog.locator(".c-preview-text")).to_contain_text("The catalogue is here.")
