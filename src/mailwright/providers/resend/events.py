"""Parse Resend events into reports."""

from collections.abc import Callable, Mapping
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
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.inbound.webhook_secrets import SvixSignature
from mailwright.providers.resend.kind import ResendFields

SOURCE: Final = "resend"
# Our provider sets this tag, and Resend copies it into the events.
MESSAGE_TAG: Final = "mailwright_message"


class ResendWebhook:
    def __init__(self, secret: str, clock: Clock) -> None:
        self._signature = SvixSignature(secret, clock)
        self._clock = clock

    def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents:
        """Verify and parse a request. Raise `EventRejected` if it is not authentic."""
        identifier = self._signature.check(headers, body)
        numbered = enumerate(read_events(body))
        return parse_each(
            numbered, lambda each: _report(each[1], short_key(identifier, each[0]), self._clock.now()), IGNORED
        )


def make_webhook(settings: ResendFields, clock: Clock) -> ResendWebhook | None:
    """Return the webhook; None if its secret is not set."""
    secret = settings.resend_webhook_secret
    return None if secret is None else ResendWebhook(secret.get_secret_value(), clock)


def _bounced(data: Mapping[str, Any]) -> ParsedEvent:
    bounce = part_of(data, "bounce")
    kind, subtype, text = (short(bounce.get(name)) for name in ("type", "subType", "message"))
    is_explained = (
        "hard bounce" in (text or "").lower()
    )  # Resend's own words about any hard bounce, also on reputation.
    if kind == "Permanent" or (kind is None and is_explained):
        verdict = ContactVerdict.HARD_BOUNCE
    elif subtype == "MailboxFull" or is_about_address(None, text or ""):
        verdict = ContactVerdict.SOFT_BOUNCE
    else:
        verdict = ContactVerdict.NOTHING
    verdict = correct_verdict(verdict, None if is_explained else text)
    return ParsedEvent(EventType.BOUNCED, verdict, (kind or "bounce", subtype), clean_metadata(reason=text))


def _not_sent(part: str, *names: str) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    """Parse an event of a message that Resend accepted and did not send."""

    def parse(data: Mapping[str, Any]) -> ParsedEvent:
        detail = part_of(data, part)
        reason = next((detail[name] for name in names if short(detail.get(name))), None)
        return ParsedEvent(EventType.BOUNCED, bounce=(part, short(reason)), metadata=clean_metadata(reason=reason))

    return parse


def _engaged(kind: EventType, part: str) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(data: Mapping[str, Any]) -> ParsedEvent:
        detail = part_of(data, part)
        return engaged(kind, agent=detail.get("userAgent"), url=detail.get("link"))

    return parse


EVENT_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent]]] = {
    "email.sent": lambda _data: ParsedEvent(EventType.ACCEPTED),
    "email.delivered": lambda _data: ParsedEvent(EventType.DELIVERED),
    "email.delivery_delayed": lambda _data: ParsedEvent(EventType.DEFERRED),
    "email.bounced": _bounced,
    "email.suppressed": _not_sent("suppressed", "message", "type"),
    "email.failed": _not_sent("failed", "reason"),
    "email.complained": lambda _data: ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "email.opened": _engaged(EventType.OPENED, "open"),
    "email.clicked": _engaged(EventType.CLICKED, "click"),
}


# Events before an email is sent, and about replies, contacts and domains of Resend.
IGNORED: Final = frozenset(
    {"email.scheduled", "email.received"}
    | {f"{kind}.{change}" for kind in ("contact", "domain") for change in ("created", "updated", "deleted")}
)


def _report(event: Any, key: str, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return "unreadable"
    name: str = event["type"]
    if name not in EVENT_PARSERS:
        return name
    data = part_of(event, "data")
    parsed = EVENT_PARSERS[name](data)
    recipients = data.get("to")
    # An event does not say which of several recipients it is about.
    only = recipients[0] if isinstance(recipients, list) and len(recipients) == 1 else None
    return make_report(
        parsed,
        key=key,
        source=SOURCE,
        at=parse_time(event.get("created_at"), now),
        recipient=only,
        outbox_id=parse_outbox_id(_tag(data.get("tags"))),
        provider_message_id=short(data.get("email_id")),
    )


def _tag(tags: Any) -> Any:
    """Return our tag. Tags are an object, or a list of objects with `name` and `value`."""
    if isinstance(tags, dict):
        return tags.get(MESSAGE_TAG)
    listed = tags if isinstance(tags, list) else []
    return next(
        (each.get("value") for each in listed if isinstance(each, dict) and each.get("name") == MESSAGE_TAG), None
    )
