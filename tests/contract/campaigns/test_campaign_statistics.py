"""Statistics, recipients and previews of a campaign, as its pages show them."""

import pytest
from sqlalchemy import insert, select, update

from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import HOUR, MINUTE
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.failed_recipients import list_failed, list_in_doubt
from mailwright.sources.campaigns.statistics import MAX_INTERVALS, campaign_statistics
from mailwright.sources.campaigns.test_send import CampaignTestSend, build_test_messages, render_variants
from mailwright.storage.tables import deliveries, events, messages
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import CampaignHarness, a_definition, address_of, join


async def test_repeated_opens_count_once_per_recipient(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    campaign = await _sent(desk, readers=3)
    async with bench.database.write() as tx:
        keys = [row.id for row in await tx.execute(select(messages.c.id).order_by(messages.c.id))]
        plain = {"tenant_id": DEFAULT_TENANT, "type": "open", "metadata": "{}"}
        moments = [(key, bench.clock.now() + number * 2 * HOUR) for key in keys[:2] for number in range(3)]
        rows = [{**plain, "message_key": key, "created_at": moment} for key, moment in moments]
        await tx.execute(insert(events), rows)
    found = await campaign_statistics(bench.database, campaign)
    assert found.messages["open"] == 2
    assert sum(interval.counts.get("open", 0) for interval in found.intervals) == 6
    assert sum(interval.counts.get("SENT", 0) for interval in found.intervals) == 3
    assert len(found.intervals) <= MAX_INTERVALS
    assert found.length > MINUTE


async def test_recipients_are_paginated_without_repetition(bench: Bench) -> None:
    campaign = await _sent(CampaignHarness(bench), readers=5)
    first = await report.report_page(bench.database, campaign, limit=3)
    second = await report.report_page(bench.database, campaign, limit=3, after=first[-1].email)
    assert [row.email for row in first + second] == [address_of(number) for number in range(5)]


async def test_unconfirmed_and_failed_recipients_are_listed_separately(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    campaign = await _sent(desk, readers=3)
    async with bench.database.write() as tx:
        keys = [row.id for row in await tx.execute(select(messages.c.id).order_by(messages.c.id))]
        for key, status, code in ((keys[0], "IN_DOUBT", None), (keys[1], "FAILED", "SMTP_REFUSED")):
            changed = update(deliveries).where(deliveries.c.message_key == key)
            await tx.execute(changed.values(status=status, error_code=code))
    async with bench.database.read() as tx:
        [place] = await progress.find_positions(tx, [campaign])
        doubtful = await list_in_doubt(tx, place.lane, limit=10)
        refused = await list_failed(tx, place.lane, limit=10)
    assert [each.message_key for each in doubtful] == [keys[0]]
    assert [each.message_key for each in refused] == [keys[1]]


async def test_draft_preview_uses_a_contact_and_the_preheader(bench: Bench) -> None:
    await join(bench.database, ["ann@example.com"])
    content = {"subject": "For {{ name }}", "preheader": "On {{ plan }}", "body": "<p>News</p>"}
    trial = CampaignTestSend("", DEFAULT_TENANT, a_definition(content=content), (), "ann@example.com")
    shown = await render_variants(bench.database, bench.engine.templates, trial)
    assert shown[""].subject == "For Ann"
    html = shown[""].html or ""
    assert html.index("On pro") < html.index("News") < html.index("Unsubscribe")


@pytest.mark.promise("campaign-numbers")
@pytest.mark.parametrize(
    ("setting", "shown"),
    [("2 Harbour Lane\nPorto", "2 Harbour Lane · Porto"), (None, "[postal address: not set]")],
)
async def test_test_send_contains_the_postal_address(bench: Bench, setting: str | None, shown: str) -> None:
    store = TemplateStore(bench.database, bench.clock, postal_address=setting)
    content = {"subject": "News", "body": "<p>News</p><p>{{ postal_address }}</p>"}
    trial = CampaignTestSend("", DEFAULT_TENANT, a_definition(content=content), ("ann@example.com",))
    [message] = await build_test_messages(bench.database, store, trial, bench.clock.now())
    assert shown in message.payload["html"]
    assert shown in message.payload["text"]


async def _sent(desk: CampaignHarness, readers: int) -> int:
    campaign_id = await desk.start(readers)
    await desk.run_scheduler()
    await desk.bench.drain()
    return (await desk.campaign(campaign_id)).key
