"""What an uploaded image must be: its kind, by its first bytes, and its limits."""

import re
from typing import Final

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

MAX_UPLOAD_BYTES: Final = 20 * 1024 * 1024
# Twice the width of an email, for screens with a high resolution.
MAX_WIDTH: Final = 1_200
MAX_HEIGHT: Final = 8_000
# A decoded pixel takes up to 4 bytes. JPEG can be decoded in a smaller size, so larger photos are possible.
MAX_PIXELS: Final = 40_000_000
MAX_JPEG_PIXELS: Final = 120_000_000
MAX_ANIMATION_BYTES: Final = 5 * 1024 * 1024
MAX_ANIMATION_PIXELS: Final = 150_000_000

MEDIA_TYPES: Final = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}

_BEGINNINGS: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR", re.DOTALL), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpg"),
    (re.compile(rb"GIF8[79]a"), "gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "webp"),
)
_SVG: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!--|!DOCTYPE svg|svg)", re.IGNORECASE)
_HTML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html|head|body|script)", re.IGNORECASE)
_PHONE: Final = re.compile(rb".{4}ftyp(?:hei|hev|mif1|msf1|avi)", re.DOTALL)


class UnsupportedImage(InvalidInput):
    """The file is not a PNG, JPEG, GIF or WebP image."""

    code = "NOT_AN_IMAGE"


@dataclass(frozen=True, slots=True)
class ProcessedImage:
    content: bytes
    extension: str
    width: int
    height: int


def extension_of(content: bytes) -> str:
    """Detect the kind of an image by its first bytes, not by its name."""
    for pattern, extension in _BEGINNINGS:
        if pattern.match(content):
            return extension
    if _HTML.match(content):
        raise unsupported("The file contains HTML, not an image.")
    if _SVG.match(content):
        raise unsupported(
            "SVG images can contain scripts, and most email programs do not show them. Save the image as PNG."
        )
    if _PHONE.match(content):
        raise unsupported("HEIC and AVIF images are not shown by most email programs. Save the image as JPEG.")
    raise UnsupportedImage(field="body")


def unsupported(reason: str) -> UnsupportedImage:
    return UnsupportedImage(reason, field="body")
