"""Feeds as they are on the web."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailwright.content.blocks.feed import FeedItem, InvalidFeed, read_feed
from tests.examples import examples

URL = "https://blog.example/feed/"


def rss(item: str, *, head: str = "", encoding: str = "utf-8") -> bytes:
    return f"{head}<rss><channel><item>{item}</item></channel></rss>".encode(encoding)


def declared(name: str) -> str:
    return f'<?xml version="1.0" encoding="{name}"?>'


@pytest.mark.parametrize(
    ("source", "title"),
    [
        (rss("<title>Žluťoučký</title>", head=declared("iso-8859-1")), "Žluťoučký"),
        (rss("<title>Café</title>", head=declared("utf-8"), encoding="windows-1252"), "Café"),
        (rss("<title>Привет</title>", head=declared("windows-1251"), encoding="windows-1251"), "Привет"),
        (rss("<title>日本語</title>", head=declared("shift_jis"), encoding="shift_jis"), "日本語"),
        (rss("<title>日本語</title>", head=declared("iso-2022-jp"), encoding="iso-2022-jp"), "日本語"),
        (rss("<title>Naïve</title>", encoding="utf-16"), "Naïve"),
        (rss("<title>Naïve</title>", encoding="utf-16-le"), "Naïve"),
        (rss("<title>Late</title>", head="\ufeff\n\n" + declared("utf-8")), "Late"),
        (rss("<title>Odd</title>", head=declared("no-such-encoding")), "Odd"),
        (rss("<title>A\x0bB\x00C</title>"), "ABC"),
        (gzip.compress(rss("<title>Packed</title>"), mtime=0), "Packed"),
    ],
)
def test_wrong_encodings_are_read(source: bytes, title: str) -> None:
    assert [item.title for item in read_feed(source, URL)] == [title]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("<title>&lt;b&gt;Big&lt;/b&gt; &amp;amp; small</title>", FeedItem("Big & small")),
        ("<title>How to use &lt;div&gt;</title>", FeedItem("How to use <div>")),
        ("<title>1 &lt; 2 &amp; 3</title>", FeedItem("1 < 2 & 3")),
        ("<title>Caf&eacute; R&D</title>", FeedItem("Café R&D")),
        (
            "<title><![CDATA[R&D]]></title><link>https://a.example/?b=1&c=2</link>",
            FeedItem("R&D", "https://a.example/?b=1&c=2"),
        ),
        ("<title>A</title><link>/post/1</link>", FeedItem("A", "https://blog.example/post/1")),
        ("<title>A</title><link>//cdn.example/1</link>", FeedItem("A", "https://cdn.example/1")),
        (
            "<title>A</title><guid>https://a.example/1</guid>",
            FeedItem("A", "https://a.example/1", guid="https://a.example/1"),
        ),
        (
            '<title>A</title><guid isPermaLink="false">https://a.example/1</guid>',
            FeedItem("A", guid="https://a.example/1"),
        ),
        (
            "<description>&lt;p&gt;No title here&lt;/p&gt;</description>",
            FeedItem("No title here", summary_html="<p>No title here</p>"),
        ),
        (
            '<t:title xmlns:t="http://www.itunes.com/dtds/podcast-1.0.dtd">Other</t:title><title>A</title>',
            FeedItem("A"),
        ),
    ],
)
def test_oddities_of_items_are_read(item: str, expected: FeedItem) -> None:
    assert read_feed(rss(item), URL) == [expected]


def test_old_and_other_formats_are_read() -> None:
    dtd = '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/rss-0.91.dtd">'
    assert read_feed(rss("<title>Caf&eacute;</title>", head=dtd)) == [FeedItem("Café")]
    rdf = (
        '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel/>'
        '<item r:about="urn:1"><title>One</title><link>https://a.example/1</link></item></r:RDF>'
    )
    assert read_feed(rdf.encode()) == [FeedItem("One", "https://a.example/1", guid="urn:1")]
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/b/"><entry><id>urn:2</id>'
        '<title type="html">&lt;i&gt;Two&lt;/i&gt;</title><link rel="self" href="/no"/><link href="2"/></entry></feed>'
    )
    assert read_feed(atom.encode(), URL) == [FeedItem("Two", "https://a.example/b/2", guid="urn:2")]
    json = (
        b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": 3, "url": "/3", "title": "Three", '
        b'"content_html": "<p>Hi</p>", "image": "i.png"}, "no item", {"content_text": "Only text"}]}'
    )
    assert read_feed(json, URL) == [
        FeedItem("Three", "https://blog.example/3", "<p>Hi</p>", "https://blog.example/feed/i.png", "3"),
        FeedItem("Only text", summary_html="Only text"),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            b'<!doctype html><link rel="alternate" type="application/rss+xml" href="/rss.xml"><p>',
            "Its feed is https://blog.example/rss.xml",
        ),
        (b"<html><br>", "choose the address of the feed itself"),
        (b'{"error": "not found"}', "not an RSS or Atom feed"),
        (b"{broken", "not valid JSON"),
        (gzip.compress(b" " * 5_000_000, mtime=0), "larger than 4 MB"),
        (gzip.compress(rss(""), mtime=0)[:20] + b"broken", "damaged|not valid XML"),
    ],
)
def test_url_without_a_feed_is_refused(source: bytes, message: str) -> None:
    with pytest.raises(InvalidFeed, match=message):
        read_feed(source, URL)


BLOG = (
    '<?xml version="1.0"?><rss version="2.0"{ns}><channel><item><media:title>Cover</media:title>'
    "<title>Post & more</title>"
    '<own:title x:y="1">Other</own:title><link>https://blog.example/1</link><content:encoded><![CDATA[<own:p>x</own:p>]]>'
    "</content:encoded></item></channel></rss>"
)
WARNING = "<br />\n<b>Warning</b>: Undefined variable $a in /var/www/feed.php on line 3<br />\n"


@pytest.mark.parametrize(
    "document",
    [
        BLOG.format(ns=""),
        BLOG.format(ns=' xmlns:media="http://search.yahoo.com/mrss/"'),
        BLOG.format(ns="") + "\n<!-- cached --> Query took 0.1 s\n<p>advertisement</p>",
        WARNING + BLOG.format(ns=""),
        "Deprecated: x in y.php on line 1\n" + BLOG.format(ns="").replace('<?xml version="1.0"?>', ""),
        BLOG.format(ns="").replace("& more", "&amp; more") + "trailing text",
    ],
)
def test_feed_with_undeclared_prefixes_and_other_text_is_read(document: str) -> None:
    [item] = read_feed(document.encode())
    assert (item.title, item.link) == ("Post & more", "https://blog.example/1")


def test_page_with_a_feed_inside_is_no_feed() -> None:
    with pytest.raises(InvalidFeed):
        read_feed(b"<html><body><rss><channel/></rss></body></html>")


def test_atom_feed_with_undeclared_prefix_is_read() -> None:
    document = "<a:feed><a:entry><a:title>One</a:title><a:link href='https://blog.example/1'/></a:entry></a:feed>"
    assert [item.link for item in read_feed(document.replace("a:", "atom:").encode())] == ["https://blog.example/1"]


@pytest.mark.parametrize(
    "document",
    [
        "<!-- a -->\n" * 1_500 + BLOG.format(ns=""),
        BLOG.format(ns="") + "<!-- a -->" * 50_000,
        BLOG.format(ns="") + "<![CDATA[" * 100_000,
        BLOG.format(ns="") + "<a " * 400_000,
    ],
    ids=["comments before", "comments after", "open CDATA", "open tags"],
)
def test_repeated_markup_is_read_in_linear_time(document: str) -> None:
    [item] = read_feed(document.encode())
    assert item.title == "Post & more"


@pytest.mark.parametrize("repeated", ["<link ", "<link type=application/rss+xml ", "<!-- a -->", "<![CDATA["])
def test_page_with_repeated_markup_is_refused_in_linear_time(repeated: str) -> None:
    with pytest.raises(InvalidFeed):
        read_feed(f"<html>{repeated * 100_000}".encode())


@pytest.mark.parametrize("charset", ["idna", "punycode", "undefined", "unicode_escape", "rot13", "unknown"])
def test_declared_codec_that_is_no_charset_is_ignored(charset: str) -> None:
    for item in ("<title>Caf\xe9</title>", "<title>Caf\xe9 \\x41\x1b</title>"):
        [found] = read_feed(rss(item, head=declared(charset), encoding="windows-1252"))
        assert found.title in ("Café", "Café \\x41")


@pytest.mark.parametrize(
    "document",
    [
        '<rss xml:base="http://["><channel><item><title>One</title><link>/1</link></item></channel></rss>',
        '<rss><channel><item xml:base="http://["><title>One</title><link>/1</link></item></channel></rss>',
    ],
)
def test_damaged_base_of_links_is_ignored(document: str) -> None:
    assert read_feed(document.encode(), URL) == [FeedItem("One", "https://blog.example/1")]


def test_page_with_a_damaged_link_to_its_feed_is_refused() -> None:
    with pytest.raises(InvalidFeed, match="choose the address of the feed itself"):
        read_feed(b'<html><link type="application/rss+xml" href="http://[">', URL)


def test_control_characters_of_json_feeds_are_removed() -> None:
    item = '{"id": "a\\u0000b", "title": "One\\u0000", "url": "/1\\u0000", "content_html": "\\u0001<p>\\u0000Hi</p>"}'
    source = f'{{"version": "https://jsonfeed.org/version/1", "items": [{item}]}}'
    assert read_feed(source.encode(), URL) == [
        FeedItem("One", "https://blog.example/1", summary_html="<p>Hi</p>", guid="ab")
    ]


@settings(deadline=None, max_examples=examples(50))
@given(st.text(max_size=200), st.integers(0, 300), st.text(max_size=20))
def test_any_feed_is_read_or_refused(before: str, place: int, after: str) -> None:
    document = BLOG.format(ns="")
    with suppress(InvalidFeed):
        read_feed((before + document[:place] + after + document[place:] + after).encode("utf-8", "replace"))
