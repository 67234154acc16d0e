"""Parse SendGrid events into reports. Each event is parsed independently of the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.rejected_events import MalformedEvent
from mailwright.events.sanitize import clean_metadata, link_without_query, parse_outbox_id, parse_time
from mailwright.events.soft_bounces import is_about_address
from mailwright.events.tracking.machines import is_machine_report

SOURCE = "sendgrid"
MAX_BODY_BYTES = 10 * 1024 * 1024
# SendGrid copies the custom arguments of a message into its events.
MESSAGE_ID_ARGUMENT = "mailwright_message"


@dataclass(frozen=True, slots=True)
class ParsedSendGridEvents:
    """The reports of a request, and the number of skipped events by name."""

    reports: tuple[Report, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)


def parse_events(body: bytes, now: Instant) -> ParsedSendGridEvents:
    try:
        events = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedEvent("The body is not JSON.") from error
    if not isinstance(events, list):
        raise MalformedEvent("The body is not a list of events.")
    reports: list[Report] = []
    skipped: dict[str, int] = {}
    for event in events:
        report = _report(event, now)
        if isinstance(report, Report):
            reports.append(report)
        else:
            skipped[report] = skipped.get(report, 0) + 1
    return ParsedSendGridEvents(tuple(reports), skipped)


@dataclass(frozen=True, slots=True)
class _ParsedEvent:
    type: EventType
    verdict: ContactVerdict = ContactVerdict.NOTHING
    bounce: tuple[str | None, str | None] = (None, None)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _bounce(event: Mapping[str, Any]) -> _ParsedEvent:
    """Parse a bounce. With the type `blocked`, the server rejects this message; only some are about the address."""
    kind = event.get("type")
    status = event.get("status")
    classification = _short(event.get("bounce_classification"))
    is_permanent = kind == "bounce" or (kind is None and isinstance(status, str) and status.startswith("5"))
    return _ParsedEvent(
        EventType.BOUNCED,
        ContactVerdict.HARD_BOUNCE
        if is_permanent
        else _blocked(classification, _short(status), _short(event.get("reason"))),
        (_short(kind) or "bounce", classification),
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


def _dropped(event: Mapping[str, Any]) -> _ParsedEvent:
    reason = _short(event.get("reason"))
    verdict = DROP_REASON_VERDICTS.get((reason or "").strip().lower(), ContactVerdict.NOTHING)
    return _ParsedEvent(
        EventType.BOUNCED, verdict, ("dropped", reason), clean_metadata(status=event.get("status"), reason=reason)
    )


def _delivered(event: Mapping[str, Any]) -> _ParsedEvent:
    return _ParsedEvent(EventType.DELIVERED, metadata=clean_metadata(response=event.get("response")))


def _deferred(event: Mapping[str, Any]) -> _ParsedEvent:
    metadata = clean_metadata(response=event.get("response"), attempt=event.get("attempt"), reason=event.get("reason"))
    return _ParsedEvent(EventType.DEFERRED, metadata=metadata)


def _opened(event: Mapping[str, Any]) -> _ParsedEvent:
    """Parse an open. SendGrid marks mailboxes that load images automatically."""
    agent = event.get("useragent")
    is_machine = event.get("sg_machine_open") is True or is_machine_report(agent)
    metadata = clean_metadata(isMachine=is_machine, userAgent=agent)
    return _ParsedEvent(EventType.OPENED, metadata=metadata)


def _clicked(event: Mapping[str, Any]) -> _ParsedEvent:
    agent = event.get("useragent")
    url = link_without_query(event.get("url"))
    metadata = clean_metadata(url=url, isMachine=is_machine_report(agent), userAgent=agent)
    return _ParsedEvent(EventType.CLICKED, metadata=metadata)


def _unsubscribed(event: Mapping[str, Any]) -> _ParsedEvent:
    return _ParsedEvent(
        EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE, metadata=clean_metadata(group=event.get("asm_group_id"))
    )


EVENT_PARSERS: Mapping[str, Callable[[Mapping[str, Any]], _ParsedEvent]] = {
    "processed": lambda _event: _ParsedEvent(EventType.ACCEPTED),
    "delivered": _delivered,
    "deferred": _deferred,
    "bounce": _bounce,
    "dropped": _dropped,
    "open": _opened,
    "click": _clicked,
    "spamreport": lambda _event: _ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "unsubscribe": _unsubscribed,
    "group_unsubscribe": _unsubscribed,
}


def _report(event: Any, now: Instant) -> Report | str:
    """Return the report, or the name under which the skipped event is counted."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    name: str = event["event"]
    if name not in EVENT_PARSERS:
        return name[:40]
    recipient = event.get("email")
    if not isinstance(recipient, str) or not recipient:
        return "unreadable"
    parsed = EVENT_PARSERS[name](event)
    return Report(
        key=_event_id(event),
        source=SOURCE,
        type=parsed.type,
        at=parse_time(event.get("timestamp"), now),
        recipient=recipient,
        outbox_id=parse_outbox_id(event.get(MESSAGE_ID_ARGUMENT)),
        provider_message_id=_message_id(event.get("sg_message_id")),
        verdict=parsed.verdict,
        bounce_type=parsed.bounce[0],
        bounce_subtype=parsed.bounce[1],
        metadata=parsed.metadata,
    )


def _event_id(event: Mapping[str, Any]) -> str:
    """Return SendGrid's event ID, or else a digest of the event, because copies of an event have the same fields."""
    given = event.get("sg_event_id")
    if isinstance(given, str) and given:
        return given if len(given) <= 200 else sha256(given.encode()).hexdigest()
    return sha256(orjson.dumps(event, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _message_id(given: Any) -> str | None:
    """Return the part of the ID before the first dot, which was the X-Message-Id at acceptance.

    Late bounces have no ID.
    """
    return given.strip().partition(".")[0] or None if isinstance(given, str) else None


def _short(given: Any) -> str | None:
    return given[:100] if isinstance(given, str) and given else None
