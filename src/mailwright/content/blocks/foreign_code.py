"""Disable template code in content that someone else wrote, for example a feed.

It could show data of the recipients.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from mailwright.content.template_markers import find_code

_WORD_JOINER: Final = "\u2060"
# Elements between two braces do not count, because an editor may remove them.
_OPENING: Final = re.compile(r"\{(?=(?:<[^>]*>)*[{%#])")
_ADDRESSES: Final = frozenset(["href", "src", "image", "thumbnail"])
_ADDRESS: Final = re.compile(r'\b(?:href|src)="[^"]*"')
_CHIP: Final = re.compile(r"\bdata-variable(?==)")


def as_text(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return blocks whose template code is text. An invisible character separates the braces.

    Entities would not be enough: the editor in the browser writes them as braces again.
    """
    return [{name: _neutral(name, value) for name, value in block.items()} for block in blocks]


def has_code(blocks: Sequence[dict[str, Any]]) -> bool:
    texts = (value for block in blocks for value in block.values() if isinstance(value, str))
    return any(next(find_code(text), None) is not None for text in texts)


def _neutral(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if name in _ADDRESSES:
        return _encoded(value)
    if name == "html":
        value = _CHIP.sub("data-name", _ADDRESS.sub(lambda match: _encoded(match[0]), value))
    return _OPENING.sub(f"{{{_WORD_JOINER}", value)


def _encoded(address: str) -> str:
    return address.replace("{", "%7B").replace("}", "%7D")
