"""Message states and the events on a message's timeline."""

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """The state of a message. A message is in exactly one state at any time; the audit sums all state counts."""

    PENDING = "PENDING"
    SENT_ATTEMPT = "SENT_ATTEMPT"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    SENT = "SENT"
    FAILED = "FAILED"
    IN_DOUBT = "IN_DOUBT"
    CLOSED_UNKNOWN = "CLOSED_UNKNOWN"
    CANCELLED = "CANCELLED"


# States in which a worker may claim a message. The partial indexes of the deliveries table use the same states.
CLAIMABLE = (Status.PENDING, Status.RETRY_SCHEDULED)
OPEN = (*CLAIMABLE, Status.SENT_ATTEMPT)
FINAL = (Status.SENT, Status.FAILED, Status.CLOSED_UNKNOWN, Status.CANCELLED)


class MessageGroup(StrEnum):
    """Additional filters for messages: messages in several states, or some of the messages in one state."""

    QUEUED = "QUEUED"  # waiting for their first or next attempt
    SUPPRESSED = "SUPPRESSED"  # FAILED, because the recipient may not or cannot receive it
    BOUNCED = "BOUNCED"  # SENT, and bounced later


# The validations that a message has passed when it is VALIDATED, in their order.
VALIDATIONS: Final = ("INTEGRITY", "OUTBOX", "RECIPIENT", "TEMPLATE")


# The error code of a message that a provider reported before it was sent. Two statements of the outbox contain it.
REPORTED_UNSENT: Final = "REPORTED_UNSENT"


class EventType(StrEnum):
    """Types of events, which are append-only. Upper case: Mailwright's own steps. Lower case: reports from others."""

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
    CORRECTED = "corrected"  # An open, click or unsubscribe of a person turned out to be a machine's.
    BOUNCED = "bounce"
    COMPLAINED = "complaint"
    NOT_SPAM = "not_spam"  # The recipient took a complaint back, or moved the message out of the spam folder.
    UNSUBSCRIBED = "unsubscribe"
    DEFERRED = "deferred"
    REPLIED = "replied"

    # Events of a contact on the public pages. They belong to no message.
    JOINED = "joined"
    LEFT = "left"

    # Events of an erasure. They belong to no message.
    CONTACT_ERASING = "contact.erasing"  # A message without a result delays the deletion of the data.
    CONTACT_ERASED = "contact.erased"

    # Events of a campaign as a whole. They belong to no message.
    CAMPAIGN_STARTED = "campaign.started"
    CAMPAIGN_HELD = "campaign.held"
    CAMPAIGN_WARNED = "campaign.warned"
    CAMPAIGN_RESUMED = "campaign.resumed"
    CAMPAIGN_FINISHED = "campaign.finished"
    CAMPAIGN_CANCELLED = "campaign.cancelled"

    # Events of a person in a sequence. They belong to no message.
    SEQUENCE_ENTERED = "sequence.entered"
    SEQUENCE_STEP = "sequence.step"
    SEQUENCE_FAILED = "sequence.failed"
    SEQUENCE_ENDED = "sequence.ended"
    # The event that a step of a sequence sends to one webhook.
    SEQUENCE_WEBHOOK = "sequence.webhook"


# Event types that webhooks can receive: final results of messages, reports, subscriptions, and progress of campaigns.
# Internal steps are not included.
WEBHOOK_EVENT_TYPES: Final = (
    EventType.SENT,
    EventType.FAILED,
    EventType.IN_DOUBT,
    EventType.CLOSED_UNKNOWN,
    EventType.CANCELLED,
    EventType.ACCEPTED,
    EventType.DELIVERED,
    EventType.OPENED,
    EventType.CLICKED,
    EventType.CORRECTED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.NOT_SPAM,
    EventType.UNSUBSCRIBED,
    EventType.DEFERRED,
    EventType.REPLIED,
    EventType.JOINED,
    EventType.LEFT,
    EventType.CONTACT_ERASING,
    EventType.CONTACT_ERASED,
    EventType.CAMPAIGN_STARTED,
    EventType.CAMPAIGN_HELD,
    EventType.CAMPAIGN_WARNED,
    EventType.CAMPAIGN_RESUMED,
    EventType.CAMPAIGN_FINISHED,
    EventType.CAMPAIGN_CANCELLED,
    EventType.SEQUENCE_ENTERED,
    EventType.SEQUENCE_STEP,
    EventType.SEQUENCE_FAILED,
    EventType.SEQUENCE_ENDED,
    EventType.SEQUENCE_WEBHOOK,
)


class Priority:
    """Priorities of messages; smaller numbers are sent first."""

    TRANSACTIONAL = 1
    BULK = 5


class OnDoubt(StrEnum):
    """The handling of a message in doubt."""

    RESEND = "resend"  # At-least-once delivery, because a duplicate receipt is better than a missing one.
    HOLD = "hold"  # At-most-once delivery, because a duplicate newsletter is worse than a missing one.


class Resolution(StrEnum):
    """An operator's decision about a message in doubt."""

    SENT = "sent"  # The provider has the message.
    RESEND = "resend"  # Send it again, because the provider does not have it or a duplicate is acceptable.
    CLOSE = "close"  # The outcome stays unknown.
