"""The formats of outgoing webhooks, by the name that an endpoint has."""

from collections.abc import Mapping
from typing import Final

from mailwright.events.outbound.formats.mailgun import MailgunFormat
from mailwright.events.outbound.formats.mailwright import MailwrightFormat
from mailwright.events.outbound.formats.postmark import PostmarkFormat
from mailwright.events.outbound.formats.resend import ResendFormat
from mailwright.events.outbound.formats.sendgrid import SendGridFormat
from mailwright.events.outbound.formats.ses import SesFormat
from mailwright.events.outbound.formats.standard import StandardFormat
from mailwright.events.outbound.formats.webhook_format import WebhookFormat

FORMATS: Final[Mapping[str, WebhookFormat]] = {
    each.name: each
    for each in (
        MailwrightFormat(),
        StandardFormat(),
        SendGridFormat(),
        MailgunFormat(),
        PostmarkFormat(),
        ResendFormat(),
        SesFormat(),
    )
}
