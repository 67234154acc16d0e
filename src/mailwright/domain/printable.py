"""Check text that must be printable on one line."""

from typing import Final

# Zero-width joiners and non-joiners: Persian and Indian names and combined emoji are written with them.
_JOINERS: Final = dict.fromkeys((0x200C, 0x200D))


def is_printable(text: str) -> bool:
    """Return whether the text has no line breaks, control characters or invisible marks that change its direction."""
    return text.isprintable() or text.translate(_JOINERS).isprintable()
