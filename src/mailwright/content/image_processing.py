"""Turn an uploaded image into one that email programs show: turned upright, small enough, without metadata.

The uploaded file is not trusted: its kind is detected by its first bytes, its size in pixels is checked before a pixel
is decoded, and the stored image is encoded here, so that no other part of the file survives.
"""

from typing import Final

from mailwright.content.decoding_threads import DecodingThreads, DecodingTooSlow
from mailwright.content.image_rules import MAX_UPLOAD_BYTES, ProcessedImage, extension_of, unsupported

_threads: Final = DecodingThreads()


async def process_image(content: bytes) -> ProcessedImage:
    """Return the image for email, or raise `UnsupportedImage` with the reason.

    Raise `ImagesUnavailable` if too many images are being processed.
    """
    if len(content) > MAX_UPLOAD_BYTES:
        raise unsupported(f"An image can have at most {MAX_UPLOAD_BYTES // 1024**2} MB.")
    extension_of(content)
    try:
        return await _threads.run(_encode, content)
    except DecodingTooSlow as error:
        raise unsupported("The image takes too long to decode. Make it smaller and upload it again.") from error


def _encode(content: bytes) -> ProcessedImage:
    from mailwright.content.image_codec import encode_for_email  # noqa: PLC0415 - large and rarely needed

    return encode_for_email(content)
