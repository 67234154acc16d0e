"""Metrics, in Prometheus' own words. Names and meanings are stable: dashboards and alerts stand on them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

STATE_TRANSITIONS = Counter(
    "pipeline_state_transitions_total", "State transitions of messages.", ["state"], registry=REGISTRY
)
VALIDATION_FAILURES = Counter(
    "pipeline_validation_failures_total", "Messages that failed a validation, by its kind.", ["kind"], registry=REGISTRY
)
PROCESSING_DURATION = Histogram(
    "pipeline_processing_duration_seconds",
    "From the claim of a message to its result, by that result.",
    ["state"],
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
RETRIES = Counter(
    "pipeline_retry_count_total", "Retries scheduled, by error category.", ["category"], registry=REGISTRY
)
FINAL_STATES = Counter(
    "pipeline_final_state_total", "Messages that reached a final state.", ["state"], registry=REGISTRY
)
SEND_RATE = Gauge("mailwright_send_rate", "Messages that this worker settled in the last second.", registry=REGISTRY)
CIRCUIT_STATE = Gauge(
    "mailwright_circuit_state",
    "What this worker thinks of a provider: 0 takes mail, 1 is tried with one mail, 2 is left alone.",
    ["provider"],
    registry=REGISTRY,
)

QUEUE_DEPTH = Gauge("mailwright_queue_depth", "Messages that wait to be sent.", ["state"], registry=REGISTRY)
OLDEST_DUE_AGE = Gauge(
    "mailwright_oldest_due_age_seconds", "How long the oldest due message has waited.", registry=REGISTRY
)
IN_DOUBT = Gauge("mailwright_in_doubt", "Messages that the provider may or may not have.", registry=REGISTRY)
DEAD_LETTERS = Gauge("mailwright_dead_letters", "Messages that wait for an operator.", registry=REGISTRY)
ACCEPTED = Counter("mailwright_accepted_total", "Messages accepted.", ["source"], registry=REGISTRY)
REPORTS = Counter(
    "mailwright_reports_total",
    "Reports about mails that were new, by who told, of what, and what it means for the person.",
    ["source", "type", "verdict"],
    registry=REGISTRY,
)
WEBHOOKS_REFUSED = Counter(
    "mailwright_webhooks_refused_total", "Webhooks that were not believed, by the reason.", ["code"], registry=REGISTRY
)
