"""The message of an event, read from the database with what the application gave for it."""

from collections.abc import Collection
from typing import Any, Final

import orjson

from mailwright.content.headers import parse_mailbox
from mailwright.domain import address
from mailwright.domain.message import EMAIL_ID, OWN_MESSAGE_ID
from mailwright.events.outbound.outbound_event import OutboundMessage
from mailwright.storage.expressions import json_value
from mailwright.storage.tables import messages

# The fields of a payload that the application gave, by their names in an `OutboundMessage`.
_GIVEN_FIELDS: Final = {
    "sender": "from",
    "tags": "tags",
    "custom": "metadata",
    "headers": "headers",
    "own_message_id": OWN_MESSAGE_ID,
    "own_email_id": EMAIL_ID,
    "copy": "copy",
}
GIVEN: Final = frozenset(_GIVEN_FIELDS)
# The fields from which `email_message_id` follows.
MESSAGE_ID_FIELDS: Final = frozenset({"sender", "own_message_id", "own_email_id"})


def message_columns(given: Collection[str] = ()) -> list[Any]:
    """Return the columns of `messages` that `message_from_row` reads, with some of the fields that are `GIVEN`."""
    m = messages.c
    return [
        *(m.outbox_id, m.to_email, m.recipient_id, m.external_id, m.request_id, m.source, m.list_key, m.subject),
        (m.payload != "{}").label("has_content"),
        *(json_value(m.payload, _GIVEN_FIELDS[name]).label(name) for name in sorted(given)),
    ]


def message_from_row(row: Any, default_sender: str = "") -> OutboundMessage:
    """Return the message of a row. `default_sender` is its tenant's, for an email without a sender."""
    given = {name: orjson.loads(value) for name in _GIVEN_FIELDS if (value := getattr(row, name, None)) is not None}
    sender = given.pop("sender", default_sender if row.has_content else None)
    copy = given.pop("copy", None) or {}
    return OutboundMessage(
        row.outbox_id,
        row.to_email,
        row.recipient_id,
        row.external_id,
        row.request_id,
        row.source,
        row.list_key,
        row.subject,
        sender=_sender(sender),
        tags=tuple(given.pop("tags", None) or ()),
        copy_of=copy.get("of"),
        **given,
    )


def _sender(value: Any) -> str:
    """Return the sender as text; an empty one if there is none or, as in a message that failed, it cannot be read."""
    try:
        found = parse_mailbox(value or "")
    except KeyError:
        return ""
    return address.format_mailbox(found.name, found.address)
