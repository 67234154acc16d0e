"""Parse any email to the bounce address. Parsing never raises, and its time is limited."""

import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime

from mailwright.content.raw import readable_line
from mailwright.domain.clock import Instant, to_instant
from mailwright.events.bounces import delivery_status, feedback, ses_notices
from mailwright.events.bounces.author import find_author
from mailwright.events.bounces.automatic import is_auto_responder, is_automatic
from mailwright.events.bounces.diagnosis import RecipientFields, classify_recipient, digest
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, split_parts
from mailwright.events.bounces.feedback import ParsedFeedback
from mailwright.events.bounces.model import (
    BounceMail,
    BounceReport,
    FeedbackReport,
    OrdinaryEmail,
    OriginalMessage,
    UnreadableReport,
)
from mailwright.events.bounces.original_message import OUR_HEADER, find_original, find_references, is_reply

MAX_SUBJECT = 200

_TAG = re.compile(r"<[^<>]{0,2000}>")
_REPORT_TYPE = re.compile(r"report-type[ \t]*=[ \t]*\"?(delivery-status|feedback-report)", re.IGNORECASE)


def parse_bounce_mail(email: bytes) -> BounceMail:
    """Parse the first format that matches: standard report, SES notice, plain text bounce, ordinary email."""
    parts = split_parts(email)
    identity = _identity(email, parts[0].headers)
    parsed = (
        _parse_unsubscribe(identity, parts)
        or _parse_structured(identity, parts)
        or _parse_plain_text(identity, email, parts)
        or _find_missing_report(parts)
        or _parse_ordinary(email, parts)
    )
    if isinstance(parsed, str):
        return UnreadableReport(identity, parsed, _parse_ordinary(email, parts))
    return replace(parsed, sent_at=_sent_at(parts[0].headers))


def _parse_unsubscribe(identity: str, parts: Sequence[EmailPart]) -> FeedbackReport | None:
    parsed = feedback.parse_unsubscribe(parts[0].headers)
    return _complaint(identity, find_original(parts), parsed) if parsed else None


def _parse_structured(identity: str, parts: Sequence[EmailPart]) -> BounceReport | FeedbackReport | None:
    """Parse the report of a program. A person's reply may contain somebody else's report, which is not about us."""
    from mailwright.events.bounces import plain_text  # noqa: PLC0415 - its expressions take long to compile

    headers = parts[0].headers
    is_own = parts[0].content_type == "multipart/report" or plain_text.is_from_server(headers)
    if is_reply(headers) and not is_own and not feedback.is_complaint(headers):
        return None
    return (
        (_parse_own_report(identity, parts) if is_own else None)
        or (_parse_forwarded_report(identity, parts) if not is_reply(headers) else None)
        or _parse_complaint_without_report(identity, parts)
        or _parse_notice(identity, parts)
    )


def _parse_own_report(identity: str, parts: Sequence[EmailPart]) -> BounceReport | FeedbackReport | None:
    """Parse the report of the email itself. The returned message may contain another report."""
    own = [index for index, part in enumerate(parts) if part.depth == 0]
    for index in own:
        if parsed := _parse_report_part(identity, parts, index):
            return parsed
    if _is_declared(parts, "feedback-report"):  # its fields are in a text part
        texts = (_parse_feedback(identity, parts, each) for each in own if parts[each].content_type == "text/plain")
        return next((each for each in texts if each), None)
    text = _own_body(parts)
    return _parse_delivery_status(identity, parts, 0, text) if delivery_status.has_groups(text) else None


def _parse_forwarded_report(identity: str, parts: Sequence[EmailPart]) -> BounceReport | FeedbackReport | None:
    """Parse a report that a person or a gateway forwarded. An attachment of a person must be about our message."""
    is_declared = _is_declared(parts, "delivery-status")
    for index, part in enumerate(parts):
        parsed = _parse_report_part(identity, parts, index, is_forwarded=True)
        if parsed and (part.depth == 0 or is_declared or parsed.original.outbox_id):
            return parsed
    return None


def _parse_report_part(
    identity: str, parts: Sequence[EmailPart], index: int, *, is_forwarded: bool = False
) -> BounceReport | FeedbackReport | None:
    part = parts[index]
    if part.content_type in delivery_status.CONTENT_TYPES:
        return _parse_delivery_status(identity, parts, index, part.text, is_forwarded=is_forwarded)
    if part.content_type == feedback.CONTENT_TYPE:
        return _parse_feedback(identity, parts, index, is_forwarded=is_forwarded)
    return None


def _parse_feedback(
    identity: str, parts: Sequence[EmailPart], index: int, *, is_forwarded: bool = False
) -> FeedbackReport | None:
    fields = feedback.parse_fields(parts[index])
    parsed = feedback.parse_feedback(fields)
    if parsed is None:
        return None
    original = find_original(parts, report=index, groups=[fields], is_forwarded=is_forwarded)
    return _complaint(identity, original, parsed)


def _parse_delivery_status(
    identity: str, parts: Sequence[EmailPart], index: int, fields: str, *, is_forwarded: bool = False
) -> BounceReport | None:
    groups = delivery_status.parse_groups(fields)
    recipients = list(delivery_status.find_recipients(groups))
    if not recipients:
        return None
    from mailwright.events.bounces import plain_text  # noqa: PLC0415 - as above

    text = _own_body(parts) if parts[index].depth == 0 else ""  # a person wrote the text above an attached report
    reasons = plain_text.Reasons(plain_text.strip_returned_message(text))
    explained = [reasons.explain(fields, is_only=len(recipients) == 1) for fields in recipients]
    original = find_original(parts, report=index, groups=groups, is_forwarded=is_forwarded)
    return _bounce(identity, original, explained, delivery_status.find_reporting_mta(groups))


def _parse_complaint_without_report(identity: str, parts: Sequence[EmailPart]) -> BounceReport | FeedbackReport | None:
    parsed = feedback.parse_feedback_without_report(parts)
    return _complaint(identity, find_original(parts), parsed) if parsed else None


def _parse_notice(identity: str, parts: Sequence[EmailPart]) -> BounceReport | FeedbackReport | None:
    notice = ses_notices.parse_notice(_own_body(parts))
    if notice is None:
        return None
    original = find_original(parts, repeated=notice.headers)
    if notice.feedback:
        return _complaint(identity, original, notice.feedback)
    return _bounce(identity, original, notice.recipients, notice.reporting_mta) if notice.recipients else None


def _parse_plain_text(identity: str, email: bytes, parts: Sequence[EmailPart]) -> BounceReport | str | None:
    """Return the bounce, or the reason why a bounce cannot be read."""
    from mailwright.events.bounces import plain_text  # noqa: PLC0415 - as above

    headers, text = parts[0].headers, _own_body(parts)
    if is_auto_responder(headers) or not plain_text.is_bounce(headers, text):
        return None
    original = find_original(parts)
    recipients = plain_text.find_recipients(headers, text)
    if len(original.recipients) == 1 and all(fields.address is None for fields in recipients):
        recipients = [replace(fields, address=original.recipients[0]) for fields in recipients]
    # Without a recipient or one of our messages, nothing can be recorded.
    if original.outbox_id is None and all(fields.address is None for fields in recipients):
        return "looks like a bounce but has neither a recipient nor one of our message ids"
    bounce = _bounce(identity, original, recipients, None)
    is_certain = original.outbox_id is not None or plain_text.is_from_server(headers)
    return bounce if is_certain else replace(bounce, ordinary=_parse_ordinary(email, parts))


def _find_missing_report(parts: Sequence[EmailPart]) -> str | None:
    is_declared = _is_declared(parts, "delivery-status") or _is_declared(parts, "feedback-report")
    return "is declared as a report but contains no report" if is_declared else None


def _is_declared(parts: Sequence[EmailPart], report_type: str) -> bool:
    found = _REPORT_TYPE.search(parts[0].headers.first("content-type"))
    return found is not None and found[1].lower() == report_type


def _parse_ordinary(email: bytes, parts: Sequence[EmailPart]) -> OrdinaryEmail:
    headers = parts[0].headers
    name, sender = find_author(headers)
    return OrdinaryEmail(
        identity=_reply_identity(email, headers),
        original=find_original(parts),
        sender=sender,
        sender_name=name,
        subject=readable_line(headers.first("subject"))[:MAX_SUBJECT],
        references=find_references(headers),
        is_automatic=is_automatic(headers, sender),
        is_ours=headers.first(OUR_HEADER) != "",
        sent_at=_sent_at(headers),
    )


def _bounce(
    identity: str, original: OriginalMessage, recipients: Iterable[RecipientFields], reporting_mta: str | None
) -> BounceReport:
    return BounceReport(
        identity, original, tuple(classify_recipient(identity, fields) for fields in recipients), reporting_mta
    )


def _complaint(identity: str, original: OriginalMessage, parsed: ParsedFeedback) -> FeedbackReport:
    return FeedbackReport(identity, original, parsed.type, parsed.recipients, parsed.reporter)


def _own_body(parts: Sequence[EmailPart]) -> str:
    """Return the text of the email itself, not of the returned message."""
    own = [part for part in parts if part.depth == 0]
    plain = next((part.text for part in own if part.content_type == "text/plain"), "")
    if plain.strip():
        return plain
    marked_up = next((part.text for part in own if part.content_type == "text/html"), "")
    # An email that is declared as multipart may have no parts, only text.
    return html.unescape(_TAG.sub("\n", marked_up)) if marked_up else own[0].text if len(own) == 1 else ""


def _sent_at(headers: EmailHeaders) -> Instant | None:
    try:
        return max(0, to_instant(parsedate_to_datetime(headers.first("date")).astimezone(UTC)))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _identity(email: bytes, headers: EmailHeaders) -> str:
    """Identify the email by its Message-ID, because copies over other routes have different Received headers."""
    own = headers.first("message-id")
    return digest("message-id", own) if own else digest("content", hashlib.sha256(email).hexdigest())


def _reply_identity(email: bytes, headers: EmailHeaders) -> str:
    """Identify an ordinary email by its Message-ID and its body, because some programs reuse a Message-ID.

    Without a Message-ID, the author counts as well, because many people write the same few words.
    """
    body = hashlib.sha256(email.replace(b"\r\n", b"\n").partition(b"\n\n")[2]).hexdigest()
    own = headers.first("message-id")
    return digest("message-id", own, body) if own else digest("message-id", "", body, headers.first("from"))
