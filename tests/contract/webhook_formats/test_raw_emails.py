"""Every format with the events of emails that Mailwright did not build, or that name no sender."""

import pytest

from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED
from mailwright.events.outbound.formats import FORMATS
from tests.webhook_formats import REPORTED, Application

OWN_ID = "Message-ID: <7@shop.example>\r\n"


@pytest.mark.parametrize("name", FORMATS)
async def test_events_of_a_raw_email_are_delivered(application: Application, name: str) -> None:
    endpoint, _ = await application.listen(name)
    await application.send_raw()
    await application.deliver()
    await application.report(*REPORTED)
    assert await application.dispatch()
    found = await application.deliveries.list_deliveries(endpoint, limit=20)
    assert {(each.status, each.attempts) for each in found} == {(DELIVERED, 1)}


async def send(application: Application, kind: str) -> None:
    match kind:
        case "default sender":
            email = {"to": "ada@example.com", "subject": "Order", "text": "Sent."}
            await application.post("/v1/email/send", json=email, headers={"Idempotency-Key": "7"})
        case "own ID":
            await application.send_raw(OWN_ID)
        case "own ID and key":
            await application.send_raw(OWN_ID, **{"Idempotency-Key": "7"})
        case _:
            await application.send_raw()


@pytest.mark.parametrize("kind", ["default sender", "own ID", "own ID and key", "no ID"])
@pytest.mark.parametrize("name", ["sendgrid", "mailgun", "resend", "ses"])
async def test_events_have_the_message_id_of_the_email(application: Application, name: str, kind: str) -> None:
    await application.listen(name, EventType.DELIVERED)
    await send(application, kind)
    [email] = await application.drop_in.deliver(application.clock)
    await application.report(EventType.DELIVERED)
    requests = await application.dispatch()
    assert email["Message-ID"].strip("<>") in "".join(each.body.decode() for each in requests)
