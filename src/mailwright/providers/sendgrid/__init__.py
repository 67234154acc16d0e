"""Send through SendGrid's v3 API: convert our MIME to SendGrid's JSON, and send one request per message."""

from mailwright.providers.sendgrid.provider import SendGrid, SendGridSettings

__all__ = ["SendGrid", "SendGridSettings"]
