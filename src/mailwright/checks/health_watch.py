"""Cache the findings about the installation, and export them as Prometheus metrics."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mailwright.checks.health import HealthFacts, find_problems, load_facts
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.findings import Finding, Verdict
from mailwright.ops import metrics
from mailwright.ops.settings import Settings
from mailwright.outbox.recorded_facts import HttpsProblem, RecordedCertificate
from mailwright.storage.database import Database

# Pages show a cause at most five seconds late. One that is open asks every second.
FRESH: Final[Instant] = 4 * SECOND


class HealthWatch:
    """Runs the checks at most once every few seconds, even if pages and metrics are read more often."""

    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock
        self._read_at: Instant | None = None
        self._findings: list[Finding] = []
        self._hosts: set[str] = set()

    async def findings(self) -> list[Finding]:
        """Return the findings, the worst first, and update the metrics."""
        now = self._clock.now()
        # If the clock was set back, check again instead of reusing the old result.
        if self._read_at is None or not 0 <= now - self._read_at < FRESH:
            facts = await load_facts(self._settings, self._database, now)
            self._findings = await find_problems(self._settings, self._database, facts, now)
            self._read_at = now
            _export(facts, self._findings)
            _export_https(facts.https, self._hosts - facts.https.keys())
            self._hosts |= facts.https.keys()
        return self._findings


def _export(facts: HealthFacts, findings: Sequence[Finding]) -> None:
    metrics.DISK_FREE.set(facts.disk_free)
    metrics.DATABASE_SIZE.set(facts.database_bytes)
    metrics.DATABASE_GROWTH.set(facts.growth_per_day or 0)
    metrics.CLOCK_SKEW.set((facts.clock_skew or 0) / SECOND)
    metrics.CERTIFICATE_EXPIRY.set((facts.certificate_ends or 0) / SECOND)
    for provider, activity in facts.reporting.items():
        metrics.LAST_REPORT.labels(provider).set((activity.last_event or 0) / SECOND)
    metrics.LAST_BACKUP.set((facts.last_backup or 0) / SECOND)
    metrics.WORKERS.set(facts.running_workers)
    metrics.SENDING_HELD.set(int(facts.hold is not None))
    replica = facts.replica
    metrics.REPLICA_USED.set(math.nan if replica is None else int(replica.is_used))
    metrics.REPLICA_LAG.set(math.nan if replica is None or replica.lag_seconds is None else replica.lag_seconds)
    for verdict in (Verdict.WARNING, Verdict.PROBLEM):
        metrics.HEALTH_FINDINGS.labels(verdict).set(sum(each.verdict is verdict for each in findings))


def _export_https(certificates: Mapping[str, RecordedCertificate], removed: Iterable[str]) -> None:
    for host, each in certificates.items():
        # Every other problem needs an alert.
        unknown = math.nan if each.problem is HttpsProblem.UNREACHABLE else 0
        metrics.HTTPS_EXPIRY.labels(host).set(unknown if each.ends is None else each.ends / SECOND)
    for host in removed:
        metrics.HTTPS_EXPIRY.labels(host).set(math.nan)
