"""An email backend for Django: every email of the application goes through Mailwright unchanged.

    EMAIL_BACKEND = "mailwright_client.django.EmailBackend"
    MAILWRIGHT_URL = "https://mail.example.com"
    MAILWRIGHT_API_KEY = "mw_…"

In Django 6.1 and later, `MAILERS` takes the same values as `OPTIONS`: `{"url": …, "api_key": …}`.
"""

import threading
from collections.abc import Sequence
from email import policy
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from mailwright_client.client import TIMEOUT_SECONDS, Client
from mailwright_client.errors import MailwrightError

# The API accepts this many recipients in one request.
MAX_RECIPIENTS = 100


class EmailBackend(BaseEmailBackend):  # type: ignore[misc]
    """Sends the MIME of each email. Headers such as `X-Mailwright-Tags` carry options."""

    def __init__(
        self,
        fail_silently: bool = False,
        *,
        url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.fail_silently = fail_silently  # Since Django 6.1, the base class refuses it.
        self._url = url or _setting("MAILWRIGHT_URL")
        self._api_key = api_key or _setting("MAILWRIGHT_API_KEY")
        self._timeout = timeout or getattr(settings, "EMAIL_TIMEOUT", None) or TIMEOUT_SECONDS
        self._client: Client | None = None
        self._lock = threading.RLock()

    def open(self) -> bool:
        """Return whether this call opened the client, so that the caller has to close it."""
        with self._lock:
            if self._client is not None:
                return False
            self._client = Client(self._url, self._api_key, timeout_seconds=self._timeout)
            return True

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Return how many emails Mailwright has stored. Each is sent with retries, and once."""
        with self._lock:
            is_new = self.open()
            try:
                return sum([self._send(email) for email in email_messages])
            finally:
                if is_new:
                    self.close()

    def _send(self, email: EmailMessage) -> bool:
        recipients = [parseaddr(recipient)[1] for recipient in email.recipients()]
        if not recipients or self._client is None:
            return False
        sender, content = parseaddr(email.from_email)[1] or None, _mime(email)
        try:
            for start in range(0, len(recipients), MAX_RECIPIENTS):
                to = recipients[start : start + MAX_RECIPIENTS]
                self._client.email.send_raw(content, from_=sender, to=to, idempotency_key=_message_id(content))
        except MailwrightError:
            if not self.fail_silently:
                raise
            return False
        return True


def _setting(name: str) -> str:
    value = getattr(settings, name, None)
    if not value:
        raise ImproperlyConfigured(f"Set {name} in the settings of Django, or pass it to the backend.")
    return str(value)


def _message_id(content: bytes) -> str | None:
    """Return the Message-ID. Mailwright accepts an email with the same Message-ID only once."""
    found = BytesHeaderParser().parsebytes(content)["Message-ID"]
    return str(found).strip()[:255] or None if found is not None else None


def _mime(email: EmailMessage) -> bytes:
    try:
        return bytes(email.message(policy=policy.SMTP).as_bytes())
    except TypeError:  # Before Django 6, messages take the line end instead of a policy.
        return bytes(email.message().as_bytes(linesep="\r\n"))
