"""Parse SES events, in both of their formats, into one report per recipient."""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.feedback import FeedbackType, parse_feedback_type
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.machines import is_machine_report
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.ops.logs import logger
from mailwright.providers.inbound.parsed_events import ParsedEvents
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.inbound.sanitize import (
    address_key,
    clean_metadata,
    link_without_query,
    parse_outbox_id,
    parse_time,
)
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address

SOURCE = "ses"
# The tag that our SES provider sets, and the headers of the message.
TAG = "mailwright-message"
ID_HEADERS = ("x-mailwright-message", "message-id")

MAX_RECIPIENTS = 1_000

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ParsedSesEvent:
    """An event type and its reports. Unknown types have no reports."""

    kind: str
    reports: tuple[Report, ...] = ()
    is_known: bool = True
    is_text: bool = False  # SES sends a sentence to new topics.


def read_event(text: str, clock: Clock, *, by_address: bool) -> ParsedEvents:
    """Parse an event from a webhook or a queue.

    Set `by_address` if the event comes from one of our topics. Then a report without a message ID may be matched by the
    recipient's address.
    """
    parsed = parse_event(text, clock.now())
    if parsed.is_text:
        log.info("event_is_plain_text", source=SOURCE)
    elif not parsed.is_known:
        log.error("unknown_event_type", source=SOURCE, kind=parsed.kind[:40])
    return ParsedEvents(parsed.reports, by_address=by_address)


def parse_event(text: str | bytes, now: Instant) -> ParsedSesEvent:
    """Parse an event, or raise `MalformedEvent`. Plain text has no reports."""
    try:
        event = load_json(text)
    except orjson.JSONDecodeError:
        return ParsedSesEvent("text", is_known=False, is_text=True)
    if not isinstance(event, dict):
        raise MalformedEvent("The event is not an object.")
    kind = event.get("eventType", event.get("notificationType"))
    if not isinstance(kind, str):
        raise MalformedEvent("The event has neither eventType nor notificationType.")
    parser = EVENT_PARSERS.get(kind)
    if parser is None:
        return ParsedSesEvent(kind, is_known=False)
    part, parse_part = parser
    message = _object(event, "mail")
    return ParsedSesEvent(kind, tuple(parse_part(_SesMessage(message, now), _object(event, part))))


class _SesMessage:
    """The part of every event that identifies the message."""

    def __init__(self, message: Mapping[str, Any], now: Instant) -> None:
        self.now = now
        self.message_id = _text(message, "messageId")
        self.outbox_id = _outbox_id(message)
        self.at = parse_time(message.get("timestamp"), now)
        recipients = message.get("destination")
        # Open and click events do not name the recipient, so it is known only if there is exactly one.
        only = recipients[0] if isinstance(recipients, list) and len(recipients) == 1 else None
        self.only_recipient = only if isinstance(only, str) else None

    def report(
        self,
        event_type: EventType,
        recipient: str | None,
        at: Any,
        *key: str,
        verdict: ContactVerdict = ContactVerdict.NOTHING,
        bounce: tuple[str | None, str | None] = (None, None),
        **metadata: Any,
    ) -> Report:
        """Build a report. `key` distinguishes it from other reports of this type and recipient."""
        return Report(
            key=":".join((event_type, *(key or (self.message_id,)), address_key(recipient or ""))),
            source=SOURCE,
            type=event_type,
            at=self.at if at is None else parse_time(at, self.now),
            recipient=recipient,
            outbox_id=self.outbox_id,
            provider_message_id=self.message_id,
            verdict=verdict,
            bounce_type=bounce[0],
            bounce_subtype=bounce[1],
            metadata=clean_metadata(**metadata),
        )


def _bounces(message: _SesMessage, bounce: Mapping[str, Any]) -> Iterator[Report]:
    kind, subtype = _text(bounce, "bounceType"), _optional(bounce, "bounceSubType")
    for each in _recipients(bounce, "bouncedRecipients"):
        yield message.report(
            EventType.BOUNCED,
            _text(each, "emailAddress"),
            bounce.get("timestamp"),
            _feedback_id(message, bounce),
            verdict=_verdict(kind, subtype, each),
            bounce=(kind, subtype),
            action=each.get("action"),
            status=each.get("status"),
            diagnosticCode=each.get("diagnosticCode"),
            reportingMta=bounce.get("reportingMTA"),
        )


# Within a permanent bounce, single recipients may be delayed or even delivered.
_NOT_FAILED_ACTIONS = frozenset({"delayed", "delivered", "relayed", "expanded"})
# Verdicts by subtype of transient bounces. For other subtypes, status and text decide.
_SUBTYPE_VERDICTS: Mapping[str, ContactVerdict] = {
    "MailboxFull": ContactVerdict.SOFT_BOUNCE,
    "MessageTooLarge": ContactVerdict.NOTHING,
    "ContentRejected": ContactVerdict.NOTHING,
    "AttachmentRejected": ContactVerdict.NOTHING,
}


def _verdict(kind: str, subtype: str | None, recipient: Mapping[str, Any]) -> ContactVerdict:
    action, status = recipient.get("action"), _optional(recipient, "status")
    if isinstance(action, str) and action.lower() in _NOT_FAILED_ACTIONS:
        return ContactVerdict.NOTHING
    diagnostic = _optional(recipient, "diagnosticCode") or ""
    if kind == "Permanent" and not (status or "").strip().startswith("4"):
        return correct_verdict(ContactVerdict.HARD_BOUNCE, diagnostic)
    if (named := _SUBTYPE_VERDICTS.get(subtype or "")) is not None:
        return named
    return ContactVerdict.SOFT_BOUNCE if is_about_address(status, diagnostic) else ContactVerdict.NOTHING


def _complaints(message: _SesMessage, complaint: Mapping[str, Any]) -> Iterator[Report]:
    kind, subtype = _optional(complaint, "complaintFeedbackType"), _optional(complaint, "complaintSubType")
    feedback = parse_feedback_type(kind or FeedbackType.ABUSE)
    if feedback.event is None:  # It is about SPF, DKIM or DMARC, not about the opinion of a recipient.
        return
    for each in _recipients(complaint, "complainedRecipients"):
        yield message.report(
            feedback.event,
            _text(each, "emailAddress"),
            complaint.get("timestamp"),
            _feedback_id(message, complaint),
            verdict=feedback.verdict,
            feedbackType=kind,
            subType=subtype,
            userAgent=complaint.get("userAgent"),
        )


def _deliveries(message: _SesMessage, delivery: Mapping[str, Any]) -> Iterator[Report]:
    recipients = delivery.get("recipients")
    if not isinstance(recipients, list) or not all(isinstance(each, str) for each in recipients):
        raise MalformedEvent("recipients is not a list of addresses.")
    for recipient in recipients[:MAX_RECIPIENTS]:
        yield message.report(
            EventType.DELIVERED,
            recipient,
            delivery.get("timestamp"),
            smtpResponse=delivery.get("smtpResponse"),
            reportingMta=delivery.get("reportingMTA"),
            processingTimeMillis=delivery.get("processingTimeMillis"),
        )


def _acceptance(message: _SesMessage, _send: Mapping[str, Any]) -> Iterator[Report]:
    yield message.report(EventType.ACCEPTED, message.only_recipient, None)


def _rejection(message: _SesMessage, reject: Mapping[str, Any]) -> Iterator[Report]:
    """Parse a rejection. SES accepted the message and then rejected its content, so the address is not affected."""
    yield message.report(
        EventType.BOUNCED,
        message.only_recipient,
        None,
        "reject",
        message.message_id,
        bounce=("Reject", None),
        reason=reject.get("reason"),
    )


def _rendering_failure(message: _SesMessage, failure: Mapping[str, Any]) -> Iterator[Report]:
    yield message.report(
        EventType.BOUNCED,
        message.only_recipient,
        None,
        "rendering",
        message.message_id,
        bounce=("Rendering Failure", None),
        reason=failure.get("errorMessage"),
        template=failure.get("templateName"),
    )


def _delays(message: _SesMessage, delay: Mapping[str, Any]) -> Iterator[Report]:
    for each in _recipients(delay, "delayedRecipients"):
        yield message.report(
            EventType.DEFERRED,
            _text(each, "emailAddress"),
            delay.get("timestamp"),
            message.message_id,
            str(delay.get("timestamp")),
            delayType=delay.get("delayType"),
            status=each.get("status"),
            diagnosticCode=each.get("diagnosticCode"),
        )


def _open(message: _SesMessage, details: Mapping[str, Any]) -> Iterator[Report]:
    at = details.get("timestamp")
    yield message.report(
        EventType.OPENED,
        message.only_recipient,
        at,
        message.message_id,
        str(at),
        isMachine=is_machine_report(details.get("userAgent"), is_click=False),
        userAgent=details.get("userAgent"),
    )


def _click(message: _SesMessage, click: Mapping[str, Any]) -> Iterator[Report]:
    at, link = click.get("timestamp"), click.get("link")
    yield message.report(
        EventType.CLICKED,
        message.only_recipient,
        at,
        message.message_id,
        str(at),
        sha256(str(link).encode()).hexdigest()[:16],
        url=link_without_query(link),
        isMachine=is_machine_report(click.get("userAgent"), is_click=True),
        userAgent=click.get("userAgent"),
    )


def _subscription(message: _SesMessage, subscription: Mapping[str, Any]) -> Iterator[Report]:
    """Parse a subscription event. Only a global unsubscribe counts; topics of SES contact lists are ignored."""
    preferences = subscription.get("newTopicPreferences")
    at = subscription.get("timestamp")
    if isinstance(preferences, dict) and preferences.get("unsubscribeAll") is True:
        yield message.report(
            EventType.UNSUBSCRIBED,
            message.only_recipient,
            at,
            message.message_id,
            str(at),
            verdict=ContactVerdict.UNSUBSCRIBE,
            contactList=subscription.get("contactList"),
            by=subscription.get("source"),
        )


# For each event type, the field with its details and the parser of that field.
EVENT_PARSERS: Mapping[str, tuple[str, Callable[[_SesMessage, Mapping[str, Any]], Iterator[Report]]]] = {
    "Bounce": ("bounce", _bounces),
    "Complaint": ("complaint", _complaints),
    "Delivery": ("delivery", _deliveries),
    "Send": ("send", _acceptance),
    "Reject": ("reject", _rejection),
    "Rendering Failure": ("failure", _rendering_failure),
    "DeliveryDelay": ("deliveryDelay", _delays),
    "Open": ("open", _open),
    "Click": ("click", _click),
    "Subscription": ("subscription", _subscription),
}


def _feedback_id(message: _SesMessage, part: Mapping[str, Any]) -> str:
    """Return the feedback ID, which is the same in both formats. If it is missing, return message ID and time."""
    return _optional(part, "feedbackId") or f"{message.message_id}@{part.get('timestamp')}"


def _outbox_id(message: Mapping[str, Any]) -> str | None:
    """Find our message ID. Check the tags first, because SES replaces the Message-ID header with its own."""
    return next((found for candidate in _possible_ids(message) if (found := parse_outbox_id(candidate))), None)


def _possible_ids(message: Mapping[str, Any]) -> Iterator[Any]:
    tags, headers, common = message.get("tags"), message.get("headers"), message.get("commonHeaders")
    if isinstance(tags, dict):
        values = tags.get(TAG)
        yield from values if isinstance(values, list) else [values]
    if isinstance(headers, list):
        named = [(str(each.get("name")).lower(), each.get("value")) for each in headers if isinstance(each, dict)]
        yield from [value for wanted in ID_HEADERS for name, value in named if name == wanted]
    if isinstance(common, dict):
        yield common.get("messageId")


def _object(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise MalformedEvent(f"{name} is missing or not an object.")
    return value


def _recipients(part: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = part.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise MalformedEvent(f"{name} is missing or not a list of recipients.")
    return value[:MAX_RECIPIENTS]


def _text(part: Mapping[str, Any], name: str) -> str:
    value = part.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedEvent(f"{name} is missing or not text.")
    return value


def _optional(part: Mapping[str, Any], name: str) -> str | None:
    value = part.get(name)
    return value if isinstance(value, str) and value else None
