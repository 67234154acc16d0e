"""Parse SES notifications that an SNS topic with an email subscription sends as JSON in the text of an email."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mailwright.domain.feedback import parse_feedback_type
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces.diagnosis import RecipientFields, find_address
from mailwright.events.bounces.email_parts import EmailHeaders
from mailwright.events.bounces.feedback import ParsedFeedback
from mailwright.events.bounces.model import DsnAction

MAX_RECIPIENTS = 1_000

# Old mail servers break long lines with an exclamation mark, even within a word.
_BROKEN_LINE = re.compile(r"!\r?\n ")
_KINDS = ("notificationType", "eventType")


@dataclass(frozen=True, slots=True)
class SesNotice:
    headers: EmailHeaders  # the headers of the original message that SES includes
    recipients: tuple[RecipientFields, ...] = ()
    feedback: ParsedFeedback | None = None
    reporting_mta: str | None = None


def parse_notice(text: str) -> SesNotice | None:
    notice = _parse_json(text)
    if notice is None:
        return None
    if isinstance(notice.get("Message"), str):  # wrapped in an SNS envelope
        notice = _parse_json(str(notice["Message"])) or {}
    kind = next((notice[name] for name in _KINDS if isinstance(notice.get(name), str)), None)
    headers = _headers(_object(notice, "mail"))
    match kind:
        case "Bounce":
            bounce = _object(notice, "bounce")
            return SesNotice(headers, tuple(_bounced(bounce)), reporting_mta=_text(bounce, "reportingMTA") or None)
        case "Delivery":
            delivery = _object(notice, "delivery")
            return SesNotice(
                headers, tuple(_delivered(delivery)), reporting_mta=_text(delivery, "reportingMTA") or None
            )
        case "Complaint":
            complaint = _object(notice, "complaint")
            named = (find_address(_text(each, "emailAddress")) for each in _objects(complaint, "complainedRecipients"))
            recipients = tuple(address for address in named if address)
            stated = parse_feedback_type(_text(complaint, "complaintFeedbackType") or "abuse")
            return SesNotice(
                headers, feedback=ParsedFeedback(stated, recipients, _text(complaint, "userAgent") or None)
            )
        case _:
            return None


def _bounced(bounce: Mapping[str, Any]) -> Iterator[RecipientFields]:
    for each in _objects(bounce, "bouncedRecipients"):
        yield RecipientFields(
            find_address(_text(each, "emailAddress")),
            DsnAction.FAILED,
            _text(each, "status"),
            _text(each, "diagnosticCode").removeprefix("smtp;").strip(),
        )


def _delivered(delivery: Mapping[str, Any]) -> Iterator[RecipientFields]:
    recipients = delivery.get("recipients")
    for each in recipients[:MAX_RECIPIENTS] if isinstance(recipients, list) else []:
        yield RecipientFields(find_address(str(each)), DsnAction.DELIVERED, diagnostic=_text(delivery, "smtpResponse"))


def _headers(message: Mapping[str, Any]) -> EmailHeaders:
    fields = ((_text(each, "name").lower(), _text(each, "value")) for each in _objects(message, "headers"))
    return EmailHeaders(tuple(fields))


def _parse_json(text: str) -> Mapping[str, Any] | None:
    start = text.find("{")
    if start < 0 or text[:start].strip():
        return None
    try:
        parsed, _ = json.JSONDecoder(strict=False).raw_decode(_BROKEN_LINE.sub("", text[start:]))
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _objects(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = parent.get(name)
    return [each for each in value[:MAX_RECIPIENTS] if isinstance(each, dict)] if isinstance(value, list) else []


def _text(parent: Mapping[str, Any], name: str) -> str:
    value = parent.get(name)
    return value if isinstance(value, str) else ""
