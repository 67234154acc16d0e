"""Statuses of a notification row, and the reasons why a pending row waits."""

from enum import StrEnum

NOTIFY_SENT = "notify_sent"  # event type in the timeline of a subscription
EMAIL = "email"
ACTIVE = "active"


class FanoutStatus(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"  # no action is needed: for example, the subscriber has unsubscribed
    FAILED = "failed"  # an operator should investigate
    EXPIRED = "expired"  # past its useful time


class WaitReason(StrEnum):
    """Why a pending row is not sent now, as shown by the API, the CLI and the dashboard."""

    LOCKED = "locked"  # a worker holds the lock
    IN_DOUBT = "in_doubt"  # a worker holds the lock; the provider may have the message
    PROVIDER_UNAVAILABLE = "provider_unavailable"  # a worker holds the lock; the provider cannot be used
    PROVIDER_THROTTLED = "provider_throttled"  # a worker holds the lock; the provider accepts no more messages for now
    DEFERRED = "deferred"  # a worker holds the lock; a limit or a rule defers the message
    RETRY = "retry"  # an attempt failed and will be retried
    WINDOW = "delivery_window"
    SNOOZED = "snoozed"
    MAXIMUM = "maximum"  # messages in progress may already reach the subscriber's maximum
    DEDUPE = "dedupe"  # another row has the same dedupe key and subscriber
    OTHER_CHANNEL = "other_channel"  # left to the program that serves this channel


class MessageLinkState(StrEnum):
    SENDING = "sending"  # the message may be sent; its result is not recorded yet
    WAITING = "waiting"  # the row has attempts left; the message is parked
    CLOSED = "closed"  # the final result is recorded
