"""Any bytes are parsed without an exception, in bounded time and with bounded output."""

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mailwright.events.bounces import (
    BounceReport,
    FeedbackReport,
    OrdinaryEmail,
    UnreadableReport,
    parse_bounce_mail,
)
from mailwright.events.bounces.email_parts import MAX_DEPTH, MAX_PARTS, split_parts
from tests.examples import examples
from tests.unit.events.bounce_emails import READER, a_feedback, a_group, a_report, a_text
from tests.unit.events.test_bounces_corpus import COLLECTION

PARSED_TYPES = (BounceReport, FeedbackReport, OrdinaryEmail, UnreadableReport)

SAMPLES = [
    a_report(a_group(diagnostic="550 5.1.1 unknown"), a_group("bob@reader.example", "delayed", "4.2.2")),
    a_feedback(f"Feedback-Type: abuse\nOriginal-Rcpt-To: {READER}\n"),
    a_text("It could not be delivered.\n\n<ann@reader.example>:\n550 5.1.1 user unknown\n"),
    a_text('{"notificationType":"Bounce","bounce":{"bouncedRecipients":[{"emailAddress":"ann@reader.example"}]}}'),
    *(file.read_bytes() for file in sorted(COLLECTION.glob("[da][sr][nf]/**/*.[et][mx][lt]"))),
]

# Tokens that matter to the parser, so that mutations hit them often.
PIECES = [
    b"\r\n\r\n",
    b"\n--edge\n",
    b"Content-Type: message/rfc822\n\n",
    b"Content-Type: multipart/mixed; boundary*0*=idna'x'%ff%00; boundary*1=\n\n",
    b"Content-Transfer-Encoding: base64\n",
    b"Final-Recipient: rfc822;",
    b"Status: 5.",
    b"\x00",
    b"\xff\xfe",
    "ü@ü.example".encode(),
    b"<@>",
    b"{",
    b": ",
]

UNHURRIED = settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])

pytestmark = pytest.mark.promise("bounce-attributed")


@UNHURRIED
@given(st.binary(max_size=2_000))
@example(b"Content-Type: multipart/mixed; boundary*=idna''%ff\n\n--a\n")
@example(b"Content-Type: multipart/mixed; boundary*=a%00b''x\n\n--a\n")
@example(b'Content-Type: multipart/mixed; boundary=""\n\n--\n--\n')
def test_random_bytes_are_parsed(message: bytes) -> None:
    assert isinstance(parse_bounce_mail(message), PARSED_TYPES)


@UNHURRIED
@given(st.sampled_from(SAMPLES), st.floats(0, 1))
def test_truncated_emails_are_parsed(message: bytes, share: float) -> None:
    assert isinstance(parse_bounce_mail(message[: int(len(message) * share)]), PARSED_TYPES)


@UNHURRIED
@given(
    st.sampled_from(SAMPLES),
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(PIECES) | st.binary(max_size=8), st.integers(0, 40)), max_size=8
    ),
)
def test_mutated_emails_are_parsed(message: bytes, changes: list[tuple[float, bytes, int]]) -> None:
    for share, piece, dropped in changes:
        place = int(len(message) * share)
        message = message[:place] + piece + message[place + dropped :]
    assert isinstance(parse_bounce_mail(message), PARSED_TYPES)


@UNHURRIED
@given(st.sampled_from(SAMPLES), st.sampled_from(SAMPLES), st.floats(0, 1))
def test_concatenated_emails_are_parsed(one: bytes, other: bytes, share: float) -> None:
    assert isinstance(parse_bounce_mail(one[: int(len(one) * share)] + other), PARSED_TYPES)


def test_too_deep_nesting_is_ignored() -> None:
    message = b"Content-Type: message/rfc822\n\n" * 10_000
    assert len(split_parts(message)) == MAX_DEPTH + 1
    wide = b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 10_000
    assert len(split_parts(wide)) <= MAX_PARTS


TEN_MEGABYTES = 10_000_000
HEAD = b"From: MAILER-DAEMON@x.example\nSubject: Undelivered\nReturn-Path: <>\n"
STATUS = b"Content-Type: message/delivery-status\n\nFinal-Recipient: rfc822;a@b.example\nAction: failed\n"

# Worst cases for parts of the parser.
HUGE: dict[str, Callable[[], bytes]] = {
    "one line": lambda: HEAD + b"\n" + b"a" * TEN_MEGABYTES,
    "brackets": lambda: HEAD + b"\n" + b"<" * TEN_MEGABYTES,
    "spaces": lambda: HEAD + b"\n" + b" " * TEN_MEGABYTES,
    "empty lines": lambda: HEAD + b"\n" + b" \n" * (TEN_MEGABYTES // 2),
    "addresses": lambda: HEAD + b"\n" + b"<a@b.example>:\n" * (TEN_MEGABYTES // 15),
    "beginnings of addresses": lambda: HEAD + b"\n" + b"a@" * (TEN_MEGABYTES // 2),
    "open brackets": lambda: HEAD + b"\n" + b"<a@b.example> (" * (TEN_MEGABYTES // 15),
    "headers": lambda: b"a:b\n" * (TEN_MEGABYTES // 4),
    "one header in many lines": lambda: b"a:b\n" + b" c\n" * (TEN_MEGABYTES // 3),
    "parameters": lambda: b'Content-Type: multipart/mixed; x="' + b';"' * (TEN_MEGABYTES // 2),
    "nested": lambda: b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level) for level in range(100_000)
    ),
    "parts": lambda: b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * (TEN_MEGABYTES // 8),
    "groups": lambda: STATUS + b"\nFinal-Recipient: rfc822;a@b.example\nAction: failed\n" * 150_000,
    "a diagnostic": lambda: STATUS + b"Diagnostic-Code: smtp; " + b"mailbox " * (TEN_MEGABYTES // 8),
    "one address with a long text": lambda: (
        HEAD
        + b"Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: text/plain\n\n<a@b.example>:\n"
        + b"the account is a user, not " * 1_000
        + b"\n--b\nContent-Type: message/delivery-status\n\n"
        + b"".join(b"Final-Recipient: rfc822;a@b.example\nStatus: 5.0.0 %d\n\n" % n for n in range(2_000))
    ),
    "many diagnostics": lambda: (
        STATUS
        + b"".join(
            b"\nFinal-Recipient: rfc822;a%d@b.example\nAction: failed\nDiagnostic-Code: %s\n" % (n, b"the user " * 60)
            for n in range(900)
        )
    ),
    "a status": lambda: STATUS + b"Status: " + b"5.1" * (TEN_MEGABYTES // 3),
    "json": lambda: HEAD + b"\n" + b'{"a":' * (TEN_MEGABYTES // 5),
    "base64": lambda: HEAD + b"Content-Transfer-Encoding: base64\n\n" + b"QUFB=" * (TEN_MEGABYTES // 5),
    "markup": lambda: HEAD + b"Content-Type: text/html\n\n" + b"<a " * (TEN_MEGABYTES // 3),
}


@pytest.mark.parametrize("what", HUGE)
def test_ten_megabytes_are_parsed_quickly(what: str) -> None:
    message = HUGE[what]()
    began = time.process_time()  # CPU time, because the machine may be busy
    assert isinstance(parse_bounce_mail(message), PARSED_TYPES)
    assert time.process_time() - began < 3


@pytest.mark.parametrize("word", [b"x", b"(", b"=?", b"x@"])
def test_long_senders_are_parsed_quickly(word: bytes) -> None:
    message = b"From: %b\nReturn-Path: %b\nSubject: x\n\nHi\n" % (word * 4_000, word * 4_000)
    parse_bounce_mail(message)  # Compiles the expressions.
    began = time.process_time()
    parse_bounce_mail(message)
    assert time.process_time() - began < 0.3
