"""Links to a mail in the browser: signed for one message, so that nobody reads another's by guessing."""

import hmac
from base64 import urlsafe_b64encode

from mailwright.domain.ids import is_uuid
from mailwright.domain.unsubscribe_tokens import InvalidToken

PURPOSE = b"tokens to view a mail"
# Half of a SHA-256: nobody tries 2**128 links, and mails stay short.
SIGNATURE_BYTES = 16


class WebViewTokens:
    """Makes tokens with one secret and accepts those of retired secrets too: links in old mails keep working."""

    def __init__(self, secret: str, *retired: str) -> None:
        # A key of its own, made from the secret: no other kind of link can be mistaken for this one.
        self._keys = [hmac.digest(each.encode(), PURPOSE, "sha256") for each in (secret, *retired)]

    def make(self, outbox_id: str) -> str:
        return f"{outbox_id}.{_sign(self._keys[0], outbox_id)}"

    def parse(self, token: str) -> str:
        """The message's id. Only the canonical spelling is accepted."""
        outbox_id, _, signature = token.partition(".")
        if not token.isascii() or not is_uuid(outbox_id):
            raise InvalidToken
        # Every key is tried, so that the time taken does not tell which one signed.
        matches = [hmac.compare_digest(_sign(key, outbox_id), signature) for key in self._keys]
        if not any(matches):
            raise InvalidToken
        return outbox_id


def _sign(key: bytes, outbox_id: str) -> str:
    digest = hmac.digest(key, outbox_id.encode(), "sha256")[:SIGNATURE_BYTES]
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
