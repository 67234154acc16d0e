"""Letters: what came to the bounce address, in our words. One of five things, whoever wrote it."""

from dataclasses import dataclass
from enum import StrEnum

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant


class DsnAction(StrEnum):
    """What the reporting server did with the mail (RFC 3464)."""

    FAILED = "failed"
    DELAYED = "delayed"  # it is still trying
    DELIVERED = "delivered"
    RELAYED = "relayed"  # handed to a server that sends no reports
    EXPANDED = "expanded"  # to the members of a list


class FeedbackType(StrEnum):
    """Why a mailbox provider writes (RFC 5965 and its registry)."""

    ABUSE = "abuse"
    FRAUD = "fraud"
    VIRUS = "virus"
    OTHER = "other"
    OPT_OUT = "opt-out"
    NOT_SPAM = "not-spam"
    AUTH_FAILURE = "auth-failure"

    @property
    def is_complaint(self) -> bool:
        """A reader calls it unwanted. Praise, wishes to leave and the reports of DMARC are something else."""
        return self in (FeedbackType.ABUSE, FeedbackType.FRAUD, FeedbackType.VIRUS, FeedbackType.OTHER)


@dataclass(frozen=True, slots=True)
class OriginalMessage:
    """The mail that the letter is about, as far as the letter shows it. Ours, if we know the outbox id."""

    outbox_id: str | None = None
    message_id: str | None = None  # with its angle brackets
    recipients: tuple[str, ...] = ()  # of its To header


@dataclass(frozen=True, slots=True)
class BouncedRecipient:
    """What became of the mail for one reader."""

    identity: str  # the same whenever this letter is read again
    address: str | None  # None where the letter does not say, or says something that is no address
    action: DsnAction
    kind: BounceKind | None  # None unless it failed or is delayed
    status: str | None = None  # enhanced, as 5.1.1
    reply_code: int | None = None
    diagnostic: str = ""


@dataclass(frozen=True, slots=True)
class BounceReport:
    identity: str
    original: OriginalMessage
    recipients: tuple[BouncedRecipient, ...]
    reporting_mta: str | None = None
    sent_at: Instant | None = None  # as its Date says; whoever wrote it may have a wrong clock


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """A feedback report. Ask its type whether it is a complaint at all."""

    identity: str
    original: OriginalMessage
    feedback_type: FeedbackType
    recipients: tuple[str, ...]  # often none: many mailbox providers hide who complained
    reporter: str | None = None
    sent_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class AutoReply:
    """Somebody's machine answers for them. It says nothing about the address, and is never answered."""

    identity: str
    original: OriginalMessage


@dataclass(frozen=True, slots=True)
class UnrelatedEmail:
    """A mail like any other."""

    identity: str


@dataclass(frozen=True, slots=True)
class UnreadableReport:
    """It says that it is a report, and the report cannot be read."""

    identity: str
    reason: str


BounceMail = BounceReport | FeedbackReport | AutoReply | UnrelatedEmail | UnreadableReport
