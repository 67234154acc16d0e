"""The states of a message and the events on its timeline."""

from enum import StrEnum


class Status(StrEnum):
    """Where a message stands. Exactly one holds at any instant, and the audit adds them up."""

    PENDING = "PENDING"
    SENT_ATTEMPT = "SENT_ATTEMPT"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    SENT = "SENT"
    FAILED = "FAILED"
    IN_DOUBT = "IN_DOUBT"
    CLOSED_UNKNOWN = "CLOSED_UNKNOWN"
    CANCELLED = "CANCELLED"


# A worker may claim these; the partial indexes of the deliveries table name the same two.
CLAIMABLE = (Status.PENDING, Status.RETRY_SCHEDULED)
OPEN = (*CLAIMABLE, Status.SENT_ATTEMPT)
FINAL = (Status.SENT, Status.FAILED, Status.CLOSED_UNKNOWN, Status.CANCELLED)


class EventType(StrEnum):
    """Facts, append-only: our own steps with a message in capitals, what others did or told in small letters."""

    RECEIVED = "RECEIVED"
    VALIDATED = "VALIDATED"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    SENT_ATTEMPT = "SENT_ATTEMPT"
    SENT = "SENT"
    FAILED = "FAILED"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    IN_DOUBT = "IN_DOUBT"
    CLOSED_UNKNOWN = "CLOSED_UNKNOWN"
    CANCELLED = "CANCELLED"
    REQUEUED = "REQUEUED"

    ACCEPTED = "accepted"
    DELIVERED = "delivered"
    OPENED = "open"
    CLICKED = "click"
    BOUNCED = "bounce"
    COMPLAINED = "complaint"
    UNSUBSCRIBED = "unsubscribe"
    DEFERRED = "deferred"

    # About a person and no message: what they did on our own pages.
    JOINED = "joined"
    LEFT = "left"


class Priority:
    """Smaller goes first. A lane is one tenant at one priority."""

    TRANSACTIONAL = 1
    BULK = 5


class OnDoubt(StrEnum):
    """What to do with a message that the provider may or may not have."""

    RESEND = "resend"  # at least once: a receipt that comes twice is better than one that never comes
    HOLD = "hold"  # at most once: a newsletter that comes twice is worse than one that is missed


class Resolution(StrEnum):
    """What an operator has found out about a mail in doubt."""

    SENT = "sent"  # the provider has it
    RESEND = "resend"  # the provider does not have it, or twice is better than never
    CLOSE = "close"  # nobody will ever know
