"""Convert a message to bytes on the wire, and reject unsafe addresses and content."""

import re
from io import IncrementalNewlineDecoder

from mailwright.domain.address import MAX_LENGTH, mask
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.smtp.responses import INVALID_ADDRESS, INVALID_CONTENT

# Each of these characters could end the address or the line in MAIL FROM:<…> and begin another command. Surrogates
# cannot be encoded.
_PLAIN = re.compile("[!-;=?-~]{1,254}")  # Matches nearly every address, which saves the search for unsafe characters.
_UNSAFE = re.compile("[\x00-\x20\x7f-\xa0<>\u2028\u2029\ud800-\udfff]")

END = b".\r\n"


def find_problem(message: OutgoingMessage) -> SendResult | None:
    """Return why a message must not be sent to any server; None if it may be sent."""
    if not message.recipients or not all(message.recipients):
        return INVALID_ADDRESS.result("the message has no recipient, or a recipient is empty")
    for address in (message.sender, *message.recipients):
        if not _PLAIN.fullmatch(address) and (_UNSAFE.search(address) or len(address) > MAX_LENGTH):
            return INVALID_ADDRESS.result(f"the address {mask(address)!r} cannot be used in an SMTP command")
    if not message.is_canonical and not is_clean(message.content):
        return INVALID_CONTENT.result("the content is empty, or has a NUL or a CR or LF outside a CRLF pair")
    return None


def is_clean(content: bytes) -> bool:
    """Return whether all lines end in CRLF. Some servers accept a lone CR or LF, which could smuggle a message."""
    if not content or b"\0" in content:
        return False
    # The decoder finds all kinds of line ends in one pass in C, which is three times as fast as counting them.
    kinds = IncrementalNewlineDecoder(None, translate=False)
    kinds.decode(content.decode("latin-1"), final=True)
    return kinds.newlines in ("\r\n", None)


def wire_format(message: OutgoingMessage) -> tuple[bytes, bytes]:
    """Return the content in wire format and, separately, its end, because joining them would copy the content."""
    return (message.content, END) if message.is_canonical else (dot_stuff(message.content), b"")


def dot_stuff(content: bytes) -> bytes:
    """Dot-stuff the content and add the final dot."""
    if b"\r\n." in content:
        content = content.replace(b"\r\n.", b"\r\n..")
    first = b"." if content.startswith(b".") else b""
    last = END if content.endswith(b"\r\n") else b"\r\n" + END
    return b"".join((first, content, last))
