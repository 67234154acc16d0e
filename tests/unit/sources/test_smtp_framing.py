"""The bytes of an SMTP client mean the same, whatever packets they arrive in."""

import pytest

from mailwright.sources.smtp.framing import Framing


class UnlimitedMemory:
    def reserve(self, size: int) -> bool:
        return True

    def release(self, size: int) -> None:
        pass


@pytest.mark.parametrize("content", [b"", b"\r\n", b"a\r\n", b"..\r\n", b"a\r\n\r\n", b".a\r\n", b"\r\n..\r\n"])
def test_email_ends_alike_in_any_packets(content: bytes) -> None:
    sent = content + b".\r\nQUIT\r\n"
    for first in range(len(sent) + 1):
        for second in range(first, len(sent) + 1):
            framing = Framing(1_000, UnlimitedMemory())
            framing.begin()
            found = None
            for packet in (sent[:first], sent[first:second], sent[second:]):
                framing.feed(packet)
                found = framing.read_email() if found is None else found
            assert (found, framing.read_line()) == (content, b"QUIT"), (first, second)
