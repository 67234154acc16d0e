"""Mail over SMTP: pooled, pipelined connections, and results that tell apart what left from what did not."""

from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts, Tls
from mailwright.providers.smtp.url import parse_smtp_url

__all__ = ["Smtp", "SmtpSettings", "Timeouts", "Tls", "parse_smtp_url"]
