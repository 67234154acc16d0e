"""Show the variables of a subject as names instead of template code."""

import re
from typing import Final

import orjson
from markupsafe import Markup

from mailwright.content.template_markers import replace_code
from mailwright.domain.translation import gettext

# A variable as the composer writes it. Only the form of `default` that also replaces empty values counts as a fallback.
_VARIABLE: Final = re.compile(
    r"""\{\{\s*(?:(?P<name>[^\W\d][\w.]*)|\((?P<path>[^\W\d][\w.]*)\ if\ [^)]*\ else\ none\))\s*
    (?:\|\s*default\(\s*(?P<fallback>"(?:[^"\\]|\\.)*")\s*,\s*true\s*\)\s*)?\}\}""",
    re.VERBOSE,
)


def with_chips(text: str | None) -> Markup:
    """Return a text in which variables are chips, for example `Hello [name or “there”]`. Other code stays."""
    pieces: list[Markup] = []

    def mark(code: str) -> str:
        pieces.append(_chip(code))
        return "\0"

    parts = replace_code((text or "").replace("\0", ""), mark).split("\0")
    shown = Markup.escape(parts[0])
    for piece, part in zip(pieces, parts[1:], strict=True):
        shown += piece + Markup.escape(part)
    return shown


def _chip(code: str) -> Markup:
    found = _VARIABLE.fullmatch(code)
    if found is None:
        return Markup("<code>{}</code>").format(code)
    name = (found["name"] or found["path"]).replace("_", " ")
    fallback = orjson.loads(found["fallback"]) if found["fallback"] else ""
    return Markup('<span class="chip">{}</span>').format(
        gettext("{name} or “{fallback}”", name=name, fallback=fallback) if fallback else name
    )
