"""Resolve the entities in the value of an HTML attribute as browsers do."""

import re
from html import unescape
from html.entities import html5
from typing import Final

_ENTITY: Final = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z0-9]++(?:;|(?!=)))")


def unescape_attribute(value: str) -> str:
    """Return the value that a browser reads.

    In attributes, a name without a semicolon is no entity if `=` or an alphanumeric character follows: `?a=1&copy=2`.
    """
    return _ENTITY.sub(_resolve, value) if "&" in value else value


def _resolve(entity: re.Match[str]) -> str:
    text = entity[0]
    return unescape(text) if text[1] == "#" else html5.get(text[1:], text)
