"""Approvals with random edits, and with edits at the time of the start."""

import asyncio
from random import Random
from typing import Any

import pytest

from mailwright.access.users import User
from mailwright.domain.clock import HOUR
from mailwright.domain.errors import NotPossibleNow
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.campaigns.definition import CampaignLimits
from tests.builders import Bench
from tests.campaigns import BODY, OPERATOR, a_definition, address_of, join
from tests.contract.campaigns.test_approvals import OVER, Approving

ROUNDS = 12
CONTENT = {"content": {"templateId": "sale"}}
# Definitions that a user may save, and whether they differ from the approved one.
DEFINITIONS: list[tuple[dict[str, Any], bool]] = [
    (CONTENT, False),
    ({**CONTENT, "variables": {}}, False),
    ({**CONTENT, "lists": ["news"], "limits": {}}, False),
    ({**CONTENT, "content": {"templateId": "sale", "subject": "Other"}}, True),
    ({**CONTENT, "variables": {"plan": "basic"}}, True),
    ({**CONTENT, "from": "Other <other@example.com>"}, True),
    ({**CONTENT, "filter": {"not": {"tag": "vip"}}}, True),
    ({**CONTENT, "limits": {"dailyLimit": 7}}, True),
    ({**CONTENT, "scheduledAt": 4_000_000_000_000}, True),
    ({**CONTENT, "utm": {"source": "news"}}, True),
]


@pytest.fixture
async def desk(bench: Bench) -> Approving:
    desk = Approving(bench)
    desk.campaigns = bench.engine.campaigns
    await desk.require(OVER)
    await desk.write_template(BODY)
    await join(desk.database, [address_of(number) for number in range(OVER + 1)])
    return desk


@pytest.fixture
async def bea(desk: Approving) -> User:
    return await desk.person("bea")


@pytest.mark.promise("second-person")
async def test_start_is_refused_if_and_only_if_something_changed(desk: Approving, bea: User) -> None:
    random = Random(54)
    bodies = [BODY, BODY.replace("Hello", "Goodbye")]
    for number in range(ROUNDS):
        await desk.write_template(BODY)
        campaign_id, is_changed, body = await desk.create(**CONTENT), False, BODY
        await desk.approve(campaign_id, bea)
        for _ in range(random.randrange(3)):
            if random.random() < 0.3:
                body = random.choice(bodies)
                await desk.write_template(body)
            else:
                definition, differs = random.choice(DEFINITIONS)
                await desk.campaigns.edit(OPERATOR, campaign_id, a_definition(**definition))
                is_changed |= differs
        try:
            await desk.campaigns.start(OPERATOR, campaign_id)
            is_refused = False
        except AwaitsApproval:
            is_refused = True
        assert is_refused == (is_changed or body != BODY), number


@pytest.mark.promise("second-person")
@pytest.mark.parametrize("first", ["start", "edit"])
async def test_edit_during_the_start_is_never_sent(desk: Approving, bea: User, first: str) -> None:
    for change in ("definition", "limits", "send time"):
        campaign_id = await desk.create(**CONTENT, scheduledAt=desk.clock.now() + HOUR)
        await desk.approve(campaign_id, bea)
        approved = (await desk.campaign(campaign_id)).definition
        edits = {
            "definition": lambda id_: desk.campaigns.edit(OPERATOR, id_, a_definition(**CONTENT, name="Other")),
            "limits": lambda id_: desk.campaigns.edit_limits(OPERATOR, id_, CampaignLimits(daily_limit=7)),
            "send time": lambda id_: desk.campaigns.reschedule(OPERATOR, id_, None),
        }
        both = [desk.campaigns.start(OPERATOR, campaign_id), edits[change](campaign_id)]
        results = await asyncio.gather(*(both if first == "start" else both[::-1]), return_exceptions=True)
        assert all(isinstance(each, NotPossibleNow) for each in results if isinstance(each, BaseException)), results
        assert any(not isinstance(each, BaseException) for each in results)
        desk.clock.advance(HOUR)
        await desk.run_scheduler()
        sent, present = await desk.addresses(campaign_id), (await desk.campaign(campaign_id)).definition
        assert sent == [] or present == approved, change
