"""A message that may have been sent is never silently resent or dropped, on both engines."""

import asyncio
from dataclasses import replace

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.message import Claimed, NewMessage
from mailwright.domain.report import Report
from mailwright.domain.results import SendResult
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.events.reports import Reports
from mailwright.outbox.audit import audit
from mailwright.outbox.message_records import dead_letters
from mailwright.outbox.operations import Operations
from mailwright.outbox.sending_hold import HoldReason, SendingHold, doubt_due, end_hold, record_hold
from mailwright.storage.database import Database
from tests.builders import (
    FAULT,
    LOCK_TTL,
    MISCONFIGURED,
    REFUSAL,
    SENT,
    THROTTLE,
    UNKNOWN,
    Attempt,
    a_message,
    a_newsletter,
    a_result,
    a_settler,
    an_acceptor,
    an_in_doubt_handler,
    attempt_steps,
    claims_of,
    deliveries_of,
    record_of,
    status_of,
    statuses,
    steps,
    the_event,
)

E = EventType


async def an_attempt(database: Database, clock: ManualClock, message: NewMessage | None = None) -> Claimed:
    """A worker has begun an attempt."""
    await an_acceptor(database, clock).accept([message or a_message()])
    (claimed,) = await claims_of(database, clock, "slow").claim(1)
    await a_settler(database, clock).exchange([], [claimed])
    return claimed


async def a_lost_attempt(database: Database, clock: ManualClock, message: NewMessage | None = None) -> Claimed:
    claimed = await an_attempt(database, clock, message)
    clock.advance(LOCK_TTL)
    return claimed


@pytest.mark.promise("doubt-hold")
async def test_attempt_of_a_lost_worker_is_put_in_doubt(database: Database, clock: ManualClock) -> None:
    attempted_at = clock.now()
    claimed = await a_lost_attempt(database, clock)
    assert await an_in_doubt_handler(database, clock).mark_lost_attempts() == 1
    record = await record_of(database, claimed.outbox_id)
    assert (record.summary.status, record.summary.error_code) == (Status.IN_DOUBT, "WORKER_LOST")
    assert steps(record) == attempt_steps(E.IN_DOUBT)  # The recovery writes what the lost worker could not write.
    assert [event.at for event in record.events] == [attempted_at] * 3 + [clock.now()]
    assert {event.metadata["attempt"] for event in record.events} == {1}
    assert (await audit(database)).in_doubt == 1


@pytest.mark.promise("doubt-hold")
async def test_attempt_with_a_valid_lease_is_not_in_doubt(database: Database, clock: ManualClock) -> None:
    await an_attempt(database, clock)
    clock.advance(LOCK_TTL - 1)
    assert await an_in_doubt_handler(database, clock).mark_lost_attempts() == 0


@pytest.mark.promise("doubt-hold")
async def test_claimed_message_without_an_attempt_is_not_in_doubt(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    await claims_of(database, clock, "dead").claim(1)
    clock.advance(LOCK_TTL)
    assert await an_in_doubt_handler(database, clock).mark_lost_attempts() == 0
    assert len(await claims_of(database, clock).claim_suspects(1)) == 1


async def test_message_without_an_attempt_has_no_number_after_a_doubt(database: Database, clock: ManualClock) -> None:
    message = a_message()
    await an_acceptor(database, clock).accept([message])
    hold = SendingHold(HoldReason.FAILED_OVER, clock.now(), "")
    async with database.write() as tx:
        await record_hold(tx, hold)
    assert await doubt_due(database, hold, clock.now()) == 1
    async with database.write() as tx:
        await end_hold(tx, hold.reason)
    clock.advance(DAY)
    assert await an_in_doubt_handler(database, clock).decide_due() == 1
    record = await record_of(database, message.outbox_id)
    assert (record.summary.status, record.summary.attempts) == (Status.RETRY_SCHEDULED, 0)
    assert the_event(record, E.RETRY_SCHEDULED).metadata["nextAttemptNumber"] == 1


@pytest.mark.promise("doubt-resend-once")
async def test_transactional_message_in_doubt_is_resent_once(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock)
    doubts, settling = an_in_doubt_handler(database, clock), a_settler(database, clock)
    await doubts.mark_lost_attempts()
    assert await doubts.decide_due() == 1
    record = await record_of(database, claimed.outbox_id)
    assert record.summary.status == Status.RETRY_SCHEDULED
    assert the_event(record, E.RETRY_SCHEDULED).metadata["reason"] == "in_doubt_resend"

    (again,) = await claims_of(database, clock).claim(1)
    assert (again.outbox_id, again.resends) == (claimed.outbox_id, 1)
    await settling.exchange([], [again])
    clock.advance(LOCK_TTL)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.IN_DOUBT
    clock.advance(DAY)
    await doubts.decide_due()
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.CLOSED_UNKNOWN
    assert await claims_of(database, clock).claim(1) == []
    counted = await audit(database)
    assert (counted.closed_unknown, counted.resent_in_doubt, counted.ok) == (1, 1, True)


@pytest.mark.promise("doubt-hold")
async def test_bulk_message_in_doubt_is_closed_after_a_day(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock, a_newsletter())
    doubts = an_in_doubt_handler(database, clock)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    clock.advance(DAY - 1)
    assert await doubts.decide_due() == 0
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.IN_DOUBT
    clock.advance(1)
    assert await doubts.decide_due() == 1
    record = await record_of(database, claimed.outbox_id)
    assert record.summary.status == Status.CLOSED_UNKNOWN
    assert steps(record) == [*attempt_steps(E.IN_DOUBT), E.CLOSED_UNKNOWN]
    assert (await audit(database)).resent_in_doubt == 0


@pytest.mark.promise("doubt-hold")
async def test_expired_message_in_doubt_is_not_resent(database: Database, clock: ManualClock) -> None:
    expiring = a_message(expires_at=clock.now() + LOCK_TTL)
    claimed = await a_lost_attempt(database, clock, expiring)
    doubts = an_in_doubt_handler(database, clock)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.IN_DOUBT
    clock.advance(DAY)
    await doubts.decide_due()
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.CLOSED_UNKNOWN


async def test_message_in_doubt_waits_for_the_provider_report(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock)
    doubts = an_in_doubt_handler(database, clock, grace=10 * MINUTE)
    await doubts.mark_lost_attempts()
    clock.advance(10 * MINUTE - 1)
    assert await doubts.decide_due() == 0
    clock.advance(1)
    assert await doubts.decide_due() == 1
    assert (await record_of(database, claimed.outbox_id)).summary.status == Status.RETRY_SCHEDULED


@pytest.mark.parametrize("decided", [False, True], ids=["in doubt", "resend pending"])
@pytest.mark.parametrize("result", [SENT, REFUSAL], ids=["sent", "refused"])
async def test_result_of_a_slow_worker_ends_the_doubt(
    database: Database, clock: ManualClock, decided: bool, result: object
) -> None:
    claimed = await a_lost_attempt(database, clock)
    doubts = an_in_doubt_handler(database, clock)
    await doubts.mark_lost_attempts()
    if decided:
        await doubts.decide_due()
    await a_settler(database, clock).exchange([a_result(claimed, result, clock.now())], [])  # type: ignore[arg-type]
    record = await record_of(database, claimed.outbox_id)
    assert (record.summary.status, record.summary.attempts) == (Status.SENT if result is SENT else Status.FAILED, 1)
    assert record.events[-1].type == (E.SENT if result is SENT else E.FAILED)
    begun = [event.metadata["attempt"] for event in record.events if event.type is E.SENT_ATTEMPT]
    assert begun == [1]
    assert await claims_of(database, clock).claim(1) == []


@pytest.mark.parametrize("result", [SENT, REFUSAL], ids=["sent", "refused"])
async def test_each_attempt_has_one_pair_of_events(database: Database, clock: ManualClock, result: object) -> None:
    lost = await a_lost_attempt(database, clock)
    doubts, settling = an_in_doubt_handler(database, clock), a_settler(database, clock)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    (again,) = await claims_of(database, clock, "heir").claim(1)
    await settling.exchange([], [again])
    await settling.exchange([a_result(again, result, clock.now())], [])  # type: ignore[arg-type]
    await settling.exchange([a_result(lost, SENT, clock.now())], [])  # The first worker is back too late.
    record = await record_of(database, lost.outbox_id)
    pairs = [
        (event.type, event.metadata["attempt"])
        for event in record.events
        if event.type in (E.SENT_ATTEMPT, E.IN_DOUBT, E.SENT, E.FAILED)
    ]
    end = E.SENT if result is SENT else E.FAILED
    assert sorted(pairs) == sorted([(E.SENT_ATTEMPT, 1), (E.IN_DOUBT, 1), (E.SENT_ATTEMPT, 2), (end, 2)])
    assert (again.attempt, record.summary.attempts) == (2, 2)


async def test_result_of_a_slow_worker_is_ignored_after_a_claim(database: Database, clock: ManualClock) -> None:
    stale = await a_lost_attempt(database, clock)
    doubts, settling = an_in_doubt_handler(database, clock), a_settler(database, clock)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    (fresh,) = await claims_of(database, clock, "heir").claim(1)
    before = await record_of(database, stale.outbox_id)
    await settling.exchange([a_result(stale, SENT, clock.now())], [])
    assert await record_of(database, stale.outbox_id) == before

    await settling.exchange([], [fresh])
    await settling.exchange([a_result(stale, SENT, clock.now())], [])
    assert (await record_of(database, stale.outbox_id)).summary.status == Status.SENT_ATTEMPT
    await settling.exchange([a_result(fresh, SENT, clock.now())], [])
    await settling.exchange([a_result(stale, REFUSAL, clock.now())], [])
    assert (await record_of(database, stale.outbox_id)).summary.status == Status.SENT


async def test_slow_worker_that_sent_nothing_ends_the_doubt(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock, a_newsletter())
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await claims_of(database, clock, "slow").release([claimed])
    assert await an_in_doubt_handler(database, clock).decide_due() == 0
    (again,) = await claims_of(database, clock, "heir").claim(1)
    assert (again.claims, again.resends, again.attempts) == (1, 0, 0)


async def test_release_after_the_decision_changes_nothing(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock)
    doubts, slow = an_in_doubt_handler(database, clock), claims_of(database, clock, "slow")
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    await slow.release([claimed])
    (row,) = await deliveries_of(database)
    assert row.claims == 0
    (again,) = await claims_of(database, clock, "heir").claim(1)
    assert (again.claims, again.resends) == (1, 1)


async def test_message_whose_doubt_ended_is_due_at_once(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock, a_newsletter())
    doubts = an_in_doubt_handler(database, clock)
    await doubts.mark_lost_attempts()
    await doubts.decide_due()
    await claims_of(database, clock, "slow").release([claimed])
    assert len(await claims_of(database, clock, "heir").claim(1)) == 1


async def test_end_of_doubt_is_recorded_as_an_event(database: Database, clock: ManualClock) -> None:
    claimed = await a_lost_attempt(database, clock)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await claims_of(database, clock, "slow").release([claimed])
    assert (await record_of(database, claimed.outbox_id)).events[-1].type is not E.IN_DOUBT


async def test_result_that_is_written_twice_counts_once(database: Database, clock: ManualClock) -> None:
    """A worker writes its results again after a commit whose response was lost."""
    settling = a_settler(database, clock)
    for result, status in ((SENT, Status.SENT), (FAULT, Status.RETRY_SCHEDULED), (UNKNOWN, Status.IN_DOUBT)):
        claimed = await an_attempt(database, clock)
        settlement = a_result(claimed, result, clock.now(), doubt_grace=HOUR)
        for _ in range(3):
            await settling.exchange([settlement], [])
        record = await record_of(database, claimed.outbox_id)
        assert (record.summary.status, record.summary.attempts) == (status, 1)
        assert len(record.events) == 4


async def test_second_doubt_does_not_undo_the_decision(database: Database, clock: ManualClock) -> None:
    claimed = await an_attempt(database, clock)
    settlement = a_result(claimed, UNKNOWN, clock.now())
    settling = a_settler(database, clock)
    await settling.exchange([settlement], [])
    await an_in_doubt_handler(database, clock).decide_due()
    await settling.exchange([settlement], [])
    record = await record_of(database, claimed.outbox_id)
    assert (record.summary.status, record.summary.attempts) == (Status.RETRY_SCHEDULED, 1)
    assert steps(record) == [*attempt_steps(E.IN_DOUBT), E.RETRY_SCHEDULED]


@pytest.mark.promise("doubt-hold")
@pytest.mark.parametrize("rule", list(OnDoubt))
async def test_missing_response_is_decided_by_the_same_rule(
    database: Database, clock: ManualClock, rule: OnDoubt
) -> None:
    claimed = await an_attempt(database, clock, a_message(on_doubt=rule))
    await a_settler(database, clock).exchange([a_result(claimed, UNKNOWN, clock.now())], [])
    await an_in_doubt_handler(database, clock).decide_due()
    expected = Status.RETRY_SCHEDULED if rule is OnDoubt.RESEND else Status.IN_DOUBT
    assert (await record_of(database, claimed.outbox_id)).summary.status == expected


# A report on a resend.


def a_delivery(clock: ManualClock, outbox_id: str) -> Report:
    return Report(key="delivered", source="ses", type=E.DELIVERED, at=clock.now(), outbox_id=outbox_id)


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("answer", [THROTTLE, FAULT, MISCONFIGURED, REFUSAL], ids=lambda result: str(result.code))
async def test_report_settles_a_resend_that_failed_temporarily(
    database: Database, clock: ManualClock, answer: SendResult
) -> None:
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    held = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], held)
    settlement = a_result(held[0], answer, clock.now())
    await a_settler(database, clock).exchange([settlement], [])
    await Reports(database, clock).receive([a_delivery(clock, outbox_id)])
    assert await status_of(database, outbox_id) == Status.SENT
    clock.advance(DAY)
    assert await claims_of(database, clock).claim(1) == []
    record = await record_of(database, outbox_id)
    assert record.summary.error_code is None
    assert [event.type for event in record.events[-2:]] == [E.SENT, E.DELIVERED]


@pytest.mark.promise("doubt-report-settles")
async def test_report_removes_a_failed_resend_from_dead_letters(database: Database, clock: ManualClock) -> None:
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    for _ in range(5):
        held = await claims_of(database, clock).claim(1)
        await a_settler(database, clock).exchange([], held)
        await a_settler(database, clock).exchange([a_result(held[0], FAULT, clock.now())], [])
        clock.advance(HOUR)
        if await status_of(database, outbox_id) == Status.FAILED:
            break
    assert await status_of(database, outbox_id) == Status.FAILED
    assert len(await dead_letters(database, 1, limit=10)) == 1
    await Reports(database, clock).receive([a_delivery(clock, outbox_id)])
    assert await dead_letters(database, 1, limit=10) == []
    assert await status_of(database, outbox_id) == Status.SENT
    assert (await audit(database)).ok


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("answer", [THROTTLE, FAULT, MISCONFIGURED, REFUSAL], ids=lambda result: str(result.code))
async def test_report_during_a_resend_stops_the_next_resend(
    database: Database, clock: ManualClock, answer: SendResult
) -> None:
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    held = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], held)
    await Reports(database, clock).receive([a_delivery(clock, outbox_id)])
    assert await status_of(database, outbox_id) == Status.SENT_ATTEMPT
    await a_settler(database, clock).exchange([a_result(held[0], answer, clock.now())], [])
    assert await status_of(database, outbox_id) == Status.SENT
    clock.advance(DAY)
    assert await claims_of(database, clock).claim(1) == []
    record = await record_of(database, outbox_id)
    assert record.summary.error_code is None
    assert [event.type for event in record.events[-2:]] == [E.SENT, E.DELIVERED]
    assert await dead_letters(database, 1, limit=10) == []
    assert (await audit(database)).ok


@pytest.mark.parametrize("difference", [-HOUR, -1, HOUR])
async def test_report_counts_despite_a_wrong_receiver_clock(
    database: Database, clock: ManualClock, difference: int
) -> None:
    """The report arrived during the send, on a machine with another clock."""
    outbox_id = (await an_attempt(database, clock)).outbox_id
    elsewhere = ManualClock(clock.now() + difference)
    await Reports(database, elsewhere).receive([a_delivery(elsewhere, outbox_id)])
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    assert await status_of(database, outbox_id) == Status.SENT
    assert await claims_of(database, clock).claim(1) == []


@pytest.mark.parametrize("answer", [THROTTLE, FAULT, REFUSAL], ids=lambda result: str(result.code))
async def test_report_during_a_resend_counts_despite_wrong_clocks(
    database: Database, clock: ManualClock, answer: SendResult
) -> None:
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    held = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], held)
    behind = ManualClock(clock.now() - MINUTE)
    await Reports(database, behind).receive([a_delivery(behind, outbox_id)])
    await a_settler(database, clock).exchange([a_result(held[0], answer, clock.now())], [])
    assert await status_of(database, outbox_id) == Status.SENT


async def test_report_before_a_manual_retry_does_not_prove_the_retry(database: Database, clock: ManualClock) -> None:
    refused = await an_attempt(database, clock)
    await a_settler(database, clock).exchange([a_result(refused, REFUSAL, clock.now())], [])
    await Reports(database, clock).receive([a_delivery(clock, refused.outbox_id)])
    await Operations(database, clock).requeue(refused.outbox_id, tenant_id=None)
    again = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], again)
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    assert await status_of(database, refused.outbox_id) == Status.RETRY_SCHEDULED


@pytest.mark.promise("doubt-report-settles")
async def test_report_stops_a_manual_resend(database: Database, clock: ManualClock) -> None:
    """The provider had the message although the attempt failed."""
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    held = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], held)
    await a_settler(database, clock).exchange([a_result(held[0], REFUSAL, clock.now())], [])
    await Operations(database, clock).requeue(outbox_id, tenant_id=None)
    held = await claims_of(database, clock).claim(1)
    await Reports(database, clock).receive([a_delivery(clock, outbox_id)])
    assert await status_of(database, outbox_id) == Status.SENT
    assert (await a_settler(database, clock).exchange([], held)).message_keys == frozenset()
    assert (await audit(database)).ok


@pytest.mark.promise("doubt-report-settles")
@pytest.mark.parametrize("is_late", [False, True])
async def test_report_during_a_release_stops_the_next_resend(
    database: Database, clock: ManualClock, is_late: bool
) -> None:
    """The attempt was recorded but not sent: the worker stopped or lost its lease."""
    outbox_id = (await a_lost_attempt(database, clock)).outbox_id
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    claims = claims_of(database, clock)
    held = await claims.claim(1)
    await a_settler(database, clock).exchange([], held)
    await Reports(database, clock).receive([a_delivery(clock, outbox_id)])
    if is_late:
        clock.advance(LOCK_TTL)
        await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await claims.release(held)
    assert await status_of(database, outbox_id) == Status.SENT
    clock.advance(DAY)
    assert await claims.claim(1) == []
    assert (await audit(database)).ok


@pytest.mark.promise("doubt-report-settles")
async def test_report_and_response_at_once_settle_the_message(database: Database, clock: ManualClock) -> None:
    messages = [a_message() for _ in range(20)]
    await an_acceptor(database, clock).accept(messages)
    claims, settling = claims_of(database, clock), a_settler(database, clock)
    first = await claims.claim(20)
    await settling.exchange([], first)
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await an_in_doubt_handler(database, clock).decide_due()
    held = await claims.claim(20)
    await settling.exchange([], held)
    reports = Reports(database, clock)
    told = [replace(a_delivery(clock, each.outbox_id), key=each.outbox_id) for each in held]
    await asyncio.gather(
        *(reports.receive([each]) for each in told),
        *(settling.exchange([a_result(each, THROTTLE, clock.now())], []) for each in held),
    )
    assert await statuses(database) == {Status.SENT: 20}


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("definitely_not_sent", [True, False])
async def test_manual_retry_uses_the_provider_that_may_have_it(
    database: Database, clock: ManualClock, definitely_not_sent: bool
) -> None:
    [accepted] = await an_acceptor(database, clock).accept([a_message()])
    claims, settling = claims_of(database, clock), a_settler(database, clock)
    while claimed := await claims.claim(1):
        await settling.exchange([], [Attempt(claimed[0], "scripted")])
        answer = replace(FAULT, provider="scripted", definitely_not_sent=definitely_not_sent)
        await settling.exchange([a_result(claimed[0], answer, clock.now())], [])
        clock.advance(HOUR)
    assert await status_of(database, accepted.outbox_id) == Status.FAILED
    await Operations(database, clock).requeue(accepted.outbox_id, tenant_id=None)
    [again] = await claims.claim(1)
    assert (again.only_provider, again.attempts) == (None if definitely_not_sent else "scripted", 0)


async def test_lost_lease_keeps_the_provider_that_may_have_it(database: Database, clock: ManualClock) -> None:
    """The provider may have the message; a retry with the same provider lost its lease before it was sent."""
    await an_acceptor(database, clock).accept([a_message()])
    claims, settling = claims_of(database, clock, "slow"), a_settler(database, clock)
    [claimed] = await claims.claim(1)
    await settling.exchange([], [Attempt(claimed, "scripted")])
    perhaps = replace(FAULT, definitely_not_sent=False)
    await settling.exchange([a_result(claimed, perhaps, clock.now())], [])
    clock.advance(MINUTE)
    [again] = await claims.claim(1)
    assert again.only_provider == "scripted"
    await settling.exchange([], [Attempt(again, "scripted")])
    clock.advance(LOCK_TTL)
    await an_in_doubt_handler(database, clock).mark_lost_attempts()
    await claims.release([again])
    [third] = await claims_of(database, clock, "heir").claim(1)
    assert (third.only_provider, third.resends) == ("scripted", 0)
