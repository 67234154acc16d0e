"""Verify the signature of SendGrid webhooks over the raw body. Imported only if a key is configured."""

from base64 import b64decode
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.inbound.rejected_events import ForgedEvent, StaleEvent

# Maximum age of a timestamp. SendGrid retries for a day and may keep the first timestamp. A long time is safe, because
# a repeated event changes nothing.
MAX_AGE: Instant = 25 * HOUR
MAX_CLOCK_SKEW: Instant = 10 * MINUTE

SIGNATURE_HEADER = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP_HEADER = "X-Twilio-Email-Event-Webhook-Timestamp"


class SendGridSignature:
    """Verifies requests with the public key of a signed event webhook."""

    def __init__(self, public_key: str, clock: Clock) -> None:
        self._key = _load(public_key)
        self._clock = clock

    def check(self, headers: Mapping[str, str], body: bytes) -> None:
        timestamp = headers.get(TIMESTAMP_HEADER, "")
        if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
            raise ForgedEvent(f"{TIMESTAMP_HEADER} is missing or invalid.")
        if not -MAX_CLOCK_SKEW <= self._clock.now() - int(timestamp) * SECOND <= MAX_AGE:
            raise StaleEvent
        try:
            signature = b64decode(headers.get(SIGNATURE_HEADER, ""), validate=True)
            self._key.verify(signature, timestamp.encode() + body, ECDSA(SHA256()))
        except (ValueError, InvalidSignature) as error:
            raise ForgedEvent from error


def _load(public_key: str) -> EllipticCurvePublicKey:
    lines = [line for line in public_key.splitlines() if not line.startswith("-----")]
    try:
        key = load_der_public_key(b64decode("".join("".join(lines).split()), validate=True))
    except ValueError as error:
        raise ConfigurationInvalid(
            lazy_gettext("must be the base64 verification key of SendGrid's signed event webhook")
        ) from error
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ConfigurationInvalid(lazy_gettext("must be a P-256 key, the curve of SendGrid"))
    return key
