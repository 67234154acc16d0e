"""Tokens of tracked links: short, signed, and worthless when changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.clock import DAY
from mailwright.domain.tracking_tokens import LIFETIME_DAYS, TokenKind, TrackingTokens, link_id_of
from mailwright.domain.unsubscribe_tokens import InvalidToken

TOKENS = TrackingTokens("s" * 32)
OUTBOX_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
LINK_ID = link_id_of(1, "https://a.example/")
TODAY = 20_000
NOW = TODAY * DAY


def test_token_of_a_link_is_short_and_complete() -> None:
    token = TOKENS.link(TODAY, 2**40, LINK_ID) + TOKENS.recipient(OUTBOX_ID)
    assert len(token) == 68
    found = TOKENS.parse(token, NOW)
    assert (found.kind, found.campaign_key, found.link_id) == (TokenKind.LINK, 2**40, LINK_ID)
    assert found.outbox_id == OUTBOX_ID


def test_anonymous_token_contains_no_recipient() -> None:
    for token in (TOKENS.link(TODAY, 7, LINK_ID, is_anonymous=True), TOKENS.open(TODAY, 7, is_anonymous=True)):
        assert TOKENS.parse(token, NOW).outbox_id is None
        with pytest.raises(InvalidToken):
            TOKENS.parse(token + TOKENS.recipient(OUTBOX_ID), NOW)


@given(st.text(max_size=200))
def test_personal_token_returns_its_url(url: str) -> None:
    token = TOKENS.personal_link(TODAY, None, OUTBOX_ID, url.encode("utf-8", "ignore").decode())
    assert TOKENS.parse(token, NOW).url == url.encode("utf-8", "ignore").decode()


@given(st.sampled_from([0, 1, 2, 3]), st.data())
def test_changed_or_cut_token_is_invalid(kind: int, data: st.DataObject) -> None:
    whole = [
        TOKENS.link(TODAY, 7, LINK_ID, is_anonymous=True),
        TOKENS.link(TODAY, 7, LINK_ID) + TOKENS.recipient(OUTBOX_ID),
        TOKENS.open(TODAY, 7) + TOKENS.recipient(OUTBOX_ID),
        TOKENS.personal_link(TODAY, 7, OUTBOX_ID, "https://a.example/abcdefgh"),
    ][kind]
    # The last character of a token with an incomplete group may have unused bits.
    position = data.draw(st.integers(0, len(whole) - 2))
    character = data.draw(st.sampled_from("ABCxyz019-_"))
    changed = whole[:position] + character + whole[position + 1 :]
    if changed != whole:
        with pytest.raises(InvalidToken):
            TOKENS.parse(changed, NOW)
    cut = data.draw(st.integers(0, len(whole) - 2))
    with pytest.raises(InvalidToken):
        TOKENS.parse(whole[:cut], NOW)


def test_token_without_its_recipient_is_invalid() -> None:
    for token in (TOKENS.link(TODAY, 7, LINK_ID), TOKENS.open(TODAY, 7)):
        with pytest.raises(InvalidToken):
            TOKENS.parse(token, NOW)


@given(st.text(max_size=100))
def test_any_other_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.parse(text, NOW)


@pytest.mark.parametrize(
    ("days", "is_valid"), [(-1, True), (0, True), (365, True), (LIFETIME_DAYS + 1, False), (-2, False)]
)
def test_token_has_a_lifetime(days: int, is_valid: bool) -> None:
    token = TOKENS.open(TODAY, 7, is_anonymous=True)
    if is_valid:
        TOKENS.parse(token, (TODAY + days) * DAY)
    else:
        with pytest.raises(InvalidToken):
            TOKENS.parse(token, (TODAY + days) * DAY)


def test_retired_secrets_stay_valid() -> None:
    token = TOKENS.link(TODAY, 7, LINK_ID) + TOKENS.recipient(OUTBOX_ID)
    assert TrackingTokens("n" * 32, "s" * 32).parse(token, NOW).outbox_id == OUTBOX_ID
    with pytest.raises(InvalidToken):
        TrackingTokens("n" * 32).parse(token, NOW)
