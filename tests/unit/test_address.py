"""Addresses: one parser, one normal form, linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain import address
from mailwright.domain.address import InvalidAddress


def is_valid(text: str) -> bool:
    try:
        address.parse(text)
    except InvalidAddress:
        return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "a@example.com",
        "first.last+tag@sub.example.co.uk",
        "o'hara@example.ie",
        "имя@пример.рф",
        "a@bücher.example",
        f"{'a' * 64}@example.com",
        f"a@{'b' * 63}.example",
    ],
)
def test_valid_addresses_are_accepted(text: str) -> None:
    assert is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "a",
        "a@",
        "@example.com",
        "a@example",
        "a@localhost",
        "a@127.0.0.1",
        "a@10.1",
        "a@example.1",
        "a@１２７.０.０.１",
        "a@[127.0.0.1]",
        "a@[IPv6:::1]",
        "a@.com",
        "a@example..com",
        "a@example.com.",
        "a@bücher.example.",
        "a@bücher.example\u3002",
        "a@-example.com",
        "a@example-.com",
        "a@exa mple.com",
        "a@exa_mple.com",
        ".a@example.com",
        "a.@example.com",
        "a..b@example.com",
        "a b@example.com",
        'a"b@example.com',
        "a,b@example.com",
        "a@b@example.com",
        "<a@example.com>",
        "a@example.com\r\nBcc: b@example.com",
        "a\n@example.com",
        "a\x00@example.com",
        "a\u2028@example.com",
        "a\u00a0b@example.com",
        f"{'a' * 65}@example.com",
        f"a@{'b' * 64}.example",
        f"a@{'b.' * 130}example",
    ],
)
def test_invalid_addresses_are_rejected(text: str) -> None:
    assert not is_valid(text)


def test_spellings_of_an_address_have_one_normal_form() -> None:
    spellings = [
        "Anna@Bücher.Example",
        "anna@BÜCHER.example",
        "ANNA@xn--bcher-kva.example",
        "anna@xn--bcher-KVA.EXAMPLE",
    ]
    assert {address.normal(spelling) for spelling in spellings} == {"anna@xn--bcher-kva.example"}


def test_only_ascii_letters_are_folded_before_the_at_sign() -> None:
    assert address.normal("KEVIN@example.com") == "kevin@example.com"
    for lookalike in ("\u212aevin@example.com", "kev\u0130n@example.com", "\u017fam@example.com"):
        assert not address.normal(lookalike).isascii()
        assert address.normal(lookalike) == lookalike
    assert address.normal("kevin@\u212aevin.example") == "kevin@kevin.example"  # IDNA maps domains


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a@example.com", (None, "a@example.com")),
        (" <a@example.com> ", (None, "a@example.com")),
        ("Jane Doe <a@example.com>", ("Jane Doe", "a@example.com")),
        ('ООО "Ромашка" <a@example.com>', ('ООО "Ромашка"', "a@example.com")),
        ('"Ромашка" ООО <a@example.com>', ('"Ромашка" ООО', "a@example.com")),
        ('"Doe, Jane" <a@example.com>', ("Doe, Jane", "a@example.com")),
        (r'"Jane \"JD\" Doe" <a@example.com>', ('Jane "JD" Doe', "a@example.com")),
        (r'"back\\slash" <a@example.com>', ("back\\slash", "a@example.com")),
        ('"A" "B" <a@example.com>', ('"A" "B"', "a@example.com")),
        ("a < b <a@example.com>", ("a < b", "a@example.com")),
        ('"" <a@example.com>', (None, "a@example.com")),
    ],
)
def test_mailbox_is_split_into_name_and_address(text: str, expected: tuple[str | None, str]) -> None:
    assert address.split_mailbox(text) == expected


@given(NAMES)
def test_any_display_name_survives_formatting(name: str) -> None:
    text = address.format_mailbox(name.strip(), "a@example.com")
    assert address.split_mailbox(text) == (name.strip() or None, "a@example.com")


def test_envelope_keeps_the_local_part_unchanged() -> None:
    assert address.deliverable("Anna@Bücher.Example") == "Anna@xn--bcher-kva.example"


@given(st.text(max_size=80) | st.emails() | st.from_regex(r"[\w.+-]{1,20}@[\w.-]{1,30}", fullmatch=True))
def test_normal_form_is_valid_and_stable(text: str) -> None:
    try:
        normal = address.normal(text)
    except InvalidAddress:
        return
    assert address.normal(normal) == normal
    local, domain = address.parse(address.deliverable(text))
    assert domain.isascii()
    assert domain == domain.lower()
    assert not any(character in local + domain for character in '\r\n\x00<>(),;:\\"[] \t')


@given(st.text(alphabet="a.@-", min_size=255, max_size=4_000))
def test_too_long_address_is_rejected_first(text: str) -> None:
    with pytest.raises(InvalidAddress, match="longer than 254"):
        address.parse(text)


@pytest.mark.promise("logs-no-secret")
@given(st.emails())
def test_masked_address_shows_two_letters_and_the_suffix(email: str) -> None:
    masked = address.mask(email)
    local, _, domain = email.rpartition("@")
    assert masked.startswith(f"{local[0]}***@{domain[0]}***")
    assert len(local) < 2 or local not in masked.replace("***", "")
    assert address.mask("anna@example.com") == "a***@e***.com"
    assert address.mask("no address") == "***"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ada@xn--bcher-kva.example", "ada@bücher.example"),
        ("Ada <ada@news.xn--bcher-kva.example>, bob@example.com", "Ada <ada@news.bücher.example>, bob@example.com"),
        ("xn--bcher-kva.example", "bücher.example"),
        ("xn--bcher-kva@example.com", "xn--bcher-kva@example.com"),  # the part before @ is no domain
        ("ada@xn--a.example", "ada@xn--a.example"),  # not valid
        ("mw._domainkey.xn--bcher-kva.example", "mw._domainkey.xn--bcher-kva.example"),  # the name of a DNS record
        ("ada@example.com", "ada@example.com"),
    ],
)
def test_readable_text_has_unicode_domains(text: str, shown: str) -> None:
    assert address.readable(text) == shown
