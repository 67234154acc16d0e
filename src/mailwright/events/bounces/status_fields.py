"""Delivery status notifications (RFC 3464): groups of fields, one for the mail and one for each recipient."""

import re
from collections.abc import Iterator

from mailwright.events.bounces.diagnosis import Finding, address_in
from mailwright.events.bounces.letter import Action
from mailwright.events.bounces.parts import Headers, read_headers

CONTENT_TYPES = frozenset({"message/delivery-status", "message/global-delivery-status"})
MAX_GROUPS = 1_000

# By the first word of the field: some say more in brackets behind it.
_ACTIONS = {
    "failed": Action.FAILED,
    "failure": Action.FAILED,
    "fail": Action.FAILED,
    "error": Action.FAILED,
    "bounced": Action.FAILED,
    "delayed": Action.DELAYED,
    "delay": Action.DELAYED,
    "deferred": Action.DELAYED,
    "delivered": Action.DELIVERED,
    "deliverable": Action.DELIVERED,
    "success": Action.DELIVERED,
    "relayed": Action.RELAYED,
    "expanded": Action.EXPANDED,
}

# The surest first: what we wrote in the envelope, before anybody forwarded it.
_RECIPIENT_FIELDS = ("original-recipient", "final-recipient", "x-actual-recipient")

# Cisco's gateways have a field of their own.
_DIAGNOSTIC_FIELDS = ("diagnostic-code", "x-supplementary-info")

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n")
_FIRST_WORD = re.compile(r"[a-z]+")


def groups_in(text: str) -> list[Headers]:
    """Only those with at least one field: stray lines between them are forgiven."""
    groups = (read_headers(group.encode("utf-8", "replace")) for group in _paragraphs(text))
    return [group for group in groups if group.fields]


def holds_groups(text: str) -> bool:
    """Some servers write the fields into the text of the letter."""
    return re.search(r"^(?:Final|Original)-Recipient[ \t]?:", text, re.IGNORECASE | re.MULTILINE) is not None


def findings_in(groups: list[Headers]) -> Iterator[Finding]:
    seen: set[tuple[str | None, str, str]] = set()
    for group in groups:
        named = [value for field in _RECIPIENT_FIELDS for value in group.all(field)]
        action, status = group.first("action").lower(), group.first("status")
        if not named or not (action or status):
            continue
        address = next((found for value in named if (found := address_in(value))), None)
        if (address, action, status) in seen:
            continue
        seen.add((address, action, status))
        word = _FIRST_WORD.match(action)
        diagnostic = _without_type(next((value for field in _DIAGNOSTIC_FIELDS if (value := group.first(field))), ""))
        yield Finding(address, _ACTIONS.get(word[0]) if word else None, status, diagnostic)


def reporting_mta(groups: list[Headers]) -> str | None:
    named = next((value for group in groups if (value := group.first("reporting-mta"))), "")
    return _without_type(named)[:255] or None


def _without_type(value: str) -> str:
    """`smtp; 550 no` → `550 no`. Where no type is given, a semicolon belongs to the text."""
    kind, semicolon, rest = value.partition(";")
    is_type = semicolon and re.fullmatch(r"[A-Za-z0-9-]{1,20}", kind.strip())
    return (rest if is_type else value).strip()


def _paragraphs(text: str) -> list[str]:
    return _BLANK_LINES.split(text, MAX_GROUPS)
