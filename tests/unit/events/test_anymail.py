"""django-anymail and Mailwright understand the same provider events alike."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mailwright.domain.states import EventType
from tests.unit.events.test_vendor_events import (
    ADA,
    brevo_event,
    mailgun_data,
    mailjet_event,
    parsed,
    postmark_event,
    resend_event,
    sparkpost_event,
)

pytest.importorskip("anymail", reason="django-anymail is not installed")

from anymail.webhooks.brevo import BrevoTrackingWebhookView
from anymail.webhooks.mailgun import MailgunTrackingWebhookView
from anymail.webhooks.mailjet import MailjetTrackingWebhookView
from anymail.webhooks.postmark import PostmarkTrackingWebhookView
from anymail.webhooks.resend import ResendTrackingWebhookView
from anymail.webhooks.sparkpost import SparkPostTrackingWebhookView

# Our meaning by anymail's; None is accepted and ignored.
MEANINGS: dict[str, EventType | None] = {
    "queued": EventType.ACCEPTED,
    "sent": EventType.ACCEPTED,
    "delivered": EventType.DELIVERED,
    "deferred": EventType.DEFERRED,
    "bounced": EventType.BOUNCED,
    "rejected": EventType.BOUNCED,
    "failed": EventType.BOUNCED,
    "complained": EventType.COMPLAINED,
    "opened": EventType.OPENED,
    "clicked": EventType.CLICKED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "subscribed": None,
    "autoresponded": None,
    "inbound_failed": None,
}
# Where we disagree, on purpose: types of Postmark's bounces.
OWN_MEANINGS: dict[str, EventType | None] = {
    "DnsError": EventType.BOUNCED,  # Postmark has given up.
    "ManuallyDeactivated": EventType.UNSUBSCRIBED,  # A person decided it.
    "OpenRelayTest": None,
    "SpamNotification": EventType.BOUNCED,  # A filter took it for spam; the recipient has not complained.
    "Unknown": EventType.BOUNCED,
}


def cases() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield vendor, name of the event, payload and what anymail reads in it. Signatures are no part of this."""
    brevo, mailgun, mailjet, postmark, resend, sparkpost = (
        view.__new__(view)
        for view in (
            BrevoTrackingWebhookView,
            MailgunTrackingWebhookView,
            MailjetTrackingWebhookView,
            PostmarkTrackingWebhookView,
            ResendTrackingWebhookView,
            SparkPostTrackingWebhookView,
        )
    )
    for name in brevo.event_types:
        event = brevo_event(name, **{"X-Mailin-custom": None})
        yield "brevo", name, event, brevo.esp_to_anymail_event(event)
    for name in mailgun.event_types:
        data = mailgun_data(name)
        yield "mailgun", name, data, mailgun.esp_to_anymail_event({"event-data": data})
    for name in resend.event_types:
        event = resend_event(name)
        yield "resend", name, event, resend.esp_to_anymail_event(event, SimpleNamespace(headers={}))
    mailjet_events = [mailjet_event(name) for name in mailjet.event_types]
    mailjet_events += [mailjet_event("bounce", error=error) for error in mailjet.reject_reasons]
    for event in mailjet_events:
        yield "mailjet", event["event"], event, mailjet.esp_to_anymail_event(event)
    sparkpost_events = [sparkpost_event(name) for name in sparkpost.event_types]
    sparkpost_events += [sparkpost_event("bounce", bounce_class=number) for number in sparkpost.reject_reasons]
    for event in sparkpost_events:
        group, content, _ = sparkpost.unwrap_event(event)
        yield "sparkpost", content["type"], event, sparkpost.esp_to_anymail_event(group, content, event)
    for name in postmark.event_types:
        event = postmark_event("Bounce", Type=name)
        yield "postmark", name, event, postmark.esp_to_anymail_event(event)
    for name in postmark.event_record_types.keys() - {"Bounce", "Inbound"}:
        event = postmark_event(name, SuppressSending=True, SuppressionReason="ManualSuppression")
        yield "postmark", name, event, postmark.esp_to_anymail_event(event)


@pytest.mark.promise("report-once")
def test_anymail_reads_the_same_events_alike() -> None:
    for vendor, name, event, theirs in cases():
        ours = parsed(vendor, event)
        wanted = OWN_MEANINGS[name] if name in OWN_MEANINGS else MEANINGS[theirs.event_type]
        assert not ours.skipped, (vendor, name)
        assert [each.type for each in ours.reports] == ([] if wanted is None else [wanted]), (vendor, name)
        assert theirs.recipient == ADA
        assert {each.recipient for each in ours.reports} <= {ADA}
