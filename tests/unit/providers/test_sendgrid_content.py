"""The SendGrid request contains the whole message: our own parser and the general one agree."""

import re
from base64 import b64decode
from email import policy
from email.message import EmailMessage
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.content.dkim import DkimSigner
from mailwright.content.dkim_key import DkimKey
from mailwright.content.headers import InvalidHeader
from mailwright.content.layout import Layout, RecipientHeaders, SharedHeaders
from mailwright.content.mime import EmailAttachment, EmailParts, Mailbox, UnsubscribeTargets, build_email
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.providers.parsed_mime import parse_mime, parse_own_mime
from mailwright.providers.parsed_mime.parsed_message import ParsedMessage
from tests.examples import examples
from tests.standins.sendgrid import SendGridStandIn, complaints_about
from tests.unit.content.emails import NOON, an_email, normal
from tests.unit.providers.sendgrid_builders import OUTBOX_ID, a_mail, outgoing, sendgrid_to

UNSUBSCRIBE = UnsubscribeTargets("https://mail.example.com/u?token=" + "abc123" * 40, "mailto:leave@example.com")


async def told(message: OutgoingMessage, **options: Any) -> dict[str, Any]:
    """Return the request that SendGrid received, checked against its rules."""
    async with SendGridStandIn() as server, sendgrid_to(server, **options) as sendgrid:
        result = await sendgrid.send(message)
        assert result.kind is ResultKind.SENT, result
        return server.messages[0]


async def refused(message: OutgoingMessage) -> SendResult:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        result = await sendgrid.send(message)
        assert not server.begun
        return result


def a_foreign_mail(content: bytes, *recipients: str) -> OutgoingMessage:
    return OutgoingMessage(OUTBOX_ID, "bounces@example.com", recipients, content)


@pytest.mark.promise("provider-content")
async def test_campaign_message_arrives_complete() -> None:
    message = await told(
        a_mail(
            subject="Grüße aus dem Büro",
            html="<p>Hallo Jäne</p>",
            text="Hallo Jäne",
            reply_to=(Mailbox("answers@example.com", "Antworten, bitte"),),
            unsubscribe=UNSUBSCRIBE,
            feedback_id="spring:acme:campaign:mailwright",
            headers={"X-Campaign": "spring"},
        )
    )
    assert message["from"] == {"email": "news@example.com", "name": "Example News"}
    assert message["personalizations"] == [
        {
            "to": [{"email": "jane@example.org", "name": "Jane Doe"}],
            "custom_args": {"mailwright_message": OUTBOX_ID},
        }
    ]
    assert message["subject"] == "Grüße aus dem Büro"
    assert message["reply_to"] == {"email": "answers@example.com", "name": "Antworten, bitte"}
    assert message["content"] == [
        {"type": "text/plain", "value": "Hallo Jäne"},
        {"type": "text/html", "value": "<p>Hallo Jäne</p>"},
    ]
    assert message["headers"] == {
        "Message-ID": "<0190-1@example.com>",
        "List-Unsubscribe": f"<{UNSUBSCRIBE.url}>, <{UNSUBSCRIBE.mailto}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Feedback-ID": "spring:acme:campaign:mailwright",
        "X-Mailwright-Message": OUTBOX_ID,
        "X-Campaign": "spring",
    }
    assert "attachments" not in message


@pytest.mark.parametrize("tracks_opens", [True, False])
async def test_link_rewriting_is_disabled(tracks_opens: bool) -> None:
    message = await told(a_mail(), tracks_opens=tracks_opens)
    assert message["tracking_settings"] == {
        "click_tracking": {"enable": False, "enable_text": False},
        "open_tracking": {"enable": tracks_opens},
        "subscription_tracking": {"enable": False},
        "ganalytics": {"enable": False},
    }


async def test_copies_keep_their_roles_without_duplicates() -> None:
    cc = (Mailbox("ce@bücher.example", "Cé"), Mailbox("JANE@example.org"), Mailbox("d@example.com"))
    parts = an_email(cc=cc)
    recipients = (
        "jane@example.org",
        "ce@xn--bcher-kva.example",
        "d@example.com",
        "blind@example.com",
        "Blind@example.com",
    )
    (personalization,) = (
        await told(OutgoingMessage(OUTBOX_ID, "b@example.com", recipients, build_email(parts), is_canonical=True))
    )["personalizations"]
    assert personalization["to"] == [{"email": "jane@example.org", "name": "Jane Doe"}]
    assert personalization["cc"] == [{"email": "ce@xn--bcher-kva.example", "name": "Cé"}, {"email": "d@example.com"}]
    assert [box["email"].lower() for box in personalization["bcc"]] == ["blind@example.com"]


async def test_recipients_in_headers_only_get_nothing() -> None:
    parts = an_email(cc=(Mailbox("left@example.com"), Mailbox("c@example.com")))
    message = OutgoingMessage(OUTBOX_ID, "b@example.com", ("c@example.com",), build_email(parts), is_canonical=True)
    (personalization,) = (await told(message))["personalizations"]
    assert personalization["to"] == [{"email": "c@example.com"}]
    assert personalization.keys() == {"to", "custom_args"}


async def test_blind_copies_are_not_shown_to_each_other() -> None:
    message = OutgoingMessage(
        OUTBOX_ID, "b@example.com", ("a@example.net", "b@example.net"), build_email(an_email()), is_canonical=True
    )
    result = await refused(message)
    assert (result.kind, result.code, result.category) == (
        ResultKind.FAILED,
        "INVALID_CONTENT",
        ErrorCategory.VALIDATION,
    )
    alone = OutgoingMessage(OUTBOX_ID, "b@example.com", ("a@example.net",), build_email(an_email()), is_canonical=True)
    assert (await told(alone))["personalizations"][0]["to"] == [{"email": "a@example.net"}]


@pytest.mark.promise("provider-content")
async def test_attachments_keep_names_bytes_and_positions() -> None:
    files = (
        EmailAttachment("rechnung ü.pdf", "application/pdf", bytes(range(256)) * 20),
        EmailAttachment("Ü" * 80 + ".ics", "text/calendar; method=REQUEST", b"BEGIN:VCALENDAR"),
        EmailAttachment("notes; final, really.txt", "text/plain; charset=utf-8", "Grüße".encode()),
        EmailAttachment("logo.png", "image/png", b"\x89PNG", content_id="logo@example.com"),
        EmailAttachment(" ", "application/octet-stream", b"?"),
    )
    message = await told(a_mail(html='<img src="cid:logo@example.com">', attachments=files))
    by_name = {each["filename"]: each for each in message["attachments"]}
    assert by_name.keys() == {*[file.filename for file in files[:4]], "attachment"}
    for file in files[:4]:
        assert b64decode(by_name[file.filename]["content"], validate=True) == file.content
        assert by_name[file.filename]["type"] == file.content_type.partition(";")[0]
    assert by_name["logo.png"]["disposition"] == "inline"
    assert by_name["logo.png"]["content_id"] == "logo@example.com"
    assert [each["disposition"] for each in message["attachments"]].count("attachment") == 4
    assert [each["type"] for each in message["content"]] == ["text/plain", "text/html"]


async def test_text_message_has_one_content() -> None:
    message = await told(a_mail(html=None, text="Grüße\n.\n"))
    assert message["content"] == [{"type": "text/plain", "value": "Grüße\n.\n"}]


async def test_empty_text_is_left_out_and_empty_message_rejected() -> None:
    message = await told(a_mail(html="<p>Hello</p>", text=""))
    assert message["content"] == [{"type": "text/html", "value": "<p>Hello</p>"}]
    result = await refused(a_mail(html="", text=""))
    assert (result.kind, result.code) == (ResultKind.FAILED, "INVALID_CONTENT")


async def test_non_ascii_header_stays_encoded() -> None:
    """SendGrid writes headers unchanged, so they must be encoded."""
    value = (await told(a_mail(headers={"X-Note": "Grüße " * 20})))["headers"]["X-Note"]
    assert re.fullmatch(r"=\?utf-8\?b\?[^ ]+\?=( =\?utf-8\?b\?[^ ]+\?=)+", value)


async def test_repeated_header_is_sent_once() -> None:
    message = await told(a_mail(headers={"X-Note": "first", "x-note": "second"}))
    assert message["headers"]["X-Note"] == "first"
    assert "x-note" not in message["headers"]


async def test_own_dkim_signature_is_removed() -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signer = DkimSigner([DkimKey.load(pem.decode(), "example.com", "mail")])
    message = outgoing(an_email())
    message.content = signer.sign(message.content, NOON)
    assert message.content.startswith(b"DKIM-Signature")
    assert parse_own_mime.parse(message.content) is not None
    assert (await told(message))["headers"].keys() == {"Message-ID"}


async def test_layout_parses_like_a_composed_message() -> None:
    frame = SharedHeaders(
        Mailbox("news@example.com", "Nachrichten für alle"), (Mailbox("r@example.com"),), {"X-A": "b"}, "a:b:c:d"
    )
    layout = Layout.compile(
        frame, subject="Hallo {{ name }}", html="<p>Hallo {{ name }}.</p>", text="Hallo {{ name }}."
    )
    addressed = RecipientHeaders(
        Mailbox("jane@example.org", "Jäne"), "<1@example.com>", NOON, OUTBOX_ID, "https://x.example/u"
    )
    content = layout.fill(addressed, {"name": "Jäne = " * 20})
    message = parse_own_mime.parse(content)
    assert message == parse_mime.parse(content)
    assert message is not None
    assert message.subject == "Hallo " + "Jäne = " * 20
    assert message.text == "Hallo " + "Jäne = " * 20 + "."


# Both parsers agree.

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)
TRICKY = st.text(st.sampled_from('.. \n\r\t=?"\\,;<>aé漢@'), max_size=200)
LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=100) | st.text(
    st.sampled_from(' =?"\\,;:<>()aé漢@._-'), max_size=100
)
ADDRESS = st.from_regex(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\.[a-z0-9]{1,5})?@[a-z]{1,10}\.example", fullmatch=True)
BOX = st.builds(Mailbox, ADDRESS, st.none() | LINE)
FILE = st.builds(
    EmailAttachment,
    LINE.filter(str.strip),
    st.sampled_from(["application/pdf", "text/plain", "text/html; charset=utf-8", "image/png"]),
    st.binary(max_size=200),
    st.none() | st.from_regex(r"[a-z0-9.@-]{1,20}", fullmatch=True),
)
EMAIL_PARTS = st.builds(
    EmailParts,
    message_id=st.just("<1@example.com>"),
    date=st.just(NOON),
    sender=BOX,
    to=BOX,
    subject=LINE,
    html=st.none() | ANY | TRICKY,
    text=ANY | TRICKY,
    reply_to=st.lists(BOX, max_size=2).map(tuple),
    cc=st.lists(BOX, max_size=3).map(tuple),
    headers=st.dictionaries(st.from_regex(r"X-[A-Z]{1,8}", fullmatch=True), LINE, max_size=2),
    attachments=st.lists(FILE, max_size=3).map(tuple),
    outbox_id=st.just(OUTBOX_ID),
    unsubscribe=st.none() | st.just(UNSUBSCRIBE),
)


@pytest.mark.promise("provider-content")
@settings(max_examples=examples(50), deadline=None)
@given(EMAIL_PARTS)
def test_own_parser_returns_the_written_message(parts: EmailParts) -> None:
    try:
        content = build_email(parts)
    except InvalidHeader:
        return
    message = parse_own_mime.parse(content)
    assert message is not None
    assert_says(message, parts)


def assert_says(message: ParsedMessage, parts: EmailParts) -> None:
    def boxes(*written: Mailbox | None) -> list[tuple[str, str]]:
        return [(box.address, " ".join((box.name or "").split())) for box in written if box is not None]

    assert [message.sender] == boxes(parts.sender)
    assert (message.to, message.cc, message.reply_to) == (boxes(parts.to), boxes(*parts.cc), boxes(*parts.reply_to))
    assert message.subject == parts.subject
    if parts.html is None:
        assert (message.html, (message.text or "").removesuffix("\n")) == (
            None,
            normal(parts.text or "").removesuffix("\n"),
        )
    else:
        assert (message.html, message.text) == (normal(parts.html), normal(parts.text or ""))
    assert sorted((each.filename, b64decode(each.content)) for each in message.attachments) == sorted(
        (each.filename.strip(), each.content) for each in parts.attachments
    )


PLAIN_LINE = st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" "), max_size=60)


@pytest.mark.promise("provider-content")
@settings(max_examples=examples(20), deadline=None)
@given(
    subject=PLAIN_LINE.map(str.strip),
    name=PLAIN_LINE.map(str.strip),
    html=st.none() | ANY | TRICKY,
    text=ANY | TRICKY,
    files=st.lists(
        st.builds(EmailAttachment, st.sampled_from(["a.txt", "ä" * 70]), st.just("image/png"), st.binary()), max_size=2
    ),
)
def test_general_parser_returns_the_same_message(
    subject: str, name: str, html: str | None, text: str, files: list[EmailAttachment]
) -> None:
    boxes = Mailbox("a@example.com", name), Mailbox("b@example.com", name)
    parts = an_email(
        sender=boxes[0], to=boxes[1], cc=boxes, subject=subject, html=html, text=text, attachments=tuple(files)
    )
    content = build_email(parts)
    assert parse_own_mime.parse(content) == parse_mime.parse(content)


# Messages of other writers.


@pytest.mark.promise("provider-content")
async def test_foreign_mime_arrives_complete() -> None:
    message = EmailMessage()
    message["From"] = "Jürgen Müller <j@example.com>"
    message["To"] = "undisclosed-recipients:;"
    message["Cc"] = "C <c@example.com>"
    message["Subject"] = "Grüße"
    message["Reply-To"] = "x@example.com, Y <y@example.com>"
    message["X-SMTPAPI"] = '{"to": ["thief@example.com"]}'
    message["X-Kept"] = "as it is"
    message.set_content("Text mit ü\n")
    message.add_alternative("<p>HTML mit ü <img src='cid:one'></p>", subtype="html")
    html = message.get_body(("html",))
    assert isinstance(html, EmailMessage)
    html.add_related(b"GIF", "image", "gif", cid="<one>", filename="one.gif", disposition="inline")
    inner = EmailMessage()
    inner["Subject"] = "inside"
    inner.set_content("inside")
    message.add_attachment(inner)
    message.add_attachment(b"%PDF", "application", "pdf", filename="ü.pdf")
    email = await told(a_foreign_mail(message.as_bytes(policy=policy.SMTP), "c@example.com"))
    assert email["from"] == {"email": "j@example.com", "name": "Jürgen Müller"}
    assert email["personalizations"][0]["to"] == [{"email": "c@example.com", "name": "C"}]
    assert email["subject"] == "Grüße"
    assert email["reply_to_list"] == [{"email": "x@example.com"}, {"email": "y@example.com", "name": "Y"}]
    assert [each["value"].strip() for each in email["content"]] == [
        "Text mit ü",
        "<p>HTML mit ü <img src='cid:one'></p>",
    ]
    assert email["headers"] == {"X-Kept": "as it is"}
    assert {each["type"]: each.get("content_id") for each in email["attachments"]} == {
        "image/gif": "one",
        "message/rfc822": None,
        "application/pdf": None,
    }


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no headers at all",
        b"To: a@example.com\r\n\r\nNobody sent this.\r\n",
        b"From: ;;;\r\n\r\nNeither this.\r\n",
        b"From: a@example.com\r\nTo: b@example.com\r\nSubject: empty\r\n\r\n",
    ],
)
@pytest.mark.parametrize("is_canonical", [True, False])
async def test_unparsable_message_is_rejected_without_a_request(content: bytes, is_canonical: bool) -> None:
    message = OutgoingMessage(OUTBOX_ID, "b@example.com", ("b@example.com",), content, is_canonical=is_canonical)
    result = await refused(message)
    assert (result.kind, result.code, result.category) == (
        ResultKind.FAILED,
        "INVALID_CONTENT",
        ErrorCategory.VALIDATION,
    )
    assert not result.blames_provider


@settings(max_examples=examples(50), deadline=None)
@given(
    st.binary(max_size=300)
    | st.text(st.sampled_from('From:to \r\n\r\n=?utf-8b"<>@é;,-_'), max_size=300).map(str.encode)
)
def test_parser_survives_any_bytes(content: bytes) -> None:
    for beginning in (
        b"",
        b"From: a@example.com\r\n",
        b'From: a@example.com\r\nContent-Type: multipart/mixed;\r\n boundary="=_m_0"\r\n\r\n',
    ):
        parse_own_mime.parse(beginning + content)
        try:
            parse_mime.parse(beginning + content)
        except parse_mime.UnreadableMime:
            continue


async def test_eight_bit_content_and_unknown_charsets_are_parsed() -> None:
    content = (
        "From: a@example.com\r\nTo: b@example.com\r\nSubject: Grüße\r\nX-Note: Grüße\r\n"
        "Content-Type: text/plain; charset=klingon\r\n\r\nGrüße\r\n"
    ).encode()
    message = await told(a_foreign_mail(content, "b@example.com"))
    assert message["content"] == [{"type": "text/plain", "value": "Grüße\n"}]
    assert message["headers"]["X-Note"].isascii()
    assert not complaints_about(message)


@pytest.mark.promise("provider-content")
@pytest.mark.parametrize("kind", ["multipart/signed", "multipart/encrypted", "application/pkcs7-mime"])
async def test_sealed_email_is_refused(kind: str) -> None:
    content = f"From: a@example.com\r\nTo: b@example.com\r\nContent-Type: {kind}; boundary=x\r\n\r\n--x--\r\n".encode()
    result = await refused(a_foreign_mail(content, "b@example.com"))
    assert result.category is ErrorCategory.VALIDATION
    assert "signed or encrypted" in (result.message or "")
