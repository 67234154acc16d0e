"""What a run waits for here, with the names that messages and campaigns have for it; waits for others are its delay."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailwright.domain.clock import Clock
from mailwright.outbox.explain import ExplanationState
from mailwright.outbox.workers import list_present
from mailwright.sources.mailouts.runs import Run, RunStatus
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class Wait:
    state: ExplanationState
    reason: str
    sentence: str
    what_would_change: str


NO_WORKER = Wait(
    ExplanationState.NO_WORKER,
    "no_worker",
    "No worker is running, so nothing is sent.",
    "Start a worker: `mailwright worker`, or `mailwright serve`, which has one.",
)


async def waits_of(database: Database, clock: Clock, runs: Sequence[Run]) -> dict[int, Wait]:
    """By the keys of the runs; none of what is through, and none where somebody works."""
    unsent = [run for run in runs if run.status not in (RunStatus.SENT, RunStatus.REFUSED)]
    if not unsent or await list_present(database, clock.now()):
        return {}
    return {run.key: NO_WORKER for run in unsent}
