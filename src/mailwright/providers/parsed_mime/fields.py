"""The fields that most APIs share: recipients by role, and the headers to pass on."""

import re
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

import orjson

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.parsed_mime.parse_mime import UnreadableMime
from mailwright.providers.parsed_mime.parsed_message import ParsedMailbox, ParsedMessage
from mailwright.providers.responses import one_line

# Headers that no API accepts as custom headers, because they are fields of the request or written by the provider.
STRUCTURAL_HEADERS = frozenset(
    [
        "bcc",
        "cc",
        "content-transfer-encoding",
        "content-type",
        "date",
        "dkim-signature",
        "from",
        "mime-version",
        "received",
        "reply-to",
        "return-path",
        "subject",
        "to",
    ]
)
_SPECIALS = re.compile(r'[()<>\[\]:;@\\,."]')


class Recipients(NamedTuple):
    """The envelope recipients. Everybody sees `to` and `cc`."""

    to: list[ParsedMailbox]
    cc: list[ParsedMailbox]
    bcc: list[ParsedMailbox]


def assign_recipients(message: OutgoingMessage, parsed: ParsedMessage) -> Recipients:
    """Assign the envelope recipients to To, Cc and Bcc. The headers decide only the role of each recipient."""
    waiting = {each.lower(): each for each in message.recipients}
    to, cc = _take_listed(parsed.to, waiting), _take_listed(parsed.cc, waiting)
    bcc = [ParsedMailbox(each) for each in waiting.values()]
    if not to:
        # The APIs require a visible recipient, but several Bcc recipients must not see each other.
        if not cc and len(bcc) != 1:
            raise UnreadableMime("no recipient is in the To or Cc header, and the API cannot hide all recipients")
        to.append((cc or bcc).pop(0))
    return Recipients(to, cc, bcc)


def first_headers(parsed: ParsedMessage, left_out: Container[str] = STRUCTURAL_HEADERS) -> dict[str, str]:
    """Return the headers to pass on. If a header occurs several times, use the first, because names are unique."""
    headers: dict[str, tuple[str, str]] = {}
    for name, value in parsed.headers:
        if (lowered := name.lower()) not in left_out:
            headers.setdefault(lowered, (name, value))
    return dict(headers.values())


def to_json(request: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(request)
    except orjson.JSONEncodeError as error:
        raise UnreadableMime("the message contains invalid Unicode (lone surrogates)") from error


def format_box(box: ParsedMailbox) -> str:
    """Return `Name <address>`. The name is one line and quoted if needed, because it becomes part of a header."""
    name = one_line(box.name)
    if _SPECIALS.search(name):
        name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{name} <{box.address}>" if name else box.address


def require_content(parsed: ParsedMessage) -> None:
    if not parsed.text and not parsed.html:
        raise UnreadableMime("the message has neither text nor HTML")


def _take_listed(boxes: Iterable[ParsedMailbox], waiting: dict[str, str]) -> list[ParsedMailbox]:
    """Return the listed mailboxes that are envelope recipients, and remove them from `waiting`."""
    return [box for box in boxes if waiting.pop(box.address.lower(), None) is not None]
