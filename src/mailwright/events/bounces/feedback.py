"""Feedback reports (RFC 5965), and what two large mailbox providers send instead of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailwright.events.bounces.diagnosis import find_address, find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, parse_headers
from mailwright.events.bounces.model import FeedbackType

CONTENT_TYPE = "message/feedback-report"

# The registry, its forerunners, and how some write it. A type that nobody knows counts as `other`, as the RFC says.
_TYPES = {
    "abuse": FeedbackType.ABUSE,
    "complaint": FeedbackType.ABUSE,
    "spam": FeedbackType.ABUSE,
    "fraud": FeedbackType.FRAUD,
    "phishing": FeedbackType.FRAUD,
    "virus": FeedbackType.VIRUS,
    "other": FeedbackType.OTHER,
    "opt-out": FeedbackType.OPT_OUT,
    "opt-out-list": FeedbackType.OPT_OUT,
    "unsubscribe": FeedbackType.OPT_OUT,
    "not-spam": FeedbackType.NOT_SPAM,
    "miscategorized": FeedbackType.NOT_SPAM,
    "auth-failure": FeedbackType.AUTH_FAILURE,
    "dkim": FeedbackType.AUTH_FAILURE,
    "dmarc": FeedbackType.AUTH_FAILURE,
    "spf": FeedbackType.AUTH_FAILURE,
}

# Outlook.com's junk mail reporting returns the mail without a report, with the reader's address in a header of its own.
_OUTLOOK_FIELD = "x-hmxmroriginalrecipient"
# Apple Mail writes in the reader's name when they press "unsubscribe".
_APPLE_FIELD = "x-apple-unsubscribe"


@dataclass(frozen=True, slots=True)
class ParsedFeedback:
    type: FeedbackType
    recipients: tuple[str, ...]
    reporter: str | None


def parse_feedback(report: EmailPart) -> ParsedFeedback | None:
    """Of a `message/feedback-report`; None where it does not even say what kind of feedback it is."""
    fields = parse_headers(report.text.lstrip().encode("utf-8", "replace"))
    stated = fields.first("feedback-type")
    if not stated:
        return None
    named = _addresses(fields, "original-rcpt-to") or _addresses(fields, "removal-recipient")
    return ParsedFeedback(parse_feedback_type(stated), named, fields.first("user-agent")[:255] or None)


def parse_feedback_type(stated: str) -> FeedbackType:
    return _TYPES.get(stated.strip().lower(), FeedbackType.OTHER)


def feedback_without_report(parts: Sequence[EmailPart]) -> ParsedFeedback | None:
    letter = parts[0].headers
    if letter.first(_APPLE_FIELD).lower() == "true":
        reader = find_address(letter.first("from"))
        return ParsedFeedback(FeedbackType.OPT_OUT, (reader,) if reader else (), "Apple Mail")
    for part in parts:
        if part.depth > 0 and part.headers.first(_OUTLOOK_FIELD):
            return ParsedFeedback(FeedbackType.ABUSE, _addresses(part.headers, _OUTLOOK_FIELD), "Outlook.com")
    return None


def _addresses(fields: EmailHeaders, name: str) -> tuple[str, ...]:
    found = (address for value in fields.all(name) for address in find_addresses(value))
    return tuple(dict.fromkeys(found))
