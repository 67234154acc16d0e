"""What a run waits for here, with the names that messages and campaigns have for it; waits for others are its delay."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailwright.domain.clock import Clock
from mailwright.domain.explanation import ExplanationState
from mailwright.outbox.workers import list_present
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class RunWait:
    state: ExplanationState
    reason: str
    sentence: str
    what_would_change: str


NO_WORKER = RunWait(
    ExplanationState.NO_WORKER,
    "no_worker",
    "No worker is running, so nothing is sent.",
    "Start a worker: `mailwright worker`, or `mailwright serve`, which has one.",
)


async def find_waits(database: Database, clock: Clock, runs: Sequence[MailoutRun]) -> dict[int, RunWait]:
    """By the keys of the runs; none of what is through, and none where somebody works."""
    unsent = [run for run in runs if run.status not in (MailoutRunStatus.SENT, MailoutRunStatus.REFUSED)]
    if not unsent or await list_present(database, clock.now()):
        return {}
    return {run.key: NO_WORKER for run in unsent}
