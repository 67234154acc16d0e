"""Signed tokens for viewing one message in the browser, so that links cannot be guessed."""

import hmac
from base64 import urlsafe_b64encode

from mailwright.domain.ids import is_uuid
from mailwright.domain.unsubscribe_tokens import InvalidToken

# Part of the key derivation: changing it invalidates every link that was sent.
PURPOSE = b"tokens to view a mail"
# Half of a SHA-256 digest. One of 2**128 values cannot be guessed, and the links stay short.
SIGNATURE_BYTES = 16


class WebViewTokens:
    """Create tokens with one secret, and accept retired secrets so that links in old messages keep working."""

    def __init__(self, secret: str, *retired: str) -> None:
        # Derive separate keys, so that a token of another kind is never valid here.
        self._keys = [hmac.digest(value.encode(), PURPOSE, "sha256") for value in (secret, *retired)]

    def make(self, outbox_id: str) -> str:
        return f"{outbox_id}.{_sign(self._keys[0], outbox_id)}"

    def parse(self, token: str) -> str:
        """Return the message id. Only the canonical spelling of a token is accepted."""
        outbox_id, _, signature = token.partition(".")
        if not token.isascii() or not is_uuid(outbox_id):
            raise InvalidToken
        # Try every key, so that the time taken does not reveal which one matched.
        matches = [hmac.compare_digest(_sign(key, outbox_id), signature) for key in self._keys]
        if not any(matches):
            raise InvalidToken
        return outbox_id


def _sign(key: bytes, outbox_id: str) -> str:
    digest = hmac.digest(key, outbox_id.encode(), "sha256")[:SIGNATURE_BYTES]
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
