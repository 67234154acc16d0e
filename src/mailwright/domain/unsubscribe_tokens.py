"""Unsubscribe tokens: who leaves which list, signed, so that a link works for years and cannot be made up."""

import binascii
import hmac
import json
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from hashlib import sha256
from json.encoder import encode_basestring
from typing import NamedTuple

from mailwright.domain.errors import ConfigurationInvalid, MailwrightError

# Stands for the contact as a whole, where a source names no list.
GENERAL = "general"

# The tenant that every installation begins with. Its links are signed with the secret itself and name no tenant.
FIRST_TENANT = 1

# Far above the longest address and list key; a longer text is refused before anything is computed from it.
MAX_TOKEN_LENGTH = 4096

_BLOCK = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class InvalidToken(MailwrightError):
    """This unsubscribe link is not one of ours, or it was cut or changed on its way."""

    code = "INVALID_TOKEN"


class TokenPayload(NamedTuple):
    email: str
    list_key: str


class _Signer:
    """HMAC-SHA256 (RFC 2104) with the key worked in once: half the time of `hmac.digest`, and unlike it this does not
    offer the interpreter to another thread for every mail."""

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


class UnsubscribeTokens:
    """Makes tokens with one secret and accepts those of retired secrets too: links in old mails keep working."""

    def __init__(self, secret: str, *retired: str) -> None:
        if not all((secret, *retired)):
            raise ConfigurationInvalid("the secret for unsubscribe links is empty")
        self._secrets = [each.encode() for each in (secret, *retired)]
        self._signers = [_Signer(each) for each in self._secrets]
        self._derived: dict[str, UnsubscribeTokens] = {}

    def for_tenant(self, tenant_id: int) -> "UnsubscribeTokens":
        """Each tenant's tokens are its own: one of them never acts in another tenant."""
        return self if tenant_id == FIRST_TENANT else self._for(f"unsubscribe tokens of tenant {tenant_id}")

    def for_resubscribe(self) -> "UnsubscribeTokens":
        """Tokens that undo a leaving: they never make anybody leave, and a token to leave never undoes."""
        return self._for("tokens to return")

    def for_confirmation(self) -> "UnsubscribeTokens":
        """Tokens that confirm a subscription, and do nothing else."""
        return self._for("tokens to confirm")

    def make(self, email: str, list_key: str = GENERAL) -> str:
        """The same email and list always give the same token."""
        payload = _payload(email, list_key)
        return f"{_encode(payload)}.{_encode(self._signers[0].sign(payload))}"

    def parse(self, token: str) -> TokenPayload:
        """Only the canonical spelling is accepted: a token has one form, so it can be counted and compared."""
        payload, signature = _parts(token)
        # Every secret is tried, so that the time taken does not tell which one signed.
        matches = [hmac.compare_digest(signer.sign(payload), signature) for signer in self._signers]
        if not any(matches):
            raise InvalidToken
        leaving = _read(payload)
        if _payload(*leaving) != payload or f"{_encode(payload)}.{_encode(signature)}" != token:
            raise InvalidToken
        return leaving

    def _for(self, purpose: str) -> "UnsubscribeTokens":
        """With secrets of their own, made from ours. No purpose reads like a payload: no signature is such a secret."""
        if purpose not in self._derived:
            secrets = [hmac.digest(each, purpose.encode(), "sha256").hex() for each in self._secrets]
            self._derived[purpose] = UnsubscribeTokens(*secrets)
        return self._derived[purpose]


def unsubscribe_link(page: str, token: str, tenant: str | None = None) -> str:
    """The name of the tenant goes along for every tenant but the first."""
    return f"{page}?token={token}" if tenant is None else f"{page}?token={token}&tenant={tenant}"


def _payload(email: str, list_key: str) -> bytes:
    return f'{{"email":{encode_basestring(email)},"list_key":{encode_basestring(list_key)}}}'.encode()


def _encode(data: bytes) -> str:
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _parts(token: str) -> tuple[bytes, bytes]:
    payload, dot, signature = token.partition(".")
    if not dot or len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        raise InvalidToken
    try:
        return _decode(payload), _decode(signature)
    except (binascii.Error, ValueError) as error:
        raise InvalidToken from error


def _read(payload: bytes) -> TokenPayload:
    try:
        content = json.loads(payload)
        email, list_key = content["email"], content["list_key"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidToken from error
    if not isinstance(email, str) or not isinstance(list_key, str):
        raise InvalidToken
    return TokenPayload(email, list_key)
