"""Fill the slots of MJML that a developer wrote: `[[name]]` for a value, `[[name.alt]]` for the text of an image."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from mailwright.content.blocks import inline as inline_html
from mailwright.content.blocks.document import AnyBlock, InvalidDocument, SlotBlock

_SLOT: Final = re.compile(r"\[\[\s*([A-Za-z][A-Za-z0-9_-]{0,62})(\.alt)?\s*\]\]")


def fill_slots(mjml: str, blocks: Sequence[AnyBlock], warn: Callable[..., None]) -> str:
    """Return the MJML with the values of the slots.

    A placeholder without a slot is an error; a slot without a placeholder is a warning.
    """
    slots = {block.name: block for block in blocks if isinstance(block, SlotBlock)}
    names = [match[1] for match in _SLOT.finditer(mjml)]
    if unknown := next((name for name in names if name not in slots), None):
        raise InvalidDocument(
            "[[{unknown}]] has no slot: add a block of the type slot with this name.", unknown=unknown
        )
    for name, block in slots.items():
        if name not in names:
            warn(block.id, f"The MJML has no place [[{name}]], so the value is not shown.")
        elif not block.value.strip():
            warn(block.id, "The field is empty.", "EMPTY_BLOCK")

    def value(match: re.Match[str]) -> str:
        block = slots[match[1]]
        if match[2]:
            return inline_html.plain(block.alt or "")
        if block.kind == "richText":
            return inline_html.inline(block.value, lambda message: warn(block.id, message))
        return inline_html.plain(block.value)

    return _SLOT.sub(value, mjml)
