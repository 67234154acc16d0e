"""Every format of webhooks with events whose message or metadata is incomplete."""

import pytest

from mailwright.domain.ids import uuid7
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.webhook_format import Signing
from mailwright.events.outbound.outbound_event import OutboundEvent, OutboundMessage

NOW = 1_800_000_000_000
ERASED = OutboundMessage(uuid7(NOW), "ada@example.com")


@pytest.mark.parametrize("message", [None, ERASED], ids=["deleted", "without content"])
@pytest.mark.parametrize("name", FORMATS)
def test_event_without_its_message_is_still_a_request(name: str, message: OutboundMessage | None) -> None:
    shape = FORMATS[name]
    signing = Signing([shape.make_secret().stored], NOW, "https://mail.example.com")
    for number, type_ in enumerate(shape.types, 1):
        event = OutboundEvent(uuid7(NOW), uuid7(NOW), type_, NOW, message, event_key=number)
        assert shape.request([event], signing).body
