"""Names and explanations of the buckets of a campaign's audience, for the dashboard and the command line."""

from collections.abc import Iterator
from typing import Final

from mailwright.domain.buckets import Bucket
from mailwright.domain.translation import gettext, lazy_gettext, ngettext, number_text
from mailwright.outbox.lane_operations import RetriedMessages
from mailwright.sources.campaigns.progress import CampaignMessageCounts

BUCKET_LABELS: Final = {
    Bucket.SENT: lazy_gettext("Sent"),
    Bucket.BOUNCED: lazy_gettext("Bounced"),
    Bucket.FAILED: lazy_gettext("Failed"),
    Bucket.SUPPRESSED: lazy_gettext("Suppressed"),
    Bucket.IN_DOUBT: lazy_gettext("Unconfirmed"),
    Bucket.CLOSED_UNKNOWN: lazy_gettext("Unknown"),
    Bucket.CANCELLED: lazy_gettext("Cancelled"),
    Bucket.EXCLUDED: lazy_gettext("Left the audience"),
    Bucket.SENDING: lazy_gettext("Sending"),
    Bucket.WAITING: lazy_gettext("Queued"),
    Bucket.NOT_ENQUEUED: lazy_gettext("Not started"),
}

# What happened to sent messages depends on where they went: `sent_note` in `texts/sending_readiness.py`.
BUCKET_NOTES: Final = {
    Bucket.BOUNCED: lazy_gettext("accepted by the provider, bounced later"),
    Bucket.FAILED: lazy_gettext("rejected, or out of attempts"),
    Bucket.SUPPRESSED: lazy_gettext("unsubscribed, suppressed, paused, capped or deleted before sending"),
    Bucket.IN_DOUBT: lazy_gettext("no definite provider response"),
    Bucket.CLOSED_UNKNOWN: lazy_gettext("closed without a provider response"),
    Bucket.CANCELLED: lazy_gettext("cancelled before sending"),
    Bucket.EXCLUDED: lazy_gettext("left the audience before enqueueing"),
    Bucket.SENDING: lazy_gettext("claimed by a worker"),
    Bucket.WAITING: lazy_gettext("waiting in the queue"),
    Bucket.NOT_ENQUEUED: lazy_gettext("wait for their turn"),
}


def retry_text(found: RetriedMessages) -> str:
    """Describe how many recipients are retried, how many are not, and why."""
    people = ngettext("{count} recipient queued for retry.", "{count} recipients queued for retry.", found.retried)
    reasons = []
    if found.bounced:
        reasons.append(gettext("{bounced} because the address bounced", bounced=number_text(found.bounced)))
    if found.suppressed:
        reasons.append(
            gettext("{suppressed} because the address is suppressed", suppressed=number_text(found.suppressed))
        )
    return gettext("{people} Not retried: {reasons}.", people=people, reasons=", ".join(reasons)) if reasons else people


def bucket_parts(counts: CampaignMessageCounts) -> Iterator[str]:
    """Yield `3 failed`, `12 queued` and so on for the buckets with recipients, except the sent ones."""
    for bucket, label in BUCKET_LABELS.items():
        if counts.buckets[bucket] and bucket is not Bucket.SENT:
            yield f"{counts.buckets[bucket]:,} {label.lower()}"
