"""Which mail a letter is about: our own id, wherever in the letter somebody kept it."""

import re
from collections.abc import Iterable, Sequence

from mailwright.events.bounces.diagnosis import find_addresses
from mailwright.events.bounces.email_parts import EmailHeaders, EmailPart, parse_headers
from mailwright.events.bounces.model import OriginalMessage

OUR_HEADER = "x-mailwright-message"

# To whom the letter itself was delivered: `bounces+<outbox id>@example.com`, where the envelope said so.
_ENVELOPE_FIELDS = ("delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "to")
_HEADERS_ONLY = frozenset({"text/rfc822-headers", "message/rfc822-headers", "message/global-headers"})
# Where a report or an answer repeats the Message-ID of the mail that it is about.
_REFERRING_FIELDS = ("x-original-message-id", "original-message-id", "in-reply-to", "references")

# Version 7, as our ids are: other programs put random UUIDs (version 4) into their Message-IDs.
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_OURS = re.compile(_UUID)
_TAGGED = re.compile(rf"[+=.-]({_UUID})@")
_MESSAGE_ID = re.compile(rf"(?<![^<\s])({_UUID})@[^<>\s]")
_ANY_MESSAGE_ID = re.compile(r"<?[^<>\s@]{1,250}@[^<>\s@]{1,250}>?")
_QUOTED = re.compile(rf"x-mailwright-message[ \t]{{0,10}}:[ \t]{{0,10}}({_UUID})|<({_UUID})@[^<>\s]{{1,255}}>", re.I)
_COPIED_HEADERS = re.compile(r"^(?:Return-Path|Received|Message-ID)[ \t]{0,5}:", re.IGNORECASE | re.MULTILINE)


def find_original(
    parts: Sequence[EmailPart],
    *,
    report: int = 0,
    groups: Iterable[EmailHeaders] = (),
    repeated: EmailHeaders | None = None,
) -> OriginalMessage:
    """The surest evidence first: the envelope, our own header, the Message-ID, and last what is merely quoted.

    What is returned stands behind the part with the report; a forwarded report has a Message-ID of its own before it.
    """
    letter = parts[0].headers
    returned = [repeated] if repeated else _returned(parts[report + 1 :]) or _copied(parts)
    referring = [value for headers in (*groups, letter) for field in _REFERRING_FIELDS for value in headers.all(field)]
    message_ids = [value for headers in returned for value in headers.all("message-id")] + referring
    outbox_id = (
        _first(_TAGGED, (value for field in _ENVELOPE_FIELDS for value in letter.all(field)))
        or next((value for headers in returned for value in headers.all(OUR_HEADER) if _OURS.fullmatch(value)), None)
        or _first(_MESSAGE_ID, message_ids)
        or _quoted(parts)
    )
    message_id = next((found[0] for value in message_ids if (found := _ANY_MESSAGE_ID.search(value))), None)
    recipients = (address for headers in returned for value in headers.all("to") for address in find_addresses(value))
    return OriginalMessage(outbox_id, message_id, tuple(dict.fromkeys(recipients)))


def _returned(parts: Sequence[EmailPart]) -> list[EmailHeaders]:
    """The headers of the mail that was returned, whole or as headers only."""
    found = [part.headers for part in parts if part.headers.first("message-id") or part.headers.first(OUR_HEADER)]
    only = [part for part in parts if part.content_type in _HEADERS_ONLY]
    return found + [parse_headers(part.text.encode("utf-8", "replace")) for part in only]


def _copied(parts: Sequence[EmailPart]) -> list[EmailHeaders]:
    """Headers that are copied below the text of the letter."""
    text = next((part.text for part in parts if part.content_type == "text/plain"), "")
    start = _COPIED_HEADERS.search(text)
    return [parse_headers(text[start.start() :].partition("\n\n")[0].encode("utf-8", "replace"))] if start else []


def _quoted(parts: Sequence[EmailPart]) -> str | None:
    for part in parts:
        if part.content_type.startswith(("text/", "message/delivery")) and (found := _QUOTED.search(part.text)):
            return (found[1] or found[2]).lower()
    return None


def _first(pattern: re.Pattern[str], values: Iterable[str]) -> str | None:
    return next((found[1] for value in values if (found := pattern.search(value))), None)
