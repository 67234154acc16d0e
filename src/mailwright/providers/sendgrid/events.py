"""Parse SendGrid events into reports. Each event is parsed independently of the others."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import (
    ParsedEvent,
    ParsedEvents,
    digest,
    engaged,
    make_report,
    parse_each,
    read_json,
    short,
    short_key,
)
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.sendgrid.kind import SendGridFields

if TYPE_CHECKING:
    from mailwright.providers.sendgrid.signature import SendGridSignature

SOURCE = "sendgrid"
# SendGrid copies the custom arguments of a message into its events.
MESSAGE_ID_ARGUMENT = "mailwright_message"


class SendGridWebhook:
    def __init__(self, signature: "SendGridSignature", clock: Clock) -> None:
        self._signature = signature
        self._clock = clock

    def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Verify and parse a request. Raise `EventRejected` if it is not authentic."""
        self._signature.check(headers, body)
        return parse_events(body, self._clock.now())


def make_webhook(settings: SendGridFields, clock: Clock) -> SendGridWebhook | None:
    """Return the webhook; None if its key is not set."""
    if settings.sendgrid_webhook_public_key is None:
        return None
    from mailwright.providers.sendgrid.signature import SendGridSignature  # noqa: PLC0415 - imported only with a key

    return SendGridWebhook(SendGridSignature(settings.sendgrid_webhook_public_key, clock), clock)


def parse_events(body: bytes, now: Instant) -> ParsedEvents:
    events = read_json(body)
    if not isinstance(events, list):
        raise MalformedEvent("The body is not a list of events.")
    return parse_each(events, lambda event: _report(event, now))


def _bounce(event: Mapping[str, Any]) -> ParsedEvent:
    """Parse a bounce. With the type `blocked`, the server rejects this message; only some are about the address."""
    kind = event.get("type")
    status = event.get("status")
    classification = short(event.get("bounce_classification"))
    is_permanent = kind == "bounce" or (kind is None and isinstance(status, str) and status.startswith("5"))
    stated = (
        ContactVerdict.HARD_BOUNCE
        if is_permanent
        else _blocked(classification, short(status), short(event.get("reason")))
    )
    return ParsedEvent(
        EventType.BOUNCED,
        correct_verdict(stated, event.get("reason")),
        (short(kind) or "bounce", classification),
        clean_metadata(status=status, reason=event.get("reason")),
    )


# Verdicts by SendGrid's bounce classification. For other classifications, status and text decide.
CLASSIFICATION_VERDICTS: Mapping[str, ContactVerdict] = {
    "mailbox unavailable": ContactVerdict.SOFT_BOUNCE,
    "invalid address": ContactVerdict.SOFT_BOUNCE,
    "reputation": ContactVerdict.NOTHING,
    "content": ContactVerdict.NOTHING,
    "frequency or volume too high": ContactVerdict.NOTHING,
}


def _blocked(classification: str | None, status: str | None, reason: str | None) -> ContactVerdict:
    if (known := CLASSIFICATION_VERDICTS.get((classification or "").lower())) is not None:
        return known
    return ContactVerdict.SOFT_BOUNCE if is_about_address(status, reason or "") else ContactVerdict.NOTHING


# Verdicts by the reason why SendGrid dropped a message without an attempt. A reason about the address comes from an
# earlier message.
DROP_REASON_VERDICTS: Mapping[str, ContactVerdict] = {
    "bounced address": ContactVerdict.HARD_BOUNCE,
    "invalid": ContactVerdict.HARD_BOUNCE,
    "spam reporting address": ContactVerdict.COMPLAINT,
    "unsubscribed address": ContactVerdict.UNSUBSCRIBE,
    "invalid smtpapi header": ContactVerdict.NOTHING,
    "spam content": ContactVerdict.NOTHING,
    "recipient list over package quota": ContactVerdict.NOTHING,
}


def _dropped(event: Mapping[str, Any]) -> ParsedEvent:
    reason = short(event.get("reason"))
    verdict = DROP_REASON_VERDICTS.get((reason or "").strip().lower(), ContactVerdict.NOTHING)
    return ParsedEvent(
        EventType.BOUNCED, verdict, ("dropped", reason), clean_metadata(status=event.get("status"), reason=reason)
    )


def _delivered(event: Mapping[str, Any]) -> ParsedEvent:
    return ParsedEvent(EventType.DELIVERED, metadata=clean_metadata(response=event.get("response")))


def _deferred(event: Mapping[str, Any]) -> ParsedEvent:
    metadata = clean_metadata(response=event.get("response"), attempt=event.get("attempt"), reason=event.get("reason"))
    return ParsedEvent(EventType.DEFERRED, metadata=metadata)


def _opened(event: Mapping[str, Any]) -> ParsedEvent:
    """Parse an open. SendGrid marks mailboxes that load images automatically."""
    is_machine = event.get("sg_machine_open") is True
    return engaged(EventType.OPENED, agent=event.get("useragent"), is_machine=is_machine)


def _clicked(event: Mapping[str, Any]) -> ParsedEvent:
    return engaged(EventType.CLICKED, agent=event.get("useragent"), url=event.get("url"))


def _unsubscribed(event: Mapping[str, Any]) -> ParsedEvent:
    return ParsedEvent(
        EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE, metadata=clean_metadata(group=event.get("asm_group_id"))
    )


EVENT_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent]] = {
    "processed": lambda _event: ParsedEvent(EventType.ACCEPTED),
    "delivered": _delivered,
    "deferred": _deferred,
    "bounce": _bounce,
    "dropped": _dropped,
    "open": _opened,
    "click": _clicked,
    "spamreport": lambda _event: ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "unsubscribe": _unsubscribed,
    "group_unsubscribe": _unsubscribed,
}


def _report(event: Any, now: Instant) -> Report | str:
    """Return the report, or the name under which the skipped event is counted."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    name: str = event["event"]
    if name not in EVENT_PARSERS:
        return name
    recipient = event.get("email")
    if not isinstance(recipient, str) or not recipient:
        return "unreadable"
    parsed = EVENT_PARSERS[name](event)
    return make_report(
        parsed,
        key=_event_id(event),
        source=SOURCE,
        at=parse_time(event.get("timestamp"), now),
        recipient=recipient,
        outbox_id=parse_outbox_id(event.get(MESSAGE_ID_ARGUMENT)),
        provider_message_id=_message_id(event.get("sg_message_id")),
    )


def _event_id(event: Mapping[str, Any]) -> str:
    given = event.get("sg_event_id")
    return short_key(given) if isinstance(given, str) and given else digest(event)


def _message_id(given: Any) -> str | None:
    """Return the part of the ID before the first dot, which was the X-Message-Id at acceptance.

    Late bounces have no ID.
    """
    return given.strip().partition(".")[0] or None if isinstance(given, str) else None
