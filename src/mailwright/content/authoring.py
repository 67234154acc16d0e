"""Authoring: MJML, Markdown or HTML becomes the HTML of a mail, once per version; variables pass through untouched."""

import re
from collections.abc import Iterator, Mapping
from html import escape

import css_inline
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from mailwright.content import html as html_rules
from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_markers import MarkedSource, codes_in

# The parsers call themselves for every level, and a stack that overflows ends the process. Real mails have some thirty.
MAX_LEVELS = 200
# Conditional comments, mostly: a mail for Outlook has some hundred elements in them.
MAX_IN_COMMENTS = 600


def compile_to_html(
    source: str,
    format: TemplateFormat,  # noqa: A002 - the word that people use
    *,
    title: str = "",
    locale: str = "",
    images: Mapping[str, str] | None = None,
) -> str:
    """What goes into the template store. Nothing is fetched: fonts and style sheets by link stay links.

    `images` gives the addresses of uploaded images by the names that the source uses.
    """
    if len(source.encode("utf-8", "replace")) > html_rules.MAX_BYTES:
        raise InvalidTemplate(f"the source is larger than {html_rules.MAX_BYTES // 1024} KB")
    if format is TemplateFormat.HTML and not _has_styles(source):
        return _with_images(source, images or {})  # as its author wrote it, byte for byte
    kept = MarkedSource(source, with_words=format is not TemplateFormat.HTML)
    match format:
        case TemplateFormat.MJML:
            html = _from_mjml(kept)  # its styles are in line already
        case TemplateFormat.MARKDOWN:
            body = _with_footer(_lists_around_loops(_markdown.render(kept.source), kept), kept)
            html = _inlined(_PAGE.format(title=_plain(title), language=escape(locale or "und"), body=body))
        case TemplateFormat.HTML:
            html = _inlined(kept.source)
    kept.check(html, may_repeat=format is TemplateFormat.MJML)
    return kept.put_back(_with_images(html, images or {}))


def image_names(source: str) -> frozenset[str]:
    """The names in this source that may be those of uploaded images."""
    return frozenset(_IMAGE_NAME.findall(source))


def _from_mjml(kept: MarkedSource) -> str:
    import mrml  # noqa: PLC0415 - two megabytes, which whoever writes something else need not have

    _check_mjml(kept)
    # Without this the compiler has every reader's program ask Google for the font of its default style.
    options = mrml.RenderOptions(fonts={})
    try:
        return mrml.to_html(kept.source, render_options=options).content
    except OSError as error:
        raise _mjml_error(error, kept) from error


def _check_mjml(kept: MarkedSource) -> None:
    """The compiler drops elements that it does not know and forgives wrong endings: the mail would miss a part."""
    source = _COMMENT.sub(lambda found: " " * len(found[0]), kept.source)
    opened: list[str] = []
    levels = 0
    for tag in _tags(kept, source):
        name, is_end = tag["name"].lower(), bool(tag["end"])
        is_empty = bool(tag["empty"]) or name in _VOID
        levels += 0 if is_empty else -1 if is_end else 1
        if levels > MAX_LEVELS:
            raise _too_deep(_line(kept, source, tag))
        if not name.startswith("mj"):
            continue
        if name not in _MJML:
            raise InvalidTemplate(f"there is no <{name}> in MJML", line=_line(kept, source, tag))
        if is_empty:
            continue
        if not is_end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            raise InvalidTemplate(f"</{name}> ends what was not opened here", line=_line(kept, source, tag))
    if opened:
        raise InvalidTemplate(f"<{opened[-1]}> is opened and not ended")
    # Whatever the compiler takes for a comment or for the end of one: with so few elements it stays within its stack.
    if len(_TAG_START.findall(kept.source)) - len(_TAG_START.findall(source)) > MAX_IN_COMMENTS:
        raise InvalidTemplate(f"more than {MAX_IN_COMMENTS} elements stand in comments")


def _tags(kept: MarkedSource, source: str) -> Iterator[re.Match[str]]:
    position = 0
    while start := _TAG_START.search(source, position):
        tag = _TAG.match(source, start.start())
        if tag is None:
            raise InvalidTemplate("a tag is opened and not ended", line=_line(kept, source, start))
        yield tag
        position = tag.end()


def _too_deep(line: int | None = None) -> InvalidTemplate:
    return InvalidTemplate(f"more than {MAX_LEVELS} elements are open at once", line=line)


def _mjml_error(error: OSError, kept: MarkedSource) -> InvalidTemplate:
    """The compiler's own words, with the line of the author's source in place of a number of bytes."""
    words = _first_line(error)
    if not (found := _MJML_POSITION.search(words)):
        return InvalidTemplate(f"the MJML cannot be read: {words}")
    reason = words[: found.start()].removesuffix(" in root template")
    return InvalidTemplate(f"the MJML cannot be read: {reason}", line=kept.line_at(int(found[1])))


def _line(kept: MarkedSource, source: str, tag: re.Match[str]) -> int:
    return kept.line_at(len(source[: tag.start()].encode()))


def _inlined(html: str) -> str:
    _check_levels(html)
    try:
        return _inliner.inline(_LOOP_OVER_ROWS.sub(r"\1<tbody>\2", html))
    except css_inline.InlineError as error:
        raise InvalidTemplate(f"the styles cannot be put in line: {_first_line(error)}") from error


def _lists_around_loops(html: str, kept: MarkedSource) -> str:
    """A loop over the items of one list, and not one list for each item."""

    def around(found: re.Match[str]) -> str:
        is_loop = _FOR.match(kept.code(int(found[2]))) and _END_FOR.match(kept.code(int(found[6])))
        return f"<{found[3]}>\n{found[1]}{found[4]}{found[5]}\n</{found[3]}>" if is_loop else found[0]

    return _LOOP_OF_LISTS.sub(around, html)


def _with_footer(body: str, kept: MarkedSource) -> str:
    """What stands below the last rule with the link to leave is small print."""
    letter, rule, footer = body.rpartition("<hr />")
    is_footer = bool(rule) and "unsubscribe_url" in kept.put_back(footer)
    return f'{letter}<hr class="footer" />{footer}' if is_footer else body


def _plain(title: str) -> str:
    """A title is the same for every reader; one with code in it is left out."""
    return "" if any(codes_in(title)) else escape(title)


def _check_levels(html: str) -> None:
    """By a parser that follows the same rules as the one in the inliner, and does not call itself."""
    if html_rules.is_nested_too_deeply(html):
        raise _too_deep()
    tree = LexborHTMLParser(html)
    level = [node for node in (tree.root, *tree.template_fragments()) if node is not None]
    for _ in range(MAX_LEVELS):
        level = [child for node in level for child in node.iter()]
        if not level:
            return
    raise _too_deep()


def _has_styles(html: str) -> bool:
    return "<style" in html.lower()


def _with_images(html: str, images: Mapping[str, str]) -> str:
    if not images:
        return html
    return _IMAGE_PLACE.sub(lambda found: found["before"] + images.get(found["name"], found["name"]), html)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


_IMAGE = r"[A-Za-z0-9][\w.-]{0,95}\.(?:png|jpe?g|gif|webp)"
_IMAGE_NAME = re.compile(rf"(?<![\w./-]){_IMAGE}(?![\w/])", re.ASCII)
_IMAGE_PLACE = re.compile(
    rf"""(?P<before>\b(?:src|background|background-url|href)=["']?|\burl\(["']?)(?P<name>{_IMAGE})(?=["')\s>])""",
    re.ASCII,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG_START = re.compile(r"<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>\"'<]*+)")
_TAG = re.compile(_TAG_START.pattern + r"""(?:[^"'>/]|"[^"]*+"|'[^']*+'|/(?!>))*+(?P<empty>/?)>""", re.DOTALL)
_MJML_POSITION = re.compile(r" at position (\d+):\d+")
# A parser opens the body of a table at its first row: a loop that begins before that row would end inside it.
_LOOP_OVER_ROWS = re.compile(
    r"(<table\b[^<>]*>|</thead>)(\s*<!--mwk\d+k-->\s*(?:<!--mwk\d+k-->\s*)*<tr\b)", re.IGNORECASE
)

_LOOP_OF_LISTS = re.compile(
    r"(<!--mwk(\d+)k-->)\s*<(ul|ol)>((?:[^<]|<(?!/?(?:ul|ol)\b|!--))*+)</\3>\s*(<!--mwk(\d+)k-->)"
)
_FOR = re.compile(r"\{%[-+]?\s*for\b")
_END_FOR = re.compile(r"\{%[-+]?\s*endfor\b")

_EMPTY_ELEMENTS = "area base br col embed hr img input link meta source track wbr"
_MJML_ELEMENTS = """
    mjml mj-head mj-body mj-include mj-attributes mj-all mj-class mj-breakpoint mj-font mj-html-attributes mj-selector
    mj-html-attribute mj-preview mj-style mj-title mj-accordion mj-accordion-element mj-accordion-title
    mj-accordion-text mj-button mj-carousel mj-carousel-image mj-column mj-divider mj-group mj-hero mj-image mj-navbar
    mj-navbar-link mj-raw mj-section mj-social mj-social-element mj-spacer mj-table mj-text mj-wrapper
"""
_VOID = frozenset(_EMPTY_ELEMENTS.split())
_MJML = frozenset(_MJML_ELEMENTS.split())

_inliner = css_inline.CSSInliner(keep_at_rules=True, load_remote_stylesheets=False, keep_link_tags=True)
_markdown = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])

# Plain and readable everywhere: one column on a calm ground, the reader's own fonts, and both colour schemes. What goes
# in line is for the light one; the dark one must overrule it.
_PAGE = """<!DOCTYPE html>
<html lang="{language}"><head><meta charset="utf-8">\
<meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">\
<title>{title}</title>
<style>
body {{ margin: 0; padding: 0; background: #f4f4f2; -webkit-text-size-adjust: 100%; }}
.ground {{ padding: 24px 12px; background: #f4f4f2; }}
.letter {{ max-width: 600px; margin: 0 auto; padding: 32px; box-sizing: border-box; background: #ffffff; \
border-radius: 8px; color: #24292f; font: 16px/1.6 -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; \
overflow-wrap: break-word; }}
.letter h1 {{ margin: 0 0 20px; font-size: 28px; line-height: 1.2; letter-spacing: -.01em; color: #111418; }}
.letter h2 {{ margin: 36px 0 12px; font-size: 21px; line-height: 1.3; color: #111418; }}
.letter h3, .letter h4 {{ margin: 28px 0 8px; font-size: 17px; line-height: 1.4; color: #111418; }}
.letter p {{ margin: 0 0 16px; }}
.letter ul, .letter ol {{ margin: 0 0 16px; padding: 0 0 0 24px; }}
.letter li {{ margin: 0 0 6px; }}
.letter a {{ color: #0b57d0; text-decoration: underline; }}
.letter img {{ max-width: 100%; height: auto; border: 0; border-radius: 4px; vertical-align: middle; }}
.letter blockquote {{ margin: 0 0 16px; padding: 2px 0 2px 16px; border-left: 3px solid #d0d4d9; color: #57606a; }}
.letter blockquote p {{ margin: 0 0 8px; }}
.letter pre {{ margin: 0 0 16px; padding: 14px 16px; white-space: pre-wrap; border-radius: 6px; background: #f4f4f2; }}
.letter code {{ padding: 2px 4px; border-radius: 4px; background: #f4f4f2; font: 14px/1.5 ui-monospace, Menlo, \
Consolas, monospace; }}
.letter pre code {{ padding: 0; background: transparent; }}
.letter table {{ width: 100%; margin: 0 0 16px; border-collapse: collapse; font-variant-numeric: tabular-nums; }}
.letter th {{ padding: 8px 0; border-bottom: 2px solid #d0d4d9; text-align: left; }}
.letter td {{ padding: 8px 0; border-bottom: 1px solid #e4e7ea; vertical-align: top; }}
.letter th + th, .letter td + td {{ padding-left: 16px; }}
.letter hr {{ margin: 32px 0 24px; border: 0; border-top: 1px solid #e4e7ea; }}
.letter hr.footer ~ p {{ color: #57606a; font-size: 14px; }}
@media (max-width: 480px) {{
.ground {{ padding: 0 !important; }}
.letter {{ padding: 24px 20px !important; border-radius: 0 !important; }}
.letter h1 {{ font-size: 24px !important; }}
}}
@media (prefers-color-scheme: dark) {{
body, .ground {{ background: #111315 !important; }}
.letter {{ background: #1b1e21 !important; color: #d9dde1 !important; }}
.letter h1, .letter h2, .letter h3, .letter h4 {{ color: #f2f4f6 !important; }}
.letter a {{ color: #8ab4f8 !important; }}
.letter blockquote {{ border-color: #444a51 !important; color: #a2abb4 !important; }}
.letter pre, .letter code {{ background: #262a2e !important; }}
.letter pre code {{ background: transparent !important; }}
.letter th {{ border-color: #444a51 !important; }}
.letter td, .letter hr {{ border-color: #33383d !important; }}
.letter hr.footer ~ p {{ color: #a2abb4 !important; }}
}}
</style></head>
<body><div class="ground"><div class="letter">
{body}</div></div></body></html>
"""
