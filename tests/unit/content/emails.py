"""Builders of emails, and a reader from the standard library that checks them."""

from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, cast

from mailwright.content.mime import EmailParts, Mailbox

NOON = 1_800_000_000_000


def an_email(**changes: Any) -> EmailParts:
    email = EmailParts(
        message_id="<0190-1@example.com>",
        date=NOON,
        sender=Mailbox("news@example.com", "Example News"),
        to=Mailbox("jane@example.org", "Jane Doe"),
        subject="Hello",
        html="<p>Hello</p>",
        text="Hello",
    )
    return replace(email, **changes)


def read(content: bytes) -> EmailMessage:
    assert_is_clean(content)
    message = cast("EmailMessage", BytesParser(policy=policy.default).parsebytes(content))
    assert not message.defects
    return message


def assert_is_clean(content: bytes) -> None:
    """7-bit, every line ends in CRLF without bare CR or LF, and no line is too long for a server."""
    assert content.isascii()
    assert b"\0" not in content
    lines = content.split(b"\r\n")
    assert lines[-1] == b""
    assert not any(b"\r" in line or b"\n" in line for line in lines)
    assert max(len(line) for line in lines) <= 998
    body = content.partition(b"\r\n\r\n")[2]
    assert max((len(line) for line in body.split(b"\r\n")), default=0) <= 78


def part(message: EmailMessage, content_type: str) -> str:
    """Return the decoded text of the first part of this type, with LF line ends."""
    for each in message.walk():
        if each.get_content_type() == content_type:
            data = cast("bytes", each.get_payload(decode=True))
            return data.decode().replace("\r\n", "\n")
    raise AssertionError(f"no {content_type}")


def normal(text: str) -> str:
    """Return the text as it is transmitted: LF line ends, and no surrogates."""
    return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()
