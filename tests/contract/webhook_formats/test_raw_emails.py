"""Every format with the events of raw emails, whose sender is stored as an object."""

import pytest

from mailwright.events.outbound.deliveries import DELIVERED
from mailwright.events.outbound.formats import FORMATS
from tests.webhook_formats import REPORTED, Application


@pytest.mark.parametrize("name", FORMATS)
async def test_events_of_a_raw_email_are_delivered(application: Application, name: str) -> None:
    endpoint, _ = await application.listen(name)
    await application.send_raw()
    await application.deliver()
    await application.report(*REPORTED)
    requests = await application.dispatch()
    found = await application.deliveries.list_deliveries(endpoint, limit=20)
    assert found
    assert {(each.status, each.attempts) for each in found} == {(DELIVERED, 1)}
    is_own = FORMATS[name].is_own
    assert is_own or any(b"shop@example.com" in each.body for each in requests) or name == "sendgrid"
