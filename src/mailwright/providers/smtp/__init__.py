"""Send over SMTP with pooled, pipelined connections. Every result shows whether the server may have the message."""

from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.settings import SmtpAuth, SmtpSettings, Timeouts, Tls
from mailwright.providers.smtp.url import parse_smtp_url

__all__ = ["Smtp", "SmtpAuth", "SmtpSettings", "Timeouts", "Tls", "parse_smtp_url"]
