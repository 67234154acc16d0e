"""A campaign has one set of numbers: API, command line, CSV and pages agree, and the buckets add up to the audience."""

import asyncio
import csv
import io
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rich.console import Console
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import ContactStatusService
from mailwright.cli.campaign_output import View, picture
from mailwright.domain.bounce import BounceKind
from mailwright.domain.buckets import WITHOUT_MESSAGE, Bucket
from mailwright.domain.clock import HOUR, MINUTE, ManualClock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, Resolution
from mailwright.outbox.operations import Operations
from mailwright.outbox.tallies import EventTallier
from mailwright.sources.campaigns import enqueue
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.tables import messages
from mailwright.texts.buckets import BUCKET_LABELS
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, FAULT, REFUSAL, SENT, UNKNOWN, Bench
from tests.campaigns import OPERATOR, CampaignHarness, join
from tests.examples import examples
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.provider import ScriptedProvider

BOUNCE = replace(REFUSAL, bounce=BounceKind.HARD, code="SMTP_RECIPIENT_REFUSED")
RESPONSES = {"sent": SENT, "fault": FAULT, "refusal": REFUSAL, "unknown": UNKNOWN, "bounce": BOUNCE}
RECIPIENTS = 5


class Setup:
    """A campaign harness with a signed-in dashboard user and an API key."""

    def __init__(self, desk: CampaignHarness, visit: Visit, client: httpx.AsyncClient) -> None:
        self.desk = desk
        self.visit = visit
        self.client = client
        self.histories = 0

    async def start(self, recipients: int = RECIPIENTS, **changes: Any) -> str:
        """Start a campaign to a list and recipients of its own."""
        self.histories += 1
        list_key = f"list{self.histories}"
        addresses = [f"reader{number}-{self.histories}@example.com" for number in range(recipients)]
        await join(self.desk.database, addresses, list_key)
        return await self.desk.start(lists=[list_key], **changes)


@pytest.fixture
async def setup(bench: Bench, clock: ManualClock) -> AsyncIterator[Setup]:
    web_engine = an_engine(bench.database, clock, base_url=HOME, unsubscribe_secret="s" * 32)
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    app, key = create_app(web_engine), await web_engine.keys.create(DEFAULT_TENANT)
    async with (
        a_visit(app) as visit,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=HOME, headers={"Authorization": f"Bearer {key}"}
        ) as client,
    ):
        yield Setup(CampaignHarness(bench), visit, client)
    await app.state.finish()


async def messages_of(desk: CampaignHarness, campaign_id: str) -> list[Any]:
    key = (await desk.campaign(campaign_id)).key
    async with desk.database.read() as tx:
        mine = messages.c.campaign_key == key
        return list(await tx.execute(select(messages).where(mine).order_by(messages.c.id)))


async def report_about(desk: CampaignHarness, message: Any, type_: EventType, verdict: ContactVerdict) -> None:
    name = f"{type_}-{message.outbox_id}-{desk.clock.now()}"
    report = Report(
        name, "ses", type_, desk.clock.now(), message.to_email, outbox_id=message.outbox_id, verdict=verdict
    )
    await desk.bench.engine.reports.receive([report])


async def unsubscribe(
    desk: CampaignHarness, email: str, list_key: str = GENERAL, message_id: str | None = None
) -> None:
    service = ContactStatusService(desk.database, desk.clock)
    await service.unsubscribe_by_link(DEFAULT_TENANT, email, list_key, source="reader", message_id=message_id)


# All views of one campaign.


async def numbers_of_api(setup: Setup, campaign_id: str) -> tuple[int, dict[str, int]]:
    shown = (await setup.client.get(f"/v1/campaigns/{campaign_id}")).json()["counts"]
    names = {bucket: "".join([bucket.split("_")[0], *map(str.title, bucket.split("_")[1:])]) for bucket in Bucket}
    return shown["audience"], {bucket: shown[name] for bucket, name in names.items()}


async def numbers_of_cli(setup: Setup, campaign_id: str) -> tuple[int, dict[str, int]]:
    desk = setup.desk
    campaign, now = await desk.campaign(campaign_id), desk.clock.now()
    numbers = await load_numbers(desk.database, campaign)
    assert numbers is not None
    text = io.StringIO()
    Console(file=text, width=300, color_system=None).print(picture(View(campaign, numbers.position, numbers, now)))
    found = re.search(r"^(\d+) of (\d+) sent(?:, (.*?))?\s*$", text.getvalue(), re.MULTILINE)
    assert found is not None, text.getvalue()
    by_label = {label.lower(): bucket for bucket, label in BUCKET_LABELS.items()}
    parts = [part.split(" ", 1) for part in found[3].split(", ")] if found[3] else []
    return int(found[2]), {Bucket.SENT: int(found[1]), **{by_label[label]: int(number) for number, label in parts}}


async def numbers_of_csv(setup: Setup, campaign_id: str) -> Counter[str]:
    content = (await setup.client.get(f"/v1/campaigns/{campaign_id}/report.csv")).text
    return Counter(row["status"].lower() for row in csv.DictReader(io.StringIO(content)))


async def numbers_of_page(setup: Setup, campaign_id: str) -> tuple[int, dict[str, int]]:
    await setup.visit.open(f"/campaigns/{campaign_id}")
    found = re.findall(r"<dt>([^<]+)</dt>\s*<dd[^>]*>(?:<a[^>]*>)?([\d,]+)", setup.visit.text)
    figures = {label: int(number.replace(",", "")) for label, number in found}
    labels = {label: bucket for bucket, label in BUCKET_LABELS.items()}
    return figures["Audience"], {labels[label]: number for label, number in figures.items() if label in labels}


async def assert_views_agree(setup: Setup, campaign_id: str) -> dict[str, int]:
    counts = await setup.desk.counts(campaign_id)
    expected = {bucket.value: number for bucket, number in counts.buckets.items()}
    filled = {bucket: number for bucket, number in expected.items() if number}
    assert sum(expected.values()) == counts.audience
    assert min(expected.values()) >= 0
    assert await numbers_of_api(setup, campaign_id) == (counts.audience, expected)
    audience, shown = await numbers_of_cli(setup, campaign_id)
    assert (audience, {name: number for name, number in shown.items() if number}) == (counts.audience, filled)
    audience, shown = await numbers_of_page(setup, campaign_id)
    assert (audience, {name: number for name, number in shown.items() if number}) == (counts.audience, filled)
    with_message = {bucket: number for bucket, number in filled.items() if bucket not in WITHOUT_MESSAGE}
    assert await numbers_of_csv(setup, campaign_id) == with_message
    for bucket, number in with_message.items():
        await setup.visit.open(f"/campaigns/{campaign_id}/recipients?show={bucket}")
        assert setup.visit.text.count('<td class="main-cell">') == number, bucket
    return filled


# Any history.

steps = st.one_of(
    st.tuples(st.just("enqueue"), st.none()),
    st.tuples(st.just("send"), st.lists(st.sampled_from(sorted(RESPONSES)), min_size=1, max_size=RECIPIENTS)),
    st.tuples(st.sampled_from(["bounce", "complaint", "resolve", "unsubscribe"]), st.integers(0, RECIPIENTS - 1)),
    st.tuples(st.sampled_from(["pause", "resume", "retry_failed", "accept_failures", "cancel"]), st.none()),
    st.tuples(st.just("wait"), st.none()),
)

EXAMPLES = settings(
    max_examples=examples(4),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


async def take_step(setup: Setup, campaign_id: str, name: str, detail: Any) -> None:
    desk = setup.desk
    match name:
        case "enqueue":
            await CampaignScheduler(desk.database, desk.clock).tick()
        case "send":
            await desk.bench.drain(ScriptedProvider(*[RESPONSES[each] for each in detail]))
        case "wait":
            desk.clock.advance(HOUR)
        case "retry_failed" | "accept_failures":
            with suppress(NotPossibleNow):
                await getattr(desk.bench.engine.campaign_failures, name)(OPERATOR, campaign_id)
        case "pause" | "resume" | "cancel":
            with suppress(NotPossibleNow):
                await getattr(desk.campaigns, name)(OPERATOR, campaign_id)
        case _:
            await _affect_recipient(desk, await messages_of(desk, campaign_id), name, detail)


async def _affect_recipient(desk: CampaignHarness, found: list[Any], name: str, number: int) -> None:
    if number >= len(found):
        return
    message = found[number]
    match name:
        case "bounce":
            await report_about(desk, message, EventType.BOUNCED, ContactVerdict.HARD_BOUNCE)
        case "complaint":
            await report_about(desk, message, EventType.COMPLAINED, ContactVerdict.COMPLAINT)
        case "unsubscribe":
            await unsubscribe(desk, message.to_email, message.list_key)
        case "resolve":
            with suppress(NotPossibleNow):
                operations = Operations(desk.database, desk.clock)
                await operations.resolve(message.outbox_id, Resolution.CLOSE, tenant_id=None)


@pytest.mark.promise("campaign-numbers")
@pytest.mark.timeout(300)
@pytest.mark.many
async def test_numbers_agree_and_add_up_in_any_history(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 2)
    loop = asyncio.get_running_loop()

    async def play(history: list[tuple[str, Any]]) -> None:
        campaign_id = await setup.start()
        for name, detail in history:
            await take_step(setup, campaign_id, name, detail)
        await assert_views_agree(setup, campaign_id)
        with suppress(NotPossibleNow):
            await setup.desk.campaigns.cancel(OPERATOR, campaign_id)

    @EXAMPLES
    @given(st.lists(steps, min_size=3, max_size=8))
    def any_history(history: list[tuple[str, Any]]) -> None:
        asyncio.run_coroutine_threadsafe(play(history), loop).result()

    await asyncio.to_thread(any_history)


# Single rules.


@pytest.mark.promise("campaign-numbers")
async def test_later_bounce_moves_a_recipient_from_sent_to_bounced(setup: Setup) -> None:
    campaign_id = await setup.start(3)
    await setup.desk.bench.drain(ScriptedProvider())
    first, second, _ = await messages_of(setup.desk, campaign_id)
    await report_about(setup.desk, first, EventType.BOUNCED, ContactVerdict.HARD_BOUNCE)
    await report_about(setup.desk, first, EventType.BOUNCED, ContactVerdict.HARD_BOUNCE)
    await report_about(setup.desk, second, EventType.BOUNCED, ContactVerdict.SOFT_BOUNCE)
    assert await assert_views_agree(setup, campaign_id) == {"sent": 1, "bounced": 2}


@pytest.mark.promise("campaign-numbers")
async def test_suppressed_recipient_is_not_failed_in_any_view(setup: Setup) -> None:
    campaign_id = await setup.start(3)
    await setup.desk.run_scheduler()
    message, *_ = await messages_of(setup.desk, campaign_id)
    await unsubscribe(setup.desk, message.to_email)
    await setup.desk.bench.drain(ScriptedProvider(REFUSAL))
    assert await assert_views_agree(setup, campaign_id) == {"sent": 1, "failed": 1, "suppressed": 1}


@pytest.mark.promise("campaign-numbers")
async def test_recipient_who_leaves_before_enqueueing_is_excluded(setup: Setup) -> None:
    campaign_id = await setup.start(3)
    await unsubscribe(setup.desk, "reader0-1@example.com")
    await setup.desk.bench.drain(ScriptedProvider())
    assert await assert_views_agree(setup, campaign_id) == {"sent": 2, "excluded": 1}


@pytest.mark.promise("campaign-to-everyone")
async def test_retry_leaves_out_bounced_and_suppressed_addresses(setup: Setup) -> None:
    desk = setup.desk
    campaign_id = await setup.start(4)
    await desk.bench.drain(ScriptedProvider(BOUNCE, BOUNCE, REFUSAL, REFUSAL))
    *_, left = await messages_of(desk, campaign_id)
    await unsubscribe(desk, left.to_email)
    before = await assert_views_agree(setup, campaign_id)
    assert before == {"failed": 4}
    answer = (await setup.client.post(f"/v1/campaigns/{campaign_id}/retry-failed")).json()
    assert (answer["retried"], answer["notRetried"], answer["notRetriedBounced"]) == (1, 3, 2)
    await desk.bench.drain(ScriptedProvider())
    assert await assert_views_agree(setup, campaign_id) == {"sent": 1, "failed": 3}
    await setup.visit.open(f"/campaigns/{campaign_id}")
    await setup.visit.press("Retry failed emails")
    assert setup.visit.flash == (
        "0 recipients queued for retry. "
        "Not retried: 2 because the address bounced, 1 because the address is suppressed."
    )


@pytest.mark.promise("campaign-numbers")
@pytest.mark.parametrize("is_tallied", [False, True])
async def test_unsubscribe_by_link_is_attributed_to_its_campaign(setup: Setup, is_tallied: bool) -> None:
    """One click, the preference page and a provider's report each count once, for the campaign of that email."""
    desk = setup.desk
    campaign_id, other = await setup.start(4), await setup.start(1)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    links = [re.search(rb"List-Unsubscribe: <(\S+?)>", each.content) for each in provider.messages[:2]]
    one_click, preferences = [link[1].decode().partition("/unsubscribe")[2] for link in links if link]
    for _ in range(2):
        answer = await setup.client.post(f"/unsubscribe{one_click}", data={"List-Unsubscribe": "One-Click"})
        assert answer.status_code == 200
    answer = await setup.client.post(f"/preferences{preferences}", data={"everything": "on"})
    assert answer.status_code == 200
    *_, third, _ = await messages_of(desk, campaign_id)
    await report_about(desk, third, EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE)
    await report_about(desk, third, EventType.COMPLAINED, ContactVerdict.COMPLAINT)
    desk.clock.advance(MINUTE)
    await report_about(desk, third, EventType.OPENED, ContactVerdict.NOTHING)
    if is_tallied:
        await EventTallier(desk.database, desk.clock).add_existing()
    shown = (await setup.client.get(f"/v1/campaigns/{campaign_id}")).json()["results"]
    reported = {"delivered": 0, "opened": 1, "clicked": 0, "complained": 1, "unsubscribed": 3}
    assert shown == {**reported, "replied": 0, "autoReplied": 0}
    assert (await setup.client.get(f"/v1/campaigns/{other}")).json()["results"]["unsubscribed"] == 0
    await setup.visit.open(f"/campaigns/{campaign_id}/report/figures")
    assert re.search(r"Unsubscribed\s+3", setup.visit.words())
    assert await assert_views_agree(setup, campaign_id) == {"sent": 4}


async def test_unsubscribe_is_not_attributed_to_the_message_of_another_address(setup: Setup) -> None:
    desk = setup.desk
    campaign_id = await setup.start(2)
    await desk.bench.drain(ScriptedProvider())
    first, second = await messages_of(desk, campaign_id)
    await unsubscribe(desk, first.to_email, message_id=second.outbox_id)
    assert (await setup.client.get(f"/v1/campaigns/{campaign_id}")).json()["results"]["unsubscribed"] == 0
