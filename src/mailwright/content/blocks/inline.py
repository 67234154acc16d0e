"""Turn typed text into safe HTML with template code: sanitised, escaped, and never able to break the template.

Complete template code stays: `{{ name }}`. Every other brace becomes an entity, so that the template engine and the
markers of the MJML compiler never see text as code.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape, unescape
from typing import Final

import nh3
import orjson
from selectolax.lexbor import LexborHTMLParser

from mailwright.content.blocks.document import is_variable
from mailwright.content.template import InvalidTemplate, TemplatePart
from mailwright.content.template_markers import find_code, replace_code

Warn = Callable[[str], None]

MAX_FALLBACK: Final = 500
_INLINE_TAGS: Final = frozenset(["a", "b", "br", "code", "em", "i", "li", "ol", "p", "s", "span", "strong", "u", "ul"])
_TABLE_TAGS: Final = frozenset(["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "col", "colgroup"])
_HTML_TAGS: Final = frozenset(
    [
        *_INLINE_TAGS,
        *_TABLE_TAGS,
        *("blockquote", "center", "del", "div", "dl", "dt", "dd", "font", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
        *("img", "ins", "pre", "small", "sub", "sup"),
    ]
)
_DROPPED_WITH_CONTENT: Final = frozenset(["script", "style", "template", "title", "iframe", "object", "svg", "math"])
_SCHEMES: Final = frozenset(["http", "https", "mailto", "tel", "sms"])
_HTML_ATTRIBUTES: Final = {
    "*": {"style", "align", "class", "dir", "lang", "title", "role"},
    "a": {"href", "target", "name"},
    "img": {"src", "alt", "width", "height", "border"},
    "font": {"color", "face", "size"},
    "ol": {"start", "type"},
    **{
        name: {"width", "height", "bgcolor", "valign", "border", "cellpadding", "cellspacing", "colspan", "rowspan"}
        for name in _TABLE_TAGS
    },
}
# Text that the MJML compiler reserves for its markers.
_RESERVED: Final = re.compile(r"mwk(?=\d+k)")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def plain(text: str) -> str:
    """Escape text for HTML or for a quoted attribute, and keep complete outputs such as `{{ name }}`."""
    codes: list[str] = []
    text = _CONTROLS.sub("", text)
    token = _unused_token(text)
    marked = replace_code(text, lambda code: _keep(code, codes, token) if is_output(code) else code)
    return _put_back(_neutral(escape(marked)), codes, token)


def inline(html: str, warn: Warn) -> str:
    """Return the small subset of HTML that text blocks may have, with chips as variables."""
    return _sanitised(html, warn, _clean_inline)


def raw(html: str, warn: Warn) -> str:
    """Return the HTML of an HTML block: layout elements are allowed, but no code, forms or style sheets."""
    return _sanitised(html, warn, _clean_raw)


def variable_code(name: str, fallback: str | None = None) -> str:
    """Return the code of a variable. The fallback also replaces a value that is empty or null."""
    if not fallback:
        return f"{{{{ {name} }}}}"
    steps = name.split(".")
    paths = [".".join(steps[:number]) for number in range(1, len(steps))]
    known = " and ".join(f"{path} is defined and {path}" for path in paths)
    value = f"({name} if {known} else none)" if known else name
    return f"{{{{ {value}|default({_literal(fallback)}, true) }}}}"


@lru_cache(maxsize=4_096)
def is_output(code: str) -> bool:
    """Return whether this is a complete output that the template engine accepts on its own."""
    return code.startswith("{{") and _is_template(code)


def _sanitised(html: str, warn: Warn, clean: Callable[[str], str]) -> str:
    html = _CONTROLS.sub("", html)
    token = _unused_token(html)
    html, chips = _without_chips(html, token, warn)
    keeps_statements = _is_template(replace_code(html, unescape))
    if not keeps_statements and any(not is_output(unescape(code)) for code in find_code(html)):
        warn("Incomplete template code is shown as text.")
    cleaned = _clean_around(html, chips, token, clean, keeps_statements=keeps_statements)
    if cleaned is None:
        warn("Template code between table rows or attributes is shown as text.")
        cleaned = _clean_around(html, chips, token, clean, keeps_statements=False)
    return cleaned or ""


def _clean_around(
    html: str, chips: Sequence[str], token: str, clean: Callable[[str], str], *, keeps_statements: bool
) -> str | None:
    """Sanitise the HTML with tokens in place of the code, or return None if a statement would be lost or moved."""
    codes = list(chips)

    def keep(code: str) -> str:
        written = unescape(code)
        return _keep(written, codes, token) if keeps_statements or is_output(written) else code

    marked = replace_code(html, keep)
    cleaned = clean(marked)
    if keeps_statements and len(codes) > len(chips):
        pattern = re.compile(token + r"(\d+)x")
        if pattern.findall(cleaned) != pattern.findall(marked) and not all(map(is_output, codes)):
            return None
    return _put_back(_neutral(cleaned), codes, token)


def _without_chips(html: str, token: str, warn: Warn) -> tuple[str, list[str]]:
    """Replace chips by tokens, and return the code of each."""
    if "data-variable" not in html:
        return html, []
    codes: list[str] = []
    tree = LexborHTMLParser(f"<body>{html}</body>")
    for node in tree.css("[data-variable]"):
        name, fallback = node.attributes.get("data-variable") or "", node.attributes.get("data-fallback")
        if not is_variable(name):
            warn(f"{name[:60]!r} is not the name of a variable.")
            continue
        code = variable_code(name, fallback)
        if is_output(code):
            node.replace_with(_keep(code, codes, token))
    body = tree.body
    return (body.inner_html or "" if body is not None else ""), codes


def _clean_inline(html: str) -> str:
    return nh3.clean(
        html,
        tags=set(_INLINE_TAGS),
        clean_content_tags=set(_DROPPED_WITH_CONTENT),
        attributes={"a": {"href"}, "span": {"style"}},
        filter_style_properties={"color"},
        url_schemes=set(_SCHEMES),
        link_rel=None,
    )


def _clean_raw(html: str) -> str:
    return nh3.clean(
        html,
        tags=set(_HTML_TAGS),
        clean_content_tags=set(_DROPPED_WITH_CONTENT),
        attributes={name: set(allowed) for name, allowed in _HTML_ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel=None,
    )


def _keep(code: str, codes: list[str], token: str) -> str:
    codes.append(code)
    return f"{token}{len(codes) - 1}x"


def _put_back(html: str, codes: Sequence[str], token: str) -> str:
    return re.sub(token + r"(\d+)x", lambda match: codes[int(match[1])], html) if codes else html


def _neutral(html: str) -> str:
    """Write braces and reserved words as entities, which neither the engine nor the compiler takes for code."""
    return _RESERVED.sub("&#109;wk", html).replace("{", "&#123;")


def _unused_token(text: str) -> str:
    number = 0
    while (token := f"mwcode{number}c") in text.lower():
        number += 1
    return token


def _is_template(source: str) -> bool:
    try:
        TemplatePart("html", source)
    except InvalidTemplate:
        return False
    return _RESERVED.search(source) is None


def _literal(text: str) -> str:
    """Write a string of the template language."""
    line = " ".join(text.split())[:MAX_FALLBACK]
    return _RESERVED.sub(r"\\u006dwk", orjson.dumps(line).decode())
