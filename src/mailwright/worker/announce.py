"""What was settled is told to metrics and logs here, once a batch: the road itself stays free of both."""

from collections import Counter
from collections.abc import Sequence

from mailwright.domain.address import mask
from mailwright.domain.message import Settlement
from mailwright.domain.states import FINAL, EventType, Status
from mailwright.ops import metrics
from mailwright.ops.logs import logger

log = logger(__name__)

_LEVELS = {Status.FAILED: "warning", Status.IN_DOUBT: "warning", Status.RETRY_SCHEDULED: "info"}


def announce(settlements: Sequence[Settlement]) -> None:
    transitions = Counter(event.type for settlement in settlements for event in settlement.events)
    for state, count in transitions.items():
        metrics.STATE_TRANSITIONS.labels(state).inc(count)
    for status, count in Counter(settlement.status for settlement in settlements).items():
        if status in FINAL:
            metrics.FINAL_STATES.labels(status).inc(count)
    for settlement in settlements:
        if settlement.duration_ms is not None:
            exemplar = {"outboxId": settlement.claimed.outbox_id}
            duration = settlement.duration_ms / 1000
            metrics.PROCESSING_DURATION.labels(settlement.status).observe(duration, exemplar)
        if settlement.status is not Status.SENT:
            _tell(settlement)


def _tell(settlement: Settlement) -> None:
    """One line for whatever did not simply go out. Sent mails are told by their events, not by the log."""
    claimed = settlement.claimed
    if settlement.status is Status.RETRY_SCHEDULED:
        metrics.RETRIES.labels(settlement.error_category or "").inc()
    for event in settlement.events:
        if event.type is EventType.VALIDATION_FAILED:
            metrics.VALIDATION_FAILURES.labels(event.metadata["validation"]).inc()
    getattr(log, _LEVELS.get(settlement.status, "info"))(
        "message_settled",
        outboxId=claimed.outbox_id,
        requestId=claimed.request_id,
        companyId=claimed.tenant_id,
        attempt=claimed.attempt,
        state=settlement.status,
        durationMs=settlement.duration_ms,
        providerMessageId=settlement.provider_message_id,
        to=mask(claimed.to_email),
        errorCode=settlement.error_code,
        reason=settlement.error_reason,
    )
