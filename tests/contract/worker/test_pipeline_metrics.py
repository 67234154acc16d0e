"""The metrics of the pipeline count steps, failed checks, retries, results and durations."""

from collections.abc import Mapping

from mailwright.domain.clock import MINUTE
from mailwright.domain.ids import uuid7
from mailwright.ops import metrics
from tests.builders import FAULT, REFUSAL, Bench, a_message
from tests.standins.provider import ScriptedProvider


def value(name: str, labels: Mapping[str, str]) -> float:
    return metrics.REGISTRY.get_sample_value(name, dict(labels)) or 0


COUNTED = {
    ("pipeline_state_transitions_total", "state", "RECEIVED"): 4,
    ("pipeline_state_transitions_total", "state", "VALIDATED"): 3,
    ("pipeline_state_transitions_total", "state", "SENT_ATTEMPT"): 3,
    ("pipeline_state_transitions_total", "state", "SENT"): 1,
    ("pipeline_state_transitions_total", "state", "FAILED"): 2,
    ("pipeline_state_transitions_total", "state", "RETRY_SCHEDULED"): 1,
    ("pipeline_validation_failures_total", "kind", "RECIPIENT"): 1,
    ("pipeline_retry_count_total", "category", FAULT.category or ""): 1,
    ("pipeline_final_state_total", "state", "SENT"): 1,
    ("pipeline_final_state_total", "state", "FAILED"): 2,
    ("pipeline_processing_duration_seconds_count", "state", "SENT"): 1,
    ("pipeline_processing_duration_seconds_count", "state", "RETRY_SCHEDULED"): 1,
}


async def test_pipeline_metrics_count_every_step_and_result(bench: Bench) -> None:
    before = {(name, label, of): value(name, {label: of}) for name, label, of in COUNTED}
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(FAULT))
    bench.clock.advance(MINUTE)
    await bench.drain(ScriptedProvider())
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(REFUSAL))
    await bench.accept(a_message(recipient_id=uuid7(0)))
    await bench.drain(ScriptedProvider())
    grown = {key: value(key[0], {key[1]: key[2]}) - before[key] for key in COUNTED}
    assert grown == COUNTED
