import hashlib
import hmac
import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.unsubscribe_tokens import (
    InvalidToken,
    TokenPayload,
    UnsubscribeTokens,
    parse_amazonsender_token,
)

TOKENS = UnsubscribeTokens("a secret")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def made_by_hand(payload: bytes, secret: str = "a secret") -> str:
    signature = hmac.new(secret.encode(), payload, hashlib.sha256).digest()
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in (payload, signature))


@given(TEXT, TEXT, st.sampled_from(["a secret", "s" * 64, "s" * 65, "é" * 200]))
def test_token_is_signed_compact_json(email: str, list_key: str, secret: str) -> None:
    tokens = UnsubscribeTokens(secret)
    payload = json.dumps({"email": email, "list_key": list_key}, ensure_ascii=False, separators=(",", ":"))
    token = tokens.make(email, list_key)
    assert token == made_by_hand(payload.encode(), secret)
    assert tokens.parse(token) == TokenPayload(email, list_key)


# Computed with the crypto module of Node, which AmazonSender uses.
OLD_SECRET = "a-secret-of-amazonsender"
OLD_TOKENS = {
    "ada.lovelace@example.com": "YWRhLmxvdmVsYWNlQGV4YW1wbGUuY29t.h3ijnonwSl1o2gWRBmrrYfwsFA6N6QU5hU9A0RHiKGc",
    "jürgen+x@bücher.example": "asO8cmdlbit4QGLDvGNoZXIuZXhhbXBsZQ.qqDArLpgdjWsfH2oKIEpnUv-8x7Ka6l5ptBtGswWObc",
}


@pytest.mark.parametrize("email", OLD_TOKENS)
def test_token_of_amazonsender_names_its_address(email: str) -> None:
    token = OLD_TOKENS[email]
    assert parse_amazonsender_token(token, ["other", OLD_SECRET]) == TokenPayload(email, "general")
    for wrong in (
        token[:-1],
        f"{token}A",
        f"x{token}",
        f"{token}=",
        token.replace(".", "..", 1),
        token.swapcase(),
        "",
        ".",
    ):
        with pytest.raises(InvalidToken):
            parse_amazonsender_token(wrong, [OLD_SECRET])
    for secrets in ([], ["other"]):
        with pytest.raises(InvalidToken):
            parse_amazonsender_token(token, secrets)


@given(TEXT, TEXT)
def test_payload_may_have_its_complete_padding(email: str, list_key: str) -> None:
    payload, _, signature = TOKENS.make(email, list_key).partition(".")
    padding = "=" * (-len(payload) % 4)
    assert TOKENS.parse(f"{payload}{padding}.{signature}") == TokenPayload(email, list_key)
    wrong = {f"{payload}{'=' * count}.{signature}" for count in range(1, 6) if count != len(padding)}
    wrong |= {f"{payload}{padding}.{signature}=", f"={payload}.{signature}", f"{payload}.={signature}"}
    for token in wrong:
        with pytest.raises(InvalidToken):
            TOKENS.parse(token)


def test_padded_token_of_amazonsender_names_its_address() -> None:
    email = "jürgen+x@bücher.example"
    payload, _, signature = OLD_TOKENS[email].partition(".")
    padded = f"{payload}=="
    over_padding = hmac.new(OLD_SECRET.encode(), padded.encode(), hashlib.sha256).digest()
    for sign in (signature, urlsafe_b64encode(over_padding).rstrip(b"=").decode()):
        assert parse_amazonsender_token(f"{padded}.{sign}", [OLD_SECRET]) == TokenPayload(email, "general")
    for wrong in (f"{payload}=.{signature}", f"{payload}===.{signature}", f"{padded}.{signature}="):
        with pytest.raises(InvalidToken):
            parse_amazonsender_token(wrong, [OLD_SECRET])


@given(TEXT, TEXT)
def test_no_token_is_valid_in_both_formats(email: str, list_key: str) -> None:
    ours = UnsubscribeTokens(OLD_SECRET).make(email, list_key)
    payload = json.dumps({"email": email, "list_key": list_key}, ensure_ascii=False, separators=(",", ":"))
    for token in (ours, f"{payload}.{ours.partition('.')[2]}"):
        with pytest.raises(InvalidToken):
            parse_amazonsender_token(token, [OLD_SECRET])
    for token in OLD_TOKENS.values():
        with pytest.raises(InvalidToken):
            UnsubscribeTokens(OLD_SECRET).parse(token)


def test_token_of_a_retired_secret_stays_valid() -> None:
    old, new = UnsubscribeTokens("old"), UnsubscribeTokens("new", "old")
    assert new.parse(old.make("jane@example.org")) == TokenPayload("jane@example.org", "general")
    assert new.make("jane@example.org") != old.make("jane@example.org")
    with pytest.raises(InvalidToken):
        old.parse(new.make("jane@example.org"))


@given(st.integers(min_value=0), st.characters(min_codepoint=33, max_codepoint=126))
def test_changed_token_is_refused(position: int, character: str) -> None:
    token = TOKENS.make("jane@example.org", "weekly")
    position %= len(token)
    changed = token[:position] + character + token[position + 1 :]
    if changed != token:
        with pytest.raises(InvalidToken):
            TOKENS.parse(changed)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"list_key":"weekly","email":"jane@example.org"}',
        b'{"email": "jane@example.org","list_key":"weekly"}',
        b'{ "email" : "jane@example.org", "list_key" : "weekly" }\n',
        b'{"email":"jane@example.org","list_key":"weekly","more":1}',
        b'{"email":"\\u006aane@example.org","list_key":"weekly"}',
    ],
)
def test_signed_payload_is_accepted_in_any_spelling(payload: bytes) -> None:
    token = made_by_hand(payload)
    assert TOKENS.parse(token) == TokenPayload("jane@example.org", "weekly")
    with pytest.raises(InvalidToken):
        TOKENS.parse(made_by_hand(payload, "another secret"))
    other = made_by_hand(payload + b" ")
    with pytest.raises(InvalidToken):
        TOKENS.parse(f"{token.partition('.')[0]}.{other.partition('.')[2]}")


@pytest.mark.parametrize(
    "payload", [b'{"email":"jane@example.org"}', b'{"email":1,"list_key":"weekly"}', b"[]", b"null", b"\xff", b""]
)
def test_signed_payload_without_address_or_list_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.parse(made_by_hand(payload))


@pytest.mark.parametrize("change", ["{}=", "{}==", " {}", "{}\n", "{}.", "{}.x", "{}ж", "{}" + "A" * 5000])
def test_token_with_padding_is_refused(change: str) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.parse(change.format(TOKENS.make("jane@example.org")))


@given(st.text(max_size=100))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        TOKENS.parse(text)


def test_an_empty_secret_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationInvalid):
        UnsubscribeTokens("")


def test_only_the_first_tenant_signs_with_plain_secret() -> None:
    assert TOKENS.for_tenant(1).make("jane@example.org") == TOKENS.make("jane@example.org")
    created = {TOKENS.for_tenant(tenant).make("jane@example.org") for tenant in (1, 2, 3, 12)}
    assert len(created) == 4
    for tenant in (2, 3, 12):
        token = TOKENS.for_tenant(tenant).make("jane@example.org")
        assert TOKENS.for_tenant(tenant).parse(token) == TokenPayload("jane@example.org", "general")
        for stranger in {1, 2, 3, 12} - {tenant}:
            with pytest.raises(InvalidToken):
                TOKENS.for_tenant(stranger).parse(token)


@pytest.mark.parametrize("tenant", [1, 2])
def test_resubscribe_and_unsubscribe_tokens_differ(tenant: int) -> None:
    tokens = TOKENS.for_tenant(tenant)
    back = tokens.for_resubscribe().make("jane@example.org", "weekly")
    assert tokens.for_resubscribe().parse(back) == TokenPayload("jane@example.org", "weekly")
    with pytest.raises(InvalidToken):
        tokens.parse(back)
    with pytest.raises(InvalidToken):
        tokens.for_resubscribe().parse(tokens.make("jane@example.org", "weekly"))


def test_tenant_links_of_retired_secrets_stay_valid() -> None:
    old, new = UnsubscribeTokens("old").for_tenant(2), UnsubscribeTokens("new", "old").for_tenant(2)
    assert new.parse(old.make("jane@example.org")) == TokenPayload("jane@example.org", "general")
    assert new.for_resubscribe().parse(old.for_resubscribe().make("jane@example.org")) == TokenPayload(
        "jane@example.org", "general"
    )


def test_signature_is_never_a_secret_for_another_purpose() -> None:
    """Every signed payload begins with a brace, and no purpose does."""
    signature = TOKENS.make("jane@example.org").partition(".")[2]
    with pytest.raises(InvalidToken):
        TOKENS.for_tenant(2).parse(UnsubscribeTokens(signature).make("jane@example.org"))
