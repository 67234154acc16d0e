"""Parsing replies: independent of chunking, with bounded memory."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.providers.smtp.replies import MAX_LINE_BYTES, MAX_LINES, GarbledReply, ReplyReader, SmtpReply

DIALOGUE = (
    b"220 hi\r\n250-one\r\n250-two\r\n250 three\r\n354\r\n250 2.0.0 Ok: queued as X\r\n550-5.1.1 no\n550 5.1.1 one\n"
)
REPLIES = [
    (220, "hi"),
    (250, "one two three"),
    (354, ""),
    (250, "2.0.0 Ok: queued as X"),
    (550, "5.1.1 no 5.1.1 one"),
]


@given(st.lists(st.integers(0, len(DIALOGUE)), max_size=20).map(sorted))
def test_replies_do_not_depend_on_chunking(cuts: list[int]) -> None:
    reader = ReplyReader()
    edges = [0, *cuts, len(DIALOGUE)]
    pieces = [DIALOGUE[start:end] for start, end in pairwise(edges)]
    replies = [reply for piece in pieces for reply in reader.feed(piece)]
    assert [(reply.code, reply.text) for reply in replies] == REPLIES
    assert reader.is_empty


@pytest.mark.parametrize(
    "garbage",
    [b"hello\r\n", b"25\r\n", b"\r\n", b"2 5 ok\r\n", b"250_ok\r\n", b"250-a\r\n550 b\r\n", b"\xff\xfe\xfd ok\r\n"],
)
def test_invalid_bytes_are_garbled(garbage: bytes) -> None:
    with pytest.raises(GarbledReply):
        list(ReplyReader().feed(garbage))


def test_complete_replies_before_garbage_are_returned() -> None:
    replies = ReplyReader().feed(b"250 ok\r\ngarbage\r\n")
    assert next(replies).code == 250
    with pytest.raises(GarbledReply):
        next(replies)


def test_endless_line_is_rejected() -> None:
    reader = ReplyReader()
    list(reader.feed(b"2" * MAX_LINE_BYTES))
    with pytest.raises(GarbledReply):
        list(reader.feed(b"2"))


def test_endless_reply_is_rejected() -> None:
    reader = ReplyReader()
    list(reader.feed(b"250-more\r\n" * (MAX_LINES - 1)))
    with pytest.raises(GarbledReply):
        list(reader.feed(b"250-more\r\n"))


@pytest.mark.parametrize(
    ("line", "queue_id"),
    [
        (b"2.0.0 Ok: queued as 4XyZ1a2B", "4XyZ1a2B"),
        (b"Ok: queued as <4XyZ>", "4XyZ"),
        (b"OK id=1rXyZ2-0001aB-3c", "1rXyZ2-0001aB-3c"),
        (b"2.0.0 3AB12cd Message accepted for delivery", "3AB12cd"),
        (b"Ok 0102018ab-1234-5678-9abc-def012345678-000000\r", "0102018ab-1234-5678-9abc-def012345678-000000"),
        (b"2.6.0 delivered somehow\r", "2.6.0 delivered somehow"),
        (b"x" * 400, "x" * 200),
    ],
)
def test_queue_id_is_found_in_replies(line: bytes, queue_id: str) -> None:
    assert SmtpReply(250, [line]).queue_id == queue_id


def test_readable_text_is_clean_and_short() -> None:
    assert SmtpReply(550, [b"5.1.1 a\x1b[31m\0b\r", b"\xe2\x80\xa8c\xff"]).text == "5.1.1 a [31m b c\ufffd"
    assert len(SmtpReply(550, [b"x" * 4_000]).text) == 500
