"""Verify webhooks with a shared secret: signatures of Svix, and secrets in the Authorization header."""

import hmac
from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.inbound.rejected_events import ForgedEvent, StaleEvent

MAX_CLOCK_SKEW: Final[Instant] = 10 * MINUTE
# Svix signs each retry again.
SVIX_MAX_AGE: Final[Instant] = 10 * MINUTE
MIN_SECRET_LENGTH: Final = 16


class SvixSignature:
    """Verifies requests that Svix signs, over the id, the time and the exact body."""

    def __init__(self, secret: str, clock: Clock) -> None:
        try:
            self._key = b64decode(secret.strip().removeprefix("whsec_"), validate=True)
        except ValueError as error:
            raise ConfigurationInvalid(
                lazy_gettext("must be the signing secret of the webhook, which begins with whsec_")
            ) from error
        if not self._key:
            raise ConfigurationInvalid(
                lazy_gettext("must be the signing secret of the webhook, which begins with whsec_")
            )
        self._clock = clock

    def check(self, headers: Mapping[str, str], body: bytes) -> str:
        """Check the request and return its id, which retries share."""
        identifier, timestamp = headers.get("svix-id", ""), headers.get("svix-timestamp", "")
        signed = f"{identifier}.{timestamp}.".encode("utf-8", "replace") + body
        expected = hmac.digest(self._key, signed, "sha256")
        if not identifier or not any(
            hmac.compare_digest(expected, each) for each in _svix_signatures(headers.get("svix-signature", ""))
        ):
            raise ForgedEvent
        require_recent(timestamp, self._clock.now(), SVIX_MAX_AGE)
        return identifier


def _svix_signatures(header: str) -> list[bytes]:
    found = []
    for part in header.split():
        version, _, text = part.partition(",")
        try:
            found.append(b64decode(text, validate=True) if version == "v1" else b"")
        except ValueError:
            continue
    return found


class SharedSecret:
    """Verifies a secret in the Authorization header: as a bearer token, or as the password of basic authentication."""

    def __init__(self, secret: str) -> None:
        if len(secret.strip()) < MIN_SECRET_LENGTH or not secret.isascii():
            raise ConfigurationInvalid(
                lazy_gettext(
                    "must have at least {min_secret_length} ASCII characters", min_secret_length=MIN_SECRET_LENGTH
                )
            )
        self._secret = secret.strip().encode()

    def check(self, headers: Mapping[str, str]) -> None:
        scheme, _, value = headers.get("authorization", "").partition(" ")
        given = value.strip().encode("utf-8", "replace")
        if scheme.lower() == "basic":
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError as error:
                raise ForgedEvent("The Authorization header is invalid.") from error
        elif scheme.lower() != "bearer":
            raise ForgedEvent("The Authorization header is missing.")
        if not hmac.compare_digest(self._secret, given):
            raise ForgedEvent("The secret is wrong.")


def require_recent(timestamp: str, now: Instant, max_age: Instant, *, max_ahead: Instant = MAX_CLOCK_SKEW) -> None:
    """Require a Unix time that is not older than `max_age`, nor in the future by more than `max_ahead`."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        raise ForgedEvent("The time of the signature is missing or invalid.")
    if not -max_ahead <= now - int(timestamp) * SECOND <= max_age:
        raise StaleEvent
