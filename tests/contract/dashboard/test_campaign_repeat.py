"""The page on which a draft is set to repeat."""

from collections.abc import AsyncIterator

import pytest

from mailwright.access.roles import Role
from mailwright.actions.campaigns import campaign_summary_response
from mailwright.app.wiring import Engine, make_campaign_repeats
from mailwright.domain.clock import HOUR, ManualClock, isoformat
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.repeat_worker import RepeatWorker
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import a_definition, address_of, join
from tests.pages import HOME, PASSWORD, Visit, a_visit


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def ada(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


async def test_draft_is_set_to_repeat_and_stopped(ada: Visit, web_engine: Engine) -> None:
    await join(web_engine.database, [address_of(1)])
    made = await web_engine.campaigns.create(Actor("ada", DEFAULT_TENANT), DEFAULT_TENANT, a_definition())
    path = f"/campaigns/{made.campaign_id}"
    repeats = make_campaign_repeats(web_engine)
    wrong = {
        "Choose at least one weekday.": {"weekdays": []},
        "Enter days of the month from 1 to 31": {"every": "monthly", "monthDays": "0, 45"},
        "Must be a time such as 09:00": {"time": "9"},
        "Must be the web address of a feed": {"feed": "feed"},
        "changed since you reviewed it": {"reviewed": "another"},
    }
    for words, fields in wrong.items():
        await ada.open(f"{path}/repeat")
        await ada.press("Repeat", 422, **fields)
        assert words in ada.text, ada.words()
    await ada.open(f"{path}/repeat")
    await ada.press("Repeat", weekdays=["mon", "thu"], time="09:30")
    found = await repeats.find(made.campaign_id, tenant_id=DEFAULT_TENANT)
    assert (found.schedule.weekdays, found.schedule.time) == (("mon", "thu"), "09:30")
    await ada.press("Save schedule", every="monthly", monthDays="1, 15")
    assert 'value="1, 15"' in ada.text
    assert "Repeat Next" in (await ada.open(path)).words()
    assert "Repeats, next" in (await ada.open("/campaigns")).words()
    [listed] = await web_engine.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=10)
    saved = await repeats.find(made.campaign_id, tenant_id=DEFAULT_TENANT)
    assert campaign_summary_response(listed, None).repeats_at == isoformat(saved.next_at)
    await ada.open(f"{path}/repeat")
    await ada.press("Stop repeating")
    assert "Repeat Never" in ada.words()


async def test_recurring_campaign_links_to_its_schedule(ada: Visit, web_engine: Engine, clock: ManualClock) -> None:
    await join(web_engine.database, [address_of(1)])
    actor = Actor("ada", DEFAULT_TENANT)
    base = await web_engine.campaigns.create(actor, DEFAULT_TENANT, a_definition())
    daily = ScheduleFields(time="09:00")
    await make_campaign_repeats(web_engine).set(actor, base.campaign_id, daily)
    clock.advance(2 * HOUR)
    worker = RepeatWorker(web_engine.database, clock, web_engine.campaigns, web_engine.templates)
    while await worker.tick():
        pass
    [made, _] = await web_engine.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=10)
    await ada.open(f"/campaigns/{made.campaign_id}/content")
    assert f'href="/campaigns/{base.campaign_id}/repeat"' in ada.text
