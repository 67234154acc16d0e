"""Colours as `#rrggbb`, and their contrast as WCAG 2.2 defines it."""

import re
from typing import Final

# Text of normal size, and large text or parts of controls.
TEXT_CONTRAST: Final = 4.5
LARGE_TEXT_CONTRAST: Final = 3.0

WHITE: Final = "#ffffff"
BLACK: Final = "#000000"

_COLOR: Final = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})", re.ASCII | re.IGNORECASE)


def parse_color(text: str) -> str:
    """Return a colour as `#rrggbb` in lower case.

    Only hexadecimal colours are allowed, so a value cannot contain CSS or HTML.
    """
    if not _COLOR.fullmatch(text):
        raise ValueError("must be a colour such as #2563eb")
    digits = text[1:].lower()
    return f"#{digits}" if len(digits) == 6 else "#" + "".join(2 * digit for digit in digits)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def readable_on(background: str) -> str:
    """Return black or white, whichever is easier to read. It always has a contrast of at least 4.5."""
    return max(WHITE, BLACK, key=lambda color: contrast(color, background))


def with_contrast(color: str, background: str, ratio: float = TEXT_CONTRAST) -> str:
    """Return the colour, mixed with black or white until its contrast with the background is sufficient."""
    target = readable_on(background)
    for percent in range(0, 100, 4):
        mixed = mix(color, target, percent)
        if contrast(mixed, background) >= ratio:
            return mixed
    return target


def mix(color: str, other: str, percent: int) -> str:
    """Return the colour with this share of the other one."""
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round((own * (100 - percent) + added * percent) / 100):02x}" for own, added in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (channel / 255 for channel in _channels(color))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
