"""Parse delivery status notifications (RFC 3464): groups of fields, one for the message and one per recipient."""

import re
from collections.abc import Iterator

from mailwright.events.bounces.diagnosis import RecipientFields, find_address
from mailwright.events.bounces.email_parts import EmailHeaders, parse_headers
from mailwright.events.bounces.model import DsnAction

CONTENT_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})
MAX_GROUPS = 1_000

# Actions by the first word of the field, because some servers add text in parentheses.
_ACTIONS = {
    "failed": DsnAction.FAILED,
    "failure": DsnAction.FAILED,
    "fail": DsnAction.FAILED,
    "error": DsnAction.FAILED,
    "bounced": DsnAction.FAILED,
    "delayed": DsnAction.DELAYED,
    "delay": DsnAction.DELAYED,
    "deferred": DsnAction.DELAYED,
    "delivered": DsnAction.DELIVERED,
    "deliverable": DsnAction.DELIVERED,
    "success": DsnAction.DELIVERED,
    "relayed": DsnAction.RELAYED,
    "expanded": DsnAction.EXPANDED,
}

# Fields with the recipient, most reliable first: the address in our envelope comes before forwarded addresses.
_RECIPIENT_FIELDS = ("original-recipient", "final-recipient", "x-actual-recipient")

# Fields with the diagnostic text. Cisco gateways use their own field.
_DIAGNOSTIC_FIELDS = ("diagnostic-code", "x-supplementary-info")

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n")
_FIRST_WORD = re.compile(r"[a-z]+")


def parse_groups(text: str) -> list[EmailHeaders]:
    """Return the groups that have at least one field. Other lines between groups are ignored."""
    paragraphs = (parse_headers(group.encode("utf-8", "replace")) for group in _paragraphs(text))
    return [group for paragraph in paragraphs for group in _split_recipients(paragraph)]


def _split_recipients(paragraph: EmailHeaders) -> Iterator[EmailHeaders]:
    """Split fields of several recipients that have no blank line between them."""
    fields: list[tuple[str, str]] = []
    for name, value in paragraph.fields:
        if name == "final-recipient" and any(earlier == name for earlier, _ in fields):
            yield EmailHeaders(tuple(fields))
            fields = []
        fields.append((name, value))
    if fields:
        yield EmailHeaders(tuple(fields))


def has_groups(text: str) -> bool:
    """Return whether the text contains status fields, because some servers write these into the body."""
    return re.search(r"^(?:Final|Original)-Recipient[ \t]?:", text, re.IGNORECASE | re.MULTILINE) is not None


def find_recipients(groups: list[EmailHeaders]) -> Iterator[RecipientFields]:
    seen: set[tuple[str | None, str, str]] = set()
    for group in groups:
        named = [value for field in _RECIPIENT_FIELDS for value in group.all(field)]
        action, status = group.first("action").lower(), group.first("status")
        if not named or not (action or status):
            continue
        address = next((found for value in named if (found := find_address(value))), None)
        if (address, action, status) in seen:
            continue
        seen.add((address, action, status))
        word = _FIRST_WORD.match(action)
        diagnostic = _without_type(next((value for field in _DIAGNOSTIC_FIELDS if (value := group.first(field))), ""))
        yield RecipientFields(address, _ACTIONS.get(word[0]) if word else None, status, diagnostic)


def find_reporting_mta(groups: list[EmailHeaders]) -> str | None:
    named = next((value for group in groups if (value := group.first("reporting-mta"))), "")
    return _without_type(named)[:255] or None


def _without_type(value: str) -> str:
    """Remove the type: `smtp; 550 no` becomes `550 no`. A semicolon without a type before it stays."""
    kind, semicolon, rest = value.partition(";")
    is_type = semicolon and re.fullmatch(r"[A-Za-z0-9-]{1,20}", kind.strip())
    return (rest if is_type else value).strip()


def _paragraphs(text: str) -> list[str]:
    return _BLANK_LINES.split(text, MAX_GROUPS)
