"""Copy a GIF animation without its metadata. The frames stay as they are, because encoding them again loses quality."""

_EXTENSION, _FRAME, _TRAILER = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL, _APPLICATION = 0xF9, 0xFF
# The extensions that say how often the animation repeats. Others contain comments, XMP and colour profiles.
_LOOPS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def without_metadata(content: bytes) -> bytes:
    """Return the GIF without comments, application data and bytes after its end.

    Raises `IndexError` or `ValueError` if it is truncated or damaged.
    """
    at = 13 + _palette_bytes(content[10])
    copied = bytearray(content[:at])
    while content[at] != _TRAILER:
        start = at
        if content[at] == _FRAME:
            at = _after_blocks(content, at + 11 + _palette_bytes(content[at + 9]))
            copied += content[start:at]
        elif content[at] == _EXTENSION:
            label, name = content[at + 1], content[at + 3 : at + 14]
            at = _after_blocks(content, at + 2)
            if label == _GRAPHIC_CONTROL or (label == _APPLICATION and name in _LOOPS):
                copied += content[start:at]
        else:
            raise ValueError("unknown block")
    return bytes(copied) + bytes([_TRAILER])


def _palette_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 0x07) + 1) if flags & 0x80 else 0


def _after_blocks(content: bytes, at: int) -> int:
    """Return the position after a sequence of blocks. Each begins with its length; an empty one ends the sequence."""
    while length := content[at]:
        at += 1 + length
    return at + 1
