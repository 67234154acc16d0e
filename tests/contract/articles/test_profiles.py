"""Articles to a table of another program, in Supabase and PostgreSQL, on both engines."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from mailwright.access.roles import Role
from mailwright.app.profiles import verify_profiles
from mailwright.audience import lists
from mailwright.audience.erasure import erase
from mailwright.audience.status import ContactStatusService
from mailwright.checks.profiles import check_profiles
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.domain.findings import Verdict
from mailwright.outbox.audit import audit
from mailwright.sources.articles.profiles.errors import ProfilesError, ProfilesRefused, ProfilesUnavailable
from mailwright.sources.articles.profiles.rows import InvalidProfile, parse_profile
from mailwright.sources.articles.runs import ArticleRun, EmptyAudience
from mailwright.storage.tables import (
    campaign_runs,
    contacts,
    messages,
    profile_list_updates,
    profile_recipients,
    suppressions,
)
from mailwright.web.app import create_app
from tests.api import client_of
from tests.articles import ACTOR, CLEVELAND, FRANKLIN, KEY, OHIO, US, a_run_request, write_slices
from tests.builders import DEFAULT_TENANT, settings_for, suppress
from tests.conftest import DatabaseAddress
from tests.engines import PostgresServer
from tests.pages import HOME, PASSWORD, a_visit
from tests.profiles import ProfileBench, a_profile_bench, an_owner, small_pages
from tests.standins.http import Answer
from tests.standins.provider import ScriptedProvider

SOURCES = ["supabase", "postgresql"]


@pytest.fixture(params=SOURCES)
async def owner(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Any]:
    async with an_owner(request.param, postgres_server) as owner:
        yield owner


@pytest.fixture
async def at(engine: DatabaseAddress, clock: ManualClock, owner: Any) -> AsyncIterator[ProfileBench]:
    async with a_profile_bench(engine.url, clock, owner, base_url=HOME) as at:
        await write_slices(at.bench)
        yield at
        assert (await audit(at.bench.database)).ok


async def start(at: ProfileBench, **changes: Any) -> ArticleRun:
    run, _ = await at.bench.engine.article_runs.start(ACTOR, DEFAULT_TENANT, a_run_request(**changes))
    return run


async def sent_to(at: ProfileBench) -> list[str]:
    async with at.bench.database.read() as tx:
        return [row.to_email for row in await tx.execute(select(messages.c.to_email).order_by(messages.c.to_email))]


async def count(at: ProfileBench, table: Any) -> int:
    async with at.bench.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table)))[0][0])


async def statuses_in_table(at: ProfileBench) -> dict[str, Any]:
    return {row["email"]: row["mail_status"] for row in await at.owner.rows()}


# The audience.


async def test_article_goes_to_matching_rows(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US, OHIO, FRANKLIN, state="OH")
    await at.owner.add("cleo@example.com", US, OHIO, CLEVELAND, state=None)
    await at.owner.add("dora@example.com", US, state="oh")
    await at.owner.add("texas@example.com", US, f"{US}/state:tx", state="TX")
    run = await start(at, audience_filter={"state": "OH"})
    assert run.read is not None
    assert run.read.source == at.source.table.description
    assert await sent_to(at) == []
    await at.enqueue()
    assert await sent_to(at) == ["ada@example.com", "cleo@example.com", "dora@example.com"]
    ended = await at.find(run)
    assert ended.read is not None
    assert (ended.recipients, ended.read.rows_read, ended.read.matched, ended.read.refused) == (3, 4, 3, 0)
    assert await count(at, profile_recipients) == 0
    provider = ScriptedProvider()
    await at.bench.drain(provider)
    assert len(provider.messages) == 3


async def test_list_selects_rows_and_owns_the_messages(at: ProfileBench) -> None:
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    await at.owner.add("ada@example.com", US, lists=["news", "alerts"])
    await at.owner.add("cleo@example.com", US, lists=["newsletter"])
    await at.owner.add("dora@example.com", US, lists=None)
    run = await start(at, audience_filter={"list": "news"})
    await at.enqueue()
    assert (run.list_key, await sent_to(at)) == ("news", ["ada@example.com"])


async def test_bad_row_is_reported_and_stops_nobody(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await at.owner.add("not an address", US)
    await at.owner.add("", US)
    await at.owner.add(None, US)
    await at.owner.add("bob@example.com", "Ohio")
    await at.owner.add("zoe@example.com", US)
    run = await start(at)
    await at.enqueue()
    assert await sent_to(at) == ["ada@example.com", "zoe@example.com"]
    read = (await at.find(run)).read
    assert read is not None
    assert (read.rows_read, read.matched, read.refused) == (5, 2, 3)
    reasons = " ".join(each.reason for each in read.refusals)
    assert "invalid address" in reasons
    assert "'Ohio' in ocd_ids is not a division id" in reasons
    assert all("bob@example.com" not in each.email for each in read.refusals)


async def test_spellings_of_an_address_get_one_message(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 2)
    for email in ("ADA@example.com", " ada@example.com", "Bob@Example.com", "ada@example.com", "bob@example.com"):
        await at.owner.add(email, US)
    run = await start(at)
    await at.enqueue()
    assert await sent_to(at) == ["ada@example.com", "bob@example.com"]
    read = (await at.find(run)).read
    assert read is not None
    assert (read.rows_read, read.matched) == (5, 2)


@pytest.mark.parametrize("status", ["unsubscribed", "bounced", "Unsubscribed", "paused"])
async def test_status_of_any_spelling_excludes_the_address(
    at: ProfileBench, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    small_pages(monkeypatch, 2)
    await at.owner.add("ADA@example.com", US)
    await at.owner.add("bob@example.com", US, mail_status="Active")
    await at.owner.add("carl@example.com", US, mail_status="")
    await at.owner.add("ada@example.com", US, mail_status=status)
    await at.owner.add("zoe@example.com", US, mail_status=status)
    await at.owner.add("ZOE@example.com", US)
    await start(at)
    await at.enqueue()
    assert await sent_to(at) == ["bob@example.com", "carl@example.com"]


async def test_address_across_a_page_border_is_read_whole(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 3)
    await at.owner.add("ada@example.com", US)
    await at.owner.add("bob@example.com", US)
    for state in ("TX", "TX", "OH"):
        await at.owner.add("carl@example.com", US, state=state)
    await at.owner.add("dora@example.com", US, state="OH")
    run = await start(at, audience_filter={"state": "OH"})
    await at.enqueue()
    assert await sent_to(at) == ["carl@example.com", "dora@example.com"]
    read = (await at.find(run)).read
    assert read is not None
    assert read.rows_read == 6


async def test_address_suppressed_here_gets_nothing(at: ProfileBench) -> None:
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    for name in ("ada", "bob", "carl", "dora", "zoe"):
        await at.owner.add(f"{name.title()}@example.com", US)
    await suppress(at.bench.database, "ada@example.com")
    await suppress(at.bench.database, "bob@example.com", list_key="general")
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "carl@example.com", source="link")
    await statuses.bounce(DEFAULT_TENANT, "dora@example.com", source="test")
    run = await start(at)
    await at.enqueue()
    assert await sent_to(at) == ["zoe@example.com"]
    read = (await at.find(run)).read
    assert read is not None
    assert (read.matched, read.suppressed) == (5, 4)


async def test_unsubscribe_from_the_list_excludes(at: ProfileBench) -> None:
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    await at.owner.add("ada@example.com", US, lists=["news"])
    await at.owner.add("zoe@example.com", US, lists=["news"])
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "ada@example.com", "news", source="link")
    await start(at, audience_filter={"list": "news"})
    await at.enqueue()
    assert await sent_to(at) == ["zoe@example.com"]


async def test_audience_of_excluded_addresses_is_empty(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await suppress(at.bench.database, "ada@example.com")
    with pytest.raises(EmptyAudience):
        await start(at)
    assert await count(at, campaign_runs) == 0


async def test_same_batch_is_sent_once(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    run = await start(at)
    await at.enqueue()
    await at.owner.add("bob@example.com", US)
    again = await start(at)
    await at.enqueue()
    assert (again.id, await sent_to(at)) == (run.id, ["ada@example.com"])


# Fail closed.


async def refuse(at: ProfileBench, how: str) -> None:
    match how:
        case "no column" | "no status column":
            await at.owner.drop_column("ocd_ids" if how == "no column" else "mail_status")
        case "rows hidden":
            await at.owner.hide_rows()
        case "no access":
            await at.owner.refuse_access()


REFUSALS = {
    "no column": "MAILWRIGHT_PROFILES_COLUMNS",
    "no status column": "MAILWRIGHT_PROFILES_COLUMNS",
    "rows hidden": "MAILWRIGHT_PROFILES_",
    "no access": "MAILWRIGHT_PROFILES_",
}


@pytest.mark.parametrize("how", REFUSALS)
async def test_unreadable_table_starts_nothing(at: ProfileBench, how: str) -> None:
    await at.owner.add("ada@example.com", US)
    await refuse(at, how)
    with pytest.raises(ProfilesRefused, match=REFUSALS[how]):
        await start(at)
    assert await count(at, campaign_runs) == 0


@pytest.mark.parametrize("how", REFUSALS)
async def test_half_read_table_sends_nothing(at: ProfileBench, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 2)
    for number in range(6):
        await at.owner.add(f"reader{number}@example.com", US)
    run = await start(at)
    assert await at.reader().tick()
    await refuse(at, how)
    await at.enqueue()
    ended = await at.find(run)
    assert ended.failure is not None
    assert REFUSALS[how] in ended.failure
    assert "Nothing was sent." in ended.failure
    assert (await sent_to(at), await count(at, profile_recipients)) == ([], 0)


async def test_outage_postpones_the_read(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 2)
    for number in range(6):
        await at.owner.add(f"reader{number}@example.com", US)
    run = await start(at)
    reader = at.reader()
    assert await reader.tick()

    async def fail(_after: str | None) -> Any:
        raise ProfilesUnavailable("MAILWRIGHT_PROFILES_URL: The server is gone.")

    with monkeypatch.context() as outage:
        outage.setattr(at.source.table, "page", fail)
        assert not await reader.tick()
        waiting = await at.find(run)
        assert waiting.read is not None
        assert (waiting.failure, waiting.read.problem) == (None, "MAILWRIGHT_PROFILES_URL: The server is gone.")
    assert not await reader.tick()  # Not before the next attempt.
    at.clock.advance(MINUTE)
    while await reader.tick():
        pass
    await at.enqueue()
    assert len(await sent_to(at)) == 6
    ended = await at.find(run)
    assert ended.read is not None
    assert (ended.read.problem, ended.read.rows_read) == (None, 6)


async def test_outage_of_a_day_ends_the_run(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.owner.add("ada@example.com", US)
    run = await start(at)

    async def fail(_after: str | None) -> Any:
        raise ProfilesUnavailable("MAILWRIGHT_PROFILES_URL: The server is gone.")

    monkeypatch.setattr(at.source.table, "page", fail)
    at.clock.advance(DAY + HOUR)
    await at.enqueue()
    assert "The server is gone. Nothing was sent." in str((await at.find(run)).failure)


async def test_run_without_the_setting_waits(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    run = await start(at)
    at.source = None  # type: ignore[assignment]
    await at.enqueue()
    waiting = await at.find(run)
    assert waiting.read is not None
    assert "MAILWRIGHT_PROFILES_URL is not set" in str(waiting.read.problem)
    assert await sent_to(at) == []


async def test_killed_readers_lose_and_repeat_nobody(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 3)
    for number in range(20):
        await at.owner.add(f"reader{number:02}@example.com", US)
    run = await start(at)
    for _ in range(4):  # Each reader is a process that dies after a page; two work at the same time.
        await asyncio.gather(at.reader().tick(), at.reader().tick())
    await at.enqueue()
    assert await sent_to(at) == [f"reader{number:02}@example.com" for number in range(20)]
    ended = await at.find(run)
    assert ended.read is not None
    assert (ended.recipients, ended.read.rows_read, ended.read.matched) == (20, 20, 20)


async def test_rows_added_during_the_read_shift_nobody(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pages(monkeypatch, 3)
    for number in range(10, 20):
        await at.owner.add(f"reader{number}@example.com", US)
    await start(at)
    reader = at.reader()
    for number in range(5):
        await reader.tick()
        await at.owner.add(f"early{number}@example.com", US)
    await at.enqueue()
    assert {f"reader{number}@example.com" for number in range(10, 20)} <= set(await sent_to(at))
    assert len(await sent_to(at)) == len(set(await sent_to(at)))


async def test_erased_contact_leaves_the_read(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await at.owner.add("zoe@example.com", US)
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.subscribe(DEFAULT_TENANT, "ada@example.com", "general", source="test")
    await start(at)
    await at.read()
    await erase(at.bench.database, at.bench.clock, DEFAULT_TENANT, "ada@example.com", actor=ACTOR)
    async with at.bench.database.read() as tx:
        assert [row.email for row in await tx.execute(select(profile_recipients.c.email))] == ["zoe@example.com"]
    await at.enqueue()
    assert await sent_to(at) == ["zoe@example.com"]


# Unsubscribes and bounces.


async def test_unsubscribes_and_bounces_are_written_back(at: ProfileBench) -> None:
    for name in ("ada", "bob", "carl", "zoe"):
        await at.owner.add(f"{name.title()}@Example.com ", US, note="theirs")
    before = await at.owner.rows()
    await start(at)
    await at.enqueue()
    await at.bench.drain(ScriptedProvider())
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "ada@example.com", source="link")
    await statuses.bounce(DEFAULT_TENANT, "bob@example.com", source="test")
    await statuses.complain(DEFAULT_TENANT, "carl@example.com", source="test")
    before = [dict(row) for row in before]
    await at.write_back()
    expected = {"Ada": "unsubscribed", "Bob": "bounced", "Carl": "unsubscribed", "Zoe": None}
    assert await statuses_in_table(at) == {f"{name}@Example.com ": status for name, status in expected.items()}
    theirs = [{name: value for name, value in row.items() if name != "mail_status"} for row in before]
    after = [{name: row[name] for name in theirs[0]} for row in await at.owner.rows()]
    assert sorted(after, key=str) == sorted(theirs, key=str)


async def test_resubscribe_undoes_only_our_unsubscribe(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await at.owner.add("bob@example.com", US, mail_status="bounced")
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    for name in ("ada", "bob"):
        await statuses.unsubscribe_by_link(DEFAULT_TENANT, f"{name}@example.com", source="link")
    await at.write_back()
    assert await statuses_in_table(at) == {"ada@example.com": "unsubscribed", "bob@example.com": "bounced"}
    for name in ("ada", "bob"):
        await statuses.resubscribe_by_link(DEFAULT_TENANT, f"{name}@example.com", source="link")
    await at.write_back()
    assert await statuses_in_table(at) == {"ada@example.com": "active", "bob@example.com": "bounced"}


async def test_write_back_is_repeated_until_it_succeeds(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.owner.add("ada@example.com", US)
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, "ada@example.com", source="link")

    async def fail(_change: Any) -> Any:
        raise ProfilesUnavailable

    with monkeypatch.context() as outage:
        outage.setattr(at.source.table, "write_status", fail)
        with pytest.raises(ProfilesError):
            await at.write_back()
    await at.write_back()
    assert await statuses_in_table(at) == {"ada@example.com": "unsubscribed"}


async def test_refused_row_does_not_block_the_others(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await at.owner.add("bob@example.com", US)
    if hasattr(at.owner, "server"):
        at.owner.server.frozen.add("ada@example.com")
    else:
        await at.owner.connection.execute(
            "ALTER TABLE profiles ADD CHECK (email <> 'ada@example.com' OR mail_status IS NULL)"
        )
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    for name in ("ada", "bob"):
        await statuses.unsubscribe_by_link(DEFAULT_TENANT, f"{name}@example.com", source="link")
    await at.write_back()
    assert await statuses_in_table(at) == {"ada@example.com": None, "bob@example.com": "unsubscribed"}


async def lists_in_table(at: ProfileBench) -> dict[str, Any]:
    return {row["email"]: row["lists"] for row in await at.owner.rows()}


async def leave_list(at: ProfileBench, email: str, list_key: str = "news") -> None:
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.unsubscribe_by_link(DEFAULT_TENANT, email, list_key, source="link")


async def test_unsubscribe_from_one_list_is_written_back(at: ProfileBench) -> None:
    for list_key in ("news", "alerts"):
        await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, list_key)
    await at.owner.add("Ada@Example.com ", US, lists=["alerts", "news"])
    await at.owner.add("ada@example.com", US, lists=["news"])
    await at.owner.add("bob@example.com", US, lists=["news"])
    await at.owner.add("carl@example.com", US, lists=None)
    for name in ("ada", "carl", "nobody"):
        await leave_list(at, f"{name}@example.com")
    await at.write_back()
    await at.write_back()
    assert await lists_in_table(at) == {
        "Ada@Example.com ": ["alerts"],
        "ada@example.com": [],
        "bob@example.com": ["news"],
        "carl@example.com": None,
    }
    assert set((await statuses_in_table(at)).values()) == {None}
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    for name in ("ada", "carl"):
        await statuses.resubscribe_by_link(DEFAULT_TENANT, f"{name}@example.com", "news", source="link")
    await at.write_back()
    written = await lists_in_table(at)
    assert (written["Ada@Example.com "], written["carl@example.com"]) == (["alerts", "news"], None)
    await leave_list(at, "ada@example.com")
    await at.write_back()
    assert (await lists_in_table(at))["Ada@Example.com "] == ["alerts"]
    written_before = await count(at, profile_list_updates)
    await erase(at.bench.database, at.bench.clock, DEFAULT_TENANT, "ada@example.com", actor=ACTOR)
    await at.write_back()
    assert await count(at, profile_list_updates) == written_before - 1


async def test_change_by_the_other_program_is_kept(at: ProfileBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other program adds a list between the read and the update of the row."""
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    await at.owner.add("ada@example.com", US, lists=["news"])
    await leave_list(at, "ada@example.com")
    rows_of, reads = at.source.table.rows_of, 0

    async def rows_before_a_change(email: str) -> Any:
        nonlocal reads
        reads += 1
        rows = [dict(row) for row in await rows_of(email)]
        if reads == 1:
            await at.owner.set_lists("ada@example.com", ["news", "added"])
        return rows

    monkeypatch.setattr(at.source.table, "rows_of", rows_before_a_change)
    await at.write_back()
    assert await lists_in_table(at) == {"ada@example.com": ["added"]}


async def test_refused_lists_do_not_block_the_others(at: ProfileBench) -> None:
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    for name in ("ada", "bob"):
        await at.owner.add(f"{name}@example.com", US, lists=["news"])
    if hasattr(at.owner, "server"):
        at.owner.server.frozen.add("ada@example.com")
    else:
        await at.owner.connection.execute(
            "ALTER TABLE profiles ADD CHECK (email <> 'ada@example.com' OR cardinality(lists) > 0)"
        )
    for name in ("ada", "bob"):
        await leave_list(at, f"{name}@example.com")
    await at.write_back()
    assert await lists_in_table(at) == {"ada@example.com": ["news"], "bob@example.com": []}


@pytest.mark.parametrize("unreadable", ['{"news":true}', '["news"'])
async def test_unreadable_lists_are_reported_and_tried_again(at: ProfileBench, unreadable: str) -> None:
    """Neither an unsubscribe nor a resubscribe counts as written, and the value stays as it is."""
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    if not hasattr(at.owner, "server"):
        await at.owner.connection.execute("ALTER TABLE profiles ALTER COLUMN lists TYPE text USING NULL")
    await at.owner.add("ada@example.com", US)
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    for change, before, after in (
        (statuses.unsubscribe_by_link, "alerts,news", "alerts"),
        (statuses.resubscribe_by_link, "alerts", "alerts,news"),
    ):
        await at.owner.set_lists("ada@example.com", unreadable)
        await change(DEFAULT_TENANT, "ada@example.com", "news", source="link")
        with capture_logs() as lines:
            await at.write_back()
        [line] = [each for each in lines if each["event"] == "profile_lists_refused"]
        assert (line["list"], "lists" in line["reason"]) == ("news", True)
        assert await lists_in_table(at) == {"ada@example.com": unreadable}
        await at.owner.set_lists("ada@example.com", before)
        await at.write_back()
        assert await lists_in_table(at) == {"ada@example.com": after}


async def test_lists_that_cannot_be_written_are_reported(at: ProfileBench) -> None:
    """Statuses are still written."""
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    await at.owner.add("ada@example.com", US, lists=["news"])
    await at.owner.add("bob@example.com", US, lists=["news"])
    await leave_list(at, "ada@example.com")
    await leave_list(at, "bob@example.com", "general")
    if hasattr(at.owner, "server"):
        return  # A key of Supabase may write all columns.
    await at.owner.connection.execute("REVOKE UPDATE (lists) ON profiles FROM profile_reader")
    [finding] = [each async for each in check_profiles(at.bench.engine.settings, at.bench.database)]
    assert (finding.verdict, "UPDATE" in finding.summary) == (Verdict.PROBLEM, True)
    with pytest.raises(ProfilesRefused, match="MAILWRIGHT_PROFILES_URL"):
        await at.write_back()
    assert (await statuses_in_table(at))["bob@example.com"] == "unsubscribed"


@pytest.mark.parametrize("owner", ["supabase"], indirect=True)
async def test_lists_in_supabase_may_be_json_or_text(at: ProfileBench) -> None:
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    at.owner.server.json_columns.add("lists")
    await at.owner.add("ada@example.com", US, lists=["news"])
    await leave_list(at, "ada@example.com")
    await at.write_back()
    assert await lists_in_table(at) == {"ada@example.com": []}
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.resubscribe_by_link(DEFAULT_TENANT, "ada@example.com", "news", source="link")
    await at.write_back()
    assert await lists_in_table(at) == {"ada@example.com": ["news"]}
    await at.owner.set_lists("ada@example.com", "alerts, news; other")
    await leave_list(at, "ada@example.com")
    await at.write_back()
    assert await lists_in_table(at) == {"ada@example.com": "alerts; other"}


@pytest.mark.parametrize("owner", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "before", "after", "again"),
    [
        ("jsonb", '["news", "alerts"]', '["alerts"]', '["alerts", "news"]'),
        ("json", '["news"]', "[]", '["news"]'),
        ("text", "news, alerts", "alerts", "alerts,news"),
        ("varchar(100)", "news", "", "news"),
        ("varchar(20)[]", "{news,alerts}", "{alerts}", "{alerts,news}"),
    ],
)
async def test_lists_in_postgresql_keep_their_type(
    at: ProfileBench, kind: str, before: str, after: str, again: str
) -> None:
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    connection = at.owner.connection
    await connection.execute(f"ALTER TABLE profiles ALTER COLUMN lists TYPE {kind} USING NULL")
    await at.owner.add("ada@example.com", US)
    await connection.execute(f"UPDATE profiles SET lists = '{before}'::{kind}")
    await leave_list(at, "ada@example.com")
    await at.write_back()
    assert await connection.fetchval("SELECT lists::text FROM profiles") == after
    statuses = ContactStatusService(at.bench.database, at.bench.clock)
    await statuses.resubscribe_by_link(DEFAULT_TENANT, "ada@example.com", "news", source="link")
    await at.write_back()
    assert await connection.fetchval("SELECT lists::text FROM profiles") == again


# Preview, coverage and checks.


async def test_preview_and_coverage_use_the_table(at: ProfileBench) -> None:
    await at.owner.add("Ada@example.com", US, OHIO)
    await at.owner.add("bob@example.com", US)
    previews = at.bench.engine.article_previews
    person = await previews.find_recipient(DEFAULT_TENANT, "ada@example.com", ())
    assert person.divisions == (US, OHIO)
    with pytest.raises(InvalidInput, match="There is no row with this address in profiles"):
        await previews.find_recipient(DEFAULT_TENANT, "carl@example.com", ())
    coverage = await previews.coverage(DEFAULT_TENANT, KEY, {})
    assert (coverage.source, coverage.recipients) == (at.source.table.description, 2)
    assert await count(at, contacts) == 0
    assert await count(at, suppressions) == 0


async def test_check_reports_the_table(at: ProfileBench) -> None:
    async def found() -> Any:
        [finding] = [each async for each in check_profiles(at.bench.engine.settings, at.bench.database)]
        return finding

    assert (await found()).verdict is Verdict.PROBLEM  # The table has no row.
    await at.owner.add("ada@example.com", US)
    assert (await found()).verdict is Verdict.OK
    await at.owner.drop_column("mail_status")
    missing = await found()
    assert (missing.verdict, "MAILWRIGHT_PROFILES_COLUMNS" in missing.summary) == (Verdict.PROBLEM, True)


async def test_columns_can_have_other_names(engine: DatabaseAddress, clock: ManualClock, owner: Any) -> None:
    settings = {"profiles_columns": {"state": "note", "status": "-", "lists": "-", "city": "state"}}
    async with a_profile_bench(engine.url, clock, owner, **settings) as at:
        await write_slices(at.bench)
        await owner.drop_column("mail_status")
        await owner.drop_column("lists")
        await owner.add("ada@example.com", US, note="OH", state="Columbus")
        await owner.add("bob@example.com", US, note="TX", state="Austin")
        await start(at, audience_filter={"state": "OH", "city": "columbus"})
        await at.enqueue()
        assert await sent_to(at) == ["ada@example.com"]
        await ContactStatusService(at.bench.database, clock).bounce(DEFAULT_TENANT, "ada@example.com", source="test")
        await at.write_back()
        await lists.create(at.bench.database, clock, DEFAULT_TENANT, "news")
        with pytest.raises(InvalidInput, match="names no column of lists"):
            await start(at, audience_filter={"list": "news"}, campaign_tag="other")


async def test_page_and_api_show_where_recipients_come_from(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    await at.owner.add("broken", US)
    await at.owner.add("zoe@example.com", US, mail_status="bounced")
    engine = at.bench.engine
    app = create_app(engine)
    await engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    run = await start(at)
    async with a_visit(app) as visit:
        page = f"/articles/~runs/{run.run_id}"
        assert f"Recipients are being read from {at.source.table.description}" in (await visit.open(page)).words()
        assert "Reading" in (await visit.open(f"/articles/{KEY}/runs")).words()
        await at.enqueue()
        words = (await visit.open(page)).words()
        for figure in ("Rows read 3", "Matched 1", "Rows refused 1", "Excluded 1", "1 refused row"):
            assert figure in words, words
        words = (await visit.open(f"/articles/{KEY}/coverage?whole=yes")).words()
        assert f"Recipients come from {at.source.table.description}" in words
        await at.owner.refuse_access()
        assert (
            "MAILWRIGHT_PROFILES_" in (await visit.open(f"/articles/{KEY}/coverage?whole=yes&filter=state=OH")).words()
        )
    async with client_of(app, await engine.keys.create(DEFAULT_TENANT)) as client:
        shown = (await client.get(f"/v1/article-runs/{run.run_id}")).json()["recipients_from"]
        refused = await client.post(f"/v1/articles/{KEY}/coverage", json={})
    counts = ("rows_read", "matched", "refused", "excluded", "suppressed", "is_complete")
    assert [shown[name] for name in counts] == [3, 1, 1, 1, 0, True]
    assert shown["refusals"][0]["reason"] == "invalid address: must look like name@example.com"
    assert (refused.status_code, refused.json()["code"]) == (422, "PROFILES_REFUSED")


# Only Supabase, or only PostgreSQL.


@pytest.mark.parametrize("owner", ["supabase"], indirect=True)
async def test_redirect_is_refused(at: ProfileBench) -> None:
    await at.owner.add("ada@example.com", US)
    at.owner.server.answer(Answer(302, b"", {"Location": "https://other.example.com/rest/v1/profiles"}), times=10)
    with pytest.raises(ProfilesRefused, match="Set MAILWRIGHT_PROFILES_URL to the address of the project itself"):
        await start(at)
    assert await count(at, campaign_runs) == 0


@pytest.mark.parametrize("owner", ["postgresql"], indirect=True)
@pytest.mark.parametrize("kind", ["jsonb", "text"])
async def test_arrays_may_be_json_or_text(at: ProfileBench, kind: str) -> None:
    cast = "to_jsonb({0})" if kind == "jsonb" else "array_to_string({0}, ',')"
    for name in ("ocd_ids", "lists"):
        change = f"ALTER COLUMN {name} TYPE {kind} USING {cast.format(name)}"
        await at.owner.connection.execute(f"ALTER TABLE profiles {change}")
    await lists.create(at.bench.database, at.bench.clock, DEFAULT_TENANT, "news")
    values = {"jsonb": (f'["{US}", "{OHIO}"]', '["news"]'), "text": (f"{US};{OHIO}", "alerts, news")}[kind]
    await at.owner.connection.execute(
        f"INSERT INTO profiles (email, ocd_ids, lists) VALUES ('ada@example.com', $1::{kind}, $2::{kind})", *values
    )
    await start(at, audience_filter={"state": "OH", "list": "news"})
    await at.enqueue()
    assert await sent_to(at) == ["ada@example.com"]


@pytest.mark.parametrize("owner", ["postgresql"], indirect=True)
async def test_missing_table_and_wrong_database_name_their_settings(
    engine: DatabaseAddress, clock: ManualClock, owner: Any
) -> None:
    async with a_profile_bench(engine.url, clock, owner, profiles_table="public.people") as at:
        await write_slices(at.bench)
        with pytest.raises(ProfilesRefused, match=r"MAILWRIGHT_PROFILES_TABLE.*people"):
            await start(at)
    owner.settings = {"profiles_url": f"{owner.settings['profiles_url'].partition('?')[0]}-no?host=127.0.0.1&port=1"}
    async with a_profile_bench(engine.url, clock, owner) as at:
        with pytest.raises(ProfilesUnavailable, match="MAILWRIGHT_PROFILES_URL"):
            await start(at)


# Settings and rows.


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"profiles_url": "mysql://db/app"}, "MAILWRIGHT_PROFILES_URL: must look like"),
        ({"profiles_url": "https://abc.supabase.co"}, "MAILWRIGHT_PROFILES_KEY: set it to the service_role key"),
        (
            {"profiles_url": "https://abc.supabase.co", "profiles_key": "sb_publishable_x"},
            "MAILWRIGHT_PROFILES_KEY: this is a publishable key",
        ),
        ({"profiles_key": "sb_secret_x"}, "MAILWRIGHT_PROFILES_KEY: set both"),
        (
            {"profiles_url": "postgresql://db/app", "profiles_table": "profiles; drop"},
            "MAILWRIGHT_PROFILES_TABLE: must be the name of a table",
        ),
        (
            {"profiles_url": "postgresql://db/app", "profiles_columns": "email=-"},
            "MAILWRIGHT_PROFILES_COLUMNS: email is required",
        ),
        (
            {"profiles_url": "postgresql://db/app", "profiles_columns": "status=state"},
            "MAILWRIGHT_PROFILES_COLUMNS: status=state: Mailwright writes this column",
        ),
        (
            {"profiles_url": "postgresql://db/app", "profiles_columns": 'city=a"b'},
            "MAILWRIGHT_PROFILES_COLUMNS: city=a",
        ),
    ],
)
def test_wrong_settings_are_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        verify_profiles(settings_for("sqlite:///x.db", **given))
    assert problem in str(refused.value)


def test_row_values_are_parsed_by_type() -> None:
    row = {
        "email": " Ada@Example.com",
        "ocd_ids": f'{{"{US}",{OHIO}}}',
        "lists": ["news ", ""],
        "age": 7,
        "state": None,
    }
    profile = parse_profile(row)
    assert (profile.email, profile.divisions) == ("ada@example.com", (US, OHIO))
    assert (profile.lists, profile.attributes["age"]) == ({"news"}, 7)
    for wrong in ({"ocd_ids": {"a": 1}}, {"ocd_ids": [7]}, {"lists": 5}, {"ocd_ids": "[broken"}, {"email": 5}):
        with pytest.raises(InvalidProfile):
            parse_profile({"email": "ada@example.com", **wrong})
