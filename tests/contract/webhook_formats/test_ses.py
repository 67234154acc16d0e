"""The format `ses`: envelopes that verifiers of SNS accept, and documents that readers of SES events read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx
import pytest
from anymail.webhooks.amazon_ses import AmazonSESTrackingWebhookView
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from django.test import override_settings

from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED
from mailwright.providers.inbound.rejected_events import ForgedEvent
from mailwright.providers.ses.sns import parse_envelope
from mailwright.providers.ses.sns_certificate import SnsCertificate
from tests.builders import suppress
from tests.standins.http import Request
from tests.webhook_formats import BROWSER, REPORTED, Application, anymail_events, in_thread

pytestmark = pytest.mark.filterwarnings("ignore:Your Anymail webhooks are insecure")
EXAMPLES = Path(__file__).parents[4] / "shared/fixtures/ses/events"


async def send(application: Application, *to: str) -> str:
    """Send with AWS' SDK, and return the ID that the application got."""
    pair = await application.drop_in.engine.keys.issue(1, signs=True)
    client = boto3.client(
        "sesv2",
        endpoint_url=application.drop_in.url,
        region_name="eu-west-1",
        aws_access_key_id=pair.access_key_id,
        aws_secret_access_key=pair.key,
    )
    headers = [{"Name": "X-Tag", "Value": "orders"}, {"Name": "X-Metadata", "Value": json.dumps({"order": "7"})}]
    content = {"Subject": {"Data": "Order"}, "Body": {"Text": {"Data": "Sent."}}, "Headers": headers}
    reply = await in_thread(
        lambda: client.send_email(
            FromEmailAddress="shop@example.com",
            Destination={"ToAddresses": list(to)},
            Content={"Simple": content},
            EmailTags=[{"Name": "order", "Value": "7"}],
            ConfigurationSetName="shop",
        )
    )
    return str(reply["MessageId"])


async def verify(application: Application, request: Request) -> None:
    """Verify a request as receivers do, with code that is tested with real envelopes of SNS."""
    envelope = parse_envelope(request.body)
    async with httpx.AsyncClient() as client:
        certificate = await client.get(envelope.certificate_url)
    now = application.clock.now()
    SnsCertificate(certificate.content).check_signature(
        envelope.signature, envelope.signed_text, version=envelope.version, now=now
    )


def documents(requests: list[Request]) -> list[dict[str, Any]]:
    envelopes = [each.json() for each in requests]
    return [json.loads(each["Message"]) for each in envelopes if each["Type"] == "Notification"]


async def test_events_are_signed_and_read_by_django_anymail(application: Application) -> None:
    endpoint, _ = await application.listen("ses")
    identity = await send(application, "ada@example.com")
    await application.deliver()
    await application.report(*REPORTED)
    application.receiver.view = AmazonSESTrackingWebhookView.as_view()
    with override_settings(ANYMAIL_AMAZON_SES_AUTO_CONFIRM_SNS_SUBSCRIPTIONS=False), anymail_events() as read:
        requests = await application.dispatch()
    assert sorted(each.json()["Type"] for each in requests) == ["Notification"] * 8 + ["SubscriptionConfirmation"]
    for request in requests:
        await verify(application, request)
    # The others are delays and unsubscribes, which django-anymail does not know.
    assert sorted(each.event_type for each in read) == [
        *("bounced", "clicked", "complained", "delivered", "opened", "sent", "unknown", "unknown")
    ]
    assert {
        (each.message_id, each.recipient, each.metadata["order"], *each.tags) for each in read if each.recipient
    } == {(identity, "ada@example.com", "7", "orders")}
    clicked = next(each for each in read if each.event_type == "clicked")
    assert (clicked.click_url, clicked.user_agent) == ("https://shop.example/order", BROWSER)
    assert {
        (*each["mail"]["tags"]["order"], *each["mail"]["tags"]["ses:configuration-set"]) for each in documents(requests)
    } == {("7", "shop")}
    found = await application.deliveries.list_deliveries(endpoint, limit=20)
    assert {(each.status, each.attempts) for each in found} == {(DELIVERED, 1)}


async def test_changed_envelope_is_not_verified(application: Application) -> None:
    await application.listen("ses")
    [request] = await application.dispatch()
    request = replace(request, body=request.body.replace(b"You have chosen", b"You had chosen "))
    with pytest.raises(ForgedEvent):
        await verify(application, request)


async def test_subscription_is_confirmed_by_its_url_and_by_the_sdk(application: Application) -> None:
    await application.listen("ses")
    [request] = await application.dispatch()
    envelope = request.json()
    async with httpx.AsyncClient() as client:
        page = await client.get(envelope["SubscribeURL"])
        refused = await client.get(envelope["SubscribeURL"].replace("Token=", "Token=0"))
    assert (page.status_code, refused.status_code) == (200, 400)
    given = parse_qs(urlsplit(envelope["SubscribeURL"]).query)
    assert given["Token"] == [envelope["Token"]]
    sns = boto3.client(
        "sns",
        endpoint_url=f"{application.drop_in.url}/sns/",
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED),
    )
    confirmed = await in_thread(
        lambda: sns.confirm_subscription(TopicArn=envelope["TopicArn"], Token=envelope["Token"])
    )
    assert confirmed["SubscriptionArn"].startswith(envelope["TopicArn"])
    for topic, token in ((envelope["TopicArn"], "0"), ("arn:aws:sns:us-east-1:000000000000:other", "0")):
        with pytest.raises(ClientError, match="InvalidParameter"):
            await in_thread(lambda topic=topic, token=token: sns.confirm_subscription(TopicArn=topic, Token=token))


async def test_replaced_certificate_has_a_new_url(application: Application) -> None:
    endpoint, _ = await application.listen("ses")
    [first] = await application.dispatch()
    endpoint, _ = await application.endpoints.rotate(endpoint.webhook_id, tenant_id=None, actor="test")
    await application.deliveries.create_test(endpoint, actor="test")
    [second] = await application.dispatch()
    await verify(application, second)
    old, new = (each.json()["SigningCertURL"] for each in (first, second))
    assert old != new
    async with httpx.AsyncClient() as client:
        assert (await client.get(old)).status_code == 404
    other, _ = await application.listen("mailgun")
    async with httpx.AsyncClient() as client:
        assert (await client.get(new.replace(endpoint.webhook_id, other.webhook_id))).status_code == 404


async def test_suppressed_recipient_is_a_bounce(application: Application) -> None:
    await application.listen("ses", EventType.FAILED)
    await suppress(application.drop_in.engine.database, "ada@example.com")
    identity = await send(application, "ada@example.com")
    await application.deliver()
    [event] = documents(await application.dispatch())
    assert (event["eventType"], event["mail"]["messageId"]) == ("Bounce", identity)
    assert (event["bounce"]["bounceType"], event["bounce"]["bounceSubType"]) == (
        "Permanent",
        "OnAccountSuppressionList",
    )


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples of Amazon are not here")
async def test_fields_are_those_of_amazons_examples(application: Application) -> None:
    await application.listen("ses")
    await send(application, "ada@example.com")
    await application.deliver()
    await application.report(*REPORTED)
    examples = [json.loads(each.read_text()) for each in EXAMPLES.glob("*.json")]
    by_type = {each["eventType"]: each for each in examples if "eventType" in each}
    found = documents(await application.dispatch())
    assert len(found) == 8
    for event in found:
        example = by_type[event["eventType"]]
        assert set(event) == set(example)
        for name in event:
            assert set(event[name]) - set(example[name]) <= {"headers", "commonHeaders"}
