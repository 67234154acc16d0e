"""Hard or soft bounces, by enhanced status and then by text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.bounce import BounceKind, classify_bounce

HARD, SOFT = BounceKind.HARD, BounceKind.SOFT

pytestmark = pytest.mark.promise("bounce-hard-or-soft")


@pytest.mark.parametrize("status", ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1", "5.4.4", "5.4.310"])
def test_dead_address_is_hard(status: str) -> None:
    assert classify_bounce(status, 550, "") is HARD


@pytest.mark.parametrize(
    "status",
    [
        *("5.1.4", "5.1.7", "5.1.8", "5.1.9", "5.1.11", "5.2.2", "5.2.3", "5.2.4", "5.3.2", "5.3.4", "5.4.6", "5.4.7"),
        *(
            "5.6.0",
            "5.6.1",
            "5.7.0",
            "5.7.1",
            "5.7.26",
            "5.7.515",
            "4.2.1",
            "4.2.2",
            "4.3.0",
            "4.4.1",
            "4.4.7",
            "4.7.1",
        ),
    ],
)
def test_status_not_about_address_is_soft(status: str) -> None:
    assert classify_bounce(status, 550, "refused") is SOFT


@pytest.mark.promise("bounce-words-first")
@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        ("5.7.1", "nonexistent user", HARD),
        ("5.7.1", "Recipient unknown", HARD),
        ("5.1.351", "Remote server returned unknown recipient or mailbox unavailable", HARD),
        ("5.3.0", "Unrouteable address", HARD),
        ("5.7.27", "The domain has a null MX", HARD),
        ("5.4.7", "No MX record found for domain", HARD),
        ("5.7.0", "User ann (ann@reader.example) not listed in Domino Directory", HARD),
        ("4.7.1", "user unknown", HARD),
        ("4.4.4", "host or domain name not found", SOFT),  # the name servers may return
        ("5.1.1", "5.7.1 Service unavailable; client host blacklisted, see spamhaus.org", SOFT),
        ("5.1.1", "rate limit exceeded", SOFT),
        ("5.1.2", "IP has been blocked", SOFT),
        ("5.2.1", "too many messages", SOFT),
        ("5.1.1", "user unknown, see https://spam.example/why", HARD),  # the code decides between contradicting words
        ("5.0.0", "user unknown, or blocked by our spam filter", SOFT),
    ],
)
def test_explicit_words_outrank_the_code(status: str, text: str, kind: BounceKind) -> None:
    assert classify_bounce(status, 550, text) is kind


@pytest.mark.parametrize("status", [None, "5.0.0", "5.1.0", "5.2.0", "5.3.0", "5.4.1", "5.5.0", "5.5.1"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("User unknown", HARD),
        ("Unknown  user\n ann", HARD),
        ("No such user here", HARD),
        ("mailbox unavailable", HARD),
        ("The account you tried to reach does not exist", HARD),
        ("Sorry, no mailbox here by that name", HARD),
        ("recipient not found", HARD),
        ("Host or domain name not found", HARD),
        ("the domain returned Null MX", HARD),
        ("Почтовый ящик не существует", HARD),
        ("usuário inexistente", HARD),
        ("Host not found, try again", SOFT),
        ("user unknown; mailbox full", SOFT),
        ("unknown user, or blocked by our spam filter", SOFT),
        ("sender address does not exist", SOFT),
        ("domain does not exist: SPF failed", SOFT),
        ("Transaction failed", SOFT),
        ("", SOFT),
    ],
)
def test_text_decides_without_specific_status(status: str | None, text: str, kind: BounceKind) -> None:
    assert classify_bounce(status, 550, text) is kind


def test_temporary_code_is_soft_except_unknown_user() -> None:
    assert classify_bounce(None, 450, "refused") is SOFT
    assert classify_bounce("4.0.0", 450, "refused") is SOFT
    assert classify_bounce("4.1.1", 450, "user unknown") is HARD
    assert classify_bounce("4.1.1", 450, "greylisted") is SOFT


def test_some_phrases_count_with_one_code_only() -> None:
    assert classify_bounce("5.2.1", 550, "The user is receiving mail at a rate that prevents more") is SOFT
    assert classify_bounce("5.1.1", 550, "mailbox is full") is SOFT
    assert classify_bounce("5.7.1", 550, "No such user!") is HARD
    assert classify_bounce("5.4.1", 550, "Recipient address rejected: Access denied") is HARD
    assert classify_bounce("5.7.1", 550, "Recipient address rejected: Access denied") is SOFT
    assert classify_bounce("5.1.0", 550, "Address rejected") is HARD
    assert classify_bounce("5.1.0", 550, "Sender address rejected") is SOFT
    assert classify_bounce("5.0.0", 550, "Address rejected") is SOFT


@given(st.none() | st.text(max_size=12), st.none() | st.integers(), st.text())
def test_any_input_has_a_kind(status: str | None, reply_code: int | None, text: str) -> None:
    assert classify_bounce(status, reply_code, text) in BounceKind


def test_long_text_is_read_up_to_limit() -> None:
    assert classify_bounce(None, 550, "x " * 5_000_000 + "user unknown") is SOFT
