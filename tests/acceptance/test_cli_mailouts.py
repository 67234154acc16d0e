"""`mailwright mailout`: real commands with stand-ins for Notion and Supabase."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS, said
from tests.standins.notion import TOKEN, NotionStandIn, busy
from tests.standins.smtp_sink import SmtpSink
from tests.standins.supabase import SECRET_KEY, SupabaseStandIn


@dataclass(frozen=True)
class Desk:
    commands: Commands
    notion: NotionStandIn
    supabase: SupabaseStandIn
    mailouts: str
    errors: str

    def page(self, status: str | None = None, subject: str = "News of March") -> str:
        cells = {"Subject": subject, "Status": status}
        return self.notion.add_page(self.mailouts, cells, blocks=[said("paragraph", "Hello, readers.")])


@pytest.fixture
async def desk(engine: DatabaseAddress, tmp_path: Path) -> AsyncIterator[Desk]:
    async with NotionStandIn() as notion, SupabaseStandIn() as supabase, SmtpSink() as relay:
        mailouts = notion.add_database("Mailouts", MAILOUT_COLUMNS)
        errors = notion.add_database("Errors", ERROR_COLUMNS)
        settings = {
            "MAILWRIGHT_DATABASE_URL": engine.url,
            "MAILWRIGHT_PROVIDER": "smtp",
            "MAILWRIGHT_SMTP_URL": f"smtp://127.0.0.1:{relay.port}?tls=none",
            "MAILWRIGHT_NOTION_URL": notion.url,
            "NOTION_TOKEN": TOKEN,
            "NOTION_DB_MAILOUTS": mailouts,
            "NOTION_DB_ERRORS": errors,
            "SUPABASE_URL": supabase.url,
            "SUPABASE_SERVICE_ROLE_KEY": SECRET_KEY,
            "FROM_EMAIL": "news@example.com",
            "ORG_NAME": "Example Org",
            "ORG_ADDRESS": "1 Example Street",
            "UNSUBSCRIBE_BASE_URL": "https://news.example.com/unsubscribe",
            "UNSUBSCRIBE_SECRET": "s" * 32,
        }
        for email in ("ada@example.com", "bob@example.com"):
            supabase.add("subscribers", email=email)
        yield Desk(Commands(tmp_path, settings), notion, supabase, mailouts, errors)


async def test_a_page_is_rehearsed_sent_and_reported(desk: Desk, tmp_path: Path) -> None:
    page = desk.page()
    rehearsed = await desk.commands.ok("mailout", "send", page, "--dry-run", "--json", "--html", "mail.html")
    assert [each["email"] for each in rehearsed.json["recipients"]] == ["ada@example.com", "bob@example.com"]
    message = unescape((tmp_path / "mail.html").read_text(encoding="utf-8"))
    assert "Hello, readers." in message
    assert 'href="https://news.example.com/unsubscribe"' in message
    assert (await desk.commands.ok("mailout", "list", "--json")).json == []
    run_id = (
        await desk.commands.ok("mailout", "send", f"https://www.notion.so/March-{page.replace('-', '')}")
    ).out.strip()
    assert (await desk.commands.ok("mailout", "show", run_id, "--json")).json["counts"]["waiting"] == 2
    await desk.commands.ok("worker", "--drain")
    shown = (await desk.commands.ok("mailout", "show", run_id, "--json")).json
    assert (shown["status"], shown["counts"]["sent"], shown["reported"]["Status"]) == ("sent", 2, "Send")
    assert "2 of 2 sent" in (await desk.commands.ok("mailout", "show", run_id)).out
    assert desk.notion.cells(page)["Sent Count"] == 2
    report = (await desk.commands.ok("mailout", "report", run_id)).out.splitlines()
    assert [line.split(",")[:2] for line in report[1:]] == [["ada@example.com", "SENT"], ["bob@example.com", "SENT"]]
    again = await desk.commands.run("mailout", "send", page)
    assert (again.code, again.err.count("mailout_already_sent"), again.out) == (1, 1, "")


@on_sqlite
async def test_run_to_the_local_mailbox_is_refused_or_named(desk: Desk) -> None:
    page = desk.page()
    refused = await desk.commands.run("mailout", "send", page, MAILWRIGHT_PROVIDER="mailbox")
    assert (refused.code, refused.err.count("[local_mailbox]")) == (1, 1)
    here = {"MAILWRIGHT_PROVIDER": "mailbox", "MAILWRIGHT_MAILBOX_MAILOUTS": "true"}
    dry_run = (await desk.commands.ok("mailout", "send", page, "--dry-run", **here)).out
    assert "REAL, 2 people. Nothing was sent." in dry_run
    assert "The provider is the local mailbox, so nobody receives these emails." in dry_run
    run_id = (await desk.commands.ok("mailout", "send", page, **here)).out.strip()
    shown = (await desk.commands.ok("mailout", "show", run_id, **here)).out
    assert "News of March  REAL" in shown
    assert "The provider is the local mailbox, so nobody receives these emails." in shown


@on_sqlite
async def test_watch_sends_ready_pages_and_reports_invalid_ones(desk: Desk) -> None:
    desk.page("Ready")
    desk.page("Draft")
    desk.notion.add_page(desk.mailouts, {"Subject": "Nothing", "Status": "Ready"})
    watched = (await desk.commands.ok("mailout", "watch", "--once")).out
    assert (watched.count("→ sending  News of March"), watched.count("✗ refused  Nothing")) == (1, 1)
    assert "empty_body: " in watched
    assert (await desk.commands.ok("mailout", "watch", "--once")).out == ""
    empty = await desk.commands.run("mailout", "send", desk.page(subject=""))
    assert (empty.code, "subject_required" in empty.err) == (1, True)
    await desk.commands.ok("worker", "--drain")
    assert [row["Error Code"] for row in desk.notion.rows(desk.errors)] == ["empty_body", "subject_required"]
    listed = (await desk.commands.ok("mailout", "list", "--json")).json
    assert sorted(each["status"] for each in listed) == ["refused", "refused", "sent"]


@on_sqlite
async def test_run_without_error_table_names_failed_recipients(desk: Desk) -> None:
    desk.supabase.add("subscribers", email="éva@example.com")
    here = {"NOTION_DB_ERRORS": ""}
    run_id = (await desk.commands.ok("mailout", "send", desk.page(), **here)).out.strip()
    await desk.commands.ok("worker", "--drain", **here)
    shown = (await desk.commands.ok("mailout", "show", run_id, **here)).out
    assert "✗ send éva@example.com: " in shown
    assert f"`mailwright mailout report {run_id}` lists the failed recipients." in shown


@on_sqlite
async def test_run_without_a_worker_says_so_until_sent(desk: Desk) -> None:
    run_id = (await desk.commands.ok("mailout", "send", desk.page())).out.strip()
    asked = (("mailout", "show", run_id), ("mailout", "list"))
    for arguments in asked:
        assert "No worker is running, so nothing is sent" in (await desk.commands.ok(*arguments)).out
    assert (await desk.commands.ok("mailout", "show", run_id, "--json")).json["wait"]["state"] == "no_worker"
    assert [each["wait"]["state"] for each in (await desk.commands.ok("mailout", "list", "--json")).json] == [
        "no_worker"
    ]
    await desk.commands.ok("worker", "--drain")
    for arguments in asked:
        assert "No worker" not in (await desk.commands.ok(*arguments)).out
    assert (await desk.commands.ok("mailout", "show", run_id, "--json")).json["wait"] is None


@on_sqlite
async def test_each_page_error_is_a_line_with_its_code(desk: Desk) -> None:
    page = desk.page(subject="")
    for asked in (("mailout", "send", page), ("mailout", "send", page, "--dry-run")):
        refused = await desk.commands.run(*asked, ORG_NAME="")
        assert (refused.code, refused.out) == (1, "")
        assert [line.rpartition("[")[2] for line in refused.err.splitlines()] == [
            "subject_required]",
            "footer_env_missing]",
        ]


@on_sqlite
async def test_deleted_page_is_reported_in_one_sentence(desk: Desk) -> None:
    page = desk.page()
    run_id = (await desk.commands.ok("mailout", "send", page)).out.strip()
    desk.notion.trash(page)
    await desk.commands.ok("worker", "--drain")
    shown = (await desk.commands.ok("mailout", "show", run_id)).out
    assert " ".join(shown.split()).count("is in Notion's trash. The results are kept here") == 1
    assert "2 of 2 sent" in shown
    assert "next attempt" not in shown


@on_sqlite
async def test_waiting_run_shows_reason_and_next_try(desk: Desk) -> None:
    desk.notion.answer(busy(429, seconds=600))
    begun = await desk.commands.ok("mailout", "send", desk.page())
    assert begun.err == "! Notion limits the request rate. A worker will retry.\n"
    shown = (await desk.commands.ok("mailout", "show", begun.out.strip())).out
    assert "Notion limits the request rate. [NOTION_RATE_LIMITED] Failed once; next attempt at " in shown
    assert len(desk.notion.requests) == 1


@on_sqlite
async def test_wrong_usage_and_settings_are_reported_by_name(desk: Desk) -> None:
    page = desk.page()
    nothing = await desk.commands.run("mailout", "send", "no page")
    assert (nothing.code, "notionPageId" in nothing.err) == (2, True)
    blind = await desk.commands.run("mailout", "send", page, SUPABASE_SERVICE_ROLE_KEY="sb_publishable_x")
    assert (blind.code, "SUPABASE_SERVICE_ROLE_KEY" in blind.err) == (2, True)
    unset = await desk.commands.run("mailout", "send", page, NOTION_TOKEN="")
    assert (unset.code, "NOTION_TOKEN" in unset.err) == (1, True)
    unknown = await desk.commands.run("mailout", "show", "nothing")
    assert (unknown.code, "There is no run" in unknown.err) == (1, True)
