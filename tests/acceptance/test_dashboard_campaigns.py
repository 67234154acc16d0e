"""Campaign and template pages in a real browser."""

import re
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mailwright.domain.clock import DAY
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.records import Actor, Campaign
from tests.builders import DEFAULT_TENANT
from tests.dashboard import CHROMIUM, DESK, PHONE, Dashboard, line_of, open_editor

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

HELD, SENT, DRAFT = "Spring catalogue", "Thanks to collectors", "A/B test of two subjects"
ADA = Actor("ada", DEFAULT_TENANT)
# The dashboard of the tests sends to the local mailbox.
SEND = "Send to the local mailbox (nobody receives it)"


def found(dashboard: Dashboard, name: str) -> Campaign:
    some = dashboard.do(lambda: dashboard.engine.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=50))
    return next(each for each in some if each.name == name)


def created(dashboard: Dashboard, name: str, **changes: Any) -> str:
    plain: dict[str, Any] = {
        "name": name,
        "content": {"subject": "News, {{ name }}", "format": "markdown", "body": "# News\n\nOf {{ city }}."},
        "lists": ["news"],
    }
    definition = CampaignDefinition.model_validate({**plain, **changes})
    made = dashboard.do(lambda: dashboard.engine.campaigns.create(ADA, DEFAULT_TENANT, definition))
    return made.campaign_id


def actions_on(dashboard: Dashboard, subject: str) -> list[tuple[str, str]]:
    entries = dashboard.do(
        lambda: list_entries(dashboard.engine.database, tenant_id=DEFAULT_TENANT, limit=20, subject=subject)
    )
    return [(each.actor, each.action) for each in reversed(entries)]


def open_page(page: Page, dashboard: Dashboard, path: str) -> None:
    page.goto(f"{dashboard.address}{path}")


def confirm(page: Page) -> None:
    page.locator("#confirm-yes").click()


def press(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()


def open_menu(page: Page) -> None:
    page.locator("#campaign-menu > summary").click()


def test_campaign_is_written_previewed_started_and_completed(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/campaigns/new")
    ada.get_by_label("Name", exact=True).fill("News of autumn")
    line_of(ada, "Subject").fill("Autumn, {{ name }}")
    line_of(ada, "Preview text").fill("Leaves for {{ city }}")
    ada.get_by_text("Write source").click()
    open_editor(ada)
    ada.keyboard.press("Control+A")
    ada.keyboard.type("# Autumn in ")
    ada.locator('[data-insert="city"]').click()
    ada.locator("#as_contact").fill("grace@example.com")
    # The preview follows the typing, with the data of that contact.
    message = ada.frame_locator(".screen.is-light iframe:not(.is-loading)")
    expect(message.locator("h1")).to_have_text("Autumn in New York")
    expect(ada.locator("#preview-details b").first).to_have_text("Autumn, Grace Hopper")
    press(ada, "Continue")
    ada.get_by_label("Shop news").first.uncheck()  # the only list is chosen
    expect(ada.locator("#audience-count")).to_contain_text("Choose a list")
    ada.get_by_label("Shop news").first.check()
    expect(ada.locator("#audience-count")).to_contain_text("15 recipients at this time")
    press(ada, "Continue")
    press(ada, "Continue to review")

    expect(ada.get_by_role("heading", level=1)).to_have_text("News of autumn")
    expect(ada.locator(".checks")).to_contain_text("15 recipients at this time")
    campaign_id = ada.url.rpartition("/")[2]
    ada.get_by_role("button", name=SEND).click()
    expect(ada.locator("#confirm-text")).to_contain_text("goes to 15 recipients on Shop news, as fast")
    confirm(ada)
    expect(ada.locator("#header")).to_contain_text("Sent")
    expect(ada.locator("#progress")).to_contain_text("100 %")
    actions = [action for _, action in actions_on(dashboard, campaign_id)]
    assert actions[:4] == ["campaign.create", "campaign.edit", "campaign.edit", "campaign.start"]


def test_starter_becomes_the_design_by_keyboard_on_a_phone(dashboard: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport=PHONE)
    page = dashboard.sign_in(context)
    open_page(page, dashboard, "/campaigns/new")
    page.keyboard.type("Phone news")  # The name has the focus.
    page.get_by_role("radio", name="Write source").focus()
    expect(page.locator(".for-design")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.locator(".for-design")).to_be_hidden()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("radio", name="Design with blocks")).to_be_checked()
    expect(page.locator("button.starter")).to_have_count(11)
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.locator("button.starter").nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#composer")).to_have_attribute("data-ready", "yes")
    assert "/templates/phone-news/compose?campaign=" in page.url
    page.get_by_role("link", name="Back to the campaign").press("Enter")
    expect(page.get_by_role("radio", name="Use a template")).to_be_checked()
    expect(page.get_by_label("Template", exact=True)).to_have_value("phone-news")
    expect(page.get_by_role("link", name="Edit design")).to_be_visible()
    draft = found(dashboard, "Phone news")
    assert (draft.definition.content.template_id, draft.definition.content.body) == ("phone-news", None)
    context.close()


def test_design_without_a_choice_saves_no_sample_text(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/campaigns/new")
    press(ada, "Continue")
    expect(ada.locator("[id='name-error']")).to_be_visible()
    ada.get_by_label("Name", exact=True).fill("Nothing written")
    press(ada, "Save and close")
    expect(ada.get_by_role("link", name="Nothing written")).to_be_visible()
    assert not found(dashboard, "Nothing written").definition.content.is_written


def test_invalid_form_keeps_input_and_shows_errors_beside_fields(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/campaigns/new")
    ada.get_by_label("Name", exact=True).fill("Half a campaign")
    press(ada, "Continue")
    ada.get_by_label("Sender address").fill("nobody")
    ada.get_by_label("Reply-to").fill("somebody@example.com")
    press(ada, "Continue")
    expect(ada.locator("[id='from-error']")).to_be_visible()
    expect(ada.get_by_label("Reply-to")).to_have_value("somebody@example.com")
    # The summary is focused, and its link focuses the field, which names its error.
    expect(ada.locator(".error-summary")).to_be_focused()
    ada.locator(".error-summary").get_by_role("link", name="Sender address").press("Enter")
    expect(ada.get_by_label("Sender address")).to_be_focused()
    expect(ada.get_by_label("Sender address")).to_have_attribute("aria-describedby", re.compile("from-error"))
    ada.get_by_label("Sender address").fill("")
    ada.get_by_label("Shop news").first.check()
    press(ada, "Continue")
    ada.get_by_text("Send rate").click()
    ada.get_by_label("Emails per hour").fill("many")
    press(ada, "Continue to review")
    expect(ada.locator("[id='limits.ratePerHour-error']")).to_be_visible()
    expect(ada.get_by_label("Emails per hour")).to_have_value("many")
    # A syntax error is reported with its line, and the last valid preview stays.
    ada.once("dialog", lambda dialog: dialog.accept())
    ada.locator("main").get_by_role("link", name="Content", exact=True).click()
    expect(ada.get_by_label("Name", exact=True)).to_have_value("Half a campaign")
    line_of(ada, "Subject").fill("A subject")
    ada.get_by_text("Write source").click()
    open_editor(ada)
    ada.keyboard.press("Control+End")
    ada.keyboard.type("{{ name")
    expect(ada.locator("#preview-details .error")).to_be_visible()


def test_failed_check_disables_start_and_lists_errors_with_advice(dashboard: Dashboard, ada: Page) -> None:
    content = {"subject": "News", "body": '<p>{{ shoe_size }}</p><a href="/news">here</a>'}
    campaign_id = created(dashboard, "Refused", content=content)
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    panel = ada.locator(".checks")
    expect(panel).to_contain_text("shoe_size")
    expect(panel).to_contain_text("Use a full URL that begins with https://")
    expect(panel.get_by_role("link", name="Fix this").first).to_have_attribute(
        "href", re.compile(rf"/campaigns/{campaign_id}/edit/content#")
    )
    expect(ada.get_by_role("button", name=SEND)).to_be_disabled()
    # The server also rejects the start if the check has not loaded.
    preflight = f"**/campaigns/{campaign_id}/checks*"
    ada.route(preflight, lambda route: route.abort())
    ada.reload()
    ada.get_by_role("button", name=SEND).click()
    confirm(ada)
    expect(ada.get_by_role("alert").first).to_contain_text("Not started")
    ada.unroute(preflight)
    assert found(dashboard, "Refused").status == "DRAFT"


def test_schedule_is_changed_withdrawn_and_sent(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "Late news", scheduledAt=dashboard.engine.clock.now() - DAY)
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    panel = ada.locator(".checks")
    expect(panel).to_contain_text("The send time is in the past")
    expect(ada.get_by_role("button", name=re.compile("Schedule for"))).to_be_disabled()
    panel.get_by_role("link", name="Fix this").first.click()
    expect(ada.get_by_label("Date and time")).to_be_focused()
    ada.get_by_label("Date and time").fill("2099-06-01T09:30")
    press(ada, "Continue to review")
    expect(panel).to_contain_text("15 recipients at this time")  # Only then does the button name their number.
    ada.get_by_role("button", name=re.compile(r"Schedule for .*1 Jun.* 09:30 \S+")).click()
    expect(ada.locator("#confirm-text")).to_contain_text("15 recipients on Shop news")
    confirm(ada)
    expect(ada.locator("#header .status")).to_have_text("Scheduled")
    ada.get_by_role("button", name="Withdraw and edit").click()
    confirm(ada)
    expect(ada.get_by_text("The campaign is a draft again")).to_be_visible()
    ada.get_by_role("link", name="Schedule and limits").click()
    ada.get_by_label("Now").check()
    press(ada, "Continue to review")
    ada.get_by_role("button", name=SEND).click()
    confirm(ada)
    expect(ada.locator("#header")).to_contain_text("Sent")


def test_actions_disappear_when_the_campaign_begins_to_send(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "Watched", scheduledAt=dashboard.engine.clock.now() + DAY)
    dashboard.do(lambda: dashboard.engine.campaigns.start(ADA, campaign_id))
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    expect(ada.get_by_role("heading", name="Forecast")).to_be_visible()
    expect(ada.get_by_role("button", name="Change send time")).to_be_visible()
    dashboard.do(lambda: dashboard.engine.campaigns.reschedule(ADA, campaign_id, None))
    expect(ada.locator("#header")).to_contain_text("Sent")
    for name in ("Change send time", SEND, "Withdraw and edit"):
        expect(ada.get_by_role("button", name=name)).to_have_count(0)
    expect(ada.get_by_role("heading", name="Forecast")).to_have_count(0)
    expect(ada.get_by_text("sent the scheduled campaign now")).to_be_visible()


def test_hours_are_chosen_by_weekday_and_shown_again(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "At certain hours")
    open_page(ada, dashboard, f"/campaigns/{campaign_id}/edit/schedule")
    ada.get_by_label("Send only at certain hours").check()
    ada.get_by_text("Sat", exact=True).click()
    ada.get_by_text("Wed", exact=True).click()
    ada.get_by_label("From").fill("08:30")
    press(ada, "Continue to review")
    expect(ada.locator(".summary")).to_contain_text("Mon-Tue 08:30-18:00, Thu-Sat 08:30-18:00")
    ada.get_by_role("link", name="Schedule and limits").click()
    expect(ada.get_by_label("Wed", exact=True)).not_to_be_checked()
    expect(ada.get_by_label("Sat")).to_be_checked()
    for day in ("Mon", "Tue", "Thu", "Fri", "Sat"):
        ada.get_by_text(day, exact=True).click()
    press(ada, "Continue to review")
    expect(ada.locator(".error-summary")).to_contain_text("Choose at least one weekday.")


def test_review_shows_different_recipients_and_remembers_the_test_address(dashboard: Dashboard, ada: Page) -> None:
    content = {"subject": "News", "format": "markdown", "body": "Dear {{ name }} of {{ city | default('somewhere') }}"}
    campaign_id = created(dashboard, "For three", content=content)
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    contacts = ada.get_by_role("navigation", name="Preview as contact").get_by_role("link")
    expect(contacts).to_have_count(3)
    second = contacts.nth(1).inner_text()
    contacts.nth(1).click()
    expect(ada.frame_locator(".screen.is-light iframe").locator("body")).to_contain_text(f"Dear {second}")
    ada.get_by_label("Send a test email to").fill("ada@example.com")
    press(ada, "Send test email")
    expect(ada.get_by_text("1 test email sent.")).to_be_visible()
    open_page(ada, dashboard, f"/campaigns/{found(dashboard, DRAFT).campaign_id}")
    expect(ada.get_by_label("Send a test email to")).to_have_value("ada@example.com")


def test_deleted_draft_is_restored_by_undo(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "Thrown away")
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    open_menu(ada)
    press(ada, "Delete")
    expect(ada.get_by_text("Deleted Thrown away.")).to_be_visible()
    expect(ada.get_by_role("link", name="Thrown away")).to_have_count(0)
    press(ada, "Undo")
    expect(ada.get_by_role("heading", level=1)).to_have_text("Thrown away")
    open_menu(ada)
    press(ada, "Archive")
    ada.get_by_role("link", name="Archived").click()
    ada.get_by_role("link", name="Thrown away").click()
    press(ada, "Restore")
    expect(ada.get_by_text("Campaign restored.")).to_be_visible()


def test_list_in_use_is_not_deleted_and_names_the_draft(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/lists/news")
    ada.get_by_role("button", name="Delete list").click()
    confirm(ada)
    alert = ada.get_by_role("alert")
    expect(alert).to_contain_text("The list Shop news cannot be deleted because")
    expect(alert.get_by_role("link").first).to_have_attribute("href", re.compile("/campaigns/"))


def test_deferred_campaign_shows_reason_and_is_paused_and_resumed(dashboard: Dashboard, ada: Page) -> None:
    # At one message per hour it is still deferred when the clock passes a full hour during the test.
    campaign_id = created(dashboard, "Slow news", limits={"ratePerHour": 1})
    dashboard.do(lambda: dashboard.engine.campaigns.start(ADA, campaign_id))
    open_page(ada, dashboard, "/campaigns")
    expect(ada.locator(f"[id='state-{campaign_id}']")).to_contain_text(re.compile(r"Hourly limit reached until \S+"))
    expect(ada.locator(f"[id='ends-{campaign_id}']")).to_contain_text(re.compile(r"\d\d:\d\d"))
    ada.get_by_role("link", name="Slow news").click()
    ada.get_by_role("button", name="Pause campaign").click()
    expect(ada.locator("#header .status")).to_have_text("Paused")
    expect(ada.locator(".forecast-card")).to_contain_text("When you resume it")
    ada.get_by_role("button", name="Resume campaign").click()
    expect(ada.locator("#header .status")).to_have_text("Deferred")
    # The flash message disappears when the status changes.
    ada.get_by_role("button", name="Pause campaign").click()
    expect(ada.locator("#flash")).not_to_be_empty()
    dashboard.do(lambda: dashboard.engine.campaigns.resume(ADA, campaign_id))
    expect(ada.locator("#header .status")).to_have_text("Deferred")
    expect(ada.locator("#flash")).to_be_empty()
    ada.get_by_role("link", name="Content and limits").click()
    ada.get_by_role("textbox", name="Emails per day").fill("many")
    ada.get_by_role("button", name="Save limits").click()
    expect(ada.locator("[id='limits.dailyLimit-error']")).to_be_visible()
    actions = [action for _, action in actions_on(dashboard, campaign_id)]
    assert actions[-2:] == ["campaign.pause", "campaign.resume"]


def test_report_shows_statistics_and_downloads_csv(dashboard: Dashboard, ada: Page) -> None:
    campaign = found(dashboard, SENT)
    open_page(ada, dashboard, f"/campaigns/{campaign.campaign_id}/report")
    # Of five recipients in the sample, four opened it (one twice) and two clicked a link.
    expect(ada.locator(".figure", has_text="Opened")).to_contain_text("80 %")
    expect(ada.locator(".figure", has_text="Clicked")).to_contain_text("40 %")
    assert ada.locator(".columns-chart rect.is-open").count() >= 1
    with ada.expect_download() as download:
        ada.get_by_role("link", name="Download recipients").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 6
    ada.get_by_role("link", name="Recipients", exact=True).click()
    expect(ada.get_by_role("cell", name="ada@example.com")).to_be_visible()


def test_email_preview_frame_is_sandboxed(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = found(dashboard, DRAFT).campaign_id
    answer = ada.request.get(f"{dashboard.address}/campaigns/{campaign_id}/mail?scheme=dark")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox")
    assert "script-src" not in policy
    assert "default-src 'none'" in policy
    assert "prefers-color-scheme" not in answer.text()
    open_page(ada, dashboard, f"/campaigns/{campaign_id}")
    frame = ada.locator(".screen.is-light iframe")
    assert "allow-scripts" not in (frame.get_attribute("sandbox") or "")
    ada.get_by_text("Text", exact=True).click()
    expect(ada.locator("#preview-text")).to_contain_text("how are the")


def test_template_versions_are_saved_compared_and_tested(dashboard: Dashboard, ada: Page) -> None:
    template_id = f"greeting-{token_hex(3)}"  # Another one if a busy machine lets the test run again.
    open_page(ada, dashboard, "/templates/~new")
    ada.get_by_label("Template id").fill(template_id)
    ada.get_by_role("textbox", name="Subject").fill("Hello {{ name }}")
    ada.get_by_role("button", name="Create template").click()
    expect(ada.locator("main")).to_contain_text("Saved as version 1.")
    ada.get_by_role("link", name="New version").click()
    ada.get_by_role("textbox", name="Subject").fill("Good day, {{ name }}")
    ada.get_by_text("Declared variables").click()
    ada.get_by_label("Variables").fill("town = Lisbon")
    open_editor(ada)
    ada.keyboard.press("Control+Home")
    expect(ada.locator(".editor .cm-line").first).to_have_class(re.compile("cm-activeLine"))
    ada.keyboard.type("In {{ town }}.\n\n")
    expect(ada.frame_locator(".screen.is-light iframe:not(.is-loading)").locator("body")).to_contain_text("In Lisbon.")
    ada.get_by_role("button", name="Save new version").click()
    ada.get_by_role("link", name="Changes in version 2").click()
    expect(ada.locator(".diff .is-new").first).to_have_text("+Good day, {{ name }}")
    ada.get_by_role("link", name=template_id).click()
    ada.get_by_label("To", exact=True).fill("ada@example.com")
    ada.get_by_role("button", name="Send test email").click()
    expect(ada.locator("main")).to_contain_text("Test email sent.")
    assert actions_on(dashboard, template_id) == [("ada", "template.write")] * 2


def test_viewer_cannot_change_campaigns(dashboard: Dashboard, browser: Browser) -> None:
    campaign_id = found(dashboard, HELD).campaign_id
    context = browser.new_context(viewport=DESK)
    alan = dashboard.sign_in(context, "alan")
    open_page(alan, dashboard, f"/campaigns/{campaign_id}")
    expect(alan.locator("#progress")).to_contain_text("of 15")
    assert alan.get_by_role("button", name="Pause campaign").count() == 0
    token = alan.locator("body").get_attribute("hx-headers") or ""
    headers = {"X-Form-Token": token.split('"')[3], "Origin": dashboard.address}
    for path in (f"/campaigns/{campaign_id}/cancel", "/campaigns/new", "/templates/~new", "/campaigns/preview"):
        assert alan.request.post(f"{dashboard.address}{path}", headers=headers, form={"name": "x"}).status == 403
    assert found(dashboard, HELD).status != "CANCELLED"
    context.close()


def test_campaign_of_another_tenant_is_not_found(dashboard: Dashboard, ada: Page) -> None:
    engine = dashboard.engine
    other = next(each for each in dashboard.do(lambda: tenants.list_all(engine.database)) if each.id != DEFAULT_TENANT)
    definition = found(dashboard, DRAFT).definition
    theirs = dashboard.do(lambda: engine.campaigns.create(Actor("theirs", other.id), other.id, definition))
    for place in ("", "/edit", "/edit/audience", "/mail", "/recipients", "/report.csv", "/checks", "/stream"):
        answer = ada.request.get(f"{dashboard.address}/campaigns/{theirs.campaign_id}{place}")
        assert answer.status == 404, place


def test_draft_attachments_are_uploaded_shown_and_removed(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "With a file")
    open_page(ada, dashboard, f"/campaigns/{campaign_id}/edit/content")
    ada.locator("summary", has_text="Attachments").click()
    large = {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"x" * 1_200_000}
    offer = {"name": "offer.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.7"}
    ada.get_by_label("Files").set_input_files([large, offer])
    ada.get_by_role("button", name="Attach files").click()
    expect(ada.get_by_text("2 files attached.")).to_be_visible()
    files = ada.locator("#attachments .attachments li")
    expect(files).to_have_text([re.compile("film.mp4.*1.1 MB"), re.compile("offer.pdf.*8 bytes")])
    checks = ada.request.get(f"{dashboard.address}/campaigns/{campaign_id}/checks").text()
    assert "The attachments add 1.6 MB to each email" in checks
    with ada.expect_download() as started:
        files.get_by_role("link", name="offer.pdf").click()
    assert started.value.suggested_filename == "offer.pdf"
    assert Path(started.value.path()).read_bytes() == b"%PDF-1.7"

    files.first.get_by_role("button", name="Remove").click()
    confirm(ada)
    expect(ada.get_by_text("File removed.")).to_be_visible()
    expect(files).to_have_count(1)
    ada.get_by_role("link", name="Review").click()
    expect(ada.locator(".email-preview .attachments")).to_contain_text("offer.pdf")
    open_menu(ada)
    ada.get_by_role("button", name="Duplicate").click()
    expect(ada.locator("#attachments .attachments")).to_contain_text("offer.pdf")


def test_too_large_attachment_is_refused_with_the_limit(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "With a large file")
    open_page(ada, dashboard, f"/campaigns/{campaign_id}/edit/content")
    ada.locator("summary", has_text="Attachments").click()
    huge = {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"x" * (10 * 1024 * 1024 + 1)}
    ada.get_by_label("Files").set_input_files([huge])
    ada.get_by_role("button", name="Attach files").click()
    expect(ada.get_by_role("status")).to_contain_text("larger than 10 MB together")
    expect(ada.locator("#attachments")).to_contain_text("No attachments.")


def test_upload_above_the_form_limit_shows_a_page(dashboard: Dashboard, ada: Page) -> None:
    campaign_id = created(dashboard, "With two large files")
    open_page(ada, dashboard, f"/campaigns/{campaign_id}/edit/content")
    ada.locator("summary", has_text="Attachments").click()
    half = {"name": "film.mp4", "mimeType": "video/mp4", "buffer": b"x" * (6 * 1024 * 1024)}
    ada.get_by_label("Files").set_input_files([half, {**half, "name": "more.mp4"}])
    ada.get_by_role("button", name="Attach files").click()
    expect(ada.locator("body")).to_contain_text("The upload is larger than 10 MB")


def test_in_doubt_address_opens_the_unconfirmed_emails(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, f"/campaigns/{found(dashboard, SENT).campaign_id}/in-doubt")
    expect(ada).to_have_url(re.compile(r"/recipients\?show=in_doubt$"))
