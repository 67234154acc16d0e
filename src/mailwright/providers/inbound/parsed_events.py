"""Functions that the parsers of provider events share."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Protocol

import orjson

from mailwright.domain.clock import Instant
from mailwright.domain.feedback import FeedbackType, parse_feedback_type
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.machines import is_machine_report
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.providers.inbound.rejected_events import MalformedEvent
from mailwright.providers.inbound.sanitize import clean_metadata, link_without_query


@dataclass(frozen=True, slots=True)
class UsedSignature:
    """A verified signature, the digest of the body that came with it, and when it is too old to be accepted."""

    signature: str
    body: str
    ends_at: Instant


@dataclass(frozen=True, slots=True)
class ParsedEvents:
    """The reports of a request, and the number of skipped events by name."""

    reports: tuple[Report, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    signature: UsedSignature | None = None  # Only if it does not cover the body.
    by_address: bool = True  # A report without a message ID may be matched by the recipient's address.


RecordEvents = Callable[[ParsedEvents], Awaitable[object]]


class ProviderWebhook(Protocol):
    """Verifies and parses the webhook of one provider."""

    def parse(self, headers: Mapping[str, str], body: bytes) -> ParsedEvents | Awaitable[ParsedEvents]:
        """Return the events. Raise `EventRejected` if the request is not authentic."""
        ...


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """The content of an event, without its message and recipient."""

    type: EventType
    verdict: ContactVerdict = ContactVerdict.NOTHING
    bounce: tuple[str | None, str | None] = (None, None)
    metadata: Mapping[str, Any] = field(default_factory=dict)


def engaged(kind: EventType, *, agent: Any, url: Any = None, is_machine: bool = False) -> ParsedEvent:
    """Return an open or a click. `is_machine`: the provider knows that a program caused it."""
    machine = is_machine or is_machine_report(agent, is_click=kind is EventType.CLICKED)
    return ParsedEvent(kind, metadata=clean_metadata(url=link_without_query(url), isMachine=machine, userAgent=agent))


def complained(stated: Any, ignored: str) -> ParsedEvent | str:
    """Return what a feedback report of this type means. Return `ignored` if it is not about the recipient's opinion."""
    feedback = parse_feedback_type(short(stated) or FeedbackType.ABUSE)
    if feedback.event is None:
        return ignored
    return ParsedEvent(feedback.event, feedback.verdict, metadata=clean_metadata(feedbackType=feedback))


def make_report(
    parsed: ParsedEvent,
    *,
    key: str,
    source: str,
    at: Instant,
    recipient: Any,
    outbox_id: str | None,
    provider_message_id: str | None,
) -> Report:
    """Return the report of an event. `recipient` is what the provider sent, of any type."""
    return Report(
        key=key,
        source=source,
        type=parsed.type,
        at=at,
        recipient=recipient if isinstance(recipient, str) and recipient else None,
        outbox_id=outbox_id,
        provider_message_id=provider_message_id,
        verdict=parsed.verdict,
        bounce_type=parsed.bounce[0],
        bounce_subtype=parsed.bounce[1],
        metadata=parsed.metadata,
    )


def parse_each(
    events: Iterable[Any], parse: Callable[[Any], Report | str], ignored: Collection[str] = ()
) -> ParsedEvents:
    """Parse each event independently. The parser returns a report, or the name under which the event is counted.

    `ignored` are the names of known events that say nothing about a message. They are not counted.
    """
    reports: list[Report] = []
    skipped: dict[str, int] = {}
    for event in events:
        report = parse(event)
        if isinstance(report, Report):
            reports.append(report)
        elif report not in ignored:
            skipped[report[:40]] = skipped.get(report[:40], 0) + 1
    return ParsedEvents(tuple(reports), skipped)


def read_json(body: bytes) -> Any:
    try:
        return load_json(body)
    except orjson.JSONDecodeError as error:
        raise MalformedEvent("The body is not JSON.") from error


def read_events(body: bytes) -> list[Any]:
    """Return the events of a body: one object, or a list of them."""
    document = read_json(body)
    if isinstance(document, dict):
        return [document]
    if not isinstance(document, list):
        raise MalformedEvent("The body is neither an event nor a list of events.")
    return document


def part_of(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object with this name; an empty one if there is none."""
    part = event.get(name)
    return part if isinstance(part, dict) else {}


def digest(event: Any) -> str:
    """Return a key for an event without an id, because copies of an event have the same fields."""
    return sha256(orjson.dumps(event, option=orjson.OPT_SORT_KEYS)).hexdigest()


def short_key(*parts: Any) -> str:
    """Return a key of limited length from the parts that identify an event."""
    text = ":".join(str(part) for part in parts)
    return text if len(text) <= 200 else sha256(text.encode("utf-8", "replace")).hexdigest()


def short(given: Any) -> str | None:
    return given[:100] if isinstance(given, str) and given else None
