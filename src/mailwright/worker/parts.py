"""The settings and collaborators of a worker."""

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import Lifetimes
from mailwright.events.retractions import Retractions
from mailwright.outbox.absence import WorkerAbsence
from mailwright.outbox.attempt_recorder import AttemptRecorder
from mailwright.outbox.claim import Claims
from mailwright.outbox.settle import Settler
from mailwright.pipeline.compose import Composer
from mailwright.pipeline.conclude import DEFAULT_LIFETIMES
from mailwright.providers.route import Route
from mailwright.worker.gate import Gate
from mailwright.worker.maintenance import Maintenance
from mailwright.worker.pacing import Pacing
from mailwright.worker.source_duties import SourceDuties
from mailwright.worker.wake import Wake


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The capacity of a worker."""

    window: int = 64  # The maximum number of messages in flight, and of built messages that wait.
    claim_batch: int = 500  # The maximum number of messages claimed ahead.
    poll_seconds: float = 0.5
    maintenance_seconds: float = 1.0
    source_duty_seconds: float = 1.0
    shutdown_grace: Instant = 30 * SECOND
    drain_wait: Instant = 2 * SECOND  # A draining worker waits for its own deferrals up to this long.
    lifetimes: Lifetimes = DEFAULT_LIFETIMES
    logs_sent: bool = True  # Whether each sent message has a log line.
    max_attempts: int | None = None  # None for the maximum of the retry policy, which only some errors count towards.
    runs_source_duties: bool = True  # False if another worker of the process runs them, and deletes old data.
    doubt_grace: Instant = 0  # How long to wait for a provider's report before a message in doubt is resolved.


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The collaborators of a worker; `app` creates them."""

    clock: Clock
    claims: Claims
    settling: Settler
    composer: Composer
    gate: Gate
    route: Route
    maintenance: Maintenance
    source_duties: SourceDuties
    wake: Wake
    pacing: Pacing
    retractions: Retractions
    absence: WorkerAbsence
    recorder: AttemptRecorder | None = None  # None if no server can take over: on SQLite, and in tests.
