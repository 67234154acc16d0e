import re
from html import unescape
from html.entities import html5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content import html, subject, text

ACTIVE = [
    "<script>x</script>",
    "<SCRIPT\n>x",
    "<svg><script>1</script>q</svg>",
    "<svg:script>1</svg:script>q",
    '<a href="javascript:x">q</a>',
    '<a href="JaVaScRiPt:x">q</a>',
    '<a href="java&#9;script:x">q</a>',
    '<a href="java&Tab;&NewLine;script:x">q</a>',
    '<a href="java&#83;cript:x">q</a>',
    "<a href='jav&#x61;script&colon;x'>q</a>",
    '<a href="\x01 java\nscript:x">q</a>',
    "<a href=vbscript:x>q</a>",
    '<a href="data:text/html,x">q</a>',
    '<a href="data:image/svg+xml,x">q</a>',
    '<object data="data:text/html;base64,x">q</object>',
    "<form action=javascript:x>q",
    "<button formaction=javascript:x>q",
    '<img srcset="a.png 1x, javascript:x 2x">',
    '<table background="javascript:x"><tr><td>q',
    '<video poster="javascript:x">',
    '<svg><a xlink:href="javascript:x">q</a></svg>',
    '<math><mi xlink:href="javascript:1">x</mi></math>',
    '<svg><animate values="a;javascript:x" attributeName=href /></svg>',
    '<meta http-equiv=refresh content="0;url=javascript:x">q',
    '<div style="background:url(javascript:x)">q</div>',
    r'<div style="background:url(\6a avascript:x)">q</div>',
    '<style>@import "javascript:x";</style>q',
    '<iframe srcdoc="&lt;script&gt;"></iframe>x',
    "<img src=x onerror=1>",
    "<img/onerror=1 src=x>",
    '<p title="a"onclick=1>q',
    "<p ONCLICK = 1>q",
    "<tr onclick=1><td>x",
    "<template><template><p onclick=1>a</p></template></template>x",
    "<noscript><p onclick=1>a</p></noscript>x",
    "<noscript><style></noscript><img src=x onerror=1></style>x",
    '<style><a title="</style><img src=x onerror=alert(1)>">',
    "<!--[if mso]><p onclick=1>a</p><![endif]-->x",
    'x<!--[if mso]></td><td onclick="a"><![endif]-->',
    "x<!-- <script>old</script> -->",
]
HARMLESS = [
    "x",
    "<p>hi</p>",
    '<img src="data:image/png;base64,xx">',
    '<img src="data:image/svg+xml,x">',
    '<p>&lt;script&gt; and onclick="x" and javascript: rules</p>',
    '<a href="https://example.com" title="JavaScript: the good parts">q</a>',
    "<!--[if mso]><table><tr><td><![endif]--><p>x</p><!--[if mso]></td></tr></table><![endif]-->",
    "<title>How <script> works</title><p>x</p>",
    "<textarea><img onerror=1></textarea>q",
    "<p>one on = two</p>",
    "<p>Transcript: see data: here</p>",
    r'<div style="font-family:\"Arial\"">q</div>',
    '<meta http-equiv="Content-Type" content="text/html; charset=utf-8"><p>x</p>',
]


@pytest.mark.parametrize("source", ACTIVE)
def test_active_content_is_found(source: str) -> None:
    assert re.match(r"The HTML has a", html.html_problem(source) or "")


@pytest.mark.parametrize("source", HARMLESS)
def test_harmless_html_is_accepted(source: str) -> None:
    assert html.html_problem(source) is None


@given(
    st.lists(
        st.sampled_from([*ACTIVE, *HARMLESS, "<p>", "</p>", '"', "'", ">", "<!--", "-->", "&#106;", " "]), max_size=6
    )
)
def test_fast_check_never_misses_active_content(parts: list[str]) -> None:
    source = "".join(parts)
    if html.find_active_content(source):
        assert html.is_suspicious(source, source.encode("utf-8", "replace").lower())


def test_fast_check_knows_every_entity_of_a_scheme() -> None:
    named = [f"&{name}" for name, value in html5.items() if re.search(r"[\x00-\x20:]|^[A-Za-z]$", value)]
    numbered = [f"&#{number};" for number in [*range(1, 33), 58, *range(65, 91), *range(97, 123)]]
    hexadecimal = [f"&#x00{number:x};" for number in [*range(1, 33), 58, *range(65, 91), *range(97, 123)]]
    for entity in [*named, *numbered, *hexadecimal]:
        assert html.OBFUSCATING_ENTITY.match(entity.lower().encode()), (entity, unescape(entity))


@pytest.mark.parametrize(
    "source",
    [
        "",
        " \n",
        "<p>&nbsp;&zwnj;</p>",
        "<p>\u00a0\u3000\u2003\u202f\u205f</p>",
        "<title>x</title>",
        "<style>a{}</style>",
        "<p><!-- <b>x</b> --></p>",
        "<br>",
    ],
)
def test_html_without_text_or_image_is_blank(source: str) -> None:
    assert html.html_problem(source) == "The HTML is blank: it has neither text nor an image."


@pytest.mark.parametrize(
    "source", ["<img src=a.png>", "<table background=a.png></table>", "<p>.</p>", "<!-- a --><b>x</b>"]
)
def test_image_or_single_character_is_not_blank(source: str) -> None:
    assert html.html_problem(source) is None


def test_size_is_counted_in_bytes_and_depth_is_limited() -> None:
    assert html.html_problem("x" * html.MAX_BYTES) is None
    assert "bytes" in (html.html_problem("ж" * (html.MAX_BYTES // 2 + 1)) or "")
    assert "comments" in (html.html_problem("<!--[if mso]><b></b><![endif]-->\\" * 2_000) or "")
    assert "open elements at once" in (html.html_problem("<div>" * 40_000 + "x" + "</div>" * 40_000) or "")


@given(st.text(max_size=300))
def test_any_text_is_accepted_or_refused(source: str) -> None:
    html.html_problem(source)


@pytest.mark.parametrize(
    "bad", ["", "   ", "x" * 151, "a\r\nb", "a\nb", "a\0b", "a\x85b", "a\u2028b", "a\u2029b", "a\x0bb", "a\x0cb"]
)
def test_invalid_subject_is_refused(bad: str) -> None:
    assert subject.subject_problem(bad)


@pytest.mark.parametrize("good", ["x", "x" * 150, "Grüße 🎉", "a\tb"])
def test_valid_subject_is_accepted(good: str) -> None:
    assert subject.subject_problem(good) is None


def test_plain_text_keeps_words_and_link_targets() -> None:
    source = (
        "<html><head><style>p{color:red}</style><title>t</title></head><body><h1>News</h1>"
        '<p>Read <a href="https://example.com/a?b=1&amp;c=2">more</a>.</p><ul><li>one</li><li>two</li></ul></body></html>'
    )
    assert text.from_html(source).split("\n") == [
        "News",
        "",
        "Read more (https://example.com/a?b=1&c=2).",
        "",
        "  * one",
        "  * two",
    ]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<a href="https://example.com/">https://example.com/</a>', "https://example.com/"),
        ('<a href="https://example.com/"><img src="x.png" alt="Example"></a>', "Example (https://example.com/)"),
        ('<a href="https://example.com/"><img src="x.png"></a>', "https://example.com/"),
        ('<a href="mailto:ada@example.com">ada@example.com</a>', "ada@example.com"),
        ('<a href="mailto:ada@example.com">Write</a>', "Write (ada@example.com)"),
        ('<a href="#top">Top</a> <a name="x"></a><a href="">None</a>', "Top None"),
        ('<p>Before <img src="x.png" alt="A chart"> after</p>', "Before A chart after"),
        ('<p>Before <img src="x.png" alt=""> after</p>', "Before after"),
    ],
)
def test_plain_text_of_links_and_images(html: str, expected: str) -> None:
    assert text.from_html(html) == expected


@given(st.text(max_size=200))
def test_any_html_has_plain_text(source: str) -> None:
    assert isinstance(text.from_html(source), str)


@pytest.mark.parametrize(
    "source", ['<?xml version="1.0" encoding="utf-8"?><p>x</p>', "<div>" * 20_000 + "x", "<p>x</p>\0\ud800", "x"]
)
def test_odd_html_keeps_its_words(source: str) -> None:
    assert "x" in text.from_html(source)
