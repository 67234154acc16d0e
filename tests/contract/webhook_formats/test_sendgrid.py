"""The format `sendgrid`, verified by SendGrid's library and read by django-anymail."""

import json
from typing import Any

import pytest
from anymail.webhooks.sendgrid import SendGridTrackingWebhookView
from sendgrid import SendGridAPIClient
from sendgrid.helpers.eventwebhook import EventWebhook
from sendgrid.helpers.mail import Category, CustomArg
from sendgrid.helpers.mail.mail import Mail

from mailwright.domain.clock import DAY
from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED
from tests.builders import suppress
from tests.standins.http import Answer, Request
from tests.webhook_formats import BROWSER, REPORTED, Application, anymail_events, in_thread

pytestmark = pytest.mark.filterwarnings("ignore:django-anymail has dropped official support for SendGrid")


def an_email(**changes: Any) -> Mail:
    content = {"subject": "Order", "plain_text_content": "It is on its way."}
    fields = {"from_email": "shop@example.com", "to_emails": "ada@example.com", **content, **changes}
    return Mail(**fields)


async def send(application: Application, **changes: Any) -> str:
    """Send with SendGrid's SDK, and return the ID that the application got."""
    email = an_email(**changes)
    email.category = [Category("orders")]
    email.custom_arg = [CustomArg("order", "7"), CustomArg("event", "spring")]
    client = SendGridAPIClient(application.drop_in.key, host=application.drop_in.url)
    return (await in_thread(client.send, email)).headers["X-Message-Id"]


def is_verified(request: Request, key: str) -> bool:
    signature, timestamp = (
        request.headers[f"X-Twilio-Email-Event-Webhook-{name}"] for name in ("Signature", "Timestamp")
    )
    verified: bool = EventWebhook(key).verify_signature(request.body.decode(), signature, timestamp)
    return verified


async def test_events_come_in_batches_as_sendgrid_sends_them(application: Application) -> None:
    endpoint, key = await application.listen("sendgrid")
    message_id = await send(application)
    await application.deliver()
    await application.report(*REPORTED)
    application.receiver.view = SendGridTrackingWebhookView.as_view(tracking_webhook_verification_key=key)
    with anymail_events() as read:
        [request] = await application.dispatch()
    assert is_verified(request, key)
    events = request.json()
    assert [each["event"] for each in events] == [
        *("processed", "deferred", "delivered", "open", "click", "bounce", "spamreport", "unsubscribe")
    ]
    assert {each["sg_message_id"].partition(".")[0] for each in events} == {message_id}
    assert {(each["email"], each["order"], *each["category"]) for each in events} == {
        ("ada@example.com", "7", "orders")
    }
    assert len({each["sg_event_id"] for each in events}) == len(events)
    bounce = next(each for each in events if each["event"] == "bounce")
    assert (bounce["type"], bounce["status"], bounce["reason"]) == ("bounce", "5.1.1", "550 5.1.1 No such user")
    assert [each.event_type for each in read] == [
        *("queued", "deferred", "delivered", "opened", "clicked", "bounced", "complained", "unsubscribed")
    ]
    assert {(each.recipient, each.metadata["order"], each.tags[0]) for each in read} == {
        ("ada@example.com", "7", "orders")
    }
    assert (read[4].click_url, read[4].user_agent) == ("https://shop.example/order", BROWSER)
    found = await application.deliveries.list_deliveries(endpoint, limit=20)
    assert {(each.status, each.attempts) for each in found} == {(DELIVERED, 1)}


async def test_failed_batch_is_repeated_with_the_same_event_ids(application: Application) -> None:
    endpoint, key = await application.listen("sendgrid")
    await send(application)
    await application.deliver()
    await application.report(EventType.DELIVERED)
    application.receiver.answer(Answer(500), times=1)
    [first] = await application.dispatch()
    repeated: list[Request] = []
    for _ in range(3):  # After a failure, the first request has one event.
        application.clock.advance(DAY)
        repeated += await application.dispatch()
    events = [event for request in repeated for event in request.json()]
    assert sorted(each["sg_event_id"] for each in events) == sorted(each["sg_event_id"] for each in first.json())
    assert all(is_verified(each, key) for each in repeated)
    assert {each.status for each in await application.deliveries.list_deliveries(endpoint, limit=9)} == {DELIVERED}


async def test_all_recipients_have_the_id_of_the_request(application: Application) -> None:
    await application.listen("sendgrid", EventType.SENT)
    message_id = await send(application, to_emails=["ada@example.com", "bob@example.com"])
    separate_id = await send(application, to_emails=["cyd@example.com", "dan@example.com"], is_multiple=True)
    await application.deliver()
    [request] = await application.dispatch()
    found = {each["email"]: each["sg_message_id"].partition(".")[0] for each in request.json()}
    assert found == {
        **{f"{name}@example.com": message_id for name in ("ada", "bob")},
        **{f"{name}@example.com": separate_id for name in ("cyd", "dan")},
    }


async def test_suppressed_recipient_is_a_dropped_event(application: Application) -> None:
    await application.listen("sendgrid")
    await suppress(application.drop_in.engine.database, "ada@example.com")
    await send(application)
    await application.deliver()
    [request] = await application.dispatch()
    [event] = request.json()
    assert (event["event"], event["reason"]) == ("dropped", "Unsubscribed Address")


async def test_test_event_is_one_of_sendgrid(application: Application) -> None:
    endpoint, key = await application.listen("sendgrid")
    await application.deliveries.create_test(endpoint, actor="test")
    [request] = await application.dispatch()
    assert is_verified(request, key)
    assert [(each["event"], each["email"]) for each in json.loads(request.body)] == [("delivered", "test@example.com")]


async def test_replaced_key_verifies_nothing(application: Application) -> None:
    endpoint, old = await application.listen("sendgrid")
    endpoint, new = await application.endpoints.rotate(endpoint.webhook_id, tenant_id=None, actor="test")
    await application.deliveries.create_test(endpoint, actor="test")
    [request] = await application.dispatch()
    assert (is_verified(request, old), is_verified(request, new)) == (False, True)
