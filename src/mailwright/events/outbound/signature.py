"""Signatures: whoever has the secret can tell that a request is ours, whole, and not an old one sent again."""

import hmac
import secrets
from collections.abc import Iterable
from typing import Final

SIGNATURE_HEADER: Final = "Mailwright-Signature"
ID_HEADER: Final = "Mailwright-Delivery"
# What it begins with says what it is, wherever it turns up.
PREFIX: Final = "whsec_"


def make_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over the seconds since 1970, a full stop and the body, in hexadecimal digits."""
    return hmac.digest(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hex()


def signature_header(keys: Iterable[str], timestamp: int, body: bytes) -> str:
    """`t=1800000000,v1=…`, with one `v1` for each secret: while one replaces another, either is enough."""
    return ",".join([f"t={timestamp}", *(f"v1={sign(each, timestamp, body)}" for each in keys)])
