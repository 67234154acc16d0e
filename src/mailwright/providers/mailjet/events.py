"""Parse Mailjet events into reports. Mailjet does not sign them: a password in the URL authenticates them.

A request has one event, or a list if the events are grouped (version 2 of the webhook).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.parsed_events import ParsedEvent, digest, engaged, make_report, short
from mailwright.providers.inbound.sanitize import clean_metadata, parse_outbox_id, parse_time
from mailwright.providers.inbound.secret_webhook import SecretWebhook, secret_webhook
from mailwright.providers.inbound.soft_bounces import correct_verdict, is_about_address
from mailwright.providers.mailjet.kind import PROVIDER, MailjetFields

# Errors about the address. They are permanent only if the event says so.
_NO_SUCH_ADDRESS: Final = re.compile(r"user unknown|mailbox inactive|invalid domain|no \w+ host")
_FULL: Final = "quota exceeded"
_GREYLISTED: Final = "greylisted"
# Why Mailjet did not try to deliver. "preblocked" and "blacklisted" do not say what happened before.
_BLOCKED: Final[Mapping[str, ContactVerdict]] = {
    "user unknown": ContactVerdict.HARD_BOUNCE,
    "invalid domain": ContactVerdict.HARD_BOUNCE,
    "typofix": ContactVerdict.HARD_BOUNCE,
    "spam reporter": ContactVerdict.COMPLAINT,
}


def make_webhook(settings: MailjetFields, clock: Clock) -> SecretWebhook | None:
    return secret_webhook(settings.mailjet_webhook_secret, clock, _report, IGNORED)


def _bounced(event: Mapping[str, Any]) -> ParsedEvent:
    error, comment = _error(event), event.get("comment")
    metadata = clean_metadata(error=error or None, reason=comment)
    is_hard = event.get("hard_bounce") is True
    if error == _GREYLISTED and not is_hard:  # Mailjet tries again.
        return ParsedEvent(EventType.DEFERRED, metadata=metadata)
    words = comment if isinstance(comment, str) else ""
    if error == _FULL:
        verdict = ContactVerdict.SOFT_BOUNCE
    elif _NO_SUCH_ADDRESS.fullmatch(error):
        verdict = ContactVerdict.HARD_BOUNCE if is_hard else ContactVerdict.SOFT_BOUNCE
    elif not error and is_about_address(None, words):
        verdict = ContactVerdict.SOFT_BOUNCE
    else:
        verdict = ContactVerdict.NOTHING
    corrected = verdict if verdict is ContactVerdict.NOTHING else correct_verdict(verdict, comment)
    return ParsedEvent(EventType.BOUNCED, corrected, ("hard" if is_hard else "soft", error or None), metadata)


def _blocked(event: Mapping[str, Any]) -> ParsedEvent:
    """Parse a message that Mailjet did not try to deliver."""
    error = _error(event)
    verdict = _BLOCKED.get(error, ContactVerdict.NOTHING)
    metadata = clean_metadata(error=error or None, reason=event.get("comment"))
    return ParsedEvent(EventType.BOUNCED, verdict, ("blocked", error or None), metadata)


def _engaged(kind: EventType) -> Callable[[Mapping[str, Any]], ParsedEvent]:
    return lambda event: engaged(kind, agent=event.get("agent"), url=event.get("url"))


EVENT_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ParsedEvent]]] = {
    # The server of the recipient has accepted the message.
    "sent": lambda event: ParsedEvent(EventType.DELIVERED, metadata=clean_metadata(response=event.get("smtp_reply"))),
    "bounce": _bounced,
    "blocked": _blocked,
    "spam": lambda event: ParsedEvent(
        EventType.COMPLAINED, ContactVerdict.COMPLAINT, metadata=clean_metadata(feedbackLoop=event.get("source"))
    ),
    "unsub": lambda _event: ParsedEvent(EventType.UNSUBSCRIBED, ContactVerdict.UNSUBSCRIBE),
    "open": _engaged(EventType.OPENED),
    "click": _engaged(EventType.CLICKED),
}
# A mistake in an address that Mailjet has corrected.
IGNORED: Final = frozenset({"typofix"})


def _report(event: Any, now: Instant) -> Report | str:
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "unreadable"
    name: str = event["event"]
    if name not in EVENT_PARSERS:
        return name
    return make_report(
        EVENT_PARSERS[name](event),
        key=digest(event),
        source=PROVIDER,
        at=parse_time(event.get("time"), now),
        recipient=event.get("email"),
        outbox_id=parse_outbox_id(event.get("CustomID")),
        provider_message_id=_text(event.get("MessageID")) or _text(event.get("mj_message_id")),
    )


def _error(event: Mapping[str, Any]) -> str:
    return (short(event.get("error")) or "").strip().lower()


def _text(given: Any) -> str | None:
    """Return an ID as text, because Mailjet writes it as a number or as text."""
    return short(str(given)) if isinstance(given, str | int) and not isinstance(given, bool) and given else None
