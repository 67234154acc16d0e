"""Report settled messages to metrics and logs, once per commit."""

from collections import Counter
from collections.abc import Sequence

from mailwright.domain.address import mask
from mailwright.domain.clock import isoformat
from mailwright.domain.lifetimes import DELAYED_AFTER
from mailwright.domain.message import Claimed, Delivered, Outcome, Settlement
from mailwright.domain.states import FINAL, EventType, Status
from mailwright.ops import metrics
from mailwright.ops.logs import logger

log = logger(__name__)

_SENT_EVENTS = (EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT, EventType.SENT)
_LEVELS = {Status.FAILED: "warning", Status.IN_DOUBT: "warning", Status.RETRY_SCHEDULED: "info"}


def report_outcomes(outcomes: Sequence[Outcome]) -> None:
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
    for status in {settlement.status for settlement in settlements}:
        _observe(status, [settlement for settlement in settlements if settlement.status is status])
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


def _exemplar(claimed: Claimed) -> dict[str, str]:
    """Return the exemplar's labels, which may have at most 128 characters in total."""
    return {"outboxId": claimed.outbox_id, "requestId": claimed.request_id[:64]}


def _log_settlement(settlement: Settlement) -> None:
    """Log every outcome except sent messages, which are recorded only as events."""
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
        "message_settled",
        **claimed.log_fields,
        state=settlement.status,
        durationMs=settlement.duration_ms,
        provider=settlement.provider,
        providerMessageId=settlement.provider_message_id,
        to=mask(claimed.to_email),
        errorCode=settlement.error_code,
        reason=settlement.error_reason,
    )
