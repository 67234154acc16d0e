"""Every result has one log line and its durations, whatever the state. The message in doubt is resent at once."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from mailwright.domain.states import EventType
from mailwright.ops.metrics import REGISTRY
from mailwright.worker import report_outcomes
from tests.builders import FAULT, REFUSAL, UNKNOWN, Bench, a_message
from tests.standins.provider import ScriptedProvider

REFUSED = EventType.VALIDATION_FAILED.value


@pytest.fixture
def sent_lines(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    written: list[Mapping[str, Any]] = []

    def write(component: str, event: str, at: str, lines: Iterable[Mapping[str, Any]]) -> None:
        assert event == "message_settled"
        written.extend(lines)

    monkeypatch.setattr(report_outcomes, "write_info", write)
    return written


async def test_every_result_has_one_line(bench: Bench, sent_lines: list[Mapping[str, Any]]) -> None:
    await bench.accept(*(a_message() for _ in range(4)))
    with capture_logs() as others:
        await bench.drain(ScriptedProvider(FAULT, REFUSAL, UNKNOWN))
    settled = [*sent_lines, *(line for line in others if line["event"] == "message_settled")]
    assert sorted(line["state"] for line in settled) == ["FAILED", "IN_DOUBT", "RETRY_SCHEDULED", "SENT", "SENT"]
    for line in settled:
        assert {"outboxId", "requestId", "companyId", "attempt", "durationMs", "provider", "to"} <= set(line)
        assert "reader@" not in line["to"]


async def test_lines_of_sent_messages_can_be_switched_off(bench: Bench, sent_lines: list[Mapping[str, Any]]) -> None:
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(), logs_sent=False)
    assert await bench.statuses() == {"SENT": 1}
    assert sent_lines == []


async def test_duration_is_measured_for_every_state(bench: Bench) -> None:
    states = ["RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT", "FAILED", "RETRY_SCHEDULED", "IN_DOUBT"]

    def counts() -> dict[str, float]:
        name = "pipeline_processing_duration_seconds_count"
        return {state: REGISTRY.get_sample_value(name, {"state": state}) or 0 for state in [*states, REFUSED]}

    before = counts()
    await bench.accept(*(a_message() for _ in range(4)), a_message(to_email="", payload={"to": "nobody"}))
    await bench.drain(ScriptedProvider(FAULT, REFUSAL, UNKNOWN))
    measured = {state: after - before[state] for state, after in counts().items()}
    assert measured == {
        "RECEIVED": 6, "VALIDATED": 5, "SENT_ATTEMPT": 5, "SENT": 2, "FAILED": 2, "RETRY_SCHEDULED": 1, "IN_DOUBT": 1,
        REFUSED: 1,
    }  # fmt: skip
