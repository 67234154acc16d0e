"""Verify DKIM signatures with dkimpy, whose Ed25519 comes from `cryptography` here."""

from base64 import b64decode
from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import patch

import dkim
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519


class _VerifyKey:
    """The part of PyNaCl that dkimpy uses, implemented with `cryptography`."""

    def __init__(self, key: bytes, encoder: object) -> None:
        self._key = ed25519.Ed25519PublicKey.from_public_bytes(b64decode(key))

    def verify(self, digest: bytes, signature: bytes) -> bytes:
        self._key.verify(signature, digest)
        return digest


_NACL = SimpleNamespace(
    signing=SimpleNamespace(VerifyKey=_VerifyKey),
    encoding=SimpleNamespace(Base64Encoder=None),
    exceptions=SimpleNamespace(BadSignatureError=InvalidSignature, ValueError=ValueError),
)


def is_signed(content: bytes, find_record: Callable[[str], str | None], index: int = 0) -> bool:
    """Return whether the signature at this position is valid. `find_record` returns the TXT record of a name."""

    def look_up(name: bytes, **_: object) -> bytes | None:
        record = find_record(name.decode().rstrip("."))  # dkimpy asks with and without the final dot.
        return None if record is None else record.encode()

    with patch.object(dkim, "nacl", _NACL, create=True):
        try:
            return bool(dkim.DKIM(content).verify(idx=index, dnsfunc=look_up))
        except dkim.DKIMException:
            return False
