"""Explanations of messages as data, on both engines: state, reason, end, limit, remedy and actions."""

from dataclasses import replace
from typing import Any

import pytest

from mailwright.audience import suppressions
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import (
    MAX_POSITION,
    ExplanationState,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Claimed, Delivered, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType, OnDoubt, Priority, Resolution, Status
from mailwright.events.reports import Reports
from mailwright.outbox.defer import defer, defer_lane
from mailwright.outbox.explain import explain
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.operations import Operations
from mailwright.outbox.workers import PRESENCE_TIMEOUT, WorkerPresence, WorkerRegistry
from mailwright.storage.database import Database
from tests.api import an_api
from tests.builders import LOCK_TTL, a_message, a_settler, an_acceptor, change_tenant, claims_of


class MessageUnderTest:
    """One message that a test moves from state to state and explains."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self.database = database
        self.clock = clock
        self.outbox_id = ""

    async def accept(self, **changes: Any) -> None:
        [accepted] = await an_acceptor(self.database, self.clock).accept([a_message(**changes)])
        self.outbox_id = accepted.outbox_id

    async def claim(self) -> Claimed:
        [claimed] = await claims_of(self.database, self.clock).claim(1)
        return claimed

    async def attempt(self) -> Claimed:
        claimed = await self.claim()
        await a_settler(self.database, self.clock).exchange([], [claimed])
        return claimed

    async def deliver(self) -> None:
        claimed, now = await self.attempt(), self.clock.now()
        delivered = Delivered(claimed, now, now, now, "smtp", "id-1")
        await a_settler(self.database, self.clock).exchange([delivered], [])

    async def settle(self, status: Status, **changes: Any) -> None:
        settlement = Settlement(await self.attempt(), status, (), completes_attempt=True, provider="smtp")
        await a_settler(self.database, self.clock).exchange([replace(settlement, **changes)], [])

    async def add_worker(self, **changes: Any) -> None:
        await WorkerRegistry(self.database, self.clock, "worker-9").report(WorkerPresence("smtp", **changes))

    async def explain(self, tenant_id: int | None = None) -> MessageExplanation:
        return await explain(self.database, self.clock, self.outbox_id, tenant_id=tenant_id)


@pytest.fixture
def message(database: Database, clock: ManualClock) -> MessageUnderTest:
    return MessageUnderTest(database, clock)


THROTTLED = {"error_code": "SMTP_THROTTLED", "error_category": ErrorCategory.QUOTA, "error_reason": "Slow down."}


async def test_sent_message_has_its_provider_and_time(message: MessageUnderTest) -> None:
    await message.accept()
    await message.deliver()
    sent_at = message.clock.now()
    message.clock.advance(3 * MINUTE)
    found = await message.explain()
    assert (found.state, found.provider, found.occurred_at) == (ExplanationState.SENT, "smtp", sent_at)
    assert (found.remedy, found.actions) == (None, ())


@pytest.mark.parametrize(
    ("verdict", "bounce", "is_suppressed"),
    [
        (ContactVerdict.HARD_BOUNCE, "hard_bounce", True),
        (ContactVerdict.COMPLAINT, "complaint", True),
        (ContactVerdict.SOFT_BOUNCE, "soft_bounce", False),
        (ContactVerdict.NOTHING, "bounce", False),
    ],
)
async def test_bounced_message_names_the_bounce_and_the_suppression(
    message: MessageUnderTest, verdict: ContactVerdict, bounce: str, is_suppressed: bool
) -> None:
    await message.accept(to="ada@example.com")
    await message.deliver()
    report = Report("1", "ses", EventType.BOUNCED, message.clock.now(), "ada@example.com", message.outbox_id)
    await Reports(message.database, message.clock).receive([replace(report, verdict=verdict)])
    found = await message.explain()
    assert (found.state, found.reason, found.bounce) == (ExplanationState.SENT, bounce, bounce)
    assert found.is_suppressed is is_suppressed
    assert found.remedy == (Remedy.ACTIVATE_ADDRESS if is_suppressed else None)


async def test_failed_message_has_its_error_and_can_be_retried(message: MessageUnderTest) -> None:
    await message.accept()
    await message.settle(Status.FAILED, error_code="SMTP_REFUSED", error_reason="No such user.")
    found = await message.explain()
    assert (found.state, found.reason) == (ExplanationState.FAILED, "SMTP_REFUSED")
    assert (found.error_reason, found.occurred_at) == ("No such user.", message.clock.now())
    assert found.remedy is Remedy.RETRY


async def test_message_to_a_dead_address_needs_another_address(message: MessageUnderTest) -> None:
    await message.accept(to="ada@example.com")
    await message.settle(Status.FAILED, error_code="SMTP_RECIPIENT_REJECTED", error_reason="No such user.")
    report = Report("1", "smtp", EventType.BOUNCED, message.clock.now(), "ada@example.com", message.outbox_id)
    await Reports(message.database, message.clock).receive([replace(report, verdict=ContactVerdict.HARD_BOUNCE)])
    found = await message.explain()
    assert (found.state, found.reason) == (ExplanationState.FAILED, "SMTP_RECIPIENT_REJECTED")
    assert (found.bounce, found.is_suppressed, found.recipient) == ("hard_bounce", True, "ada@example.com")
    assert found.remedy is Remedy.OTHER_ADDRESS


async def test_soft_bounced_message_may_be_retried(message: MessageUnderTest) -> None:
    await message.accept(to="ada@example.com")
    await message.settle(Status.FAILED, error_code="SMTP_MAILBOX_FULL", error_reason="Over quota.")
    report = Report("1", "smtp", EventType.BOUNCED, message.clock.now(), "ada@example.com", message.outbox_id)
    await Reports(message.database, message.clock).receive([replace(report, verdict=ContactVerdict.SOFT_BOUNCE)])
    assert (await message.explain()).remedy is Remedy.RETRY


@pytest.mark.parametrize("code", ["INVALID_EMAIL", "INVALID_TEMPLATE", "RECIPIENT_NOT_FOUND", "EXPIRED"])
async def test_invalid_message_needs_a_corrected_one(message: MessageUnderTest, code: str) -> None:
    await message.accept()
    await message.settle(Status.FAILED, error_code=code, error_reason="It is wrong.")
    assert (await message.explain()).remedy is Remedy.CORRECTED_MESSAGE


async def test_suppressed_recipient_must_be_activated_before_a_retry(message: MessageUnderTest) -> None:
    await message.accept(to="ada@example.com")
    await message.settle(Status.FAILED, error_code="RECIPIENT_SUPPRESSED", error_reason="unsubscribed")
    found = await message.explain()
    assert (found.remedy, found.is_suppressed) == (Remedy.ACTIVATE_AND_RETRY, False)
    await suppressions.add(message.database, message.clock, 1, "ada@example.com", reason="manual", source="test")
    found = await message.explain()
    assert (found.remedy, found.is_suppressed) == (Remedy.ACTIVATE_AND_RETRY, True)


async def test_cancelled_message_needs_a_new_one(message: MessageUnderTest) -> None:
    await message.accept()
    await Operations(message.database, message.clock).cancel(message.outbox_id, tenant_id=None)
    found = await message.explain()
    assert (found.state, found.remedy) == (ExplanationState.CANCELLED, Remedy.NEW_MESSAGE)


async def test_closed_message_advises_to_ask_the_recipient(message: MessageUnderTest) -> None:
    await message.accept()
    await message.settle(Status.IN_DOUBT, error_code="SMTP_CUT", error_reason="The line went dead.")
    await Operations(message.database, message.clock).resolve(message.outbox_id, Resolution.CLOSE, tenant_id=None)
    found = await message.explain()
    assert (found.state, found.remedy) == (ExplanationState.CLOSED_UNKNOWN, Remedy.ASK_RECIPIENT)


async def test_scheduled_message_has_its_send_time(message: MessageUnderTest) -> None:
    later = message.clock.now() + 2 * DAY
    await message.accept(scheduled_at=later)
    found = await message.explain()
    assert (found.state, found.reason, found.until) == (ExplanationState.SCHEDULED, "scheduled_at", later)


async def test_deferred_lane_names_the_limit_and_its_end(message: MessageUnderTest) -> None:
    await message.accept()
    await message.add_worker()
    until = message.clock.now() + HOUR
    await defer_lane(message.database, lane_number(Priority.TRANSACTIONAL, 1), "rate_per_hour", until)
    found = await message.explain()
    assert (found.state, found.reason, found.until) == (ExplanationState.HELD, "rate_per_hour", until)
    assert found.limit == ReachedLimit("rate_per_hour", LimitScope.INSTALLATION, "default")
    assert found.remedy is Remedy.CHANGE_LIMIT
    await change_tenant(message.database, rate_per_hour=100)
    limit = (await message.explain()).limit
    assert limit == ReachedLimit("rate_per_hour", LimitScope.TENANT, "default", allowed=100)


async def test_deferral_that_has_ended_is_not_named(message: MessageUnderTest) -> None:
    await message.accept()
    lane = lane_number(Priority.TRANSACTIONAL, 1)
    await defer_lane(message.database, lane, "daily_limit", message.clock.now() + MINUTE)
    message.clock.advance(MINUTE)
    await message.add_worker()
    assert (await message.explain()).state is ExplanationState.IN_LINE


async def test_retry_has_the_error_and_the_next_attempt(message: MessageUnderTest) -> None:
    await message.accept()
    due_at = message.clock.now() + 5 * SECOND
    await message.settle(
        Status.RETRY_SCHEDULED, due_at=due_at, error_code="NETWORK_ERROR", error_reason="Connection refused."
    )
    found = await message.explain()
    assert (found.state, found.reason, found.until) == (ExplanationState.RETRYING, "NETWORK_ERROR", due_at)
    assert (found.error_reason, found.attempts, found.max_attempts) == ("Connection refused.", 1, 5)


@pytest.mark.parametrize(
    ("defer_reason", "state"),
    [
        ("provider_throttled", ExplanationState.THROTTLED),
        ("provider_unavailable", ExplanationState.PROVIDER_UNAVAILABLE),
    ],
)
async def test_provider_deferral_has_the_error_and_no_attempt(
    message: MessageUnderTest, defer_reason: str, state: ExplanationState
) -> None:
    await message.accept()
    due_at = message.clock.now() + 30 * SECOND
    await message.settle(
        Status.RETRY_SCHEDULED, due_at=due_at, defer_reason=defer_reason, completes_attempt=False, **THROTTLED
    )
    found = await message.explain()
    assert (found.state, found.until, found.remedy) == (state, due_at, Remedy.PROVIDER_RECOVERY)
    assert (found.error_code, found.error_reason, found.attempts) == ("SMTP_THROTTLED", "Slow down.", 0)


async def test_message_with_the_provider_names_its_worker(message: MessageUnderTest) -> None:
    await message.accept()
    await message.attempt()
    found = await message.explain()
    assert (found.state, found.worker) == (ExplanationState.SENDING, "worker-1")
    assert found.occurred_at == message.clock.now()


async def test_attempt_of_a_lost_worker_needs_another_worker(message: MessageUnderTest) -> None:
    await message.accept()
    await message.attempt()
    message.clock.advance(LOCK_TTL)
    found = await message.explain()
    assert (found.state, found.worker) == (ExplanationState.WORKER_LOST, "worker-1")
    assert found.remedy is Remedy.START_WORKER
    await message.add_worker()
    assert (await message.explain()).remedy is Remedy.NOT_NEEDED


async def test_claimed_message_names_its_worker_and_the_lease_end(message: MessageUnderTest) -> None:
    await message.accept()
    await message.claim()
    found = await message.explain()
    assert (found.state, found.reason, found.worker) == (ExplanationState.CLAIMED, "worker-1", "worker-1")
    assert found.until == message.clock.now() + LOCK_TTL


async def test_message_whose_worker_died_is_a_suspect(message: MessageUnderTest) -> None:
    await message.accept()
    await message.claim()
    message.clock.advance(LOCK_TTL)
    await message.add_worker()
    found = await message.explain()
    assert (found.state, found.claims) == (ExplanationState.SUSPECT, 1)


async def test_message_in_doubt_names_when_it_is_resent(message: MessageUnderTest) -> None:
    await message.accept()
    await message.attempt()
    message.clock.advance(LOCK_TTL)
    await InDoubtHandler(message.database, message.clock, grace=10 * MINUTE).mark_lost_attempts()
    found = await message.explain()
    assert (found.state, found.reason) == (ExplanationState.IN_DOUBT, "WORKER_LOST")
    assert (found.until, found.will_resend) == (message.clock.now() + 10 * MINUTE, True)
    assert found.remedy is Remedy.RESOLVE


async def test_message_in_doubt_names_when_it_is_closed(message: MessageUnderTest) -> None:
    await message.accept(on_doubt=OnDoubt.HOLD)
    await message.settle(Status.IN_DOUBT, due_at=message.clock.now(), error_code="SMTP_CUT", error_reason="Cut.")
    in_doubt_since = message.clock.now()
    await InDoubtHandler(message.database, message.clock, grace=0).decide_due()
    found = await message.explain()
    assert (found.until, found.will_resend) == (in_doubt_since + DAY, False)


async def test_due_message_without_a_worker_needs_one(message: MessageUnderTest) -> None:
    await message.accept()
    found = await message.explain()
    assert (found.state, found.remedy) == (ExplanationState.NO_WORKER, Remedy.START_WORKER)
    await message.add_worker()
    assert (await message.explain()).state is ExplanationState.IN_LINE
    message.clock.advance(PRESENCE_TIMEOUT + 1)
    assert (await message.explain()).state is ExplanationState.NO_WORKER


async def test_unavailable_provider_is_named_with_its_error(message: MessageUnderTest) -> None:
    await message.accept()
    until = message.clock.now() + 20 * SECOND
    await message.add_worker(unavailable_until=until, unavailable_reason="SMTP_AUTH: the password is wrong.")
    found = await message.explain()
    assert (found.state, found.until) == (ExplanationState.PROVIDER_UNAVAILABLE, until)
    assert (found.provider, found.provider_error) == ("smtp", "SMTP_AUTH: the password is wrong.")


async def test_queued_message_counts_those_ahead_in_its_lane(message: MessageUnderTest) -> None:
    await an_acceptor(message.database, message.clock).accept([a_message() for _ in range(3)])
    await an_acceptor(message.database, message.clock).accept([a_message(priority=Priority.BULK, is_bulk=True)])
    await message.accept()
    await message.add_worker()
    assert (await message.explain()).ahead == 3
    await claims_of(message.database, message.clock).claim(3)
    assert (await message.explain()).ahead == 0


async def test_count_of_messages_ahead_is_bounded(message: MessageUnderTest) -> None:
    await an_acceptor(message.database, message.clock).accept([a_message() for _ in range(MAX_POSITION + 5)])
    await message.accept()
    await message.add_worker()
    assert (await message.explain()).ahead == MAX_POSITION + 1


async def test_busy_tenant_is_named_with_its_limit(message: MessageUnderTest) -> None:
    await change_tenant(message.database, max_in_flight=5)
    await message.accept()
    claimed = await message.claim()
    await defer(message.database, [(claimed, Deferral(message.clock.now() + 250, DeferReason.TENANT_CONCURRENCY))])
    found = await message.explain()
    assert (found.state, found.reason, found.remedy) == (
        ExplanationState.TENANT_BUSY,
        "max_in_flight",
        Remedy.CHANGE_LIMIT,
    )
    assert found.limit == ReachedLimit("max_in_flight", LimitScope.TENANT, "default", allowed=5)


async def test_expired_message_offers_no_action(message: MessageUnderTest) -> None:
    await message.accept(expires_at=message.clock.now() + MINUTE)
    await message.add_worker()
    message.clock.advance(MINUTE)
    found = await message.explain()
    assert (found.state, found.reason, found.actions) == (ExplanationState.EXPIRED, "EXPIRED", ())


async def test_message_of_another_tenant_is_not_explained(message: MessageUnderTest) -> None:
    await message.accept()
    assert (await message.explain(tenant_id=1)).outbox_id == message.outbox_id
    with pytest.raises(NotFound):
        await message.explain(tenant_id=2)
    message.outbox_id = "not-an-id"
    with pytest.raises(NotFound):
        await message.explain()


@pytest.mark.promise("explain-campaign")
async def test_json_has_the_sentence_and_its_parts(message: MessageUnderTest) -> None:
    later = message.clock.now() + HOUR
    await message.accept(scheduled_at=later)
    async with an_api(message.database, message.clock) as api:
        found = (await api.client.get(f"/v1/email/{message.outbox_id}/explain")).json()
    text = {"sentence", "whatWouldChange", "actions", "commands"}
    assert set(found) == {"detail", "heldSince", "outboxId", "state", "reason", "until", *text}
    assert found["until"] == "2027-01-15T09:00:00.000Z"
    assert found["state"] == "scheduled"
    assert found["sentence"] == "Scheduled for 09:00 UTC (in 60 minutes)."
    assert found["commands"] == [f"mailwright message cancel {message.outbox_id}"]
