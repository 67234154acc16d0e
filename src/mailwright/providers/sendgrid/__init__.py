"""Mail through SendGrid's v3 API: our own MIME is put into its words, one request a mail."""

from mailwright.providers.sendgrid.provider import SendGrid, SendGridSettings

__all__ = ["SendGrid", "SendGridSettings"]
