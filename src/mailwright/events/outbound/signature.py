"""Sign webhook requests, so that receivers can verify their origin, integrity and age."""

import hmac
import secrets
from collections.abc import Iterable
from typing import Final

SIGNATURE_HEADER: Final = "Mailwright-Signature"
ID_HEADER: Final = "Mailwright-Delivery"
# The prefix of secrets, so that secret scanners recognise leaked ones.
PREFIX: Final = "whsec_"


def make_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the hexadecimal HMAC-SHA256 of the Unix time, a full stop and the body."""
    return hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hex()


def signature_header(keys: Iterable[str], timestamp: int, body: bytes) -> str:
    """Return `t=1800000000,v1=…` with one `v1` per secret, so that either secret verifies during a rotation."""
    return ",".join([f"t={timestamp}", *(f"v1={sign(key, timestamp, body)}" for key in keys)])
