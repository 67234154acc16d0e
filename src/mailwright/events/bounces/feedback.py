"""Parse feedback reports (RFC 5965) and the formats that Outlook.com and Apple Mail use instead."""

from collections.abc import Sequence
from dataclasses import dataclass

from mailwright.events.bounces.diagnosis import find_address, find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, parse_headers
from mailwright.events.bounces.model import FeedbackType

CONTENT_TYPE = "message/feedback-report"

# Feedback types of the IANA registry, their predecessors and common variants. RFC 5965 treats unknown ones as `other`.
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

# Outlook.com's junk mail reporting returns the email without a report; this header has the recipient's address.
_OUTLOOK_FIELD = "x-hmxmroriginalrecipient"
# Apple Mail sends this in the recipient's name when they choose "Unsubscribe".
_APPLE_FIELD = "x-apple-unsubscribe"


@dataclass(frozen=True, slots=True)
class ParsedFeedback:
    type: FeedbackType
    recipients: tuple[str, ...]
    reporter: str | None


def parse_feedback(report: EmailPart) -> ParsedFeedback | None:
    """Parse a `message/feedback-report` part. Return None if it has no feedback type."""
    fields = parse_headers(report.text.lstrip().encode("utf-8", "replace"))
    stated = fields.first("feedback-type")
    if not stated:
        return None
    named = _addresses(fields, "original-rcpt-to") or _addresses(fields, "removal-recipient")
    return ParsedFeedback(parse_feedback_type(stated), named, fields.first("user-agent")[:255] or None)


def parse_feedback_type(stated: str) -> FeedbackType:
    return _TYPES.get(stated.strip().lower(), FeedbackType.OTHER)


def parse_feedback_without_report(parts: Sequence[EmailPart]) -> ParsedFeedback | None:
    headers = parts[0].headers
    if headers.first(_APPLE_FIELD).lower() == "true":
        recipient = find_address(headers.first("from"))
        return ParsedFeedback(FeedbackType.OPT_OUT, (recipient,) if recipient else (), "Apple Mail")
    for part in parts:
        if part.depth > 0 and part.headers.first(_OUTLOOK_FIELD):
            return ParsedFeedback(FeedbackType.ABUSE, _addresses(part.headers, _OUTLOOK_FIELD), "Outlook.com")
    return None


def _addresses(fields: EmailHeaders, name: str) -> tuple[str, ...]:
    addresses = (address for value in fields.all(name) for address in find_addresses(value))
    return tuple(dict.fromkeys(addresses))
