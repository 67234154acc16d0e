"""Pages show correct numbers of a long history and read it through indexes, on both engines."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, func, insert, select, text

from mailwright.audience import contacts, suppressions
from mailwright.audience import search as people
from mailwright.audience.importing import store
from mailwright.audience.segments import audience_query
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.states import Status
from mailwright.domain.tracking import TrackingMode
from mailwright.outbox import audit_log, message_records, search, summary, tallies
from mailwright.outbox.message_records import MessageSearch
from mailwright.outbox.tallies import EventTallier, load_buckets
from mailwright.sources.articles import history, runs
from mailwright.sources.campaigns import ab_test, failed_recipients, progress
from mailwright.sources.campaigns.entries import find_entry
from mailwright.sources.campaigns.records import Campaign, find_campaign
from mailwright.sources.campaigns.report_figures import load_figures
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.campaigns.statistics import campaign_statistics
from mailwright.sources.sequences import figures, last_emails
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import Statement
from mailwright.storage.tables import campaigns, events, messages
from tests.builders import DEFAULT_TENANT, Bench, a_message, an_acceptor
from tests.campaigns import CampaignHarness

_RUN_MESSAGES = {"tenant_id": 1, "run_id": "run", "lane": 1, "behind": 0}
# A full scan of a table, by its name or alias.
_WHOLE = re.compile(r"(?:SCAN|Seq Scan on) (messages|deliveries|events\w*|contact_tags|[bdemst])\b(?! USING)")
# Queries of the pages on the three tables that grow with every message, with a value for each parameter.
ASKED: tuple[tuple[Statement, dict[str, Any]], ...] = (
    (search.KEY_BEFORE, {"time": 1}),
    (summary.WAITING_LANES, {"now": 1, "first": 1, "beyond": 2}),
    (summary.FIRST_WAITING, {"lane": 1}),
    (summary.COUNT_NEEDING_OPERATOR, {"tenant_id": 1, "most": 9, "delayed_since": 1}),
    (message_records.LIST_EVENTS, {"message_key": 1}),
    (message_records.LIST_DEAD_LETTERS, {"tenant_id": 1, "before_time": 1, "before_key": 1, "limit": 9}),
    (tallies.TALLY_EVENTS, {"after": 0, "up_to": 9}),
    (tallies.TALLY_CAMPAIGNS, {"after": 0, "up_to": 9}),
    (tallies.TALLY_CAMPAIGN, {"after": 0, "up_to": 9, "campaign_key": 1}),
    (tallies.TALLY_LINKS, {"after": 0, "up_to": 9}),
    (tallies.RESULTS_BY_TEMPLATE, {"after": 0, "up_to": 9, "campaign_key": 1}),
    (progress.COUNT_LANE, {"lane": 1}),
    (progress.COUNT_BY_LANE, {"lanes": [(1,), (2,)]}),
    (progress.COUNT_RECENTLY_SENT, {"lane": 1, "since": 1, "now": 1, "most": 9}),
    (failed_recipients.LIST_FAILED, {"lane": 1, "after": 0, "limit": 9}),
    (failed_recipients.LIST_IN_DOUBT, {"lane": 1, "after": 0, "limit": 9}),
    (runs.RUN_COUNTS, _RUN_MESSAGES),
    (history.UNSENT_MESSAGES, {**_RUN_MESSAGES, "one": "FAILED", "two": "", "three": "", "email": "", "limit": 9}),
    (last_emails.LAST_EMAILS, {"runs": [(1,), (2,)]}),
    (figures.COUNT_UNSENT, {"sequence_key": 1, "lane": 1}),
    (people.TAGS_IN_USE, {"tenant_id": 1, "limit": 9}),
)


async def test_no_query_scans_all_messages(database: Database) -> None:
    for statement, values in ASKED:
        plan = await _plan(database, statement, values)
        whole = [name for name in _WHOLE.findall(plan) if f"CO-ROUTINE {name}" not in plan]
        assert not whole, f"{statement.name}: {plan}"


async def _plan(database: Database, statement: Statement, values: dict[str, Any]) -> str:
    return await _explained(database, *statement.bind(database.dialect, values))


async def _explained(database: Database, words: str, values: Sequence[Any], *, without: Sequence[str] = ()) -> str:
    """Return the query plan with the scans of an empty table disabled, to see whether an index can be used."""
    explain = "EXPLAIN" if database.dialect == "postgresql" else "EXPLAIN QUERY PLAN"
    rows: list[Any] = []

    def ask(connection: Connection) -> None:
        if database.dialect == "postgresql":
            for way in ("seqscan", *without):
                connection.execute(text(f"SET LOCAL enable_{way} = off"))
        rows.extend(connection.exec_driver_sql(f"{explain} {words}", tuple(values)))

    await database.run_sync_ddl(ask)
    return "\n".join(str(row[-1]) for row in rows)


async def test_lists_are_read_from_an_index_without_sorting(database: Database) -> None:
    asked = await _asked(
        database,
        lambda: contacts.list_page(database, 1, limit=9),
        lambda: audit_log.list_entries(database, tenant_id=1, limit=9),
        lambda: audit_log.list_entries(database, tenant_id=1, limit=9, subject="anything"),
    )
    ways = ("ix_contacts_not_deleted", "ix_audit_log_tenant_id_id", "ix_audit_log_subject")
    for way, (words, values) in zip(ways, asked, strict=True):
        plan = await _explained(database, words, values, without=("bitmapscan", "sort"))
        # On an empty table, PostgreSQL may choose any index.
        assert way in plan or database.dialect == "postgresql", plan
        assert not re.search(r"TEMP B-TREE|Sort", plan), plan


async def test_failures_are_counted_by_the_time_they_failed(database: Database) -> None:
    async def count() -> None:
        async with database.read() as tx:
            await message_records.count(tx, 1, summary.failed_since(1), most=9)

    [(words, values)] = await _asked(database, count)
    plan = await _explained(database, words, values)
    # On an empty table, PostgreSQL may choose any index.
    assert "ix_deliveries_failed" in plan or database.dialect == "postgresql", plan


async def test_page_of_contacts_finds_its_beginning_by_index(database: Database) -> None:
    everyone = people.ContactQuery()
    asked = await _asked(database, lambda: people.search_contacts(database, 1, everyone, limit=9))
    [(words, values)] = [each for each in asked if "max(contacts.id)" in each[0]]
    plan = await _explained(database, words, values, without=("bitmapscan", "sort"))
    # On an empty table, PostgreSQL may choose any index.
    assert "ix_contacts_not_deleted" in plan or database.dialect == "postgresql", plan


async def test_messages_of_many_ids_are_found_by_their_ids(database: Database) -> None:
    ids = [f"id-{number}" for number in range(200)]
    [(words, values)] = await _asked(database, lambda: message_records.find_recipients(database, 1, ids, without="x"))
    plan = await _explained(database, words, values)
    assert re.search(r"outbox_id ?= ?(\?|ANY)", plan), plan


async def test_workers_look_for_unsettled_campaigns_by_lane(database: Database) -> None:
    """Each worker does so every few seconds, also for campaigns that were cancelled long ago."""
    asked = await _asked(database, CampaignScheduler(database, ManualClock()).tick)
    [(words, values)] = [each for each in asked if "campaigns.status = " in each[0] and " deliveries" in each[0]]
    plan = await _explained(database, words, values)
    assert "ix_deliveries_waiting" in plan, plan


async def test_audience_is_counted_from_the_list_index(database: Database) -> None:
    await _fill_lists(database, people=4_000, subscribers=200)
    whole = audience_query(1, ["news"], None, 1).add_columns(func.count())

    async def count() -> None:
        async with database.read() as tx:
            await tx.execute(whole)

    [(words, values)] = await _asked(database, count)
    plan = await _explained(database, words, values)
    assert "ix_subscriptions_of_list" in plan, plan
    assert not re.search(r"email=\? AND list_key=\?", plan), plan  # SQLite looks each contact up once, not three times.


async def _fill_lists(database: Database, *, people: int, subscribers: int) -> None:
    """Add people, of whom some are on the list `news` and all on another, and let the engine know it."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {people})"
    lists = (
        f"SELECT 1, i, 'all', 1, 'test' FROM n UNION ALL SELECT 1, i, 'news', 1, 'test' FROM n WHERE i <= {subscribers}"
    )
    async with database.write() as tx:
        if database.dialect == "postgresql":  # Earlier tests left pages in their indexes, which change the costs.
            await tx.execute(text("TRUNCATE contacts, subscriptions"))
        contact = "SELECT i, 'c' || i, 1, 'person' || i || '@example.com', 1 FROM n"
        await tx.execute(
            text(f"INSERT INTO contacts (id, contact_id, tenant_id, email, created_at) {numbers} {contact}")
        )
        columns = "tenant_id, contact_key, list_key, subscribed_at, source"
        await tx.execute(text(f"INSERT INTO subscriptions ({columns}) {numbers} {lists}"))
        for table in ("contacts", "subscriptions"):
            await tx.execute(text(f"ANALYZE {table}"))


async def _asked(database: Database, *lists: Callable[[], Awaitable[Any]]) -> list[tuple[str, Sequence[Any]]]:
    """Return the queries of lists, as the driver receives them."""
    heard: list[tuple[str, Sequence[Any]]] = []

    def hear(_connection: Any, _cursor: Any, words: str, values: Sequence[Any], _context: Any, _many: bool) -> None:
        if words.startswith("SELECT"):
            heard.append((words, values))

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        for each in lists:
            await each()
    finally:
        event.remove(Engine, "before_cursor_execute", hear)
    return heard


_PEOPLE = [("id", "ada@example.com", None, None, None, "{}")]
_ADDRESSES = [(row[1],) for row in _PEOPLE]
# Queries about many contacts at once.
ABOUT_PEOPLE: tuple[tuple[Statement, dict[str, Any]], ...] = (
    (suppressions.SUPPRESSED_AMONG, {"emails": _ADDRESSES, "list_key": "news"}),
    (store.ADD_IMPORTED, {"contacts": _PEOPLE, "erasure": "erasure", "now": 1}),
    (store.ERASED_IMPORTED, {"contacts": _ADDRESSES, "erasure": "erasure"}),
    (store.KNOWN_CONTACTS, {"contacts": [row[:2] for row in _PEOPLE], "list_key": "news"}),
    (store.SUBSCRIBE_IMPORTED, {"contacts": _ADDRESSES, "list_key": "news", "source": "test", "now": 1}),
    (store.TAG_IMPORTED, {"tags": [(*row, "vip") for row in _ADDRESSES]}),
)


@pytest.mark.parametrize(("statement", "values"), ABOUT_PEOPLE, ids=[each.name for each, _ in ABOUT_PEOPLE])
async def test_many_contacts_are_found_by_the_address_index(
    database: Database, statement: Statement, values: dict[str, Any]
) -> None:
    """Even without statistics, when the planner expects few contacts of a tenant."""
    plan = await _plan(database, statement, {"tenant_id": 1, **values})
    assert not re.search(r"Join Filter: .*email", plan), plan
    looked_at = re.findall(r"(?:Index Cond: |SEARCH (?:k|s|c) )(.*(?:tenant_id).*)", plan)
    assert looked_at, plan
    assert all("email" in each for each in looked_at), plan


async def test_campaign_figures_do_not_depend_on_tally_progress(bench: Bench) -> None:
    campaign = await _sent(CampaignHarness(bench), readers=3)
    before = await campaign_statistics(bench.database, campaign)
    assert sum(step.counts.get("SENT", 0) for step in before.intervals) == 3
    await _add_up(bench)
    assert await campaign_statistics(bench.database, campaign) == before
    await _happen(bench, campaign, ("open", 0), ("open", MINUTE), ("click", MINUTE))
    halfway = await campaign_statistics(bench.database, campaign)
    assert halfway.messages == {"open": 3, "click": 3}
    await _add_up(bench)
    assert await campaign_statistics(bench.database, campaign) == halfway
    # A second open by the same contact does not count, even if the first is already in the totals.
    await _happen(bench, campaign, ("open", 2 * MINUTE))
    again = await campaign_statistics(bench.database, campaign)
    assert again.messages == {"open": 3, "click": 3}
    assert sum(step.counts.get("open", 0) for step in again.intervals) == 9
    await _add_up(bench)
    assert await campaign_statistics(bench.database, campaign) == again


async def test_lagging_tallies_read_a_bounded_number_of_events(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement about events that are not tallied has an upper key, so the lag does not slow down a page."""
    campaign = await _sent(CampaignHarness(bench), readers=3)
    await _add_up(bench)
    await _happen(bench, campaign, ("open", 0), ("click", MINUTE), ("open", HOUR))
    monkeypatch.setattr(tallies, "MAX_UNTALLIED", 6)
    ran: list[tuple[str, dict[str, Any]]] = []
    run = Transaction.run

    async def record(self: Transaction, asked: Statement, **values: Any) -> Any:
        ran.append((asked.name, values))
        return await run(self, asked, **values)

    monkeypatch.setattr(Transaction, "run", record)
    found = await load_campaign(bench.database, campaign)
    figures = await load_figures(bench.database, found, bench.clock.now(), TrackingMode.INDIVIDUAL)
    assert figures is not None
    assert figures.statistics.messages == {"open": 2, "click": 2}  # The events of two recipients.
    assert sum(step.counts.get("open", 0) for step in figures.statistics.intervals) == 4
    assert figures.uncounted_events == 9
    async with bench.database.read() as tx:
        await ab_test.results_by_template(tx, campaign)
    read = [(name, values) for name, values in ran if "after" in values and ("tally" in name or "template" in name)]
    assert {name for name, _ in read} == {"tally_campaign", "tally_campaigns", "tally_links", "results_by_template"}
    assert {values["up_to"] - values["after"] for _, values in read} == {6}
    await _add_up(bench)
    figures = await load_figures(bench.database, found, bench.clock.now(), TrackingMode.INDIVIDUAL)
    assert figures is not None
    assert figures.uncounted_events == 0
    assert sum(step.counts.get("open", 0) for step in figures.statistics.intervals) == 6


async def load_campaign(database: Database, campaign_key: int) -> Campaign:
    async with database.read() as tx:
        [row] = await tx.execute(select(campaigns.c.campaign_id).where(campaigns.c.id == campaign_key))
        return await find_campaign(tx, row.campaign_id, DEFAULT_TENANT)


async def test_chart_of_days_uses_hours_and_loses_nothing(bench: Bench) -> None:
    campaign = await _sent(CampaignHarness(bench), readers=2)
    await _happen(bench, campaign, ("open", 5 * MINUTE), ("open", 3 * DAY + 7 * MINUTE))
    fresh = await campaign_statistics(bench.database, campaign)
    await _add_up(bench)
    found = await campaign_statistics(bench.database, campaign)
    assert found == fresh
    assert found.length >= HOUR
    assert sum(step.counts.get("open", 0) for step in found.intervals) == 4


@pytest.mark.parametrize("winner_by", ["opens", "clicks"])
async def test_variant_results_do_not_depend_on_tally_progress(bench: Bench, winner_by: str) -> None:
    variants = [{"name": "A"}, {"name": "B", "subject": "Other news for {{ name }}"}]
    experiment = {"variants": variants, "testPercent": 100, "winnerBy": winner_by}
    campaign = await _sent(CampaignHarness(bench), readers=5, experiment=experiment)
    assert await _standings(bench, campaign, winner_by) == [("A", 3, 0), ("B", 2, 0)]
    await _add_up(bench)
    assert await _standings(bench, campaign, winner_by) == [("A", 3, 0), ("B", 2, 0)]
    # A click counts as an open; an open does not count as a click.
    for happened, opened, clicked in ((["click", "click"], 3, 3), (["open", "click", "open"], 3, 3)):
        await _happen(bench, campaign, *((name, 0) for name in happened), of="News for")
        await _happen(bench, campaign, ("open", 0), of="Other")
        answers = [opened, 2] if winner_by == "opens" else [clicked, 0]
        expected = [("A", 3, answers[0]), ("B", 2, answers[1])]
        assert await _standings(bench, campaign, winner_by) == expected
        await _add_up(bench)
        assert await _standings(bench, campaign, winner_by) == expected


async def test_long_and_short_charts_agree(bench: Bench) -> None:
    campaign = await _sent(CampaignHarness(bench), readers=2)
    await _happen(bench, campaign, ("open", HOUR), ("open", 26 * HOUR))
    await _add_up(bench)
    since, until = bench.clock.now() - HOUR, bench.clock.now() + 30 * HOUR
    database = bench.database
    by_hours = await load_buckets(database, tenant_id=DEFAULT_TENANT, since=since, until=until, length=6 * HOUR)
    by_minutes = await load_buckets(database, tenant_id=DEFAULT_TENANT, since=since, until=until)
    for name, number in (("SENT", 2), ("open", 4)):
        assert sum(each.counts.get(name, 0) for each in by_hours) == number
        assert sum(each.counts.get(name, 0) for each in by_minutes) == number


async def test_campaign_messages_are_searched_within_their_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCAN_LIMIT", 2)
    acceptor = an_acceptor(bench.database, bench.clock)
    await acceptor.accept([a_message() for _ in range(4)])
    bench.clock.advance(DAY)
    campaign = await _sent(CampaignHarness(bench), readers=3)
    bench.clock.advance(DAY)
    await acceptor.accept([a_message() for _ in range(4)])
    for status in (None, Status.SENT):
        found, before, looks = 0, message_records.NEWEST, 0
        while True:
            wanted = MessageSearch(campaign_key=campaign, status=status, before_key=before)
            page = await search.find_page(bench.database, DEFAULT_TENANT, wanted, limit=10)
            found, looks = found + len(page.messages), looks + 1
            if page.next_key is None:
                break
            before = page.next_key
        # Three messages in steps of two: keys from before the campaign are not scanned.
        assert (found, looks) == (3, 2)


async def test_later_messages_have_larger_keys(database: Database, clock: ManualClock) -> None:
    """Even if the clock was set back."""
    behind = []
    for _ in range(3):
        async with database.read() as tx:
            behind.append(await search.newest_message_key(tx))
        await an_acceptor(database, clock).accept([a_message() for _ in range(3)])
        clock.advance(-DAY)
    async with database.read() as tx:
        keys = [row.id for row in await tx.execute(select(messages.c.id).order_by(messages.c.id))]
    assert [len([key for key in keys if key > one]) for one in behind] == [9, 6, 3]


async def _sent(desk: CampaignHarness, readers: int, **changes: Any) -> int:
    campaign_id = await desk.start(readers, **changes)
    await desk.run_scheduler()
    await desk.bench.drain()
    return (await desk.campaign(campaign_id)).key


async def _standings(bench: Bench, campaign_key: int, winner_by: str) -> list[tuple[str, int, int]]:
    async with bench.database.read() as tx:
        entry = await find_entry(tx, campaign_key)
        assert entry is not None
        found = await ab_test.variant_results(tx, entry, winner_by)
    return [(each.name, each.sent, each.engaged) for each in found]


async def _happen(bench: Bench, campaign_key: int, *happened: tuple[str, int], of: str = "") -> None:
    """Write an event for each message of the campaign whose subject has this prefix."""
    mine = (messages.c.campaign_key == campaign_key, messages.c.subject.startswith(of))
    async with bench.database.write() as tx:
        found = await tx.execute(select(messages.c.id).where(*mine))
        plain = {"tenant_id": DEFAULT_TENANT, "metadata": "{}"}
        rows = [
            {**plain, "message_key": row.id, "type": name, "created_at": bench.clock.now() + later}
            for row in found
            for name, later in happened
        ]
        await tx.execute(insert(events), rows)


async def _add_up(bench: Bench) -> None:
    """Tally in batches so small that they split the events of one message."""
    await EventTallier(bench.database, bench.clock, batch_size=2).add_existing()
