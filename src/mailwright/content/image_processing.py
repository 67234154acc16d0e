"""Turn an uploaded image into one that email programs show: turned upright, small enough, without metadata.

The uploaded file is not trusted: its kind is detected by its first bytes, its size in pixels is checked before a pixel
is decoded, and the stored image is encoded here, so that no other part of the file survives.
"""

import re
from dataclasses import dataclass
from typing import Final

from mailwright.content.decoding_threads import DecodingThreads, DecodingTooSlow
from mailwright.domain.errors import InvalidInput

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
_threads = DecodingThreads()


class UnsupportedImage(InvalidInput):
    """The file is not a PNG, JPEG, GIF or WebP image."""

    code = "NOT_AN_IMAGE"


@dataclass(frozen=True, slots=True)
class ProcessedImage:
    content: bytes
    extension: str
    width: int
    height: int


async def process_image(content: bytes) -> ProcessedImage:
    """Return the image for email, or raise `UnsupportedImage` with the reason.

    Raise `ImagesUnavailable` if too many images are being processed.
    """
    if len(content) > MAX_UPLOAD_BYTES:
        raise _unsupported(f"An image can have at most {MAX_UPLOAD_BYTES // 1024**2} MB.")
    extension_of(content)
    try:
        return await _threads.run(_encode, content)
    except DecodingTooSlow as error:
        raise _unsupported("The image takes too long to decode. Make it smaller and upload it again.") from error


def extension_of(content: bytes) -> str:
    """Detect the kind of an image by its first bytes, not by its name."""
    for pattern, extension in _BEGINNINGS:
        if pattern.match(content):
            return extension
    if _HTML.match(content):
        raise _unsupported("The file contains HTML, not an image.")
    if _SVG.match(content):
        raise _unsupported(
            "SVG images can contain scripts, and most email programs do not show them. Save the image as PNG."
        )
    if _PHONE.match(content):
        raise _unsupported("HEIC and AVIF images are not shown by most email programs. Save the image as JPEG.")
    raise UnsupportedImage(field="body")


def _encode(content: bytes) -> ProcessedImage:
    from mailwright.content.image_codec import encode_for_email  # noqa: PLC0415 - large and rarely needed

    return encode_for_email(content)


def _unsupported(reason: str) -> UnsupportedImage:
    return UnsupportedImage(reason, field="body")
