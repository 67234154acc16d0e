"""Interpret SMTP replies: one table by phase and reply, one for connections that end without a reply."""

import re
from dataclasses import replace
from enum import Enum, auto
from fnmatch import translate

from mailwright.domain.bounce import classify_bounce
from mailwright.domain.clock import HOUR, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.providers.responses import ResultTemplate, ResultTemplates
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply

PROVIDER = "smtp"

# Codes about the sender, which a request may have chosen.
SENDER_REFUSED = "SMTP_SENDER_REFUSED"
UNVERIFIED_SENDER = "SMTP_SENDER_NOT_VERIFIED"
SENDER_NOT_ALLOWED = "SMTP_SENDER_NOT_ALLOWED"

# It is unknown when a daily quota resets, so retry a few times a day.
DAILY_QUOTA_PAUSE: Instant = 4 * HOUR
HOURLY_QUOTA_PAUSE: Instant = 15 * MINUTE


class SessionEnd(Enum):
    """How a connection ended without a reply."""

    LOST = auto()
    TIMED_OUT = auto()
    GARBLED = auto()
    SHUT_DOWN = auto()  # Mailwright shut down and the grace period is over.


_words = ResultTemplates(PROVIDER)
failed, retried, in_doubt, not_called = _words.failed, _words.retried, _words.in_doubt, _words.not_called


@dataclass(frozen=True, slots=True)
class SmtpResponseRule:
    phases: tuple[SmtpPhase, ...]
    replies: re.Pattern[str]  # Each pattern is matched against "550 5.1.1", or "550 -" without an enhanced status.
    text: re.Pattern[str]
    meaning: ResultTemplate


def row(phases: tuple[SmtpPhase, ...], replies: str, meaning: ResultTemplate, text: str = "") -> SmtpResponseRule:
    alternatives = "|".join(translate(pattern) for pattern in replies.split(", "))
    return SmtpResponseRule(phases, re.compile(alternatives), re.compile(text, re.IGNORECASE), meaning)


ANYWHERE = tuple(SmtpPhase)
SESSION = (SmtpPhase.GREETING, SmtpPhase.HELLO, SmtpPhase.STARTTLS, SmtpPhase.AUTH)
MAIL = (SmtpPhase.MAIL,)
RCPT = (SmtpPhase.RCPT,)
ENVELOPE = (SmtpPhase.MAIL, SmtpPhase.RCPT)
CONTENT = (SmtpPhase.DATA, SmtpPhase.DOT)
TRANSACTION = (*ENVELOPE, *CONTENT)

DAILY = r"\bdaily\b.*\b(quota|limit)|\b(quota|limit)\b.*\b(daily|per day|24 hours)\b"
TOO_FAST = r"throttl|\brate\b|rate-?limit|\bquota\b|(?<!size )\blimit(s|ed)?\b|too many (?!recipients)"
HOURLY = r"\bhourly\b|\bper hour\b|\brate.?limit|throttl|\bsending (rate|limit|quota)"
FULL = r"\b(mailbox|inbox|user|recipient)\b.*\b(full|quota|storage)\b|\bover ?quota\b"
BLOCKED = r"spam|block|black ?list|deny ?list|policy|reputation|\bspf\b|\bdkim\b|\bdmarc\b|relay"
NO_RELAY = r"\brelay\w*\b.*\b(denied|prohibited|not (permitted|allowed))|\bto relay\b|\bnot relay\b"
# Texts of SES and similar services over SMTP, for errors that have codes in their APIs.
PAUSED = r"\bsending (is |was |has been )?(paused|suspended|disabled)|\byour account (is|was|has been) suspended"
UNVERIFIED = r"\baddress(es)? (is|are) not verified\b"
UNAUTHORIZED = r"\bnot authorized to perform\b"

CONFIGURATION = ErrorCategory.CONFIGURATION
DAILY_QUOTA = retried("SMTP_DAILY_QUOTA_EXCEEDED", ErrorCategory.QUOTA, after=DAILY_QUOTA_PAUSE)
# Enhanced codes that do not concern the recipient's mailbox.
NOT_THE_MAILBOX = "5?? -, 5?? 5.[034567].*"

# The first matching rule decides. Only SMTP_RECIPIENT_REJECTED means that the address is invalid.
RESPONSE_RULES = (
    #   phase        reply                         internal code, category, retry
    row(ANYWHERE, "4?? 4.2.2", retried("SMTP_MAILBOX_FULL")),
    row((SmtpPhase.RCPT, *CONTENT), "4?? -, 4?? 4.2.*", retried("SMTP_MAILBOX_FULL"), text=FULL),
    row((SmtpPhase.RCPT, *CONTENT), "4?? 4.2.*", retried("SMTP_TEMPORARY_FAILURE")),
    # Rate limits and quotas.
    row(ANYWHERE, "4?? *", DAILY_QUOTA, text=DAILY),
    row(ANYWHERE, "4?? *", retried("SMTP_THROTTLED", ErrorCategory.QUOTA), text=TOO_FAST),
    row(TRANSACTION, "5?? 5.4.5", DAILY_QUOTA),
    row(TRANSACTION, NOT_THE_MAILBOX, DAILY_QUOTA, text=DAILY),
    row(
        TRANSACTION,
        NOT_THE_MAILBOX,
        retried("SMTP_THROTTLED", ErrorCategory.QUOTA, after=HOURLY_QUOTA_PAUSE),
        text=HOURLY,
    ),
    row(ANYWHERE, "421 *", retried("SMTP_SERVICE_UNAVAILABLE", blame=True)),
    # Before the first message, a rejection concerns the server's state or our settings.
    row(SESSION, "4?? *", retried("SMTP_SERVICE_UNAVAILABLE", blame=True)),
    row((SmtpPhase.GREETING, SmtpPhase.HELLO), "5?? *", failed("SMTP_ACCESS_REFUSED", CONFIGURATION)),
    row((SmtpPhase.STARTTLS,), "5?? *", failed("SMTP_TLS_FAILED", CONFIGURATION)),
    row((SmtpPhase.AUTH,), "5?? *", failed("SMTP_AUTH_FAILED", CONFIGURATION)),
    # The envelope.
    row(ENVELOPE, "53[0458] *", failed("SMTP_AUTH_FAILED", CONFIGURATION)),
    row(TRANSACTION, "5?? *", _words.paused("SMTP_SENDING_PAUSED"), text=PAUSED),
    row(TRANSACTION, "5?? *", failed(UNVERIFIED_SENDER, CONFIGURATION), text=UNVERIFIED),
    row(TRANSACTION, "5?? *", failed(SENDER_NOT_ALLOWED, CONFIGURATION), text=UNAUTHORIZED),
    row(TRANSACTION, "5?? 5.3.4, 5?? 5.2.3", failed("SMTP_MESSAGE_TOO_LARGE")),
    row(MAIL, "552 *", failed("SMTP_MESSAGE_TOO_LARGE")),
    row(MAIL, "5?? 5.6.*", failed("SMTP_CONTENT_REJECTED")),
    row(MAIL, "503 *", retried("SMTP_OUT_OF_SEQUENCE", blame=True)),
    row(MAIL, "5?? *", failed(SENDER_REFUSED, CONFIGURATION)),
    row(MAIL, "4?? *", retried("SMTP_TEMPORARY_FAILURE", blame=True)),
    row(RCPT, "5?? 5.1.[1236], 5?? 5.1.10, 5?? 5.2.1, 5?? 5.4.4, 556 *", failed("SMTP_RECIPIENT_REJECTED")),
    row((SmtpPhase.RCPT, *CONTENT), "5?? 5.2.2", failed("SMTP_MAILBOX_FULL")),
    row(RCPT, "5?? 5.7.*, 55[0134] -", failed("SMTP_RELAY_DENIED", CONFIGURATION), text=NO_RELAY),
    row((SmtpPhase.RCPT, *CONTENT), "5?? 5.7.*", failed("SMTP_POLICY_REJECTED")),
    row(RCPT, "552 *", failed("SMTP_MAILBOX_FULL")),
    row(RCPT, "55[0134] -", failed("SMTP_POLICY_REJECTED"), text=BLOCKED),
    row(RCPT, "55[013] -", failed("SMTP_RECIPIENT_REJECTED")),
    # The content.
    row(CONTENT, "5?? 5.6.*", failed("SMTP_CONTENT_REJECTED")),
    row(CONTENT, "552 *", failed("SMTP_MESSAGE_TOO_LARGE")),
    row(TRANSACTION, "5?? *", failed("SMTP_MESSAGE_REJECTED")),
    row(TRANSACTION, "4?? *", retried("SMTP_TEMPORARY_FAILURE")),
)
UNKNOWN = retried("SMTP_UNKNOWN_REPLY")
# Rejections of the address itself, not of the sender or this message.
ABOUT_THE_ADDRESS = frozenset({"SMTP_RECIPIENT_REJECTED", "SMTP_MAILBOX_FULL"})

# Until the last byte is sent, the server cannot have the message. After it, only a complete reply is definite.
ENDED_BEFORE = {
    SessionEnd.LOST: retried("NETWORK_ERROR", blame=True),
    SessionEnd.TIMED_OUT: retried("SMTP_TIMEOUT", ErrorCategory.TIMEOUT, blame=True),
    SessionEnd.GARBLED: retried("SMTP_UNKNOWN_REPLY", blame=True),
    SessionEnd.SHUT_DOWN: not_called("SHUTTING_DOWN", blame=False),
}
ENDED_AFTER = {
    SessionEnd.LOST: in_doubt("SMTP_NO_ANSWER"),
    SessionEnd.TIMED_OUT: in_doubt("SMTP_NO_ANSWER"),
    SessionEnd.GARBLED: in_doubt("SMTP_GARBLED_ANSWER", ErrorCategory.TRANSIENT),
    SessionEnd.SHUT_DOWN: in_doubt("SMTP_NO_ANSWER"),
}

# Errors that we detect without a reply about this message.
NOT_CONNECTED = not_called("NETWORK_ERROR", blame=True)
TLS_FAILED = failed("SMTP_TLS_FAILED", CONFIGURATION)
AUTH_UNSUPPORTED = failed("SMTP_AUTH_FAILED", CONFIGURATION)
# No access token: a person must change something, or the token endpoint is unavailable.
TOKEN_REFUSED = failed("SMTP_TOKEN_REFUSED", CONFIGURATION)
TOKEN_UNAVAILABLE = not_called("SMTP_TOKEN_UNAVAILABLE", blame=True)
LOCK_EXPIRED = not_called("LOCK_EXPIRED", blame=False)
INVALID_ADDRESS = failed("INVALID_ADDRESS", ErrorCategory.VALIDATION)
INVALID_CONTENT = failed("INVALID_CONTENT", ErrorCategory.VALIDATION)
TOO_LARGE = failed("SMTP_MESSAGE_TOO_LARGE")
UTF8_UNSUPPORTED = failed("SMTP_UTF8_UNSUPPORTED")
EIGHT_BIT_UNSUPPORTED = failed("SMTP_8BIT_UNSUPPORTED")


def interpret_rejection(phase: SmtpPhase, reply: SmtpReply) -> SendResult:
    """Return the result for a negative reply in a phase. During login it applies to all waiting messages."""
    status, text = reply.status, reply.text
    subject, words = f"{reply.code} {reply.enhanced or '-'}", " ".join(text.split())
    for candidate in RESPONSE_RULES:
        if phase in candidate.phases and candidate.replies.match(subject) and candidate.text.search(words):
            return _classified(candidate.meaning.result(text, status), reply)
    return UNKNOWN.result(f"unknown reply to {phase.name}: {status} {text}", status)


def _classified(result: SendResult, reply: SmtpReply) -> SendResult:
    """Apply the class of the reply code: 4yz is a deferral, and 5yz may be a bounce."""
    if reply.code // 100 == 4 and result.kind is ResultKind.RETRYABLE:
        return replace(result, is_deferral=True)
    if result.kind is not ResultKind.FAILED or result.code not in ABOUT_THE_ADDRESS:
        return result
    return replace(result, bounce=classify_bounce(reply.enhanced, reply.code, reply.text))
