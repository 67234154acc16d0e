"""Every format of webhooks with events whose message or metadata is incomplete."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from mailwright.domain.ids import uuid7
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.webhook_format import Signing
from mailwright.events.outbound.outbound_event import OutboundEvent, OutboundMessage
from mailwright.events.outbound.stored_messages import message_columns, message_from_row

NOW = 1_800_000_000_000
OUTBOX_ID = uuid7(NOW)
ERASED = OutboundMessage(OUTBOX_ID, "ada@example.com")


def from_row(*, has_content: bool = True, **given: Any) -> OutboundMessage:
    """Return the message of a row whose payload has these fields, for a tenant with a default sender."""
    row = {each.name: "" for each in message_columns()} | {"outbox_id": OUTBOX_ID, "has_content": has_content}
    fields = {name: orjson.dumps(value) for name, value in given.items()}
    return message_from_row(SimpleNamespace(**row, **fields), "News <news@example.org>")


MESSAGES = {
    "deleted": None,
    "without content": ERASED,
    "raw": from_row(sender={"email": "shop@example.com", "name": "Shop"}),
    "unreadable sender": from_row(sender={"name": "Shop"}),
    "long list key": replace(ERASED, list_key="1" * 20),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("name", FORMATS)
def test_event_without_its_message_is_still_a_request(name: str, message: OutboundMessage | None) -> None:
    shape = FORMATS[name]
    signing = Signing([shape.make_secret().stored], NOW, "https://mail.example.com")
    for number, type_ in enumerate(shape.types, 1):
        event = OutboundEvent(uuid7(NOW), uuid7(NOW), type_, NOW, message, event_key=number)
        assert shape.request([event], signing).body


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"email": "shop@example.com", "name": "Shop"}, ("Shop <shop@example.com>", "shop@example.com")),
        ({"email": "shop@example.com"}, ("shop@example.com", "shop@example.com")),
        ("Shop <shop@example.com>", ("Shop <shop@example.com>", "shop@example.com")),
        ({"name": "Shop"}, ("", "")),
    ],
)
def test_sender_is_text_in_every_form_of_the_payload(given: Any, expected: tuple[str, str]) -> None:
    message = from_row(sender=given)
    assert (message.sender, message.sender_address) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (from_row(), f"<{OUTBOX_ID}@example.org>"),
        (from_row(sender="shop@example.com"), f"<{OUTBOX_ID}@example.com>"),
        (from_row(sender={"email": "shop@example.com"}, own_message_id="<7@shop.example>"), "<7@shop.example>"),
        (from_row(copy={"of": "first", "to": "bob@example.com"}), "<first@example.org>"),
        (from_row(has_content=False), None),
    ],
    ids=["default sender", "own sender", "own message ID", "copy", "content deleted"],
)
def test_message_id_is_that_of_the_email(message: OutboundMessage, expected: str | None) -> None:
    assert message.message_id == expected
