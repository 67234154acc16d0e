"""Mailouts on both engines: a page is sent once, whatever fails, and Notion gets the results."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import pairwise
from time import perf_counter
from time import sleep as block_for
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from mailwright.app.mailouts import MailoutService, drain_mailouts
from mailwright.audience.eligibility import Exclusion
from mailwright.audience.erasure import erase
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND
from mailwright.domain.message import Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.domain.states import Status
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox.audit import audit
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.claim import Claims
from mailwright.outbox.queue_states import completed_values
from mailwright.schemas.recipient_report import recipients_csv
from mailwright.sources.campaigns import report
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.mailouts.progress import progress_of
from mailwright.sources.mailouts.refusals import MailoutRefused
from mailwright.sources.mailouts.rendering import ContentIssue
from mailwright.sources.mailouts.runs import (
    LEASE_DURATION,
    MAX_RETRY_DELAY,
    MailoutRunStatus,
    RunError,
    RunLease,
    error_of_issue,
    store_errors,
)
from mailwright.sources.mailouts.send_logs import LOG_BATCH_SIZE
from mailwright.sources.mailouts.status_sync import SKIP_DURATION
from mailwright.sources.sender_rules import RouteRules, SenderRules
from mailwright.storage.tables import (
    accepted_counts,
    deliveries,
    mailout_errors,
    mailout_recipients,
    mailouts,
    messages,
    queue_entries,
)
from tests.api import an_api
from tests.builders import DEFAULT_TENANT, REFUSAL, a_contact, a_subscriber, a_tenant, suppress
from tests.campaigns import a_list
from tests.conftest import DatabaseAddress
from tests.mailouts import MailoutBench, a_mailout_bench
from tests.notion_pages import block, picture, said
from tests.standins.http import Answer, Step
from tests.standins.notion import busy
from tests.standins.provider import ScriptedProvider
from tests.tracking import PERSON

Open = Callable[..., AbstractAsyncContextManager[MailoutBench]]


@pytest.fixture
async def bench(engine: DatabaseAddress) -> AsyncIterator[MailoutBench]:
    async with a_mailout_bench(engine.url) as made:
        yield made
        assert (await audit(made.database)).ok


@pytest.fixture
def opened(engine: DatabaseAddress) -> Open:
    """Open a bench with other settings."""
    return lambda **settings: a_mailout_bench(engine.url, **settings)


def refusing(*emails: str) -> ScriptedProvider:
    """Return a provider that refuses messages to these addresses."""

    class Choosy(ScriptedProvider):
        async def send(self, message: OutgoingMessage) -> SendResult:
            answer = REFUSAL if message.recipients[0] in emails else sent(self.name, f"<{message.outbox_id}>")
            self._answers.append(answer)
            return await super().send(message)

    return Choosy()


def mail_of(message: OutgoingMessage) -> EmailMessage:
    parsed = message_from_bytes(message.content, policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    return parsed


def bodies_of(message: OutgoingMessage) -> tuple[str, str]:
    email = mail_of(message)
    html, text = email.get_body(("html",)), email.get_body(("plain",))
    assert html is not None
    assert text is not None
    return html.get_content(), text.get_content()


# Recipients.


async def test_page_goes_to_all_active_subscribers_and_updates_notion(bench: MailoutBench) -> None:
    bench.subscribe("bob@example.com", "Ada@Example.com", "carl@example.com")
    bench.subscribe("left@example.com", status="unsubscribed")
    bench.subscribe("dead@example.com", status="bounced")
    page = bench.page()
    run = await bench.finish(await bench.send(page))
    assert bench.reached == ["ada@example.com", "bob@example.com", "carl@example.com"]
    assert (run.status, run.planned) == ("sent", 3)
    cells = bench.cells(page)
    assert (cells["Status"], cells["Sent Count"], cells["Failed Count"]) == ("Send", 3, 0)
    assert cells["Sent At"]
    assert bench.errors() == []


async def test_spellings_of_an_address_are_one_recipient(bench: MailoutBench) -> None:
    bench.subscribe("Zoe@example.com", "zoe@EXAMPLE.com", "bob@example.com", "ZOE@example.com", "nonsense", "b@")
    bench.subscribe("_x@example.com")
    await bench.finish(await bench.send(bench.page()))
    assert bench.reached == sorted(["_x@example.com", "bob@example.com", "zoe@example.com"])


async def test_non_ascii_address_is_sent_or_reported(bench: MailoutBench) -> None:
    """A domain has an ASCII form; the part before the @ has none."""
    bench.subscribe("ada@Bücher.example", "Éva@example.com", "zoe@example.com")
    page = bench.page()
    run = await bench.finish(await bench.send(page))
    assert bench.reached == ["ada@xn--bcher-kva.example", "zoe@example.com"]
    lines = "".join(
        [part async for part in recipients_csv(report.report_rows(bench.database, run.campaign_key or 0))]
    ).splitlines()
    assert [line.split(",")[1] for line in lines if line.startswith("Éva@")] == ["FAILED"]
    assert [(row["Email"], row["Error Code"]) for row in bench.errors()] == [("Éva@example.com", "INVALID_EMAIL")]
    assert (bench.cells(page)["Sent Count"], bench.cells(page)["Failed Count"]) == (2, 1)


async def test_real_figures_outrank_later_figures_of_a_test(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com", "cleo@example.com")
    page = bench.page(Test=True)
    await bench.finish(await bench.send(page))
    bench.notion.set_cell(page, "Test", False)
    await bench.finish(await bench.send(page))
    assert bench.cells(page)["Sent Count"] == 3
    await bench.report("delivered", "tester@example.com")
    bench.clock.advance(MINUTE)
    await bench.work()
    cells = bench.cells(page)
    assert (cells["Sent Count"], cells["Delivered Count"], cells["Status"]) == (3, 0, "Send")


SENT_ELSEWHERE: list[dict[str, Any]] = [
    {"Sent_At": "2027-01-01", "Sent_Count": 812, "Bounce_Rate": 0.02},
    {"Status": "Send", "Sent_Count": 812},
    {"Status": "Failed", "Sent_Count": 812},
    {"Sent_Count": 812},
]


@pytest.mark.parametrize("cells", SENT_ELSEWHERE, ids=str)
async def test_test_keeps_figures_of_another_program(bench: MailoutBench, cells: dict[str, Any]) -> None:
    page = bench.page(Test=True, **cells)
    before = bench.cells(page)
    for _ in range(2):
        await bench.finish(await bench.send(page))
        await bench.report("delivered", "tester@example.com")
        bench.clock.advance(HOUR)
        await bench.work()
    assert len(bench.reached) == 4
    assert bench.cells(page) == before


async def test_bounce_rate_is_the_same_in_notion_csv_and_progress(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com", "cleo@example.com")
    page = bench.page()
    run = await bench.finish(await bench.send(page))
    await bench.report("bounce", "ada@example.com")
    await bench.report("soft bounce", "bob@example.com")
    bench.clock.advance(MINUTE)
    await bench.work()
    tally = (await progress_of(bench.database, bench.clock, [run]))[run.key]
    rows = [row async for row in report.report_rows(bench.database, run.campaign_key or 0)]
    in_csv = [row.status for row in rows].count("BOUNCED") / len(rows)
    assert bench.cells(page)["Bounce Rate"] == tally.bounce_rate == round(in_csv, 4) == 0.6667


async def test_report_names_message_of_provider_and_responses(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    run = await bench.finish(await bench.send(bench.page()))
    await bench.report("open", "ada@example.com")
    await bench.report("click", "ada@example.com")
    [ada, bob] = [row async for row in report.report_rows(bench.database, run.campaign_key or 0)]
    await bench.leave("ada@example.com", ada.message_id)
    [ada, bob] = [row async for row in report.report_rows(bench.database, run.campaign_key or 0)]
    assert [ada.provider_message_id, bob.provider_message_id] == ["<1@scripted>", "<2@scripted>"]
    assert None not in (ada.opened_at, ada.clicked_at, ada.unsubscribed_at)
    assert (bob.opened_at, bob.clicked_at, bob.unsubscribed_at) == (None, None, None)
    lines = "".join([part async for part in recipients_csv(report.report_rows(bench.database, run.campaign_key or 0))])
    head, first, _ = lines.splitlines()
    assert head.split(",")[:6] == ["email", "status", "error_message", "message_id", "sent_at", "provider_message_id"]
    assert first.split(",")[3:6:2] == [ada.message_id, "<1@scripted>"]


async def test_failed_addresses_are_named_after_notion_has_them(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    run = await bench.finish(await bench.send(bench.page()), refusing("ada@example.com"))
    assert [row["Email"] for row in bench.errors()] == ["ada@example.com"]
    errors = await bench.service.runs.list_errors(run)
    assert [(each.stage, each.email) for each in errors] == [("send", "ada@example.com")]


@pytest.mark.promise("mailout-fail-closed")
async def test_test_goes_to_test_addresses_and_leaves_page_unsent(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(Test=True)
    run = await bench.finish(await bench.send(page))
    assert bench.reached == ["second@example.com", "tester@example.com"]
    assert run.is_test
    cells = bench.cells(page)
    assert (cells["Sent Count"], cells["Status"], cells["Sent At"]) == (2, None, None)


@pytest.mark.promise("mailout-fail-closed")
async def test_page_can_be_tested_repeatedly_and_then_sent(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(Test=True)
    for _ in range(2):
        await bench.finish(await bench.send(page))
    bench.notion.set_cell(page, "Test", False)
    run = await bench.finish(await bench.send(page))
    assert run.status is MailoutRunStatus.SENT
    assert bench.reached == ["second@example.com", "tester@example.com"] * 2 + ["ada@example.com"]


async def test_contacts_are_the_audience_without_supabase(opened: Open) -> None:
    async with opened(with_supabase=False) as bench:
        await a_subscriber(bench.database, "ours@example.com")
        await a_subscriber(bench.database, "gone@example.com", status="bounced")
        await a_contact(bench.database, "customer@example.com", legal_basis="contract")
        await a_contact(bench.database, "receipts@example.com")
        await bench.finish(await bench.send(bench.page()))
        assert bench.reached == ["customer@example.com", "ours@example.com"]


async def test_mailout_list_is_the_audience_if_set(opened: Open) -> None:
    async with opened(with_supabase=False, mailout_list="news") as bench:
        await a_list(bench.database, "news")
        await a_subscriber(bench.database, "ours@example.com", "news")
        await a_subscriber(bench.database, "other@example.com")
        await bench.finish(await bench.send(bench.page()))
        assert bench.reached == ["ours@example.com"]


async def test_mailout_is_refused_without_subscribers_or_with_unknown_list(opened: Open) -> None:
    async with opened(with_supabase=False) as bench:
        await a_contact(bench.database, "receipts@example.com")
        run = await bench.finish(await bench.send(bench.page()))
        assert run.error_code == "recipients_empty"
        assert "no contact has an active subscription or another legal basis" in str(run.error_message)
        bench.service = bench.another_service(
            bench.bench.engine.settings.model_copy(update={"mailout_list": "missing"})
        )
        run = await bench.finish(await bench.send(bench.page()))
        assert run.error_code == "list_not_found"
        assert bench.reached == []


@pytest.mark.promise("mailout-consent")
async def test_suppressed_recipient_is_skipped_despite_active_in_supabase(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "left@example.com")
    await suppress(bench.database, "left@example.com")
    page = bench.page()
    await bench.finish(await bench.send(page))
    assert bench.reached == ["ada@example.com"]
    assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Send", 1)


async def test_from_name_of_subscriber_overrides_default(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", from_name="Grace at Example")
    bench.subscribe("bob@example.com")
    await bench.finish(await bench.send(bench.page()))
    senders = [str(mail_of(message)["From"]) for message in bench.provider.messages]
    assert senders == ["Grace at Example <news@example.com>", "Example News <news@example.com>"]


# Content.


async def test_footer_has_sender_and_own_unsubscribe_link(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    await bench.finish(await bench.send(bench.page()))
    links = set()
    for message in bench.provider.messages:
        html, text = bodies_of(message)
        assert "Example Org — 1 Example Street" in html
        assert text.rstrip().splitlines()[-3:-1] == ["--", "Example Org — 1 Example Street"]
        link = text.rstrip().rpartition("Unsubscribe: ")[2]
        assert link.startswith("https://news.example.com/unsubscribe?token=")
        assert "Hello, readers." in html
        assert text.startswith("Hello, readers.")
        links.add(link)
    assert len(links) == 2


@pytest.mark.parametrize("names_message", [True, False])
async def test_link_names_the_message_unless_configured(opened: Open, names_message: bool) -> None:
    async with opened(mailout_message_links=names_message) as bench:
        bench.subscribe("ada@example.com")
        await bench.finish(await bench.send(bench.page()))
        [message] = bench.provider.messages
        html, text = bodies_of(message)
        token = UnsubscribeTokens("s" * 32).make("ada@example.com")
        expected = f"https://news.example.com/unsubscribe?token={token}"
        expected += f"&message={message.outbox_id}" if names_message else ""
        assert text.rstrip().endswith(f"\nUnsubscribe: {expected}")
        assert (message.outbox_id in html) is names_message
        assert mail_of(message)["List-Unsubscribe"] == f"<{expected}>"


@pytest.mark.parametrize("names_message", [True, False])
async def test_unsubscribe_link_of_a_test_changes_nothing(opened: Open, names_message: bool) -> None:
    async with (
        opened(mailout_message_links=names_message) as bench,
        an_api(bench.database, bench.clock, unsubscribe_secret="s" * 32) as api,
    ):
        page = bench.page(Test=True)
        await bench.finish(await bench.send(page))
        bench.clock.advance(MINUTE)
        _, text = bodies_of(bench.provider.messages[0])
        query = text.rstrip().rpartition("Unsubscribe: ")[2].partition("?")[2]
        shown = await api.anonymous.get(f"/unsubscribe?{query}", headers=PERSON)
        assert (shown.status_code, "<button" in shown.text) == (200, False)
        assert "Link of a test email" in shown.text
        assert "Nothing was changed." in shown.text
        one_click = await api.anonymous.post(f"/unsubscribe?{query}", data={"List-Unsubscribe": "One-Click"})
        program = await api.anonymous.post(f"/unsubscribe?{query}", headers={"Accept": "application/json"})
        saved = await api.anonymous.post(f"/preferences?{query}", data={"everything": "1"})
        assert [each.status_code for each in (one_click, program, saved)] == [200] * 3
        assert program.json() == {"ok": True, "listKey": "general", "isTest": True}
        assert "Nothing is saved." in saved.text
        await bench.finish(await bench.send(page))
        assert bench.reached == ["second@example.com", "tester@example.com"] * 2


async def test_braces_in_a_page_are_literal(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    words = "{{ other }} {% if %} {# no #} {{{ }}} {"
    page = bench.page(Subject="{{ subject }} 100 {%", blocks=[said("paragraph", words)])
    await bench.finish(await bench.send(page))
    [message] = bench.provider.messages
    html, text = bodies_of(message)
    assert mail_of(message)["Subject"] == "{{ subject }} 100 {%"
    assert text.startswith(words)
    assert "{% if %}" in html.replace("&#123;", "{")


async def test_messages_have_source_mailout_and_run_is_a_campaign(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    run = await bench.finish(await bench.send(bench.page()))
    async with bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.source, messages.c.campaign_key))
    assert [tuple(row) for row in rows] == [(Source.MAILOUT.value, run.campaign_key)]
    campaign = await _campaigns(bench).find(run.mailout_id, tenant_id=None)
    assert (campaign.status, campaign.name) == ("SENT", "Mailout: News of March")


# Refusals.

REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("subject_required", {"Subject": "  "}, {}),
    ("empty_body", {"blocks": []}, {}),
    ("test_emails_empty", {"Test": True}, {"test_emails": ""}),
    ("test_emails_empty", {"Test": True}, {"test_emails": "nonsense, a@, @b"}),
    ("mailout_already_sent", {"Status": "Send"}, {}),
    ("mailout_already_sent", {"Sent_At": "2027-01-01"}, {}),
    ("footer_env_missing", {}, {"org_name": None}),
    ("footer_env_missing", {}, {"org_address": None}),
    ("footer_env_missing", {}, {"unsubscribe_base_url": None}),
    ("footer_env_missing", {"Test": True}, {"unsubscribe_secret": None}),
]


@pytest.mark.parametrize(("code", "page", "settings"), REFUSED)
async def test_invalid_page_is_refused_with_code_in_notion(
    opened: Open, code: str, page: dict[str, Any], settings: dict[str, Any]
) -> None:
    async with opened(**settings) as bench:
        bench.subscribe("ada@example.com")
        page_id = bench.page(**page)
        before = bench.cells(page_id)
        run = await bench.finish(await bench.send(page_id))
        assert (run.status, run.error_code, run.campaign_key, run.due_at) == ("refused", code, None, None)
        [error] = bench.errors()
        assert (error["Error Code"], error["Mailout ID"]) == (code, run.page_id)
        assert error["Is Test"] is bool(page.get("Test"))
        assert error["Error Message"] == run.error_message
        assert bench.reached == []
        assert bench.cells(page_id) == before


@pytest.mark.parametrize(
    ("blocks", "unsupported"),
    [
        ([block("hologram")], ["hologram"]),
        ([block("hologram"), block("smell")], ["hologram", "smell"]),
        ([block("column_list", block("column", block("hologram")))], ["hologram"]),
    ],
    ids=["one", "two", "inside"],
)
async def test_page_with_unsupported_blocks_only_is_refused_and_named(
    bench: MailoutBench, blocks: list[Any], unsupported: list[str]
) -> None:
    bench.subscribe("ada@example.com")
    run = await bench.send(bench.page(blocks=blocks))
    assert (run.status, run.error_code) == ("refused", "empty_body")  # The response to the request says so.
    assert f"Not supported: {', '.join(unsupported)}." in (run.error_message or "")
    await bench.finish(run)
    assert [error["Error Code"] for error in bench.errors()] == [
        "empty_body",
        *["content_block_unsupported"] * len(unsupported),
    ]
    assert [error["Stage"] for error in bench.errors()] == ["prepare", *["render"] * len(unsupported)]
    with pytest.raises(MailoutRefused) as refused:
        await (await bench.mailouts()).dry_run(bench.page(blocks=blocks))
    assert [issue.type for issue in refused.value.issues] == unsupported


@pytest.mark.parametrize("is_test", [False, True], ids=["everybody", "test"])
async def test_all_refusals_are_reported_at_once_in_order(opened: Open, is_test: bool) -> None:
    async with opened(org_name=None, test_emails="") as bench:
        bench.subscribe("ada@example.com")
        page = bench.page(Subject="", Status="Send", Test=is_test, blocks=[])
        between = ["empty_body", "test_emails_empty"] if is_test else ["mailout_already_sent", "empty_body"]
        expected = ["subject_required", *between, "footer_env_missing"]
        with pytest.raises(MailoutRefused) as refused:
            await (await bench.mailouts()).dry_run(page)
        assert [each.code for each in refused.value.each] == expected
        run = await bench.finish(await bench.send(page))
        assert (run.status, run.error_code) == ("refused", expected[0])
        assert [each.code for each in await bench.service.runs.list_errors(run)] == expected
        assert [error["Error Code"] for error in bench.errors()] == expected
        assert run.error_message == " ".join(error["Error Message"] for error in bench.errors())


@pytest.mark.parametrize(
    "blocks",
    [
        [said("toggle", "", said("paragraph", "Inside."))],
        [picture("https://example.com/a.png", expires=False)],
        [picture("https://files.example.com/a.png?X-Amz-Expires=3600")],
    ],
    ids=["inside", "picture", "copied"],
)
async def test_page_is_not_reported_empty_without_reading_all_blocks(bench: MailoutBench, blocks: Any) -> None:
    run = await bench.send(bench.page(Subject="", blocks=blocks))
    assert [each.code for each in await bench.service.runs.list_errors(run)] == ["subject_required"]


async def test_known_refusals_are_reported_if_content_is_unavailable(bench: MailoutBench) -> None:
    page = bench.page(Subject="", blocks=[])
    bench.notion.answer(Answer(503), path=f"/v1/blocks/{page}/children")
    run = await bench.send(page)
    assert (run.status, run.error_code) == ("refused", "subject_required")


async def test_mailout_without_recipients_is_refused(bench: MailoutBench) -> None:
    bench.subscribe("left@example.com", status="unsubscribed")
    run = await bench.finish(await bench.send(bench.page()))
    assert (run.error_code, bench.errors()[0]["Error Code"]) == ("recipients_empty", "recipients_empty")


async def test_refused_page_can_be_sent_after_a_fix(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(blocks=[])
    assert (await bench.finish(await bench.send(page))).status is MailoutRunStatus.REFUSED
    bench.notion.add_blocks(page, [said("paragraph", "Now there is something.")])
    assert (await bench.finish(await bench.send(page))).status is MailoutRunStatus.SENT


async def test_unshared_page_is_reported_with_the_next_step(bench: MailoutBench) -> None:
    page = bench.page()
    bench.notion.hide(page)
    run = await bench.finish(await bench.send(page))
    assert run.error_code == "NOTION_NOT_SHARED"
    assert "Connections" in (run.error_message or "")
    assert bench.errors()[0]["Error Code"] == "NOTION_NOT_SHARED"


async def test_ambiguous_data_source_is_reported_before_sending(bench: MailoutBench) -> None:
    two = bench.notion.add_database("Two", {"Name": "title"}, sources=("One", "Other"))
    settings = bench.bench.engine.settings.model_copy(update={"notion_db_mailouts": two})
    service = bench.another_service(settings)
    bench.subscribe("ada@example.com")
    run = await (await service.open()).send(bench.page(), actor="tester")
    assert (run.status, bench.reached) == ("refused", [])
    assert "NOTION_DB_MAILOUTS" in (run.error_message or "")
    await service.close()


async def test_key_that_sees_no_subscribers_ends_the_run(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    bench.supabase.keys = dict.fromkeys(bench.supabase.keys, "anon")
    run = await bench.finish(await bench.send(bench.page()))
    assert (run.status, run.error_code) == ("refused", "SUPABASE_KEY_SEES_NOTHING")
    assert bench.reached == []


async def test_unsupported_block_is_reported_and_the_rest_sent(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    odd = block("hologram", colour="blue")
    spoken = block("speech", rich_text=said("paragraph", "Said aloud.")["paragraph"]["rich_text"])
    page = bench.page(blocks=[said("paragraph", "Before."), odd, spoken])
    await bench.finish(await bench.send(page))
    html, text = bodies_of(bench.provider.messages[0])
    assert "Said aloud." in html
    assert "Said aloud." in text
    codes = [(error["Error Code"], error["Stage"]) for error in bench.errors()]
    assert ("content_block_unsupported", "render") in codes
    assert bench.cells(page)["Status"] == "Send"


def test_two_issues_of_a_block_are_two_errors() -> None:
    lacks = [ContentIssue("b1", "synced_block", reason) for reason in ("not shared", "too deep", "too deep")]
    assert len({error_of_issue(each, 0).key for each in lacks}) == 2


# Sent once.


@pytest.mark.promise("mailout-page-once")
async def test_page_requested_twice_is_sent_once(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page()
    first, second = await asyncio.gather(bench.send(page), bench.send(page))
    assert sorted([first.status, second.status]) == ["accepted", "refused"]
    assert {first.error_code, second.error_code} == {None, "mailout_already_sent"}
    await bench.finish(first)
    assert bench.reached == ["ada@example.com"]


@pytest.mark.promise("mailout-page-once")
async def test_sent_page_stays_sent_if_its_row_is_reset(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page()
    await bench.finish(await bench.send(page))
    bench.notion.set_cell(page, "Status", None)
    bench.notion.set_cell(page, "Sent At", None)
    again = await bench.finish(await bench.send(page))
    assert (again.error_code, bench.reached) == ("mailout_already_sent", ["ada@example.com"])


async def test_recipients_are_enqueued_in_configured_batches(opened: Open) -> None:
    async with opened() as bench:
        assert bench.bench.engine.settings.batch_size == 50
        bench.subscribe(*(f"reader{number:03}@example.com" for number in range(120)))
        await bench.send(bench.page())
        await bench.work()
        async with bench.database.read() as tx:
            rows = await tx.execute(select(accepted_counts.c.accepted).order_by(accepted_counts.c.id))
        assert [row.accepted for row in rows] == [50, 50, 20]


@pytest.mark.parametrize("is_alone", [True, False])
async def test_campaign_has_the_interval_of_the_rate(opened: Open, is_alone: bool) -> None:
    async with opened(send_rate_per_sec=3, mailout_one_at_a_time=is_alone) as bench:
        bench.subscribe("ada@example.com")
        run = await bench.send(bench.page())
        await bench.work()
        campaign = await _campaigns(bench).find(run.mailout_id, tenant_id=None)
        assert (campaign.definition.limits.interval_ms, campaign.definition.limits.one_at_a_time) == (334, is_alone)


class Timed(ScriptedProvider):
    """Records when each send starts, by a monotonic clock."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.begun: list[float] = []
        self.most_at_once = 0
        self._at_once = 0
        self._seconds = seconds

    async def send(self, message: OutgoingMessage) -> SendResult:
        self.begun.append(perf_counter())
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(self._seconds)
        self._at_once -= 1
        return await super().send(message)


async def test_send_interval_never_exceeds_the_rate(opened: Open) -> None:
    async with opened(send_rate_per_sec=8) as bench:
        bench.subscribe(*(f"reader{number:02}@example.com" for number in range(17)))
        await bench.send(bench.page())
        await bench.work()
        provider = Timed()
        await bench.deliver(provider)
        gaps = [after - before for before, after in pairwise(provider.begun)]
        assert len(gaps) == 16
        assert min(gaps) >= 1 / 8
        assert provider.most_under_way == 1


@pytest.mark.parametrize("is_alone", [True, False])
async def test_rate_applies_to_all_mailouts_together(opened: Open, is_alone: bool) -> None:
    """Mailouts of two tenants and two workers share the interval, and the turn if they send one at a time."""
    async with opened(send_rate_per_sec=10, mailout_one_at_a_time=is_alone) as bench:
        await a_tenant(bench.database, "other")
        elsewhere = bench.another_service(bench.bench.engine.settings.model_copy(update={"mailout_tenant": "other"}))
        bench.subscribe(*(f"reader{number:02}@example.com" for number in range(5)))
        for service in (bench.service, elsewhere, bench.service):
            await (await service.open()).send(bench.page(), actor="tester")
        for service in (bench.service, elsewhere):
            await drain_mailouts(service)
        provider = Timed(seconds=0.15 if is_alone else 0.0)
        workers = [await bench.bench.worker(provider, name) for name in ("a", "b")]
        await asyncio.gather(*(worker.run(drain=True) for worker in workers))
        while (await bench.bench.statuses()) != {Status.SENT: 15}:
            bench.clock.advance(SECOND)
            await bench.deliver(provider)
        gaps = [after - before for before, after in pairwise(sorted(provider.begun))]
        assert len(gaps) == 14
        assert min(gaps) >= 1 / 10
        assert not is_alone or provider.most_at_once == 1


async def stumble() -> None:
    """Blocks the process repeatedly for longer than a send slot, as on a busy machine."""
    while True:
        await asyncio.sleep(0.13)
        block_for(0.6)


async def test_address_order_is_kept_when_slots_are_missed(opened: Open) -> None:
    async with opened(send_rate_per_sec=20) as bench:
        emails = [f"reader{number:03}@example.com" for number in range(12)]
        bench.subscribe(*reversed(emails))
        await bench.send(bench.page())
        await bench.work()
        stumbling = asyncio.create_task(stumble())
        await bench.deliver()
        stumbling.cancel()
        await bench.deliver()
        assert bench.reached == emails
        assert bench.provider.most_under_way == 1


async def test_two_workers_keep_the_order(bench: MailoutBench) -> None:
    emails = [f"reader{number:03}@example.com" for number in range(60)]
    bench.subscribe(*emails)
    await bench.send(bench.page())
    await bench.work()
    workers = [await bench.bench.worker(bench.provider, name) for name in ("a", "b")]
    await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    await bench.deliver()
    assert bench.reached == emails


async def test_messages_of_dead_worker_go_before_later_ones(bench: MailoutBench) -> None:
    """A worker dies after it claimed the first message: the others wait until the claim expires."""
    emails = [f"reader{number:03}@example.com" for number in range(20)]
    bench.subscribe(*emails)
    await bench.send(bench.page())
    await bench.work()
    engine = bench.bench.engine
    ttl = engine.settings.lock_ttl_seconds * SECOND
    assert len(await Claims(bench.database, bench.clock, "dead", ttl).claim(5)) == 5
    await bench.deliver()
    assert bench.reached == []
    bench.clock.advance(ttl + 1)
    await bench.deliver()
    await bench.deliver()
    assert bench.reached == emails


# Failures.


async def test_failed_address_is_recorded_and_others_are_sent(bench: MailoutBench) -> None:
    emails = [f"reader{number}@example.com" for number in range(5)]
    bench.subscribe(*emails)
    page = bench.page()
    provider = refusing(emails[1], emails[3])
    run = await bench.finish(await bench.send(page), provider)
    assert [message.recipients[0] for message in provider.messages] == emails
    cells = bench.cells(page)
    assert (cells["Status"], cells["Sent Count"], cells["Failed Count"]) == ("Failed", 3, 2)
    assert [(row["Email"], row["Error Code"], row["Stage"], row["Provider"]) for row in bench.errors()] == [
        (email, "REFUSED", "send", "scripted") for email in (emails[1], emails[3])
    ]
    assert {row["status"]: row["email"] for row in bench.supabase.rows("send_logs") if row["status"] == "failed"}
    assert run.status is MailoutRunStatus.SENT


async def test_each_message_is_logged_once_in_supabase(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    page = bench.page()
    bench.supabase.cut(Step.ANSWERED, path="/rest/v1/send_logs", nth=1)
    await bench.finish(await bench.send(page), refusing("bob@example.com"))
    for _ in range(3):
        bench.clock.advance(HOUR)
        await bench.work()
    logs = [(row["email"], row["status"], row["error_message"]) for row in bench.supabase.rows("send_logs")]
    assert logs == [("ada@example.com", "sent", None), ("bob@example.com", "failed", "never")]
    assert {row["mailout_id"] for row in bench.supabase.rows("send_logs")} == {page}


async def test_log_rows_in_doubt_are_searched_before_rewriting(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    await bench.send(bench.page())
    await bench.work()
    await bench.deliver()
    bench.clock.advance(10_000)
    # The first search finds no rows; the insert succeeds, and its response is lost.
    bench.supabase.cut(Step.ANSWERED, path="/rest/v1/send_logs", nth=2)
    await bench.work()
    bench.clock.advance(HOUR)
    await bench.work()
    assert [row["email"] for row in bench.supabase.rows("send_logs")] == ["ada@example.com"]


async def test_thousand_log_rows_cost_two_requests(bench: MailoutBench) -> None:
    """One request checks that the table exists, the other one writes."""
    emails = [f"reader{number:04}@example.com" for number in range(LOG_BATCH_SIZE + 200)]
    bench.subscribe(*emails)
    await bench.send(bench.page())
    await bench.work()
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(status=Status.SENT))
        await tx.execute(update(queue_entries).values(**completed_values(bench.clock.now())))
    bench.clock.advance(10_000)
    bench.supabase.requests.clear()
    await bench.work()
    assert [row["email"] for row in bench.supabase.rows("send_logs")] == emails
    asked = [request.method for request in bench.supabase.requests if request.path == "/rest/v1/send_logs"]
    assert asked == ["GET", "POST", "POST"]


async def test_missing_log_table_is_not_an_error(bench: MailoutBench) -> None:
    del bench.supabase.columns["send_logs"]
    bench.subscribe("ada@example.com")
    page = bench.page()
    run = await bench.finish(await bench.send(page))
    assert (run.delay, bench.cells(page)["Status"]) == (None, "Send")


@pytest.mark.promise("mailout-results-written")
async def test_results_are_written_after_notion_recovers(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    page = bench.page()
    run = await bench.send(page)
    await bench.work()
    provider = refusing("bob@example.com")
    await bench.deliver(provider)
    bench.notion.answer(Answer(503))
    for _ in range(3):
        bench.clock.advance(6 * 60_000)
        await bench.work()
    assert bench.cells(page)["Status"] is None
    delay = (await bench.find(run)).delay
    assert delay is not None
    assert (delay.code, delay.failures >= 3) == ("NOTION_UNAVAILABLE", True)
    assert "503" in delay.reason
    assert bench.clock.now() < delay.next_try_at <= bench.clock.now() + MAX_RETRY_DELAY
    bench.notion.forget_rules()
    bench.clock.advance(6 * 60_000)
    await bench.work()
    assert (await bench.find(run)).delay is None
    assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Failed", 1)
    assert [error["Email"] for error in bench.errors()] == ["bob@example.com"]
    await bench.deliver(provider)
    assert len(provider.messages) == 2


GONE: list[tuple[str, str, str]] = [("trash", "restore", "NOTION_IN_TRASH"), ("hide", "show", "NOTION_NOT_SHARED")]


@pytest.mark.parametrize(("take_away", "bring_back", "code"), GONE, ids=["trash", "deleted"])
async def test_missing_page_is_recorded_once_and_updated_when_restored(
    bench: MailoutBench, take_away: str, bring_back: str, code: str
) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    page = bench.page()
    run = await bench.send(page)
    await bench.work()
    getattr(bench.notion, take_away)(page)
    provider = refusing("bob@example.com")
    run = await bench.finish(run, provider)
    for _ in range(3):
        bench.clock.advance(HOUR)
        await bench.work()
    run = await bench.find(run)
    assert (run.status, run.error_code, run.delay, run.failures) == ("sent", code, None, 0)
    assert "kept here and will be written to the page if it is restored by 2" in (run.error_message or "")
    assert sorted((error["Stage"], error["Error Code"]) for error in bench.errors()) == [
        ("report", code),
        ("send", "REFUSED"),
    ]
    assert len(bench.supabase.rows("send_logs")) == 2
    getattr(bench.notion, bring_back)(page)
    bench.clock.advance(HOUR)
    await bench.work()
    run = await bench.find(run)
    assert (run.error_code, run.error_message, run.reported_at is not None) == (None, None, True)
    assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Failed", 1)
    await bench.deliver(provider)
    assert len(provider.messages) == 2


async def test_missing_page_is_not_checked_after_the_last_update(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page()
    run = await bench.send(page)
    await bench.work()
    bench.notion.hide(page)
    await bench.finish(run)
    bench.clock.advance(14 * DAY)
    await bench.work()
    asked = len(bench.notion.requests)
    bench.clock.advance(DAY)
    await bench.work()
    assert len(bench.notion.requests) == asked
    run = await bench.find(run)
    assert (run.status, run.error_code, run.due_at) == ("sent", "NOTION_NOT_SHARED", None)
    bench.notion.show(page)
    again = await bench.finish(await bench.send(page))
    assert (again.error_code, bench.reached) == ("mailout_already_sent", ["ada@example.com"])


@pytest.mark.promise("mailout-results-written")
async def test_error_row_in_doubt_is_searched_before_rewriting(bench: MailoutBench) -> None:
    page = bench.page(Subject="")
    bench.notion.cut(Step.ANSWERED, path="/v1/pages", nth=1)
    bench.notion.answer(b"", step=Step.MIDDLE, path="/v1/pages", nth=1)
    await bench.finish(await bench.send(page))
    bench.clock.advance(HOUR)
    await bench.work()
    assert [error["Error Code"] for error in bench.errors()] == ["subject_required"]
    assert len(bench.notion.created) == 1


@pytest.mark.promise("mailout-results-written")
async def test_errors_of_same_name_and_time_are_distinguished(bench: MailoutBench) -> None:
    """Of two unsupported blocks, the second is in doubt and does not exist yet."""
    bench.subscribe("ada@example.com")
    page = bench.page(blocks=[said("paragraph", "Before."), block("hologram"), block("scent")])
    run = await bench.send(page)
    await bench.work()
    bench.notion.cut(Step.ANSWER, path="/v1/pages", nth=2)
    await bench.finish(run)
    bench.clock.advance(HOUR)
    await bench.work()
    messages_ = sorted(error["Error Message"].partition(" ")[0] for error in bench.errors())
    assert messages_ == ["hologram", "scent"]


@pytest.mark.parametrize("who", ["notion", "supabase"])
async def test_run_waits_for_unavailable_service(bench: MailoutBench, who: str) -> None:
    bench.subscribe("ada@example.com")
    down = bench.notion if who == "notion" else bench.supabase
    down.answer(Answer(503))
    run = await bench.send(bench.page())
    await bench.work()
    assert (await bench.find(run)).status in (MailoutRunStatus.ACCEPTED, MailoutRunStatus.GATHERING)
    assert bench.reached == []
    down.forget_rules()
    bench.clock.advance(HOUR)
    await bench.finish(run)
    assert bench.reached == ["ada@example.com"]


async def test_retry_after_of_notion_is_respected(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    bench.notion.answer(busy(429, seconds=600), times=1)
    before = bench.clock.now()
    run = await bench.send(bench.page())
    assert (run.due_at or 0) >= before + 600_000


async def test_processes_share_the_rate_limit_of_notion(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page()
    for service in [bench.another_service() for _ in range(3)]:
        await (await service.open()).dry_run(page)
        await service.close()
    assert len(bench.notion.requests) >= 12
    assert bench.notion.too_fast == 0


@pytest.mark.parametrize("version", ["2025-09-03", "2026-03-11"])
async def test_both_notion_api_versions_work(opened: Open, version: str) -> None:
    async with opened(notion_version=version) as bench:
        bench.subscribe("ada@example.com", "bob@example.com")
        page = bench.page(Status="Ready")
        [run] = await (await bench.mailouts()).send_ready_pages("tests")
        await bench.finish(run, refusing("bob@example.com"))
        assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Failed", 1)
        assert [row["Email"] for row in bench.errors()] == ["bob@example.com"]
        assert {request.headers["Notion-Version"] for request in bench.notion.requests} == {version}


@pytest.mark.promise("mailout-page-once")
@pytest.mark.parametrize("turns", [3, 20, 60, 150])
async def test_run_cancelled_during_enqueue_is_resumed_by_another_process(bench: MailoutBench, turns: int) -> None:
    """Cancelled during any write: nothing stays locked, and no recipient is lost or duplicated."""
    emails = [f"reader{number:03}@example.com" for number in range(130)]
    bench.subscribe(*emails)
    run = await bench.send(bench.page())
    mailouts_ = await bench.mailouts()
    while (await bench.find(run)).status is not MailoutRunStatus.QUEUEING:
        await mailouts_.tick()
    working = asyncio.create_task(mailouts_.tick())
    for _ in range(turns):
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    bench.clock.advance(LEASE_DURATION + 1)
    await bench.finish(run)
    assert bench.reached == emails


@pytest.mark.promise("mailout-page-once")
@pytest.mark.parametrize("step", ["content", "readers"])
async def test_interrupted_run_is_resumed_by_another_process(
    bench: MailoutBench, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies does not release its lease."""
    monkeypatch.setattr(RunLease, "abandon", _say_nothing)
    emails = [f"reader{number:03}@example.com" for number in range(130)]
    bench.subscribe(*emails)
    run = await bench.send(bench.page())
    dying = bench.another_service()
    if step == "content":
        hold = bench.notion.hold(Step.ANSWER, path=f"/v1/blocks/{run.page_id}/children")
    else:
        hold = bench.supabase.hold(Step.ANSWER, path="/rest/v1/subscribers")
    working = asyncio.create_task(drain_mailouts(dying))
    await hold.reached.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    hold.release()
    await dying.close()
    await bench.work()
    bench.clock.advance(LEASE_DURATION + 1)
    await bench.finish(run)
    assert bench.reached == emails
    async with bench.database.read() as tx:
        assert await tx.execute(select(mailout_recipients)) == []


@pytest.mark.promise("mailout-page-once")
async def test_stopping_process_releases_its_run(bench: MailoutBench) -> None:
    """The next process need not wait until the lease expires."""
    bench.subscribe("ada@example.com")
    run = await bench.send(bench.page())
    stopping = bench.another_service()
    hold = bench.supabase.hold(Step.ANSWER, path="/rest/v1/subscribers")
    working = asyncio.create_task(drain_mailouts(stopping))
    await hold.reached.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    hold.release()
    await stopping.close()
    await bench.work()
    assert (await bench.find(run)).status is MailoutRunStatus.SENDING


@pytest.mark.promise("mailout-page-once")
async def test_lost_lease_cannot_change_the_run(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    run = await bench.send(bench.page())
    slow = await bench.service.runs.claim(run)
    assert slow is not None
    bench.clock.advance(LEASE_DURATION + 1)
    await bench.work()
    await slow.release(None)
    assert (await bench.find(run)).due_at is not None


@pytest.mark.promise("mailout-page-once")
async def test_lost_lease_cannot_add_recipients(bench: MailoutBench) -> None:
    """A process stalls while it reads recipients, and continues after another one has sent to them."""
    bench.subscribe("ada@example.com")
    run = await bench.send(bench.page())
    slow = bench.another_service()
    hold = bench.supabase.hold(Step.ANSWER, path="/rest/v1/subscribers", nth=2)
    working = asyncio.create_task(drain_mailouts(slow))
    await hold.reached.wait()
    bench.clock.advance(LEASE_DURATION + 1)
    await bench.finish(run)
    hold.release()
    await working
    await slow.close()
    assert bench.reached == ["ada@example.com"]
    async with bench.database.read() as tx:
        assert await tx.execute(select(mailout_recipients)) == []


async def test_cancelled_campaign_ends_the_mailout_in_notion(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    page = bench.page()
    run = await bench.send(page)
    await bench.work()
    await _campaigns(bench).cancel(Actor("tester", None), run.mailout_id)
    run = await bench.finish(run)
    assert (bench.reached, run.status) == ([], "sent")
    assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Failed", 0)


async def test_extending_a_mailout_campaign_finds_nobody(bench: MailoutBench) -> None:
    await a_contact(bench.database, "bystander@example.com")
    bench.subscribe("ada@example.com")
    run = await bench.finish(await bench.send(bench.page()))
    with pytest.raises(Exception, match="Everyone in the audience"):
        await _campaigns(bench).extend(Actor("tester", None), run.mailout_id)


# Later results.


async def test_reports_update_the_results_in_notion(bench: MailoutBench) -> None:
    emails = [f"reader{number}@example.com" for number in range(4)]
    bench.subscribe(*emails)
    page = bench.page()
    await bench.finish(await bench.send(page))
    assert (bench.cells(page)["Delivered Count"], bench.cells(page)["Bounce Rate"]) == (0, 0)
    await bench.report("delivered", emails[0], emails[1], emails[2])
    await bench.report("bounce", emails[3])
    await bench.leave(emails[1])
    bench.clock.advance(60_000)
    await bench.work()
    cells = bench.cells(page)
    assert (cells["Delivered Count"], cells["Bounce Rate"], cells["Unsub Rate"]) == (3, 0.25, 0.25)
    assert (cells["Status"], cells["Sent Count"]) == ("Send", 4)


@pytest.mark.parametrize("uses_link", [True, False], ids=["link of the first", "no link"])
async def test_unsubscribe_counts_for_one_mailout(bench: MailoutBench, uses_link: bool) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    pages = [bench.page(), bench.page(), bench.page()]
    for page in pages:
        await bench.finish(await bench.send(page))
    first = bench.provider.messages[0]
    assert first.recipients == ("ada@example.com",)
    await bench.leave("ada@example.com", message_id=first.outbox_id if uses_link else None)
    bench.clock.advance(60_000)
    await bench.work()
    rates = [bench.cells(page)["Unsub Rate"] for page in pages]
    assert rates == ([0.5, 0, 0] if uses_link else [0, 0, 0.5])


async def test_updates_become_rarer_and_end(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    run = await bench.finish(await bench.send(bench.page()))
    pauses = []
    for _ in range(3):
        run = await bench.find(run)
        pauses.append((run.due_at or 0) - bench.clock.now())
        bench.clock.advance(2 * DAY if len(pauses) > 1 else 2 * HOUR)
        await bench.work()
    assert pauses[0] < pauses[1] < pauses[2]
    bench.clock.advance(30 * DAY)
    await bench.work()
    assert (await bench.find(run)).due_at is None


async def test_missing_columns_are_skipped(bench: MailoutBench) -> None:
    for name in ("Delivered Count", "Bounce Rate", "Unsub Rate", "Failed Count"):
        bench.notion.remove_column(bench.mailouts_database, name)
    bench.subscribe("ada@example.com")
    page = bench.page()
    await bench.finish(await bench.send(page))
    assert (bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == ("Send", 1)


async def test_page_of_another_table_uses_its_columns(bench: MailoutBench) -> None:
    columns = {"Title": "title", "Test": "checkbox", "Status": ("select", ("Send",)), "Sent Count": "number"}
    other = bench.notion.add_database("Other", columns)
    bench.subscribe("ada@example.com")
    page = bench.notion.add_page(other, {"Title": "News"}, blocks=[said("paragraph", "Hello.")])
    run = await bench.finish(await bench.send(page))
    assert (run.delay, bench.cells(page)["Status"], bench.cells(page)["Sent Count"]) == (None, "Send", 1)


async def test_column_names_are_configurable(opened: Open) -> None:
    async with opened(
        notion_mailout_properties={"sent_count": "Failed Count", "failed_count": "Sent Count"},
        notion_statuses={"send": "Draft"},
    ) as bench:
        bench.subscribe("ada@example.com")
        page = bench.page()
        await bench.finish(await bench.send(page))
        cells = bench.cells(page)
        assert (cells["Failed Count"], cells["Sent Count"], cells["Status"]) == (1, 0, "Draft")


# Statuses synced to Supabase.


async def test_bounce_is_synced_to_supabase_with_type(bench: MailoutBench) -> None:
    bench.subscribe("Ada@example.com", "bob@example.com")
    await bench.finish(await bench.send(bench.page()))
    await bench.report("bounce", "ada@example.com")
    await bench.work()
    row = bench.supabase.subscriber("Ada@example.com")
    assert (row["status"], row["bounce_type"], row["bounce_subtype"]) == ("bounced", "Permanent", "General")
    assert row["status_updated_at"]
    assert bench.supabase.subscriber("bob@example.com")["status"] == "active"


async def test_complaint_is_synced_as_unsubscribe(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    await bench.finish(await bench.send(bench.page()))
    await bench.report("complaint", "ada@example.com")
    await bench.report("delivered", "bob@example.com")
    await bench.work()
    statuses = {row["email"]: row["status"] for row in bench.supabase.rows("subscribers")}
    assert statuses == {"ada@example.com": "unsubscribed", "bob@example.com": "active"}
    assert bench.supabase.subscriber("ada@example.com")["status_updated_at"]


@pytest.mark.parametrize(("first", "then"), [("complaint", "bounce"), ("bounce", "complaint")])
async def test_bounced_outranks_unsubscribed_in_either_order(bench: MailoutBench, first: str, then: str) -> None:
    bench.subscribe("ada@example.com")
    await bench.finish(await bench.send(bench.page()))
    for what in (first, then):
        await bench.report(what, "ada@example.com")
        await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "bounced"


async def test_unsubscribe_without_mailout_is_synced(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    await bench.leave("ada@example.com")
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "unsubscribed"
    await bench.come_back("ada@example.com")
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "active"


async def test_statuses_are_synced_after_supabase_recovers(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    await bench.leave("ada@example.com")
    bench.supabase.answer(Answer(503))
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "active"
    bench.supabase.forget_rules()
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "unsubscribed"
    told = len(bench.supabase.requests)
    await bench.work()
    assert len(bench.supabase.requests) == told


async def test_refused_contact_does_not_block_others(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    bench.supabase.frozen.add("ada@example.com")
    await bench.leave("ada@example.com")
    await bench.leave("bob@example.com")
    await bench.work()
    assert bench.supabase.subscriber("bob@example.com")["status"] == "unsubscribed"
    assert bench.supabase.subscriber("ada@example.com")["status"] == "active"
    bench.supabase.frozen.clear()
    bench.clock.advance(SKIP_DURATION)
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "unsubscribed"


# Watching.


async def test_ready_page_is_sent_once(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(Status="Ready")
    bench.page(Status="Draft")
    mailouts_ = await bench.mailouts()
    [run] = await mailouts_.send_ready_pages("watch")
    assert await mailouts_.send_ready_pages("watch") == []
    await bench.finish(run)
    assert (bench.reached, bench.cells(page)["Status"]) == (["ada@example.com"], "Send")
    assert await mailouts_.send_ready_pages("watch") == []


async def test_refused_page_is_not_retried_before_it_changes(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(Status="Ready", Subject="")
    mailouts_ = await bench.mailouts()
    [run] = await mailouts_.send_ready_pages("watch")
    assert (run.error_code, await mailouts_.send_ready_pages("watch")) == ("subject_required", [])
    bench.notion.set_cell(page, "Subject", "There it is")
    [again] = await mailouts_.send_ready_pages("watch")
    assert again.status is MailoutRunStatus.ACCEPTED


async def test_refused_page_is_retried_after_content_change(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    page = bench.page(Status="Ready", blocks=[])
    mailouts_ = await bench.mailouts()
    [run] = await mailouts_.send_ready_pages("watch")
    assert (await bench.finish(run)).error_code == "empty_body"
    assert await mailouts_.send_ready_pages("watch") == []
    bench.notion.add_blocks(page, [said("paragraph", "Now there is something.")])
    [again] = await mailouts_.send_ready_pages("watch")
    assert (await bench.finish(again)).status is MailoutRunStatus.SENT


async def test_ready_test_page_is_sent_once(
    bench: MailoutBench,
) -> None:
    page = bench.page(Status="Ready", Test=True)
    mailouts_ = await bench.mailouts()
    [run] = await mailouts_.send_ready_pages("watch")
    await bench.finish(run)
    assert bench.cells(page)["Sent Count"] == 2
    assert await mailouts_.send_ready_pages("watch") == []


# Erasing.


async def test_erased_contact_is_removed_from_lists_and_errors(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    run = await bench.finish(await bench.send(bench.page()), refusing("ada@example.com"))
    async with bench.database.write() as tx:
        await tx.execute(insert(mailout_recipients).values(mailout_key=run.key, email="ada@example.com"))
        told = RunError("told", "send", "REFUSED", "Ada@example.com is not there", 0, email="ada@example.com")
        await store_errors(tx, run.key, [told])
    await erase(bench.database, bench.clock, DEFAULT_TENANT, "ada@example.com", actor="tester")
    async with bench.database.read() as tx:
        kept = [*await tx.execute(select(mailout_errors)), *await tx.execute(select(mailout_recipients))]
    assert kept
    assert "ada@example.com" not in str(kept).lower()


# Dry runs.


async def test_dry_run_renders_and_stores_nothing(bench: MailoutBench) -> None:
    bench.subscribe("Ada@example.com", "bob@example.com", from_name="Grace")
    found = await (await bench.mailouts()).dry_run(bench.page())
    assert found.recipients == {"ada@example.com": "Grace", "bob@example.com": "Grace"}
    assert "Hello, readers." in found.content.html
    async with bench.database.read() as tx:
        for table in (mailouts, messages, queue_entries):
            assert await tx.execute(select(table)) == []


async def test_line_breaks_in_a_from_name_are_spaces(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", from_name=" Grace\r\n Hopper ")
    page = bench.page()
    found = await (await bench.mailouts()).dry_run(page)
    await bench.finish(await bench.send(page))
    assert found.recipients == {"ada@example.com": "Grace Hopper"}
    assert bench.reached == ["ada@example.com"]


@pytest.mark.parametrize("is_test", [False, True])
async def test_dry_run_names_who_a_send_would_reach(bench: MailoutBench, is_test: bool) -> None:
    emails = ["tester@example.com", "second@example.com", "third@example.com"]
    bench.subscribe(*emails)
    await bench.leave("second@example.com")
    await suppress(bench.database, "third@example.com", list_key="*")
    page = bench.page(Test=is_test)
    found = await (await bench.mailouts()).dry_run(page)
    await bench.finish(await bench.send(page))
    assert list(found.recipients) == bench.reached == ["tester@example.com"]
    assert found.excluded["second@example.com"] == Exclusion.UNSUBSCRIBED
    assert set(found.excluded) == set(emails[1:2] if is_test else emails[1:])


async def test_dry_run_states_why_everybody_is_excluded(bench: MailoutBench) -> None:
    bench.subscribe("not an address")
    found = await (await bench.mailouts()).dry_run(bench.page())
    assert found.recipients == {}
    assert found.excluded["not an address"].startswith("invalid address")


@pytest.mark.promise("mailout-consent")
async def test_other_status_in_any_spelling_excludes_the_subscriber(bench: MailoutBench) -> None:
    spellings = [
        ("Bob{}@example.com", "bob{}@example.com"),
        ("eva{}@example.com", " EVA{}@Example.com \n"),
        ("bob{}@b\u00fccher.example", "bob{}@xn--bcher-kva.example"),
        ("zoe{}@example.com", "\u200bzoe{}@example.com"),
    ]
    expected = {}
    bench.subscribe("ann@example.com", "not an address")
    for number, status in enumerate(("unsubscribed", "bounced", "Active", " active", "", None)):
        for active, inactive in spellings:
            bench.subscribe(active.format(number))
            bench.subscribe(inactive.format(number), status=status)
            is_known = status in ("unsubscribed", "bounced")
            expected[active.format(number)] = status if is_known else f"unknown status {status or ''!r}"
    page = bench.page()
    found = await (await bench.mailouts()).dry_run(page)
    await bench.finish(await bench.send(page))
    assert list(found.recipients) == bench.reached == ["ann@example.com"]
    assert {email: found.excluded[email] for email in expected} == expected
    assert found.excluded["not an address"].startswith("invalid address")


async def test_images_are_fetched_from_public_addresses_and_notion_only(
    bench: MailoutBench,
) -> None:
    bench.subscribe("ada@example.com")
    elsewhere = f"{bench.supabase.url}/picture.png?X-Amz-Signature=x"
    page = bench.page(blocks=[picture(bench.notion.add_file(), "Kept"), picture(elsewhere, "Not ours")])
    written = (await (await bench.mailouts()).dry_run(page)).content
    assert [each.code for each in written.issues] == ["content_image_not_copied"]
    assert 'alt="Kept"' in written.html
    assert "[Image: Not ours]" in written.html
    assert not [each for each in bench.supabase.requests if "picture" in each.path]


async def test_images_need_a_public_address(opened: Open) -> None:
    async with opened() as bench:
        written = await (await bench.mailouts()).read_content(
            bench.page(blocks=[picture(bench.notion.add_file(), "Kept")])
        )
        assert 'src="https://news.example.com/images/' in written.html
        assert written.issues == ()
    async with opened(unsubscribe_base_url="https://news.example.com/leave") as bench:
        written = await (await bench.mailouts()).read_content(
            bench.page(blocks=[picture(bench.notion.add_file(), "Kept")])
        )
        assert [each.code for each in written.issues] == ["content_image_unreachable"]


async def test_dry_run_is_refused_for_the_same_reasons(bench: MailoutBench) -> None:
    with pytest.raises(Exception, match="no subject"):
        await (await bench.mailouts()).dry_run(bench.page(Subject=""))
    assert bench.errors() == []


async def _say_nothing(_held: RunLease) -> None: ...


def _campaigns(bench: MailoutBench) -> Campaigns:
    return Campaigns(bench.database, bench.clock, bench.bench.engine.templates)


# The rules of the large mailbox providers.


@pytest.mark.promise("sender-rules")
async def test_mailout_to_many_is_refused_until_rules_are_met(bench: MailoutBench) -> None:
    async def find_unmet(sender: str | None) -> tuple[str, ...]:
        return (f"SPF: {sender} has no SPF record.",)

    async def find_route(_tenant_id: int, source: Source) -> RouteRules:
        return RouteRules(find_unmet if source is Source.MAILOUT else None)

    engine = bench.bench.engine
    bench.service = MailoutService(
        engine.settings,
        engine.database,
        bench.clock,
        engine.templates,
        SenderRules(1, find_route),
        sleep=bench.clock.sleep,
        steady=bench.clock,
    )
    bench.subscribe("ada@example.com", "bob@example.com")
    page = bench.page()
    run = await bench.finish(await bench.send(page))
    assert (run.status, run.error_code) == (MailoutRunStatus.REFUSED, "sender_rules")
    assert "SPF: news@example.com has no SPF record." in str(run.error_message)
    assert bench.reached == []
    overridden = await (await bench.mailouts()).send(page, actor="ann", overrides_rules=True)
    await bench.finish(overridden)
    assert bench.reached == ["ada@example.com", "bob@example.com"]
    entries = await list_entries(bench.database, tenant_id=None, limit=9, subject=overridden.mailout_id)
    assert "mailout.override_sender_rules" in {entry.action for entry in entries}
