"""Guard rails, waves, frequency cap and snooze in a real browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select, update

from mailwright.domain.campaign import GUARD_RAILS, NEXT_WAVE, CampaignStatus
from mailwright.domain.clock import HOUR
from mailwright.domain.guard_rails import GuardAction, GuardFinding, GuardState, Incident
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox import tenants
from mailwright.outbox.defer import defer_lane
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.enqueue import enqueue_batch
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.storage.tables import campaigns, queue_entries
from mailwright.web.public.subscribers import link_secrets
from tests.builders import DEFAULT_TENANT
from tests.dashboard import CHROMIUM, Dashboard

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

ADA = Actor("ada", DEFAULT_TENANT)


def created(dashboard: Dashboard, name: str, **changes: Any) -> Campaign:
    content = {"subject": "News", "format": "markdown", "body": "# News"}
    definition = CampaignDefinition.model_validate({"name": name, "content": content, "lists": ["news"], **changes})
    return dashboard.do(lambda: dashboard.engine.campaigns.create(ADA, DEFAULT_TENANT, definition))


def started(dashboard: Dashboard, name: str, reason: str, **changes: Any) -> Campaign:
    """Start a campaign whose messages are enqueued and whose lane is deferred for the reason."""
    campaign, engine = created(dashboard, name, **changes), dashboard.engine

    async def start() -> None:
        await engine.campaigns.start(ADA, campaign.campaign_id)
        while await enqueue_batch(engine.database, engine.clock, campaign.key) is not None:
            pass
        mine = queue_entries.c.campaign_key == campaign.key
        async with engine.database.read() as tx:
            [row] = await tx.execute(select(queue_entries.c.lane).where(mine))
        await defer_lane(engine.database, row.lane, reason, engine.clock.now() + HOUR)

    dashboard.do(start)
    return campaign


def test_limits_page_saves_guard_rails_and_frequency_cap(dashboard: Dashboard, ada: Page) -> None:
    ada.goto(f"{dashboard.address}/settings/limits")
    expect(ada.get_by_label("Minimum number of emails")).to_have_attribute("placeholder", "100")
    ada.get_by_label("Complaints: stop at (%)").fill("101")
    ada.get_by_role("button", name="Save limits").click()
    expect(ada.locator(".error").first).to_contain_text("less than or equal to 100")
    ada.get_by_label("Complaints: stop at (%)").fill("0,2")
    ada.locator("#frequency_cap").fill("3 per week")
    ada.get_by_role("button", name="Save limits").click()
    expect(ada.locator(".error").first).to_contain_text("3 per 7 days")
    ada.locator("#frequency_cap").fill("3 per 7 days")
    ada.get_by_role("button", name="Save limits").click()
    expect(ada.get_by_text("Limits saved.")).to_be_visible()
    saved = dashboard.do(lambda: tenants.find(dashboard.engine.database, "default"))
    assert (saved.guard_rails, saved.frequency_cap) == ('{"complaintStopPercent":0.2}', "3 per 7 days")
    expect(ada.get_by_label("Complaints: stop at (%)")).to_have_value("0.2")


def test_campaign_form_saves_waves_and_guard_rails(dashboard: Dashboard, ada: Page) -> None:
    campaign = created(dashboard, "With waves")
    ada.goto(f"{dashboard.address}/campaigns/{campaign.campaign_id}/edit/schedule")
    expect(ada.get_by_label("Shares of the audience (%)")).to_be_hidden()
    ada.get_by_text("Waves", exact=True).click()
    ada.get_by_label("Send in waves").check()
    ada.get_by_label("Shares of the audience (%)").fill("2, 20 %")
    ada.locator("summary", has_text="Guard rails").click()
    ada.locator("summary", has_text="Frequency cap").click()
    ada.get_by_label("Hard bounces: stop at (%)").fill("3")
    ada.get_by_label("Reason to ignore the frequency cap").fill("Product recall")
    ada.get_by_role("button", name="Continue to review").click()
    ada.wait_for_url(f"**/campaigns/{campaign.campaign_id}")
    saved = dashboard.do(lambda: dashboard.engine.campaigns.find(campaign.campaign_id, tenant_id=None)).definition
    assert saved.waves is not None
    assert (saved.waves.percents, saved.waves.wait_minutes) == ((2, 20), 240)
    assert saved.limits.guard_rails is not None
    assert saved.limits.guard_rails.hard_bounce_stop_percent == 3
    assert saved.limits.ignore_frequency_cap == "Product recall"
    waves = "in waves of 2 %, 20 %, then everyone, 240 minutes apart"
    expect(ada.get_by_text("in waves of 2 %, 20 %, then everyone, 240 minutes apart")).to_be_visible()
    expect(ada.locator("#start")).to_have_attribute("data-confirm", re.compile(waves))


def test_stopped_campaign_shows_its_counts(dashboard: Dashboard, ada: Page) -> None:
    campaign, engine = started(dashboard, "Stopped", GUARD_RAILS), dashboard.engine
    finding = GuardFinding(Incident.COMPLAINT, GuardAction.STOP, 7, 1_000, 0.3)

    async def stop() -> None:
        state = GuardState(finding=finding, found_at=engine.clock.now())
        async with engine.database.write() as tx:
            mine = queue_entries.c.campaign_key == campaign.key
            await tx.execute(update(queue_entries).where(mine).values(guard=state.as_text()))
            paused = update(campaigns).where(campaigns.c.id == campaign.key).values(status=CampaignStatus.PAUSED)
            await tx.execute(paused)

    dashboard.do(stop)
    ada.goto(f"{dashboard.address}/campaigns/{campaign.campaign_id}")
    expect(ada.get_by_text("7 complaints among 1,000 emails (0.7 %)")).to_be_visible()
    expect(ada.get_by_text("Stopped by guard rails")).to_be_visible()
    ada.get_by_role("button", name="Resume campaign").click()
    expect(ada.get_by_text("No problems so far.")).to_be_visible()


def test_person_opens_the_next_wave(dashboard: Dashboard, ada: Page) -> None:
    campaign = started(dashboard, "In waves", NEXT_WAVE, waves={"percents": [10]})
    ada.goto(f"{dashboard.address}/campaigns/{campaign.campaign_id}")
    expect(ada.get_by_text("1 of 2 (10 % of the audience)")).to_be_visible()
    expect(ada.get_by_text("Watching this wave; the next one opens")).to_be_visible()
    expect(ada.get_by_role("heading", name="Send time")).to_be_hidden()
    ada.get_by_role("button", name="Open next wave").click()
    ada.get_by_role("dialog").get_by_role("button", name="Open next wave").click()
    expect(ada.get_by_text("The next wave is open.")).to_be_visible()
    expect(ada.get_by_text("opened the next wave")).to_be_visible()


def test_reader_pauses_and_resumes_newsletters(dashboard: Dashboard, browser: Browser, ada: Page) -> None:
    async def link() -> str:
        tokens = UnsubscribeTokens(*await link_secrets(dashboard.engine)).for_tenant(DEFAULT_TENANT)
        return tokens.make("ada@example.com", "news")

    reader = browser.new_context(java_script_enabled=False).new_page()
    reader.goto(f"{dashboard.address}/preferences?token={dashboard.do(link)}")
    reader.get_by_role("button", name="Pause for 1 month").click()
    expect(reader.get_by_role("status")).to_contain_text("No newsletters until")
    ada.goto(f"{dashboard.address}/contacts/ada@example.com")
    expect(ada.get_by_text("Receives no bulk email until")).to_be_visible()
    reader.get_by_role("button", name="End the pause").click()
    expect(reader.get_by_role("status")).to_contain_text("The pause has ended.")
    ada.goto(f"{dashboard.address}/contacts/ada@example.com")
    ada.get_by_role("button", name="Pause for 1 week").click()
    expect(ada.get_by_text("Bulk email paused.")).to_be_visible()
    reader.context.close()
