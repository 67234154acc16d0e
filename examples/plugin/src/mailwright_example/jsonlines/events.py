"""Read events such as `{"event": "bounced", "message": "ID", "recipient": "ada@example.com"}`."""

from typing import Any

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import ParsedEvent, digest, make_report
from mailwright.providers.inbound.sanitize import parse_outbox_id, parse_time
from mailwright.providers.inbound.secret_webhook import SecretWebhook, secret_webhook
from mailwright_example.jsonlines.kind import JsonLinesFields

EVENTS = {
    "delivered": ParsedEvent(EventType.DELIVERED),
    "bounced": ParsedEvent(EventType.BOUNCED, ContactVerdict.HARD_BOUNCE),
    "complained": ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
}


def make_webhook(settings: JsonLinesFields, clock: Clock) -> SecretWebhook | None:
    return secret_webhook(settings.jsonlines_webhook_secret, clock, _report, frozenset())


def _report(event: Any, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    if event["event"] not in EVENTS:
        return str(event["event"])
    outbox_id = parse_outbox_id(event.get("message"))
    return make_report(
        EVENTS[event["event"]],
        key=digest(event),
        source="jsonlines",
        at=parse_time(event.get("at"), now),
        recipient=event.get("recipient"),
        outbox_id=outbox_id,
        provider_message_id=outbox_id,
    )
