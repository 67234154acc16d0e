"""Content that depends on the recipient's segments, on both engines."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from mailwright.audience import segments
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import ManualClock
from mailwright.sources.campaigns.test_send import CampaignTestSend, render_variants
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.database import Database
from mailwright.storage.tables import messages
from tests.api import Api, a_request, an_api
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, a_definition, join
from tests.standins.provider import ScriptedProvider

GOLD, BASIC = "gold@example.com", "basic@example.com"
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "blocks": [
        {
            "id": "b1",
            "type": "condition",
            "segment": "gold-plan",
            "blocks": [{"id": "b2", "type": "text", "html": "Golden news"}],
            "otherwise": [{"id": "b3", "type": "text", "html": "Plain news"}],
        },
        {"id": "b4", "type": "footer"},
    ],
}
CONTENT = {"subject": "News", "format": "blocks", "body": orjson.dumps(DOCUMENT).decode()}


@pytest.fixture
async def desk(bench: Bench) -> CampaignHarness:
    # An attribute of a contact cannot fake a membership.
    await join(bench.database, [GOLD], attributes={"plan": "gold"})
    await join(bench.database, [BASIC], attributes={"plan": "basic", "in_segments": {"gold-plan": True}})
    await a_segment(bench.database, bench.clock)
    return CampaignHarness(bench)


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def a_segment(database: Database, clock: ManualClock) -> None:
    filter_ = {"attribute": "plan", "is": "gold"}
    await segments.create(database, clock, DEFAULT_TENANT, "gold-plan", filter_=filter_)


@pytest.mark.promise("conditions-by-segment")
async def test_recipients_get_the_content_of_their_segments(desk: CampaignHarness) -> None:
    await desk.start(content=CONTENT)
    # A started campaign keeps the segment that it started with.
    await segments.delete_segment(desk.database, DEFAULT_TENANT, "gold-plan")
    provider = ScriptedProvider()
    await desk.run_scheduler()
    await desk.bench.drain(provider)
    sent = {message.recipients[0]: message.content for message in provider.messages}
    assert (b"Golden news" in sent[GOLD], b"Plain news" in sent[GOLD]) == (True, False)
    assert (b"Golden news" in sent[BASIC], b"Plain news" in sent[BASIC]) == (False, True)


async def test_deleted_segment_of_the_content_stops_the_start(desk: CampaignHarness) -> None:
    await segments.delete_segment(desk.database, DEFAULT_TENANT, "gold-plan")
    campaign_id = await desk.create(content=CONTENT)
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    [problem] = refused.value.problems
    assert (problem.field, problem.code) == ("content.body", "UNKNOWN_SEGMENT")
    assert "the segment gold-plan, which does not exist" in problem.message


async def test_preview_and_test_email_use_the_contact(desk: CampaignHarness) -> None:
    shown: dict[str | None, str | None] = {}
    for contact in (GOLD, BASIC, None):
        test = CampaignTestSend("c1", DEFAULT_TENANT, a_definition(content=CONTENT), (GOLD,), contact)
        rendered = await render_variants(desk.database, desk.bench.engine.templates, test)
        shown[contact] = (rendered[""].text or "").partition("\n")[0]
    assert shown == {GOLD: "Golden news", BASIC: "Plain news", None: "Golden news"}


async def test_campaign_without_conditions_stores_no_memberships(desk: CampaignHarness) -> None:
    await desk.start(lists=[NEWS])
    await desk.run_scheduler()
    async with desk.database.read() as tx:
        rows = await tx.execute(select(messages.c.payload))
    assert len(rows) == 2
    assert not any("inSegments" in orjson.loads(row.payload) for row in rows)


async def test_api_message_knows_the_segments_of_its_contact(api: Api, database: Database, clock: ManualClock) -> None:
    await join(database, [GOLD], attributes={"plan": "gold"})
    await a_segment(database, clock)
    draft = TemplateDraft(subject="News", body=CONTENT["body"], format=TemplateFormat.BLOCKS)
    await api.engine.templates.write(DEFAULT_TENANT, "news", draft)
    for to in (GOLD, "stranger@example.com"):
        body = a_request(to=to, templateId="news", subject=None, html=None)
        answer = await api.client.post("/v1/email/send", json=body)
        assert answer.status_code == 202, answer.text
    async with database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email, messages.c.payload))
    found = {row.to_email: orjson.loads(row.payload)["inSegments"] for row in rows}
    assert found == {GOLD: {"gold-plan": True}, "stranger@example.com": {"gold-plan": False}}
    await segments.delete_segment(database, DEFAULT_TENANT, "gold-plan")
    refused = await api.client.post("/v1/email/send", json={"to": GOLD, "templateId": "news"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "UNKNOWN_SEGMENT"
