"""Sign emails with DKIM. An RSA signature takes milliseconds, so call this in a thread.

`cryptography` releases the GIL while it signs, and calls share no mutable state.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from mailwright.domain.clock import Instant

if TYPE_CHECKING:
    from mailwright.content.dkim_key import DkimKey  # takes 8 MB that only signing needs

# The signature lists each of these one time more than it occurs, so that a header added in transit breaks the
# signature.
OVERSIGNED = (b"from", b"to", b"cc", b"subject", b"date", b"reply-to", b"mime-version", b"content-type")
# Mailbox providers honour one-click unsubscribe only if both of its headers are signed.
SIGNED = (
    *OVERSIGNED,
    b"message-id",
    b"content-transfer-encoding",
    b"list-unsubscribe",
    b"list-unsubscribe-post",
    b"list-id",
    b"feedback-id",
    b"auto-submitted",
    b"in-reply-to",
    b"references",
    b"x-mailwright-message",
)


class DkimSigner:
    """Signs with every key, because some receivers support only RSA and not Ed25519."""

    def __init__(self, keys: "Sequence[DkimKey]") -> None:
        self._keys = tuple(keys)

    def sign(self, content: bytes, now: Instant) -> bytes:
        """Prepend one signature header per key, with relaxed canonicalization: white space may change in transit."""
        head, _, body = content.partition(b"\r\n\r\n")
        fields = _relaxed_fields(head)
        names = _signed_names(fields)
        body_hash = b64encode(sha256(relaxed_body(body)).digest()).decode()
        signatures = [_signature_header(key, fields, names, body_hash, now) for key in self._keys]
        return b"".join([*signatures, content])


def relaxed_body(body: bytes) -> bytes:
    """Canonicalize a body (RFC 6376, 3.4.4): collapse white space, remove it at line ends, drop empty last lines."""
    if b"\t" in body or b"  " in body:
        body = _BLANKS.sub(b" ", body)
    if b" \r\n" in body:
        body = body.replace(b" \r\n", b"\r\n")
    body = body.rstrip(b" \r\n")
    return body + b"\r\n" if body else b""


_BLANKS = re.compile(rb"[ \t]+")
_FIELD_START = re.compile(rb"\r\n(?![ \t])")


def _relaxed_fields(head: bytes) -> list[tuple[bytes, bytes]]:
    """Return the name and canonical line of every header, in order."""
    fields = []
    for line in _FIELD_START.split(head):
        name, _, value = line.partition(b":")
        name = name.strip().lower()
        fields.append((name, name + b":" + b" ".join(value.split())))
    return fields


def _signed_names(fields: list[tuple[bytes, bytes]]) -> list[bytes]:
    present = [name for name, _ in fields if name in SIGNED]
    return [*present, *OVERSIGNED]


def _signature_header(
    key: "DkimKey", fields: list[tuple[bytes, bytes]], names: list[bytes], body_hash: str, now: Instant
) -> bytes:
    listed = b":\r\n  ".join(names).decode()
    tags = (
        f"v=1; a={key.algorithm}; c=relaxed/relaxed;\r\n d={key.domain}; s={key.selector};\r\n"
        f" t={now // 1000}; h={listed};\r\n bh={body_hash};\r\n b="
    )
    unsigned = b"dkim-signature:" + b" ".join(tags.encode().split())
    digested = b"\r\n".join([*_signed_lines(fields, names), unsigned])
    signature = b64encode(key.signature(digested)).decode()
    wrapped = "\r\n  ".join([signature[start : start + 72] for start in range(0, len(signature), 72)])
    return f"DKIM-Signature: {tags}{wrapped}\r\n".encode()


def _signed_lines(fields: list[tuple[bytes, bytes]], names: list[bytes]) -> list[bytes]:
    """Return the lines to sign. Headers with the same name are taken from last to first; missing ones are skipped."""
    waiting: dict[bytes, list[bytes]] = {}
    for name, line in fields:
        waiting.setdefault(name, []).append(line)
    return [waiting[name].pop() for name in names if waiting.get(name)]
