"""Whether a replica can be read, and how far it is behind its primary."""

from enum import StrEnum

from mailwright.domain.lazy_dataclass import dataclass


class ReplicaProblem(StrEnum):
    """Why the primary is read instead of the replica."""

    UNREACHABLE = "unreachable"
    NOT_A_REPLICA = "not_a_replica"
    OTHER_DATABASE = "other_database"
    OTHER_HISTORY = "other_history"
    BEHIND = "behind"
    BUSY = "busy"
    PRIMARY_UNKNOWN = "primary_unknown"


@dataclass(frozen=True, slots=True)
class ReplicaState:
    problem: ReplicaProblem | None
    detail: str = ""  # what the server or the driver reported
    lag_seconds: float | None = None  # how far the replica is behind; None if that is unknown

    @property
    def is_used(self) -> bool:
        return self.problem is None
