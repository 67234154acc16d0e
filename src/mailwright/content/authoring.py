"""Compile MJML, Markdown or HTML to the HTML of an email, once per version. Template code passes through."""

import re
from collections.abc import Iterator, Mapping
from html import escape

import css_inline
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from mailwright.content import html as html_rules
from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate, TemplatePart
from mailwright.content.template_markers import MarkedSource, find_code
from mailwright.domain.locales import is_right_to_left

# Maximum nesting of elements: the parsers are recursive, and a stack overflow would end the process. Real emails have
# about thirty levels.
MAX_LEVELS = 200
# Maximum number of elements in comments. An email for Outlook has about a hundred in conditional comments.
MAX_IN_COMMENTS = 600


def compile_to_html(
    source: str,
    format: TemplateFormat,  # noqa: A002 - the usual word
    *,
    title: str = "",
    locale: str = "",
    images: Mapping[str, str] | None = None,
) -> str:
    """Return the HTML for the template store. Linked fonts and style sheets are not fetched and stay links.

    `images` maps the names that the source uses to the URLs of uploaded images. Blocks have their own compiler, which
    writes MJML.
    """
    if len(source.encode("utf-8", "replace")) > html_rules.MAX_BYTES:
        raise InvalidTemplate("The source is larger than {max_bytes} KB.", max_bytes=html_rules.MAX_BYTES // 1024)
    if format is TemplateFormat.HTML and not _has_styles(source):
        return _with_images(source, images or {})  # unchanged, byte for byte
    marked = MarkedSource(source, with_words=format is not TemplateFormat.HTML)
    match format:
        case TemplateFormat.MJML:
            html = _from_mjml(marked, is_right_to_left=is_right_to_left(locale))  # MJML inlines its styles itself.
        case TemplateFormat.MARKDOWN:
            body = _with_footer(_move_lists_around_loops(_markdown.render(marked.source), marked), marked)
            html = _inline_styles(_page(body, is_right_to_left=is_right_to_left(locale)))
        case TemplateFormat.HTML:
            html = _inline_styles(marked.source)
        case TemplateFormat.BLOCKS:
            raise TypeError("Blocks are compiled by compile_template.")
    marked.check(html, may_repeat=format is TemplateFormat.MJML)
    html = marked.put_back(_with_images(html, images or {}))
    return html if format is TemplateFormat.HTML else _with_title(html, title, locale)


def image_names(source: str) -> frozenset[str]:
    """Return the names in this source that may refer to uploaded images."""
    return frozenset(_IMAGE_NAME.findall(source))


def _page(body: str, *, is_right_to_left: bool) -> str:
    page = _PAGE.format(body=body)
    if not is_right_to_left:
        return page
    # Email programs drop attributes of the html and body elements, so the element around the text gets the direction
    # too.
    page = page.replace('<html lang="und">', '<html lang="und" dir="rtl">').replace(
        'class="email"', 'class="email" dir="rtl"'
    )
    for left, right in _MIRRORED:
        page = page.replace(left, right, 1)
    return page


def _from_mjml(marked: MarkedSource, *, is_right_to_left: bool = False) -> str:
    import mrml  # noqa: PLC0415 - takes 2 MB that only MJML needs

    _check_mjml(marked)
    # Remove the default fonts, because every recipient's email program would load them from Google.
    options = mrml.RenderOptions(fonts={})
    try:
        html = mrml.to_html(marked.source, render_options=options).content
        # Errors name lines of the author's source, so that is compiled first.
        if (mirrored := _mirrored(marked.source) if is_right_to_left else None) is not None:
            html = mrml.to_html(mirrored, render_options=options).content
            html = html.replace("text-align:left;direction:rtl", "text-align:right;direction:rtl")
    except OSError as error:
        raise _mjml_error(error, marked) from error
    return html


def _mirrored(source: str) -> str | None:
    """Return MJML that begins at the right side by default; None if its author chose the direction."""
    start = _MJML_START.search(source)
    if start is None or _DIRECTION.search(start[0]):
        return None
    rest = source[start.end() :]
    head = _MJML_HEAD.search(rest)
    defaults = f"<mj-attributes>{_RIGHT_TO_LEFT}</mj-attributes>"
    if head is None:
        rest = f"<mj-head>{defaults}</mj-head>{rest}"
    elif head["empty"]:
        rest = f"{rest[: head.start()]}<mj-head>{defaults}</mj-head>{rest[head.end() :]}"
    else:
        rest = f"{rest[: head.end()]}{defaults}{rest[head.end() :]}"
    return f'{source[: start.start()]}<mjml dir="rtl"{start["rest"]}>{rest}'


def _check_mjml(marked: MarkedSource) -> None:
    """Raise for unknown elements and wrong end tags, because the compiler would silently drop a part of the email."""
    source = _COMMENT.sub(lambda match: " " * len(match[0]), marked.source)
    opened: list[str] = []
    levels = 0
    for tag in _tags(marked, source):
        name, is_end = tag["name"].lower(), bool(tag["end"])
        is_empty = bool(tag["empty"]) or name in _VOID
        levels += 0 if is_empty else -1 if is_end else 1
        if levels > MAX_LEVELS:
            raise _too_deep(_line(marked, source, tag))
        if not name.startswith("mj"):
            continue
        if name not in _MJML:
            raise InvalidTemplate("MJML has no element <{name}>.", line=_line(marked, source, tag), name=name)
        if is_empty:
            continue
        if not is_end:
            opened.append(name)
        elif not opened or opened.pop() != name:
            raise InvalidTemplate(
                "</{name}> does not match an open element.", line=_line(marked, source, tag), name=name
            )
    if opened:
        raise InvalidTemplate("<{opened}> is not closed.", opened=opened[-1])
    # The compiler may parse the elements in comments. With at most this many, its stack is sufficient.
    if len(_TAG_START.findall(marked.source)) - len(_TAG_START.findall(source)) > MAX_IN_COMMENTS:
        raise InvalidTemplate(
            "More than {max_in_comments} elements are inside comments. Remove some of them.",
            max_in_comments=MAX_IN_COMMENTS,
        )


def _tags(marked: MarkedSource, source: str) -> Iterator[re.Match[str]]:
    position = 0
    while start := _TAG_START.search(source, position):
        tag = _TAG.match(source, start.start())
        if tag is None:
            raise InvalidTemplate("A tag is not closed.", line=_line(marked, source, start))
        yield tag
        position = tag.end()


def _too_deep(line: int | None = None) -> InvalidTemplate:
    return InvalidTemplate("Elements are nested more than {max_levels} levels deep.", line=line, max_levels=MAX_LEVELS)


def _mjml_error(error: OSError, marked: MarkedSource) -> InvalidTemplate:
    """Return the compiler's message, with the line in the author's source instead of a byte position."""
    message = _first_line(error)
    if not (position := _MJML_POSITION.search(message)):
        return InvalidTemplate("The MJML is not valid: {text}", text=message)
    reason = message[: position.start()].removesuffix(" in root template")
    return InvalidTemplate("The MJML is not valid: {reason}", line=marked.line_at(int(position[1])), reason=reason)


def _line(marked: MarkedSource, source: str, tag: re.Match[str]) -> int:
    return marked.line_at(len(source[: tag.start()].encode()))


def _inline_styles(html: str) -> str:
    _check_levels(html)
    try:
        return _inliner.inline(_LOOP_OVER_ROWS.sub(r"\1<tbody>\2", html))
    except css_inline.InlineError as error:
        raise InvalidTemplate("The styles cannot be inlined: {error}", error=_first_line(error)) from error


def _move_lists_around_loops(html: str, marked: MarkedSource) -> str:
    """Move the list element outside of the loop, so that the loop creates list items instead of one list per item."""

    def wrap_loop(match: re.Match[str]) -> str:
        is_loop = _FOR.match(marked.code(int(match[2]))) and _END_FOR.match(marked.code(int(match[6])))
        return f"<{match[3]}>\n{match[1]}{match[4]}{match[5]}\n</{match[3]}>" if is_loop else match[0]

    return _LOOP_OF_LISTS.sub(wrap_loop, html)


def _with_footer(body: str, marked: MarkedSource) -> str:
    """Format the text after the last horizontal rule as small print if it contains the unsubscribe link."""
    content, rule, footer = body.rpartition("<hr />")
    is_footer = bool(rule) and "unsubscribe_url" in marked.put_back(footer)
    return f'{content}<hr class="footer" />{footer}' if is_footer else body


def _with_title(html: str, title: str, locale: str) -> str:
    """Set the title and language if they are missing. Omit a title that is invalid or has unescaped values."""
    if _is_template(title) and not any(word in code for code in find_code(title) for word in ("safe", "autoescape")):
        html = html.replace("<title></title>", f"<title>{_escape_text(title)}</title>", 1)
    return html.replace(' lang="und"', f' lang="{escape(locale)}"' if locale else "")


def _is_template(source: str) -> bool:
    """Return whether the source is a valid template, so that an error in the subject is not reported as an error in the
    body.
    """
    try:
        TemplatePart("subject", source)
    except InvalidTemplate:
        return False
    return True


def _escape_text(source: str) -> str:
    """Escape all text except template code."""
    escaped, rest = "", source
    for code in find_code(source):
        before, _, rest = rest.partition(code)
        escaped += escape(before) + code
    return escaped + escape(rest)


def _check_levels(html: str) -> None:
    """Raise if elements are nested too deeply, as counted by a non-recursive parser with the inliner's rules."""
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
    return _IMAGE_PLACE.sub(lambda match: match["before"] + images.get(match["name"], match["name"]), html)


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
# A loop before the first row of a table. Parsers open the table body at that row, so the loop would start outside of
# the body and end inside it.
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

# The page for Markdown, readable in every email program: one column, system fonts, light and dark colour schemes. The
# light scheme's styles are inlined, so the dark scheme must override them with !important.
_MJML_START = re.compile(r"<mjml(?P<rest>[^>]*)>", re.IGNORECASE)
_MJML_HEAD = re.compile(r"<mj-head\s*(?P<empty>/)?>", re.IGNORECASE)
_DIRECTION = re.compile(r"\sdir\s*=", re.IGNORECASE)
_RIGHT_TO_LEFT = (
    '<mj-text align="right" /><mj-section direction="rtl" /><mj-column direction="rtl" /><mj-group direction="rtl" />'
)
# The sides of the Markdown page in languages that are written from right to left.
_MIRRORED = (
    ("overflow-wrap: break-word; }", "overflow-wrap: break-word; direction: rtl; text-align: right; }"),
    ("padding: 0 0 0 24px", "padding: 0 24px 0 0"),
    ("padding: 2px 0 2px 16px; border-left", "padding: 2px 16px 2px 0; border-right"),
    ("text-align: left; }", "text-align: right; }"),
    ("{ padding-left: 16px; }", "{ padding-right: 16px; }"),
)
_PAGE = """<!DOCTYPE html>
<html lang="und"><head><meta charset="utf-8">\
<meta name="viewport" content="width=device-width, initial-scale=1">\
<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">\
<title></title>
<style>
body {{ margin: 0; padding: 0; background: #f4f4f2; -webkit-text-size-adjust: 100%; }}
.page {{ padding: 24px 12px; background: #f4f4f2; }}
.email {{ max-width: 600px; margin: 0 auto; padding: 32px; box-sizing: border-box; background: #ffffff; \
border-radius: 8px; color: #24292f; font: 16px/1.6 -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; \
overflow-wrap: break-word; }}
.email h1 {{ margin: 0 0 20px; font-size: 28px; line-height: 1.2; letter-spacing: -.01em; color: #111418; }}
.email h2 {{ margin: 36px 0 12px; font-size: 21px; line-height: 1.3; color: #111418; }}
.email h3, .email h4 {{ margin: 28px 0 8px; font-size: 17px; line-height: 1.4; color: #111418; }}
.email p {{ margin: 0 0 16px; }}
.email ul, .email ol {{ margin: 0 0 16px; padding: 0 0 0 24px; }}
.email li {{ margin: 0 0 6px; }}
.email a {{ color: #0b57d0; text-decoration: underline; }}
.email img {{ max-width: 100%; height: auto; border: 0; border-radius: 4px; vertical-align: middle; }}
.email blockquote {{ margin: 0 0 16px; padding: 2px 0 2px 16px; border-left: 3px solid #d0d4d9; color: #57606a; }}
.email blockquote p {{ margin: 0 0 8px; }}
.email pre {{ margin: 0 0 16px; padding: 14px 16px; white-space: pre-wrap; border-radius: 6px; background: #f4f4f2; }}
.email code {{ padding: 2px 4px; border-radius: 4px; background: #f4f4f2; font: 14px/1.5 ui-monospace, Menlo, \
Consolas, monospace; }}
.email pre code {{ padding: 0; background: transparent; }}
.email table {{ width: 100%; margin: 0 0 16px; border-collapse: collapse; font-variant-numeric: tabular-nums; }}
.email th {{ padding: 8px 0; border-bottom: 2px solid #d0d4d9; text-align: left; }}
.email td {{ padding: 8px 0; border-bottom: 1px solid #e4e7ea; vertical-align: top; }}
.email th + th, .email td + td {{ padding-left: 16px; }}
.email hr {{ margin: 32px 0 24px; border: 0; border-top: 1px solid #e4e7ea; }}
.email hr.footer ~ p {{ color: #57606a; font-size: 14px; }}
@media (max-width: 480px) {{
.page {{ padding: 0 !important; }}
.email {{ padding: 24px 20px !important; border-radius: 0 !important; }}
.email h1 {{ font-size: 24px !important; }}
}}
@media (prefers-color-scheme: dark) {{
body, .page {{ background: #111315 !important; }}
.email {{ background: #1b1e21 !important; color: #d9dde1 !important; }}
.email h1, .email h2, .email h3, .email h4 {{ color: #f2f4f6 !important; }}
.email a {{ color: #8ab4f8 !important; }}
.email blockquote {{ border-color: #444a51 !important; color: #a2abb4 !important; }}
.email pre, .email code {{ background: #262a2e !important; }}
.email pre code {{ background: transparent !important; }}
.email th {{ border-color: #444a51 !important; }}
.email td, .email hr {{ border-color: #33383d !important; }}
.email hr.footer ~ p {{ color: #a2abb4 !important; }}
}}
</style></head>
<body><div class="page"><div class="email">
{body}</div></div></body></html>
"""
