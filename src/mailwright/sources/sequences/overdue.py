"""What happens to people whose next step is overdue after a pause or a new version."""

from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, literal, update

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import HOUR, Instant
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.defer import end_lane_deferral, spread_lane
from mailwright.outbox.operations import cancel_lane
from mailwright.storage.database import Transaction
from mailwright.storage.tables import sequence_enrolments

MAX_SPREAD_HOURS: Final = 24 * 30
# Spreads the keys of enrolments evenly over a time span.
_SCATTER: Final = 2_654_435_761
_BATCH_SIZE: Final = 2_000


class Overdue(StrEnum):
    SEND = "send"
    SKIP = "skip"
    SPREAD = "spread"


class OverdueUndecided(NotPossibleNow):
    """People are overdue, and nobody decided what happens to them."""

    code = "OVERDUE_UNDECIDED"

    def __init__(self, people: int, *, has_emails: bool = False) -> None:
        super().__init__(
            "The next step or an unsent email of {people} people is overdue. Choose overdue: send (now), skip (leave "
            "out the overdue email) or spread (over a number of hours)."
            if has_emails
            else "The next step of {people} people is overdue. Choose overdue: send (now), skip (leave out the overdue "
            "email) or spread (over a number of hours).",
            people=people,
            field="overdue",
        )


@dataclass(frozen=True, slots=True)
class OverdueChoice:
    choice: Overdue
    hours: int = 24  # For `spread`.

    def __post_init__(self) -> None:
        if not 1 <= self.hours <= MAX_SPREAD_HOURS:
            raise InvalidInput(
                "must be between 1 and {max_spread_hours}", field="hours", max_spread_hours=MAX_SPREAD_HOURS
            )

    def due_at(self, enrolment_key: int, now: Instant) -> Instant:
        """Return when the overdue step of an enrolment happens."""
        return now + enrolment_key * _SCATTER % (self.hours * HOUR) if self.choice is Overdue.SPREAD else now


async def release_emails(tx: Transaction, choice: OverdueChoice | None, lane: int, now: Instant) -> None:
    """Apply the choice to the emails that a pause held in the lane of a sequence, and end the pause of the lane."""
    if choice is not None and choice.choice is Overdue.SKIP:
        await cancel_emails(tx, lane, now, due_by=now)
    elif choice is not None and choice.choice is Overdue.SPREAD:
        await spread_lane(tx, lane, now, choice.hours * HOUR)
    await end_lane_deferral(tx, lane)


async def cancel_emails(tx: Transaction, lane: int, now: Instant, due_by: Instant = INDEFINITELY) -> int:
    """Cancel the emails of a sequence that wait and were due by a time. Return how many there were."""
    cancelled = 0
    while count := await cancel_lane(tx, lane, by="sequence", now=now, limit=_BATCH_SIZE, due_by=due_by):
        cancelled += count
    return cancelled


async def apply_choice(tx: Transaction, choice: OverdueChoice, overdue: ColumnElement[bool], now: Instant) -> None:
    """Apply the choice to the enrolments that match."""
    e = sequence_enrolments.c
    match choice.choice:
        case Overdue.SEND:
            return
        case Overdue.SKIP:
            # People who entered during a pause have no overdue email, because their first email was not due before.
            begun = overdue & e.node.is_not(None)
            await tx.execute(update(sequence_enrolments).where(begun).values(skips_email=True))
        case Overdue.SPREAD:
            later = literal(now) + e.id * _SCATTER % (choice.hours * HOUR)
            await tx.execute(update(sequence_enrolments).where(overdue).values(due_at=later))
