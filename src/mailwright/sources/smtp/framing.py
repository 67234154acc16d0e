"""Split a client's byte stream into command lines, emails and chunks."""

import re
from typing import Final, Protocol

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.smtp import replies

# Long enough for AUTH PLAIN with an API key and for every address.
MAX_LINE_BYTES: Final = 2_048
# A client that keeps sending an email that is too large is disconnected after this many bytes.
MAX_DISCARDED_BYTES: Final = 100 * 1024 * 1024
# Smaller emails need no memory reservation.
SMALL_BYTES: Final = 256 * 1024

_END: Final = b"\r\n.\r\n"
# Matches the pipelined commands before nearly every email. Addresses of this form are certainly valid.
_ENVELOPE: Final = re.compile(
    rb"MAIL FROM:<([a-z0-9_.+-]{1,64}@[a-z0-9.-]{1,189})>(?: SIZE=([0-9]{1,9}))?(?: BODY=8BITMIME)?\r\n"
    rb"RCPT TO:<([a-z0-9_.+-]{1,64}@[a-z0-9.-]{1,189})>\r\nDATA\r\n",
    re.IGNORECASE,
)


class Memory(Protocol):
    """The memory that all connections share for large emails."""

    def reserve(self, size: int) -> bool:
        """Reserve memory; return False if too little is left."""
        ...

    def release(self, size: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    reply: bytes
    closes: bool = False  # True if the start of the next command is unknown.


@dataclass(slots=True)
class PipelinedEnvelope:
    """MAIL, RCPT and DATA for an email to one recipient, which arrived together."""

    sender: str
    recipient: str
    size: int  # The size that the client announced; 0 if it announced none.
    length: int  # The bytes of the three commands.


class Framing:
    def __init__(self, max_bytes: int, memory: Memory) -> None:
        self._max_bytes = max_bytes
        self._memory = memory
        self._buffer = bytearray()
        self._searched = 0  # The end of the email does not begin before this offset.
        self._discarded = 0  # Bytes dropped from an email that is too large.
        self._reserved = 0

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def begin(self) -> None:
        """Begin to read an email or a chunk."""
        self._searched = self._discarded = 0

    def free(self) -> None:
        """Release the memory of an email that was stored or refused."""
        if self._reserved:
            self._memory.release(self._reserved)
            self._reserved = 0

    def find_envelope(self) -> PipelinedEnvelope | None:
        """Return the next three commands if they begin an email, without consuming them."""
        found = _ENVELOPE.match(self._buffer)
        if found is None:
            return None
        sender, size, recipient = found.groups()
        return PipelinedEnvelope(sender.decode(), recipient.decode(), int(size or 0), found.end())

    def skip(self, envelope: PipelinedEnvelope) -> None:
        del self._buffer[: envelope.length]

    def read_line(self) -> bytes | Refusal | None:
        """Return a command line without its end; None if it has not arrived."""
        end = self._buffer.find(b"\n", 0, MAX_LINE_BYTES)
        if end < 0:
            return Refusal(replies.LINE_TOO_LONG, closes=True) if len(self._buffer) >= MAX_LINE_BYTES else None
        line = self._cut(end + 1)
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
            # Other programs may split these bytes into different commands (SMTP smuggling), so ignore the rest.
            return Refusal(replies.BAD_LINE_END, closes=True)
        return line[:-2]

    def read_email(self) -> bytes | Refusal | None:
        """Return the email up to the line that has only a dot; None if that line has not arrived.

        Only CRLF ends a line: with other line endings, the text of an email could pass for commands (SMTP smuggling).
        """
        if not self._discarded and self._buffer.startswith(_END[2:]):
            self._cut(3)
            return b""
        end = self._buffer.find(_END, max(self._searched - 4, 0))
        if end < 0:
            return self._keep_or_discard()
        content = self._cut(end + 2)
        self._cut(3)
        size = self._discarded + len(content)
        if size > self._max_bytes:
            return Refusal(replies.too_large(self._max_bytes))
        return Refusal(replies.NO_MEMORY) if self._discarded else content

    def read_chunk(self, size: int, kept: int) -> bytes | Refusal | None:
        """Return a chunk of this size; None if it has not arrived. `kept` is the size of the chunks before it."""
        if len(self._buffer) < size:
            is_kept = self._reserve(kept + len(self._buffer))
            return None if is_kept else Refusal(replies.NO_MEMORY, closes=True)
        return self._cut(size) if self._reserve(kept + size) else Refusal(replies.NO_MEMORY, closes=True)

    def skip_chunk(self, size: int) -> int | Refusal:
        """Drop the bytes of a refused chunk that have arrived, and return how many are still to come."""
        dropped = len(self._cut(min(size, len(self._buffer))))
        self._discarded += dropped
        if self._discarded > MAX_DISCARDED_BYTES:
            return Refusal(replies.too_large(self._max_bytes), closes=True)
        return size - dropped

    def _keep_or_discard(self) -> Refusal | None:
        """Drop an email that is too large while it arrives, so that it needs no memory."""
        size = len(self._buffer)
        if not self._discarded and size <= self._max_bytes + len(_END) and self._reserve(size):
            self._searched = size
            return None
        self._discarded += len(self._cut(max(size - 4, 0)))
        self._searched = len(self._buffer)
        self.free()
        if self._discarded > MAX_DISCARDED_BYTES:
            return Refusal(replies.too_large(self._max_bytes), closes=True)
        return None

    def _reserve(self, size: int) -> bool:
        more = size - self._reserved
        if size <= SMALL_BYTES or more <= 0:
            return True
        if not self._memory.reserve(more):
            return False
        self._reserved = size
        return True

    def _cut(self, size: int) -> bytes:
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found
