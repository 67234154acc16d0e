"""Headers that others wrote are read without an exception, however damaged their encoded words are."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from mailwright.content.raw import parse_raw, readable_line
from mailwright.domain.encoded_words import MAX_LENGTH, decode_words
from mailwright.domain.errors import InvalidInput
from mailwright.events.bounces import parse_bounce_mail
from mailwright.events.dmarc.report_email import parse_report_email
from mailwright.providers.parsed_mime.parse_mime import UnreadableMime
from mailwright.providers.parsed_mime.parse_mime import parse as parse_mime
from mailwright.web.dashboard.email_parts import parse_email
from mailwright.web.public.forms import read_form
from tests.examples import examples

DAMAGED = "=?UTF-8?B?SGVsb?="  # five base64 characters cannot be decoded

# Encoded words, whole and damaged, and the characters that matter around them.
PIECES = (
    *(DAMAGED, "=?UTF-8?B?SGVsbG8=?=", "=?utf-8?q?=C3?=", "=?utf-8?q?=A4?=", "=?utf-8?b?", "=?", "?=", "=?="),
    *("=?idna?q?=ff?=", "=?punycode?b?////?=", "=?undefined?q?a?=", "=?unicode_escape?q?=5Cx?=", "=?utf-7?q?+2AA-?="),
    *("=?zlib?b?eJw=?=", "=?utf-16?b?AA?=", "=?x-unknown?b?SGVsbG8?=", "=?a\x01b?q?x?=", "=?gb2312?b?6UY=?="),
    *(
        "<",
        ">",
        '"',
        "\\",
        "(",
        ")",
        ",",
        ";",
        ":",
        "@",
        " ",
        "=",
        "name*0*=",
        "idna''%ff",
        "a%00b''x",
        "=?utf-8*en?q?a?=",
    ),
    *(
        "ann@example.com",
        "<ann@example.com>",
        "filename=",
        "boundary*=",
        "charset*=idna''%ff",
        "charset=idna",
        "\t",
        "\r\n ",
    ),
)
values = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
UNHURRIED = settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])


def an_email(value: str, boundary: str = "boundary=edge; ") -> bytes:
    """Return an email with the same value in every header that is read, and in those of a part."""
    written = value.replace("\0", "").encode("utf-8", "replace")
    head = b"".join(
        b"%s: %s\r\n" % (name, written)
        for name in (b"From", b"To", b"Subject", b"Reply-To", b"Date", b"References", b"X-Other")
    )
    part = (
        b"Content-Type: text/plain; %b\r\nContent-Disposition: attachment; %b\r\n"
        b"Content-ID: %b\r\nContent-Transfer-Encoding: %b\r\n\r\nHello\r\n"
    )
    body = b"--edge\r\n%b--edge--\r\n" % (part % (written, written, written, written))
    return head + b"Content-Type: multipart/mixed; " + boundary.encode() + written + b"\r\n\r\n" + body


def read_raw(content: bytes) -> None:
    with suppress(InvalidInput):  # The client gets the reason.
        email = parse_raw(content)
        assert email.subject.encode() is not None
        assert email.sender.address
        assert email.recipients is not None
        assert email.all_senders


def read_fields(content: bytes) -> None:
    with suppress(UnreadableMime):  # The message fails with the reason.
        parsed = parse_mime(content)
        assert "".join((parsed.subject, parsed.text or "", parsed.html or "")).encode() is not None


def show(content: bytes) -> None:
    email = parse_email(content)
    assert "".join((email.text or "", email.html or "")).encode() is not None
    assert email.date is None or email.date is not None
    for name, value in email.headers:
        assert f"{name}: {value}".encode() is not None
    for each in email.attachments:
        assert each.name.encode() is not None


READERS: dict[str, Callable[[bytes], object]] = {
    "raw email": read_raw,
    "bounces and replies": parse_bounce_mail,
    "DMARC reports": lambda content: parse_report_email(content, 0),
    "dashboard": show,
    "provider fields": read_fields,
}


@UNHURRIED
@given(values)
@example(DAMAGED)
@example("=?utf-8?b?" * 500)
def test_any_text_is_decoded(value: str) -> None:
    assert decode_words(value).encode() is not None
    assert readable_line(value).isprintable()
    assert len(decode_words(value)) <= max(len(value), MAX_LENGTH)


@pytest.mark.parametrize("reader", READERS)
@UNHURRIED
@given(value=values)
@example(value=DAMAGED)
@example(value=f"{DAMAGED} <ann@example.com>")
@example(value="boundary*=idna''%ff")
@example(value="charset*=a%00b''x")
@example(value="filename*=idna''%ff")
@example(value="filename*=a%00b''x")
def test_emails_with_damaged_headers_are_read(reader: str, value: str) -> None:
    for boundary in ("boundary=edge; ", ""):
        READERS[reader](an_email(value, boundary))


@pytest.mark.parametrize(
    "charset", ["idna", "punycode", "undefined", "utf-7", "unicode_escape", "rot13", "zlib", "a\0b", "unknown", ""]
)
@pytest.mark.parametrize("reader", READERS)
def test_text_in_any_charset_is_read(reader: str, charset: str) -> None:
    head = "From: ann@example.com\r\nTo: bob@example.com\r\nSubject: Hello\r\n"
    READERS[reader](f"{head}Content-Type: text/plain; charset={charset}\r\n\r\nHe+2AA-l".encode() + b"\xfflo\r\n")


@pytest.mark.parametrize("repeated", ["; a=", "; a*=", "; a*0=b", "<", "(", '"', "=?utf-8?q?a?= ", "a/", "\\"])
@pytest.mark.parametrize("reader", READERS)
def test_long_headers_of_parts_are_read_in_linear_time(reader: str, repeated: str) -> None:
    head = b"From: ann@example.com\r\nTo: bob@example.com\r\nContent-Type: multipart/mixed; boundary=edge\r\n\r\n"
    value = (repeated * 200_000)[:200_000].encode()
    for name in (b"Content-Type: text/plain; ", b"Content-Disposition: attachment; ", b"Content-ID: "):
        READERS[reader](head + b"--edge\r\n" + name + value + b"\r\n\r\nHello\r\n--edge--\r\n")


@UNHURRIED
@given(value=values)
@example(value="boundary*=idna''%ff")
async def test_forms_with_damaged_headers_are_read(value: str) -> None:
    written = value.encode("utf-8", "replace")
    body = b"--edge\r\nContent-Disposition: form-data; name=" + written + b"\r\n\r\nx\r\n--edge--\r\n"
    for kind in ("boundary=edge", value):
        content_type = f"multipart/form-data; {kind}".encode("latin-1", "replace")

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", content_type)]}, receive)
        assert await read_form(request) is not None


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (DAMAGED, DAMAGED),
        (f"{DAMAGED} =?utf-8?q?a?= =?utf-8?q?b?=", f"{DAMAGED} ab"),
        ("=?utf-8?B?5pc=?= =?UTF-8?B?pQ==?=", "日"),  # a character in two words
        ("=?UTF-8?B?SGVsbG8?= you", "Hello you"),
        ("=?utf-8?Q?How are you??=", "How are you?"),
        ("=?utf-8*en?q?a?=", "a"),
        ("=?x-unknown?b?w7w=?=", "ü"),
        ("=?x-unknown?b?/w==?=", "=?x-unknown?b?/w==?="),
        ("=?gb2312?b?6UY=?=", "镕"),  # a character that only the successors of GB 2312 have
        ("=?utf-8?q?=ff?=", "\ufffd"),
    ],
)
def test_damaged_words_stay_and_others_are_decoded(written: str, shown: str) -> None:
    assert decode_words(written) == shown


def test_provider_gets_the_fields_of_an_email_with_damaged_words() -> None:
    head = f"From: {DAMAGED} <shop@example.com>\r\nTo: ann@example.com\r\nSubject: {DAMAGED}\r\n"
    part = (
        f"Content-Type: text/plain\r\nContent-Disposition: attachment; filename*=idna''%ff; filename={DAMAGED}\r\n\r\nx"
    )
    edge = "Content-Type: multipart/mixed; boundary=edge\r\n\r\n--edge\r\n\r\nHello\r\n--edge\r\n"
    parsed = parse_mime(f"{head}{edge}{part}\r\n--edge--\r\n".encode())
    assert (parsed.sender.name, parsed.subject, parsed.text) == (DAMAGED, DAMAGED, "Hello")
    assert len(parsed.attachments) == 1
