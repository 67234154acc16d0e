"""Verify the signature of Mailgun's webhooks."""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from mailwright.domain.clock import HOUR, SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.inbound.parsed_events import UsedSignature
from mailwright.providers.inbound.rejected_events import ForgedEvent
from mailwright.providers.inbound.webhook_secrets import MAX_CLOCK_SKEW, require_recent

# Mailgun retries for eight hours.
MAX_AGE: Final[Instant] = 9 * HOUR


class MailgunSignature:
    """Verifies the signature in the body, which covers only a time and a random token.

    A signature is therefore accepted for one body only, so that nobody can reuse it for another event.
    """

    def __init__(self, key: str, clock: Clock) -> None:
        if not key.strip():
            raise ConfigurationInvalid(lazy_gettext("must be the HTTP webhook signing key of Mailgun"))
        self._key = key.strip().encode()
        self._clock = clock

    def check(self, signature: Mapping[str, Any], body: bytes) -> UsedSignature:
        """Check the signature and return it. The caller makes sure that it was not used for another body."""
        timestamp, token, given = (signature.get(name) for name in ("timestamp", "token", "signature"))
        if not (isinstance(timestamp, str | int) and isinstance(token, str) and isinstance(given, str)):
            raise ForgedEvent("The body has no signature.")
        expected = hmac.digest(self._key, f"{timestamp}{token}".encode("utf-8", "replace"), "sha256").hex()
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            raise ForgedEvent
        require_recent(str(timestamp), self._clock.now(), MAX_AGE)
        # The clocks of several servers may differ.
        ends_at = int(timestamp) * SECOND + MAX_AGE + MAX_CLOCK_SKEW
        return UsedSignature(expected, sha256(body).hexdigest(), ends_at)
