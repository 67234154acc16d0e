"""Campaigns that repeat: each occurrence is an ordinary campaign that is made and started once."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from sqlalchemy import select, update

from mailwright.access.roles import Role
from mailwright.actions.approvals import plan_response
from mailwright.app.sending import release_sending
from mailwright.checks.health import check_health
from mailwright.content.blocks.feed import FeedItem, FeedUnreachable, InvalidFeed
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import DAY, HOUR, MINUTE, isoformat
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, hold_sending
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.sources.campaigns.repeat_records import CampaignRepeat
from mailwright.sources.campaigns.repeat_worker import CLOCK_WENT_BACK, NO_ITEMS, TOO_LATE, RepeatWorker
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.campaigns.review import ChangedSinceReview
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.feeds.follow import READ_EVERY, Validators
from mailwright.sources.feeds.reader import FeedReader, FeedReading
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.storage.database import Database
from mailwright.storage.tables import audit_log, campaign_repeats, contacts, tenants
from mailwright.texts.explanations import campaign_text
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import OPERATOR, CampaignHarness, a_definition, a_list, address_of, join
from tests.mortal import Killed, MortalDatabase

# The clock of a bench starts on Friday, 2027-01-15.
MONDAYS = ScheduleFields(weekdays=("mon",), time="09:00", timezone="Europe/Lisbon")
FEED = "https://blog.example/feed.xml"


def an_item(title: str) -> FeedItem:
    return FeedItem(title, f"https://blog.example/{title}", guid=title)


class Repeating:
    """A draft that repeats, and the worker that makes its campaigns."""

    def __init__(self, bench: Bench) -> None:
        self.harness = CampaignHarness(bench)
        self.clock = bench.clock
        self.database = bench.database
        self.engine = bench.engine
        self.templates = bench.engine.templates
        self.worker = self.another_worker()
        self.feed: Sequence[FeedItem] | MailwrightError = ()
        self.repeats = CampaignRepeats(
            self.database, self.clock, self.harness.campaigns, self.templates, fetch=self.fetch
        )
        self.base = ""

    def another_worker(self) -> RepeatWorker:
        return RepeatWorker(self.database, self.clock, self.harness.campaigns, self.templates)

    async def lives(self, *, statements: int) -> bool:
        """Let a worker run until nothing is due. Return False if it was killed after the statements."""
        mortal = cast("Database", MortalDatabase(self.database, statements))
        templates = TemplateStore(mortal, self.clock)
        worker = RepeatWorker(mortal, self.clock, Campaigns(mortal, self.clock, templates), templates)
        try:
            while await worker.tick():
                pass
        except Killed:
            return False
        return True

    async def fetch(self, _url: str) -> Sequence[FeedItem]:
        if isinstance(self.feed, MailwrightError):
            raise self.feed
        return self.feed

    async def tick(self) -> None:
        """Work until nothing is due."""
        for _ in range(5):
            if not await self.worker.tick():
                return
        pytest.fail("The worker always finds something to do.")

    async def begin(self, feed: str | None = None, **definition: Any) -> None:
        if not self.base:
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

    async def put_template(self, subject: str) -> None:
        html = "<p>{{ unsubscribe_url }}</p>"
        await self.templates.put(DEFAULT_TENANT, "news", subject=subject, html=html, text=None)

    async def give_attributes(self, attributes: str) -> None:
        async with self.database.write() as tx:
            await tx.execute(update(contacts).values(attributes=attributes))

    async def recorded(self) -> list[str]:
        """Return the actions on the draft in the audit log."""
        a = audit_log.c
        async with self.database.read() as tx:
            rows = await tx.execute(select(a.action).where(a.subject == self.base).order_by(a.id))
        return [row.action for row in rows]

    async def findings(self) -> list[str]:
        found = await check_health(self.engine.settings, self.database, self.clock)
        return [each.summary for each in found if each.name == "recurring campaigns"]

    async def explained(self, campaign_id: str) -> str:
        engine = self.engine
        why = await explain_campaign(self.database, self.clock, engine.defaults, campaign_id, tenant_id=DEFAULT_TENANT)
        return campaign_text(why).sentence

    async def read_feed(self, *titles: str) -> None:
        self.feed = [an_item(title) for title in titles]
        self.clock.advance(READ_EVERY)

        async def fetch(url: str, _known: Validators) -> FeedReading:
            return FeedReading(await self.fetch(url))

        await FeedReader(self.database, self.clock, fetch).read_due()


@pytest.fixture
def repeating(bench: Bench) -> Repeating:
    return Repeating(bench)


@pytest.mark.promise("campaign-repeats-once")
async def test_each_scheduled_time_starts_one_campaign(repeating: Repeating) -> None:
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
    assert {first.repeat_of, second.repeat_of} == {repeating.base}
    assert [isoformat(each) for each in state.next_times[:2]] == [
        "2027-02-01T09:00:00.000Z",
        "2027-02-08T09:00:00.000Z",
    ]


@pytest.mark.promise("campaign-repeats-once")
async def test_worker_killed_at_any_statement_repeats_and_loses_nothing(repeating: Repeating) -> None:
    repeating.feed = [an_item("old")]
    body = "<p>{% for item in items %}{{ item.title }} {% endfor %}{{ unsubscribe_url }}</p>"
    await repeating.begin(FEED, content={"subject": "Digest", "body": body})
    for week in ("one", "two"):
        await repeating.read_feed(week, "old")
        repeating.clock.advance(7 * DAY if week == "two" else 4 * DAY)
        deaths = 0
        while not await repeating.lives(statements=deaths):
            deaths += 1
        assert deaths > 10
    await repeating.harness.run_scheduler()
    made = await repeating.made()
    assert [[item["title"] for item in each.definition.variables["items"]] for each in made] == [["one"], ["two"]]
    assert [(await repeating.harness.counts(each.campaign_id)).waiting for each in made] == [3, 3]


@pytest.mark.promise("campaign-repeats-once")
async def test_crash_between_making_and_starting_loses_nothing(
    repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    await repeating.begin()
    repeating.clock.advance(4 * DAY)
    dying = repeating.another_worker()

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dying, "start", die)
    with pytest.raises(KeyboardInterrupt):
        await dying.tick()
    assert [status for _, status in await repeating.names()] == ["DRAFT"]
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]
    repeating.clock.advance(7 * DAY)
    with pytest.raises(KeyboardInterrupt):
        await dying.tick()
    repeating.clock.advance(2 * DAY)
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["READY", "DRAFT"]
    assert (await repeating.state()).last_result == TOO_LATE


async def test_only_the_latest_missed_time_counts(repeating: Repeating) -> None:
    await repeating.begin()
    repeating.clock.advance(17 * DAY + 3 * HOUR)  # No worker ran until 2027-02-01, hours after the third time.
    await repeating.tick()
    assert await repeating.names() == [("News of January, 2027-02-01 09:00", "READY")]
    repeating.clock.advance(10 * DAY)  # The time on 2027-02-08 is three days late.
    await repeating.tick()
    assert (await repeating.names())[1:] == [("News of January, 2027-02-08 09:00", "DRAFT")]
    assert "No worker ran for more than a day" in ((await repeating.state()).last_result or "")


async def test_clock_that_goes_back_repeats_no_campaign(repeating: Repeating) -> None:
    await repeating.begin()
    repeating.clock.advance(3 * DAY + 2 * HOUR)
    await repeating.tick()
    repeating.clock.advance(-2 * HOUR)
    for _ in range(4):
        repeating.clock.advance(HOUR)
        await repeating.tick()
    assert len(await repeating.made()) == 1


@pytest.mark.promise("second-person")
async def test_approval_plan_names_the_repetition(repeating: Repeating) -> None:
    approvals = repeating.engine.campaign_approvals
    await repeating.begin()
    report = await approvals.request(OPERATOR, repeating.base)
    repeat = report.plan.repeat
    assert repeat is not None
    assert repeat.schedule == "mon at 09:00 Europe/Lisbon"
    assert repeat.next_times == (await repeating.state()).next_times
    assert plan_response(report).to_dict()["repeat"]["schedule"] == repeat.schedule
    await repeating.repeats.set(OPERATOR, repeating.base, ScheduleFields(weekdays=("tue",), time="09:00"))
    changed = await approvals.report(repeating.base, tenant_id=DEFAULT_TENANT)
    assert changed.plan.digest != report.plan.digest
    assert [(each.field, each.before, each.after) for each in changed.changes] == [
        ("repeat", "mon at 09:00 Europe/Lisbon", "tue at 09:00 UTC")
    ]


@pytest.mark.promise("second-person")
async def test_changed_repetition_voids_the_approval(repeating: Repeating) -> None:
    approvals, repeats = repeating.engine.campaign_approvals, repeating.repeats
    await repeating.begin()
    bea = await repeating.engine.users.create("bea", "correct horse battery", Role.EDITOR, actor="test")

    async def approve() -> None:
        report = await approvals.request(OPERATOR, repeating.base)
        await approvals.approve(bea, DEFAULT_TENANT, repeating.base, report.plan.digest)

    async def status() -> str:
        found = (await approvals.report(repeating.base, tenant_id=DEFAULT_TENANT)).approval
        assert found is not None
        return found.status

    await approve()
    await repeats.set(OPERATOR, repeating.base, (await repeating.state()).schedule)
    assert await status() == "approved"
    await repeats.set(OPERATOR, repeating.base, ScheduleFields(weekdays=("tue",), time="09:00"))
    assert await status() == "void"
    await approve()
    await repeats.stop(OPERATOR, repeating.base)
    assert await status() == "void"


async def test_changed_time_zone_sends_nothing_twice(repeating: Repeating) -> None:
    await join(repeating.database, [address_of(1)])
    repeating.base = await repeating.harness.create()
    await repeating.repeats.set(OPERATOR, repeating.base, ScheduleFields(time="09:00"))
    async with repeating.database.write() as tx:
        await tx.execute(update(tenants).values(timezone="Atlantic/Azores"))
    for _ in range(24):
        repeating.clock.advance(HOUR)
        await repeating.tick()
    assert len(await repeating.made()) == 1


async def test_digest_contains_new_items_or_is_skipped(repeating: Repeating) -> None:
    body = "<p>{% for item in items %}{{ item.title }} {% endfor %}{{ unsubscribe_url }}</p>"
    repeating.feed = [an_item("old")]
    await repeating.begin(FEED, content={"subject": "Digest", "body": body})
    await repeating.read_feed("old")
    repeating.clock.advance(4 * DAY)
    await repeating.tick()
    assert (await repeating.made(), (await repeating.state()).last_result) == ([], NO_ITEMS)
    await repeating.read_feed("one", "old")
    await repeating.read_feed("two", "one", "old")
    repeating.clock.advance(7 * DAY)
    await repeating.tick()
    [digest] = await repeating.made()
    assert [item["title"] for item in digest.definition.variables["items"]] == ["two", "one"]
    assert digest.status == "READY"


async def test_changed_draft_is_not_sent_until_confirmed(repeating: Repeating) -> None:
    await repeating.put_template("News")
    await repeating.begin(content={"templateId": "news"})
    await repeating.put_template("Half")
    assert "was changed since its schedule was set" in ((await repeating.state()).refusal or "")
    repeating.clock.advance(4 * DAY)
    await repeating.tick()
    state = await repeating.state()
    assert (await repeating.made(), state.paused_at) == ([], repeating.clock.now())
    assert "the draft was changed since its schedule was set (content)" in (state.last_result or "")
    with pytest.raises(ChangedSinceReview):
        await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS, reviewed="of another state")
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    repeating.clock.advance(7 * DAY)
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]


async def test_restored_backup_repeats_nothing_silently(repeating: Repeating) -> None:
    await repeating.begin()
    hold = SendingHold(HoldReason.RESTORED, repeating.clock.now(), "an older state")
    assert await hold_sending(repeating.database, hold)
    repeating.clock.advance(4 * DAY)
    await repeating.tick()
    await release_sending(repeating.database, repeating.clock, actor="ada", due=DueMessages.IN_DOUBT)
    await repeating.tick()
    assert await repeating.made() == []
    assert (await repeating.state()).paused_at is not None
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    repeating.clock.advance(7 * DAY)
    await repeating.tick()
    assert len(await repeating.made()) == 1


@pytest.mark.parametrize("action", ["start", "cancel", "archive", "delete"])
async def test_ended_draft_does_not_repeat(repeating: Repeating, action: str) -> None:
    await repeating.begin()
    removal = CampaignRemoval(repeating.database, repeating.clock)
    owner = repeating.harness.campaigns if action in ("start", "cancel") else removal
    await getattr(owner, action)(OPERATOR, repeating.base)
    async with repeating.database.read() as tx:
        assert not await tx.execute(select(campaign_repeats.c.id))
    assert "campaign.stop_repeat" in await repeating.recorded()
    if action == "delete":
        await removal.restore(OPERATOR, repeating.base)
    repeating.clock.advance(4 * DAY + MINUTE)
    await repeating.tick()
    assert await repeating.made() == []


async def test_stopped_draft_does_not_repeat(repeating: Repeating) -> None:
    await repeating.begin()
    await repeating.repeats.stop(OPERATOR, repeating.base)
    with pytest.raises(NotFound):
        await repeating.state()
    await repeating.harness.campaigns.start(OPERATOR, repeating.base)
    with pytest.raises(NotPossibleNow):
        await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)


@pytest.mark.promise("campaign-repeats-once")
async def test_draft_edited_while_it_is_read_is_not_sent(repeating: Repeating, monkeypatch: pytest.MonkeyPatch) -> None:
    await repeating.begin()
    repeating.clock.advance(4 * DAY)
    compiled, campaigns = repeating.templates.compiled, repeating.harness.campaigns

    async def compile_then_edit(*given: Any, **named: Any) -> str:
        """Edit the draft after its content was read and before the transaction that makes the campaign."""
        monkeypatch.setattr(repeating.templates, "compiled", compiled)
        found = await compiled(*given, **named)
        edited = a_definition(content={"subject": "Unfinished", "body": "<p>TODO {{ unsubscribe_url }}</p>"})
        await campaigns.edit(OPERATOR, repeating.base, edited)
        return found

    monkeypatch.setattr(repeating.templates, "compiled", compile_then_edit)
    await repeating.tick()
    assert await repeating.made() == []
    assert "was changed since its schedule was set (content)" in ((await repeating.state()).last_result or "")


@pytest.mark.promise("campaign-repeats-once")
async def test_template_changed_before_the_start_is_not_sent(
    repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    await repeating.put_template("News")
    await repeating.begin(content={"templateId": "news"})
    repeating.clock.advance(4 * DAY)
    start = repeating.worker.start

    async def change_then_start(key: int) -> None:
        await repeating.put_template("Half")
        await start(key)

    monkeypatch.setattr(repeating.worker, "start", change_then_start)
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["DRAFT"]
    assert "was changed" in ((await repeating.state()).last_result or "")


@pytest.mark.promise("campaign-repeats-once")
async def test_email_that_cannot_be_sent_is_skipped_and_reported(repeating: Repeating) -> None:
    await repeating.begin()
    await repeating.give_attributes("{}")
    repeating.clock.advance(4 * DAY)
    for _ in range(3):
        await repeating.tick()
    assert await repeating.made() == []
    state = await repeating.state()
    assert "Not sent: variables: {{ plan }} is used" in (state.last_result or "")
    assert (state.paused_at, state.failed_at) == (None, repeating.clock.now())
    assert (await repeating.recorded()).count("campaign.skip_repeat") == 1
    [finding] = await repeating.findings()
    assert "News of January was not sent at its last time: Not sent: variables" in finding
    assert "At its last time, nothing was sent. Not sent: variables" in await repeating.explained(repeating.base)
    await repeating.give_attributes('{"plan": "pro"}')
    repeating.clock.advance(7 * DAY)
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]
    assert await repeating.findings() == []


@pytest.mark.promise("campaign-repeats-once")
async def test_unexpected_error_is_reported_once_and_retried(
    repeating: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    await repeating.begin()
    repeating.clock.advance(4 * DAY)

    async def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(repeating.worker, "_make_campaign", fail)
        for _ in range(3):
            await repeating.tick()
    assert "unexpected error ZeroDivisionError" in ((await repeating.state()).last_result or "")
    assert (await repeating.recorded()).count("campaign.skip_repeat") == 1
    assert len(await repeating.findings()) == 1
    await repeating.tick()
    assert [status for _, status in await repeating.names()] == ["READY"]
    assert (await repeating.state()).failed_at is None


async def test_draft_that_cannot_be_sent_is_refused(repeating: Repeating) -> None:
    with pytest.raises(CampaignNotStartable, match="write the email"):
        await repeating.begin(content={"subject": "News"})
    with pytest.raises(NotFound):
        await repeating.state()
    body = "<p>{% for item in items %}{{ item.title }}{% endfor %}{{ unsubscribe_url }}</p>"
    with pytest.raises(CampaignNotStartable, match="items"):
        await repeating.begin(content={"subject": "Digest", "body": body})
    saved = await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS, feed=FEED)
    assert [each.code for each in saved.warnings if each.code == "NO_RECIPIENTS"] == []
    empty = await repeating.harness.create(lists=["weekly"])
    await a_list(repeating.database, "weekly")
    saved = await repeating.repeats.set(OPERATOR, empty, MONDAYS)
    assert "NO_RECIPIENTS" in [each.code for each in saved.warnings]


async def test_feed_is_read_when_the_schedule_is_set(repeating: Repeating) -> None:
    repeating.feed = InvalidFeed("This is not an RSS or Atom feed.", field="url")
    with pytest.raises(InvalidInput) as refused:
        await repeating.begin(FEED)
    assert refused.value.field == "feed"
    repeating.feed = FeedUnreachable("The feed cannot be read: it returns 503.", field="url")
    saved = await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS, feed=FEED)
    assert saved.followed is not None
    assert saved.followed.error == "The feed cannot be read: it returns 503."
    repeating.feed = [an_item(title) for title in ("d", "c", "b", "a")]
    saved = await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS, feed=FEED)
    assert saved.followed is not None
    assert (saved.followed.error, [each["title"] for each in saved.followed.newest]) == (None, ["d", "c", "b"])
    await repeating.read_feed("e", "d", "c", "b", "a")
    repeating.clock.advance(4 * DAY)
    await repeating.tick()
    [digest] = await repeating.made()
    assert [item["title"] for item in digest.definition.variables["items"]] == ["e"]


async def test_clock_that_went_back_far_needs_a_decision(repeating: Repeating) -> None:
    await repeating.begin()
    repeating.clock.advance(367 * DAY + 2 * HOUR)  # The clock is wrong by a year: Monday, 2028-01-17.
    await repeating.tick()
    assert [name for name, _ in await repeating.names()] == ["News of January, 2028-01-17 09:00"]
    repeating.clock.advance(-366 * DAY)
    await repeating.tick()
    state = await repeating.state()
    assert (state.paused_at, state.last_result) == (repeating.clock.now(), CLOCK_WENT_BACK)
    assert (await repeating.recorded()).count("campaign.pause_repeat") == 1
    await repeating.repeats.set(OPERATOR, repeating.base, MONDAYS)
    repeating.clock.advance(3 * DAY)
    await repeating.tick()
    assert [name for name, _ in await repeating.names()][1:] == ["News of January, 2027-01-18 09:00"]
