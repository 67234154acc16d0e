"""Send through SendGrid's v3 API: our MIME is converted to its JSON, one request per message."""

from mailwright.providers.sendgrid.provider import SendGrid, SendGridSettings

__all__ = ["SendGrid", "SendGridSettings"]
