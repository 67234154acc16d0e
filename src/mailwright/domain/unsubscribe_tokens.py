"""Signed tokens with an email address and a list, for unsubscribe, resubscribe and confirmation links."""

import binascii
import hmac
import json
import re
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import NamedTuple

from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.domain.signing import Signer, decode, encode, encode_parts

# The list key of sources without a list. It represents all bulk email.
GENERAL = "general"

# The default tenant. Its links are signed with the secret itself and do not contain the tenant.
FIRST_TENANT = 1

# Far longer than the longest address and list key need. Longer texts are rejected before any computation.
MAX_TOKEN_LENGTH = 4096

_ENCODED = re.compile(r"[A-Za-z0-9_-]+")


class InvalidToken(MailwrightError):
    """This link is invalid: it is incomplete or was changed."""

    code = "INVALID_TOKEN"


class TokenPayload(NamedTuple):
    email: str
    list_key: str


class UnsubscribeTokens:
    """Create tokens with one secret, and accept retired secrets so that links in old messages keep working."""

    def __init__(self, secret: str, *retired: str) -> None:
        if not all((secret, *retired)):
            raise ConfigurationInvalid("the secret for unsubscribe links is empty")
        self._secrets = [value.encode() for value in (secret, *retired)]
        self._signers = [Signer(value) for value in self._secrets]
        self._derived: dict[str, UnsubscribeTokens] = {}

    def for_tenant(self, tenant_id: int) -> "UnsubscribeTokens":
        """Return the tokens of one tenant; they are invalid for every other tenant."""
        return self if tenant_id == FIRST_TENANT else self._for(f"unsubscribe tokens of tenant {tenant_id}")

    def for_resubscribe(self) -> "UnsubscribeTokens":
        """Return the tokens that only undo an unsubscribe."""
        return self._for("tokens to return")

    def for_test(self) -> "UnsubscribeTokens":
        """Return the tokens of test emails, whose links show what they would change, and change nothing."""
        return self._for("tokens of test emails")

    def for_confirmation(self, *, with_consent: bool = False) -> "UnsubscribeTokens":
        """Return the tokens that only confirm a subscription, or also the consent to tracking."""
        return self._for("tokens to confirm with consent" if with_consent else "tokens to confirm")

    def make(self, email: str, list_key: str = GENERAL) -> str:
        """Create the token for an email address and a list; the same input gives the same token."""
        payload = _payload(email, list_key)
        return encode_parts(payload, self._signers[0].sign(payload))

    def parse(self, token: str) -> TokenPayload:
        """Verify a token. The signature covers the payload's own bytes, so that spacing and order of its JSON are free.

        Only the canonical base64 of both parts is accepted. The payload may have its padding, which Node accepts too.
        """
        payload, signature = _parts(token)
        # Try every secret, so that the time taken does not reveal which one matched.
        matches = [hmac.compare_digest(signer.sign(payload), signature) for signer in self._signers]
        if not any(matches):
            raise InvalidToken
        content = _read(payload)
        if encode_parts(payload, signature) != _without_padding(token):
            raise InvalidToken
        return content

    def _for(self, purpose: str) -> "UnsubscribeTokens":
        """Derive tokens with separate secrets for a purpose.

        Changing the text of a purpose invalidates links that were sent. A purpose never looks like a payload, so that
        no signature equals a derived secret.
        """
        if purpose not in self._derived:
            secrets = [hmac.digest(value, purpose.encode(), "sha256").hex() for value in self._secrets]
            self._derived[purpose] = UnsubscribeTokens(*secrets)
        return self._derived[purpose]


def parse_amazonsender_token(token: str, secrets: Sequence[str]) -> TokenPayload:
    """Verify a token of AmazonSender (an address and its signature), for links in emails that AmazonSender sent.

    AmazonSender signs the encoded address, and Mailwright signs JSON, so no token is valid in both formats.
    """
    given = token.partition(".")[0]
    payload, _, signature = _without_padding(token).partition(".")
    if len(token) > MAX_TOKEN_LENGTH or not token.isascii() or not _ENCODED.fullmatch(payload):
        raise InvalidToken
    signed = [
        encode(hmac.digest(secret.encode(), text.encode(), "sha256")) for secret in secrets for text in (payload, given)
    ]
    # Try every secret, so that the time taken does not reveal which one matched.
    matches = [hmac.compare_digest(each, signature) for each in signed]
    if not any(matches):
        raise InvalidToken
    try:
        return TokenPayload(decode(payload).decode(), GENERAL)
    except ValueError as error:
        raise InvalidToken from error


def unsubscribe_link(page: str, token: str, tenant: str | None = None, message: str | None = None) -> str:
    """Build the link. It contains the tenant, unless it is the default tenant, and the message that contains the link.

    The message is not signed, because it only attributes the unsubscribe to one of the address's own messages.
    """
    link = f"{page}?token={token}" if tenant is None else f"{page}?token={token}&tenant={tenant}"
    return link if message is None else f"{link}&message={message}"


def _payload(email: str, list_key: str) -> bytes:
    return f'{{"email":{encode_basestring(email)},"list_key":{encode_basestring(list_key)}}}'.encode()


def _without_padding(token: str) -> str:
    """Remove the padding of the payload if it is complete. Any other padding stays, and makes the token invalid."""
    payload, dot, signature = token.partition(".")
    bare = payload.rstrip("=")
    return f"{bare}{dot}{signature}" if payload == bare + "=" * (-len(bare) % 4) else token


def _parts(token: str) -> tuple[bytes, bytes]:
    payload, dot, signature = token.partition(".")
    if not dot or len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        raise InvalidToken
    try:
        return decode(payload), decode(signature)
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
