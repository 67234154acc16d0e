"""Prometheus metrics. Names and meanings are stable, because dashboards and alerts depend on them.

The processes of one supervisor write their values to shared files, so each process exports the metrics of the whole
group. A restarted process continues the counters of its predecessor.
"""

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector

from mailwright.ops.child_process import METRICS_FOLDER_VARIABLE, this_child

REGISTRY = CollectorRegistry()

if (_child := this_child()) is not None:
    _number = _child.number
    values.ValueClass = values.MultiProcessValue(lambda: _number)  # type: ignore[no-untyped-call]


def shared_registry(folder: str | Path) -> CollectorRegistry:
    """Return the metrics of all processes that write to the folder."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return registry


def exported_registry() -> CollectorRegistry:
    """Return the metrics of this process, or those of all processes if a supervisor started it."""
    return REGISTRY if this_child() is None else shared_registry(os.environ[METRICS_FOLDER_VARIABLE])


STATE_TRANSITIONS = Counter(
    "pipeline_state_transitions_total", "State transitions of messages.", ["state"], registry=REGISTRY
)
VALIDATION_FAILURES = Counter(
    "pipeline_validation_failures_total", "Messages that failed validation, by kind.", ["kind"], registry=REGISTRY
)
PROCESSING_DURATION = Histogram(
    "pipeline_processing_duration_seconds",
    "Time from the claim of a message to a state, by state.",
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
SEND_RATE = Gauge(
    "mailwright_send_rate",
    "Messages that this worker settled in the last second.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
CIRCUIT_STATE = Gauge(
    "mailwright_circuit_state",
    "Circuit breaker of a provider in this worker: 0 closed, 1 half-open, 2 open.",
    ["provider"],
    registry=REGISTRY,
    multiprocess_mode="livemax",
)

QUEUE_DEPTH = Gauge(
    "mailwright_queue_depth",
    "Messages that wait to be sent, by state.",
    ["state"],
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
OLDEST_DUE_AGE = Gauge(
    "mailwright_oldest_due_age_seconds",
    "Age of the oldest due message, without planned waits.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
IN_DOUBT = Gauge(
    "mailwright_in_doubt",
    "Messages in doubt: the provider may or may not have them.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
DEAD_LETTERS = Gauge(
    "mailwright_dead_letters",
    "Dead letters: messages that need an operator.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
PROVIDER_SENT = Counter(
    "mailwright_provider_sent_total", "Messages that a provider accepted.", ["provider"], registry=REGISTRY
)
ACCEPTED = Counter("mailwright_accepted_total", "Messages accepted.", ["source"], registry=REGISTRY)
REPORTS = Counter(
    "mailwright_reports_total",
    "New reports about messages, by source, event type and effect on the contact.",
    ["source", "type", "verdict"],
    registry=REGISTRY,
)
INBOUND_EMAILS = Counter(
    "mailwright_inbound_emails_total",
    "Emails read from the bounce mailbox: bounce, complaint, not_spam, opt_out, auth_failure, reply, auto_reply, "
    "dmarc_report, unrelated or unreadable.",
    ["kind"],
    registry=REGISTRY,
)
WEBHOOKS_REFUSED = Counter(
    "mailwright_webhooks_refused_total", "Inbound webhooks that were refused, by reason.", ["code"], registry=REGISTRY
)
DISK_FREE = Gauge(
    "mailwright_disk_free_bytes",
    "Free space on the disk of the database file, or of the state folder.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
DATABASE_SIZE = Gauge(
    "mailwright_database_bytes",
    "Size of the database with its indexes.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
DATABASE_GROWTH = Gauge(
    "mailwright_database_growth_bytes_per_day",
    "Growth of the database per day, over the last month.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
CLOCK_SKEW = Gauge(
    "mailwright_clock_skew_seconds",
    "Largest difference between the clocks of a worker and the database server.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
CERTIFICATE_EXPIRY = Gauge(
    "mailwright_certificate_expiry_timestamp_seconds",
    "When the certificate of the SMTP server expires; 0 without one.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
HTTPS_EXPIRY = Gauge(
    "mailwright_https_certificate_expiry_timestamp_seconds",
    "When the certificate of each public host expires; 0 if browsers refuse it, NaN if the host is not reachable.",
    ["host"],
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
LAST_REPORT = Gauge(
    "mailwright_last_report_timestamp_seconds",
    "When the last event of each provider that is set up to report events arrived; 0 if none did.",
    ["provider"],
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
LAST_BACKUP = Gauge(
    "mailwright_last_backup_timestamp_seconds",
    "When the last backup was made; 0 if there is none.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
WORKERS = Gauge(
    "mailwright_workers",
    "Workers that report.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
SENDING_HELD = Gauge(
    "mailwright_sending_held",
    "1 while all sending is on hold after a restore or a failover.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
REPLICA_USED = Gauge(
    "mailwright_replica_used",
    "1 while reports, exports and lists read the replica, 0 while they read the primary instead, NaN without one.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
REPLICA_LAG = Gauge(
    "mailwright_replica_lag_seconds",
    "How far the replica is behind the primary, NaN if that is unknown.",
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
HEALTH_FINDINGS = Gauge(
    "mailwright_health_findings",
    "Findings of the health checks, by verdict.",
    ["verdict"],
    registry=REGISTRY,
    multiprocess_mode="mostrecent",
)
