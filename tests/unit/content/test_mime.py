import re
from email.header import decode_header, make_header
from email.utils import parsedate_to_datetime, unquote
from typing import Any
from urllib.parse import unquote as decode_percent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailwright.content.headers import InvalidHeader, custom_header, parse_mailbox
from mailwright.content.mime import EmailAttachment, Mailbox, UnsubscribeTargets, boundary, build_email, message_id
from mailwright.domain.address import format_mailbox
from mailwright.providers.parsed_mime import parse_own_mime
from mailwright.providers.parsed_mime.parsed_message import ParsedMailbox
from tests.unit.content.emails import NOON, an_email, assert_is_clean, normal, part, read

# Characters that a header can contain: all except control characters, line breaks and surrogates.
WRITABLE = st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])
SUBJECTS = st.text(WRITABLE, min_size=1, max_size=200)
BODIES = st.text(max_size=400)
OURS = """
    From to CC Bcc Subject Date Message-ID Sender Return-Path Received DKIM-Signature MIME-Version Content-Type
    content-anything X-Mailwright-Message Reply-To Resent-To X-SMTPAPI
    X-SES-CONFIGURATION-SET
"""
BREAKS = [
    "\r",
    "\n",
    "\r\n",
    "\0",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x7f",
    "\ud800",
]


@given(SUBJECTS)
def test_any_subject_survives_a_round_trip(subject: str) -> None:
    content = build_email(an_email(subject=subject))
    assert str(make_header(decode_header(raw_header(content, "Subject")))) == subject
    assert read(content)["Date"]


@given(SUBJECTS)
def test_any_name_survives_and_keeps_the_address(name: str) -> None:
    content = build_email(an_email(to=Mailbox("jane@example.org", name)))
    (address,) = read(content)["To"].addresses
    assert address.addr_spec == "jane@example.org"
    # The newer of the two parsers adds a space between encoded words, so the older one reads the name.
    phrase = raw_header(content, "To").removesuffix("jane@example.org>").removesuffix("<").strip()
    if phrase.startswith('"'):
        phrase = unquote(phrase)
    assert str(make_header(decode_header(phrase))).removesuffix("jane@example.org") == " ".join(name.split())


@given(SUBJECTS)
def test_any_configured_name_reaches_every_header(name: str) -> None:
    """From the text of a setting or a request, through the headers, to what a mail program shows."""
    name = " ".join(name.split())
    box = parse_mailbox(format_mailbox(name, "jane@example.org"))
    content = build_email(an_email(sender=box, reply_to=(box,), to=box))
    expected = ParsedMailbox("jane@example.org", name)
    parsed = parse_own_mime.parse(content)
    assert parsed is not None
    assert [parsed.sender, *parsed.reply_to, *parsed.to] == [expected] * 3


def test_quotes_inside_a_name_are_kept() -> None:
    sender = parse_mailbox('ООО "Ромашка" <news@acme.test>')
    (shown,) = read(build_email(an_email(sender=sender)))["From"].addresses
    assert (shown.display_name, shown.addr_spec) == ('ООО "Ромашка"', "news@acme.test")


@given(BODIES, BODIES)
def test_any_html_and_text_survive_a_round_trip(html: str, text: str) -> None:
    message = read(build_email(an_email(html=html, text=text)))
    assert message.get_content_type() == "multipart/alternative"
    assert part(message, "text/html") == normal(html)
    assert part(message, "text/plain") == normal(text)


@given(BODIES)
def test_email_without_html_is_plain_text(text: str) -> None:
    message = read(build_email(an_email(html=None, text=text)))
    assert message.get_content_type() == "text/plain"
    assert part(message, "text/plain").removesuffix("\n") == normal(text).removesuffix("\n")


@given(
    st.lists(st.tuples(st.text(WRITABLE, min_size=1, max_size=120), st.binary(max_size=300)), min_size=1, max_size=3)
)
@example([("<>", b"")])
def test_any_attachment_survives_with_its_name(files: list[tuple[str, bytes]]) -> None:
    attachments = tuple(EmailAttachment(name, "application/pdf", data) for name, data in files)
    message = read(build_email(an_email(attachments=attachments)))
    assert message.get_content_type() == "multipart/mixed"
    # `get_filename` would remove angle brackets around the name.
    names = [each["Content-Disposition"].params.get("filename", "") for each in message.iter_attachments()]
    result = list(zip(names, (each.get_payload(decode=True) for each in message.iter_attachments()), strict=True))
    assert result == [(name.strip(), data) for name, data in files]


def test_inline_image_is_related_to_the_html() -> None:
    logo = EmailAttachment("logo.png", "image/png", b"\x89PNG", content_id="logo")
    bill = EmailAttachment("bill.pdf", "application/pdf", b"%PDF")
    message = read(build_email(an_email(html='<img src="cid:logo">', attachments=(logo, bill))))
    kinds = [each.get_content_type() for each in message.walk()]
    assert kinds == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
    ]
    (image,) = [each for each in message.walk() if each.get_content_type() == "image/png"]
    assert (image["Content-ID"], image.get_content_disposition()) == ("<logo>", "inline")


def test_embedded_email_is_attached_as_a_file() -> None:
    message = read(
        build_email(an_email(attachments=(EmailAttachment("a.eml", "message/rfc822", b"From: x\n\nhello"),)))
    )
    (attached,) = message.iter_attachments()
    assert attached.get_payload(decode=True) == b"From: x\n\nhello"


def test_same_content_differs_only_in_the_headers() -> None:
    one, two = (build_email(an_email(to=Mailbox(f"{name}@example.org"), text=None)) for name in ("ada", "bob"))
    assert one != two
    assert one.partition(b"\r\n\r\n")[2] == two.partition(b"\r\n\r\n")[2]
    other = read(build_email(an_email(text="Own text")))
    assert part(other, "text/plain") == "Own text"


def test_same_email_gives_same_bytes_with_unique_boundaries() -> None:
    identity = an_email().message_id
    forged = f"--{boundary('alternative', identity)}--\r\n"
    email = an_email(html=f"<p>{forged}</p>", text=forged)
    assert build_email(email) == build_email(email)
    message = read(build_email(email))
    assert len(list(message.iter_parts())) == 2
    assert part(message, "text/plain") == normal(forged)


def test_missing_text_is_derived_with_links() -> None:
    message = read(build_email(an_email(text=None, html='<p>Read <a href="https://example.com/a">more</a></p>')))
    assert "more (https://example.com/a)" in part(message, "text/plain")


def test_international_domain_becomes_a_labels() -> None:
    message = read(build_email(an_email(to=Mailbox("jane@пример.рф", "Жанна"))))
    (address,) = message["To"].addresses
    assert (address.addr_spec, address.display_name) == ("jane@xn--e1afmkfd.xn--p1ai", "Жанна")


def test_unsubscribe_headers_are_never_folded() -> None:
    url = "https://example.com/u/" + "x" * 600
    content = build_email(an_email(unsubscribe=UnsubscribeTargets(url, "mailto:leave@example.com")))
    assert f"\r\nList-Unsubscribe: <{url}>, <mailto:leave@example.com>\r\n".encode() in content
    assert b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in content
    with pytest.raises(InvalidHeader):
        build_email(an_email(unsubscribe=UnsubscribeTargets("https://example.com/" + "x" * 990)))


def test_email_has_all_fixed_headers() -> None:
    email = an_email(
        message_id=message_id("0190-1", "Bücher.example"),
        cc=(Mailbox("a@example.com", "A"), Mailbox("b@example.com")),
        reply_to=(Mailbox("reply@example.com"),),
        outbox_id="0190-1",
        feedback_id="c:t:k:mailwright",
        headers={"X-Order": "17", "Auto-Submitted": "auto-generated"},
    )
    message = read(build_email(email))
    assert message["Message-ID"] == "<0190-1@xn--bcher-kva.example>"
    assert parsedate_to_datetime(message["Date"]).timestamp() * 1000 == NOON
    assert [each.addr_spec for each in message["Cc"].addresses] == ["a@example.com", "b@example.com"]
    assert message["Reply-To"] == "reply@example.com"
    assert message["X-Mailwright-Message"] == "0190-1"
    assert message["Feedback-ID"] == "c:t:k:mailwright"
    assert (message["X-Order"], message["Auto-Submitted"]) == ("17", "auto-generated")
    assert message["MIME-Version"] == "1.0"


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=400))
def test_long_header_is_folded_and_survives(value: str) -> None:
    content = build_email(an_email(headers={"X-Note": value}))
    assert_is_clean(content)
    assert str(make_header(decode_header(raw_header(content, "X-Note")))) == value.strip(" ")


@pytest.mark.promise("content-injection")
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("subject", lambda bad: {"subject": bad}),
        ("from", lambda bad: {"sender": Mailbox("news@example.com", bad)}),
        ("from", lambda bad: {"sender": Mailbox(bad)}),
        ("to", lambda bad: {"to": Mailbox("jane@example.org", bad)}),
        ("to", lambda bad: {"to": Mailbox(bad)}),
        ("cc", lambda bad: {"cc": (Mailbox(bad),)}),
        ("reply_to", lambda bad: {"reply_to": (Mailbox("a@example.com", bad),)}),
        ("headers.X-Note", lambda bad: {"headers": {"X-Note": bad}}),
        ("headers", lambda bad: {"headers": {bad: "x"}}),
        ("message_id", lambda bad: {"message_id": f"<a@{bad}>"}),
        ("feedback_id", lambda bad: {"feedback_id": bad}),
        ("outbox_id", lambda bad: {"outbox_id": bad}),
        ("unsubscribe", lambda bad: {"unsubscribe": UnsubscribeTargets(f"https://{bad}")}),
        ("unsubscribe", lambda bad: {"unsubscribe": UnsubscribeTargets("https://example.com", f"mailto:{bad}")}),
        ("attachments.filename", lambda bad: {"attachments": (EmailAttachment(bad, "text/plain", b""),)}),
        ("attachments.content_type", lambda bad: {"attachments": (EmailAttachment("a", bad, b""),)}),
        ("attachments.content_id", lambda bad: {"attachments": (EmailAttachment("a", "text/plain", b"", bad),)}),
    ],
)
def test_line_break_in_any_field_is_refused(field: str, change: Any) -> None:
    for line_break in BREAKS:
        with pytest.raises(InvalidHeader) as refused:
            build_email(an_email(**change(f"a{line_break}Bcc: victim@example.com")))
        assert refused.value.field == field, repr(line_break)
        assert isinstance(refused.value, ValueError)


@pytest.mark.promise("content-injection")
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_field_adds_a_header_or_recipient(name: str, subject: str, value: str) -> None:
    email = an_email(sender=Mailbox("news@example.com", name), subject=subject, headers={"X-Note": value})
    try:
        content = build_email(email)
    except InvalidHeader:
        return
    message = read(content)
    subjects = ["Subject"] if subject.strip() else []
    assert sorted(message.keys()) == sorted(
        ["From", "To", *subjects, "Date", "Message-ID", "X-Note", "MIME-Version", "Content-Type"]
    )
    assert [each.addr_spec for each in message["From"].addresses] == ["news@example.com"]
    assert [each.addr_spec for each in message["To"].addresses] == ["jane@example.org"]


@pytest.mark.promise("content-injection")
@pytest.mark.parametrize("name", OURS.split())
def test_reserved_headers_cannot_be_set(name: str) -> None:
    with pytest.raises(InvalidHeader, match=name):
        custom_header(name, "x")


@pytest.mark.promise("content-injection")
@pytest.mark.parametrize("name", ["", "X Note", "X:Note", "X-Nöte", "X" * 77])
def test_header_name_must_be_a_word(name: str) -> None:
    with pytest.raises(InvalidHeader):
        custom_header(name, "x")


@pytest.mark.promise("content-injection")
def test_non_ascii_local_part_is_refused() -> None:
    with pytest.raises(InvalidHeader, match="before the @"):
        build_email(an_email(to=Mailbox("жанна@example.org")))


def raw_header(content: bytes, name: str) -> str:
    """Return the unfolded value, not yet decoded."""
    head = content.partition(b"\r\n\r\n")[0].decode("ascii").replace("\r\n ", " ")
    (value,) = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith(f"{name}: ")]
    return value


@pytest.mark.parametrize(
    "name",
    ["Rechnung über größere Beträge äöüß" * 3 + ".pdf", "请求书" * 20 + ".pdf", "x" * 46 + "😀" * 9],
    ids=["German", "Chinese", "emoji"],
)
def test_pieces_of_a_file_name_have_whole_characters(name: str) -> None:
    content = build_email(an_email(attachments=(EmailAttachment(name, "application/pdf", b"x"),)))
    pieces = re.findall(rb"filename\*\d+\*=(\S+?);?\r\n", content)
    decoded = [decode_percent(piece.decode().removeprefix("utf-8''"), errors="strict") for piece in pieces]
    assert len(pieces) > 1
    assert "".join(decoded) == name
