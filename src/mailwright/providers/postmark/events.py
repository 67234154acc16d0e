"""Parse Postmark events into reports. Postmark does not sign them: a secret in the URL authenticates them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import (
    ParsedEvent,
    digest,
    engaged,
    make_report,
    part_of,
    short,
)
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.secret_webhook import SecretWebhook, secret_webhook
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.postmark.kind import PostmarkFields

SOURCE: Final = "postmark"
# Our provider sets this metadata, and Postmark copies it into the events.
MESSAGE_METADATA: Final = "mailwright_message"


def make_webhook(settings: PostmarkFields, clock: Clock) -> SecretWebhook | None:
    return secret_webhook(settings.postmark_webhook_secret, clock, _report, IGNORED)


# Bounce types that are not about a failed delivery, for example automatic replies.
_NO_BOUNCES: Final = frozenset(
    {"AutoResponder", "AddressChange", "ChallengeVerification", "Subscribe", "OpenRelayTest", "InboundError"}
)
_REACTIVATED: Final = "reactivated"
# Ignored as well: a renewed consent at Postmark, replies, and errors of SMTP, which Mailwright does not use with
# Postmark.
IGNORED: Final = _NO_BOUNCES | {_REACTIVATED, "Inbound", "SMTPApiError"}
_VERDICTS: Final[Mapping[str, ContactVerdict]] = {
    "HardBounce": ContactVerdict.HARD_BOUNCE,
    "BadEmailAddress": ContactVerdict.HARD_BOUNCE,
    "SpamComplaint": ContactVerdict.COMPLAINT,
    "SpamNotification": ContactVerdict.NOTHING,
    "Blocked": ContactVerdict.NOTHING,
    "DMARCPolicy": ContactVerdict.NOTHING,
    "Unsubscribe": ContactVerdict.UNSUBSCRIBE,
    "ManualSuppression": ContactVerdict.UNSUBSCRIBE,
    "ManuallyDeactivated": ContactVerdict.UNSUBSCRIBE,
}
_TYPES: Final = {
    ContactVerdict.COMPLAINT: EventType.COMPLAINED,
    ContactVerdict.UNSUBSCRIBE: EventType.UNSUBSCRIBED,
}


def _bounce(event: Mapping[str, Any]) -> ParsedEvent | str:
    kind = short(event.get("Type")) or "Unknown"
    if kind in _NO_BOUNCES:
        return kind
    texts = [event[name] for name in ("Details", "Description") if isinstance(event.get(name), str)]
    metadata = clean_metadata(reason=next(iter(texts), None), typeCode=event.get("TypeCode"))
    if kind == "Transient":  # Postmark tries again.
        return ParsedEvent(EventType.DEFERRED, metadata=metadata)
    soft = ContactVerdict.SOFT_BOUNCE if is_about_address(None, " ".join(texts)) else ContactVerdict.NOTHING
    verdict = correct_verdict(_VERDICTS.get(kind, soft), " ".join(texts))
    return ParsedEvent(_TYPES.get(verdict, EventType.BOUNCED), verdict, (kind, None), metadata)


def _subscription(event: Mapping[str, Any]) -> ParsedEvent | str:
    """Parse a change of Postmark's suppressions.

    A reactivation has no effect in Mailwright, because it does not renew the consent.
    """
    if event.get("SuppressSending") is not True:
        return _REACTIVATED
    reason = short(event.get("SuppressionReason")) or "ManualSuppression"
    verdict = _VERDICTS.get(reason, ContactVerdict.UNSUBSCRIBE)
    return ParsedEvent(_TYPES.get(verdict, EventType.BOUNCED), verdict, (reason, None))


def _engaged(kind: EventType) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    def parse(event: Mapping[str, Any]) -> ParsedEvent:
        return engaged(kind, agent=event.get("UserAgent"), url=event.get("OriginalLink"))

    return parse


EVENT_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent | str]]] = {
    "Delivery": lambda event: ParsedEvent(EventType.DELIVERED, metadata=clean_metadata(response=event.get("Details"))),
    "Bounce": _bounce,
    "SpamComplaint": lambda _event: ParsedEvent(EventType.COMPLAINED, ContactVerdict.COMPLAINT),
    "SubscriptionChange": _subscription,
    "Open": _engaged(EventType.OPENED),
    "Click": _engaged(EventType.CLICKED),
}


def _report(event: Any, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("RecordType"), str):
        return "unreadable"
    name: str = event["RecordType"]
    if name not in EVENT_PARSERS:
        return name
    parsed = EVENT_PARSERS[name](event)
    if isinstance(parsed, str):
        return parsed
    times = (event.get(each) for each in ("DeliveredAt", "BouncedAt", "ReceivedAt", "ChangedAt"))
    recipients = (event.get(each) for each in ("Email", "Recipient"))
    return make_report(
        parsed,
        key=digest(event),
        source=SOURCE,
        at=parse_time(next((each for each in times if each), None), now),
        recipient=next((each for each in recipients if isinstance(each, str) and each), None),
        outbox_id=parse_outbox_id(part_of(event, "Metadata").get(MESSAGE_METADATA)),
        provider_message_id=short(event.get("MessageID")),
    )
