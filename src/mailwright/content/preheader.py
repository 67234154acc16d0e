"""The preheader: a line that inboxes show next to the subject, and that the email itself hides."""

import re
from html import escape

from mailwright.content.template_markers import find_code

_BODY = re.compile(r"<body\b(?:[^>\"']|\"[^\"]*\"|'[^']*')*>", re.IGNORECASE)
_HIDDEN = "display:none;max-height:0;max-width:0;overflow:hidden;opacity:0;color:transparent;font-size:1px"
# Without this padding, inboxes would show the first words of the email after the preheader.
_PADDING = "&#847;&zwnj;&nbsp;" * 60


def with_preheader(html: str, preheader: str) -> str:
    """Insert the preheader before everything else in the body. It may contain variables."""
    return insert_preheader(html, _escaped(preheader))


def insert_preheader(html: str, escaped: str) -> str:
    """Insert a preheader that is HTML already."""
    line = f'<div style="{_HIDDEN}">{escaped}{_PADDING}</div>'
    body = _BODY.search(html)
    return line + html if body is None else html[: body.end()] + line + html[body.end() :]


def _escaped(text: str) -> str:
    """Escape the text, and keep the template code in it."""
    pieces, position = [], 0
    for code in find_code(text):
        start = text.index(code, position)
        pieces += [escape(text[position:start]), code]
        position = start + len(code)
    return "".join([*pieces, escape(text[position:])])
