"""Report settled messages to metrics and logs, once per commit."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mailwright.domain.address import mask
from mailwright.domain.clock import isoformat
from mailwright.domain.lifetimes import DELAYED_AFTER
from mailwright.domain.message import Claimed, Delivered, Outcome, Settlement
from mailwright.domain.states import FINAL, EventType, Status
from mailwright.ops import metrics
from mailwright.ops.logs import logger, write_info

log = logger(__name__)

_SENT_EVENTS = (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT, EventType.SENT)
# The states before the result, in their order.
_STEPS = (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT)
# The event of the log line of each result.
SETTLED = "message_settled"
_LEVELS = {Status.FAILED: "warning", Status.IN_DOUBT: "warning", Status.RETRY_SCHEDULED: "info"}


def report_outcomes(outcomes: Sequence[Outcome], *, logs_sent: bool = True) -> None:
    """Report the results of a commit. `logs_sent`: also write a log line for each sent message."""
    delivered = [outcome for outcome in outcomes if isinstance(outcome, Delivered)]
    settlements = [outcome for outcome in outcomes if isinstance(outcome, Settlement)]
    transitions = Counter([event.type for settlement in settlements for event in settlement.events])
    for state in _SENT_EVENTS:
        transitions[state] += len(delivered)
    for state, count in transitions.items():
        metrics.STATE_TRANSITIONS.labels(state).inc(count)
    for provider, count in Counter(outcome.provider for outcome in delivered).items():
        metrics.PROVIDER_SENT.labels(provider).inc(count)
    _observe(Status.SENT, delivered)
    _observe_steps(delivered)
    if logs_sent and delivered:
        write_info(__name__, SETTLED, isoformat(delivered[-1].sent_at), map(_sent_line, delivered))
    for status in {settlement.status for settlement in settlements}:
        _observe(status, [settlement for settlement in settlements if settlement.status is status])
    _observe_steps_of_others(settlements)
    for settlement in settlements:
        _log_settlement(settlement)


def _observe(status: Status, group: Sequence[Outcome]) -> None:
    """Observe every duration, with the slowest message of the batch as exemplar."""
    if status in FINAL and group:
        metrics.FINAL_STATES.labels(status).inc(len(group))
    measured = [(outcome.duration_ms, outcome.claimed) for outcome in group if outcome.duration_ms is not None]
    if not measured:
        return
    histogram = metrics.PROCESSING_DURATION.labels(status)
    slowest = max(measured, key=lambda pair: pair[0])
    for duration, claimed in measured:
        exemplar = _exemplar(claimed) if claimed is slowest[1] else None
        histogram.observe(duration / 1000, exemplar)


def _observe_steps(delivered: Sequence[Delivered]) -> None:
    """Observe when sent messages reached the states before their result, in the time since their claim."""
    received, validated, attempted = (metrics.PROCESSING_DURATION.labels(state) for state in _STEPS)
    for each in delivered:
        claimed_at = each.claimed.received_at
        received.observe(0)
        validated.observe((each.validated_at - claimed_at) / 1000)
        attempted.observe((each.attempted_at - claimed_at) / 1000)


def _observe_steps_of_others(settlements: Sequence[Settlement]) -> None:
    for settlement in settlements:
        for event in settlement.events:
            if event.type.value != settlement.status.value:
                duration = max(0, event.at - settlement.claimed.received_at)
                metrics.PROCESSING_DURATION.labels(event.type).observe(duration / 1000)


def _sent_line(delivered: Delivered) -> dict[str, Any]:
    claimed = delivered.claimed
    return {
        **claimed.log_fields,
        "state": Status.SENT.value,
        "durationMs": delivered.duration_ms,
        "provider": delivered.provider,
        "providerMessageId": delivered.provider_message_id,
        "to": mask(claimed.to_email),
    }


def _exemplar(claimed: Claimed) -> dict[str, str]:
    """Return the exemplar's labels, which may have at most 128 characters in total."""
    return {"outboxId": claimed.outbox_id, "requestId": claimed.request_id[:64]}


def _log_settlement(settlement: Settlement) -> None:
    """Log and count an outcome other than a sent message."""
    claimed = settlement.claimed
    if settlement.status is Status.RETRY_SCHEDULED:
        metrics.RETRIES.labels(settlement.error_category or "").inc()
    for event in settlement.events:
        if event.type is EventType.VALIDATION_FAILED:
            metrics.VALIDATION_FAILURES.labels(event.metadata["validation"]).inc()
    if claimed.deferred_since is not None and (settlement.deferred_at or 0) - claimed.deferred_since >= DELAYED_AFTER:
        since, until = isoformat(claimed.deferred_since), isoformat(settlement.retry_until)
        log.warning("message_delayed", **claimed.log_fields, deferredSince=since, retriesUntil=until)
    getattr(log, _LEVELS.get(settlement.status, "info"))(
        SETTLED,
        **claimed.log_fields,
        state=settlement.status,
        durationMs=settlement.duration_ms,
        provider=settlement.provider,
        providerMessageId=settlement.provider_message_id,
        to=mask(claimed.to_email),
        errorCode=settlement.error_code,
        reason=settlement.error_reason,
    )
