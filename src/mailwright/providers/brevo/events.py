"""Parse Brevo events into reports. Brevo does not sign them: a bearer token or a password authenticates them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.brevo.kind import BrevoFields
from mailwright.providers.inbound.parsed_events import (
    ParsedEvent,
    digest,
    engaged,
    make_report,
    short,
    short_key,
)
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.secret_webhook import SecretWebhook, secret_webhook
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address

SOURCE: Final = "brevo"
# Our provider sets this header, and Brevo copies it into the events.
MESSAGE_HEADER: Final = "X-Mailin-custom"


def make_webhook(settings: BrevoFields, clock: Clock) -> SecretWebhook | None:
    return secret_webhook(settings.brevo_webhook_secret, clock, _report, IGNORED)


def _bounced(verdict: ContactVerdict) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(event: Mapping[str, Any]) -> ParsedEvent:
        reason = event.get("reason")
        is_soft = verdict is ContactVerdict.SOFT_BOUNCE
        is_unrelated = is_soft and not is_about_address(None, reason if isinstance(reason, str) else "")
        stated = ContactVerdict.NOTHING if is_unrelated else verdict
        return ParsedEvent(
            EventType.BOUNCED,
            stated if verdict is ContactVerdict.NOTHING else correct_verdict(stated, reason),
            (short(event.get("event")), None),
            clean_metadata(reason=reason),
        )

    return parse


def _engaged(kind: EventType, *, is_machine: bool = False) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(event: Mapping[str, Any]) -> ParsedEvent:
        return engaged(kind, agent=event.get("user_agent"), url=event.get("link"), is_machine=is_machine)

    return parse


_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent]]] = {
    "request": lambda _event: ParsedEvent(EventType.ACCEPTED),
    "delivered": lambda _event: ParsedEvent(EventType.DELIVERED),
    "deferred": lambda event: ParsedEvent(EventType.DEFERRED, metadata=clean_metadata(reason=event.get("reason"))),
    "hard_bounce": _bounced(ContactVerdict.HARD_BOUNCE),
    "soft_bounce": _bounced(ContactVerdict.SOFT_BOUNCE),
    "invalid_email": _bounced(ContactVerdict.HARD_BOUNCE),
    # Brevo did not try: an earlier message bounced, or the contact is on its list of blocked contacts.
    "blocked": _bounced(ContactVerdict.NOTHING),
    "error": _bounced(ContactVerdict.NOTHING),
    "spam": lambda _event: ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "unsubscribed": lambda _event: ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    "opened": _engaged(EventType.OPENED),
    "proxy_open": _engaged(EventType.OPENED, is_machine=True),
    "click": _engaged(EventType.CLICKED),
}
# Brevo's other names for the same events.
_ALIASES: Final[Mapping[str, str]] = {
    "complaint": "spam",
    "unsubscribe": "unsubscribed",
    "unique_opened": "opened",
    "unique_proxy_open": "proxy_open",
    "sent": "request",
}


# Events about lists and contacts of Brevo.
IGNORED: Final = frozenset({"list_addition", "contact_updated", "contact_deleted"})


def _report(event: Any, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    name: str = _ALIASES.get(event["event"], event["event"])
    if name not in _PARSERS:
        return name
    parsed = _PARSERS[name](event)
    message_id = event.get("message-id")
    return make_report(
        parsed,
        key=_key(name, event),
        source=SOURCE,
        at=_time(event, now),
        recipient=event.get("email"),
        outbox_id=parse_outbox_id(event.get(MESSAGE_HEADER)) or parse_outbox_id(message_id),
        provider_message_id=message_id.strip().strip("<>") or None if isinstance(message_id, str) else None,
    )


def _key(name: str, event: Mapping[str, Any]) -> str:
    """Return a key that `opened` and `unique_opened` share, because Brevo sends both for the first open."""
    at = event.get("ts_event")
    if not isinstance(at, int):
        return digest(event)
    return short_key(name, event.get("message-id"), event.get("email"), at, event.get("link"))


def _time(event: Mapping[str, Any], now: Instant) -> Instant:
    """Return the time of the event. `date` is in the time zone of the account, so it is not used."""
    milliseconds = event.get("ts_epoch")
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool):
        return parse_time(milliseconds / 1000, now)
    return parse_time(event.get("ts_event"), now)
