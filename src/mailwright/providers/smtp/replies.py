"""Parse SMTP replies from bytes, with limits on their size."""

import re
from collections.abc import Iterator

# RFC 5321 allows 512 bytes per line; real servers send more. A longer line is not a reply.
MAX_LINE_BYTES = 4_096
MAX_LINES = 100
MAX_TEXT = 500
MAX_ID = 200

_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?:\s|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_QUEUE_ID = re.compile(
    rb"queued as <?([^\s<>,;)]+)"  # Postfix and its relatives
    rb"|\bid=([^\s<>,;)]+)"  # Exim
    rb"|^(?:2\.\d\.\d )?([^\s<>]+) Message accepted"  # Sendmail
    rb"|^Ok ([0-9a-f][0-9a-f-]{19,})\s*$",  # Amazon SES: the id that its events include
    re.IGNORECASE,
)

# The prefixes of the last line of a reply. A lookup is several times faster than parsing the digits.
_LAST_LINE = {f"{code:03} ".encode(): code for code in range(1_000)}


class GarbledReply(Exception):
    """The bytes are not an SMTP reply."""


class SmtpReply:
    __slots__ = ("code", "lines")

    def __init__(self, code: int, lines: list[bytes]) -> None:
        self.code = code
        self.lines = lines  # The lines without the code, possibly with a CR at the end.

    @property
    def is_ok(self) -> bool:
        return 200 <= self.code <= 299

    @property
    def is_refusal(self) -> bool:
        return 400 <= self.code <= 599

    @property
    def enhanced(self) -> str | None:
        """The enhanced status code (RFC 3463), for example `5.1.1`."""
        found = _ENHANCED.match(self.lines[0])
        return found[1].decode() if found else None

    @property
    def status(self) -> str:
        """The status as `550 5.1.1`, or `550` without an enhanced code."""
        enhanced = self.enhanced
        return f"{self.code} {enhanced}" if enhanced else str(self.code)

    @property
    def text(self) -> str:
        return readable(b"\n".join(self.lines))

    @property
    def queue_id(self) -> str:
        """The server's ID for the message, or the whole reply if no ID is recognized."""
        line = self.lines[0]
        lowered = line.lower()
        # The pattern takes up to 15 µs if nothing matches, so first check for the texts that precede every known ID.
        if b"queued as" in lowered or b"id=" in lowered or b"message accepted" in lowered or lowered[:3] == b"ok ":
            found = _QUEUE_ID.search(line)
            if found:
                return found[found.lastindex or 0].decode("ascii", "replace")[:MAX_ID]
        return self.text[:MAX_ID]


class ReplyReader:
    __slots__ = ("_code", "_lines", "_partial")

    def __init__(self) -> None:
        self._partial = b""
        self._code = 0
        self._lines: list[bytes] = []  # The lines of an incomplete reply.

    @property
    def is_empty(self) -> bool:
        return not self._partial and not self._lines

    def feed(self, data: bytes) -> Iterator[SmtpReply]:
        """Yield the replies that these bytes complete. Raise GarbledReply at the first invalid byte."""
        if self._partial:
            data = self._partial + data
        *lines, self._partial = data.split(b"\n")
        for line in lines:
            code = _LAST_LINE.get(line[:4])
            if code is not None and not self._lines and len(line) <= MAX_LINE_BYTES:
                yield SmtpReply(code, [line[4:]])
            elif (reply := self._take(line.rstrip(b"\r"))) is not None:
                yield reply
        if len(self._partial) > MAX_LINE_BYTES:
            raise GarbledReply(f"a line of more than {MAX_LINE_BYTES} bytes")

    def _take(self, line: bytes) -> SmtpReply | None:
        digits, separator = line[:3], line[3:4]
        if len(digits) < 3 or not digits.isdigit() or separator not in b" -" or len(line) > MAX_LINE_BYTES:
            raise GarbledReply(f"not an SMTP reply: {readable(line[:80])}")
        code = int(digits)
        if self._lines and code != self._code:
            raise GarbledReply(f"one reply with two codes, {self._code} and {code}")
        lines = self._lines
        lines.append(line[4:])
        if separator == b"-":
            if len(lines) >= MAX_LINES:
                raise GarbledReply(f"a reply of more than {MAX_LINES} lines")
            self._code = code
            return None
        self._lines = []
        return SmtpReply(code, lines)


def readable(text: bytes) -> str:
    """Make text safe for a log line or table cell: no control characters, limited length."""
    decoded = text.decode("utf-8", "replace").strip()
    return (decoded if decoded.isprintable() else _CONTROL.sub(" ", decoded).strip())[:MAX_TEXT]
