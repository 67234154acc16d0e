"""Signed tokens of tracked links and open pixels.

A token begins with the part that all recipients share (kind, day, campaign, link), which is signed when a template is
prepared. The recipient's part follows. It is the same for all links of a message, so that each message needs only one
signature. The token of a link that contains values of the recipient includes the URL instead.
"""

import binascii
import hmac
from collections.abc import Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.signing import Signer, decode, encode
from mailwright.domain.unsubscribe_tokens import InvalidToken

# A link works for at least a year after it was sent.
LIFETIME_DAYS: Final = 400
MAX_TOKEN_LENGTH: Final = 4_096

# Part of the key derivation: changing it invalidates every link that was sent.
_PURPOSE: Final = b"tokens to track a link"
_PURPOSE_OF_RECIPIENT: Final = b"tokens to track a recipient"
# The length of every part is a multiple of three bytes, so that the base64 texts of the parts can be joined. A
# signature of 72 bits cannot be guessed over HTTP.
_HEAD_BYTES: Final = 9
_LINK_BYTES: Final = 9
_SIGNATURE_BYTES: Final = 9
_UUID_BYTES: Final = 16
# Set in the first byte of a token without a recipient, so that removing the recipient makes a token invalid.
_ANONYMOUS: Final = 0x80
_RECIPIENT_SIGNATURE_BYTES: Final = 8
_RECIPIENT_BYTES: Final = _UUID_BYTES + _RECIPIENT_SIGNATURE_BYTES


class TokenKind(IntEnum):
    LINK = 1
    OPEN = 2
    PERSONAL_LINK = 3
    INVISIBLE_LINK = 4


@dataclass(frozen=True, slots=True)
class TrackingToken:
    """The content of a token. `outbox_id` is None in anonymous mode; `url` is set if the token contains the URL."""

    kind: TokenKind
    day: int
    campaign_key: int | None
    link_id: str | None = None
    outbox_id: str | None = None
    url: str | None = None


def day_of(time: Instant) -> int:
    return time // DAY


def link_id_of(tenant_id: int, url: str) -> str:
    """Return the ID of a link, which depends only on the tenant and the URL."""
    return encode(sha256(f"{tenant_id}\0{url}".encode()).digest()[:_LINK_BYTES])


class TrackingTokens:
    """Create tokens with one secret, and accept retired secrets so that links in old messages keep working."""

    def __init__(self, secret: str, *retired: str) -> None:
        secrets = [value.encode() for value in (secret, *retired)]
        self._signers = [Signer(hmac.digest(value, _PURPOSE, "sha256")) for value in secrets]
        self._recipient_signers = [Signer(hmac.digest(value, _PURPOSE_OF_RECIPIENT, "sha256")) for value in secrets]

    def link(self, day: int, campaign_key: int | None, link_id: str, *, is_anonymous: bool = False) -> str:
        """Return the shared part of a link's token."""
        return self._signed(_head(TokenKind.LINK, day, campaign_key, is_anonymous=is_anonymous) + decode(link_id))

    def open(self, day: int, campaign_key: int | None, *, is_anonymous: bool = False) -> str:
        """Return the shared part of the open pixel's token."""
        return self._signed(_head(TokenKind.OPEN, day, campaign_key, is_anonymous=is_anonymous))

    def invisible_link(self, day: int, campaign_key: int | None) -> str:
        """Return the shared part of the invisible link's token, which always identifies a recipient."""
        return self._signed(_head(TokenKind.INVISIBLE_LINK, day, campaign_key))

    def recipient(self, outbox_id: str) -> str:
        """Return the part that identifies the recipient's message."""
        identity = bytes.fromhex(outbox_id.replace("-", ""))
        return encode(identity + self._recipient_signers[0].sign(identity)[:_RECIPIENT_SIGNATURE_BYTES])

    def personal_link(self, day: int, campaign_key: int | None, outbox_id: str, url: str) -> str:
        """Return the whole token of a link that contains values of the recipient."""
        return self._signed(_head(TokenKind.PERSONAL_LINK, day, campaign_key) + UUID(outbox_id).bytes + url.encode())

    def parse(self, token: str, now: Instant) -> TrackingToken:
        """Verify a token; raise `InvalidToken` if it is forged, incomplete or expired."""
        if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
            raise InvalidToken
        try:
            content = decode(token)
            found = self._parse(content, TokenKind(content[0] & ~_ANONYMOUS))
        except (binascii.Error, IndexError, ValueError) as error:
            raise InvalidToken from error
        if not 0 <= day_of(now) - found.day + 1 <= LIFETIME_DAYS + 1:
            raise InvalidToken
        return found

    def _parse(self, content: bytes, kind: TokenKind) -> TrackingToken:
        day = int.from_bytes(content[1:3])
        campaign_key = int.from_bytes(content[3:_HEAD_BYTES]) or None
        if kind is TokenKind.PERSONAL_LINK:
            self._verify(content, len(content))
            start = _HEAD_BYTES + _UUID_BYTES
            outbox_id = str(UUID(bytes=content[_HEAD_BYTES:start]))
            return TrackingToken(kind, day, campaign_key, None, outbox_id, content[start:-_SIGNATURE_BYTES].decode())
        shared = _HEAD_BYTES + _SIGNATURE_BYTES + (_LINK_BYTES if kind is TokenKind.LINK else 0)
        self._verify(content, shared)
        link_id = encode(content[_HEAD_BYTES : _HEAD_BYTES + _LINK_BYTES]) if kind is TokenKind.LINK else None
        recipient = None if content[0] & _ANONYMOUS else self._parse_recipient(content[shared:])
        if recipient is None and len(content) != shared:
            raise InvalidToken
        return TrackingToken(kind, day, campaign_key, link_id, recipient)

    def _parse_recipient(self, part: bytes) -> str:
        if len(part) != _RECIPIENT_BYTES:
            raise InvalidToken
        _require_signature(self._recipient_signers, part[:_UUID_BYTES], part[_UUID_BYTES:])
        return str(UUID(bytes=part[:_UUID_BYTES]))

    def _verify(self, content: bytes, end: int) -> None:
        start = end - _SIGNATURE_BYTES
        if start < _HEAD_BYTES or len(content) < end:
            raise InvalidToken
        _require_signature(self._signers, content[:start], content[start:end])

    def _signed(self, payload: bytes) -> str:
        return encode(payload + self._signers[0].sign(payload)[:_SIGNATURE_BYTES])


def link_id_in(token: str) -> str | None:
    """Return the ID of the link in a token, without verifying it; None if the token names no stored link."""
    if not is_tracking_token(token):
        return None
    content = decode(token)
    if content[0] & ~_ANONYMOUS != TokenKind.LINK:
        return None
    return encode(content[_HEAD_BYTES : _HEAD_BYTES + _LINK_BYTES])


def is_tracking_token(text: str) -> bool:
    """Return whether a text has the form of a token, without checking its signature and age."""
    try:
        content = decode(text) if text.isascii() and len(text) <= MAX_TOKEN_LENGTH else b""
        kind = TokenKind(content[0] & ~_ANONYMOUS)
    except (binascii.Error, IndexError, ValueError):
        return False
    if kind is TokenKind.PERSONAL_LINK:
        return content[_HEAD_BYTES + _UUID_BYTES :].startswith((b"http://", b"https://"))
    shared = _HEAD_BYTES + _SIGNATURE_BYTES + (_LINK_BYTES if kind is TokenKind.LINK else 0)
    return len(content) == shared + (0 if content[0] & _ANONYMOUS else _RECIPIENT_BYTES)


def _head(kind: TokenKind, day: int, campaign_key: int | None, *, is_anonymous: bool = False) -> bytes:
    return bytes([kind | _ANONYMOUS if is_anonymous else kind]) + day.to_bytes(2) + (campaign_key or 0).to_bytes(6)


def _require_signature(signers: Sequence[Signer], payload: bytes, signature: bytes) -> None:
    # Try every secret, so that the time taken does not reveal which one matched.
    matches = [hmac.compare_digest(signer.sign(payload)[: len(signature)], signature) for signer in signers]
    if not any(matches):
        raise InvalidToken
