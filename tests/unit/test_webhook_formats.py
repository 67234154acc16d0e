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
ERASED = OutboundMessage(uuid7(NOW), "ada@example.com")


def from_row(**given: Any) -> OutboundMessage:
    """Return the message of a row whose payload has these fields."""
    row = {each.name: "" for each in message_columns(with_given=False)} | {"to_email": "ada@example.com"}
    return message_from_row(SimpleNamespace(**row, **{name: orjson.dumps(value) for name, value in given.items()}))


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
