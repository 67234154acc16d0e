"""Articles, mailouts, notifications and webhooks in a real browser."""

import asyncio
import csv
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import update

from mailwright.demo.articles import KEY
from mailwright.domain.clock import HOUR
from mailwright.events.outbound.deliveries import DeliveryOutcome, ReceiverResponse, WebhookDeliveries
from mailwright.events.outbound.endpoints import WebhookEndpoint, WebhookEndpointInput
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.mailouts.refusals import MailoutRefused, combine, empty_body, no_subject, sender_rules_unmet
from mailwright.sources.mailouts.runs import MailoutRun
from mailwright.sources.notifications.service import NotificationStatus
from mailwright.storage.tables import mailouts
from tests.builders import DEFAULT_TENANT
from tests.dashboard import AXE, CHROMIUM, DESK, PHONE, Dashboard, a_dashboard, check_main, open_editor
from tests.mailouts import SETTINGS
from tests.notion_pages import MAILOUT_COLUMNS, said
from tests.standins.notion import NotionStandIn

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

HOOK = "https://shop.example.com/hooks/mail"


@pytest.fixture(scope="module")
def ada(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    yield from signed_in(dashboard, browser, "ada")


@pytest.fixture(scope="module")
def alan(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    yield from signed_in(dashboard, browser, "alan")


def signed_in(dashboard: Dashboard, browser: Browser, login: str) -> Iterator[Page]:
    context = browser.new_context(viewport=DESK, timezone_id="Europe/Lisbon")
    page = dashboard.sign_in(context, login)
    page.set_default_timeout(30_000)
    yield page
    context.close()


def confirm(page: Page) -> None:
    page.locator("#confirm-yes").click()


def actions_on(dashboard: Dashboard, subject: str) -> list[tuple[str, str]]:
    entries = dashboard.do(
        lambda: list_entries(dashboard.engine.database, tenant_id=DEFAULT_TENANT, limit=20, subject=subject)
    )
    return [(each.actor, each.action) for each in reversed(entries)]


def answer(dashboard: Dashboard, webhook_id: str, outcome: DeliveryOutcome) -> None:
    """Settle all pending deliveries with this outcome."""

    async def settle() -> None:
        found = await dashboard.engine.webhook_endpoints.find(webhook_id, tenant_id=DEFAULT_TENANT)
        deliveries = WebhookDeliveries(dashboard.engine.database, dashboard.engine.clock)
        await deliveries.settle(found, [(each, outcome) for each in await deliveries.claim(found)])

    dashboard.do(settle)


def notifications(dashboard: Dashboard) -> list[NotificationStatus]:
    async def look() -> list[NotificationStatus]:
        assert dashboard.engine.open_notifications is not None
        async with dashboard.engine.open_notifications() as desk:
            return await desk.list_notifications(limit=50)

    return dashboard.do(look)


def test_webhook_shows_secret_once_and_reason_for_pause(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/settings/webhooks")
    ada.get_by_role("textbox", name="URL").fill(HOOK)
    ada.get_by_label("Description").fill("order pages")
    ada.get_by_role("button", name="Add webhook").click()
    secret = ada.locator(".secret-card code").inner_text()
    assert secret.startswith("whsec_")

    ada.goto(f"{dashboard.address}/settings/webhooks")
    ada.get_by_role("link", name=HOOK).click()
    assert secret not in ada.content()
    webhook_id = ada.url.rpartition("/")[2]
    ada.get_by_role("button", name="Send test event").click()
    expect(ada.locator("#deliveries")).to_contain_text("no attempt yet")
    answer(dashboard, webhook_id, ReceiverResponse(410, "nobody here", 12))
    # Updated live, without a reload.
    expect(ada.locator("#status")).to_contain_text("410 Gone")
    expect(ada.locator("#deliveries")).to_contain_text("until the webhook is resumed")

    ada.reload()
    ada.get_by_role("button", name="Resume webhook").click()
    expect(ada.locator("#status")).to_contain_text("Active")
    ada.get_by_role("button", name="Send test event").click()
    expect(ada.locator("#deliveries")).to_contain_text("no attempt yet")
    answer(dashboard, webhook_id, ReceiverResponse(200, '{"ok": true}', 8))
    ada.get_by_role("link", name="Delivered").click()
    ada.get_by_role("button", name="Redeliver").first.click()
    expect(ada.locator(".flash")).to_contain_text("Redelivery started")
    actions = [action for actor, action in actions_on(dashboard, webhook_id) if actor == "ada"]
    assert actions == ["webhook.create", "webhook.test", "webhook.edit", "webhook.test", "webhook.redeliver"]


def test_invalid_webhook_url_is_rejected_beside_its_field(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/settings/webhooks")
    ada.get_by_role("textbox", name="URL").fill("http://plain.example.com/hooks")
    ada.get_by_role("button", name="Add webhook").click()
    expect(ada.locator("#url-error")).to_contain_text("https://")
    expect(ada.get_by_role("textbox", name="URL")).to_have_value("http://plain.example.com/hooks")


def test_article_is_written_previewed_and_sent(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/articles/~new?article={KEY}")
    ada.get_by_label("Title").fill("Colorado")
    open_editor(ada)
    ada.keyboard.type("Snow, [[name|friend]], on the roads.")
    message = ada.frame_locator(".screen.is-light iframe:not(.is-loading)")
    expect(message.locator("body")).to_contain_text("Snow, friend, on the roads.")
    ada.get_by_label("Section", exact=False).first.fill("3")
    ada.locator("#scope_ocd_id").fill("Colorado")
    ada.get_by_role("button", name="Save slice").click()
    expect(ada.locator("#scope_ocd_id-error")).to_contain_text("OCD")
    ada.locator("#scope_ocd_id").fill("ocd-division/country:us/state:co")
    ada.get_by_label("Status", exact=True).select_option("published")
    ada.get_by_role("button", name="Save slice").click()
    expect(ada.locator("tbody tr")).to_have_count(6)

    ada.get_by_role("link", name="Preview").click()
    ada.get_by_label("Recipient").fill("columbus@example.com")
    ada.get_by_role("button", name="Show preview").click()
    expect(ada.locator(".slice-decisions .is-in")).to_have_count(4)
    left_out = ada.locator(".slice-decisions .is-out").filter(has_text="Colorado")
    expect(left_out).to_contain_text("matches no division of the recipient")
    expect(ada.frame_locator(".screen.is-light iframe").locator("body")).to_contain_text("Franklin County")

    ada.get_by_role("link", name="Coverage").click()
    expect(ada.locator(".variant-list > li").first).to_contain_text("Slices for everyone only")

    ada.get_by_role("link", name="Send article", exact=True).click()
    ada.get_by_label("Tag").fill("snow-2027")
    ada.get_by_label("Filter").fill("state=CO")
    ada.get_by_role("button", name="Review recipients").click()
    ada.get_by_role("button", name="Send to the local mailbox (nobody receives it)").click()
    expect(ada.locator("tbody")).to_contain_text("denver@example.com")
    expect(ada.locator("#progress")).to_contain_text("Completed")
    run_id = ada.url.rpartition("/")[2]
    assert actions_on(dashboard, run_id) == [("ada", "article.send")]


def test_slice_import_is_all_or_nothing(dashboard: Dashboard, ada: Page, tmp_path: Path) -> None:
    file = tmp_path / "slices.csv"
    file.write_text("article_key,title,section_order\nautumn,Leaves,1\nautumn,Fog,soon\n")
    ada.goto(f"{dashboard.address}/articles/~import")
    ada.get_by_label("One .csv file").set_input_files(file)
    ada.get_by_role("button", name="Import slices").click()
    line = ada.get_by_role("row").filter(has_text="slices.csv")
    expect(line).to_contain_text("3")
    expect(line).to_contain_text("section_order")

    file.write_text("article_key,title,section_order\nautumn,Leaves,1\nautumn,Fog,2\n")
    ada.get_by_label("One .csv file").set_input_files(file)
    ada.get_by_role("button", name="Import slices").click()
    expect(ada.locator(".flash")).to_contain_text("2 added")
    answered = ada.request.get(f"{dashboard.address}/articles/autumn/slices.csv")
    rows = list(csv.DictReader(io.StringIO(answered.text())))
    assert [row["title"] for row in rows] == ["Leaves", "Fog"]


def test_notification_shows_reason_and_is_requeued(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/notifications")
    expect(ada.locator("tr").filter(has_text="annie@example.com")).to_contain_text(
        "snoozed notifications, until 1 Jan 2099"
    )
    skipped = next(each for each in notifications(dashboard) if each.row.status == "skipped")
    ada.get_by_role("link", name="Skipped").click()
    ada.get_by_label(f"Select {skipped.to}").check()
    ada.get_by_role("button", name="Requeue selected").click()
    expect(ada.locator(".flash")).to_contain_text("1 notification requeued.")
    assert ("ada", "notification.requeue") in actions_on(dashboard, "notifications")
    ada.get_by_role("link", name="Event types").click()
    expect(ada.locator("tbody")).to_contain_text("open-seat")


def test_mailouts_show_missing_settings_and_errors(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/mailouts")
    sample = ada.locator("tbody tr", has_text="Open house in the workshop")
    expect(sample).to_contain_text("6 of 6 sent")
    run = refused_mailout(dashboard)
    ada.goto(f"{dashboard.address}/mailouts")
    missing = ada.locator(".setting-list li").filter(has_text="NOTION_TOKEN")
    expect(missing).to_contain_text("Missing")
    ada.goto(f"{dashboard.address}/mailouts/{run.mailout_id}")
    expect(ada.locator("#status")).to_contain_text("subject_required")
    expect(ada.locator("tbody tr")).to_have_count(2)
    expect(ada.locator("tbody tr").nth(0)).to_contain_text("subject_required")
    expect(ada.locator("tbody tr").nth(1)).to_contain_text("empty_body")


def test_mailout_with_missing_page_shows_next_check(dashboard: Dashboard, ada: Page) -> None:
    run = refused_mailout(dashboard)
    told = {"status": "sent", "error_code": "NOTION_IN_TRASH", "error_message": "The page is in Notion’s trash."}
    for due_at, words in ((dashboard.engine.clock.now() + HOUR, "next check"), (None, "no more checks")):
        dashboard.do(partial(change_mailout, dashboard, run, {**told, "due_at": due_at}))
        ada.goto(f"{dashboard.address}/mailouts/{run.mailout_id}")
        expect(ada.locator("#status")).to_contain_text("The page is in Notion’s trash.")
        expect(ada.locator(".card").first).to_contain_text(f"Page not found; {words}")


async def change_mailout(dashboard: Dashboard, run: MailoutRun, values: dict[str, Any]) -> None:
    async with dashboard.engine.database.write() as tx:
        await tx.execute(update(mailouts).where(mailouts.c.mailout_id == run.mailout_id).values(**values))


def test_notion_page_is_previewed_then_sent(browser: Browser, tmp_path: Path) -> None:
    with a_notion() as notion:
        table = notion.add_database("Mailouts", MAILOUT_COLUMNS)
        words = [said("paragraph", "Hello, readers.")]
        page_id = notion.add_page(table, {"Subject": "News of {{ March }}", "Test": True}, blocks=words)
        named = {**SETTINGS, "notion_url": notion.url, "notion_db_mailouts": table}
        with a_dashboard(tmp_path, with_sample=False, **named) as dashboard:
            ada = dashboard.sign_in(browser.new_context(viewport=DESK))
            ada.goto(f"{dashboard.address}/mailouts")
            ada.get_by_label("Notion page").fill("no page")
            ada.get_by_role("button", name="Show preview").click()
            expect(ada.locator("#page-error")).to_be_visible()
            ada.get_by_label("Notion page").fill(page_id)
            ada.get_by_role("button", name="Show preview").click()
            expect(ada.get_by_role("heading", level=1)).to_have_text("News of {{ March }}")
            expect(ada.locator(".sample-addresses")).to_contain_text("tester@example.com")
            message = ada.frame_locator(".screen.is-light iframe").locator("body")
            expect(message).to_contain_text("Hello, readers.")
            expect(ada.locator("#preview-text")).to_contain_text("Unsubscribe: https://")
            assert dashboard.do(lambda: dashboard.engine.mailout_runs.list_runs(tenant_id=None, limit=1)) == []
            ada.get_by_role("button", name="Send mailout").click()
            confirm(ada)
            expect(ada.locator(".flash")).to_contain_text("Mailout queued.")
            expect(ada.locator("#status")).to_contain_text("No worker is running, so nothing is sent.")
            run_id = ada.url.rpartition("/")[2]
            assert actions_on(dashboard, run_id) == [("ada", "mailout.send")]
            ada.context.close()


@pytest.mark.promise("sender-rules")
def test_sender_rules_of_a_refused_mailout_are_overridden(browser: Browser, tmp_path: Path) -> None:
    with a_notion() as notion:
        table = notion.add_database("Mailouts", MAILOUT_COLUMNS)
        words = [said("paragraph", "Hello, readers.")]
        page_id = notion.add_page(table, {"Subject": "News", "Test": False}, blocks=words)
        named = {**SETTINGS, "notion_url": notion.url, "notion_db_mailouts": table}
        with a_dashboard(tmp_path, with_sample=False, **named) as dashboard:
            run = refused_mailout(dashboard, sender_rules_unmet("SPF: example.com has no SPF record."), page=page_id)
            ada = dashboard.sign_in(browser.new_context(viewport=DESK))
            ada.goto(f"{dashboard.address}/mailouts/{run.mailout_id}")
            ada.get_by_role("button", name="Override sender rules").click()
            confirm(ada)
            expect(ada.locator(".flash")).to_contain_text("Sender rules overridden, mailout queued.")
            actions = {action for _, action in actions_on(dashboard, ada.url.rpartition("/")[2])}
            assert actions == {"mailout.send", "mailout.override_sender_rules"}
            ada.context.close()


@contextmanager
def a_notion() -> Iterator[NotionStandIn]:
    """Run the Notion stand-in on its own event loop, because the test thread waits for the browser."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stand_in = NotionStandIn()
    try:
        asyncio.run_coroutine_threadsafe(stand_in.__aenter__(), loop).result(10)
        yield stand_in
        asyncio.run_coroutine_threadsafe(stand_in.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def refused_mailout(
    dashboard: Dashboard, why: MailoutRefused | None = None, page: str = "0123456789abcdef0123456789abcdef"
) -> MailoutRun:
    async def refuse() -> MailoutRun:
        runs = dashboard.engine.mailout_runs
        run = await runs.accept(DEFAULT_TENANT, page, actor="grace")
        held = await runs.claim(run)
        assert held is not None
        await held.refuse(why or combine([no_subject(), empty_body()]))
        await held.release(None)
        return run

    return dashboard.do(refuse)


def test_viewer_cannot_change_sources_or_see_other_tenants(dashboard: Dashboard, ada: Page, alan: Page) -> None:
    token = alan.locator('[name="form_token"]').first.get_attribute("value") or ""
    for path, fields in (
        ("/articles/~new", {"article_key": "mine", "title": "Mine"}),
        (f"/articles/{KEY}/send", {"tag": "mine", "confirmed": "yes"}),
        ("/notifications/requeue", {"all": "skipped"}),
        ("/mailouts/~send", {"page": "0123456789abcdef0123456789abcdef"}),
        ("/settings/webhooks", {"url": HOOK}),
        ("/settings/domains", {"name": "mine.example"}),
    ):
        answered = alan.request.post(
            f"{dashboard.address}{path}",
            form={**fields, "form_token": token},
            headers={"Origin": dashboard.address},
        )
        assert answered.status == 403, path
    alan.goto(f"{dashboard.address}/articles/{KEY}")
    expect(alan.get_by_role("link", name="Send article", exact=True)).to_have_count(0)
    theirs = a_webhook(dashboard, tenant_id=2)
    for path in ("", "/edit", "/stream"):
        answered = ada.request.get(f"{dashboard.address}/settings/webhooks/{theirs.webhook_id}{path}")
        assert answered.status == 404, path
    a_domain(dashboard, "theirs.example", tenant_id=2)
    assert ada.request.get(f"{dashboard.address}/settings/domains/theirs.example").status == 404


def a_domain(dashboard: Dashboard, name: str, tenant_id: int = DEFAULT_TENANT) -> None:
    dashboard.do(lambda: dashboard.engine.sender_domains.add(tenant_id, name, actor="test"))


def a_webhook(dashboard: Dashboard, tenant_id: int = DEFAULT_TENANT) -> WebhookEndpoint:
    made, _ = dashboard.do(
        lambda: dashboard.engine.webhook_endpoints.create(tenant_id, WebhookEndpointInput(HOOK), actor="test")
    )
    return made


@pytest.mark.skipif(not AXE.exists(), reason="axe is not built")
def test_detail_pages_are_accessible(dashboard: Dashboard, browser: Browser) -> None:
    """Detail pages; the other pages are checked in test_dashboard_pages."""
    slices = dashboard.do(lambda: dashboard.engine.slices.list_slices(DEFAULT_TENANT, KEY))
    [run, *_] = dashboard.do(lambda: dashboard.engine.article_runs.list_runs(DEFAULT_TENANT, limit=1))
    context = browser.new_context(viewport=PHONE)
    page = dashboard.sign_in(context)
    name = "details.example"
    a_domain(dashboard, name)
    for path in (
        f"/settings/domains/{name}",
        f"/settings/webhooks/{a_webhook(dashboard).webhook_id}",
        f"/articles/~slices/{slices[0].slice_id}",
        f"/articles/~runs/{run.run_id}",
        f"/notifications/{notifications(dashboard)[0].row.notification_id}",
        f"/mailouts/{refused_mailout(dashboard).mailout_id}",
    ):
        page.goto(f"{dashboard.address}{path}")
        check_main(page, [(PHONE, "dark"), (DESK, "light")])
    dashboard.do(lambda: dashboard.engine.sender_domains.delete(DEFAULT_TENANT, name, actor="test"))
    context.close()
