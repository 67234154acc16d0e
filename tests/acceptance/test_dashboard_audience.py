"""Messages, mailbox and audience pages in a real browser."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sqlalchemy import insert, select, update

from mailwright.audience import suppressions
from mailwright.audience.status import ContactStatusService
from mailwright.domain.keys import derive_key
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.tables import deliveries, message_dead_letters, messages
from tests.builders import DEFAULT_TENANT
from tests.dashboard import AXE, CHROMIUM, DESK, PHONE, Dashboard, check_main

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.fixture(scope="module")
def ada(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=DESK, timezone_id="Europe/Lisbon")
    page = dashboard.sign_in(context)
    page.set_default_timeout(30_000)
    yield page
    context.close()


def open_page(page: Page, dashboard: Dashboard, path: str) -> None:
    page.goto(f"{dashboard.address}{path}")


def confirm(page: Page) -> None:
    page.locator("#confirm-yes").click()


def some(dashboard: Dashboard, status: str, count: int = 1, tenant_id: int = DEFAULT_TENANT) -> list[Any]:
    """Return the oldest messages with that status."""
    joined = messages.join(deliveries, deliveries.c.message_key == messages.c.id)
    query = select(messages.c.id, messages.c.outbox_id, messages.c.to_email, messages.c.subject).select_from(joined)
    mine = (deliveries.c.status == status, messages.c.tenant_id == tenant_id)

    async def work() -> list[Any]:
        async with dashboard.engine.database.read() as tx:
            return list(await tx.execute(query.where(*mine).order_by(messages.c.id).limit(count)))

    return dashboard.do(work)


def change(dashboard: Dashboard, *statements: Any) -> None:
    async def work() -> None:
        async with dashboard.engine.database.write() as tx:
            for statement in statements:
                await tx.execute(statement)

    dashboard.do(work)


def actions_on(dashboard: Dashboard, subject: str) -> list[tuple[str, str]]:
    entries = dashboard.do(
        lambda: list_entries(dashboard.engine.database, tenant_id=DEFAULT_TENANT, limit=20, subject=subject)
    )
    return [(each.actor, each.action) for each in reversed(entries)]


def test_message_is_found_by_search_and_shows_its_timeline(dashboard: Dashboard, ada: Page) -> None:
    [sent] = some(dashboard, "SENT")
    open_page(ada, dashboard, "/messages")
    ada.get_by_label("Search").fill(sent.to_email)
    ada.keyboard.press("Enter")
    expect(ada.locator("tbody tr").first).to_contain_text(sent.to_email)
    ada.get_by_label("Search").fill("HAS SHIPPED")
    ada.keyboard.press("Enter")
    expect(ada.locator("tbody tr")).to_have_count(3)
    ada.get_by_label("Status").select_option("FAILED")
    expect(ada.get_by_role("heading", name="No messages found")).to_be_visible()
    ada.get_by_label("Search").fill(sent.outbox_id)
    ada.keyboard.press("Enter")

    expect(ada.get_by_role("heading", level=1)).to_have_text(sent.subject)
    expect(ada.locator("#status .sentence")).to_contain_text("Stored in the local mailbox")
    expect(ada.locator("#timeline")).to_contain_text("Handed to the provider")
    expect(ada.frame_locator(".email-frame iframe").locator("body")).to_contain_text("Thank you, Ada")
    ada.get_by_role("link", name="Headers").click()
    expect(ada.locator(".email-headers")).to_contain_text("Message-ID")
    ada.get_by_role("link", name="Source", exact=True).click()
    expect(ada.locator(".email-text")).to_contain_text("MIME-Version: 1.0")


def test_selected_dead_letters_are_retried(dashboard: Dashboard, ada: Page) -> None:
    failed = some(dashboard, "FAILED", 2)
    dead_letter = {"tenant_id": DEFAULT_TENANT, "code": "REFUSED", "reason": "550 No such user", "attempts": 5}
    rows = [{"message_key": each.id, "created_at": 1_800_000_000_000, **dead_letter} for each in failed]
    change(dashboard, insert(message_dead_letters).values(rows))
    open_page(ada, dashboard, "/dead-letters")
    expect(ada.locator("tbody tr")).to_have_count(2)
    expect(ada.locator("tbody")).to_contain_text("550 No such user")
    ada.get_by_role("button", name="Select all on this page").click()
    # Another user cancels one of them meanwhile.
    change(dashboard, update(deliveries).where(deliveries.c.message_key == failed[0].id).values(status="CANCELLED"))
    ada.get_by_role("button", name="Retry selected").click()
    expect(ada.locator("#flash")).to_have_text("1 email queued again. 1 could no longer be retried.")
    assert actions_on(dashboard, failed[1].outbox_id) == [("ada", "message.retry")]
    assert actions_on(dashboard, failed[0].outbox_id) == []


def test_unconfirmed_message_is_resolved_after_confirmation(dashboard: Dashboard, ada: Page) -> None:
    [sent] = some(dashboard, "SENT")
    values: dict[str, Any] = {
        "status": "IN_DOUBT",
        "claimable_at": 4_000_000_000_000,
        "in_doubt_since": 1_800_000_000_000,
    }
    change(dashboard, update(deliveries).where(deliveries.c.message_key == sent.id).values(**values))
    open_page(ada, dashboard, "/messages?status=IN_DOUBT")
    expect(ada.locator("main")).to_contain_text("The email may or may not have been sent.")
    ada.get_by_role("link", name=sent.subject).click()
    ada.get_by_role("button", name="Mark as sent").click()
    expect(ada.locator("#confirm-text")).to_contain_text("is not sent again")
    # Live updates must not replace the button while its dialog is open.
    ada.wait_for_timeout(2_500)
    confirm(ada)
    expect(ada.locator("#flash")).to_have_text("Email marked as sent.")
    expect(ada.locator("#status .status")).to_have_text("Sent")
    assert actions_on(dashboard, sent.outbox_id) == [("ada", "message.resolve")]


def test_new_email_appears_in_open_mailbox(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/mailbox")
    before = ada.locator(".inbox li").count()
    # Make a scheduled message due now.
    [waiting] = some(dashboard, "PENDING")
    now = {"claimable_at": 0, "next_attempt_at": None, "defer_reason": None}
    change(dashboard, update(deliveries).where(deliveries.c.message_key == waiting.id).values(**now))
    expect(ada.locator(".inbox li")).to_have_count(before + 1)
    ada.locator(".inbox a").first.click()
    expect(ada.locator(".envelope")).to_contain_text(waiting.to_email)
    frame = ada.locator(".email-frame iframe")
    assert "allow-scripts" not in (frame.get_attribute("sandbox") or "")
    ada.get_by_role("link", name="Phone").click()
    assert ada.locator(".email-frame").bounding_box()["width"] < 380  # type: ignore[index]
    ada.get_by_role("link", name="Text", exact=True).click()
    expect(ada.locator(".email-text")).to_be_visible()
    # Emails of the other tenant are in the same folder and must not be shown.
    [other] = some(dashboard, "SENT", tenant_id=DEFAULT_TENANT + 1)
    assert ada.request.get(f"{dashboard.address}/mailbox/{other.outbox_id}").status == 404


def test_contact_is_added_edited_reactivated_and_erased(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/contacts/new")
    ada.get_by_label("Email").fill("maryam@example.com")
    ada.get_by_label("Attributes").fill("city Tehran")
    ada.get_by_role("button", name="Add contact").click()
    expect(ada.locator("#attributes-error")).to_contain_text("Line 1 must have the form city: Lisbon.")
    expect(ada.get_by_label("Email")).to_have_value("maryam@example.com")
    ada.get_by_label("Attributes").fill("city: Tehran")
    ada.get_by_label("Tags").fill("vip, beta")
    ada.get_by_label("List", exact=False).last.select_option("news")
    ada.get_by_role("button", name="Add contact").click()
    expect(ada.locator(".item-list").first).to_contain_text("Shop news")

    ada.get_by_label("Name").fill("Maryam Mirzakhani")
    ada.get_by_role("button", name="Save contact").click()
    expect(ada.get_by_role("heading", level=1)).to_have_text("Maryam Mirzakhani")
    data = ada.request.get(f"{dashboard.address}/contacts/maryam@example.com/data.json").json()
    assert (data["attributes"], data["tags"]) == ({"city": "Tehran"}, ["beta", "vip"])
    open_page(ada, dashboard, "/contacts?q=mirza&tag=vip&list=news")
    ada.get_by_role("link", name="Maryam Mirzakhani").click()
    ada.get_by_role("button", name="Unsubscribe").click()
    confirm(ada)
    expect(ada.locator(".item-list").first).to_contain_text("Unsubscribed")
    assert ("ada", "contact.unsubscribe") in actions_on(dashboard, "maryam@example.com")

    dashboard.do(lambda: _standing(dashboard).bounce(DEFAULT_TENANT, "maryam@example.com", source="test"))
    ada.reload()
    expect(ada.locator(".status-card")).to_contain_text("Emails to this address bounced")
    ada.get_by_role("button", name="Reactivate contact").click()
    confirm(ada)
    expect(ada.locator("#flash")).to_contain_text("Contact reactivated.")
    expect(ada.locator(".status-card .status").first).to_have_text("Active")
    assert ("ada", "contact.activate") in actions_on(dashboard, "maryam@example.com")

    ada.get_by_label("Enter the email address to confirm").fill("maryam@example.com")
    ada.get_by_role("button", name="Erase contact").click()
    confirm(ada)
    expect(ada.locator("#flash")).to_contain_text("Contact erased")
    assert ada.request.get(f"{dashboard.address}/contacts/maryam@example.com").status == 404


def _standing(dashboard: Dashboard) -> ContactStatusService:
    return ContactStatusService(dashboard.engine.database, dashboard.engine.clock)


def test_suppression_is_added_and_removed(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/suppressions")
    ada.get_by_role("link", name="Suppress address").click()
    form = ada.locator("#sheet form")
    form.get_by_label("Email").fill("emmy@example.com")
    form.get_by_label("Reason").fill("asked by phone")
    form.get_by_role("button", name="Suppress address").click()
    line = ada.locator("tbody tr", has_text="emmy@example.com")
    expect(line).to_contain_text("asked by phone")
    expect(line).to_contain_text("reported by ada")
    line.get_by_role("button", name="Remove suppression").click()
    confirm(ada)
    expect(ada.locator("#flash")).to_contain_text("removed")
    assert actions_on(dashboard, "emmy@example.com") == [("ada", "suppression.add"), ("ada", "suppression.lift")]


def test_early_press_waits_for_the_scripts_of_the_page(dashboard: Dashboard, ada: Page) -> None:
    engine, why = dashboard.engine, {"reason": "asked by phone", "source": "ada"}
    dashboard.do(lambda: suppressions.add(engine.database, engine.clock, DEFAULT_TENANT, "early@example.com", **why))
    held: list[Route] = []

    def hold(script: Route) -> None:
        held.append(script)

    ada.route("**/shell.js*", hold)
    ada.goto(f"{dashboard.address}/suppressions", wait_until="commit")
    button = ada.locator("tbody tr", has_text="early@example.com").get_by_role("button", name="Remove suppression")
    button.click(no_wait_after=True)
    assert ada.url.endswith("/suppressions")
    [script] = held
    script.continue_()
    confirm(ada)
    expect(ada.locator("#flash")).to_contain_text("removed")
    ada.unroute("**/shell.js*")


def test_file_is_previewed_imported_and_reported(dashboard: Dashboard, ada: Page, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text(
        "Contact;City;Plan\nkaren.s@example.com;Bern;pro\nnobody;X;Y\nKaren.S@example.com;Basel;\n", encoding="utf-8"
    )
    open_page(ada, dashboard, "/imports?list=news")
    ada.get_by_label("CSV or Excel file").set_input_files(file)
    ada.get_by_role("button", name="Show preview").click()
    expect(ada.get_by_role("alert")).to_contain_text("No column contains the address")
    ada.get_by_label("Contact").select_option("email")
    ada.get_by_label("Plan").select_option("-")
    ada.get_by_role("button", name="Update preview").click()
    expect(ada.get_by_text("1 of 3 rows will be refused.")).to_be_visible()
    expect(ada.get_by_role("region", name="Refused rows")).to_contain_text("is not an email address")
    expect(ada.get_by_role("region", name="First rows")).not_to_contain_text("pro")
    expect(ada.get_by_text("3 rows, 3 columns.")).to_be_visible()
    expect(ada.get_by_text("line 4 repeats an earlier address")).to_be_visible()
    ada.get_by_role("button", name="Start import").click()
    expect(ada.locator("#import .status")).to_have_text("Completed")
    assert re.search(r"/imports/[0-9a-f-]{36}$", ada.url)
    expect(ada.get_by_role("region", name="Refused rows").locator("tbody tr")).to_have_text(
        re.compile("3.*nobody.*not an email")
    )
    expect(ada.get_by_role("main").get_by_role("link", name="Shop news")).to_have_attribute("href", "/lists/news")
    next_step = ada.get_by_role("link", name="Create a campaign for this list")
    expect(next_step).to_have_attribute("href", "/campaigns/new?list=news")
    report = ada.request.get(f"{ada.url}/report.csv").text()
    assert "karen.s@example.com,added" in report
    assert "karen.s@example.com,repeated" in report
    assert "nobody,refused" in report
    assert actions_on(dashboard, ada.url.rpartition("/")[2]) == [("ada", "import.begin")]


def test_segment_editor_counts_contacts_live(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/segments/new")
    for name, key in (
        ("Größte Käufer 2027!", "groesste-kaeufer-2027"),
        ("Новые ΆΒΓ", "novye-avg"),
        ("Buyers", "buyers"),
    ):
        ada.get_by_label("Name", exact=True).fill(name)
        expect(ada.get_by_label("Key")).to_have_value(key)
        assert derive_key(name, "segment") == key
    assert "city" in ada.locator("#attribute-names option").evaluate_all("all => all.map(each => each.value)")
    expect(ada.locator("#summary")).to_contain_text("Enter the attribute name of condition 1.")
    ada.locator("#q0-0-name").fill("orders")
    ada.locator("#q0-0-op").select_option("atLeast")
    ada.locator("#q0-0-value").fill("10")
    expect(ada.locator("#summary .sentence")).to_have_text("Contacts whose attribute orders is at least 10.")
    alone = int(ada.locator("#summary strong").inner_text())
    ada.get_by_role("button", name="Add group").click()
    ada.locator("#q1-0-name").fill("city")
    values = ada.locator(f"#{ada.locator('#q1-0-value').get_attribute('list')} option")
    assert "London" in values.evaluate_all("all => all.map(each => each.value)")
    ada.locator("#q1-0-value").fill("London")
    expect(ada.locator("#summary .sentence")).to_contain_text("and whose attribute city is “London”")
    assert int(ada.locator("#summary strong").inner_text()) < alone
    ada.get_by_role("button", name="Save segment").click()
    expect(ada.locator("tbody tr")).to_have_count(1)
    ada.get_by_role("link", name="Edit").click()
    expect(ada.locator("#q0-0-value")).to_have_value("10")
    expect(ada.locator("#q1-0-value")).to_have_value("London")
    assert actions_on(dashboard, "buyers") == [("ada", "segment.create")]


def test_created_form_signs_up_with_its_script(dashboard: Dashboard, ada: Page) -> None:
    open_page(ada, dashboard, "/forms")
    ada.get_by_role("link", name="New form").click()
    ada.get_by_role("button", name="Create form").wait_for()
    ada.locator("input[name=name]").fill("Counter")
    ada.locator("input[name='fields[0].label']").fill("Favourite number")
    ada.locator("select[name='fields[0].type']").select_option("number")
    ada.get_by_text("Consent 1").click()
    ada.locator("textarea[name='consents[0].wording']").fill("I like numbers.")
    ada.get_by_role("button", name="Create form").click()
    expect(ada.get_by_role("heading", level=1)).to_have_text("Counter")
    expect(ada.frame_locator("iframe").get_by_text("I like numbers.")).to_be_visible()
    form_id = ada.url.rpartition("/")[2]
    open_page(ada, dashboard, f"/form/{form_id}")
    ada.locator("input[name=email]").fill("number@example.com")
    ada.get_by_label("Favourite number").fill("7")
    ada.get_by_role("button", name="Subscribe").click()
    expect(ada.get_by_role("heading", level=1)).to_have_text("Check your inbox")
    assert actions_on(dashboard, form_id) == [("ada", "form.create")]


def test_viewer_cannot_change_or_see_other_tenants_messages(dashboard: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport=DESK)
    alan = dashboard.sign_in(context, "alan")
    [sent] = some(dashboard, "SENT")
    [other] = some(dashboard, "SENT", tenant_id=DEFAULT_TENANT + 1)
    open_page(alan, dashboard, "/contacts/ada@example.com")
    expect(alan.get_by_role("button", name="Erase contact")).to_have_count(0)
    token = alan.locator('input[name="form_token"]').first.input_value()
    for path in (
        f"/messages/{sent.outbox_id}/cancel",
        f"/messages/{sent.outbox_id}/resolve",
        "/dead-letters/retry",
        "/contacts/ada@example.com/edit",
        "/contacts/ada@example.com/erase",
        "/lists",
        "/suppressions",
        "/suppressions/remove",
        "/segments",
        "/imports",
        "/forms",
    ):
        answer = alan.request.post(
            f"{dashboard.address}{path}", form={"form_token": token}, headers={"Origin": dashboard.address}
        )
        assert answer.status == 403, path
    for path in (
        f"/messages/{other.outbox_id}",
        f"/messages/{other.outbox_id}/frame",
        f"/messages/{other.outbox_id}/stream",
    ):
        assert alan.request.get(f"{dashboard.address}{path}").status == 404, path
    context.close()


@pytest.mark.skipif(not AXE.exists(), reason="axe is not built")
def test_detail_pages_are_accessible(dashboard: Dashboard, browser: Browser) -> None:
    context = browser.new_context(viewport=PHONE)
    page = dashboard.sign_in(context)
    sent = some(dashboard, "SENT", 2)[1].outbox_id
    form = "/forms/" + dashboard.do(lambda: dashboard.engine.forms.list_all(DEFAULT_TENANT))[0][0].form_id
    paths = (f"/messages/{sent}", f"/messages/{sent}?view=source", f"/mailbox/{sent}", "/messages?status=IN_DOUBT")
    for path in (*paths, form, f"{form}/edit", form.replace("forms", "form")):
        open_page(page, dashboard, path)
        check_main(page, [(PHONE, "light"), (DESK, "dark")])
    context.close()
