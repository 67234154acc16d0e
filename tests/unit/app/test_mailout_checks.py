"""The checks of mailouts: Notion tables, Supabase subscribers and missing settings."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from mailwright.audience import lists
from mailwright.checks.mailouts import check_mailout_list, check_mailouts
from mailwright.domain.clock import ManualClock
from mailwright.domain.findings import Finding
from mailwright.ops.settings import load
from mailwright.storage.database import Database
from tests.builders import DEFAULT_TENANT
from tests.mailouts import SETTINGS
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS
from tests.standins.http import Answer
from tests.standins.notion import NotionStandIn
from tests.standins.supabase import PUBLISHABLE_KEY, SECRET_KEY, SupabaseStandIn


@dataclass
class Stage:
    notion: NotionStandIn
    supabase: SupabaseStandIn
    settings: dict[str, Any]

    async def findings(self, **changes: Any) -> list[Finding]:
        settings = load(**{**self.settings, **changes})
        return [finding async for finding in check_mailouts(settings)]

    async def verdicts(self, **changes: Any) -> list[tuple[str, str]]:
        return [(finding.name, finding.verdict) for finding in await self.findings(**changes)]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with NotionStandIn() as notion, SupabaseStandIn() as supabase:
        supabase.add("subscribers", email="ada@example.com")
        settings = {
            **SETTINGS,
            "unsubscribe_secret": "s" * 32,
            "notion_url": notion.url,
            "notion_db_mailouts": notion.add_database("Mailouts", MAILOUT_COLUMNS),
            "notion_db_errors": notion.add_database("Errors", ERROR_COLUMNS),
            "supabase_url": supabase.url,
            "supabase_service_role_key": SECRET_KEY,
        }
        yield Stage(notion, supabase, settings)
        assert not [*notion.violations, *supabase.violations]


async def test_correct_settings_pass(stage: Stage) -> None:
    assert await stage.verdicts() == [("notion", "ok"), ("notion", "ok"), ("supabase", "ok")]


async def test_mailout_list_must_exist(database: Database, clock: ManualClock) -> None:
    settings = load(**SETTINGS, mailout_list="news")
    [missing] = [finding async for finding in check_mailout_list(settings, database)]
    assert (missing.verdict, "no list news" in missing.summary) == ("problem", True)
    await lists.create(database, clock, DEFAULT_TENANT, "news", name="News")
    assert [finding.verdict async for finding in check_mailout_list(settings, database)] == ["ok"]


async def test_only_configured_services_are_checked(stage: Stage) -> None:
    assert await stage.verdicts(notion_token=None) == [("supabase", "ok")]
    assert await stage.findings(notion_token=None, supabase_url=None, supabase_service_role_key=None) == []


async def test_unknown_statuses_in_supabase_are_counted(stage: Stage) -> None:
    for number, status in enumerate(["Active", "Active", " active", None, "unsubscribed", "bounced"]):
        stage.supabase.add("subscribers", email=f"reader{number}@example.com", status=status)
    found = (await stage.findings())[-1]
    assert found.verdict == "warning"
    assert found.summary.endswith("'Active' (2), ' active' (1), '' (1)")


async def test_older_postgrest_passes_and_is_named(stage: Stage) -> None:
    stage.supabase.postgrest = (12, 0)
    found = (await stage.findings())[-1]
    assert (found.verdict, "older than 12.1" in found.summary) == ("ok", True)


async def test_table_that_cannot_be_updated_is_a_problem(stage: Stage) -> None:
    refusal = Answer(403, b'{"code": "42501", "message": "permission denied for table subscribers"}')
    stage.supabase.answer(refusal, path="/rest/v1/subscribers", nth=3)
    found = (await stage.findings())[-1]
    assert (found.verdict, "are not written" in (found.advice or "")) == ("problem", True)
    assert {row["status"] for row in stage.supabase.rows("subscribers")} == {"active"}


async def test_missing_columns_and_options_are_named(stage: Stage) -> None:
    columns = {**MAILOUT_COLUMNS, "Status": ("status", ("Draft", "Send")), "Sent Count": "rich_text"}
    del columns["Test"]
    [found, *_] = await stage.findings(notion_db_mailouts=stage.notion.add_database("Poor", columns))
    assert found.verdict == "warning"
    for lack in ("has no option 'Failed'", "has no property 'Test'"):
        assert lack in found.summary
    assert "'Send'" not in found.summary


async def test_unshared_table_and_blind_key_are_problems(stage: Stage) -> None:
    stage.notion.hide(stage.settings["notion_db_errors"])
    found = await stage.findings(supabase_service_role_key=PUBLISHABLE_KEY)
    assert [finding.verdict for finding in found] == ["ok", "problem", "problem"]
    assert "Connections" in found[1].summary
    assert "service_role" in found[2].summary


async def test_missing_subscriber_column_is_a_problem(stage: Stage) -> None:
    stage.supabase.columns["subscribers"] = {"email": None, "status": "active", "from_name": None}
    assert "bounce_type" in (await stage.findings())[-1].summary


async def test_missing_footer_and_public_url_are_reported(stage: Stage) -> None:
    first, second, *_ = await stage.findings(org_name=None, unsubscribe_base_url="https://news.example.com/leave")
    assert (first.verdict, first.advice) == ("problem", "set ORG_NAME")
    assert (second.verdict, "MAILWRIGHT_BASE_URL" in (second.advice or "")) == ("warning", True)
