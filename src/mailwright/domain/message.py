"""A message as it is accepted, claimed, admitted and settled.

No code changes these values after they are made. They are made for every message, and a frozen dataclass takes more
than twice as long to make as a named tuple, which `Claimed` is, or a plain dataclass.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant
from mailwright.domain.frequency import FrequencyCap
from mailwright.domain.lanes import PRIORITY_SHIFT
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import PacingRules
from mailwright.domain.results import BouncedCopy, ErrorCategory
from mailwright.domain.sender_domains import AcceptWarning
from mailwright.domain.states import EventType, OnDoubt, Priority, Status


class Source(StrEnum):
    """The feature that created a message."""

    API = "api"
    CAMPAIGN = "campaign"
    MAILOUT = "mailout"
    ARTICLE = "article"
    NOTIFICATION = "notification"
    SEQUENCE = "sequence"


# The field of a payload that holds the warnings with which the message was accepted.
WARNINGS = "warnings"
# The field of a payload that is true for a test, whose unsubscribe link changes nothing.
IS_TEST = "isTest"
# The field of a payload that holds a subject with variables, which replaces the one of the template.
SUBJECT_TEMPLATE = "subjectTemplate"
# The field of a payload that holds the envelope sender of a raw email.
ENVELOPE_FROM = "envelopeFrom"
# The field of a payload that holds the key by which the requesting program recognises duplicates.
DEDUPE_KEY_FIELD = "dedupeKey"
# The field of a payload that holds the size of a raw email in bytes.
RAW_BYTES = "rawBytes"
# The further addresses in From and Sender of an email; None if mail programs could read these headers differently.
OTHER_SENDERS = "otherSenders"


# The field of a payload that holds the Message-ID of an email, if it is not derived from the message's id. Replies are
# matched by it.
OWN_MESSAGE_ID = "messageId"
# The field of a payload that holds the ID that the application got for the email, if it is that of another message.
EMAIL_ID = "emailId"
# The fields of a payload that only the APIs of other services set: the email's Sender header, alternatives to its text
# and HTML, and whether its subject may be empty, or as long as a header allows.
SENDER_HEADER = "senderHeader"
ALTERNATIVES = "alternatives"
FREE_SUBJECT = "freeSubject"
# The field of a payload that marks an email about an account of the dashboard.
ACCOUNT_EMAIL = "accountEmail"
# The field of a payload that holds an encrypted link, and the text in its content that the link replaces when the
# message is sent. Users who read messages must not see, for example, the link that resets somebody's password.
SEALED_LINK = "sealedLink"
SEALED_LINK_MARK = "https://hidden-link.invalid/"
# Texts in the content of bulk email that the recipient's own links replace when the message is sent.
UNSUBSCRIBE_LINK_MARK = "https://unsubscribe-link.invalid/"
PREFERENCES_LINK_MARK = "https://preferences-link.invalid/"
# The field of a payload that holds the sender and the recipient of a reply that was forwarded.
FORWARDED_REPLY = "forwardedReply"


# From this size on, a raw email takes more pages than the index entries of its key.
_SMALL_BYTES = 16 * 1024


def raw_dedupe_key(key: str, to_email: str) -> str:
    """Return the deduplication key of a raw email to one recipient. `key` is its idempotency key or Message-ID."""
    return f"api:raw:{hashlib.sha256(key.encode()).hexdigest()[:40]}:{to_email}"


@dataclass(slots=True)
class RawContent:
    """The bytes of a raw email and their SHA-256. All messages of a submission share them under one key."""

    content: bytes
    digest: str
    key: str

    @classmethod
    def of(cls, content: bytes, now: Instant) -> Self:
        """Derive the key from the digest of the content, so that equal emails are stored once.

        The key of a small email begins with its time, so that small emails of one commit are neighbours in the indexes
        and the commit writes fewer pages.
        """
        digest = hashlib.sha256(content).hexdigest()
        return cls(content, digest, digest if len(content) > _SMALL_BYTES else f"{now:012x}{digest[:40]}")


@dataclass(slots=True)
class NewMessage:
    """One email to one recipient, before it is stored."""

    outbox_id: str
    tenant_id: int
    source: Source
    request_id: str
    to_email: str  # The normalized address, used for deduplication, suppression and search.
    subject: str
    payload: Mapping[str, Any]  # The content as the source provided it.
    recipient_id: str | None = None
    external_id: str | None = None
    contact_name: str | None = None
    dedupe_key: str | None = None
    body_digest: str | None = None
    template_key: int | None = None
    retry_policy: str = "standard"
    on_doubt: OnDoubt = OnDoubt.RESEND
    priority: int = Priority.TRANSACTIONAL
    is_bulk: bool = False
    list_key: str | None = None  # The mailing list of the message; None for transactional messages.
    scheduled_at: Instant | None = None
    expires_at: Instant | None = None
    lane: int | None = None  # None for the lane of single emails of the tenant and priority.
    creates_contact: bool = True  # False for email to users of the dashboard, who are not contacts.
    raw: RawContent | None = None  # None if Mailwright builds the email from the payload.
    submission_id: str | None = None  # Messages of one submission are stored together or, after a conflict, not at all.


@dataclass(slots=True)
class Accepted:
    outbox_id: str
    request_id: str
    status: str
    is_replay: bool = False
    is_conflict: bool = False  # The key was already used with a different body; nothing was stored.
    is_erasing: bool = False  # The recipient's data is being erased; nothing was stored.
    warnings: tuple[AcceptWarning, ...] = ()


class Claimed(NamedTuple):
    """A message that a worker has claimed until its lease ends, with the facts that validation needs."""

    message_key: int
    claim_token: int
    tenant_id: int
    lane: int
    attempts: int
    claims: int
    resends: int
    tenant_name: str
    created_at: Instant
    is_in_outbox: bool  # False if the message was deleted or belongs to another tenant.
    outbox_id: str
    source: str
    request_id: str
    to_email: str
    payload: Mapping[str, Any]
    template_key: int | None
    retry_policy: str
    is_bulk: bool
    expires_at: Instant | None
    recipient_id: str | None
    external_id: str | None
    contact_email: str | None
    is_contact_deleted: bool
    suppressed_because: str | None
    leased_until: Instant
    received_at: Instant
    tenant_limit: int | None = None  # How many of the tenant's messages may be in flight.
    list_key: str | None = None  # None for transactional messages.
    only_provider: str | None = None  # This provider may already have the message, so no other provider may send it.
    failed_provider: str | None = None  # This provider failed last time, so another provider is tried first.
    recipient_zone: str | None = None  # The recipient's time zone, if known.
    deferrals: int = 0  # How often the receiving server or an outage deferred the message.
    deferred_since: Instant | None = None  # When the first of these deferrals happened.
    retry_until: Instant | None = None  # The end of the lifetime, known since the first of these deferrals.
    content_digest: str | None = None  # The key of a raw email's bytes; None if the message is not raw.
    campaign_key: int | None = None
    # The tracking settings of the tenant and the list, and the tenant's host of tracked links; None if not set.
    tenant_tracking: str | None = None
    list_tracking: str | None = None
    tracking_host: str | None = None
    consents_to_tracking: bool | None = None  # None if the contact has not decided
    snoozed_until: Instant | None = None  # Until when the contact has paused bulk email; None for transactional email.
    scheduled_at: Instant | None = None  # The send time that the request gave.
    excused_attempts: int = 0  # How many of the attempts do not count towards the maximum of the retry policy.

    @property
    def priority(self) -> int:
        return self.lane >> PRIORITY_SHIFT

    @property
    def attempt(self) -> int:
        """The number of the next attempt."""
        return self.attempts + 1

    @property
    def has_failed(self) -> bool:
        """Whether a provider did not take the message before."""
        return bool(self.attempts or self.deferrals)

    @property
    def counted_attempt(self) -> int:
        """The number of the next attempt among those that count towards the maximum of the retry policy."""
        return self.attempt - self.excused_attempts

    @property
    def log_fields(self) -> dict[str, str | int]:
        """The fields that identify the message in a log line."""
        return {
            "outboxId": self.outbox_id,
            "requestId": self.request_id,
            "companyId": self.tenant_name,
            "attempt": self.attempt,
        }


@dataclass(slots=True)
class Admitted:
    """A claimed message that the gate admitted, with the limits that apply when its attempt begins."""

    claimed: Claimed
    tenant_limit: int | None = None  # How many of the tenant's messages may be in flight.
    pacing: PacingRules | None = None  # Set if the send must start at a booked time.
    lane_limit: int | None = None  # How many messages of its lane may be in flight.
    source_limit: int | None = None  # How many messages of its source may be in flight.
    domain_limit: int | None = None  # How many messages to the recipient's domain may be in flight.
    frequency_cap: FrequencyCap | None = None  # How many bulk emails the recipient may receive.


@dataclass(slots=True)
class Event:
    type: EventType
    at: Instant
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_machine(self) -> bool:
        """Whether a program opened the email or clicked its link, such as a link scanner."""
        return self.metadata.get("isMachine") is True

    @property
    def is_automatic(self) -> bool:
        """Whether a program wrote the reply, such as an out-of-office reply."""
        return self.metadata.get("isAutomatic") is True


@dataclass(slots=True)
class Delivered:
    """The provider accepted the message. This is the most common outcome and holds only the data of its four events."""

    claimed: Claimed
    validated_at: Instant
    attempted_at: Instant
    sent_at: Instant
    provider: str
    provider_message_id: str | None
    note: str | None = None  # The provider's remark, for example about a rejected copy.
    deferred_recipients: tuple[str, ...] = ()  # Recipients of copies that must be retried.
    is_tracked: bool = False  # Whether opens and clicks of the recipient are recorded.
    subject: str | None = None  # The rendered subject, if it differs from the one that was accepted.
    is_ses: bool = False  # Whether the provider is SES, under any name.
    bounced_copies: tuple[BouncedCopy, ...] = ()  # Recipients of copies whose addresses the server rejected.

    @property
    def duration_ms(self) -> int:
        return self.sent_at - self.claimed.received_at


@dataclass(slots=True)
class Settlement:
    """Any other outcome of a claim, with all its events. It is written in one transaction."""

    claimed: Claimed
    status: Status
    events: tuple[Event, ...]
    completes_attempt: bool  # Whether the provider was called, so that the message has one more attempt.
    is_excused: bool = False  # Whether the attempt does not count towards the maximum of the retry policy.
    due_at: Instant = 0  # When the message is due again, if it is.
    defer_reason: str | None = None
    deferred_at: Instant | None = None  # Set if the receiving server or an outage deferred the message.
    retry_until: Instant | None = None  # The end of the lifetime of a deferred message.
    provider: str | None = None
    provider_message_id: str | None = None
    error_code: str | None = None
    error_category: ErrorCategory | None = None
    error_reason: str | None = None
    duration_ms: int | None = None
    is_dead_letter: bool = False
    bounce: BounceKind | None = None  # Set if the rejection shows that the address bounces.
    # Whether `provider` may have the message. Then no other provider may send it, and a report from this provider
    # settles it.
    may_have_been_sent: bool = False
    subject: str | None = None  # The rendered subject, if it differs from the one that was accepted.
    bounced_copies: tuple[BouncedCopy, ...] = ()  # Recipients of copies whose addresses the server rejected.


Outcome = Delivered | Settlement


def personalize_payload(
    payload: Mapping[str, Any], attributes: Mapping[str, Any], to_email: str, name: str | None
) -> dict[str, Any]:
    """Add the recipient's own values to the payload that all messages of a campaign share."""
    variables = {**payload.get("variables", {}), **attributes}
    return {**payload, "to": to_email, "toName": name, "variables": variables}
