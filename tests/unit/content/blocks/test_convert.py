"""Bring Markdown, pasted HTML and feeds into the composer: what is kept, and what is dropped."""

import pytest

from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.convert import (
    JsonBlock,
    from_feed_items,
    from_foreign_html,
    from_html,
    from_markdown,
)
from mailwright.content.blocks.document import InvalidDocument, parse_document
from mailwright.content.blocks.dropped import dropped_notes
from mailwright.content.blocks.feed import MAX_FEED_BYTES, FeedItem, InvalidFeed, read_feed
from mailwright.content.blocks.foreign_code import has_code
from mailwright.content.template import Template

RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>Blog</title>
<item><title>First &amp; best</title><link>https://example.com/1</link>
<description>&lt;p&gt;Hello &lt;script&gt;x()&lt;/script&gt;&lt;b&gt;you&lt;/b&gt;&lt;/p&gt;</description>
<media:thumbnail url="https://example.com/1.png"/></item>
<item><title>Second</title><link>javascript:x()</link><description>{text}</description></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title><entry><title>One</title>
<link rel="self" href="https://example.com/self"/><link href="https://example.com/one"/><summary>Short</summary>
</entry></feed>"""
BOMB = (
    '<!DOCTYPE rss [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    "<rss><channel><item><title>&b;</title></item></channel></rss>"
)


def kinds(blocks: list[JsonBlock]) -> list[str]:
    compile_document(parse_document({"version": 1, "blocks": blocks}))  # The composer can use them.
    return [block["type"] for block in blocks]


def test_markdown_becomes_blocks() -> None:
    source = (
        "# Title\n\nOne **two**\nthree\n\n- a\n- b\n\n![Cat](https://example.com/c.png)\n\n> Wise\n\n---\n\n## More\n"
    )
    blocks = from_markdown(source)
    assert kinds(blocks) == ["heading", "text", "image", "quote", "divider", "heading"]
    assert blocks[1]["html"] == "<p>One <strong>two</strong> three</p><ul><li>a</li><li>b</li></ul>"
    assert (blocks[2]["src"], blocks[2]["alt"]) == ("https://example.com/c.png", "Cat")


def test_google_docs_text_is_cleaned() -> None:
    pasted = (
        '<meta charset="utf-8"><b style="font-weight:normal;" id="docs-internal-guid-1"><h2 dir="ltr"><span>Plan</span>'
        '</h2><p dir="ltr" style="line-height:1.38"><span style="font-weight:700;color:#000">Bold</span><span> and '
        '</span><span style="font-style:italic">soft</span> <a href="https://www.google.com/url?q=https://example.com/'
        '%3Fa%3D1&amp;sa=D"><span style="text-decoration:underline;color:#1155cc">link</span></a></p>'
        '<ul><li dir="ltr"><p><span>one</span></p></li></ul></b>'
    )
    blocks = from_html(pasted)
    assert kinds(blocks) == ["heading", "text"]
    assert blocks[0]["html"] == "Plan"
    assert blocks[1]["html"] == (
        '<p><strong>Bold</strong> and <em>soft</em> <a href="https://example.com/?a=1"><u>link</u></a></p>'
        "<ul><li>one</li></ul>"
    )


def test_word_text_is_cleaned() -> None:
    pasted = (
        "<html xmlns:o='urn:x'><head><style>p.MsoNormal{mso-x:1}</style><xml>junk</xml></head><body>"
        '<p class="MsoTitle">Report</p><p class="MsoNormal"><font face="Calibri">Hello<o:p></o:p></font></p>'
        '<p class="MsoListParagraphCxSpFirst"><!--[if !supportLists]--><span style="mso-list:Ignore">1.<span>&nbsp; '
        "</span></span><!--[endif]-->First<o:p></o:p></p>"
        '<p class="MsoListParagraphCxSpLast"><span style="mso-list:Ignore">2.</span>'
        "<b style='mso-bidi-font-weight:normal'>Second</b><span style='mso-bidi-font-weight:bold'> one</span></p>"
        '<p class="MsoNormal"><o:p>&nbsp;</o:p></p></body></html>'
    )
    blocks = from_html(pasted)
    assert kinds(blocks) == ["heading", "text"]
    assert blocks[1]["html"] == "<p>Hello</p><ol><li>First</li><li><strong>Second</strong> one</li></ol>"


def test_scripts_trackers_and_hidden_text_are_dropped() -> None:
    html = (
        '<script>x()</script><style>p{}</style><img src="https://t.example/o.gif" width="1" height="1">'
        '<div style="display:none">preview</div><img src="javascript:x()"><p onclick="x()">Text</p>'
        '<a href="javascript:x()">link</a><form><input></form>'
    )
    blocks = from_html(html)
    assert kinds(blocks) == ["text"]
    assert blocks[0]["html"] == "<p>Text</p><p>link</p>"


def test_layout_tables_buttons_and_linked_images_become_blocks() -> None:
    html = (
        '<table><tr><td><h1>Sale</h1><p>Today</p><a href="https://example.com/buy" style="background:#000;color:#fff">'
        'Buy now</a></td><td><a href="https://example.com"><img src="a.png" alt="A" width="200"></a></td></tr></table>'
        "<table><tr><th>Name</th></tr><tr><td>Ada</td></tr></table>"
    )
    blocks = from_html(html)
    assert kinds(blocks) == ["heading", "text", "button", "image", "html"]
    assert (blocks[2]["label"], blocks[2]["href"]) == ("Buy now", "https://example.com/buy")
    assert (blocks[3]["href"], blocks[3]["width"]) == ("https://example.com", 200)


def test_hostile_html_is_refused_or_flat() -> None:
    assert kinds(from_html("<div>" * 2_000 + "deep" + "</div>" * 2_000)) == ["text"]
    for source in ("<p>x" * 400_000, "<b>" * 100_000, "<hr>" * 600):
        with pytest.raises(InvalidDocument):
            from_html(source)


def test_feed_items_become_cards() -> None:
    blocks = from_feed_items(read_feed(RSS.replace("{text}", "word " * 100).encode()))
    assert kinds(blocks) == ["card", "card"]
    assert blocks[0] == {
        "id": "n1",
        "type": "card",
        "title": "First & best",
        "html": "<p>Hello you</p>",
        "href": "https://example.com/1",
        "label": "Read more",
        "image": "https://example.com/1.png",
        "alt": "First & best",
    }
    assert "href" not in blocks[1]
    assert blocks[1]["html"].endswith("…</p>")
    [atom] = from_feed_items(read_feed(ATOM.encode()))
    assert (atom["title"], atom["href"]) == ("One", "https://example.com/one")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (BOMB.encode(), "has a DTD"),
        (BOMB.encode("utf-16"), "has a DTD"),
        (b"<html><body>no feed</body></html>", "not an RSS or Atom feed"),
        (b"not xml", "not valid XML"),
        (b"<a>" * 60 + b"</a>" * 60, "too many elements"),
        (b" " * (MAX_FEED_BYTES + 1), "larger than 4 MB"),
    ],
)
def test_hostile_feed_is_refused(source: bytes, message: str) -> None:
    with pytest.raises(InvalidFeed, match=message):
        read_feed(source)


# Content that someone else wrote has no template code.

CODE = ("{{ email }}", "{% if name %}", "{# note #}", "{{{{ email }}}}", "{{%", "{ {{ unsubscribe_url }}")
FOREIGN_HTML = (
    "<p>{code}</p>",
    "<h1>{code}</h1><ul><li>{code}</li></ul><blockquote>{code}</blockquote>",
    '<p><a href="https://a.example/?e={code}">more</a> <a class="button" href="https://a.example/{code}">{code}</a></p>',
    '<img src="https://a.example/{code}.png" alt="{code}"><a href="https://a.example/{code}"><img src="a.png"></a>',
    '<p>{<font>{</font> email }} <span data-variable="email" data-fallback="{code}">x</span></p>',
    '<table><tr><th title="{code}">{code}</th><td><a href="https://evil.example/{code}">{<foo>{</foo> email }}</a>'
    '<b data-variable="email">&lbrace;&#123; email }}</b></td></tr></table>',
)


def variables_of(blocks: list[JsonBlock]) -> frozenset[str]:
    html = compile_document(parse_document({"version": 1, "blocks": blocks})).html
    return Template(subject="", html=html, text=None).required_variables


@pytest.mark.parametrize("code", CODE)
def test_template_code_of_a_feed_is_text(code: str) -> None:
    address = f"https://evil.example/?e={code}"
    blocks = from_feed_items([FeedItem(code, address, f"<p>{code}</p>", address)])
    assert kinds(blocks) == ["card"]
    assert not has_code(blocks)
    assert variables_of(blocks) == frozenset()
    assert "{" not in blocks[0]["href"] + blocks[0]["image"]


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize("html", FOREIGN_HTML)
def test_template_code_of_a_foreign_page_is_text(html: str, code: str) -> None:
    blocks = from_foreign_html(html.replace("{code}", code))
    assert blocks
    assert not has_code(blocks)
    assert variables_of(blocks) == frozenset()


def test_own_html_keeps_its_template_code() -> None:
    blocks = from_html('<p>Hi {{ name }} <a href="{{ unsubscribe_url }}">x</a></p>')
    assert has_code(blocks)
    assert variables_of(blocks) == {"name", "unsubscribe_url"}


def test_markdown_that_takes_seconds_is_refused() -> None:
    with pytest.raises(InvalidDocument, match="too many brackets"):
        from_markdown("[" * 200_000)


def test_lost_images_and_tables_are_named() -> None:
    table = "<table><tr><td>1</td><td>2</td></tr></table>"
    assert dropped_notes(f'<img src="file:///C:/cat.png"><p>Words</p>{table}') == [
        "1 image was left out, because only your computer has it. Upload it here.",
        "A table became text.",
    ]
    kept = '<img src="https://example.com/a.png"><table><tr><th>a</th><th>b</th></tr></table><table><td>c</td></table>'
    assert dropped_notes(kept) == []
