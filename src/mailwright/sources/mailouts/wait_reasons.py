"""Why a run is not sent yet, with the states and reasons of message explanations."""

from collections.abc import Sequence

from mailwright.domain.clock import Clock
from mailwright.domain.explanation import ExplanationState, Remedy
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.workers import list_present
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class RunWait:
    state: ExplanationState
    reason: str
    remedy: Remedy


NO_WORKER = RunWait(ExplanationState.NO_WORKER, "no_worker", Remedy.START_WORKER)


async def find_waits(database: Database, clock: Clock, runs: Sequence[MailoutRun]) -> dict[int, RunWait]:
    """Return the waits of unsent runs by their keys. The only reason is that no worker is running."""
    unsent = [run for run in runs if run.status not in (MailoutRunStatus.SENT, MailoutRunStatus.REFUSED)]
    if not unsent or await list_present(database, clock.now()):
        return {}
    return {run.key: NO_WORKER for run in unsent}
