"""Tracked links in emails: what is replaced, and what stays as the author wrote it."""

import re
import time
from html.entities import html5
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from mailwright.content.attribute_entities import unescape_attribute
from mailwright.content.headers import Mailbox
from mailwright.content.layout import Layout, RecipientHeaders, SharedHeaders
from mailwright.content.tracked_links import (
    LinkRewriter,
    TrackedRecipient,
    add_parameters,
    find_hrefs,
    fixed_urls,
    replace_hrefs,
    url_of,
    with_pixel,
)
from mailwright.domain.clock import DAY
from mailwright.domain.tracking_tokens import TrackingTokens, link_id_of
from mailwright.pipeline.tracking import CampaignTokens
from tests.tracking import html_of, links_of, text_of

TOKENS = TrackingTokens("s" * 32)
OUTBOX_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
ANN = RecipientHeaders(Mailbox("ann@example.com"), "<1@example.com>", 0, OUTBOX_ID)
TRACKED = TrackedRecipient(OUTBOX_ID, TOKENS.recipient(OUTBOX_ID))
SHARED = SharedHeaders(Mailbox("shop@example.com"))
OWN = ("https://mail.example/unsubscribe", "https://mail.example/t/")


def a_rewriter(html: str, *, is_individual: bool = True) -> LinkRewriter:
    fixed = {url: TOKENS.link(1, 7, link_id_of(1, url)) for url in fixed_urls(html, OWN)}
    tokens = CampaignTokens(TOKENS, 1, 7)
    return LinkRewriter("https://mail.example/t/", tokens, fixed, own_pages=OWN, is_individual=is_individual)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://a.example/x.", "See https://a.example/x?u=n."),
        ("(https://a.example/x)(https://b.example/?a#b)", "(https://a.example/x?u=n)(https://b.example/?a&u=n#b)"),
        ("<https://a.example/wiki/Tea_(drink)>", "<https://a.example/wiki/Tea_(drink)?u=n>"),
        ("HTTPS://a.example/?u=own a@a.example https:// [1]", None),
        ("https://mail.example/unsubscribe?token=1", None),
        ("https://[shop]/ 「https://a.example/」", "https://[shop]/?u=n 「https://a.example/?u=n」"),
        ("{{ name }}, {{ link }}! https://a.example/{{ name }}?b", "Ann, https://a.example/?c&u=n#d! https://a.example/Ann?b&u=n"),
        ("{{ unsubscribe_url }}, https://a.example/?to={{ unsubscribe_url }}", "https://own.example/leave, https://a.example/?to=https://own.example/leave&u=n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_flat", [True, False], ids=["flat", "with conditions"])
def test_parameters_are_added_to_links_of_the_text(text: str, expected: str | None, is_flat: bool) -> None:
    links = LinkRewriter("", None, {}, parameters={"u": "n"}, own_pages=OWN, is_individual=False)
    source = text if is_flat else f"{{% if name %}}{text}{{% endif %}}"
    values = {"name": "Ann", "link": "https://a.example/?c#d", "unsubscribe_url": "https://own.example/leave"}
    for html in ("<p>x</p>", None):
        layout = Layout.compile(SHARED, subject="News", html=html, text=source, links=links)
        assert text_of(layout.fill(ANN, values)).strip() == (expected or text)


def test_links_of_vml_buttons_are_replaced() -> None:
    button = '<v:roundrect xmlns:v="urn:x" href="https://a.example/" arcsize="4%"><center>Show</center></v:roundrect>'
    html = f"<!--[if mso]>{button}<v:rect href='https://b.example/'/><v:recticle><![endif]-->"
    assert [href.value for href in find_hrefs(html)] == ["https://a.example/", "https://b.example/"]


def tracked_email(html: str, **values: object) -> bytes:
    layout = Layout.compile(SHARED, subject="News", html=html, links=a_rewriter(html))
    return layout.fill(ANN, values, tracked=TRACKED)


def target_of(link: str) -> str | None:
    return TOKENS.parse(link.removeprefix("https://mail.example/t/"), DAY).url


@pytest.mark.parametrize(
    "untouched",
    [
        "mailto:ann@example.com?subject=Hi",
        "tel:+351123456",
        "sms:123",
        "#top",
        "/relative",
        "//host.example/",
        "cid:logo",
        "https://",
        "https://mail.example/unsubscribe?token=1",
        "",
    ],
)
def test_other_links_stay(untouched: str) -> None:
    html = f'<p><a href="{untouched}">x</a></p>'
    assert links_of(tracked_email(html)) == [untouched]


@pytest.mark.parametrize(
    "tag",
    [
        '<a href="{}">',
        "<a href='{}'>",
        "<a href={}>",
        '<A class="x" HREF = "{}" target=_blank>',
        '<area shape="rect" href="{}">',
        '<a\n  title="a > b"\n  href="  {}\n">',
    ],
)
def test_every_spelling_of_a_link_is_found(tag: str) -> None:
    html = f"<p>{tag.format('https://shop.example/a')}x</a></p>"
    assert [url_of(href.value) for href in find_hrefs(html)] == ["https://shop.example/a"]


@pytest.mark.parametrize("html", ['<a href="https://a.example', "<a href=>x</a>", "<abbr href='https://a.example'>"])
def test_unreadable_tags_are_left_out(html: str) -> None:
    assert list(find_hrefs(html)) == []


def test_many_unclosed_quotes_take_linear_time() -> None:
    def seconds(count: int) -> float:
        html = '<a title="' * count
        begins = time.process_time()
        list(find_hrefs(html))
        return time.process_time() - begins

    assert seconds(40_000) < 200 * max(seconds(1_000), 0.001)


def test_only_links_change_in_the_html() -> None:
    html = '<p>a &amp; <a class="b" href="https://shop.example/?x=1&amp;y=2#z">é</a> {{ name }}</p>'
    found = html_of(tracked_email(html, name="Ann")).rstrip("\n")
    without = re.sub(r'href="[^"]*"', 'href=""', re.sub("<img[^>]*>", "", found))
    assert without == '<p>a &amp; <a class="b" href="">é</a> Ann</p>'


def test_text_part_keeps_the_links_of_the_author() -> None:
    content = tracked_email('<p><a href="https://shop.example/a">Offers</a></p>')
    text = content.split(b"text/html")[0]
    assert b"https://shop.example/a" in text
    assert b"/t/" not in text


@pytest.mark.parametrize("url", ["{{ url }}", "https://shop.example/{{ city }}", " {{ url }}#x"])
def test_values_in_links_reach_their_target(url: str) -> None:
    values = {"url": "https://a.example/?q=1&r=ü", "city": "São Paulo"}
    link = links_of(tracked_email(f'<p><a href="{url}">x</a></p>', **values))[0]
    expected = re.sub(r"\{\{ (\w+) \}\}", lambda name: values[name[1]], url.strip())
    assert target_of(link) == expected


def test_value_that_is_no_web_address_stays() -> None:
    assert links_of(tracked_email('<p><a href="{{ url }}">x</a></p>', url="mailto:a@b.example")) == [
        "mailto:a@b.example"
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["https://a.example/x", "https://b.example/?y=1#z", "tel:1", "#a"]), max_size=8))
def test_fast_and_rendered_layouts_track_the_same_links(urls: list[str]) -> None:
    html = "<p>{{ name }}</p>" + "".join(f'<a href="{url}">x</a>' for url in urls)
    fast = links_of(tracked_email(html, name="Ann"))
    rendered = links_of(tracked_email(f"{{% if name %}}{html}{{% endif %}}", name="Ann"))
    assert fast == rendered


def test_replacing_keeps_the_order_of_pieces() -> None:
    html = "".join(f'<a href="https://a.example/{number}">{number}</a>' for number in range(5))
    replaced = replace_hrefs(html, lambda url: url[-1])
    positions = [replaced.index(f'href="{number}"') for number in range(5)]
    assert all(first < second for first, second in pairwise(positions))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example", "https://a.example?utm_source=n"),
        ("https://a.example/?", "https://a.example/?utm_source=n"),
        ("https://a.example/?b=%20c#d", "https://a.example/?b=%20c&utm_source=n#d"),
        ("https://a.example/?utm_source=own", "https://a.example/?utm_source=own"),
    ],
)
def test_parameters_are_added_without_other_changes(url: str, expected: str) -> None:
    assert add_parameters(url, {"utm_source": "n"}) == expected


def browser_value(value: str) -> str | None:
    found = LexborHTMLParser(f'<a href="{value}">x</a>').css_first("a")
    return None if found is None else found.attributes["href"]


def test_entities_in_attributes_are_resolved_as_in_browsers() -> None:
    names = {name.removesuffix(";") for name in html5}
    numbers = ["#106", "#x6A", "#X6a", "#128", "#y"]
    values = [
        f"https://a.example/?q=1&{name}{after}"
        for name in [*names, *numbers]
        for after in ("=1", "x", "1", ";", ";=1", "", " ", "&b=2", "_", "é", "-")
    ]
    assert [value for value in values if unescape_attribute(value) != browser_value(value)] == []


@pytest.mark.parametrize("wrapper", ["{}", "{{% if name %}}{}{{% endif %}}"])
@pytest.mark.parametrize(
    "query", ["region=eu&currency=usd", "a=1&amp;copy=2&amp;section=3", "a=&amp;amp;b", "a=1&copy;"]
)
def test_links_with_values_lead_where_the_browser_would(wrapper: str, query: str) -> None:
    html = f'<p>{{{{ name }}}} <a href="https://a.example/?n={{{{ name }}}}&amp;{query}">x</a></p>'
    name = "A&lt;&copy=1"
    link = links_of(tracked_email(wrapper.format(html), name=name))[0]
    assert target_of(link) == f"https://a.example/?n={name}&{browser_value(query)}"


@pytest.mark.parametrize(
    "tag",
    [
        """<a title='see <a href="https://q.example/">' href="https://x.example/">""",
        """<a href="https://x.example/" title='see <a href="https://q.example/">'>""",
        """<a href="https://x.example/" href="https://q.example/">""",
    ],
)
def test_tag_inside_an_attribute_is_no_link(tag: str) -> None:
    assert (
        replace_hrefs(f"<p>{tag}x</a></p>", lambda _: "NEW")
        == f"<p>{tag.replace('https://x.example/', 'NEW')}x</a></p>"
    )


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>a</p>", "<p>a</p>@"),
        ("<body>a</body></html>", "<body>a@</body></html>"),
        ("<body>a</body><!-- </body> -->", "<body>a@</body><!-- </body> -->"),
        ("<body>a<!-- </body> -->b", "<body>a<!-- </body> -->b@"),
        ("<body>a<!-- unclosed </body>", "<body>a@<!-- unclosed </body>"),
        ("<!--><body>a</BODY >", "<!--><body>a@</BODY >"),
    ],
)
def test_pixel_is_never_inside_a_comment(html: str, expected: str) -> None:
    assert re.sub("<img[^>]*>", "@", with_pixel(html, "https://mail.example/t/1")) == expected
