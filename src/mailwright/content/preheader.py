"""The preheader: a line that inboxes show beside the subject, and that the mail itself does not show."""

import re
from html import escape

from mailwright.content.template_markers import codes_in

_BODY = re.compile(r"<body\b(?:[^>\"']|\"[^\"]*\"|'[^']*')*>", re.IGNORECASE)
_HIDDEN = "display:none;max-height:0;max-width:0;overflow:hidden;opacity:0;color:transparent;font-size:1px"
# Without these, inboxes go on with the first words of the mail.
_FILLING = "&#847;&zwnj;&nbsp;" * 60


def with_preheader(html: str, preheader: str) -> str:
    """Before everything else that can be read. Variables in it are filled as everywhere."""
    line = f'<div style="{_HIDDEN}">{_escaped(preheader)}{_FILLING}</div>'
    body = _BODY.search(html)
    return line + html if body is None else html[: body.end()] + line + html[body.end() :]


def _escaped(text: str) -> str:
    """The words are words; the code between them stays code."""
    pieces, position = [], 0
    for code in codes_in(text):
        start = text.index(code, position)
        pieces += [escape(text[position:start]), code]
        position = start + len(code)
    return "".join([*pieces, escape(text[position:])])
