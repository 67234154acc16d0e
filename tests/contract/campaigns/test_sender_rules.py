"""Bulk email to many recipients is held until the rules of the large mailbox providers are met."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import update

from mailwright.app.sender_rules import make_sender_rules
from mailwright.domain.campaign import SENDER_RULES
from mailwright.domain.clock import MINUTE
from mailwright.domain.explanation import Remedy
from mailwright.domain.message import Source
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.runs import ArticleRuns, SenderRulesUnmet
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.sender_rules import RouteRules, SenderRules
from mailwright.storage.tables import provider_configurations
from mailwright.texts.explanations import campaign_text
from tests.articles import ACTOR, OHIO, US, a_recipient, a_run_request, write_slices
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join

LIMIT = 3
UNMET = ("SPF: example.org has no SPF record.",)


@dataclass
class Rules:
    """Rules whose result the test changes."""

    unmet: tuple[str, ...] = UNMET
    senders: list[str | None] = field(default_factory=list)

    async def find(self, sender: str | None) -> tuple[str, ...]:
        self.senders.append(sender)
        return self.unmet

    async def route(self, _tenant_id: int, _source: Source) -> RouteRules:
        return RouteRules(self.find)

    @property
    def rules(self) -> SenderRules:
        return SenderRules(LIMIT, self.route, "1 Street, 10115 Berlin")


@pytest.fixture
def given() -> Rules:
    return Rules()


@pytest.fixture
def desk(bench: Bench, given: Rules) -> CampaignHarness:
    desk = CampaignHarness(bench)
    desk.campaigns = Campaigns(bench.database, bench.clock, bench.engine.templates, given.rules)
    return desk


async def run_scheduler(desk: CampaignHarness, given: Rules) -> None:
    while await CampaignScheduler(desk.database, desk.clock, given.rules).tick():
        pass


def a_body() -> dict[str, str]:
    return {"subject": "News", "body": '<p>1 Street, 10115 Berlin</p><a href="{{ unsubscribe_url }}">Leave</a>'}


@pytest.mark.promise("sender-rules")
async def test_campaign_to_many_recipients_is_refused_until_rules_are_met(desk: CampaignHarness, given: Rules) -> None:
    await join(desk.database, [address_of(number) for number in range(LIMIT + 1)])
    campaign_id = await desk.create(content=a_body(), **{"from": "News <news@example.org>"})
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    [problem] = refused.value.problems
    assert (problem.code, problem.field) == ("SENDER_RULES", "from")
    assert "SPF: example.org has no SPF record." in problem.message
    assert given.senders == ["News <news@example.org>"]
    given.unmet = ()
    await desk.campaigns.start(OPERATOR, campaign_id)
    await run_scheduler(desk, given)
    assert len(await desk.addresses(campaign_id)) == LIMIT + 1


async def test_few_recipients_need_no_rules(desk: CampaignHarness, given: Rules) -> None:
    campaign_id = await desk.start(LIMIT)
    await run_scheduler(desk, given)
    assert given.senders == []
    assert len(await desk.addresses(campaign_id)) == LIMIT


@pytest.mark.promise("sender-rules")
async def test_override_starts_the_campaign_and_is_logged(desk: CampaignHarness, given: Rules) -> None:
    await join(desk.database, [address_of(number) for number in range(LIMIT + 1)])
    campaign_id = await desk.create()
    await desk.campaigns.start(OPERATOR, campaign_id, overrides_rules=True)
    await run_scheduler(desk, given)
    assert len(await desk.addresses(campaign_id)) == LIMIT + 1
    assert await desk.audit_actions(campaign_id) == ["create", "start", "override_sender_rules"]


@pytest.mark.promise("sender-rules")
async def test_audience_that_grew_is_held_until_rules_are_met(desk: CampaignHarness, given: Rules) -> None:
    start = desk.clock.now() + MINUTE
    campaign_id = await desk.start(LIMIT, scheduledAt=start, content=a_body())
    await join(desk.database, [address_of(number) for number in range(LIMIT, LIMIT + 2)])
    desk.clock.advance(2 * MINUTE)
    await run_scheduler(desk, given)
    await run_scheduler(desk, given)
    assert await desk.deferral(campaign_id) == (SENDER_RULES, 10 * MINUTE)
    assert len(given.senders) == 1
    assert await desk.addresses(campaign_id) == []
    found = await explain_campaign(
        desk.database, desk.clock, desk.bench.engine.defaults, campaign_id, tenant_id=DEFAULT_TENANT
    )
    assert (found.reason, found.remedy) == (SENDER_RULES, Remedy.MEET_SENDER_RULES)
    assert "rules of the large mailbox providers" in str(campaign_text(found))
    given.unmet = ()
    desk.clock.advance(10 * MINUTE + 1)
    await run_scheduler(desk, given)
    assert len(await desk.addresses(campaign_id)) == LIMIT + 2


async def test_held_campaign_is_sent_after_an_override(desk: CampaignHarness, given: Rules) -> None:
    campaign_id = await desk.start(LIMIT)
    await join(desk.database, [address_of(LIMIT)])
    await run_scheduler(desk, given)
    assert await desk.addresses(campaign_id) == []
    await desk.campaigns.override_rules(OPERATOR, campaign_id)
    await run_scheduler(desk, given)
    assert len(await desk.addresses(campaign_id)) == LIMIT + 1
    assert await desk.audit_actions(campaign_id) == ["create", "start", "override_sender_rules"]


# The provider that sends.


async def answer_nothing(_name: str, _kind: str) -> list[str]:
    return []


def routed_rules(bench: Bench) -> SenderRules:
    settings = bench.engine.settings.model_copy(update={"sender_rules_limit": LIMIT, "sender": "news@example.org"})
    return make_sender_rules(settings, bench.database, bench.engine.directory, answer_nothing)


async def unmet(bench: Bench, source: Source) -> str | None:
    found = await routed_rules(bench).unmet(DEFAULT_TENANT, source, LIMIT + 1, has_postal_address=True)
    return None if found is None else " ".join(found)


@pytest.mark.promise("sender-rules")
async def test_rules_follow_the_provider_of_tenant_and_source(bench: Bench) -> None:
    providers, relay = bench.engine.providers, {"MAILWRIGHT_SMTP_URL": "smtp://relay.example.org:587"}
    assert await unmet(bench, Source.CAMPAIGN) is None
    await providers.create("relay", "smtp", relay, actor="ada")
    await providers.create("here", "mailbox", {}, actor="ada")
    await providers.set_route(DEFAULT_TENANT, Source.CAMPAIGN, "relay", actor="ada")
    assert "SPF: example.org has no SPF record" in str(await unmet(bench, Source.CAMPAIGN))
    assert await unmet(bench, Source.ARTICLE) is None
    await providers.set_route(DEFAULT_TENANT, None, "relay", actor="ada")
    await providers.set_route(DEFAULT_TENANT, Source.CAMPAIGN, "here", actor="ada")
    assert "DKIM: messages are not signed" in str(await unmet(bench, Source.ARTICLE))
    assert await unmet(bench, Source.CAMPAIGN) is None
    async with bench.database.write() as tx:
        await tx.execute(update(provider_configurations).values(settings="unreadable"))
    assert "The provider here cannot be used" in str(await unmet(bench, Source.CAMPAIGN))


async def test_campaign_started_before_a_public_route_is_held(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    desk.campaigns = Campaigns(bench.database, bench.clock, bench.engine.templates, routed_rules(bench))
    campaign_id = await desk.start(LIMIT + 1)
    relay = {"MAILWRIGHT_SMTP_URL": "smtp://relay.example.org:587"}
    await bench.engine.providers.create("relay", "smtp", relay, actor="ada")
    await bench.engine.providers.set_route(DEFAULT_TENANT, None, "relay", actor="ada")
    while await CampaignScheduler(bench.database, bench.clock, routed_rules(bench)).tick():
        pass
    assert (await desk.deferral(campaign_id), await desk.addresses(campaign_id)) == ((SENDER_RULES, 10 * MINUTE), [])


# Articles.


async def recipients_in_ohio(bench: Bench, first: int, last: int) -> None:
    for number in range(first, last):
        await a_recipient(bench, address_of(number), US, OHIO)


@pytest.mark.promise("sender-rules")
async def test_article_to_many_recipients_is_refused_or_overridden(bench: Bench, given: Rules) -> None:
    await write_slices(bench)
    await recipients_in_ohio(bench, 0, LIMIT + 1)
    runs = ArticleRuns(bench.database, bench.clock, bench.engine.templates, given.rules)
    with pytest.raises(SenderRulesUnmet, match="has no SPF record"):
        await runs.start(ACTOR, DEFAULT_TENANT, a_run_request())
    run, _ = await runs.start(ACTOR, DEFAULT_TENANT, a_run_request(), overrides_rules=True)
    entries = await list_entries(bench.database, tenant_id=DEFAULT_TENANT, limit=9, subject=run.run_id)
    assert {entry.action for entry in entries} == {"article.send", "article.override_sender_rules"}


async def test_article_whose_audience_grew_is_held(bench: Bench, given: Rules) -> None:
    await write_slices(bench)
    await recipients_in_ohio(bench, 0, LIMIT)
    runs = ArticleRuns(bench.database, bench.clock, bench.engine.templates, given.rules)
    begun, _ = await runs.start(ACTOR, DEFAULT_TENANT, a_run_request())
    await recipients_in_ohio(bench, LIMIT, LIMIT + 2)
    scheduler = ArticleScheduler(bench.database, bench.clock, bench.engine.templates, given.rules)
    for _ in range(2):
        assert not await scheduler.tick()
    held = await runs.find(DEFAULT_TENANT, begun.run_id)
    assert (held.hold_reason, held.recipients, len(given.senders)) == (UNMET[0], 0, 1)
    freed, is_replay = await runs.start(ACTOR, DEFAULT_TENANT, a_run_request(), overrides_rules=True)
    assert (is_replay, freed.hold_reason) == (True, None)
    while await scheduler.tick():
        pass
    assert (await runs.find(DEFAULT_TENANT, begun.run_id)).recipients == LIMIT + 2
