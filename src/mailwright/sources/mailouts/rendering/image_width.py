"""Read the width of an image from its header: without a width attribute, Outlook shows images in full size."""

import struct

# JPEG frames that contain the size; the other markers of this range are tables.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def width_of(content: bytes) -> int | None:
    """Return the width in pixels, or None if the format is unknown."""
    try:
        width = _width(content)
    except (struct.error, IndexError):
        return None
    return width if width else None


def _width(content: bytes) -> int | None:
    if content.startswith(b"\x89PNG"):
        return int(struct.unpack_from(">I", content, 16)[0])
    if content.startswith(b"GIF8"):
        return int(struct.unpack_from("<H", content, 6)[0])
    if content.startswith(b"\xff\xd8"):
        return _jpeg_width(content)
    return _webp_width(content) if content[8:12] == b"WEBP" else None


def _jpeg_width(content: bytes) -> int | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        if content[at + 1] in _JPEG_FRAMES:
            return int(struct.unpack_from(">H", content, at + 7)[0])
        # A marker may be preceded by any number of fill bytes.
        at += 1 if content[at + 1] == 0xFF else 2 + struct.unpack_from(">H", content, at + 2)[0]
    return None


def _webp_width(content: bytes) -> int | None:
    match content[12:16]:
        case b"VP8X":
            return int.from_bytes(content[24:27], "little") + 1 if len(content) >= 30 else None
        case b"VP8L":
            return (int(struct.unpack_from("<I", content, 21)[0]) & 0x3FFF) + 1
        case b"VP8 ":
            return int(struct.unpack_from("<H", content, 26)[0]) & 0x3FFF
        case _:
            return None
