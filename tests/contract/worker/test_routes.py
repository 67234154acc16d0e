"""Routes with the worker: another provider takes over, and no message goes to two of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mailwright.app.providers import make_route
from mailwright.app.verify import verify
from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.report import Report
from mailwright.domain.results import ResultKind, SendResult, sent
from mailwright.domain.states import EventType, Status
from mailwright.events.reports import Reports
from mailwright.ops.metrics import REGISTRY
from mailwright.outbox.audit import audit
from mailwright.outbox.explain import explain
from mailwright.outbox.workers import WorkerPresence, list_present
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.route import Route, RouteMember
from mailwright.providers.smtpbz import provider as smtpbz
from mailwright.worker.worker import Worker
from tests.builders import (
    FAULT,
    LOCK_TTL,
    MISCONFIGURED,
    REFUSAL,
    THROTTLE,
    UNKNOWN,
    Bench,
    a_bench,
    a_message,
    a_message_with,
    a_newsletter,
    attempt_steps,
    deliveries_of,
    settings_for,
    status_of,
    steps,
    the_event,
)
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider
from tests.standins.smtp_sink import SmtpSink, Step

E = EventType
DOWN = replace(FAULT, code="NETWORK_ERROR", message="connection refused", blames_provider=True, is_completed=False)
# It failed after it had received the whole message.
BROKEN = replace(DOWN, code="SERVER_ERROR", message="internal error", definitely_not_sent=False, is_completed=True)


class Stage:
    """A route of two providers whose responses the test can change."""

    def __init__(self, clock: ManualClock, *, weights: tuple[int | None, int | None] = (None, None)) -> None:
        self.answers: dict[str, SendResult | None] = {"ses": None, "smtp": None}
        self.ses = ScriptedProvider(*[self._answer("ses")] * 5_000, name="ses", reports_events=True)
        self.smtp = ScriptedProvider(*[self._answer("smtp")] * 5_000, name="smtp")
        self._clock = clock
        self._weights = weights

    def route(self) -> Route:
        """Return a route with new circuit breakers, as after a restart."""
        pairs = zip((self.ses, self.smtp), self._weights, strict=True)
        return Route(
            [RouteMember(provider, CircuitBreaker(self._clock), weight) for provider, weight in pairs], self._clock
        )

    def _answer(self, name: str):  # type: ignore[no-untyped-def]
        def answer(message: OutgoingMessage) -> SendResult:
            told = self.answers[name]
            return sent(name, f"<{message.outbox_id}@{name}>") if told is None else replace(told, provider=name)

        return answer


@pytest.fixture
def stage(clock: ManualClock) -> Stage:
    return Stage(clock)


@pytest.fixture
async def bench(bench: Bench) -> AsyncIterator[Bench]:
    yield bench
    assert (await audit(bench.database)).ok


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        async with asyncio.timeout(60):
            await task


async def by_provider(bench: Bench) -> Counter[str]:
    return Counter(row.provider for row in await deliveries_of(bench.database))


# Failover.


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("trouble", [DOWN, MISCONFIGURED, THROTTLE], ids=lambda result: str(result.code))
async def test_failover_counts_only_calls_of_providers(bench: Bench, stage: Stage, trouble: SendResult) -> None:
    await bench.accept(*(a_message() for _ in range(40)))
    stage.answers["ses"] = trouble
    await bench.drain(stage.route(), window=8)
    assert await bench.statuses() == {Status.SENT: 40}
    assert len(set(stage.smtp.outbox_ids)) == len(stage.smtp.messages) == 40
    assert len(stage.ses.messages) <= 16  # What was in flight until the circuit breaker opened, not one per message.
    rows = await deliveries_of(bench.database)
    assert {(row.provider, row.defer_reason) for row in rows} == {("smtp", None)}
    called = len(stage.ses.messages) if trouble.is_completed else 0
    assert sum(row.attempts for row in rows) == 40 + called
    assert sum(row.excused_attempts for row in rows) == called


@pytest.mark.promise("route-fail-over")
async def test_timeline_shows_both_providers(bench: Bench, stage: Stage) -> None:
    (outbox_id,) = await bench.accept(a_message())
    stage.answers["ses"] = DOWN
    await bench.drain(stage.route())
    record = await bench.record(outbox_id)
    assert steps(record) == [*attempt_steps(E.RETRY_SCHEDULED), *attempt_steps(E.SENT)]
    told = the_event(record, E.RETRY_SCHEDULED).metadata
    assert (told["deferReason"], told["backoffDelay"], told["nextAttemptNumber"]) == ("provider_unavailable", 0, 1)
    assert the_event(record, E.SENT).metadata["provider"] == "smtp"
    assert record.summary.attempts == 1


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("trouble", [FAULT, REFUSAL], ids=lambda result: str(result.code))
async def test_rejection_of_the_message_causes_no_failover(bench: Bench, stage: Stage, trouble: SendResult) -> None:
    await bench.accept(a_message())
    stage.answers["ses"] = trouble
    await bench.drain(stage.route())
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (1, 0)
    assert [row.attempts for row in await deliveries_of(bench.database)] == [1]


@pytest.mark.promise("route-fail-over")
async def test_message_fails_over_only_once(bench: Bench, stage: Stage) -> None:
    """Other messages succeed in between, so that no circuit breaker opens."""
    (bad,) = await bench.accept(a_message())
    broken = replace(DOWN, is_completed=True)
    stage.answers.update(ses=broken, smtp=broken)
    for _ in range(8):
        await bench.drain(stage.route())
        bench.clock.advance(15 * MINUTE)
    record = await bench.record(bad)
    assert (record.summary.status, record.summary.attempts) == (Status.FAILED, 10)
    assert record.summary.error_code == "MAX_ATTEMPTS_EXCEEDED"
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (5, 5)


@pytest.mark.promise("outage-recovery")
async def test_misconfigured_providers_stop_sending_and_use_up_no_attempts(bench: Bench, stage: Stage) -> None:
    await bench.accept(*(a_message() for _ in range(30)))
    stage.answers = {"ses": MISCONFIGURED, "smtp": MISCONFIGURED}
    route = stage.route()
    await bench.drain(route, window=4)
    assert len(stage.ses.messages) + len(stage.smtp.messages) <= 8
    rows = await deliveries_of(bench.database)
    assert {(row.attempts - row.excused_attempts, row.locked_by) for row in rows} == {(0, None)}
    assert sum(row.attempts for row in rows) == len(stage.ses.messages) + len(stage.smtp.messages)
    stage.answers = {"ses": None, "smtp": None}
    bench.clock.advance(10 * SECOND)
    await bench.drain(route)
    assert await bench.statuses() == {Status.SENT: 30}


async def test_weights_are_respected_and_a_failed_provider_replaced(bench: Bench, clock: ManualClock) -> None:
    stage = Stage(clock, weights=(3, 1))
    await bench.accept(*(a_message() for _ in range(200)))
    await bench.drain(stage.route())
    assert 120 <= len(stage.ses.messages) <= 175
    assert len(stage.ses.messages) + len(stage.smtp.messages) == 200
    assert await by_provider(bench) == {"ses": len(stage.ses.messages), "smtp": len(stage.smtp.messages)}

    stage.answers["ses"] = MISCONFIGURED
    before = len(stage.smtp.messages)
    await bench.accept(*(a_message() for _ in range(50)))
    await bench.drain(stage.route(), window=5)
    assert len(stage.smtp.messages) == before + 50
    assert await bench.statuses() == {Status.SENT: 250}


async def test_recovered_provider_is_probed_with_one_message(bench: Bench, stage: Stage) -> None:
    route = stage.route()
    stage.answers["ses"] = MISCONFIGURED
    await bench.accept(a_message())
    await bench.drain(route)
    bench.clock.advance(10 * SECOND)
    stage.ses.hold()  # It responds late.
    tried = len(stage.ses.messages)
    await bench.accept(*(a_message() for _ in range(20)))
    async with running(await bench.worker(route, window=4)):
        async with asyncio.timeout(60):
            await stage.smtp.has(1 + 19)
        assert len(stage.ses.messages) == tried + 1
        stage.answers["ses"] = None
        stage.ses.let_go()
    await bench.accept(*(a_message() for _ in range(20)))
    await bench.drain(route)
    assert len(stage.ses.messages) == tried + 1 + 20
    assert await bench.statuses() == {Status.SENT: 41}


# Messages that a provider may have.


@pytest.mark.promise("route-fail-over")
async def test_attempt_records_its_provider(bench: Bench, stage: Stage) -> None:
    await bench.accept(*(a_message() for _ in range(3)))
    stage.ses.hold()
    async with running(await bench.worker(stage.route())):
        await stage.ses.has(3)
        rows = await deliveries_of(bench.database)
        assert {(row.status, row.provider) for row in rows} == {(Status.SENT_ATTEMPT, "ses")}
        stage.ses.let_go()


@pytest.mark.promise("route-fail-over")
async def test_message_in_doubt_is_resent_through_the_same_provider(bench: Bench, stage: Stage) -> None:
    (outbox_id,) = await bench.accept(a_message())
    stage.answers["ses"] = UNKNOWN
    await bench.drain(stage.route())
    assert await status_of(bench.database, outbox_id) == Status.IN_DOUBT
    stage.answers["ses"] = None
    bench.clock.advance(10 * MINUTE)  # It reports events, so the worker waits for them.
    await bench.drain(stage.route())
    assert await status_of(bench.database, outbox_id) == Status.SENT
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (2, 0)


@pytest.mark.promise("route-fail-over")
async def test_message_in_doubt_waits_for_its_paused_provider(bench: Bench, stage: Stage) -> None:
    (doubted,) = await bench.accept(a_message())
    stage.answers["ses"] = UNKNOWN
    await bench.drain(stage.route())
    bench.clock.advance(10 * MINUTE)
    stage.answers["ses"] = MISCONFIGURED
    others = await bench.accept(*(a_message() for _ in range(10)))
    route = stage.route()
    await bench.drain(route)
    await bench.drain(route)
    assert sorted(stage.smtp.outbox_ids) == sorted(others)
    assert await status_of(bench.database, doubted) == Status.RETRY_SCHEDULED
    answer = await explain(bench.database, bench.clock, doubted, tenant_id=None)
    assert (answer.state, answer.until) == (ExplanationState.PROVIDER_UNAVAILABLE, bench.clock.now() + 10 * SECOND)
    assert answer.provider == "ses"

    stage.answers["ses"] = None
    bench.clock.advance(10 * SECOND)
    await bench.drain(route)
    assert await status_of(bench.database, doubted) == Status.SENT
    assert doubted not in stage.smtp.outbox_ids


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("trouble", [DOWN, THROTTLE], ids=lambda result: str(result.code))
async def test_resend_stays_with_its_unavailable_provider(bench: Bench, stage: Stage, trouble: SendResult) -> None:
    (doubted,) = await bench.accept(a_message())
    stage.answers["ses"] = UNKNOWN
    await bench.drain(stage.route())
    bench.clock.advance(10 * MINUTE)
    stage.answers["ses"] = trouble
    await bench.drain(stage.route())
    stage.answers["ses"] = None
    bench.clock.advance(10 * MINUTE)
    await bench.drain(stage.route())
    assert await status_of(bench.database, doubted) == Status.SENT
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (3, 0)


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("then", [None, DOWN, THROTTLE, MISCONFIGURED], ids=lambda result: str(result and result.code))
async def test_possibly_accepted_message_goes_to_no_other_provider(
    bench: Bench, stage: Stage, then: SendResult | None
) -> None:
    (outbox_id,) = await bench.accept(a_message())
    stage.answers["ses"] = BROKEN
    await bench.drain(stage.route())
    assert [(row.attempts, row.status) for row in await deliveries_of(bench.database)] == [(1, Status.RETRY_SCHEDULED)]
    for answer in (then, None):
        stage.answers["ses"] = answer
        bench.clock.advance(15 * MINUTE)
        await bench.drain(stage.route())
    assert await status_of(bench.database, outbox_id) == Status.SENT
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (2 if then is None else 3, 0)


@pytest.mark.promise("route-fail-over")
async def test_possibly_accepted_message_is_settled_by_a_report(bench: Bench, stage: Stage, clock: ManualClock) -> None:
    (outbox_id,) = await bench.accept(a_message())
    stage.answers["ses"] = BROKEN
    await bench.drain(stage.route())
    bench.clock.advance(15 * MINUTE)
    without = Route.of(stage.smtp, clock)
    await bench.drain(without)
    assert (await explain(bench.database, clock, outbox_id, tenant_id=None)).state == ExplanationState.PROVIDER_MISSING
    report = Report(key="1", source="ses", type=EventType.DELIVERED, at=clock.now(), outbox_id=outbox_id)
    await Reports(bench.database, clock).receive([report])
    assert await status_of(bench.database, outbox_id) == Status.SENT
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (1, 0)


@pytest.mark.promise("route-fail-over")
async def test_crashed_workers_message_is_resent_through_the_same_provider(bench: Bench, stage: Stage) -> None:
    (lost,) = await bench.accept(a_message())
    stage.ses.hold()
    async with running(await bench.worker(stage.route(), shutdown_grace=20)):
        await stage.ses.has(1)
    stage.ses.let_go()
    assert await status_of(bench.database, lost) == Status.SENT_ATTEMPT
    bench.clock.advance(LOCK_TTL)
    await bench.drain(stage.route())
    bench.clock.advance(10 * MINUTE)
    await bench.drain(stage.route())
    assert await status_of(bench.database, lost) == Status.SENT
    assert (len(stage.ses.messages), len(stage.smtp.messages)) == (2, 0)


@pytest.mark.promise("route-fail-over")
async def test_message_in_doubt_waits_for_a_removed_provider(bench: Bench, stage: Stage, clock: ManualClock) -> None:
    (doubted,) = await bench.accept(a_message())
    stage.answers["ses"] = UNKNOWN
    await bench.drain(stage.route())
    bench.clock.advance(10 * MINUTE)
    without = Route.of(stage.smtp, clock)
    await bench.drain(without)
    await bench.drain(without)
    assert stage.smtp.messages == []
    answer = await explain(bench.database, clock, doubted, tenant_id=None)
    assert (answer.state, answer.reason) == (ExplanationState.PROVIDER_MISSING, "provider_missing")
    assert answer.until == clock.now() + 5 * MINUTE
    assert answer.provider == "ses"


async def test_message_in_doubt_waits_only_for_its_providers_reports(bench: Bench, stage: Stage) -> None:
    for provider in (stage.ses, stage.smtp):
        await bench.accept(a_newsletter())
        provider.hold()
        async with running(await bench.worker(Route.of(provider, bench.clock), shutdown_grace=20)):
            await provider.has(1)
        provider.let_go()
    bench.clock.advance(LOCK_TTL)
    worker = await bench.worker(stage.route())
    await worker.parts.maintenance.services.doubts.mark_lost_attempts()
    due = {row.provider: row.claimable_at - bench.clock.now() for row in await deliveries_of(bench.database)}
    assert due == {"ses": 10 * MINUTE, "smtp": 0}


@pytest.mark.promise("route-fail-over")
async def test_begun_but_unsent_message_may_use_any_provider(bench: Bench, stage: Stage) -> None:
    (outbox_id,) = await bench.accept(a_message())
    stage.answers["ses"] = SendResult(ResultKind.RETRYABLE, "ses", code="LOCK_EXPIRED")
    async with running(await bench.worker(stage.route())):
        await stage.ses.has(1)
        stage.answers["ses"] = MISCONFIGURED
        async with asyncio.timeout(60):
            await stage.smtp.has(1)
    assert await status_of(bench.database, outbox_id) == Status.SENT


# Throttling.


async def test_throttled_provider_does_not_get_the_whole_batch(bench: Bench, stage: Stage) -> None:
    await bench.accept(*(a_message() for _ in range(100)))
    stage.answers["ses"] = replace(THROTTLE, retry_after=5 * SECOND)
    route = Route.of(stage.ses, bench.clock)
    await bench.drain(route, window=4)
    assert len(stage.ses.messages) <= 8
    rows = await deliveries_of(bench.database)
    assert sum(row.attempts for row in rows) == sum(row.excused_attempts for row in rows) == len(stage.ses.messages)
    assert {row.defer_reason for row in rows} <= {None, "provider_throttled"}
    stage.answers["ses"] = None
    bench.clock.advance(MINUTE)
    await bench.drain(route)
    assert await bench.statuses() == {Status.SENT: 100}


# What operators see.


async def test_worker_reports_each_of_its_providers(bench: Bench, stage: Stage) -> None:
    await bench.accept(a_message())
    stage.answers["ses"] = MISCONFIGURED
    worker = await bench.worker(stage.route(), "worker-7")
    async with running(worker):
        await stage.smtp.has(1)
        bench.clock.advance(5 * SECOND)
        async with asyncio.timeout(60):
            while not any(each.unavailable_until for each in await list_present(bench.database, bench.clock.now())):
                await asyncio.sleep(0.01)
        found = await list_present(bench.database, bench.clock.now())
        until = bench.clock.now() + 5 * SECOND
        assert [replace(each, seen_at=0, clock_skew=None, settings_version=None) for each in found] == [
            WorkerPresence("ses", until, "AUTH_FAILED: wrong password", "worker-7"),
            WorkerPresence("smtp", None, None, "worker-7"),
        ]
        states = {
            name: REGISTRY.get_sample_value("mailwright_circuit_state", {"provider": name}) for name in ("ses", "smtp")
        }
        assert states == {"ses": 2, "smtp": 0}
    assert await list_present(bench.database, bench.clock.now()) == []


# Memory.


async def test_inputs_of_a_returned_message_are_forgotten(bench: Bench, stage: Stage) -> None:
    await bench.accept(*(a_message_with(cc=["boss@example.com"]) for _ in range(30)))
    stage.answers["ses"] = MISCONFIGURED
    worker = await bench.worker(Route.of(stage.ses, bench.clock), window=2)
    await worker.run(drain=True)
    assert len(stage.ses.messages) <= 2
    assert worker.parts.composer.suppressed_copies == {}


# Over real connections.


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("password", ["wrong", "right"])
async def test_wrong_password_fails_over_to_the_next_provider(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, password: str
) -> None:
    async with SmtpSink(users={"shop": "right"}) as sink:
        settings = {"route": "smtp, mailbox", "mailbox": tmp_path / "box", "concurrency": 8}
        url = f"smtp://shop:{password}@{sink.host}:{sink.port}?tls=none"
        async with a_bench(engine.url, clock, smtp_url=url, **settings) as bench:
            await bench.accept(*(a_message() for _ in range(30)))
            await bench.drain()
            assert await bench.statuses() == {Status.SENT: 30}
            rows = await deliveries_of(bench.database)
            assert {row.attempts - row.excused_attempts for row in rows} == {1}
            by_sink, by_mailbox = len(sink.complete), len(list((tmp_path / "box" / "new").glob("*")))
            assert (by_sink, by_mailbox) == ((30, 0) if password == "right" else (0, 30))


@pytest.mark.promise("route-fail-over")
async def test_interrupted_response_never_causes_failover(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    async with SmtpSink() as sink:
        settings = {"route": "smtp, mailbox", "mailbox": tmp_path / "box"}
        async with a_bench(engine.url, clock, smtp_url=f"smtp://{sink.host}:{sink.port}?tls=none", **settings) as bench:
            (outbox_id,) = await bench.accept(a_message())
            sink.cut(Step.DOT, times=1)
            await bench.drain()
            assert await status_of(bench.database, outbox_id) == Status.SENT
            assert len(sink.complete) == 2
            assert not (tmp_path / "box").exists()


# Settings.


async def test_every_provider_can_be_in_a_route(tmp_path: Path, clock: ManualClock) -> None:
    settings = settings_for(
        f"sqlite:///{tmp_path}/none.db",
        route="smtp=1, ses=2, sendgrid=3, smtpbz=4, mailbox=5",
        smtp_url="smtp://localhost:2525?tls=none",
        aws_region="eu-west-1",
        sendgrid_api_key="SG.key",
        smtpbz_smtp_url="smtp://user:pw@localhost:2525?tls=none",
    )
    verify(settings)
    route = make_route(settings, clock)
    assert {member.name: member.weight for member in route.members} == {
        "smtp": 1,
        "ses": 2,
        "sendgrid": 3,
        "smtpbz": 4,
        "mailbox": 5,
    }
    await route.close()


@pytest.mark.parametrize(
    ("inlet", "reporting"),
    [
        ({}, set()),
        ({"sns_topic_arns": "arn:aws:sns:eu-west-1:123456789012:mail"}, {"ses"}),
        ({"sqs_queue_url": "https://sqs.eu-west-1.amazonaws.com/123456789012/mail"}, {"ses"}),
        ({"ses_configuration_set": "events"}, {"ses"}),
        ({"sendgrid_webhook_public_key": "a-key"}, {"sendgrid"}),
    ],
)
async def test_reports_are_awaited_only_if_configured(
    tmp_path: Path, clock: ManualClock, inlet: dict[str, str], reporting: set[str]
) -> None:
    settings = settings_for(
        f"sqlite:///{tmp_path}/none.db",
        route="ses, sendgrid, mailbox",
        aws_region="eu-west-1",
        sendgrid_api_key="SG.key",
        **inlet,
    )
    route = make_route(settings, clock)
    assert {member.name for member in route.members if route.reports_events(member.name)} == reporting
    await route.close()


def test_smtpbz_uses_the_smtp_url_by_default(tmp_path: Path) -> None:
    where = {"smtp_url": "smtp://user:pw@connect.example:587?tls=starttls"}
    settings = settings_for(f"sqlite:///{tmp_path}/none.db", provider="smtpbz", **where)
    verify(settings)
    assert smtpbz.read_settings(settings).smtp.host == "connect.example"
    other = settings_for(f"sqlite:///{tmp_path}/none.db", route="smtp, smtpbz", **where)
    with pytest.raises(ConfigurationInvalid, match="SMTPBZ_SMTP_URL"):
        verify(other)


def test_all_missing_route_settings_are_reported_together(tmp_path: Path) -> None:
    settings = settings_for(f"sqlite:///{tmp_path}/none.db", route="smtp, ses, sendgrid, smtpbz", domain_limits="x=9")
    with pytest.raises(ConfigurationInvalid) as raised:
        verify(settings)
    told = "\n".join(raised.value.problems)
    for name in ("MAILWRIGHT_SMTP_URL", "AWS_REGION", "SENDGRID_API_KEY", "SMTPBZ_SMTP_URL"):
        assert f"{name}: is required when MAILWRIGHT_ROUTE has " in told
    assert "MAILWRIGHT_DOMAIN_LIMITS: 'x=9'" in told
