"""Find HTML that would run code in the recipient's browser, and refuse it with a reason."""

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from mailwright.content.bounded_cache import BoundedCache
from mailwright.domain.translation import lazy_gettext

MAX_BYTES = 512 * 1024

_WORDS_NAMES_AND_MEASURES = """
    abbr align alt axis bgcolor border cellpadding cellspacing charset class color cols colspan coords dir download
    face for headers height hreflang hspace id itemprop label lang media name nowrap placeholder prompt rel role rows
    rowspan scope size span start summary tabindex target title type valign value vspace width wrap
"""
# Attributes that never contain a URL: a title may begin with "JavaScript: the good parts".
TEXT_ATTRIBUTES = frozenset(_WORDS_NAMES_AND_MEASURES.split())

# Comments may contain HTML with further comments; real emails need fewer levels than this.
MAX_DEPTH = 8
# Each comment is parsed separately. Emails for Outlook have about a hundred comments.
MAX_COMMENTS = 1_000
MAX_OPEN_ELEMENTS = 3_000
# The longest event name has 24 letters, so a longer attribute is not an event handler.
MAX_HANDLER_LENGTH = 60
MAX_HANDLER_BYTES = 4 * MAX_HANDLER_LENGTH


# The tag that represents content that was not parsed because of a limit.
UNREAD = "#too-much"


class HtmlValue(NamedTuple):
    """A text in parsed HTML: the value of an attribute, or the text in an element if `attribute` is None."""

    tag: str
    attribute: str | None
    value: str


def html_problem(html: str) -> str | None:
    """Return why this HTML must not be sent, or None."""
    return _judged.get(html, lambda: _Judged(_find_problem(html), len(html))).problem


class _Judged(NamedTuple):
    problem: str | None
    characters: int


# Results are cached, because messages often share content, for example a notice to all users, sent one by one.
_judged = BoundedCache[_Judged](4 * 1024 * 1024, lambda judged: 2 * judged.characters + 256)


def _find_problem(html: str) -> str | None:
    # HTML ignores case for ASCII letters only, and searching bytes is several times faster than searching text.
    lowered = html.encode("utf-8", "replace").lower()
    if len(lowered) > MAX_BYTES:
        return lazy_gettext("The HTML has {size} bytes; at most {most} are allowed.", size=len(lowered), most=MAX_BYTES)
    if is_nested_too_deeply(html):
        return lazy_gettext("The HTML has more than {most} open elements at once.", most=MAX_OPEN_ELEMENTS)
    if is_suspicious(html, lowered) and (problem := find_active_content(html)):
        return problem
    return lazy_gettext("The HTML is blank: it has neither text nor an image.") if _is_blank(html, lowered) else None


def dangerous_url(url: str) -> str | None:
    """Return the URL's scheme if it would run code, or None. Ignores control characters, as browsers do."""
    if url.startswith(_HARMLESS):
        return None
    stripped = url.translate(_NO_CONTROLS).lower()
    match = _DANGEROUS.match(stripped)
    return match[1] if match else None


def html_values(html: str, depth: int = 0) -> Iterator[HtmlValue]:
    """Yield every text and attribute that some email program may read in this HTML.

    The HTML is parsed in three ways, because email programs differ: without scripts, with scripts (`noscript` is then
    text), and with every tag taken literally. The last way finds a table row outside of a table, which a parsed tree
    drops, but Outlook, which also reads conditional comments, does not.
    """
    yield from _read(LexborHTMLParser(html), depth)
    if "noscript" in html.lower():
        yield from _read(LexborHTMLParser(html, scripting=True), depth)
    yield from _read(LexborHTMLParser(_TAG_START.sub(r"<\1x-", html)), depth)


_HARMLESS = ("https://", "http://", "mailto:", "tel:", "cid:", "#", "/")
_CONTROLS = bytes([*range(0x21), 0x7F])
_NO_CONTROLS = dict.fromkeys(_CONTROLS)
_DANGEROUS = re.compile(
    r"((?:java|vb|live)script:|data:(?:text/(?:html|xml)|application/(?:xhtml\+)?xml|image/svg\+xml))", re.IGNORECASE
)
_SCRIPT_ELEMENT = re.compile(rb"<[^\s<>]*script")
# The pattern starts with "on" and uses a lookbehind, so that the search jumps from one "on" to the next. The name has
# a maximum length, because a text with many "on" and no "=" would otherwise take quadratic time.
_HANDLER = re.compile(rb"""on(?<=[\s/"'\0]on)[^\s=>/]{1,%d}\s*=""" % MAX_HANDLER_BYTES)
# Entities for ASCII letters, the colon, and the characters that browsers ignore in a scheme. No other entity can be
# part of a scheme.
OBFUSCATING_ENTITY = re.compile(
    rb"&(?:#0*(?:\d|[12]\d|3[0-2]|58|6[5-9]|[789]\d|1[012]\d)(?!\d)|#x0*(?:1?[0-9a-f]|20|3a|[4-7][0-9a-f])(?![0-9a-f])"
    rb"|colon|tab|newline)"
)
_DATA_URL = re.compile(rb"data:(?!image/(?!svg)|font/)")

# The elements that this pattern excludes contain text, not tags. They must keep their names to be parsed as such.
_TAG_START = re.compile(
    r"<(/?)(?!(?:title|textarea|style|xmp|iframe|noembed|noframes|plaintext)\b)(?=[a-z])", re.IGNORECASE
)
_REFRESH = re.compile(r"[\s\S]*?url\s*=\s*['\"]?", re.IGNORECASE)
_CSS_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?|\\(.)", re.IGNORECASE | re.DOTALL)
_CSS_URL = re.compile(r"(?:url\(|@import)[\s'\"(]*([^)'\";]*)", re.IGNORECASE)
_INVISIBLE = re.compile(
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2060-\u2064\u2800\u3164\ufeff\x00]+"
)
_IMAGES = "img, svg, picture, video, input[type=image], [background]"
# A closing tag of an element that shows text, right after a visible character. The excluded bytes include the last
# bytes of non-ASCII spaces. Text that ends in another character with such a last byte is left to the parser.
_VISIBLE = re.compile(
    rb"</(?<=[^\s<>;&\x80-\x8a\x9f\xa0\xa8\xa9\xaf]</)(?:p|td|th|a|h[1-6]|li|div|span|strong|b|em|i)>"
)
_SHORTEST_TAG = len("<b>")
_TAG = re.compile(r"<(/?)((?!(?:br|img|hr|input|meta|link|col|area|base|wbr|source)\b)[a-z][^\s/>]*)")


def is_suspicious(html: str, lowered: bytes) -> bool:
    """Return whether the HTML must be parsed. False proves that it is harmless; True does not prove a problem.

    A script element needs its name spelled out, because tag names contain no entities. A handler needs `on` after a
    space, a slash or a quote, because nothing else begins an attribute, and a `=` after its name. A scheme may contain
    entities, and tabs, line breaks and control characters anywhere inside it; all of these are resolved before the
    search. HTML with CSS escapes or `srcdoc` is always parsed. `lowered` is the HTML in UTF-8 with ASCII letters in
    lower case, because names and schemes ignore the case of ASCII letters only.
    """
    if _HANDLER.search(lowered) or b"srcdoc" in lowered or b"\\" in lowered:
        return True
    # Use the original HTML, because `&Tab;` is an entity and `&tab;` is not.
    is_obfuscated = b"&" in lowered and OBFUSCATING_ENTITY.search(lowered)
    resolved = unescape(html).lower().encode("utf-8", "replace") if is_obfuscated else lowered
    # A line break inside a scheme hides it, so remove all breaks. This can only add matches, never hide one.
    joined = resolved.translate(None, _CONTROLS)
    has_script = b"script" in joined or (resolved is not lowered and b"script" in lowered)
    if has_script and (b"script:" in joined or _SCRIPT_ELEMENT.search(lowered)):
        return True
    return b"data:" in joined and _DATA_URL.search(joined) is not None


def find_active_content(html: str) -> str | None:
    for place in html_values(html):
        if problem := _problem_of(place):
            return problem
    return None


def _problem_of(place: HtmlValue) -> str | None:
    tag, attribute, value = place.tag.removeprefix("x-"), place.attribute, place.value
    if attribute is None:
        return _problem_in_text(tag, value)
    if attribute.startswith("on") and 2 < len(attribute) <= MAX_HANDLER_LENGTH + 2:
        return lazy_gettext(
            "The HTML has an event handler: {attribute}= on {tag}. Remove it.", attribute=attribute, tag=f"<{tag}>"
        )
    if attribute == "srcdoc":
        return lazy_gettext("The HTML has an embedded document in srcdoc= on {tag}. Remove it.", tag=f"<{tag}>")
    for url in _urls(tag, attribute, value):
        scheme = dangerous_url(url)
        if scheme and not (tag == "img" and "svg" in scheme):
            return lazy_gettext(
                "The HTML has a {scheme} URL in {attribute}= of {tag}.",
                scheme=scheme,
                attribute=attribute,
                tag=f"<{tag}>",
            )
    return None


def _problem_in_text(tag: str, value: str) -> str | None:
    if tag.rpartition(":")[2] == "script":
        return lazy_gettext("The HTML has a {tag} element. Remove it.", tag="<script>")
    if tag == "style" and (scheme := _scheme_in_css(value)):
        return lazy_gettext("The HTML has a {scheme} URL in a {tag} element.", scheme=scheme, tag="<style>")
    if tag == UNREAD:
        return lazy_gettext("The HTML has too many comments, or nested comments.")
    return None


def _urls(tag: str, attribute: str, value: str) -> list[str]:
    if attribute == "style":
        return _css_urls(value)
    if attribute in ("srcset", "imagesrcset", "ping", "archive"):
        return [part.strip() for part in value.split(",")]
    if tag == "meta":
        return [_REFRESH.sub("", value, count=1)]
    # `values` of an SVG animation contains values for another attribute.
    if attribute == "values":
        return value.split(";")
    return [] if attribute in TEXT_ATTRIBUTES or attribute.startswith(("aria-", "data-")) else [value]


def _scheme_in_css(css: str) -> str | None:
    return next((scheme for url in _css_urls(css) if (scheme := dangerous_url(url)) and "svg" not in scheme), None)


def _css_urls(css: str) -> list[str]:
    return _CSS_URL.findall(_CSS_ESCAPE.sub(_css_character, css))


def _css_character(escape: re.Match[str]) -> str:
    if not escape[1]:
        return escape[2]
    number = int(escape[1], 16)
    return chr(number) if 0 < number < 0x110000 else "\ufffd"


def _read(tree: LexborHTMLParser, depth: int) -> Iterator[HtmlValue]:
    """Yield all texts and attributes, starting at the document node, because comments may be outside of <html>.

    Template elements are separate trees.
    """
    document = tree.root.parent if tree.root is not None else None
    trees = [document, *tree.template_fragments()] if document is not None else []
    comments = 0
    while trees:
        last = trees.pop()
        for node in last.traverse(include_text=True):
            comments += node.is_comment_node
            yield from _read_comment(node, depth, comments) if node.is_comment_node else _read_node(node)
        if last is not document:
            trees.extend(last.template_fragments())


def _read_comment(node: LexborNode, depth: int, number: int) -> Iterator[HtmlValue]:
    content = node.comment_content or ""
    if "<" not in content:
        yield HtmlValue("", None, content)
    elif depth < MAX_DEPTH and number <= MAX_COMMENTS:
        yield from html_values(content, depth + 1)
    else:
        yield HtmlValue(UNREAD, None, content)


def _read_node(node: LexborNode) -> Iterator[HtmlValue]:
    if node.is_text_node:
        parent = node.parent
        yield HtmlValue(parent.tag or "" if parent else "", None, node.text_content or "")
    elif node.is_element_node:
        tag = (node.tag or "").lower()
        yield HtmlValue(tag, None, "")
        for name, value in node.attributes.items():
            yield HtmlValue(tag, name.lower(), value or "")


def _is_blank(html: str, lowered: bytes) -> bool:
    # Nearly every email needs no parsing: any text after the last element that can hide text is visible.
    hidden_from = max([lowered.rfind(start) for start in (b"<!--", b"<style", b"<title", b"<template")])
    hidden_until = max([lowered.rfind(end) for end in (b"-->", b"</style", b"</title", b"</template")])
    if hidden_from <= hidden_until and _VISIBLE.search(lowered, hidden_until + 1):
        return False
    tree = LexborHTMLParser(html)
    if tree.body is None or tree.css_first(_IMAGES) is not None:
        return tree.body is None
    tree.strip_tags(["style", "title", "template"])
    return not _INVISIBLE.sub("", tree.body.text())


def is_nested_too_deeply(html: str) -> bool:
    """Return whether too many elements are open at once. The parser takes quadratic time: 40 s for 100,000 levels."""
    if len(html) < _SHORTEST_TAG * MAX_OPEN_ELEMENTS or html.count("<") < MAX_OPEN_ELEMENTS:
        return False
    left_open: Counter[str] = Counter()
    total = 0
    for slash, name in _TAG.findall(html.lower()):
        if not slash:
            left_open[name] += 1
            total += 1
        elif left_open[name]:
            left_open[name] -= 1
            total -= 1
        if total > MAX_OPEN_ELEMENTS:
            return True
    return False
