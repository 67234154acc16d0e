"""Pre-send checks: errors, warnings, and emails without issues."""

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content import presend_checks as checks
from mailwright.content.presend_checks import (
    CLIPPED_BYTES,
    ISSUE_LEVELS,
    IssueLevel,
    PresendContext,
    PresendIssue,
    links_of,
    run_presend_checks,
)
from mailwright.domain.tracking_tokens import TrackingTokens, link_id_of
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens

FOOTER = '<p><a href="{{ unsubscribe_url }}">Unsubscribe</a> The Workshop, Rua do Ouro 1, 1100-060 Lisboa</p>'


def find_issues(
    html: str = "", *, subject: str = "Autumn at the workshop", text: str | None = None, **facts: Any
) -> list[PresendIssue]:
    return run_presend_checks(
        subject=subject, html=f"<p>Hello</p>{html}{FOOTER}", text=text, context=PresendContext(**facts)
    )


def codes(issues: list[PresendIssue]) -> list[str]:
    return [each.code for each in issues]


def test_good_email_has_no_issues() -> None:
    html = (
        '<h1 id="top">Hello {{ name }}</h1><p>Three <b>new</b> things. <a href="#top">Up</a>'
        '<a href="https://workshop.pt/a?b=1#c">Look</a> <a href="mailto:us@example.com">Write</a>'
        '<a href="{{ shop_url }}">Shop</a><a href="https://example.com/{{ path }}">www.example.com</a></p>'
        '<img src="https://example.com/a.png" alt="A stool"><img src="{{ picture }}" alt="">'
        '{% if sale %}<a href="{% if eu %}https://eu.example.com{% else %}https://example.com{% endif %}">Sale</a>'
        "{% endif %}"
    )
    names = frozenset(["shop_url", "path", "picture", "sale", "eu"])
    assert find_issues(html, subject="Hello {{ name }}", variables=names) == []


@pytest.mark.parametrize(
    ("html", "code"),
    [
        ('<a href="/about">a</a>', "RELATIVE_LINK"),
        ('<a href="www.example.com">a</a>', "RELATIVE_LINK"),
        ('<a href="htp://example.com">a</a>', "BROKEN_LINK"),
        ('<a href="https://">a</a>', "BROKEN_LINK"),
        ('<a href="https://exa mple.com/">a</a>', "BROKEN_LINK"),
        ('<a href="https://example.com:port/">a</a>', "BROKEN_LINK"),
        ('<a href="https://[::1/">a</a>', "BROKEN_LINK"),
        ('<a href="mailto:">a</a>', "BROKEN_LINK"),
        ('<a href="#">a</a>', "EMPTY_LINK"),
        ('<a href="">a</a>', "EMPTY_LINK"),
        ('<a href="http://localhost:8025/a">a</a>', "LOCAL_LINK"),
        ('<a href="http://192.168.1.4/a">a</a>', "LOCAL_LINK"),
        ('<a href="https://bit.ly/abc">a</a>', "SHORTENED_LINK"),
        ('<a href="https://elsewhere.example">www.bank.example</a>', "MISLEADING_LINK"),
        ('<img src="https://example.com/a.png">', "IMAGE_WITHOUT_ALT"),
        ('<img src="http://example.com/a.png" alt="">', "INSECURE_IMAGE"),
        ('<img src="http://127.0.0.1:8025/images/a.png" alt="">', "LOCAL_IMAGE"),
        ('<img src="data:image/png;base64,AAAA" alt="">', "INLINE_IMAGE"),
        ('<img src="logo.png" alt="">', "BROKEN_IMAGE"),
        ('<img alt="">', "BROKEN_IMAGE"),
        ('<img src="https:///a.png" alt="">', "BROKEN_IMAGE"),
        ("<form><input></form>", "UNSUPPORTED_ELEMENT"),
        ("x" * CLIPPED_BYTES, "CLIPPED"),
        ("<p>" + "BUY NOW AND SAVE " * 20 + "</p>", "CAPITALS"),
    ],
)
def test_content_issues_are_found(html: str, code: str) -> None:
    assert codes(find_issues(html)) == [code]


OUTBOX_ID = "0190a6c8-0000-7000-8000-000000000001"
ADDRESS_TOKEN = UnsubscribeTokens("secret").make("u2@example.com", "news")
TRACKING = TrackingTokens("secret")
VIEW_TOKEN = WebViewTokens("secret").make(OUTBOX_ID)
TRACKED = f"{TRACKING.link(20_000, 7, link_id_of(1, 'https://example.com'))}{TRACKING.recipient(OUTBOX_ID)}"
PIXEL = f"{TRACKING.open(20_000, 7)}{TRACKING.recipient(OUTBOX_ID)}"


@pytest.mark.promise("no-foreign-links")
@pytest.mark.parametrize(
    ("link", "advice"),
    [
        (f"https://mail.example.com/unsubscribe?token={ADDRESS_TOKEN}&message={OUTBOX_ID}", "{{ unsubscribe_url }}"),
        (f"https://example.com/leave/?tenant=shop&token={ADDRESS_TOKEN}", "{{ unsubscribe_url }}"),
        (f"https://mail.example.com/preferences?token={ADDRESS_TOKEN}", "{{ preferences_url }}"),
        (f"https://mail.example.com/resubscribe?token={ADDRESS_TOKEN}", "the address"),
        (f"https://mail.example.com/view/{VIEW_TOKEN}", "{{ web_view_url }}"),
        (f"https://links.shop.example/t/{TRACKED}", "the address"),
        (f"https://links.shop.example/t/{PIXEL}", "the address"),
        (f"http://m.example/t/{TRACKING.link(20_000, 7, link_id_of(1, 'x'), is_anonymous=True)}", "the address"),
        (f"http://m.example/t/{TRACKING.personal_link(20_000, 7, OUTBOX_ID, 'https://a.example/?x=1')}", "the address"),
    ],
)
def test_personal_link_of_a_recipient_is_an_error(link: str, advice: str) -> None:
    for issues in (
        find_issues(f'<a href="{escape(link)}">Look</a>'),
        find_issues(f"<table><tr><th style=\"background:url('{link}')\">Look</th></tr></table>"),
        find_issues(text=f"Leave: {link}\n{{{{ unsubscribe_url }}}}"),
    ):
        [found] = [each for each in issues if each.code == "PERSONAL_LINK"]
        assert found.level is IssueLevel.ERROR
        assert advice in found.sentence
        assert ADDRESS_TOKEN not in found.sentence


@pytest.mark.parametrize(
    "link",
    [
        "https://shop.example/unsubscribe?token={{ token }}",
        "https://shop.example/reset?token=abcdefgh.abcdefghijklmnopqrstuvwxyz",
        "https://shop.example/t/shirts",
        f"https://shop.example/t/{'a' * 68}",
        "https://shop.example/view/summer.2026",
        "https://mail.example.com/preferences",
        "https://[broken/unsubscribe?token=a",
    ],
)
def test_link_without_a_personal_token_is_accepted(link: str) -> None:
    assert "PERSONAL_LINK" not in codes(find_issues(f'<a href="{link}">Look</a>'))


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("", ["EMPTY_SUBJECT"]),
        ("x" * 151, ["SUBJECT_TOO_LONG"]),
        ("x" * 71, ["LONG_SUBJECT"]),
        ("x" * 60 + "{{ name }}" * 3, []),
        ("LAST CHANCE TODAY", ["CAPITALS"]),
        ("News from NASA and the BBC", []),
        ("Only today!!", ["EXCLAMATION_MARKS"]),
        ("Re: your order", ["PRETENDED_REPLY"]),
        ("Reasons: three of them", []),
        ("ПОСЛЕДНИЙ ДЕНЬ", ["CAPITALS"]),
        ("{% if a %}", ["INVALID_TEMPLATE"]),
    ],
)
def test_subject_issues_are_found(subject: str, expected: list[str]) -> None:
    assert codes(find_issues(subject=subject)) == expected


def test_missing_unsubscribe_link_is_reported() -> None:
    def of(html: str | None, text: str | None = None, *, is_bulk: bool = True) -> list[tuple[str, str]]:
        facts = PresendContext(is_bulk=is_bulk, postal_address="Street 1")
        return [
            (each.level, each.code) for each in run_presend_checks(subject="a", html=html, text=text, context=facts)
        ]

    assert of("<p>Hello, Street 1</p>") == [("warns", "NO_UNSUBSCRIBE_LINK")]
    assert of("<p>unsubscribe_url, Street 1</p>") == [("warns", "NO_UNSUBSCRIBE_LINK")]
    assert of("<p>Hello</p>", is_bulk=False) == []
    assert of(None, "Hello, Street 1") == [("warns", "NO_UNSUBSCRIBE_LINK")]
    assert of('<p><a href="{{unsubscribe_url}}">Leave</a> Street 1</p>') == []
    assert of("<p>{{ unsubscribe_url }} Street 1</p>", "Hello") == [("warns", "NO_UNSUBSCRIBE_LINK_IN_TEXT")]


@pytest.mark.parametrize(
    ("footer", "setting", "is_reported"),
    [
        ("The Workshop", None, True),
        ("The Workshop, 12 Long Street, London SW1A 1AA", None, False),
        ("Werkstatt GmbH, Weg 3, 10115 Berlin", None, False),
        ("Shop Inc, 5 Main St, Springfield, IL 62701", None, False),
        ("Shop, Rua 1, 1100-060 Lisboa", "Other Street 2", True),
        ("Shop,\n Other   Street 2", "Other Street 2", False),
        ("{{ postal_address }}", "Other Street 2", False),
        ("{{ postal_address }}", None, True),
    ],
)
def test_missing_postal_address_is_reported(footer: str, setting: str | None, is_reported: bool) -> None:
    html = f'<p>Hello <a href="{{{{ unsubscribe_url }}}}">Leave</a></p><p>{footer}</p>'
    issues = run_presend_checks(subject="a", html=html, text=None, context=PresendContext(postal_address=setting))
    assert codes(issues) == (["NO_POSTAL_ADDRESS"] if is_reported else [])


def test_email_of_images_has_no_text() -> None:
    html = '<img src="https://example.com/a.png" alt="">{% if a %}{% endif %}'
    issues = run_presend_checks(subject="a", html=html, text=None, context=PresendContext(is_bulk=False))
    assert codes(issues) == ["EMPTY_TEXT"]
    assert codes(find_issues(text=" \n")) == ["NO_UNSUBSCRIBE_LINK_IN_TEXT", "EMPTY_TEXT"]


def test_variables_without_values_are_listed_with_part() -> None:
    issues = find_issues("{{ first }} {{ second|default('') }}", subject="{{ third }}", variables=frozenset())
    assert [(each.code, each.where, each.sentence.split()[1]) for each in issues] == [
        ("UNKNOWN_VARIABLE", "html", "first"),
        ("UNKNOWN_VARIABLE", "subject", "third"),
    ]
    assert (
        find_issues("{{ first }}", variables=frozenset(["first"])) == find_issues("{{ first }}", variables=None) == []
    )


def test_sender_domain_problems_are_reported() -> None:
    issues = find_issues(sender=("SPF: example.com has no SPF record", "DMARC: _dmarc.example.com does not exist"))
    assert [(each.code, each.where, each.level) for each in issues] == [("SENDER_NOT_TRUSTED", "sender", "warns")] * 2


def test_repeated_issues_are_merged() -> None:
    pictures = "".join(f'<img src="https://example.com/{number}.png">' for number in range(50))
    [issue] = find_issues(pictures)
    assert issue.sentence.endswith("(and 49 more)")


def test_errors_come_before_warnings() -> None:
    levels = [
        each.level for each in find_issues('<img src="https://example.com/a.png"><a href="/x">x</a>', subject="Hello!!")
    ]
    assert levels == sorted(levels)
    assert set(levels) == set(IssueLevel)


def test_every_code_has_a_level_and_is_used() -> None:
    source = Path(checks.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)*)"', source.partition("def run_presend_checks")[2]))
    assert used <= ISSUE_LEVELS.keys()
    # Found by requesting the link, by comparing the schedule with the working hours, and in the blocks of a design.
    elsewhere = {"DEAD_LINK", "OUTSIDE_HOURS", "SAMPLE_TEXT", "BLANK_DESIGN", "BRAND_CHANGED"}
    elsewhere |= {"UNFINISHED_BLOCK", "EMPTY_BLOCK", "EMPTY_HEADER", "LOW_CONTRAST"}
    assert ISSUE_LEVELS.keys() - used == elsewhere


def test_only_links_without_variables_are_checked() -> None:
    html = (
        '<a href="https://a.example/">a</a><a href="https://a.example/">again</a>'
        '<a href="https://b.example/{{ x }}">b</a><a href="mailto:a@example.com">c</a><a href="#d">d</a>'
        '<a href="http://e.example/?q={% if y %}1{% endif %}">e</a>'
    )
    assert links_of(html) == ["https://a.example/"]


@given(
    html=st.text(alphabet=st.sampled_from(list("<>a/\"'= {}%#:hrefimgsrc.\n")), max_size=100),
    subject=st.text(max_size=20),
)
def test_presend_checks_never_fail(html: str, subject: str) -> None:
    for issue in run_presend_checks(
        subject=subject, html=html, text=None, context=PresendContext(variables=frozenset())
    ):
        assert issue.level is ISSUE_LEVELS[issue.code]
