"""Outages and temporary rejections with the worker: nothing is lost, and every call of a provider is an attempt."""

from dataclasses import replace

import pytest

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.domain.states import EventType
from mailwright.outbox.explain import explain
from mailwright.outbox.message_records import dead_letters
from mailwright.outbox.operations import Operations
from mailwright.outbox.summary import summarize_queue
from mailwright.providers.route import Route
from mailwright.texts.explanations import message_text
from tests.builders import DEFAULT_TENANT, FAULT, THROTTLE, Bench, a_message, a_newsletter, deliveries_of, the_event
from tests.standins.provider import ScriptedProvider

GREYLISTED = replace(FAULT, code="SMTP_TEMPORARY_FAILURE", is_deferral=True)
DOWN = replace(
    FAULT,
    code="NETWORK_ERROR",
    message="connection refused",
    blames_provider=True,
    is_deferral=True,
    is_completed=False,
)


async def pass_time(bench: Bench, provider: ScriptedProvider, length: Instant, step: Instant) -> None:
    """Let a new worker drain the queue after every step."""
    for _ in range(length // step):
        bench.clock.advance(step)
        await bench.drain(provider)


@pytest.mark.promise("deferrals-are-not-failures")
async def test_temporary_rejections_for_minutes_lose_nothing(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(30)))
    back_at = bench.clock.now() + 4 * MINUTE

    def answer(message: OutgoingMessage) -> SendResult:
        return GREYLISTED if bench.clock.now() <= back_at else sent("scripted", message.outbox_id)

    provider = ScriptedProvider(*[answer] * 1_000)
    await bench.drain(provider)
    await pass_time(bench, provider, 4 * MINUTE, 30 * SECOND)
    assert await bench.statuses() == {"RETRY_SCHEDULED": 30}
    await pass_time(bench, provider, 15 * MINUTE, 5 * MINUTE)
    assert await bench.statuses() == {"SENT": 30}
    assert {row.attempts for row in await deliveries_of(bench.database)} <= {4, 5, 6}
    assert len(provider.messages) == sum(row.attempts for row in await deliveries_of(bench.database))
    assert await dead_letters(bench.database, DEFAULT_TENANT, limit=10) == []


@pytest.mark.promise("deferrals-are-not-failures")
async def test_single_message_survives_refused_connections(bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message())
    provider = ScriptedProvider(*[DOWN] * 20)
    route = Route.of(provider, bench.clock)  # The circuit breaker outlives each worker.
    for _ in range(21):
        await bench.drain(route)
        bench.clock.advance(30 * SECOND)
    record = await bench.record(outbox_id)
    assert (record.summary.status, record.summary.attempts) == ("SENT", 1)
    assert len(provider.messages) == 21  # One attempt every 30 seconds.


@pytest.mark.promise("deferrals-are-not-failures")
@pytest.mark.parametrize(("kind", "hours"), [(a_message, 24), (a_newsletter, 72)], ids=["transactional", "bulk"])
async def test_dead_letter_only_after_the_lifetime(bench: Bench, kind: object, hours: int) -> None:
    [outbox_id] = await bench.accept(kind())  # type: ignore[operator]
    provider = ScriptedProvider(*[GREYLISTED] * 1_000)
    await bench.drain(provider)
    await pass_time(bench, provider, (hours - 3) * HOUR, 3 * HOUR)
    await pass_time(bench, provider, 2 * HOUR, HOUR)
    assert (await bench.record(outbox_id)).summary.status == "RETRY_SCHEDULED"
    await pass_time(bench, provider, 3 * HOUR, HOUR)
    record = await bench.record(outbox_id)
    assert (record.summary.status, record.summary.error_code) == ("FAILED", "LIFETIME_EXCEEDED")
    assert the_event(record, EventType.FAILED).metadata["originalCode"] == "451"
    [dead_letter] = await dead_letters(bench.database, DEFAULT_TENANT, limit=10)
    assert dead_letter.code == "LIFETIME_EXCEEDED"
    # A retry by an operator starts a new lifetime.
    await Operations(bench.database, bench.clock).requeue(outbox_id, tenant_id=DEFAULT_TENANT)
    await bench.drain(provider)
    assert (await bench.record(outbox_id)).summary.status == "RETRY_SCHEDULED"


async def test_message_deferred_for_hours_is_reported(bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message())
    provider = ScriptedProvider(*[GREYLISTED] * 100)
    await bench.drain(provider)
    await pass_time(bench, provider, 3 * HOUR, HOUR)
    assert (await summarize_queue(bench.database, bench.clock.now(), DEFAULT_TENANT)).delayed == 0
    await pass_time(bench, provider, 2 * HOUR, HOUR)
    assert (await summarize_queue(bench.database, bench.clock.now(), DEFAULT_TENANT)).delayed == 1
    sentence = message_text(await explain(bench.database, bench.clock, outbox_id, tenant_id=None)).sentence
    assert sentence.startswith("Delayed since")
    assert "Mailwright gives up at" in sentence


async def test_message_that_never_failed_probes_the_provider(bench: Bench) -> None:
    """Recipients that always fail must not keep a provider paused for everybody else."""
    failing = set(await bench.accept(*(a_message() for _ in range(4))))
    throttled = replace(THROTTLE, retry_after=3 * SECOND)
    broken = replace(FAULT, code="HTTP_500", blames_provider=True)
    provider = ScriptedProvider(*[broken] * 4, throttled)
    route = Route.of(provider, bench.clock)
    await bench.drain(route)
    [first] = await bench.accept(a_message())
    await bench.drain(route)
    assert route.deferral() is not None
    bench.clock.advance(6 * SECOND)  # The failed messages are due again before the others.
    others = await bench.accept(a_message(), a_message())
    provider.messages.clear()
    await bench.drain(route)
    assert provider.outbox_ids[0] in others
    assert set(provider.outbox_ids) == {first, *others, *failing}
    assert await bench.statuses() == {"SENT": 7}
