"""The buckets of an audience: each recipient is in exactly one, so the buckets add up to the audience."""

from enum import StrEnum
from typing import Final

from mailwright.domain.states import MessageGroup, Status

# Error codes of messages that were not sent because the recipient may not or cannot receive them. `sql/count_lane.sql`
# and `sql/count_by_lane.sql` of the campaigns, `sql/audit.sql` and `sql/tally_events.sql` of the outbox contain the
# same codes.
SUPPRESSED_CODES: Final = ("RECIPIENT_SUPPRESSED", "RECIPIENT_NOT_FOUND", "FREQUENCY_CAP", "RECIPIENT_SNOOZED")


class Bucket(StrEnum):
    NOT_ENQUEUED = "not_enqueued"  # no message yet
    EXCLUDED = "excluded"  # left the audience between the start and the enqueueing
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"  # accepted by the provider, and no bounce was reported
    BOUNCED = "bounced"  # accepted by the provider, bounced later
    FAILED = "failed"  # rejected, or out of attempts
    SUPPRESSED = "suppressed"  # unsubscribed, paused, over the frequency cap or deleted before sending
    IN_DOUBT = "in_doubt"
    CLOSED_UNKNOWN = "closed_unknown"
    CANCELLED = "cancelled"


# Buckets of recipients without a message. They are counted, but no list or CSV has a row for them.
WITHOUT_MESSAGE: Final = frozenset({Bucket.NOT_ENQUEUED, Bucket.EXCLUDED})
# Buckets whose recipients may still receive a message.
UNFINISHED: Final = frozenset({Bucket.NOT_ENQUEUED, Bucket.WAITING, Bucket.SENDING})

_BY_STATUS: Final = {
    Status.IN_DOUBT: Bucket.IN_DOUBT,
    Status.CLOSED_UNKNOWN: Bucket.CLOSED_UNKNOWN,
    Status.CANCELLED: Bucket.CANCELLED,
    Status.SENT_ATTEMPT: Bucket.SENDING,
    Status.PENDING: Bucket.WAITING,
    Status.RETRY_SCHEDULED: Bucket.WAITING,
}


def bucket_of(status: str, *, is_claimed: bool, is_bounced: bool, error_code: str | None) -> Bucket:
    """Return the bucket of a message."""
    if is_claimed:
        return Bucket.SENDING
    if status == Status.SENT:
        return Bucket.BOUNCED if is_bounced else Bucket.SENT
    if status == Status.FAILED:
        return Bucket.SUPPRESSED if error_code in SUPPRESSED_CODES else Bucket.FAILED
    return _BY_STATUS[Status(status)]


def shown_status(status: str, *, is_bounced: bool, error_code: str | None) -> str:
    """Return the displayed status. Suppressed and bounced messages are shown as such, not as failed or sent."""
    if status == Status.FAILED and error_code in SUPPRESSED_CODES:
        return MessageGroup.SUPPRESSED
    return MessageGroup.BOUNCED if status == Status.SENT and is_bounced else status
