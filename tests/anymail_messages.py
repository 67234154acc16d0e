"""An email as programs with Django and django-anymail write it."""

from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives


def configure_django() -> None:
    """Configure Django for all tests, because a process can do it only once."""
    if not settings.configured:
        settings.configure(EMAIL_BACKEND="mailwright_client.django.EmailBackend", DEFAULT_FROM_EMAIL="shop@example.com")


def a_django_message() -> Any:
    message = EmailMultiAlternatives(
        "Grüße",
        "Jäne",
        "Example News <news@example.com>",
        ["Jane Doe <jane@example.org>"],
        cc=["copy@example.com"],
        bcc=["hidden@example.com"],
        reply_to=["answers@example.com"],
        headers={"X-Campaign": "spring"},
    )
    message.attach_alternative("<p>Jäne</p>", "text/html")
    message.attach("bill.pdf", b"%PDF", "application/pdf")
    message.metadata = {"mailwright_message": "1"}  # type: ignore[attr-defined]
    message.track_clicks = False  # type: ignore[attr-defined]
    return message
