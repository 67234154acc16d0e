"""Campaigns that repeat: each occurrence is an ordinary campaign that is made and started once."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from mailwright.app.sending import release_sending
from mailwright.content.blocks.feed import FeedItem
from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, hold_sending
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.sources.campaigns.repeats import NO_ITEMS, TOO_LATE, CampaignRepeat, CampaignRepeats
from mailwright.sources.campaigns.review import ChangedSinceReview
from mailwright.sources.feeds.follow import READ_EVERY
from mailwright.sources.feeds.reader import FeedReader
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.tables import tenants
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join

# The clock of a bench starts on Friday, 2027-01-15.
MONDAYS = ScheduleFields(weekdays=("mon",), time="09:00", timezone="Europe/Lisbon")
FEED = "https://blog.example/feed.xml"


class Repeating:
    """A draft that repeats, and the worker that makes its campaigns."""

    def __init__(self, bench: Bench) -> None:
        self.harness = CampaignHarness(bench)
        self.clock = bench.clock
        self.database = bench.database
        self.templates = bench.engine.templates
        self.repeats = self.another_worker()
        self.base = ""

    def another_worker(self) -> CampaignRepeats:
        return CampaignRepeats(self.database, self.clock, self.harness.campaigns, self.templates)

    async def begin(self, feed: str | None = None, **definition: Any) -> None:
        await join(self.database, [address_of(number) for number in range(3)])
        self.base = await self.harness.create(**definition)
        await self.repeats.set(OPERATOR, self.base, MONDAYS, feed=feed)

    async def made(self) -> list[Campaign]:
        """Return the campaigns that were made, the oldest first."""
        found = await self.harness.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=100)
        return [each for each in reversed(found) if each.campaign_id != self.base]

    async def names(self) -> list[tuple[str, str]]:
        return [(each.name, each.status.value) for each in await self.made()]

    async def state(self) -> CampaignRepeat:
        return await self.repeats.find(self.base, tenant_id=DEFAULT_TENANT)

    async def read_feed(self, *titles: str) -> None:
        async def fetch(_url: str) -> list[FeedItem]:
            return [FeedItem(title, f"https://blog.example/{title}", guid=title) for title in titles]

        self.clock.advance(READ_EVERY)
        await FeedReader(self.database, self.clock, fetch).read_due()


@pytest.fixture
def repeating(bench: Bench) -> Repeating:
    return Repeating(bench)


@pytest.mark.promise("campaign-repeats-once")
async def test_each_time_makes_one_started_campaign(repeating: Repeating) -> None:
    await repeating.begin()
    workers = [repeating.another_worker(), repeating.another_worker()]
    for _ in range(11 * 24):
        await asyncio.gather(*(worker.tick() for worker in workers))
        repeating.clock.advance(HOUR)
    await repeating.harness.run_scheduler()
    assert await repeating.names() == [
        ("News of January, 2027-01-18 09:00", "SENDING"),
        ("News of January, 2027-01-25 09:00", "SENDING"),
    ]
    [first, second] = await repeating.made()
    for campaign in (first, second):
        assert (await repeating.harness.counts(campaign.campaign_id)).waiting == 3
    state = await repeating.state()
    assert (state.last_campaign_id, state.last_result) == (second.campaign_id, "Started.")


@pytest.mark.promise("campaign-repeats-once")
async def test_crash_between_making_and_starting_loses_nothing(
    repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    await repeating.begin()
    repeating.clock.advance(4 * DAY)
    dying = repeating.another_worker()

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dying, "_start", die)
    with pytest.raises(KeyboardInterrupt):
        await dying.tick()
    assert [status for _, status in await repeating.names()] == ["DRAFT"]
    for _ in range(2):
        await repeating.repeats.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]
    repeating.clock.advance(7 * DAY)
    with pytest.raises(KeyboardInterrupt):
        await dying.tick()
    repeating.clock.advance(2 * DAY)
    await repeating.repeats.tick()
    assert [status for _, status in await repeating.names()] == ["READY", "DRAFT"]
    assert (await repeating.state()).last_result == TOO_LATE


async def test_only_the_latest_missed_time_counts(repeating: Repeating) -> None:
    await repeating.begin()
    repeating.clock.advance(17 * DAY + 3 * HOUR)  # No worker ran until 2027-02-01, hours after the third time.
    for _ in range(2):
        await repeating.repeats.tick()
    assert await repeating.names() == [("News of January, 2027-02-01 09:00", "READY")]
    repeating.clock.advance(10 * DAY)  # The time on 2027-02-08 is three days late.
    await repeating.repeats.tick()
    assert (await repeating.names())[1:] == [("News of January, 2027-02-08 09:00", "DRAFT")]
    assert "No worker ran for more than a day" in ((await repeating.state()).last_result or "")


async def test_clock_that_goes_back_repeats_no_campaign(repeating: Repeating) -> None:
    await repeating.begin()
    repeating.clock.advance(3 * DAY + 2 * HOUR)
    await repeating.repeats.tick()
    repeating.clock.advance(-2 * HOUR)
    for _ in range(4):
        repeating.clock.advance(HOUR)
        await repeating.repeats.tick()
    assert len(await repeating.made()) == 1


async def test_changed_time_zone_sends_nothing_twice(repeating: Repeating) -> None:
    await join(repeating.database, [address_of(1)])
    repeating.base = await repeating.harness.create()
    await repeating.repeats.set(OPERATOR, repeating.base, ScheduleFields(time="09:00"))
    async with repeating.database.write() as tx:
        await tx.execute(update(tenants).values(timezone="Atlantic/Azores"))
    for _ in range(24):
        repeating.clock.advance(HOUR)
        await repeating.repeats.tick()
    assert len(await repeating.made()) == 1


async def test_archived_draft_repeats_no_more(repeating: Repeating) -> None:
    await repeating.begin()
    await CampaignRemoval(repeating.database, repeating.clock).archive(OPERATOR, repeating.base)
    repeating.clock.advance(4 * DAY)
    await repeating.repeats.tick()
    assert await repeating.made() == []


async def test_digest_contains_new_items_or_is_skipped(repeating: Repeating) -> None:
    body = "<p>{% for item in items %}{{ item.title }} {% endfor %}{{ unsubscribe_url }}</p>"
    await repeating.begin(FEED, content={"subject": "Digest", "body": body})
    await repeating.read_feed("old")
    repeating.clock.advance(4 * DAY)
    await repeating.repeats.tick()
    assert (await repeating.made(), (await repeating.state()).last_result) == ([], NO_ITEMS)
    await repeating.read_feed("one", "old")
    await repeating.read_feed("two", "one", "old")
    repeating.clock.advance(7 * DAY)
    for _ in range(2):
        await repeating.repeats.tick()
    [digest] = await repeating.made()
    assert [item["title"] for item in digest.definition.variables["items"]] == ["two", "one"]
    assert digest.status == "READY"


async def test_campaign_that_cannot_start_says_why(repeating: Repeating) -> None:
    await repeating.begin(content={"subject": "News"})
    repeating.clock.advance(4 * DAY)
    await repeating.repeats.tick()
    assert [status for _, status in await repeating.names()] == ["DRAFT"]
    assert ((await repeating.state()).last_result or "").startswith("Not started: ")


async def test_changed_draft_is_not_sent_until_confirmed(repeating: Repeating) -> None:
    await repeating.templates.put(
        DEFAULT_TENANT, "news", subject="News", html="<p>{{ unsubscribe_url }}</p>", text=None
    )
    await repeating.begin(content={"templateId": "news"})
    await repeating.templates.put(
        DEFAULT_TENANT, "news", subject="Half", html="<p>{{ unsubscribe_url }}</p>", text=None
    )
    assert "was changed since its schedule was set" in ((await repeating.state()).refusal or "")
    repeating.clock.advance(4 * DAY)
    for _ in range(2):
        await repeating.repeats.tick()
    state = await repeating.state()
    assert (await repeating.made(), state.paused_at) == ([], repeating.clock.now())
    assert "the draft was changed since its schedule was set (content)" in (state.last_result or "")
    with pytest.raises(ChangedSinceReview):
        await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS, reviewed="of another state")
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    repeating.clock.advance(7 * DAY)
    for _ in range(2):
        await repeating.repeats.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]


async def test_restored_backup_repeats_nothing_silently(repeating: Repeating) -> None:
    await repeating.begin()
    hold = SendingHold(HoldReason.RESTORED, repeating.clock.now(), "an older state")
    assert await hold_sending(repeating.database, hold)
    repeating.clock.advance(4 * DAY)
    await repeating.repeats.tick()
    await release_sending(repeating.database, repeating.clock, actor="ada", due=DueMessages.IN_DOUBT)
    await repeating.repeats.tick()
    assert await repeating.made() == []
    assert (await repeating.state()).paused_at is not None
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    repeating.clock.advance(7 * DAY)
    await repeating.repeats.tick()
    assert len(await repeating.made()) == 1


async def test_stopped_or_started_draft_repeats_no_more(repeating: Repeating) -> None:
    await repeating.begin()
    await repeating.repeats.stop(OPERATOR, repeating.base)
    with pytest.raises(NotFound):
        await repeating.state()
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    await repeating.harness.campaigns.start(OPERATOR, repeating.base)
    repeating.clock.advance(4 * DAY + MINUTE)
    await repeating.repeats.tick()
    assert await repeating.made() == []
    with pytest.raises(NotPossibleNow):
        await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
