"""Find the message that a bounce email is about, by our message ID anywhere in the email."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from mailwright.events.bounces.diagnosis import find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, parse_headers
from mailwright.events.bounces.model import OriginalMessage

OUR_HEADER = "x-mailwright-message"
MAX_REFERENCES = 20

# Headers with the address that the bounce email was delivered to, such as `bounces+<outbox id>@example.com`.
_ENVELOPE_FIELDS = (
    *("delivered-to", "x-delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "x-rcpt-to", "x-forwarded-to"),
    *("to", "apparently-to", "received"),
)
# Headers of the returned message with our tagged addresses: its envelope sender, and where replies go.
_SENDER_FIELDS = (
    *("return-path", "x-envelope-from", "envelope-from", "errors-to", "sender", "reply-to"),
    *("received", "received-spf", "authentication-results"),
)
_UNSUBSCRIBE_FIELD = "list-unsubscribe"
# Headers by which a part is a returned message, also if a provider has removed the others.
_RETURNED_FIELDS = ("message-id", OUR_HEADER, *_SENDER_FIELDS, _UNSUBSCRIBE_FIELD)
# Fields of a report about the envelope of the original message.
_REPORTED_SENDER_FIELDS = ("original-mail-from", "x-original-mail-from", "authentication-results")
_ENVELOPE_ID_FIELD = "original-envelope-id"
_REPORTED_LINK_FIELD = "reported-uri"
_HEADERS_ONLY = frozenset({"text/rfc822-headers", "message/rfc822-headers", "message/global-headers"})
# Headers in which a report or a reply repeats the Message-ID of the original message.
_REFERRING_FIELDS = ("x-original-message-id", "original-message-id", "in-reply-to", "references")

# Our ids are UUIDs of version 7, or of version 5 for notifications. Other programs use random ones (version 4) in their
# Message-IDs.
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[57][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_OURS = re.compile(_UUID, re.IGNORECASE)
# The tag of an address. Servers change case and delimiter (`bounces-ID@`, `bounces%2BID@`), and some append a recipient
# (`bounces+ID=ann=example.com@`).
_TAG = rf"(?:(?<![0-9a-f])|(?<=[%=]2b))({_UUID})(?:=[^\s<>@&]{{1,100}})?@[^<>\s]"
_TAGGED = re.compile(_TAG, re.IGNORECASE)
_MESSAGE_ID = re.compile(rf"(?<![^<\s])({_UUID})@[^<>\s]", re.IGNORECASE)
_ANY_MESSAGE_ID = re.compile(r"<?[^<>\s@]{1,250}@[^<>\s@]{1,250}>?")
_BRACKETED_ID = re.compile(r"<[^<>\s]{1,250}>")
_ENVELOPE_ID = re.compile(rf"\A\s*<?({_UUID})>?\s*\Z", re.IGNORECASE)
# The message in our unsubscribe link. HTML escapes the ampersand, link scanners encode the whole link, and some reports
# contain quoted-printable text that nothing declares as such.
_LINK = re.compile(rf"(?:[?&;]|%(?:25)?26)message(?:=(?:3d)?|%(?:25)?3d)({_UUID})(?![0-9a-f-])", re.IGNORECASE)
_QUOTED = re.compile(rf"x-mailwright-message[ \t]{{0,10}}:\s{{0,20}}({_UUID})|{_TAG}", re.IGNORECASE)
_COPIED_HEADERS = re.compile(
    r"^(?:Return-Path|Received|X-Mailwright-Message|Message-ID)[ \t]{0,5}:", re.IGNORECASE | re.MULTILINE
)


def find_original(
    parts: Sequence[EmailPart],
    *,
    report: int = 0,
    groups: Iterable[EmailHeaders] = (),
    repeated: EmailHeaders | None = None,
    is_forwarded: bool = False,
) -> OriginalMessage:
    """Find the original message. Use the most reliable evidence: envelope, our header, Message-ID, quoted text.

    Search for the returned message only after the part with the report, because a forwarded report has its own
    Message-ID before that. If a person forwarded the report, only the headers of the returned message count: any text
    may quote one of our messages.
    """
    if is_forwarded:
        parts = _without_text(parts, report)
    own, groups = parts[0].headers, tuple(groups)
    returned = [repeated] if repeated else _returned_headers(parts[report + 1 :])
    if not any(headers.first(field) for headers in returned for field in ("message-id", OUR_HEADER)):
        returned += _copied_headers(parts)
    message_ids = [*_values(returned, "message-id"), *_values((*groups, own), *_REFERRING_FIELDS)]
    outbox_id = (
        _first_match(_TAGGED, _values([own], *_ENVELOPE_FIELDS))
        or _our_header(returned)
        or _first_match(_MESSAGE_ID, message_ids)
        or _first_match(_TAGGED, _values(returned, *_SENDER_FIELDS))
        or _first_match(_ENVELOPE_ID, _values(groups, _ENVELOPE_ID_FIELD))
        or _first_match(_TAGGED, _values(groups, *_REPORTED_SENDER_FIELDS))
        or _first_match(_LINK, _values(returned, _UNSUBSCRIBE_FIELD))
        or _first_match(_LINK, _values(groups, _REPORTED_LINK_FIELD))
        or _quoted_id(parts)
        # Somebody else's email may quote our link, but then it has a Message-ID of its own.
        or (_linked_id(parts[report + 1 :]) if report and not message_ids else None)
    )
    message_id = next((found[0] for value in message_ids if (found := _ANY_MESSAGE_ID.search(value))), None)
    recipients = (address for value in _values(returned, "to") for address in find_addresses(value))
    return OriginalMessage(outbox_id, message_id, tuple(dict.fromkeys(recipients)))


def is_reply(headers: EmailHeaders) -> bool:
    """Return whether an email answers another one, or was sent to a tagged address of one of our messages."""
    answers = any(headers.first(field) for field in ("in-reply-to", "references"))
    return answers or _first_match(_TAGGED, _values([headers], *_ENVELOPE_FIELDS)) is not None


def find_references(headers: EmailHeaders) -> tuple[str, ...]:
    """Return the Message-IDs that an email answers, with their angle brackets, the closest one first."""
    closest = _BRACKETED_ID.findall(headers.first("in-reply-to"))
    thread = _BRACKETED_ID.findall(headers.first("references"))
    return tuple(dict.fromkeys([*closest, *reversed(thread)]))[:MAX_REFERENCES]


def _without_text(parts: Sequence[EmailPart], report: int) -> list[EmailPart]:
    """Return the parts up to the headers of the email that the report returns, without their text."""
    depth = parts[report].depth
    after = takewhile(lambda part: part.depth >= depth, parts[report + 1 :])
    returned = [part for part in after if part.depth <= depth + 1]
    kept = (*_HEADERS_ONLY, parts[report].content_type)
    return [
        part if part.content_type in kept else replace(part, body=b"") for part in (*parts[: report + 1], *returned)
    ]


def _returned_headers(parts: Sequence[EmailPart]) -> list[EmailHeaders]:
    """Return the headers of the returned message, which may be complete or headers only."""
    found = [part.headers for part in parts if any(part.headers.first(field) for field in _RETURNED_FIELDS)]
    only = [part for part in parts if part.content_type in _HEADERS_ONLY]
    return found + [parse_headers(part.text.encode("utf-8", "replace")) for part in only]


def _copied_headers(parts: Sequence[EmailPart]) -> list[EmailHeaders]:
    """Return the original headers that some servers copy below the text of the email."""
    text = next((part.text for part in parts if part.content_type == "text/plain"), "")
    start = _COPIED_HEADERS.search(text)
    return [parse_headers(text[start.start() :].partition("\n\n")[0].encode("utf-8", "replace"))] if start else []


def _our_header(returned: Iterable[EmailHeaders]) -> str | None:
    values = (value.strip("<> ") for headers in returned for value in headers.all(OUR_HEADER))
    return next((value.lower() for value in values if _OURS.fullmatch(value)), None)


def _quoted_id(parts: Sequence[EmailPart]) -> str | None:
    for part in parts:
        if part.content_type.startswith(("text/", "message/delivery", "message/feedback")) and (
            found := _QUOTED.search(part.text)
        ):
            return (found[1] or found[2]).lower()
    return None


def _linked_id(parts: Sequence[EmailPart]) -> str | None:
    return _first_match(_LINK, (part.text for part in parts if part.content_type.startswith("text/")))


def _values(groups: Iterable[EmailHeaders], *fields: str) -> list[str]:
    return [value for headers in groups for field in fields for value in headers.all(field)]


def _first_match(pattern: re.Pattern[str], values: Iterable[str]) -> str | None:
    return next((found[1].lower() for value in values if (found := pattern.search(value))), None)
