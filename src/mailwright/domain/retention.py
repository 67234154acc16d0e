"""Kinds of data that a retention rule can delete, and the limits of its period."""

from enum import StrEnum
from typing import Final

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_number

MAX_DAYS: Final = 36_500


class RetentionKind(StrEnum):
    BODIES = "bodies"  # the content of finished messages
    EVENTS = "events"  # the timeline of finished messages
    MESSAGES = "messages"  # whole finished messages
    REPORTS = "reports"  # provider reports that were already applied
    AUDIT_LOG = "audit-log"
    IMPORTS = "imports"  # finished imports and their report files
    CONTACT_EVENTS = "contact-events"  # what contacts did in the tenant's own systems
    SHADOW = "shadow"  # the records of email that shadow mode passed on
    DMARC = "dmarc"  # DMARC aggregate reports
    FORM_SUBMISSIONS = "form-submissions"  # answers of sign-up forms that prove no current subscription
    SEQUENCES = "sequences"  # ended runs through sequences, with their steps


# Kinds whose rows are found through the messages that they belong to.
OF_MESSAGES: Final = (RetentionKind.BODIES, RetentionKind.EVENTS, RetentionKind.MESSAGES)

# The shortest period in days. Bounces, complaints, repeated requests and webhook retries arrive within these periods.
MIN_DAYS: Final = {
    RetentionKind.BODIES: 7,
    RetentionKind.EVENTS: 30,
    RetentionKind.MESSAGES: 30,
    RetentionKind.REPORTS: 30,
    RetentionKind.AUDIT_LOG: 30,
    RetentionKind.IMPORTS: 7,
    RetentionKind.CONTACT_EVENTS: 7,
    RetentionKind.SHADOW: 1,
    RetentionKind.DMARC: 30,
    RetentionKind.FORM_SUBMISSIONS: 30,
    RetentionKind.SEQUENCES: 30,
}


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Delete a tenant's data of one kind after a number of days. Without a rule, nothing is deleted.

    `position`, `rows` and `bytes` describe the current pass over the tenant's messages and everything deleted so far.
    """

    tenant_id: int
    kind: RetentionKind
    days: int
    exports: bool
    position: int = 0
    finished_at: Instant | None = None  # the end of the last complete pass
    rows: int = 0
    bytes: int = 0
    updated_at: Instant = 0  # when a user set the rule

    def before(self, now: Instant) -> Instant:
        """Return the time before which data is deleted."""
        return now - self.days * DAY


@dataclass(frozen=True, slots=True)
class RetentionCount:
    """Rows and bytes that were deleted, or would be deleted. The bytes are the content, without indexes."""

    rows: int = 0
    bytes: int = 0
    is_estimate: bool = False

    def __add__(self, other: "RetentionCount") -> "RetentionCount":
        return RetentionCount(self.rows + other.rows, self.bytes + other.bytes)

    def extrapolate(self, factor: float) -> "RetentionCount":
        """Return the estimate of a total from this sample, rounded to three digits."""
        rows, size = (int(float(f"{value * factor:.3g}")) for value in (self.rows, self.bytes))
        return RetentionCount(rows, size, is_estimate=True)


NOTHING: Final = RetentionCount()


def check_days(kind: RetentionKind, days: int) -> None:
    """Raise an error if the period is too short or too long."""
    if not MIN_DAYS[kind] <= days <= MAX_DAYS:
        raise InvalidInput(
            "The period of {kind} is {min_days} to {max_days} days.",
            field="days",
            kind=kind,
            min_days=MIN_DAYS[kind],
            max_days=lazy_number(MAX_DAYS),
        )
