"""Parse feedback reports (RFC 5965) and the formats that Outlook.com and Apple Mail use instead."""

import re
from collections.abc import Iterator, Sequence

from mailwright.domain.feedback import FeedbackType, parse_feedback_type
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces.diagnosis import find_address, find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, parse_headers

CONTENT_TYPE = "message/feedback-report"

# Outlook.com's junk mail reporting returns the email without a report. This header, of the returned email, of the part
# with it or of the complaint itself, has the recipient's address.
_OUTLOOK_FIELD = "x-hmxmroriginalrecipient"
# The senders and the subjects of complaints without a report and without that header: Hotmail and AOL.
_COMPLAINT_SENDER = re.compile(
    r"(?<![\w.+-])(?:staff@(?:hotmail|outlook|live)\.com|scomp@aol\.(?:net|com))\b", re.IGNORECASE
)
_COMPLAINT_SUBJECT = re.compile(
    r"\s*(?:fwd?\s?:\s*)?(?:complaint about message from|email feedback report for ip|client tos notification)",
    re.IGNORECASE,
)
# Apple Mail sends this in the recipient's name when they choose "Unsubscribe".
_APPLE_FIELD = "x-apple-unsubscribe"


@dataclass(frozen=True, slots=True)
class ParsedFeedback:
    type: FeedbackType
    recipients: tuple[str, ...]
    reporter: str | None


def parse_fields(report: EmailPart) -> EmailHeaders:
    """Return the fields of a `message/feedback-report` part, or of a text part that has them instead."""
    return parse_headers(report.text.lstrip().encode("utf-8", "replace"))


def parse_feedback(fields: EmailHeaders) -> ParsedFeedback | None:
    """Parse the fields of a feedback report. Return None if they have no feedback type."""
    stated = fields.first("feedback-type")
    if not stated:
        return None
    named = _addresses(fields, "original-rcpt-to") or _addresses(fields, "removal-recipient")
    return ParsedFeedback(parse_feedback_type(stated), named, fields.first("user-agent")[:255] or None)


def parse_unsubscribe(headers: EmailHeaders) -> ParsedFeedback | None:
    if headers.first(_APPLE_FIELD).lower() != "true":
        return None
    recipient = find_address(headers.first("from"))
    return ParsedFeedback(FeedbackType.OPT_OUT, (recipient,) if recipient else (), "Apple Mail")


def parse_feedback_without_report(parts: Sequence[EmailPart]) -> ParsedFeedback | None:
    headers = parts[0].headers
    for fields in (*(part.headers for part in parts), *_headers_in_text(parts)):
        if fields.first(_OUTLOOK_FIELD):
            return ParsedFeedback(FeedbackType.ABUSE, _addresses(fields, _OUTLOOK_FIELD), "Outlook.com")
    if is_complaint(headers):
        return ParsedFeedback(FeedbackType.ABUSE, (), find_address(headers.first("from")))
    return None


def is_complaint(headers: EmailHeaders) -> bool:
    """Return whether sender and subject are those of a complaint without a report."""
    is_sender = _COMPLAINT_SENDER.search(headers.first("from")) is not None
    return is_sender and _COMPLAINT_SUBJECT.match(headers.first("subject")) is not None


def _headers_in_text(parts: Sequence[EmailPart]) -> Iterator[EmailHeaders]:
    """Yield the headers of the returned email if a complaint has them as text."""
    if _COMPLAINT_SUBJECT.match(parts[0].headers.first("subject")):
        for part in parts:
            if part.content_type.startswith("text/"):
                yield parse_headers(part.text.lstrip().encode("utf-8", "replace"))


def _addresses(fields: EmailHeaders, name: str) -> tuple[str, ...]:
    addresses = (address for value in fields.all(name) for address in find_addresses(value))
    return tuple(dict.fromkeys(addresses))
