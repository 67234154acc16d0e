"""Explaining, on both engines: for every state one sentence that says why, until when, and what would change it."""

from dataclasses import replace
from typing import Any

import pytest

from mailwright.audience import suppressions
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Claimed, Delivered, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType, OnDoubt, Priority, Resolution, Status
from mailwright.events.reports import Reports
from mailwright.outbox.defer import defer, defer_lane
from mailwright.outbox.explain import FURTHEST_PLACE, ExplanationState, MessageExplanation, duration, explain
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.operations import Operations
from mailwright.outbox.workers import PRESENCE_TIMEOUT, WorkerPresence, WorkerRegistry
from mailwright.storage.database import Database
from tests.builders import LOCK_TTL, a_message, a_settler, an_acceptor, claims_of


class Asked:
    """One message on one database, moved from state to state, and asked about."""

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

    async def worker(self, **changes: Any) -> None:
        await WorkerRegistry(self.database, self.clock, "worker-9").report(WorkerPresence("smtp", **changes))

    async def answer(self, tenant_id: int | None = None) -> MessageExplanation:
        return await explain(self.database, self.clock, self.outbox_id, tenant_id=tenant_id)


@pytest.fixture
def asked(database: Database, clock: ManualClock) -> Asked:
    return Asked(database, clock)


THROTTLED = {"error_code": "SMTP_THROTTLED", "error_category": ErrorCategory.QUOTA, "error_reason": "Slow down."}


async def test_a_sent_message_is_not_waiting(asked: Asked) -> None:
    await asked.accept()
    await asked.deliver()
    asked.clock.advance(3 * MINUTE)
    answer = await asked.answer()
    assert answer.state is ExplanationState.SENT
    assert answer.sentence == "It is not waiting: it was sent by smtp at 08:00:00 UTC (3 minutes ago)."


@pytest.mark.parametrize(
    ("verdict", "told", "is_final"),
    [
        (ContactVerdict.HARD_BOUNCE, "and bounced for good; no more mail goes to ada@example.com.", True),
        (ContactVerdict.COMPLAINT, "and its reader called it spam; no more mail goes to ada@example.com.", True),
        (ContactVerdict.SOFT_BOUNCE, "and bounced for now.", False),
        (ContactVerdict.NOTHING, "and bounced, which is not held against its address.", False),
    ],
)
async def test_a_sent_message_that_came_back_says_so_and_what_follows(
    asked: Asked, verdict: ContactVerdict, told: str, is_final: bool
) -> None:
    await asked.accept(to="ada@example.com")
    await asked.deliver()
    report = Report("1", "ses", EventType.BOUNCED, asked.clock.now(), "ada@example.com", asked.outbox_id)
    await Reports(asked.database, asked.clock).receive([replace(report, verdict=verdict)])
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (
        ExplanationState.SENT,
        "bounce" if verdict is ContactVerdict.NOTHING else verdict,
    )
    assert answer.sentence.endswith(told)
    assert ("contacts activate ada@example.com`" in (answer.what_would_change or "")) is is_final


async def test_a_failed_message_names_its_error_and_the_way_back(asked: Asked) -> None:
    await asked.accept()
    await asked.settle(Status.FAILED, error_code="SMTP_REFUSED", error_reason="No such user.")
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.FAILED, "SMTP_REFUSED")
    assert answer.sentence == "It is not waiting: it failed at 08:00:00 UTC (now) with SMTP_REFUSED: No such user."
    assert f"mailwright message retry {asked.outbox_id}" in (answer.what_would_change or "")


async def test_a_message_whose_address_is_dead_is_not_told_to_be_retried_first(asked: Asked) -> None:
    await asked.accept(to="ada@example.com")
    await asked.settle(Status.FAILED, error_code="SMTP_RECIPIENT_REJECTED", error_reason="No such user.")
    report = Report("1", "smtp", EventType.BOUNCED, asked.clock.now(), "ada@example.com", asked.outbox_id)
    await Reports(asked.database, asked.clock).receive([replace(report, verdict=ContactVerdict.HARD_BOUNCE)])
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.FAILED, "SMTP_RECIPIENT_REJECTED")
    assert answer.sentence.endswith("and bounced for good; no more mail goes to ada@example.com.")
    assert answer.what_would_change == (
        "Another address, in a new message. If ada@example.com is right after all, "
        f"`mailwright contact activate ada@example.com`, then `mailwright message retry {asked.outbox_id}`."
    )


async def test_a_message_that_bounced_for_now_may_be_retried(asked: Asked) -> None:
    await asked.accept(to="ada@example.com")
    await asked.settle(Status.FAILED, error_code="SMTP_MAILBOX_FULL", error_reason="Over quota.")
    report = Report("1", "smtp", EventType.BOUNCED, asked.clock.now(), "ada@example.com", asked.outbox_id)
    await Reports(asked.database, asked.clock).receive([replace(report, verdict=ContactVerdict.SOFT_BOUNCE)])
    answer = await asked.answer()
    assert answer.what_would_change == (
        f"Once the cause is gone, `mailwright message retry {asked.outbox_id}` gives it all its attempts again."
    )


@pytest.mark.parametrize("code", ["INVALID_EMAIL", "INVALID_TEMPLATE", "RECIPIENT_NOT_FOUND", "EXPIRED"])
async def test_a_message_that_is_itself_wrong_is_not_told_to_be_retried(asked: Asked, code: str) -> None:
    await asked.accept()
    await asked.settle(Status.FAILED, error_code=code, error_reason="It is wrong.")
    change = (await asked.answer()).what_would_change or ""
    assert "new message" in change
    assert "retry" not in change


async def test_a_suppressed_recipient_is_named_as_the_thing_to_change(asked: Asked) -> None:
    await asked.accept(to="ada@example.com")
    await asked.settle(Status.FAILED, error_code="RECIPIENT_SUPPRESSED", error_reason="unsubscribed")
    retry = f"then `mailwright message retry {asked.outbox_id}`."
    wish = "Take the address off the suppression list if that is right"
    assert (await asked.answer()).what_would_change == f"{wish}, {retry}"
    await suppressions.add(asked.database, asked.clock, 1, "ada@example.com", reason="manual", source="test")
    told = (await asked.answer()).what_would_change
    assert told == f"{wish}: `mailwright contact activate ada@example.com`, {retry}"


async def test_a_cancelled_message_is_not_waiting(asked: Asked) -> None:
    await asked.accept()
    await Operations(asked.database, asked.clock).cancel(asked.outbox_id, tenant_id=None)
    answer = await asked.answer()
    assert answer.state is ExplanationState.CANCELLED
    assert answer.sentence.startswith("It is not waiting: ")


async def test_a_doubt_that_was_closed_is_not_waiting(asked: Asked) -> None:
    await asked.accept()
    await asked.settle(Status.IN_DOUBT, error_code="SMTP_CUT", error_reason="The line went dead.")
    await Operations(asked.database, asked.clock).resolve(asked.outbox_id, Resolution.CLOSE, tenant_id=None)
    answer = await asked.answer()
    assert answer.state is ExplanationState.CLOSED_UNKNOWN
    assert answer.sentence.startswith("It is not waiting: ")


async def test_a_scheduled_message_tells_its_time(asked: Asked) -> None:
    later = asked.clock.now() + 2 * DAY
    await asked.accept(scheduled_at=later)
    answer = await asked.answer()
    assert (answer.state, answer.until) == (ExplanationState.SCHEDULED, later)
    assert "on 2027-01-17 at 08:00:00 UTC (in 2 days)" in answer.sentence


async def test_a_held_lane_tells_the_rule_and_its_end(asked: Asked) -> None:
    await asked.accept()
    await asked.worker()
    until = asked.clock.now() + HOUR
    await defer_lane(asked.database, lane_number(Priority.TRANSACTIONAL, 1), "rate_per_hour", until)
    answer = await asked.answer()
    assert (answer.state, answer.reason, answer.until) == (ExplanationState.HELD, "rate_per_hour", until)
    assert answer.sentence == (
        "It is held by the hourly limit of the tenant default until 09:00:00 UTC (in 60 minutes)."
    )
    assert "--rate-per-hour" in (answer.what_would_change or "")


async def test_a_hold_that_has_ended_holds_nothing(asked: Asked) -> None:
    await asked.accept()
    lane = lane_number(Priority.TRANSACTIONAL, 1)
    await defer_lane(asked.database, lane, "daily_limit", asked.clock.now() + MINUTE)
    asked.clock.advance(MINUTE)
    await asked.worker()
    assert (await asked.answer()).state is ExplanationState.IN_LINE


async def test_a_retry_tells_the_error_and_the_next_attempt(asked: Asked) -> None:
    await asked.accept()
    due_at = asked.clock.now() + 5 * SECOND
    await asked.settle(
        Status.RETRY_SCHEDULED, due_at=due_at, error_code="NETWORK_ERROR", error_reason="Connection refused."
    )
    answer = await asked.answer()
    assert (answer.state, answer.reason, answer.until) == (ExplanationState.RETRYING, "NETWORK_ERROR", due_at)
    assert answer.sentence == (
        "Attempt 1 failed with NETWORK_ERROR: Connection refused; "
        "attempt 2 of 5 follows at 08:00:05 UTC (in 5 seconds)."
    )


@pytest.mark.parametrize(
    ("defer_reason", "state"),
    [
        ("provider_throttled", ExplanationState.THROTTLED),
        ("provider_unavailable", ExplanationState.PROVIDER_UNAVAILABLE),
    ],
)
async def test_a_deferral_blames_the_provider_and_burns_no_attempt(
    asked: Asked, defer_reason: str, state: ExplanationState
) -> None:
    await asked.accept()
    due_at = asked.clock.now() + 30 * SECOND
    await asked.settle(
        Status.RETRY_SCHEDULED, due_at=due_at, defer_reason=defer_reason, completes_attempt=False, **THROTTLED
    )
    answer = await asked.answer()
    assert (answer.state, answer.until) == (state, due_at)
    assert "SMTP_THROTTLED: Slow down" in answer.sentence
    assert "does not count as an attempt" in answer.sentence


async def test_a_message_with_the_provider_is_being_sent_right_now(asked: Asked) -> None:
    await asked.accept()
    await asked.attempt()
    answer = await asked.answer()
    assert answer.state is ExplanationState.SENDING
    assert "is being sent right now: the worker worker-1" in answer.sentence


async def test_an_attempt_whose_worker_is_gone_becomes_a_doubt_next(asked: Asked) -> None:
    await asked.accept()
    await asked.attempt()
    asked.clock.advance(LOCK_TTL)
    answer = await asked.answer()
    assert answer.state is ExplanationState.WORKER_LOST
    assert "in doubt" in answer.sentence
    assert "mailwright worker" in (answer.what_would_change or "")


async def test_a_claimed_message_tells_who_has_it_and_for_how_long(asked: Asked) -> None:
    await asked.accept()
    await asked.claim()
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.CLAIMED, "worker-1")
    assert answer.until == asked.clock.now() + LOCK_TTL


async def test_a_message_whose_worker_died_is_handled_apart(asked: Asked) -> None:
    await asked.accept()
    await asked.claim()
    asked.clock.advance(LOCK_TTL)
    await asked.worker()
    answer = await asked.answer()
    assert answer.state is ExplanationState.SUSPECT
    assert "once" in answer.sentence


async def test_a_doubt_that_will_be_resent_tells_when(asked: Asked) -> None:
    await asked.accept()
    await asked.attempt()
    asked.clock.advance(LOCK_TTL)
    await InDoubtHandler(asked.database, asked.clock, grace=10 * MINUTE).mark_lost_attempts()
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.IN_DOUBT, "WORKER_LOST")
    assert answer.until == asked.clock.now() + 10 * MINUTE
    assert "sent once more, with the same Message-ID" in answer.sentence
    assert "message resolve" in (answer.what_would_change or "")


async def test_a_doubt_that_is_held_tells_when_it_is_closed(asked: Asked) -> None:
    await asked.accept(on_doubt=OnDoubt.HOLD)
    await asked.settle(Status.IN_DOUBT, due_at=asked.clock.now(), error_code="SMTP_CUT", error_reason="Cut.")
    doubted_at = asked.clock.now()
    await InDoubtHandler(asked.database, asked.clock, grace=0).decide_due()
    answer = await asked.answer()
    assert answer.until == doubted_at + DAY
    assert "closed as unknown" in answer.sentence


async def test_a_due_message_without_a_worker_says_how_to_start_one(asked: Asked) -> None:
    await asked.accept()
    assert (await asked.answer()).state is ExplanationState.NO_WORKER
    assert (await asked.answer()).sentence == "It is due, but no worker is running; start `mailwright worker`."
    await asked.worker()
    assert (await asked.answer()).state is ExplanationState.IN_LINE
    asked.clock.advance(PRESENCE_TIMEOUT + 1)
    assert (await asked.answer()).state is ExplanationState.NO_WORKER


async def test_workers_that_leave_their_provider_alone_say_why_and_until_when(asked: Asked) -> None:
    await asked.accept()
    until = asked.clock.now() + 20 * SECOND
    await asked.worker(unavailable_until=until, unavailable_reason="SMTP_AUTH: the password is wrong.")
    answer = await asked.answer()
    assert (answer.state, answer.until) == (ExplanationState.PROVIDER_UNAVAILABLE, until)
    assert answer.sentence == (
        "It is due, but the provider smtp is left alone until 08:00:20 UTC (in 20 seconds) "
        "because SMTP_AUTH: the password is wrong."
    )


async def test_a_message_in_line_tells_its_place_in_its_own_lane(asked: Asked) -> None:
    await an_acceptor(asked.database, asked.clock).accept([a_message() for _ in range(3)])
    await an_acceptor(asked.database, asked.clock).accept([a_message(priority=Priority.BULK, is_bulk=True)])
    await asked.accept()
    await asked.worker()
    assert (await asked.answer()).sentence == "It is due and in line: 3 of its lane are due before it."
    await claims_of(asked.database, asked.clock).claim(3)
    assert (await asked.answer()).sentence == "It is due and in line: it is the next of its lane."


async def test_counting_a_place_ends_where_nobody_would_read_it(asked: Asked) -> None:
    await an_acceptor(asked.database, asked.clock).accept([a_message() for _ in range(FURTHEST_PLACE + 5)])
    await asked.accept()
    await asked.worker()
    assert "more than 1,000 messages" in (await asked.answer()).sentence


async def test_a_busy_tenant_is_named_with_the_limit_to_raise(asked: Asked) -> None:
    await asked.accept()
    claimed = await asked.claim()
    await defer(asked.database, [(claimed, Deferral(asked.clock.now() + 250, DeferReason.TENANT_CONCURRENCY))])
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.TENANT_BUSY, "max_in_flight")
    assert "mailwright tenant edit default --max-in-flight" in (answer.what_would_change or "")


async def test_an_expired_message_is_not_promised_to_anyone(asked: Asked) -> None:
    await asked.accept(expires_at=asked.clock.now() + MINUTE)
    await asked.worker()
    asked.clock.advance(MINUTE)
    answer = await asked.answer()
    assert (answer.state, answer.reason) == (ExplanationState.EXPIRED, "EXPIRED")


async def test_another_tenants_message_is_not_explained(asked: Asked) -> None:
    await asked.accept()
    assert (await asked.answer(tenant_id=1)).outbox_id == asked.outbox_id
    with pytest.raises(NotFound):
        await asked.answer(tenant_id=2)
    asked.outbox_id = "not-an-id"
    with pytest.raises(NotFound):
        await asked.answer()


@pytest.mark.promise("explain-as-data")
async def test_the_sentence_comes_with_its_parts(asked: Asked) -> None:
    later = asked.clock.now() + HOUR
    await asked.accept(scheduled_at=later)
    answer = (await asked.answer()).as_dict()
    assert set(answer) == {"detail", "outboxId", "sentence", "state", "reason", "until", "whatWouldChange"}
    assert answer["until"] == "2027-01-15T09:00:00.000Z"
    assert answer["state"] == "scheduled"


@pytest.mark.promise("explain-as-data")
@pytest.mark.parametrize(
    ("length", "words"),
    [(1, "less than a second"), (SECOND, "1 second"), (90 * SECOND, "90 seconds"), (7 * DAY - SECOND, "7 days")],
)
def test_durations_are_told_in_words(length: int, words: str) -> None:
    assert duration(length) == words
