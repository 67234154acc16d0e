"""Names and explanations of the buckets of a campaign's audience, for the dashboard and the command line."""

from collections.abc import Iterator
from typing import Final

from mailwright.domain.buckets import Bucket
from mailwright.sources.campaigns.failure_actions import RetriedMessages
from mailwright.sources.campaigns.progress import CampaignMessageCounts

BUCKET_LABELS: Final = {
    Bucket.SENT: "Sent",
    Bucket.BOUNCED: "Bounced",
    Bucket.FAILED: "Failed",
    Bucket.SUPPRESSED: "Suppressed",
    Bucket.IN_DOUBT: "Unconfirmed",
    Bucket.CLOSED_UNKNOWN: "Unknown",
    Bucket.CANCELLED: "Cancelled",
    Bucket.EXCLUDED: "Left the audience",
    Bucket.SENDING: "Sending",
    Bucket.WAITING: "Queued",
    Bucket.NOT_ENQUEUED: "Not started",
}

BUCKET_NOTES: Final = {
    Bucket.SENT: "accepted by the provider",
    Bucket.BOUNCED: "accepted by the provider, bounced later",
    Bucket.FAILED: "rejected, or out of attempts",
    Bucket.SUPPRESSED: "unsubscribed, suppressed, paused, capped or deleted before sending",
    Bucket.IN_DOUBT: "no definite provider response",
    Bucket.CLOSED_UNKNOWN: "closed without a provider response",
    Bucket.CANCELLED: "cancelled before sending",
    Bucket.EXCLUDED: "left the audience before enqueueing",
    Bucket.SENDING: "claimed by a worker",
    Bucket.WAITING: "waiting in the queue",
    Bucket.NOT_ENQUEUED: "wait for their turn",
}


def retry_text(found: RetriedMessages) -> str:
    """Describe how many recipients are retried, how many are not, and why."""
    people = f"{found.retried:,} recipient{'' if found.retried == 1 else 's'} queued for retry."
    reasons = []
    if found.bounced:
        reasons.append(f"{found.bounced:,} because the address bounced")
    if found.suppressed:
        reasons.append(f"{found.suppressed:,} because the address is suppressed")
    return f"{people} Not retried: {', '.join(reasons)}." if reasons else people


def bucket_parts(counts: CampaignMessageCounts) -> Iterator[str]:
    """Yield `3 failed`, `12 queued` and so on for the buckets with recipients, except the sent ones."""
    for bucket, label in BUCKET_LABELS.items():
        if counts.buckets[bucket] and bucket is not Bucket.SENT:
            yield f"{counts.buckets[bucket]:,} {label.lower()}"
