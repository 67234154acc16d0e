"""The kinds of emails to the bounce address: bounce, feedback, ordinary (replies and others) or unreadable."""

from enum import StrEnum

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant
from mailwright.domain.feedback import FeedbackType
from mailwright.domain.lazy_dataclass import dataclass


class DsnAction(StrEnum):
    """The action of the reporting server (RFC 3464)."""

    FAILED = "failed"
    DELAYED = "delayed"  # the server is still trying
    DELIVERED = "delivered"
    RELAYED = "relayed"  # handed over to a server that sends no reports
    EXPANDED = "expanded"  # delivered to the members of a list


@dataclass(frozen=True, slots=True)
class OriginalMessage:
    """The known facts about the message that a report is about. It is one of our messages if `outbox_id` is set."""

    outbox_id: str | None = None
    message_id: str | None = None  # with its angle brackets
    recipients: tuple[str, ...] = ()  # the addresses in its To header


@dataclass(frozen=True, slots=True)
class BouncedRecipient:
    """The outcome of the message for one recipient."""

    identity: str  # stable: the same if this email is read again
    address: str | None  # None if missing or invalid
    action: DsnAction
    kind: BounceKind | None  # None unless the message failed or is delayed
    status: str | None = None  # enhanced status code such as 5.1.1
    reply_code: int | None = None
    diagnostic: str = ""


@dataclass(frozen=True, slots=True)
class BounceReport:
    identity: str
    original: OriginalMessage
    recipients: tuple[BouncedRecipient, ...]
    reporting_mta: str | None = None
    sent_at: Instant | None = None  # its Date header; the sender's clock may be wrong
    ordinary: "OrdinaryEmail | None" = None  # the same email as a person's, if nothing proves that it is a bounce


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """A feedback report; `feedback_type.is_complaint` is true for complaints."""

    identity: str
    original: OriginalMessage
    feedback_type: FeedbackType
    recipients: tuple[str, ...]  # often empty, because many mailbox providers hide who complained
    reporter: str | None = None
    sent_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class OrdinaryEmail:
    """An email that is not a report: a reply to one of our messages, or an unrelated email."""

    identity: str
    original: OriginalMessage
    sender: str | None = None  # the address in From; None if missing or invalid
    sender_name: str | None = None
    subject: str = ""
    references: tuple[str, ...] = ()  # the Message-IDs that it answers, closest first
    is_automatic: bool = False  # a program wrote it, for example an out-of-office reply
    is_ours: bool = False  # one of our own messages came back, for example because it was forwarded
    sent_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class UnreadableReport:
    """An email that claims to be a report but cannot be parsed. A person may have written it."""

    identity: str
    reason: str
    ordinary: OrdinaryEmail  # the same email, read as an ordinary one


BounceMail = BounceReport | FeedbackReport | OrdinaryEmail | UnreadableReport
