"""Campaigns, on both engines: each recipient gets one message, and every action takes effect."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from mailwright.audience import segments
from mailwright.audience.status import ContactStatusService
from mailwright.content.presend_checks import PresendContext
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.campaign import AWAITING_WINNER
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Instant
from mailwright.domain.errors import InvalidInput, NotDurable, NotFound, NotPossibleNow
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.permits import Limits
from mailwright.domain.report import Report
from mailwright.domain.results import SendResult
from mailwright.domain.states import EventType, Resolution, Status
from mailwright.outbox import lane_operations
from mailwright.outbox.accept import accept_select
from mailwright.outbox.audit import audit
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.lane_operations import RetriedMessages
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.operations import Operations
from mailwright.sources.campaigns import campaigns as handled
from mailwright.sources.campaigns import enqueue, report, scheduler
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.sources.campaigns.entries import find_entry
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.extension import preview_extension
from mailwright.sources.campaigns.forecast import forecast
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.review import ChangedSinceReview, review_started
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.campaigns.snapshot import FrozenCampaign
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.database import Rows, Transaction
from mailwright.storage.statements import Statement
from mailwright.storage.tables import campaigns, contacts, message_dead_letters, subscriptions, suppressions
from mailwright.texts.explanations import campaign_text
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    REFUSAL,
    UNKNOWN,
    Attempt,
    Bench,
    a_contact,
    a_result,
    a_settler,
    a_tenant,
    claims_of,
    deliveries_of,
)
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, a_definition, a_list, address_of, join
from tests.standins.provider import ScriptedProvider

TEST = {
    "variants": [{"name": "A"}, {"name": "B", "subject": "Other news for {{ name }}"}],
    "testPercent": 20,
    "waitMinutes": 60,
}


@pytest.fixture
async def desk(bench: Bench) -> AsyncIterator[CampaignHarness]:
    yield CampaignHarness(bench)
    assert (await audit(bench.database)).ok


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 7)


def read(message: OutgoingMessage) -> EmailMessage:
    found = message_from_bytes(message.content, policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def recipients(provider: ScriptedProvider) -> list[str]:
    return [message.recipients[0] for message in provider.messages]


# From a draft to a sent campaign.


@pytest.mark.promise("campaign-to-everyone")
async def test_campaign_is_sent_to_everyone_on_its_list(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(120)
    assert await desk.status(campaign_id) == "READY"
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert await desk.status(campaign_id) == "SENT"
    assert sorted(recipients(provider)) == [address_of(number) for number in range(120)]
    counts = await desk.counts(campaign_id)
    assert (counts.planned, counts.recipients, counts.sent, counts.waiting, counts.percent) == (120, 120, 120, 0, 100.0)
    assert (await desk.position(campaign_id)).status == "COMPLETED"
    assert await desk.audit_actions(campaign_id) == ["create", "start"]


async def test_contact_attributes_override_campaign_variables(desk: CampaignHarness) -> None:
    await join(desk.database, ["ann@example.com"], name="Ann Lee", attributes={"plan": "gold"})
    await join(desk.database, ["bob@example.com"], name=None, attributes={"plan": None, "city": "Rome"})
    content = {"subject": "{{ season }} for {{ name }}", "body": "<p>{{ plan }}</p><p>{{ unsubscribe_url }}</p>"}
    variables = {"season": "Spring", "plan": "basic"}
    await desk.start(content=content, variables=variables, replyTo="desk@example.com", sender="Us <us@example.com>")
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    ann, bob = sorted((read(message) for message in provider.messages), key=lambda message: str(message["To"]))
    assert (str(ann["Subject"]), str(ann["To"])) == ("Spring for Ann Lee", "Ann Lee <ann@example.com>")
    assert (str(ann["From"]), str(ann["Reply-To"])) == ("Us <us@example.com>", "desk@example.com")
    assert "gold" in ann.as_string()
    assert str(bob["Subject"]).strip() == "Spring for"
    assert "/unsubscribe" in str(ann["List-Unsubscribe"])


@pytest.mark.promise("campaign-refusals")
async def test_invalid_campaign_is_refused_with_all_problems(desk: CampaignHarness) -> None:
    content = {"subject": "Hello", "body": "<p>{{ nobody_has_this }}</p>"}
    await join(desk.database, ["ann@example.com"])
    campaign_id = await desk.create(content=content, lists=[NEWS, "nowhere"], segment="no-such")
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    codes = {problem.code for problem in refused.value.problems}
    assert {"UNKNOWN_LIST", "UNKNOWN_SEGMENT", "MISSING_VARIABLE"} <= codes
    assert await desk.status(campaign_id) == "DRAFT"
    assert await deliveries_of(desk.database) == []


@pytest.mark.parametrize(
    ("subject", "given", "warned"),
    [
        ("News for {{ name }}", {}, True),
        ("News for {{ name|default('you') }}", {}, True),
        ("News for {{ name or 'you' }}", {}, False),
        ("News{% if name %} for {{ name }}{% endif %}", {}, False),
        ("News", {}, False),
        ("News for {{ name }}", {"name": "you"}, False),
    ],
)
async def test_check_warns_about_recipients_without_name(
    desk: CampaignHarness, subject: str, given: dict[str, str], warned: bool
) -> None:
    await join(desk.database, ["ann@example.com"])
    await join(desk.database, ["bob@example.com"], name=None)
    await join(desk.database, ["cleo@example.com"], name="")
    campaign_id = await desk.create(content={"subject": subject, "body": "<p>News</p>"}, variables=given)
    _, warnings = await desk.campaigns.start_with_warnings(OPERATOR, campaign_id, PresendContext())
    found = [each.sentence for each in warnings if each.code == "RECIPIENTS_WITHOUT_NAME"]
    assert len(found) == warned
    assert all("2 of 3 recipients have no name, for example bob@example.com" in each for each in found)


async def test_empty_audience_is_refused(desk: CampaignHarness) -> None:
    await join(desk.database, ["gone@example.com"])
    await ContactStatusService(desk.database, desk.clock).unsubscribe_by_link(
        DEFAULT_TENANT, "gone@example.com", NEWS, source="test"
    )
    campaign_id = await desk.create()
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert [problem.code for problem in refused.value.problems] == ["NO_RECIPIENTS"]


async def test_empty_audience_is_reported_with_content_problems(desk: CampaignHarness) -> None:
    await a_list(desk.database)
    campaign_id = await desk.create(content={"templateId": "no-such"})
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert {problem.code for problem in refused.value.problems} == {"UNKNOWN_TEMPLATE", "NO_RECIPIENTS"}


async def test_campaign_edited_during_its_start_is_not_started(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(desk.database, ["ann@example.com"])
    campaign_id = await desk.create()
    freeze = handled.freeze

    async def edited_meanwhile(*args: Any, **named: Any) -> FrozenCampaign:
        frozen = await freeze(*args, **named)
        await desk.campaigns.edit(OPERATOR, campaign_id, a_definition(name="Other news"))
        return frozen

    monkeypatch.setattr(handled, "freeze", edited_meanwhile)
    with pytest.raises(NotPossibleNow, match="edited during its start"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert await desk.status(campaign_id) == "DRAFT"
    monkeypatch.undo()
    assert (await desk.campaigns.start(OPERATOR, campaign_id)).name == "Other news"


@pytest.mark.promise("tenant-isolation")
async def test_campaign_belongs_to_its_tenant_only(desk: CampaignHarness) -> None:
    other = await a_tenant(desk.database, "other")
    await join(desk.database, ["theirs@example.com"], tenant_id=other)
    campaign_id = await desk.start(3)
    stranger = Actor("stranger", other)
    for act in (
        desk.campaigns.pause,
        desk.campaigns.cancel,
        desk.campaigns.start,
        desk.bench.engine.campaign_failures.accept_failures,
    ):
        with pytest.raises(NotFound):
            await act(stranger, campaign_id)
    await desk.run_scheduler()
    assert await desk.addresses(campaign_id) == [address_of(number) for number in range(3)]


# Enqueueing the audience.


async def test_recipient_is_reached_through_the_allowed_list(desk: CampaignHarness) -> None:
    email, second = "ann@example.com", "offers"
    await join(desk.database, [email])
    await a_list(desk.database, second)
    mine = {"tenant_id": DEFAULT_TENANT}
    async with desk.database.write() as tx:
        [ann] = await tx.execute(select(contacts.c.id).where(contacts.c.email == email))
        on_it = {"contact_key": ann.id, "list_key": second, "subscribed_at": 0, "source": "test"}
        await tx.execute(insert(subscriptions).values(**mine, **on_it))
        kept_off = {"email": email, "list_key": NEWS, "reason": "manual", "source": "test", "created_at": 0}
        await tx.execute(insert(suppressions).values(**mine, **kept_off))
    campaign_id = await desk.start(lists=[NEWS, second])
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert recipients(provider) == [email]
    assert await desk.status(campaign_id) == "SENT"


@pytest.mark.promise("campaign-each-once")
async def test_interrupted_enqueue_continues_and_reaches_everyone_once(
    desk: CampaignHarness, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await desk.start(50)
    calls = 0

    async def fail(*arguments: Any, **options: Any) -> int:
        nonlocal calls
        calls += 1
        stored = await accept_select(*arguments, **options)
        if calls % 3 == 0:
            raise NotDurable  # The batch is rolled back.
        return stored

    monkeypatch.setattr(enqueue, "accept_select", fail)
    for _ in range(20):
        with suppress(NotDurable):
            await CampaignScheduler(desk.database, desk.clock).tick()
    assert calls > 50 // 7 + 2
    assert await desk.addresses(campaign_id) == [address_of(number) for number in range(50)]


@pytest.mark.promise("campaign-each-once")
async def test_parallel_enqueue_reaches_everyone_once_in_address_order(
    desk: CampaignHarness, small_batches: None
) -> None:
    campaign_id = await desk.start(60)
    await asyncio.gather(*(desk.run_scheduler() for _ in range(4)))
    assert await desk.addresses(campaign_id) == [address_of(number) for number in range(60)]
    assert (await desk.counts(campaign_id)).recipients == 60


async def test_subscriber_during_enqueue_is_reached_if_still_ahead(desk: CampaignHarness, small_batches: None) -> None:
    campaign_id = await desk.start(20)
    await CampaignScheduler(desk.database, desk.clock).tick()
    await join(desk.database, ["aaa@example.com", "zzz@example.com"])
    await desk.run_scheduler()
    met = await desk.addresses(campaign_id)
    assert met == [*(address_of(number) for number in range(20)), "zzz@example.com"]
    assert (await desk.counts(campaign_id)).planned == 20


async def test_extended_campaign_reaches_only_new_subscribers(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.extend(OPERATOR, campaign_id)
    await join(desk.database, ["aaa@example.com", "zzz@example.com"])
    _, newcomers = await desk.campaigns.extend(OPERATOR, campaign_id)
    assert newcomers == 2
    assert await desk.status(campaign_id) == "SENDING"
    await desk.bench.drain(provider)
    assert recipients(provider)[5:] == ["aaa@example.com", "zzz@example.com"]
    assert await desk.status(campaign_id) == "SENT"
    assert (await desk.counts(campaign_id)).percent == 100.0


async def test_extended_campaign_can_add_another_segment(desk: CampaignHarness) -> None:
    await join(desk.database, ["gold@example.com"], attributes={"plan": "gold"})
    await join(desk.database, ["iron@example.com", "tin@example.com"], attributes={"plan": "iron"})
    iron = {"attribute": "plan", "is": "iron"}
    await segments.create(desk.database, desk.clock, DEFAULT_TENANT, "iron", filter_=iron)
    campaign_id = await desk.start(filter={"attribute": "plan", "is": "gold"})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert recipients(provider) == ["gold@example.com"]
    with pytest.raises(InvalidInput, match="no segment"):
        await desk.campaigns.extend(OPERATOR, campaign_id, segment="no-such")
    _, newcomers = await desk.campaigns.extend(OPERATOR, campaign_id, segment="iron")
    await desk.bench.drain(provider)
    assert newcomers == 2
    assert recipients(provider)[1:] == ["iron@example.com", "tin@example.com"]


@pytest.mark.promise("campaign-as-reviewed")
async def test_extension_is_sent_only_as_reviewed(desk: CampaignHarness) -> None:
    for plan in ("gold", "iron", "tin"):
        await join(desk.database, [f"{plan}@example.com"], attributes={"plan": plan})
    where: tuple[Any, ...] = (desk.database, desk.clock, DEFAULT_TENANT, "more")
    await segments.create(*where, filter_={"attribute": "plan", "is": "iron"})
    campaign_id = await desk.start(filter={"attribute": "plan", "is": "gold"})
    await desk.bench.drain(ScriptedProvider())
    preview = (desk.database, desk.clock, OPERATOR, campaign_id, "more")
    added, digests = await preview_extension(*preview)
    assert added == 1
    await segments.change(*where, filter_={"attribute": "plan", "exists": True})
    with pytest.raises(ChangedSinceReview, match="since you reviewed it: audience"):
        await desk.campaigns.extend(OPERATOR, campaign_id, segment="more", reviewed=digests)
    added, digests = await preview_extension(*preview)
    _, newcomers = await desk.campaigns.extend(OPERATOR, campaign_id, segment="more", reviewed=digests)
    assert (added, newcomers) == (2, 2)


async def test_report_of_several_passes_is_in_address_order(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "PAGE", 3)
    campaign_id = await desk.start(5)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    await join(desk.database, ["aaa@example.com", "zzz@example.com"])
    await desk.campaigns.extend(OPERATOR, campaign_id)
    await desk.run_scheduler()
    rows = await desk.report(campaign_id)
    assert [row.email for row in rows] == ["aaa@example.com", *(address_of(n) for n in range(5)), "zzz@example.com"]
    assert [row.status for row in rows] == ["WAITING", "FAILED", "SENT", "SENT", "SENT", "SENT", "WAITING"]
    assert rows[1].error_message == "never"
    assert rows[2].sent_at == desk.clock.now()


# Between start and send.


async def test_unsubscribed_recipient_is_skipped_and_not_a_failure(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(10)
    await desk.run_scheduler()
    standing = ContactStatusService(desk.database, desk.clock)
    await standing.unsubscribe_by_link(DEFAULT_TENANT, address_of(3), NEWS, source="test")
    await standing.unsubscribe_by_link(DEFAULT_TENANT, address_of(4), source="test")
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 8
    assert not {address_of(3), address_of(4)} & set(recipients(provider))
    counts = await desk.counts(campaign_id)
    assert (counts.suppressed, counts.failed, counts.percent) == (2, 0, 100.0)
    assert await desk.status(campaign_id) == "SENT"


async def test_email_uses_contact_data_at_send_time(desk: CampaignHarness) -> None:
    await desk.start(2)
    await desk.run_scheduler()
    async with desk.database.write() as tx:
        mine = contacts.c.email == address_of(0)
        await tx.execute(update(contacts).where(mine).values(name="Eve", attributes='{"plan": "gold"}'))
        await tx.execute(update(contacts).where(contacts.c.email == address_of(1)).values(deleted_at=1))
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    [message] = provider.messages  # Nothing is sent to the deleted contact.
    assert "gold" in read(message).as_string()
    assert str(read(message)["To"]) == f"Eve <{address_of(0)}>"


async def test_recipient_gets_the_template_of_their_locale(desk: CampaignHarness) -> None:
    store, leave = desk.bench.engine.templates, "<p>{{ unsubscribe_url }}</p>"
    for locale, subject in (("", "Hello"), ("pt", "Olá"), ("pt-BR", "Oi")):
        await store.write(DEFAULT_TENANT, "hello", TemplateDraft(subject=subject, body=leave, locale=locale))
    for email, locale in (("en", "en-GB"), ("none", None), ("pt", "pt-PT"), ("br", "pt-BR")):
        await join(desk.database, [f"{email}@example.com"], locale=locale)
    await desk.start(content={"templateId": "hello"})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    said = {message.recipients[0].partition("@")[0]: str(read(message)["Subject"]) for message in provider.messages}
    assert said == {"en": "Hello", "none": "Hello", "pt": "Olá", "br": "Oi"}


# Actions of an operator.


@pytest.mark.promise("campaign-control")
async def test_paused_campaign_keeps_its_position_and_resumes(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(300)
    provider = ScriptedProvider()
    provider.hold()
    run = asyncio.create_task((await desk.bench.worker(provider, window=10, claim_batch=10)).run(drain=True))
    await provider.has(9)  # Bulk leaves one of ten for transactional messages.
    await desk.campaigns.pause(OPERATOR, campaign_id)
    provider.let_go()
    await run
    sent = len(provider.messages)
    assert sent == 9  # No attempt begins after the pause.
    assert await desk.status(campaign_id) == "PAUSED"
    poll = await desk.progress()
    assert (poll.reason, poll.next_run_at) == ("paused", None)  # A pause has no known end.
    assert (await desk.position(campaign_id)).status == "PENDING"

    desk.clock.advance(30 * DAY)
    await desk.bench.drain(provider)
    assert len(provider.messages) == sent
    await desk.campaigns.resume(OPERATOR, campaign_id)
    await desk.bench.drain(provider)
    assert len(set(recipients(provider))) == len(provider.messages) == 300
    assert await desk.status(campaign_id) == "SENT"
    assert await desk.audit_actions(campaign_id) == ["create", "start", "pause", "resume"]


@pytest.mark.promise("campaign-control")
async def test_campaign_with_nothing_left_to_send_cannot_be_paused(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    with pytest.raises(NotPossibleNow, match="Nothing is left to send"):
        await desk.campaigns.pause(OPERATOR, campaign_id)
    assert (await desk.status(campaign_id), (await desk.position(campaign_id)).status) == ("SENDING", "COMPLETED")
    await desk.bench.engine.campaign_failures.retry_failed(OPERATOR, campaign_id)
    await desk.campaigns.pause(OPERATOR, campaign_id)  # The retried message waits.
    assert await desk.status(campaign_id) == "PAUSED"


@pytest.mark.promise("campaign-control")
async def test_completed_campaign_paused_by_an_earlier_version_is_released(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    async with desk.database.write() as tx:
        await tx.execute(update(campaigns).values(status="PAUSED"))
    desk.clock.advance(MINUTE)
    await desk.run_scheduler()
    assert (await desk.status(campaign_id), (await desk.position(campaign_id)).status) == ("SENDING", "COMPLETED")
    await desk.bench.engine.campaign_failures.accept_failures(OPERATOR, campaign_id)
    assert await desk.status(campaign_id) == "SENT"


@pytest.mark.promise("campaign-control")
@pytest.mark.parametrize(("results", "ended"), [((), "SENT"), ((REFUSAL,), "SENDING")], ids=["sent", "failed"])
async def test_paused_campaign_ends_with_its_last_messages(
    desk: CampaignHarness, results: Sequence[SendResult], ended: str
) -> None:
    """The provider has them when the campaign is paused."""
    campaign_id = await desk.start(5)
    provider = ScriptedProvider(*results)
    provider.hold()
    run = asyncio.create_task((await desk.bench.worker(provider)).run(drain=True))
    await provider.has(5)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == "PAUSED"
    provider.let_go()
    await run
    await desk.run_scheduler()
    position = await desk.position(campaign_id)
    assert (await desk.status(campaign_id), position.status, position.defer_reason) == (ended, "COMPLETED", None)
    if ended == "SENDING":
        _, found = await desk.bench.engine.campaign_failures.retry_failed(OPERATOR, campaign_id)
        assert found.retried == 1
        await desk.bench.drain(provider)
        assert (await desk.status(campaign_id), len(provider.messages)) == ("SENT", 6)


@pytest.mark.promise("campaign-control")
async def test_cancelled_campaign_cancels_only_unsent_messages(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, limits={"ratePerHour": 30})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await desk.campaigns.cancel(OPERATOR, campaign_id)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 30
    counts = await desk.counts(campaign_id)
    assert (counts.sent, counts.cancelled, counts.waiting) == (30, 70, 0)
    assert await desk.status(campaign_id) == "CANCELLED"
    assert (await desk.position(campaign_id)).status == "COMPLETED"
    with pytest.raises(NotPossibleNow, match="CANCELLED"):
        await desk.campaigns.resume(OPERATOR, campaign_id)


async def test_cancelled_campaign_enqueues_nobody_else(desk: CampaignHarness, small_batches: None) -> None:
    campaign_id = await desk.start(30)
    await CampaignScheduler(desk.database, desk.clock).tick()
    await desk.campaigns.cancel(OPERATOR, campaign_id)
    await desk.run_scheduler()
    assert len(await desk.addresses(campaign_id)) == 7
    assert (await desk.counts(campaign_id)).cancelled == 7


@pytest.mark.promise("campaign-to-everyone")
async def test_campaign_with_failures_stays_sending_until_retried(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5)
    provider = ScriptedProvider(REFUSAL, REFUSAL)
    await desk.bench.drain(provider)
    assert await desk.status(campaign_id) == "SENDING"
    assert (await desk.position(campaign_id)).status == "COMPLETED"
    assert (await desk.counts(campaign_id)).failed == 2
    _, found = await desk.bench.engine.campaign_failures.retry_failed(OPERATOR, campaign_id)
    assert found == RetriedMessages(2, 0, 0)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 7
    assert await desk.status(campaign_id) == "SENT"
    assert await desk.audit_actions(campaign_id) == ["create", "start", "retry_failed"]


@pytest.mark.promise("campaign-to-everyone")
async def test_retry_covers_all_batches_and_removes_dead_letters(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_operations, "BATCH_SIZE", 2)
    campaign_id = await desk.start(7)
    await desk.bench.drain(ScriptedProvider(*[REFUSAL] * 5))
    _, found = await desk.bench.engine.campaign_failures.retry_failed(OPERATOR, campaign_id)
    assert found.retried == 5
    assert (await desk.counts(campaign_id)).waiting == 5
    async with desk.database.read() as tx:
        assert await tx.execute(select(message_dead_letters.c.message_key)) == []


@pytest.mark.promise("route-fail-over")
async def test_retried_message_stays_with_provider_that_may_have_it(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(1)
    await desk.run_scheduler()
    claims, settling = claims_of(desk.database, desk.clock), a_settler(desk.database, desk.clock)
    perhaps = replace(FAULT, provider="scripted", definitely_not_sent=False)
    while claimed := await claims.claim(1):
        await settling.exchange([], [Attempt(claimed[0], "scripted")])
        await settling.exchange([a_result(claimed[0], perhaps, desk.clock.now())], [])
        desk.clock.advance(HOUR)
    assert (await desk.counts(campaign_id)).failed == 1
    await desk.bench.engine.campaign_failures.retry_failed(OPERATOR, campaign_id)
    assert [each.only_provider for each in await claims.claim(1)] == ["scripted"]


async def test_scheduler_does_not_count_a_moving_campaign(
    desk: CampaignHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await desk.start(3)
    await desk.run_scheduler()

    run = Transaction.run
    statements: list[Statement] = []

    async def record(tx: Transaction, statement: Statement, **parameters: Any) -> Rows:
        statements.append(statement)
        return await run(tx, statement, **parameters)

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "run", record)
        assert await CampaignScheduler(desk.database, desk.clock).tick() is False
    assert scheduler.LANE_IS_MOVING in statements
    assert scheduler.COUNT_LANE not in statements
    await desk.bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == "SENT"


@pytest.mark.promise("campaign-to-everyone")
async def test_failures_can_be_accepted_after_completion(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(5)
    with pytest.raises(NotPossibleNow):
        await desk.bench.engine.campaign_failures.accept_failures(OPERATOR, campaign_id)
    await desk.run_scheduler()
    with pytest.raises(NotPossibleNow, match="still being sent"):
        await desk.bench.engine.campaign_failures.accept_failures(OPERATOR, campaign_id)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    await desk.bench.engine.campaign_failures.accept_failures(OPERATOR, campaign_id)
    assert await desk.status(campaign_id) == "SENT"
    failed = [row for row in await desk.report(campaign_id) if row.status == Status.FAILED]
    assert [row.error_message for row in failed] == ["never"]


@pytest.mark.promise("campaign-to-everyone")
async def test_campaign_is_sent_when_its_last_doubt_is_resolved(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3)
    await desk.bench.drain(ScriptedProvider(UNKNOWN))
    assert await desk.status(campaign_id) == "SENDING"
    assert (await desk.counts(campaign_id)).in_doubt == 1
    [doubtful] = [row for row in await desk.report(campaign_id) if row.status == Status.IN_DOUBT]
    await Operations(desk.database, desk.clock).resolve(doubtful.message_id, Resolution.SENT, tenant_id=None)
    await desk.run_scheduler()
    assert await desk.status(campaign_id) == "SENT"


async def test_retried_message_reopens_its_campaign(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(3)
    await desk.bench.drain(ScriptedProvider(REFUSAL))
    [failed] = [row for row in await desk.report(campaign_id) if row.status == Status.FAILED]
    await Operations(desk.database, desk.clock).requeue(failed.message_id, tenant_id=None)
    await desk.run_scheduler()
    assert (await desk.position(campaign_id)).status == "PENDING"
    await desk.bench.drain(ScriptedProvider())
    assert await desk.status(campaign_id) == "SENT"


async def test_started_campaign_can_be_duplicated_but_not_edited(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2)
    with pytest.raises(NotPossibleNow, match="READY"):
        await desk.campaigns.edit(OPERATOR, campaign_id, a_definition(name="Other"))
    copy = await desk.campaigns.duplicate(OPERATOR, campaign_id)
    assert (copy.status, copy.name) == ("DRAFT", "News of January (copy)")
    await desk.campaigns.edit(OPERATOR, copy.campaign_id, a_definition(name="Other"))
    await desk.campaigns.start(OPERATOR, copy.campaign_id)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 4


# Test sends.


@pytest.mark.promise("campaign-numbers")
async def test_test_send_is_not_counted(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(1)], name="Ann Lee", attributes={"plan": "gold"})
    campaign_id = await desk.create()
    provider = ScriptedProvider()
    await desk.campaigns.test_send(OPERATOR, campaign_id, ["Boss@Example.com"], as_contact=address_of(1))
    await desk.campaigns.test_send(OPERATOR, campaign_id, ["desk@example.com"])
    await desk.bench.drain(provider)
    as_ann, plain = (read(message) for message in provider.messages)
    assert (str(as_ann["To"]), str(as_ann["Subject"])) == ("boss@example.com", "[Test] News for Ann Lee")
    assert "gold" in as_ann.as_string()
    assert "[plan]" in plain.as_string()
    assert await desk.status(campaign_id) == "DRAFT"
    assert await desk.addresses(campaign_id) == []
    assert await desk.audit_actions(campaign_id) == ["create", "test", "test"]
    for wrong in ([], ["nobody"], [f"a{number}@example.com" for number in range(21)]):
        with pytest.raises(InvalidInput):
            await desk.campaigns.test_send(OPERATOR, campaign_id, wrong)


@pytest.mark.parametrize(
    ("broken", "field"),
    [({"subject": "News for {{ name"}, "subject"), ({"body": "<p>{% if %}</p>"}, "body")],
    ids=["subject", "body"],
)
async def test_broken_variant_is_reported_at_its_own_field(
    desk: CampaignHarness, broken: dict[str, str], field: str
) -> None:
    await join(desk.database, [address_of(number) for number in range(10)])
    campaign_id = await desk.create(experiment={**TEST, "variants": [{"name": "A"}, {"name": "B", **broken}]})
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert {problem.field for problem in refused.value.problems} == {f"experiment.variants[1].{field}"}
    with pytest.raises(CampaignNotStartable) as not_sent:
        await desk.campaigns.test_send(OPERATOR, campaign_id, ["desk@example.com"])
    assert {problem.field for problem in not_sent.value.problems} == {f"experiment.variants[1].{field}"}


async def test_test_send_of_an_ab_test_contains_every_variant(desk: CampaignHarness) -> None:
    await a_contact(desk.database, "ann@example.com")
    campaign_id = await desk.create(experiment=TEST)
    provider = ScriptedProvider()
    await desk.campaigns.test_send(OPERATOR, campaign_id, ["desk@example.com"])
    await desk.bench.drain(provider)
    subjects = sorted(str(read(message)["Subject"]) for message in provider.messages)
    assert subjects == ["[Test] News for Jane Doe", "[Test] Other news for Jane Doe"]


# A/B tests.


async def clicks(desk: CampaignHarness, provider: ScriptedProvider, subject: str, count: int) -> None:
    """Report clicks of this many recipients of messages with the subject."""
    emails = [message for message in provider.messages if str(read(message)["Subject"]).startswith(subject)]
    now = desk.clock.now() + MINUTE
    await clicks_of(desk, emails[:count], now)


async def clicks_of(desk: CampaignHarness, emails: Sequence[OutgoingMessage], now: Instant) -> None:
    told = [
        Report(f"click-{message.outbox_id}-{now}-{again}", "ses", EventType.CLICKED, now, outbox_id=message.outbox_id)
        for message in emails
        for again in range(2)
    ]
    await desk.bench.engine.reports.receive(told)


async def test_report_names_variant_and_responses_of_each_recipient(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await clicks(desk, provider, "News", 1)
    await clicks(desk, provider, "Other", 7)
    for expected in ({"A": 10, "B": 10}, {"A": 10, "B": 90}):
        rows = await desk.report(campaign_id)
        assert Counter(row.variant for row in rows) == expected
        assert Counter(row.variant for row in rows if row.clicked_at is not None) == {"A": 1, "B": 7}
        assert not any(row.opened_at or row.unsubscribed_at for row in rows)
        desk.clock.advance(HOUR)
        await desk.bench.drain(provider)


async def test_clicks_of_the_last_seconds_do_not_decide(desk: CampaignHarness) -> None:
    """A link scanner begins to follow the links of all emails of a variant just before the decision."""
    campaign_id = await desk.start(100, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await clicks(desk, provider, "News", 1)
    await clicks(desk, provider, "Other", 7)
    desk.clock.advance(HOUR - 3 * SECOND)
    scanned = [message for message in provider.messages if str(read(message)["Subject"]).startswith("News")]
    await clicks_of(desk, scanned, desk.clock.now())
    desk.clock.advance(3 * SECOND)
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages[20:]} == {"Other news for Ann"}
    async with desk.database.read() as tx:
        entry = await find_entry(tx, (await desk.campaign(campaign_id)).key)
    assert entry is not None
    assert entry.content.decision is not None
    assert [(each.name, each.engaged) for each in entry.content.decision.results] == [("A", 1), ("B", 7)]


@pytest.mark.promise("campaign-experiment")
async def test_better_variant_is_sent_to_everyone_else(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    subjects = [str(read(message)["Subject"]) for message in provider.messages]
    assert sorted(subjects) == ["News for Ann"] * 10 + ["Other news for Ann"] * 10
    assert await desk.deferral(campaign_id) == ("waits_for_winner", HOUR)
    assert await desk.status(campaign_id) == "SENDING"
    await clicks(desk, provider, "News", 1)
    await clicks(desk, provider, "Other", 7)

    desk.clock.advance(HOUR - SECOND)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 20
    desk.clock.advance(SECOND)
    await desk.bench.drain(provider)
    assert [str(read(message)["Subject"]) for message in provider.messages[20:]] == ["Other news for Ann"] * 80
    assert len(set(recipients(provider))) == 100
    assert await desk.status(campaign_id) == "SENT"
    [decided] = [
        entry
        for entry in await list_entries(desk.database, tenant_id=None, limit=9, subject=campaign_id)
        if entry.action == "campaign.choose_winner"
    ]
    assert decided.actor == "figures"
    assert decided.detail["winner"] == "B"
    assert [each["answered"] for each in decided.detail["versions"]] == [1, 7]


@pytest.mark.promise("campaign-experiment")
@pytest.mark.parametrize(("first", "second"), [(0, 0), (4, 4), (1, 3)])
async def test_ab_test_without_clear_result_is_undecided(desk: CampaignHarness, first: int, second: int) -> None:
    campaign_id = await desk.start(100, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await clicks(desk, provider, "News", first)
    await clicks(desk, provider, "Other", second)
    desk.clock.advance(HOUR)
    await desk.bench.drain(provider)
    assert len(provider.messages) == 20
    assert (await desk.position(campaign_id)).defer_reason == "ab_test_undecided"
    assert (await desk.counts(campaign_id)).not_enqueued == 80
    why = await explain_campaign(
        desk.database, desk.clock, desk.bench.engine.defaults, campaign_id, tenant_id=DEFAULT_TENANT
    )
    assert (why.state, why.reason, why.until) == ("held", "ab_test_undecided", None)
    assert [(action.parameters or {})["version"] for action in why.actions] == ["A", "B"]
    assert "undecided" in campaign_text(why).sentence

    await desk.campaigns.pause(OPERATOR, campaign_id)
    await desk.campaigns.resume(OPERATOR, campaign_id)
    await desk.edit_limits(campaign_id, ratePerHour=1_000)
    await desk.run_scheduler()
    assert (await desk.position(campaign_id)).defer_reason == "ab_test_undecided"
    await desk.campaigns.choose_winner(OPERATOR, campaign_id, "B")
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages[20:]} == {"Other news for Ann"}
    assert await desk.status(campaign_id) == "SENT"
    expected = ["create", "start", "ab_test_undecided", "pause", "resume", "edit_limits", "choose_winner"]
    assert await desk.audit_actions(campaign_id) == expected


@pytest.mark.promise("campaign-experiment")
async def test_undecided_test_sends_the_variant_of_its_setting(desk: CampaignHarness) -> None:
    await desk.start(100, experiment={**TEST, "ifUndecided": "B"})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    desk.clock.advance(HOUR)
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages[20:]} == {"Other news for Ann"}


@pytest.mark.promise("campaign-experiment")
async def test_manual_test_waits_for_a_person(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, experiment={**TEST, "winnerBy": "manual"})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await clicks(desk, provider, "Other", 9)
    desk.clock.advance(HOUR)
    await desk.bench.drain(provider)
    assert (await desk.position(campaign_id)).defer_reason == "ab_test_undecided"
    numbers = await load_numbers(desk.database, await desk.campaign(campaign_id))
    assert numbers is not None
    assert numbers.ab_test is not None
    assert [(each.engaged, each.probability > 0.99) for each in numbers.ab_test.evidence] == [(0, False), (9, True)]
    await desk.campaigns.choose_winner(OPERATOR, campaign_id, "A")
    await desk.bench.drain(provider)
    assert len(provider.messages) == 100


async def test_small_ab_test_is_a_warning(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(number) for number in range(40)])
    campaign = await desk.campaign(await desk.create(experiment=TEST))
    found = await check_campaign(
        desk.database,
        desk.bench.engine.templates,
        campaign.definition,
        tenant_id=DEFAULT_TENANT,
        now=desk.clock.now(),
    )
    [warning] = [each for each in found.warnings if each.code == "SMALL_AB_TEST"]
    assert "about 4 recipients" in warning.sentence


@pytest.mark.promise("campaign-experiment")
async def test_ab_test_keeps_its_end_after_a_pause(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(50, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    tried = len(provider.messages)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    desk.clock.advance(30 * MINUTE)
    await desk.campaigns.resume(OPERATOR, campaign_id)
    assert await desk.deferral(campaign_id) == ("waits_for_winner", 30 * MINUTE)
    await desk.edit_limits(campaign_id, ratePerHour=1_000)
    assert await desk.deferral(campaign_id) == ("waits_for_winner", 30 * MINUTE)
    await clicks(desk, provider, "News", tried // 2)
    desk.clock.advance(30 * MINUTE)
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages[tried:]} == {"News for Ann"}
    assert len(provider.messages) == 50


@pytest.mark.promise("campaign-experiment")
async def test_person_can_choose_the_winner_early(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    with pytest.raises(InvalidInput, match="A, B"):
        await desk.campaigns.choose_winner(OPERATOR, campaign_id, "C")
    seen = review_started(await desk.campaign(campaign_id))
    await desk.edit_limits(campaign_id, ratePerHour=1_000)
    with pytest.raises(ChangedSinceReview, match="limits"):
        await desk.campaigns.choose_winner(OPERATOR, campaign_id, "B", reviewed=seen)
    seen = review_started(await desk.campaign(campaign_id))
    await desk.campaigns.choose_winner(OPERATOR, campaign_id, "B", reviewed=seen)
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages[20:]} == {"Other news for Ann"}
    assert await desk.status(campaign_id) == "SENT"
    with pytest.raises(NotPossibleNow):
        await desk.campaigns.choose_winner(OPERATOR, campaign_id, "A")
    assert await desk.audit_actions(campaign_id) == ["create", "start", "edit_limits", "choose_winner"]


async def test_variants_for_the_whole_audience_need_no_winner(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(40, experiment={**TEST, "testPercent": 100})
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert len(provider.messages) == 40
    assert await desk.status(campaign_id) == "SENT"


@pytest.mark.promise("campaign-experiment")
async def test_variants_alternate_in_the_test_group(desk: CampaignHarness, small_batches: None) -> None:
    await desk.start(16, experiment=TEST)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    subjects = [str(read(message)["Subject"]) for message in provider.messages]
    assert sorted(recipients(provider)) == [address_of(number) for number in (0, 5, 10, 15)]
    assert sorted(subjects) == ["News for Ann"] * 2 + ["Other news for Ann"] * 2


@pytest.mark.promise("campaign-experiment")
async def test_ab_test_with_too_few_recipients_is_refused(desk: CampaignHarness) -> None:
    await join(desk.database, [address_of(number) for number in range(5)])
    campaign_id = await desk.create(experiment=TEST)
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert [problem.code for problem in refused.value.problems] == ["TOO_FEW_FOR_TEST"]
    await join(desk.database, [address_of(5)])
    await desk.campaigns.start(OPERATOR, campaign_id)
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    assert {str(read(message)["Subject"]) for message in provider.messages} == {"News for Ann", "Other news for Ann"}


@pytest.mark.promise("campaign-refusals")
async def test_unknown_variable_is_reported_with_an_empty_audience(desk: CampaignHarness) -> None:
    await a_list(desk.database)
    campaign_id = await desk.create()
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert {each.code for each in refused.value.problems} == {"NO_RECIPIENTS", "MISSING_VARIABLE"}
    await join(desk.database, [address_of(1)], "others")
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert {each.code for each in refused.value.problems} == {
        "NO_RECIPIENTS"
    }  # a contact of another list has the attribute


async def test_segment_cannot_extend_a_campaign_without_filter(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2)
    await desk.bench.drain(ScriptedProvider())
    await segments.create(desk.database, desk.clock, DEFAULT_TENANT, "pro", filter_={"attribute": "plan", "is": "pro"})
    await join(desk.database, [address_of(9)])
    with pytest.raises(InvalidInput, match="no filter") as refused:
        await desk.campaigns.extend(OPERATOR, campaign_id, segment="pro")
    assert refused.value.field == "segment"


@pytest.mark.promise("campaign-control")
async def test_doubt_resolved_after_cancellation_is_cancelled(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(2)
    await desk.bench.drain(ScriptedProvider(UNKNOWN, UNKNOWN))
    await desk.campaigns.cancel(OPERATOR, campaign_id)
    await desk.run_scheduler()
    assert (await desk.counts(campaign_id)).in_doubt == 2
    rows = await desk.report(campaign_id)
    operations = Operations(desk.database, desk.clock)
    await operations.resolve(rows[0].message_id, Resolution.SENT, tenant_id=None)
    await operations.resolve(rows[1].message_id, Resolution.RESEND, tenant_id=None)
    await CampaignScheduler(desk.database, desk.clock).tick()
    counts = await desk.counts(campaign_id)
    assert (counts.sent, counts.cancelled, counts.waiting) == (1, 1, 0)


async def test_forecast_includes_the_wait_for_a_winner(desk: CampaignHarness) -> None:
    campaign_id = await desk.start(100, experiment=TEST)
    defaults = DefaultLimits(Limits())

    async def foreseen() -> tuple[list[tuple[int, str | None]], int | None]:
        told = await forecast(desk.database, desk.clock, defaults, tenant_id=None, measured_rate=1_000.0)
        [course] = [each for each in told.campaigns if each.campaign_id == campaign_id]
        spans = [(span.sent, span.reason) for span in course.segments if span.sent or span.reason == AWAITING_WINNER]
        ends = None if course.finishes_at is None else course.finishes_at - desk.clock.now()
        return spans, ends

    wait = TEST["waitMinutes"] * MINUTE
    tries = TEST["testPercent"]
    expected = [(tries, None), (0, AWAITING_WINNER), (100 - tries, None)]
    spans, ends = await foreseen()
    assert spans == expected
    assert ends is not None
    assert wait <= ends <= wait + SECOND
    provider = ScriptedProvider()
    await desk.bench.drain(provider)
    await clicks(desk, provider, "News", tries // 2)
    spans, ends = await foreseen()
    assert spans == expected[1:]
    assert ends is not None
    assert wait <= ends <= wait + SECOND
    desk.clock.advance(wait)
    await desk.run_scheduler()
    spans, _ = await foreseen()
    assert sum(sent for sent, _ in spans) == 100 - tries
