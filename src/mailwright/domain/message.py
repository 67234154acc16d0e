"""A message on its way: as it is asked for, as a worker holds it, and as it is settled.

Values, changed by nobody. They are made for every mail and are not declared frozen: that check would cost each of them
more than all the rest of its making.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant
from mailwright.domain.permits import PacingRules
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType, OnDoubt, Priority, Status


class Source(StrEnum):
    """Who asks for mail."""

    API = "api"
    CAMPAIGN = "campaign"
    MAILOUT = "mailout"
    ARTICLE = "article"
    NOTIFICATION = "notification"


@dataclass(slots=True)
class NewMessage:
    """One email to one recipient, before it has a row."""

    outbox_id: str
    tenant_id: int
    source: Source
    request_id: str
    to_email: str  # the normal form: dedupe, suppression and search use this one
    subject: str
    payload: Mapping[str, Any]  # what the mail says, as the source gave it
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
    list_key: str | None = None  # whose mail it is; None for transactional mail
    scheduled_at: Instant | None = None
    expires_at: Instant | None = None


@dataclass(slots=True)
class Accepted:
    outbox_id: str
    request_id: str
    status: str
    is_replay: bool = False
    is_conflict: bool = False  # the key was used before with another body; nothing was stored


@dataclass(slots=True)
class Claimed:
    """A message that this worker holds until its lock ends, with the facts that validation needs."""

    message_key: int
    claim_token: int
    tenant_id: int
    lane: int
    attempts: int
    claims: int
    resends: int
    tenant_name: str
    created_at: Instant
    is_in_outbox: bool  # false when the message itself is gone or belongs to another tenant
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
    tenant_limit: int | None = None  # how many of the tenant's mails may be under way at once
    list_key: str | None = None  # None for transactional mail
    copies: tuple[str, ...] = ()  # who gets a copy, in normal form; known once the mail was looked up
    only_provider: str | None = None  # it may have the mail already: no other may be handed it
    failed_provider: str | None = None  # it could not take the mail last time: another goes first
    provider: str | None = None  # who is to carry it; known before the mark
    domain_limit: int | None = None  # how many mails to its domain may be under way at once; known at the gate
    recipient_zone: str | None = None  # where the reader of a campaign lives, as far as anybody told
    paced: PacingRules | None = None  # where its beginning needs a moment of its own; known at the gate
    lane_limit: int | None = None  # how many mails of its lane may be under way at once; known at the gate

    @property
    def attempt(self) -> int:
        """The number of the attempt that comes next."""
        return self.attempts + 1

    @property
    def log_fields(self) -> dict[str, str | int]:
        """What leads from a log line to the message."""
        return {
            "outboxId": self.outbox_id,
            "requestId": self.request_id,
            "companyId": self.tenant_name,
            "attempt": self.attempt,
        }


@dataclass(slots=True)
class Event:
    type: EventType
    at: Instant
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Delivered:
    """The provider has it. Most messages end like this, so it carries no more than its four events need."""

    claimed: Claimed
    validated_at: Instant
    attempted_at: Instant
    sent_at: Instant
    provider: str
    provider_message_id: str | None
    note: str | None = None  # what the provider said besides, as of a copy that it refused

    @property
    def duration_ms(self) -> int:
        return self.sent_at - self.claimed.received_at


@dataclass(slots=True)
class Settlement:
    """Any other result of one claim, with all its events: written in one transaction or not at all."""

    claimed: Claimed
    status: Status
    events: tuple[Event, ...]
    completes_attempt: bool  # attempts grow by one exactly when a provider attempt was completed
    due_at: Instant = 0  # when the message is looked at again, if ever
    defer_reason: str | None = None
    provider: str | None = None
    provider_message_id: str | None = None
    error_code: str | None = None
    error_category: ErrorCategory | None = None
    error_reason: str | None = None
    duration_ms: int | None = None
    is_dead_letter: bool = False
    bounce: BounceKind | None = None  # what the refusal says about the address itself
    may_have_been_sent: bool = (
        False  # its provider may have it all the same: no other is handed it, and a report ends it
    )


Outcome = Delivered | Settlement


def personalize_payload(
    payload: Mapping[str, Any], attributes: Mapping[str, Any], to_email: str, name: str | None
) -> dict[str, Any]:
    """A campaign's messages share one payload; what is the reader's own is in their contact."""
    variables = {**payload.get("variables", {}), **attributes}
    return {**payload, "to": to_email, "toName": name, "variables": variables}
