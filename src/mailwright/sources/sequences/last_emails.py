"""The latest email of a run, from which the next wait counts: two emails must not leave together after a delay."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mailwright.domain.clock import HOUR, Instant
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

LAST_EMAILS = statement(__package__, "last_emails")

# A deferral is trusted for this long, because a change of limits can end it early.
LONGEST_TRUST: Final[Instant] = HOUR
_BATCH: Final = 5_000


class LastEmail(NamedTuple):
    """An email that was not cancelled. It left the outbox when it was sent, attempted or failed."""

    step: str
    left_at: Instant | None  # None if it is unsent.
    due_at: Instant | None
    deferred_until: Instant | None  # The deferral of its lane, if there is one.

    @property
    def is_unsent(self) -> bool:
        return self.left_at is None

    def sendable_at(self, now: Instant) -> Instant:
        """Return when an unsent email can be sent, as far as is known."""
        return max(now, self.due_at or 0, self.deferred_until or 0)

    def leaves_at(self, now: Instant) -> Instant:
        """Return when the email left, or the earliest time at which it can leave."""
        return min(self.sendable_at(now), now + LONGEST_TRUST) if self.left_at is None else self.left_at


async def load_last_emails(tx: Transaction, runs: Iterable[int]) -> dict[int, LastEmail]:
    """Return the latest email of each run that has one, by enrolment."""
    keys, found = list(runs), {}
    for start in range(0, len(keys), _BATCH):
        for row in await tx.run(LAST_EMAILS, runs=[(key,) for key in keys[start : start + _BATCH]]):
            found[row.id] = LastEmail(row.step, row.left_at, row.due_at, row.deferred_until)
    return found
