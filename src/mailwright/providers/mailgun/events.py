"""Parse Mailgun events into reports."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import (
    ParsedEvent,
    ParsedEvents,
    engaged,
    make_report,
    parse_each,
    part_of,
    read_events,
    short,
    short_key,
)
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.mailgun.kind import MailgunFields
from mailwright.providers.mailgun.signature import MailgunSignature

SOURCE: Final = "mailgun"
# Our provider sets this variable, and Mailgun copies it into the events.
MESSAGE_VARIABLE: Final = "mailwright_message"
# Mailgun's reasons for not trying at all: an earlier message bounced, or the recipient complained or unsubscribed.
_SUPPRESSED: Final[Mapping[str, ContactVerdict]] = {
    "suppress-bounce": ContactVerdict.HARD_BOUNCE,
    "suppress-complaint": ContactVerdict.COMPLAINT,
    "suppress-unsubscribe": ContactVerdict.UNSUBSCRIBE,
}


class MailgunWebhook:
    def __init__(self, key: str, clock: Clock) -> None:
        self._signature = MailgunSignature(key, clock)
        self._clock = clock

    def parse(self, _headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Verify and parse a request. Raise `EventRejected` if it is not authentic."""
        [event, *others] = read_events(body) or [None]
        if not isinstance(event, dict) or others:
            raise MalformedEvent("The body is not one event.")
        used = self._signature.check(part_of(event, "signature"), body)
        parsed = parse_each([event.get("event-data")], lambda data: _report(data, self._clock.now()), IGNORED)
        return replace(parsed, signature=used)


def make_webhook(settings: MailgunFields, clock: Clock) -> MailgunWebhook | None:
    """Return the webhook; None if its secret is not set."""
    secret = settings.mailgun_webhook_signing_key
    return None if secret is None else MailgunWebhook(secret.get_secret_value(), clock)


def _failed(event: Mapping[str, Any]) -> ParsedEvent:
    """Parse a failure. A temporary one is retried by Mailgun."""
    status = part_of(event, "delivery-status")
    code = status.get("enhanced-code") or status.get("code")
    text = next((status[name] for name in ("message", "description") if short(status.get(name))), None)
    metadata = clean_metadata(status=str(code) if code else None, reason=text, attempt=status.get("attempt-no"))
    severity, reason = short(event.get("severity")), short(event.get("reason"))
    if severity == "temporary":
        return ParsedEvent(EventType.DEFERRED, metadata=metadata)
    if (verdict := _SUPPRESSED.get(reason or "")) is None:
        enhanced = str(code) if "." in str(code) else None
        is_soft = reason == "old" or str(code)[:1] == "4"
        soft = is_about_address(enhanced, str(text or ""), is_permanent=not is_soft)
        otherwise = ContactVerdict.SOFT_BOUNCE if soft else ContactVerdict.NOTHING
        stated = ContactVerdict.HARD_BOUNCE if reason == "bounce" and not is_soft else otherwise
        verdict = correct_verdict(stated, text)
    return ParsedEvent(EventType.BOUNCED, verdict, (severity or "permanent", reason), metadata)


def _rejected(event: Mapping[str, Any]) -> ParsedEvent:
    reason = part_of(event, "reject").get("reason")
    return ParsedEvent(EventType.BOUNCED, bounce=("rejected", short(reason)), metadata=clean_metadata(reason=reason))


def _engaged(kind: EventType) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(event: Mapping[str, Any]) -> ParsedEvent:
        client = part_of(event, "client-info")
        is_bot = bool(short(client.get("bot")))
        return engaged(kind, agent=client.get("user-agent"), url=event.get("url"), is_machine=is_bot)

    return parse


EVENT_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent]]] = {
    "accepted": lambda _event: ParsedEvent(EventType.ACCEPTED),
    "delivered": lambda event: ParsedEvent(
        EventType.DELIVERED, metadata=clean_metadata(response=part_of(event, "delivery-status").get("message"))
    ),
    "failed": _failed,
    "rejected": _rejected,
    "opened": _engaged(EventType.OPENED),
    "clicked": _engaged(EventType.CLICKED),
    "complained": lambda _event: ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "unsubscribed": lambda _event: ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
}


# Events about mailing lists and stored replies of Mailgun.
IGNORED: Final = frozenset({"stored", "list_member_uploaded", "list_member_upload_error", "list_uploaded"})


def _report(event: Any, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    name: str = event["event"]
    if name not in EVENT_PARSERS:
        return name
    parsed = EVENT_PARSERS[name](event)
    recipient = event.get("recipient")
    message_id = part_of(part_of(event, "message"), "headers").get("message-id")
    message_id = message_id.strip().strip("<>") if isinstance(message_id, str) else None
    variable = part_of(event, "user-variables").get(MESSAGE_VARIABLE)
    return make_report(
        parsed,
        # The id is unique within a day only.
        key=short_key(name, event.get("id"), event.get("timestamp"), recipient),
        source=SOURCE,
        at=parse_time(event.get("timestamp"), now),
        recipient=recipient,
        outbox_id=parse_outbox_id(variable) or parse_outbox_id(message_id),
        provider_message_id=message_id or None,
    )
