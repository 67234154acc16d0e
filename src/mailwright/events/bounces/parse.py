"""Reading: any bytes that came to the bounce address become one letter. Never an exception, and never a long wait."""

import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime

from mailwright.domain.clock import Instant, to_instant
from mailwright.events.bounces import delivery_status, feedback, plain_text, ses_notices
from mailwright.events.bounces.diagnosis import RecipientFields, classify_recipient, digest
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, split_parts
from mailwright.events.bounces.feedback import ParsedFeedback
from mailwright.events.bounces.model import (
    AutoReply,
    BounceMail,
    BounceReport,
    FeedbackReport,
    OriginalMessage,
    UnreadableReport,
    UnrelatedEmail,
)
from mailwright.events.bounces.original_message import find_original

# What was used before RFC 3834, and by people's programs only. Servers mark their bounces with its own field, too.
_AUTO_REPLY_FIELDS = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-vacation")
_AUTO_REPLY_SUBJECT = re.compile(
    r"\s*(?:auto(?:matic|mated|)[ -]?(?:reply|response|answer)|auto:|out of (?:the )?office|vacation|abwesen|автоответ"
    r"|resposta autom|réponse autom)",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_REPORT_TYPE = re.compile(r"report-type[ \t]*=[ \t]*\"?(?:delivery-status|feedback-report)", re.IGNORECASE)


def parse_bounce_mail(mail: bytes) -> BounceMail:
    """The first form that fits: a standard report, a notice, plain words; only then is it asked who else writes."""
    parts = split_parts(mail)
    identity = _identity(mail, parts[0].headers)
    letter = (
        _standard(identity, parts)
        or _complaint_without_report(identity, parts)
        or _notice(identity, parts)
        or _in_words(identity, parts)
        or _auto_reply(identity, parts)
        or _neither(identity, parts[0].headers)
    )
    if isinstance(letter, BounceReport | FeedbackReport):
        return replace(letter, sent_at=_sent_at(parts[0].headers))
    return letter


def _standard(identity: str, parts: Sequence[EmailPart]) -> BounceMail | None:
    """In the order of the letter: a report comes before the mail that it returns, which may hold a report itself."""
    for place, part in enumerate(parts):
        if part.content_type in delivery_status.CONTENT_TYPES:
            if letter := _notification(identity, parts, place, part.text):
                return letter
        elif part.content_type == feedback.CONTENT_TYPE and (found := feedback.parse_feedback(part)):
            return _complaint(identity, find_original(parts, report=place), found)
    text = _own_text(parts)
    return _notification(identity, parts, 0, text) if delivery_status.has_groups(text) else None


def _notification(identity: str, parts: Sequence[EmailPart], place: int, fields: str) -> BounceMail | None:
    groups = delivery_status.parse_groups(fields)
    findings = list(delivery_status.find_recipients(groups))
    if not findings:
        return None
    explained = _explained(findings, plain_text.strip_returned_message(_own_text(parts)))
    original = find_original(parts, report=place, groups=groups)
    return _bounce(identity, original, explained, delivery_status.find_reporting_mta(groups))


def _explained(findings: Sequence[RecipientFields], text: str) -> Iterator[RecipientFields]:
    """What the text says of one reader must not be held against another."""
    reasons = plain_text.find_reasons(text)
    for finding in findings:
        said = (finding.address and reasons.get(finding.address)) or (text if len(findings) == 1 else "")
        yield replace(finding, explanation=said)


def _complaint_without_report(identity: str, parts: Sequence[EmailPart]) -> BounceMail | None:
    found = feedback.feedback_without_report(parts)
    return _complaint(identity, find_original(parts), found) if found else None


def _notice(identity: str, parts: Sequence[EmailPart]) -> BounceMail | None:
    notice = ses_notices.parse_notice(_own_text(parts))
    if notice is None:
        return None
    original = find_original(parts, repeated=notice.headers)
    if notice.feedback:
        return _complaint(identity, original, notice.feedback)
    return _bounce(identity, original, notice.findings, notice.reporting_mta) if notice.findings else None


def _in_words(identity: str, parts: Sequence[EmailPart]) -> BounceMail | None:
    letter, text = parts[0].headers, _own_text(parts)
    if _is_vacation(letter) or not plain_text.is_bounce(letter, text):
        return None
    original = find_original(parts)
    findings = plain_text.find_recipients(letter, text)
    # A letter that names neither a reader nor a mail of ours helps nobody.
    if original.outbox_id is None and all(finding.address is None for finding in findings):
        return UnreadableReport(identity, "it reads like a bounce, and names neither a recipient nor one of our mails")
    return _bounce(identity, original, findings, None)


def _auto_reply(identity: str, parts: Sequence[EmailPart]) -> BounceMail | None:
    letter = parts[0].headers
    is_marked = letter.first("auto-submitted").lower().startswith("auto-replied")
    return AutoReply(identity, find_original(parts)) if is_marked or _is_vacation(letter) else None


def _is_vacation(letter: EmailHeaders) -> bool:
    return (
        any(letter.first(name) for name in _AUTO_REPLY_FIELDS)
        or letter.first("precedence").lower().replace("_", "-") == "auto-reply"
        or _AUTO_REPLY_SUBJECT.match(letter.first("subject")) is not None
    )


def _neither(identity: str, letter: EmailHeaders) -> BounceMail:
    if _REPORT_TYPE.search(letter.first("content-type")):
        return UnreadableReport(identity, "it calls itself a report, and no report can be found in it")
    return UnrelatedEmail(identity)


def _bounce(
    identity: str, original: OriginalMessage, findings: Iterable[RecipientFields], reporting_mta: str | None
) -> BounceReport:
    return BounceReport(
        identity, original, tuple(classify_recipient(identity, each) for each in findings), reporting_mta
    )


def _complaint(identity: str, original: OriginalMessage, found: ParsedFeedback) -> FeedbackReport:
    return FeedbackReport(identity, original, found.type, found.recipients, found.reporter)


def _own_text(parts: Sequence[EmailPart]) -> str:
    """What the letter itself says, not what it returns."""
    own = [part for part in parts if part.depth == 0]
    plain = next((part.text for part in own if part.content_type == "text/plain"), "")
    if plain.strip():
        return plain
    marked_up = next((part.text for part in own if part.content_type == "text/html"), "")
    return html.unescape(_TAG.sub("\n", marked_up))


def _sent_at(letter: EmailHeaders) -> Instant | None:
    try:
        return max(0, to_instant(parsedate_to_datetime(letter.first("date")).astimezone(UTC)))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _identity(mail: bytes, letter: EmailHeaders) -> str:
    """A copy that took another road has other Received lines and the same Message-ID."""
    own = letter.first("message-id")
    return digest("message-id", own) if own else digest("content", hashlib.sha256(mail).hexdigest())
