"""The circuit breaker pauses a provider that is down, misconfigured or throttled."""

from dataclasses import replace

import pytest

from mailwright.domain.clock import MINUTE, SECOND, Instant, ManualClock
from mailwright.domain.permits import Deferral
from mailwright.domain.results import SendResult
from mailwright.providers.circuit_breaker import CircuitBreaker, CircuitState
from tests.builders import FAULT, MISCONFIGURED, REFUSAL, SENT, THROTTLE

DOWN = replace(FAULT, code="NETWORK_ERROR", message="connection refused", blames_provider=True)


@pytest.fixture
def circuit(clock: ManualClock) -> CircuitBreaker:
    return CircuitBreaker(clock)


@pytest.mark.promise("outage-recovery")
def test_configuration_error_opens_at_once_with_a_reason(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    assert circuit.deferral() == Deferral(clock.now() + 10 * SECOND, "provider_unavailable")
    assert circuit.explanation == "AUTH_FAILED: wrong password"
    assert circuit.deferred_until() == clock.now() + 10 * SECOND


@pytest.mark.promise("outage-recovery")
def test_five_provider_failures_open_the_circuit_breaker(circuit: CircuitBreaker) -> None:
    for _ in range(4):
        circuit.record(DOWN)
        assert circuit.deferral() is None
    circuit.record(DOWN)
    assert circuit.deferral() is not None


@pytest.mark.promise("outage-recovery")
@pytest.mark.parametrize("answer", [SENT, REFUSAL, THROTTLE, FAULT], ids=lambda answer: str(answer.code or answer.kind))
def test_response_about_a_message_resets_failures(circuit: CircuitBreaker, answer: object) -> None:
    for _ in range(20):
        for _ in range(4):
            circuit.record(DOWN)
        circuit.record(answer)  # type: ignore[arg-type]
        assert circuit.deferral() is None


@pytest.mark.promise("outage-recovery")
def test_failures_of_one_message_do_not_open_circuit_breaker(circuit: CircuitBreaker) -> None:
    circuit.record(DOWN)
    for _ in range(20):
        circuit.record(DOWN, is_repeated=True)
    assert circuit.deferral() is None


def test_one_message_probes_after_the_pause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    assert not circuit.is_probing
    clock.advance(10 * SECOND - 1)
    assert circuit.deferral() is not None
    clock.advance(1)
    assert circuit.deferral() is None
    assert circuit.is_probing
    circuit.record(SENT)
    assert not circuit.is_probing
    assert circuit.explanation is None


@pytest.mark.promise("outage-recovery")
@pytest.mark.parametrize(
    ("failure", "longest"), [(MISCONFIGURED, 5 * MINUTE), (DOWN, 30 * SECOND)], ids=["misconfigured", "down"]
)
def test_failed_probe_doubles_the_pause_up_to_a_maximum(
    circuit: CircuitBreaker, clock: ManualClock, failure: SendResult, longest: Instant
) -> None:
    for _ in range(5):
        circuit.record(failure)
    pauses = []
    for _ in range(8):
        pauses.append(circuit.deferred_until() - clock.now())
        clock.advance(pauses[-1])
        circuit.record(failure)
    assert pauses == [min(10 * SECOND * 2**n, longest) for n in range(8)]


def test_failures_in_flight_do_not_extend_the_pause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    clock.advance(SECOND)
    for _ in range(10):
        circuit.record(MISCONFIGURED)
    assert circuit.deferred_until() == clock.now() + 9 * SECOND


def test_success_resets_the_pause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(4):
        circuit.record(MISCONFIGURED)
        clock.advance(5 * MINUTE)
    circuit.record(SENT)
    circuit.record(MISCONFIGURED)
    assert circuit.deferred_until() == clock.now() + 10 * SECOND


# Throttling: pauses are short and grow separately.

ASKED_TO_WAIT = replace(THROTTLE, retry_after=7 * SECOND)


def test_retry_after_pauses_at_once(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(ASKED_TO_WAIT)
    assert circuit.deferral() == Deferral(clock.now() + 7 * SECOND, "provider_throttled")
    assert circuit.explanation == "THROTTLED: slower"


def test_long_retry_after_is_probed_within_minutes(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(replace(THROTTLE, retry_after=4 * 60 * MINUTE))
    assert circuit.deferral() == Deferral(clock.now() + 5 * MINUTE, "provider_throttled")


def test_three_throttled_messages_in_a_row_pause_sending(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(10):
        circuit.record(THROTTLE)
        circuit.record(THROTTLE)
        circuit.record(SENT)
        assert circuit.deferral() is None
    for _ in range(3):
        circuit.record(THROTTLE)
    assert circuit.deferral() == Deferral(clock.now() + SECOND, "provider_throttled")


def test_results_in_flight_do_not_change_the_pause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(3):
        circuit.record(THROTTLE)
    clock.advance(SECOND // 2)
    for answer in (SENT, THROTTLE, SENT, ASKED_TO_WAIT, REFUSAL):
        circuit.record(answer)
    assert circuit.deferred_until() == clock.now() + SECOND // 2


def test_throttled_probe_doubles_the_pause_until_a_success(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(3):
        circuit.record(THROTTLE)
    pauses = []
    for _ in range(8):
        pauses.append(circuit.deferred_until() - clock.now())
        clock.advance(pauses[-1])
        assert circuit.is_probing
        circuit.record(THROTTLE)
    assert pauses == [SECOND * 2**n for n in range(6)] + [MINUTE] * 2
    clock.advance(MINUTE)
    circuit.record(SENT)
    assert circuit.state is CircuitState.CLOSED
    for _ in range(3):
        circuit.record(THROTTLE)
    assert circuit.deferred_until() == clock.now() + SECOND


@pytest.mark.promise("outage-recovery")
def test_wrong_password_while_throttled_extends_the_pause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(3):
        circuit.record(THROTTLE)
    circuit.record(MISCONFIGURED)
    assert circuit.deferral() == Deferral(clock.now() + 10 * SECOND, "provider_unavailable")


@pytest.mark.promise("outage-recovery")
def test_message_that_failed_before_is_no_failed_probe(circuit: CircuitBreaker, clock: ManualClock) -> None:
    for _ in range(5):
        circuit.record(DOWN)
    clock.advance(10 * SECOND)
    for _ in range(3):
        circuit.record(DOWN, failed_before="a")
        assert circuit.state is CircuitState.PROBING  # Another message probes it next.
    circuit.record(DOWN, failed_before="b")
    assert circuit.state is CircuitState.OPEN


@pytest.mark.promise("outage-recovery")
def test_unclear_probe_of_a_throttled_provider_keeps_its_cause(circuit: CircuitBreaker, clock: ManualClock) -> None:
    circuit.record(replace(THROTTLE, retry_after=3 * SECOND))
    before = circuit.outage(), circuit.explanation
    clock.advance(3 * SECOND)
    circuit.record(DOWN, failed_before="a")
    assert (circuit.outage(), circuit.explanation) == before
    circuit.record(SENT)
    assert (circuit.state, circuit.explanation) == (CircuitState.CLOSED, None)
