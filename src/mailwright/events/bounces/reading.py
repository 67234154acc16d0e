"""Reading: any bytes that came to the bounce address become one letter. Never an exception, and never a long wait."""

import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from email.utils import parsedate_to_datetime

from mailwright.domain.clock import Instant, to_instant
from mailwright.events.bounces import feedback, notices, prose, status_fields
from mailwright.events.bounces.diagnosis import Finding, identity_of, recipient
from mailwright.events.bounces.feedback import Feedback
from mailwright.events.bounces.letter import AutoReplied, Bounced, Complained, Letter, Original, Unreadable, Unrelated
from mailwright.events.bounces.originals import original_of
from mailwright.events.bounces.parts import Headers, Part, parts_of

# What was used before RFC 3834, and by people's programs only. Servers mark their bounces with its own field, too.
_AUTO_REPLY_FIELDS = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-vacation")
_AUTO_REPLY_SUBJECT = re.compile(
    r"\s*(?:auto(?:matic|mated|)[ -]?(?:reply|response|answer)|auto:|out of (?:the )?office|vacation|abwesen|автоответ"
    r"|resposta autom|réponse autom)",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_REPORT_TYPE = re.compile(r"report-type[ \t]*=[ \t]*\"?(?:delivery-status|feedback-report)", re.IGNORECASE)


def read(mail: bytes) -> Letter:
    """The first form that fits: a standard report, a notice, plain words; only then is it asked who else writes."""
    parts = parts_of(mail)
    identity = _identity(mail, parts[0].headers)
    letter = (
        _standard(identity, parts)
        or _complaint_without_report(identity, parts)
        or _notice(identity, parts)
        or _in_words(identity, parts)
        or _auto_reply(identity, parts)
        or _neither(identity, parts[0].headers)
    )
    if isinstance(letter, Bounced | Complained):
        return replace(letter, written_at=_written_at(parts[0].headers))
    return letter


def _standard(identity: str, parts: Sequence[Part]) -> Letter | None:
    """In the order of the letter: a report comes before the mail that it returns, which may hold a report itself."""
    for place, part in enumerate(parts):
        if part.content_type in status_fields.CONTENT_TYPES:
            if letter := _notification(identity, parts, place, part.text):
                return letter
        elif part.content_type == feedback.CONTENT_TYPE and (found := feedback.feedback_in(part)):
            return _complaint(identity, original_of(parts, report=place), found)
    text = _own_text(parts)
    return _notification(identity, parts, 0, text) if status_fields.holds_groups(text) else None


def _notification(identity: str, parts: Sequence[Part], place: int, fields: str) -> Letter | None:
    groups = status_fields.groups_in(fields)
    findings = list(status_fields.findings_in(groups))
    if not findings:
        return None
    explained = _explained(findings, prose.own_words(_own_text(parts)))
    original = original_of(parts, report=place, groups=groups)
    return _bounce(identity, original, explained, status_fields.reporting_mta(groups))


def _explained(findings: Sequence[Finding], text: str) -> Iterator[Finding]:
    """What the text says of one reader must not be held against another."""
    reasons = prose.reasons_in(text)
    for finding in findings:
        said = (finding.address and reasons.get(finding.address)) or (text if len(findings) == 1 else "")
        yield replace(finding, explanation=said)


def _complaint_without_report(identity: str, parts: Sequence[Part]) -> Letter | None:
    found = feedback.feedback_without_report(parts)
    return _complaint(identity, original_of(parts), found) if found else None


def _notice(identity: str, parts: Sequence[Part]) -> Letter | None:
    notice = notices.notice_in(_own_text(parts))
    if notice is None:
        return None
    original = original_of(parts, repeated=notice.headers)
    if notice.feedback:
        return _complaint(identity, original, notice.feedback)
    return _bounce(identity, original, notice.findings, notice.reporting_mta) if notice.findings else None


def _in_words(identity: str, parts: Sequence[Part]) -> Letter | None:
    letter, text = parts[0].headers, _own_text(parts)
    if _is_vacation(letter) or not prose.is_bounce(letter, text):
        return None
    original = original_of(parts)
    findings = prose.findings_in(letter, text)
    # A letter that names neither a reader nor a mail of ours helps nobody.
    if original.outbox_id is None and all(finding.address is None for finding in findings):
        return Unreadable(identity, "it reads like a bounce, and names neither a recipient nor one of our mails")
    return _bounce(identity, original, findings, None)


def _auto_reply(identity: str, parts: Sequence[Part]) -> Letter | None:
    letter = parts[0].headers
    is_marked = letter.first("auto-submitted").lower().startswith("auto-replied")
    return AutoReplied(identity, original_of(parts)) if is_marked or _is_vacation(letter) else None


def _is_vacation(letter: Headers) -> bool:
    return (
        any(letter.first(name) for name in _AUTO_REPLY_FIELDS)
        or letter.first("precedence").lower().replace("_", "-") == "auto-reply"
        or _AUTO_REPLY_SUBJECT.match(letter.first("subject")) is not None
    )


def _neither(identity: str, letter: Headers) -> Letter:
    if _REPORT_TYPE.search(letter.first("content-type")):
        return Unreadable(identity, "it calls itself a report, and no report can be found in it")
    return Unrelated(identity)


def _bounce(identity: str, original: Original, findings: Iterable[Finding], reporting_mta: str | None) -> Bounced:
    return Bounced(identity, original, tuple(recipient(identity, each) for each in findings), reporting_mta)


def _complaint(identity: str, original: Original, found: Feedback) -> Complained:
    return Complained(identity, original, found.type, found.recipients, found.reporter)


def _own_text(parts: Sequence[Part]) -> str:
    """What the letter itself says, not what it returns."""
    own = [part for part in parts if part.depth == 0]
    plain = next((part.text for part in own if part.content_type == "text/plain"), "")
    if plain.strip():
        return plain
    marked_up = next((part.text for part in own if part.content_type == "text/html"), "")
    return html.unescape(_TAG.sub("\n", marked_up))


def _written_at(letter: Headers) -> Instant | None:
    try:
        return max(0, to_instant(parsedate_to_datetime(letter.first("date")).astimezone(UTC)))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _identity(mail: bytes, letter: Headers) -> str:
    """A copy that took another road has other Received lines and the same Message-ID."""
    own = letter.first("message-id")
    return identity_of("message-id", own) if own else identity_of("content", hashlib.sha256(mail).hexdigest())
