"""Every completed call of a provider is an attempt with a number, and the number decides the delay before the next."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.results import ErrorCategory, SendResult
from mailwright.domain.states import EventType
from mailwright.outbox.message_records import MessageRecord, dead_letters
from mailwright.providers.route import Route
from mailwright.sources.message_limits import explain_message
from mailwright.texts.explanations import message_text
from tests.builders import DEFAULT_TENANT, FAULT, THROTTLE, Bench, a_bench, a_message, deliveries_of
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider

UNAVAILABLE = replace(FAULT, code="SES_SERVICE_UNAVAILABLE", blames_provider=True, is_deferral=True)
TIMEOUT = replace(UNAVAILABLE, code="SES_TIMEOUT", category=ErrorCategory.TIMEOUT)
TEMPORARY = replace(FAULT, code="SMTP_TEMPORARY_FAILURE", is_deferral=True)
REFUSED = replace(UNAVAILABLE, code="NETWORK_ERROR", is_completed=False)
DELAYS = (SECOND, 5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE)

troubles = pytest.mark.parametrize(
    "trouble", [THROTTLE, UNAVAILABLE, TIMEOUT, TEMPORARY, FAULT], ids=lambda result: str(result.code)
)


@pytest.fixture
async def limited(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock, max_attempts=5) as bench:
        yield bench


async def attempt(bench: Bench, outbox_id: str, trouble: SendResult, times: int) -> MessageRecord:
    """Send a message when it is due, until it has been attempted this often."""
    provider = ScriptedProvider(*[trouble] * 1_000)
    route = Route.of(provider, bench.clock)
    await bench.drain(route)
    while len(provider.messages) < times:
        [row] = await deliveries_of(bench.database)
        bench.clock.advance(max(SECOND, row.next_attempt_at - bench.clock.now()))
        await bench.drain(route)
    return await bench.record(outbox_id)


def delays_of(record: MessageRecord) -> list[int]:
    return [event.metadata["backoffDelay"] for event in record.events if event.type is EventType.RETRY_SCHEDULED]


@pytest.mark.promise("attempts-are-numbered")
@troubles
async def test_first_delays_are_those_of_the_schedule(bench: Bench, trouble: SendResult) -> None:
    (outbox_id,) = await bench.accept(a_message())
    record = await attempt(bench, outbox_id, trouble, 5)
    for delay, base in zip(delays_of(record), DELAYS, strict=False):
        assert 0.75 * base <= delay <= 1.25 * base
    assert len(delays_of(record)) == (4 if trouble is FAULT else 5)


@pytest.mark.promise("attempts-are-numbered")
@troubles
async def test_every_call_has_its_number_in_events_and_record(bench: Bench, trouble: SendResult) -> None:
    (outbox_id,) = await bench.accept(a_message())
    record = await attempt(bench, outbox_id, trouble, 4)
    assert record.summary.attempts == 4
    for kind in (EventType.RECEIVED, EventType.SENT_ATTEMPT, EventType.RETRY_SCHEDULED):
        assert [event.metadata["attempt"] for event in record.events if event.type is kind] == [1, 2, 3, 4]
    retries = [event for event in record.events if event.type is EventType.RETRY_SCHEDULED]
    assert [event.metadata["nextAttemptNumber"] for event in retries] == [2, 3, 4, 5]


@pytest.mark.promise("attempts-are-numbered")
async def test_refused_connection_is_no_attempt(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    record = await attempt(bench, outbox_id, REFUSED, 3)
    assert record.summary.attempts == 0
    assert {event.metadata["attempt"] for event in record.events if event.type is EventType.RETRY_SCHEDULED} == {1}


@pytest.mark.promise("attempts-are-numbered")
@troubles
async def test_maximum_of_attempts_ends_a_message_whatever_its_errors(limited: Bench, trouble: SendResult) -> None:
    (outbox_id,) = await limited.accept(a_message())
    record = await attempt(limited, outbox_id, trouble, 5)
    assert (record.summary.status, record.summary.error_code) == ("FAILED", "MAX_ATTEMPTS_EXCEEDED")
    assert (record.summary.attempts, len(delays_of(record))) == (5, 4)
    [dead_letter] = await dead_letters(limited.database, DEFAULT_TENANT, limit=10)
    assert (dead_letter.code, dead_letter.attempts) == ("MAX_ATTEMPTS_EXCEEDED", 5)


@pytest.mark.promise("attempts-are-numbered")
async def test_throttled_message_is_retried_until_its_lifetime_ends(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    provider = ScriptedProvider(*[THROTTLE] * 1_000)
    route = Route.of(provider, bench.clock)
    for _ in range(DAY // HOUR):
        await bench.drain(route)
        bench.clock.advance(HOUR)
    assert (await bench.record(outbox_id)).summary.status == "RETRY_SCHEDULED"
    await bench.drain(route)
    record = await bench.record(outbox_id)
    assert (record.summary.error_code, record.summary.attempts) == ("LIFETIME_EXCEEDED", len(provider.messages))


async def test_explanation_counts_the_same_attempts(bench: Bench, limited: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    await attempt(bench, outbox_id, THROTTLE, 2)
    await attempt(bench, outbox_id, FAULT, 1)
    [row] = await deliveries_of(bench.database)
    assert (row.attempts, row.excused_attempts) == (3, 2)
    found = await explain_message(bench.database, bench.clock, bench.engine.defaults, outbox_id, tenant_id=None)
    assert (found.attempts, found.max_attempts) == (3, 7)
    assert "SMTP" not in message_text(found).sentence
    found = await explain_message(bench.database, bench.clock, limited.engine.defaults, outbox_id, tenant_id=None)
    assert (found.attempts, found.max_attempts) == (3, 5)
