"""Reports: what a provider or a mailbox tells us later about a mail, in our words, whoever said it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.states import EventType


class ContactVerdict(StrEnum):
    """What a report means for the person it speaks of."""

    NOTHING = "nothing"
    HARD_BOUNCE = "hard_bounce"  # the address does not work: no mail at all goes there again
    SOFT_BOUNCE = "soft_bounce"  # not now; only many of these in a short time count
    COMPLAINT = "complaint"  # called it spam: no mail at all, and the contact has left
    UNSUBSCRIBE = "leaves"  # unsubscribed at the provider: no bulk mail


@dataclass(frozen=True, slots=True)
class Report:
    """About one mail and one recipient. Whatever is known of the mail is used to find it, the surest first."""

    key: str  # the same for every copy of this report, different for every other
    source: str  # ses, sendgrid, smtp, mailbox
    type: EventType
    at: Instant
    recipient: str | None = None
    outbox_id: str | None = None  # ours, as the mail carried it
    provider_message_id: str | None = None
    verdict: ContactVerdict = ContactVerdict.NOTHING
    bounce_type: str | None = None  # in the reporter's words, as Permanent
    bounce_subtype: str | None = None  # as General
    metadata: Mapping[str, Any] = field(default_factory=dict)
