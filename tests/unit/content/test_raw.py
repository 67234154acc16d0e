"""The headers of a raw email are read in bounded time."""

import pytest

from mailwright.content.raw import MAX_SUBJECT, InvalidEmail, RawEmail, parse_raw
from mailwright.domain.encoded_words import MAX_LENGTH


def an_email(head: bytes) -> RawEmail:
    return parse_raw(head + b"\r\n\r\nHello\r\n")


def test_only_the_start_of_a_long_subject_is_decoded() -> None:
    word = b"=?utf-8?q?a?="
    email = an_email(b"Subject: " + b"\r\n ".join([word * 70] * 270))
    assert 0 < len(email.subject) <= MAX_LENGTH // len(word)
    assert len(an_email(b"Subject: " + b"\r\n ".join([b"x" * 900] * 9)).subject) == MAX_SUBJECT


def test_cut_subject_ends_with_a_whole_word() -> None:
    email = an_email(b"Subject: " + b"\r\n ".join([b"=?utf-8?b?5pel5pys?="] * 1000))
    assert set(email.subject) == set("日本")


@pytest.mark.parametrize("name", ["From", "To"])
def test_long_address_headers_are_refused_before_parsing(name: str) -> None:
    boxes = b",\r\n ".join([b"=?utf-8?q?a?= <u%d@example.com>" % number for number in range(6_500)])
    email = an_email(name.encode() + b": " + boxes)
    with pytest.raises(InvalidEmail, match="longer than"):
        _ = email.sender if name == "From" else email.recipients
