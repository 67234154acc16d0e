"""The text part that is derived from HTML."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content import text
from mailwright.content.text_skeletons import Skeletons

A_RECEIPT = """
<table><tr><th>Item</th><th>Price</th></tr>
<tr><td width="9"><a href="https://shop.example/1?a=1&amp;b=2">Oranges</a></td><td>1.50 €</td></tr>
<tr><td>Tea &amp; biscuits</td><td>12.00 €</td></tr></table>
"""
NAMES = "a a area b p div div table tr td th ul ol li br img pre blockquote span style title template h1 q"
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
    ' style="opacity:0"',
    ' style="display:inline-block"',
    ' style="float:right"',
    ' start="3" value="7"',
    ' class="gone"',
    ' colspan="2"',
    ' title="',
]
PIECES = st.one_of(
    st.builds("<{}{}>".format, st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES)),
    st.sampled_from([f"</{tag}>" for tag in TAGS]),
    st.sampled_from(
        [
            "one",
            " two ",
            "\n",
            "&amp;",
            "&nbsp;",
            "&zwnj;",
            "<",
            ">",
            "<!--",
            "-->",
            "<![if !mso]>",
            "<>",
            "\x01",
            "<style>.gone{display:none}</style>",
        ]
    ),
)

# What differs between the emails of one application: texts, addresses, and sometimes a tag.
VALUES = st.sampled_from(
    [
        "",
        " ",
        "Ana",
        "&lt;b&gt; &copy",
        "7 > 3",
        "one\n two",
        "\u200b",
        'https://x.example/?a=1"',
        "https://x.example/&copy=2",
        "x.example",
        '" title="',
        "<b>",
        "-->",
    ]
)
FRAMES = st.one_of(
    PIECES,
    st.just("@@"),
    st.sampled_from(
        [
            '<a href="https://x.example/@@">@@</a>@@',
            '<a href="@@">@@</a>',
            '<a href="https://x.example/@@" rel="mw-repeated"><img alt="@@"></a>',
            '<div style="display:none">@@<br>@@</div>@@',
            "<title>@@</title>@@",
            "<!-- @@ -->@@",
            "<td>@@</td>",
        ]
    ),
)


@given(st.lists(FRAMES, max_size=30), st.lists(st.lists(VALUES, min_size=8, max_size=8), min_size=2, max_size=5))
def test_emails_with_the_same_tags_get_their_own_text(frames: list[str], emails: list[list[str]]) -> None:
    pieces = "".join(frames).split("@@")
    for values in emails:
        html = pieces[0] + "".join(f"{values[number % 8]}{piece}" for number, piece in enumerate(pieces[1:]))
        assert text.from_html(html) == text.from_unknown_html(html)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>e</ul>", "  * a\n      + b\n         1. c\n  * e"),
        ("<p>Do:</p><pre>if x:\n    y &lt; 1</pre><p>End</p>", "Do:\n\nif x:\n    y < 1\n\nEnd"),
        ("<blockquote><p>One</p><p>Two</p></blockquote>End", "> One\n\n> Two\n\nEnd"),
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        (
            '<pre style="display:block"><br><a href="https://x.example/"><b>a<ol start="3"><a href="https://y.example">b',
            "a (https://x.example/)\n    \n    b (https://y.example)",
        ),
        ("<ol start=3><li>a<li>b<li value='9'>c</ol>End", " 3. a\n 4. b\n 9. c\n\nEnd"),
        ("<ul><li value=3>a</ul><ol start=x><li>b</ol>", "  * a\n\n 1. b"),
        ('<p><span style="float:left">Subtotal</span><span style="float: right">9,00 €</span></p>', "Subtotal 9,00 €"),
        ('<p>Total<a href="https://x.example/" style="float:right">Pay</a></p>', "Total Pay (https://x.example/)"),
        ('<map><area alt="Tea" href="https://x.example/t"><area href="#a" alt="b"/></map>', "Tea (https://x.example/t)"),
        ("<img alt=Menu><map><area href=https://x.example/t></map>", "Menu"),
        ("<map><area href=https://x.example/t></map>", "https://x.example/t"),
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


def test_lines_of_a_receipt_cell_are_joined() -> None:
    rows = [
        "<td>Widget<br>blue, large<td>$10.00",
        "<td>Qty:<br>2<br>(of 3)<td>",
        "<td>Tea<br>green<td><td>$3.00<br>net",
    ]
    html = f"<table><tr>{'<tr>'.join(rows)}<tr><td>Total<br/>with tax<td><b>$13.00</b></table>"
    assert text.from_html(html).split("\n") == [
        "Widget, blue, large  $10.00",
        *("Qty:", "2", "(of 3)", "Tea", "green", "$3.00", "net"),
        "Total, with tax      $13.00",
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
     "<p style='display:none'>", "<i style='display:block'>", "<a href=x>a<p>", "<tr><td>a<td>b", "</ol><ul>", "&",
     "<div style='display:inline-block'>a", "<div style='display:inline-block'>a</div>",
     "<style>.a{display:none}</style>", "<div style='display:inline-block'><table><tr><td><div>a",
     "<p>b<div style='display:inline-block'><p>a</div>"],
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


# The shapes of emails that MJML, Foundation and others compile.


def a_row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td align=left>{cell}</td>' for cell in cells)}</tr>"


def a_column(*rows: str) -> str:
    return f"<div class=column><table role=presentation><tbody>{''.join(rows)}</tbody></table></div>"


def test_blocks_in_rows_of_their_own_are_paragraphs() -> None:
    texts = [a_row(f"<div style='line-height:1'>{words}</div>") for words in ("Dear Ada,", "It is on its way.")]
    button = a_row('<table><tr><td><a href="https://x.example/">Track</a></td></tr></table>')
    html = f"<table>{a_row(a_column(*texts, button))}{a_row(a_column(a_row('<div>Bye<br>Shop</div>')))}</table>"
    assert text.from_html(html) == "Dear Ada,\n\nIt is on its way.\n\nTrack (https://x.example/)\n\nBye\nShop"


def test_rows_of_a_receipt_stay_together() -> None:
    for tag in ("p", "div", "h4", "span"):
        rows = [("Item", "Price"), ("Tea", "1 €"), ("Total", "1 €")]
        html = "".join(a_row(*(f"<{tag}>{cell}</{tag}>" for cell in row)) for row in rows)
        shown = text.from_html(f"<p>Thanks</p><table>{html}</table><p>Bye</p>")
        assert [line for line in shown.split("\n") if line] == [
            "Thanks",
            "Item   Price",
            "Tea    1 €",
            "Total  1 €",
            "Bye",
        ]
        assert "Price\nTea" in shown
        assert "1 €\nTotal" in shown


def test_cell_over_two_columns_keeps_the_next_in_place() -> None:
    rows = "<tr><th>Item</th><th>No.</th><th>Price</th></tr><tr><td>Tea</td><td>2</td><td>6 €</td></tr>"
    html = f'<table>{rows}<tr><td colspan="2">Total</td><td>6 €</td></tr></table>'
    assert text.from_html(html).split("\n") == ["Item   No.  Price", "Tea    2    6 €", "Total       6 €"]


def test_single_cell_over_all_columns_is_a_paragraph() -> None:
    rows = "".join(f'<tr><td colspan="2"><div>{words}</div></td></tr>' for words in ("Dear Ada,", "It is here."))
    assert text.from_html(f"<table>{rows}</table>") == "Dear Ada,\n\nIt is here."


@pytest.mark.parametrize(
    "filler",
    [
        "<div>&#8203;</div>",
        "<table><tr><td height=16>&#8205;&#xA0;</td></tr></table>",
        "<p>" + "&zwnj;&nbsp;" * 30 + "&#847; &shy; &#65279;</p>",
        '<a href="https://x.example/">&#8204;</a>',
    ],
)
def test_characters_without_a_width_leave_no_line(filler: str) -> None:
    assert text.from_html(f"<p>One</p>{filler}<p>Two</p>") == "One\n\nTwo"
    assert text.from_html(f"<p>Preview &zwnj;&nbsp;&zwnj;&nbsp;&#847; </p>{filler}") == "Preview"


def test_characters_without_a_width_stay_inside_words() -> None:
    family, persian = "\U0001f469\u200d\U0001f467", "می\u200cخواهم"
    assert text.from_html(f"<p>{family} {persian}</p>") == f"{family} {persian}"


@pytest.mark.parametrize(
    "hidden",
    [
        'style="visibility: hidden"',
        'style="opacity:0;color:#fff"',
        'style="font-size:1px; max-height: 0px; overflow: hidden"',
        "hidden",
        'style="display:none !important"',
    ],
)
def test_hidden_preview_text_is_omitted(hidden: str) -> None:
    assert text.from_html(f"<div {hidden}>Preview <b>a</b></div><p>Hello</p>") == "Hello"


@pytest.mark.parametrize(
    "shown",
    ['style="opacity:0.9"', 'style="max-height:300px;overflow:hidden"', 'style="font-size:0px"', 'title="a hidden b"'],
)
def test_visible_elements_with_similar_styles_are_kept(shown: str) -> None:
    assert text.from_html(f"<div {shown}>Hello</div>") == "Hello"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ('<img alt="Blue shoe" style="display:block">', "Blue shoe (https://x.example/)"),
        ('<table><tr><td><img alt="Shop"></td></tr></table>', "Shop (https://x.example/)"),
        ('<img alt="https://cdn.example/a.png">', ""),
        ('<img alt="banner_final.JPG">', ""),
        ('<img alt="+">', ""),
        ('<img alt="open" width="1" height="1">', ""),
    ],
)
def test_linked_image_is_one_line_or_omitted(image: str, expected: str) -> None:
    html = f'<p>Hi</p><a href="https://x.example/">{image}</a><p>Bye</p>'
    assert text.from_html(html) == "\n\n".join(filter(None, ("Hi", expected, "Bye")))


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('<a href="tel:+14085550123">(408) 555-0123</a>', "(408) 555-0123"),
        ('<a href="tel:+14085550123">Call us</a>', "Call us (+14085550123)"),
        ('<a href="mailto:a@x.example?subject=Hi%20there">Write to us</a>', "Write to us (a@x.example)"),
        ('<a href="MAILTO:a@x.example">a@x.example</a>', "a@x.example"),
        ('<a href="https://x.example/">https://x.example</a>', "https://x.example/"),
        ('<a href="https://www.x.example/a">x.example/a</a>', "https://www.x.example/a"),
        ('<a href="https://y.example/">https://x.example</a>', "https://x.example (https://y.example/)"),
    ],
)
def test_address_that_the_link_shows_is_written_once(link: str, expected: str) -> None:
    assert text.from_html(f"<p>{link}</p>") == expected


def test_link_of_an_image_without_alt_text_is_omitted() -> None:
    icon = '<a href="https://x.example/me"><img src="https://x.example/i.png"></a>'
    named = '<a href="https://x.example/me">Follow us</a>'
    assert text.from_html(f"<p>Hello</p>{icon}") == "Hello"
    html = f"<table>{a_row(icon, named)}</table>"
    assert text.from_html(html) == "Follow us (https://x.example/me)"
    assert text.from_html(f"<table>{a_row(icon)}</table>") == "https://x.example/me"  # There is nothing else to show.


@pytest.mark.parametrize(
    "before", ["<v:roundrect><center>Show</center></v:roundrect>", '<p><a href="https://x.example/">Show</a></p>']
)
def test_button_for_outlook_is_written_once(before: str) -> None:
    button = '<a href="https://x.example/">Show</a>'
    assert text.from_html(f"<p>Hello</p>{before}{button}<p>Bye</p>") == "Hello\n\nShow (https://x.example/)\n\nBye"


@pytest.mark.parametrize(
    "repeated",
    [
        "<table><tr><td><div>a",
        "<table><tr><td><div>a</div>",
        "<tr><td><div>a</div>",
        "<a href=https://x.example/>a</a><br><br>",
    ],
)
def test_blocks_in_cells_take_linear_time(repeated: str) -> None:
    assert len(text.from_html("<table>" + repeated * 20_000 + "x")) < 2_000_000


def a_group(*columns: str, width: str = "33%") -> str:
    style = f"font-size:0px;display:inline-block;vertical-align:top;width:{width};"
    return "\n<!--[if mso]></td><td><![endif]-->\n".join(f'<div style="{style}">{column}</div>' for column in columns)


@pytest.mark.parametrize("width", ["33%", "100%"])
def test_columns_with_one_line_each_are_a_row(width: str) -> None:
    rows = [
        [a_column(a_row(f"<div>{cell}</div>")) for cell in row] for row in (("2", "Tea", "3 €"), ("1", "Milk", "1 €"))
    ]
    html = "".join(f"<div><table>{a_row(a_group(*row, width=width))}</table></div>" for row in rows)
    assert text.from_html(f"<p>Thanks</p>{html}<p>Bye</p>") == "Thanks\n\n2  Tea  3 €\n\n1  Milk  1 €\n\nBye"


def test_columns_with_several_lines_are_read_one_after_the_other() -> None:
    order = a_column(a_row("<div>Order</div>"), a_row("<div>1001</div>"))
    date = a_column(a_row("<div>Date</div>"), a_row("<div>5 May</div>"))
    assert text.from_html(a_group(order, date)) == "Order\n\n1001\n\nDate\n\n5 May"
    assert text.from_html(a_group(a_column(a_row("<div>Logo</div>")), date)) == "Logo\n\nDate\n\n5 May"


def test_text_after_columns_begins_a_line() -> None:
    assert text.from_html(a_group("One", "Two") + "Three") == "One  Two\nThree"
    assert (
        text.from_html(a_group("<table><tr><td>One", "<table><tr><td>Two</table>") + "<p>Three") == "One  Two\n\nThree"
    )


def test_nested_tables_with_one_line_each_are_a_row() -> None:
    cells = [f"<table>{a_row(f'<div>{words}</div>')}</table>" for words in ("Subtotal", "5 €")]
    assert text.from_html(f"<table>{a_row(*cells)}</table>") == "Subtotal  5 €"


@pytest.mark.parametrize("tag", ["p", "span", "div"])
def test_long_texts_in_a_row_are_paragraphs(tag: str) -> None:
    long = "These are more words than two columns of a plain text can show beside each other."
    rows = a_row("Item", "Price") + a_row(*[f"<{tag}>{long}</{tag}>"] * 2)
    assert text.from_html(f"<p>Hi</p><table>{rows}</table>End") == f"Hi\n\nItem  Price\n\n{long}\n\n{long}\n\nEnd"
    assert text.from_html(f"<table><tr><td>{long}<td>{long}</table>End") == f"{long}\n\n{long}\n\nEnd"


def test_blocks_after_lists_and_tables_follow_a_blank_line() -> None:
    assert text.from_html("<ul><li>a</ul><ol><li>b</ol>End") == "  * a\n\n 1. b\n\nEnd"
    due = f"<table>{a_row('Amount due: 5 €')}{a_row('Due by: 5 May')}</table>"
    button = '<table><tr><td><a href="https://x.example/">Pay</a></td></tr></table>'
    assert text.from_html(due + button) == "Amount due: 5 €\nDue by: 5 May\n\nPay (https://x.example/)"


# Elements that a style element hides.


def a_page(css: str, body: str, media: str = "") -> str:
    return f"<html><head><style type='text/css'{media}>{css}</style></head><body>{body}<p>Hello</p></body></html>"


@pytest.mark.parametrize(
    ("css", "element"),
    [
        (".preheader { display: none !important; visibility: hidden }", '<span class="preheader">Preview</span>'),
        ("/* } */ @import url(a;b); td, .a, SPAN.preheader{DISPLAY:NONE}", '<span class="f preheader">Preview</span>'),
        ("#preview{max-height:0;overflow:hidden}", "<div id=preview>Preview <div>words</div></div>"),
        ("@media screen { .preheader{visibility:hidden} }", '<div class="preheader">Preview</div>'),
        ("body .x{opacity:0.0}", '<div class="x">Preview</div>'),
        (".x{font-size:0;mso-hide:all}", '<div class="x">Preview</div>'),
        (".x{height:0;overflow:hidden}", '<div class="x">Preview</div>'),
        (
            ".mobile{display:none} @media (max-width:600px){.mobile{display:block!important}}",
            '<p class="mobile">Copy</p>',
        ),
        ("<!-- .x.y{display:none} -->", '<p class="y x">Copy</p>'),
        ("div[class=x]{display:none}", '<div class="x">Copy</div>'),
        (".x{display:none!important}", '<p class="x" style="display:block">Copy</p>'),
        (".link{display:none}", '<a href="https://x.example/" class="link">Copy</a>'),
        (".x{display:block} #y{display:none} .x{display:block}", '<p class="x" id="y">Copy</p>'),
    ],
)
def test_elements_hidden_by_a_style_element_are_omitted(css: str, element: str) -> None:
    assert text.from_html(a_page(css, element)) == "Hello"
    late = f"<body>{element}<p>Hello</p><STYLE>{css}</STYLE></body>"
    assert text.from_html(late) == "Hello"
    assert [*text.links(a_page(css, element))] == []


@pytest.mark.parametrize(
    ("css", "media"),
    [
        ("@media (max-width:600px) { .x { display:none } }", ""),
        ("@media only screen and (min-width:1px){.y{a:b} .x{display:none}}", ""),
        ("@supports (display:grid){.x{display:none}}", ""),
        (".x{display:none} .x{display:inline}", ""),
        (".x{display:none}", " media='screen and (max-width:480px)'"),
        (".wrapper .x{display:none}", ""),
        (".x:hover{display:none}", ""),
        ("p.x{display:none}", ""),
        (".x.z{display:none}", ""),
        (".xy{display:none}", ""),
        ("/* .x{display:none} */ .x{color:red}", ""),
        (".x{mso-hide:all}", ""),
        (".x{font-size:0}", ""),
        (".x{width:0.01%;overflow:hidden}", ""),
    ],
)
def test_rules_that_do_not_hide_an_element_change_nothing(css: str, media: str) -> None:
    assert text.from_html(a_page(css, '<div class="x y">Words</div>', media)) == "Words\n\nHello"


def test_style_elements_for_outlook_and_inline_styles_decide() -> None:
    page = "<!--[if mso]><style>.x{display:none}</style><![endif]--><p class=x>Words</p>"
    assert text.from_html(page) == "Words"
    assert (
        text.from_html(a_page(".x{display:none}", '<p class="x" style="display:block">Words</p>')) == "Words\n\nHello"
    )


def test_rules_of_one_email_do_not_change_another() -> None:
    body = '<div class="x">Words</div>'
    for _ in range(2):
        assert text.from_html(a_page(".x{display:none}", body)) == "Hello"
        assert text.from_html(a_page(".x{color:red}", body)) == "Words\n\nHello"


def test_line_that_a_class_begins() -> None:
    page = a_page(".b{display:block}", "<span class=b>One</span><span class=b>Two</span>")
    assert text.from_html(page) == "One\nTwo\n\nHello"


@pytest.mark.parametrize(
    "css",
    [
        "{",
        "}",
        "/*",
        "/**/",
        ".a{display:none}",
        "@media screen{",
        ".a,",
        ".a{x:y;",
        "<!--",
        ".a.b#c{display:none}",
        "\\",
    ],
)
def test_large_style_elements_take_linear_time(css: str) -> None:
    body = "".join(f'<p class="a n{number}" id="c">b</p>' for number in range(5_000))
    text.from_html(a_page(css * 20_000, body))
    text.from_html("".join(f"<style>.n{number}{{display:none}}{css}</style>a" for number in range(5_000)) + body)


@pytest.fixture
def quick_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_thread_switches")
def test_threads_learn_more_emails_than_are_remembered() -> None:
    skeletons = Skeletons(lambda chunks: None)

    def learn(first: int) -> None:
        for number in range(first, first + 4_000):
            skeletons.learn(["tag>"] * (1 + number % 97))

    with ThreadPoolExecutor(8) as threads:
        for learning in [threads.submit(learn, 13 * number) for number in range(8)]:
            learning.result()
