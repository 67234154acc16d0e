"""Parse SparkPost events into reports. SparkPost does not sign them: a password or a token authenticates them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import (
    ParsedEvent,
    complained,
    digest,
    engaged,
    make_report,
    part_of,
    short,
    short_key,
)
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.secret_webhook import SecretWebhook, secret_webhook
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.sparkpost.kind import MESSAGE_METADATA, PROVIDER, SparkPostFields

# SparkPost's classes of bounces that state the verdict: no such recipient (10, 30), and a full mailbox (22).
_VERDICTS: Final[Mapping[str, ContactVerdict]] = {
    "10": ContactVerdict.HARD_BOUNCE,
    "22": ContactVerdict.SOFT_BOUNCE,
    "30": ContactVerdict.HARD_BOUNCE,
}
# Classes about the message, the sender or the policy, whatever the text says: too large (23), SparkPost's own policy
# (25), and blocks by the receiver (50 to 54).
_NOT_ABOUT_ADDRESS: Final = frozenset({"23", "25", "50", "51", "52", "53", "54"})
# No bounces: an automatic reply, a request to subscribe, and a challenge to prove that a person wrote the message.
_REPLIES: Final = frozenset({"60", "80", "100"})
_UNSUBSCRIBE_CLASS: Final = "90"
_REPLY: Final = "reply"
# A feedback report about SPF, DKIM or DMARC.
_AUTHENTICATION: Final = "auth_failure"


def make_webhook(settings: SparkPostFields, clock: Clock) -> SecretWebhook | None:
    return secret_webhook(settings.sparkpost_webhook_secret, clock, _report, IGNORED)


def _bounced(event: Mapping[str, Any]) -> ParsedEvent | str:
    """Parse a bounce of any kind: during delivery, or out of band, that is by a later email."""
    kind, reason = _class(event), _reason(event)
    if kind in _REPLIES:
        return _REPLY
    if kind == _UNSUBSCRIBE_CLASS:
        return ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE)
    metadata = clean_metadata(status=event.get("error_code"), reason=reason)
    bounce = (kind, short(event.get("type")))
    if kind in _NOT_ABOUT_ADDRESS:
        return ParsedEvent(EventType.BOUNCED, bounce=bounce, metadata=metadata)
    soft = ContactVerdict.SOFT_BOUNCE if is_about_address(None, reason) else ContactVerdict.NOTHING
    verdict = correct_verdict(_VERDICTS.get(kind or "", soft), reason)
    return ParsedEvent(EventType.BOUNCED, verdict, bounce, metadata)


def _rejected(event: Mapping[str, Any]) -> ParsedEvent:
    """Parse a message that SparkPost did not try to deliver, because of its suppression list, policy or content."""
    bounce = (short(event.get("type")), _class(event))
    return ParsedEvent(EventType.BOUNCED, bounce=bounce, metadata=clean_metadata(reason=_reason(event)))


def _delayed(event: Mapping[str, Any]) -> ParsedEvent:
    return ParsedEvent(
        EventType.DEFERRED, metadata=clean_metadata(reason=_reason(event), attempt=event.get("num_retries"))
    )


def _engaged(kind: EventType) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(event: Mapping[str, Any]) -> ParsedEvent:
        is_machine = event.get("is_prefetched") is True
        return engaged(kind, agent=event.get("user_agent"), url=event.get("target_link_url"), is_machine=is_machine)

    return parse


EVENT_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent | str]]] = {
    "injection": lambda _event: ParsedEvent(EventType.ACCEPTED),
    "delivery": lambda _event: ParsedEvent(EventType.DELIVERED),
    "delay": _delayed,
    "bounce": _bounced,
    "out_of_band": _bounced,
    "policy_rejection": _rejected,
    "generation_failure": _rejected,
    "generation_rejection": _rejected,
    "spam_complaint": lambda event: complained(event.get("fbtype"), _AUTHENTICATION),
    "list_unsubscribe": lambda _event: ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    "link_unsubscribe": lambda _event: ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    "open": _engaged(EventType.OPENED),
    "amp_open": _engaged(EventType.OPENED),
    "click": _engaged(EventType.CLICKED),
    "amp_click": _engaged(EventType.CLICKED),
}
_PING: Final = "ping"
# Events that repeat another one or are about no message of ours: the first open, received email, A/B tests and text
# messages of SparkPost, and the test of a new webhook.
IGNORED: Final = frozenset(
    {"initial_open", "amp_initial_open", "sms_status", "ab_test_completed", "ab_test_cancelled", "success", "error"}
    | {f"relay_{step}" for step in ("message", "injection", "rejection", "delivery", "tempfail", "permfail")}
    | {_PING, _REPLY, _AUTHENTICATION}
)


def _report(wrapped: Any, now: Instant) -> Report | str:
    """Parse an event, which SparkPost wraps as `{"msys": {CLASS: EVENT}}`."""
    message = wrapped.get("msys") if isinstance(wrapped, dict) else None
    if not isinstance(message, dict) or len(message) > 1:
        return "unreadable"
    if not message:
        return _PING
    [(class_name, event)] = message.items()
    if not isinstance(event, dict):
        return "unreadable"
    name = short(event.get("type")) or str(class_name)
    if name not in EVENT_PARSERS:
        return name
    parsed = EVENT_PARSERS[name](event)
    if isinstance(parsed, str):
        return parsed
    return make_report(
        parsed,
        key=short_key(name, event["event_id"]) if _text(event.get("event_id")) else digest(event),
        source=PROVIDER,
        at=parse_time(event.get("timestamp"), now),
        recipient=event.get("raw_rcpt_to") or event.get("rcpt_to"),
        outbox_id=parse_outbox_id(part_of(event, "rcpt_meta").get(MESSAGE_METADATA)),
        provider_message_id=_text(event.get("transmission_id")),
    )


def _reason(event: Mapping[str, Any]) -> str:
    return next((event[name] for name in ("raw_reason", "reason") if short(event.get(name))), "")


def _class(event: Mapping[str, Any]) -> str | None:
    return _text(event.get("bounce_class"))


def _text(given: Any) -> str | None:
    """Return a number or an ID as text, because SparkPost writes both as either."""
    return short(str(given)) if isinstance(given, str | int) and not isinstance(given, bool) else None
