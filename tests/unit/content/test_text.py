"""The text part that is derived from HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content import text

A_RECEIPT = """
<table><tr><th>Item</th><th>Price</th></tr>
<tr><td width="9"><a href="https://shop.example/1?a=1&amp;b=2">Oranges</a></td><td>1.50 €</td></tr>
<tr><td>Tea &amp; biscuits</td><td>12.00 €</td></tr></table>
"""
NAMES = "a a b p div table tr td th ul ol li br img pre blockquote span style title template h1 q"
TAGS = NAMES.split()
ATTRIBUTES = [
    "",
    ' href="https://example.com/?a=1&amp;b=2"',
    " href='https://example.com/'",
    ' alt="A > B"',
    ' title="a < b"',
    ' style="display:none"',
    ' style="display:block"',
    ' style="white-space:pre"',
    ' title="',
]
PIECES = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES)),
    st.sampled_from([f"</{tag}>" for tag in TAGS]),
    st.sampled_from(["one", " two ", "\n", "&amp;", "&nbsp;", "<", ">", "<!--", "-->", "<![if !mso]>", "<>", "\x01"]),
)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>e</ul>", "  * a\n      + b\n         1. c\n  * e"),
        ("<p>Do:</p><pre>if x:\n    y &lt; 1</pre><p>End</p>", "Do:\n\nif x:\n    y < 1\n\nEnd"),
        ("<blockquote><p>One</p><p>Two</p></blockquote>End", "> One\n\n> Two\n\nEnd"),
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        ("<dl><dt>Term<dd>Meaning</dl>", "Term\nMeaning"),
        ("<p>&copy; 10&nbsp;&euro; &lt;b&gt;</p>", "© 10 € <b>"),
        ('<a href="https://x.example/?a=1&copy=2">More</a>', "More (https://x.example/?a=1&copy=2)"),
        ('<a href="https://x.example/"><div>A</div><div>B</div></a>', "A\nB\n(https://x.example/)"),
        ('<a href=https://x.example/>More<p>Then', "More\n\nThen (https://x.example/)"),
        ('<div dir="rtl"><p>זה <a href="https://x.example/">קישור</a></p></div>', "זה קישור (https://x.example/)"),
        ('<div style="display:none">Preheader <div>a</div></div><p>Hi', "Hi"),
        ("<span style='display:block'>a</span><span>b</span>", "a\nb"),
        ("<!--[if mso]><p>Outlook</p><![endif]--><![if !mso]><p>Others</p><![endif]>", "Others"),
        ("<style><!-- p > a {} </style><title><b></title>a<script>'</script>b", "ab"),
        ('<img alt="a > b" src=x><p title="<b>">c', "a > b\n\nc"),
        ("<P>A<BR>B</P><P>1 < 2 > 1</P>", "A\nB\n\n1 < 2 > 1"),
        ('<p>a\x00b\x01c\ud800</p>', "abc"),
    ],
)  # fmt: skip
def test_text_of_html(html: str, expected: str) -> None:
    assert text.from_html(html) == expected


def test_table_of_data_has_aligned_columns() -> None:
    assert text.from_html(A_RECEIPT).split("\n") == [
        "Item                                      Price",
        "Oranges (https://shop.example/1?a=1&b=2)  1.50 €",
        "Tea & biscuits                            12.00 €",
    ]


def test_columns_with_paragraphs_are_read_one_after_the_other() -> None:
    html = "<table><tr><td><h2>Left</h2><p>One</p></td><td><h2>Right</h2><p>Two</p></td></tr></table>End"
    assert text.from_html(html) == "Left\n\nOne\n\nRight\n\nTwo\n\nEnd"


def test_layout_table_adds_nothing_to_its_content() -> None:
    inner = "<h1>News</h1><p>Hello</p><table><tr><td>a</td><td>b</td></tr></table>"
    outer = f"<table><tr><td>&nbsp;</td></tr><tr><td width=20></td><td>{inner}</td></tr></table>"
    assert text.from_html(outer) == text.from_html(inner) == "News\n\nHello\n\na  b"


@pytest.mark.parametrize(
    "repeated",
    ["<div>", "<table><tr><td>a", "<ul><li>a", "<blockquote>a", "<", "<a ", '<a ="', "<a ='<a =\"", "<!--", "<style>",
     "<p style='display:none'>", "<i style='display:block'>", "<a href=x>a<p>", "<tr><td>a<td>b", "</ol><ul>", "&"],
)  # fmt: skip
def test_deep_or_unclosed_tags_take_linear_time(repeated: str) -> None:
    assert len(text.from_html(repeated * 20_000 + "x")) < 2_000_000


@given(st.lists(PIECES, max_size=12).map("".join))
def test_unusual_markup_does_not_change_the_text(html: str) -> None:
    """The parser has fast paths for frequent forms of tags, links and tables."""
    unusual = html.replace("<a href=", "<a  href=").replace("<td>", "<td ><i></i>").replace("<p>", "<P >")
    assert text.from_html(unusual) == text.from_html(html)
    assert [*text.links(unusual)] == [*text.links(html)]


@given(st.lists(PIECES, max_size=12).map("".join))
def test_known_tags_do_not_change_the_text(html: str) -> None:
    assert text.from_html(html) == text.from_html(html)
