"""An event that a format cannot write fails alone: the others of its batch are delivered once."""

from collections.abc import Sequence

import pytest

from mailwright.domain.clock import DAY
from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED, FAILED
from mailwright.events.outbound.formats import FORMATS
from mailwright.events.outbound.formats.webhook_format import RequestContent, Signing
from mailwright.events.outbound.outbound_event import OutboundEvent
from tests.webhook_formats import Application


def refuse_clicks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = type(FORMATS[name])
    write = shape.request

    def request(self: object, events: Sequence[OutboundEvent], signing: Signing) -> RequestContent:
        if any(each.type == EventType.CLICKED for each in events):
            raise TypeError("Integer exceeds 64-bit range")
        return write(FORMATS[name], events, signing)

    monkeypatch.setattr(shape, "request", request)


@pytest.mark.parametrize("name", ["mailwright", "mailgun", "sendgrid"])
async def test_unwritable_event_fails_and_its_neighbours_are_delivered_once(
    application: Application, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, _ = await application.listen(name, EventType.DELIVERED, EventType.OPENED, EventType.CLICKED)
    await application.send_raw()
    await application.deliver()
    await application.report(EventType.DELIVERED, EventType.CLICKED, EventType.OPENED)
    refuse_clicks(name, monkeypatch)
    assert len(await application.dispatch()) == 2
    found = {each.type: each for each in await application.deliveries.list_deliveries(endpoint, limit=9)}
    assert {type_: (each.status, each.attempts) for type_, each in found.items()} == {
        EventType.DELIVERED: (DELIVERED, 1),
        EventType.CLICKED: (FAILED, 1),
        EventType.OPENED: (DELIVERED, 1),
    }
    [entry] = found[EventType.CLICKED].log
    reason = f"Not sent: Mailwright cannot write this event in the format {name} (TypeError)."
    assert (entry["status"], entry["error"]) == (None, reason)
    application.clock.advance(DAY)
    assert await application.dispatch() == []


async def test_unwritable_event_is_no_failure_of_the_endpoint(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, _ = await application.listen("mailgun", EventType.CLICKED)
    await application.send_raw()
    await application.deliver()
    await application.report(EventType.CLICKED)
    refuse_clicks("mailgun", monkeypatch)
    assert await application.dispatch() == []
    current = await application.endpoints.find(endpoint.webhook_id, tenant_id=None)
    assert (current.failures, current.paused_at) == (0, None)
    monkeypatch.undo()
    [failed] = await application.deliveries.list_deliveries(endpoint, limit=9)
    await application.deliveries.redeliver(failed.delivery_id, tenant_id=None, actor="test")
    assert len(await application.dispatch()) == 1
