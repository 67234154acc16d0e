"""The circuit: a provider that is down or refuses us is left alone for a while."""

from dataclasses import replace

import pytest

from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.permits import Held
from mailwright.providers.circuit import Circuit
from tests.builders import FAULT, MISCONFIGURED, REFUSAL, SENT, THROTTLE

DOWN = replace(FAULT, code="NETWORK_ERROR", message="connection refused", blames_provider=True)


@pytest.fixture
def circuit(clock: ManualClock) -> Circuit:
    return Circuit(clock)


@pytest.mark.promise("circuit-configuration")
def test_a_configuration_error_opens_it_at_once_and_says_why(circuit: Circuit, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    assert circuit.objection() == Held(clock.now() + 10 * SECOND, "provider_unavailable")
    assert circuit.explanation == "AUTH_FAILED: wrong password"
    assert circuit.held_until() == clock.now() + 10 * SECOND


@pytest.mark.promise("circuit-failures")
def test_five_failures_of_the_provider_in_a_row_open_it(circuit: Circuit) -> None:
    for _ in range(4):
        circuit.record(DOWN)
        assert circuit.objection() is None
    circuit.record(DOWN)
    assert circuit.objection() is not None


@pytest.mark.promise("circuit-failures")
@pytest.mark.parametrize("answer", [SENT, REFUSAL, THROTTLE, FAULT], ids=lambda answer: str(answer.code or answer.kind))
def test_any_answer_about_a_mail_shows_that_the_provider_is_there(circuit: Circuit, answer: object) -> None:
    for _ in range(20):
        for _ in range(4):
            circuit.record(DOWN)
        circuit.record(answer)  # type: ignore[arg-type]
        assert circuit.objection() is None


@pytest.mark.promise("circuit-probe")
def test_when_the_pause_is_over_one_mail_tries(circuit: Circuit, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    assert not circuit.is_probing
    clock.advance(10 * SECOND - 1)
    assert circuit.objection() is not None
    clock.advance(1)
    assert circuit.objection() is None
    assert circuit.is_probing
    circuit.record(SENT)
    assert not circuit.is_probing
    assert circuit.explanation is None


@pytest.mark.promise("circuit-probe")
@pytest.mark.parametrize("failure", [MISCONFIGURED, DOWN], ids=lambda failure: str(failure.code))
def test_a_try_that_fails_doubles_the_pause_up_to_five_minutes(
    circuit: Circuit, clock: ManualClock, failure: object
) -> None:
    circuit.record(MISCONFIGURED)
    pauses = []
    for _ in range(8):
        pauses.append(circuit.held_until() - clock.now())
        clock.advance(pauses[-1])
        circuit.record(failure)  # type: ignore[arg-type]
    assert pauses == [10 * SECOND * 2**n for n in range(5)] + [5 * MINUTE] * 3


@pytest.mark.promise("circuit-probe")
def test_what_was_in_flight_when_it_opened_does_not_prolong_the_pause(circuit: Circuit, clock: ManualClock) -> None:
    circuit.record(MISCONFIGURED)
    clock.advance(SECOND)
    for _ in range(10):
        circuit.record(MISCONFIGURED)
    assert circuit.held_until() == clock.now() + 9 * SECOND


@pytest.mark.promise("circuit-probe")
def test_after_a_success_the_pauses_begin_anew(circuit: Circuit, clock: ManualClock) -> None:
    for _ in range(4):
        circuit.record(MISCONFIGURED)
        clock.advance(5 * MINUTE)
    circuit.record(SENT)
    circuit.record(MISCONFIGURED)
    assert circuit.held_until() == clock.now() + 10 * SECOND
