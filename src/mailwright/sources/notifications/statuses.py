"""The queue's own words: what a row's status says, and why a row waits."""

from enum import StrEnum

NOTIFY_SENT = "notify_sent"  # what the timeline of a subscription is told
EMAIL = "email"
ACTIVE = "active"


class FanoutStatus(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"  # nobody can act on it
    FAILED = "failed"  # operators should look at it
    EXPIRED = "expired"  # older than it is of use


class WaitReason(StrEnum):
    """Why a pending row is not sent now. The words that people and scripts see."""

    LOCKED = "locked"  # a worker has it
    RETRY = "retry"  # an attempt failed for now
    WINDOW = "delivery_window"
    SNOOZED = "snoozed"
    MAXIMUM = "maximum"  # what is under way may be the last one that the subscriber wants
    DEDUPE = "dedupe"  # another row says the same to the same subscriber


class MessageLinkState(StrEnum):
    SENDING = "sending"  # the message may go, and its result is to be told
    WAITING = "waiting"  # the row was told of a result and has tries left; the message is parked
    CLOSED = "closed"  # the row was told of the end
