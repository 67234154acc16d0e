"""Decode an uploaded image and encode it for email, with Pillow. Imported only for uploads, because it is large."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Final

from PIL import Image as Pillow
from PIL import ImageCms, ImageOps

from mailwright.content.gif import without_metadata
from mailwright.content.image_rules import (
    MAX_ANIMATION_BYTES,
    MAX_ANIMATION_PIXELS,
    MAX_HEIGHT,
    MAX_JPEG_PIXELS,
    MAX_PIXELS,
    MAX_WIDTH,
    ProcessedImage,
    UnsupportedImage,
    extension_of,
)
from mailwright.domain.errors import InvalidInput

_JPEG_QUALITY: Final = 84
# A PNG with transparency that is larger than this is reduced to 256 colours.
_LARGE_PNG_BYTES: Final = 600 * 1024
_FORMATS: Final = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP"}

# Pillow checks this limit before it decodes anything. The lower limit of other kinds is checked in this module.
Pillow.MAX_IMAGE_PIXELS = MAX_JPEG_PIXELS


def encode_for_email(content: bytes) -> ProcessedImage:
    """Return the image for email, or raise `UnsupportedImage` with the reason."""
    extension = extension_of(content)
    with _explained_errors(), Pillow.open(BytesIO(content), formats=[_FORMATS[extension]]) as image:
        _check_size(image, extension)
        if getattr(image, "is_animated", False) and extension != "png":
            return _animation(image, content, extension)
        image.draft("RGB", (2 * MAX_WIDTH, 2 * MAX_WIDTH))  # Only JPEG decodes in a smaller size.
        return _encode(_shrink(_upright(image)), extension)


@contextmanager
def _explained_errors() -> Iterator[None]:
    """Convert the many kinds of errors that Pillow raises for damaged files."""
    try:
        yield
    except InvalidInput:
        raise
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        raise _unsupported(f"The image has more than {MAX_JPEG_PIXELS // 1_000_000} megapixels.") from error
    except Exception as error:
        raise _unsupported("The image is damaged or incomplete. Export it again and upload the new file.") from error


def _check_size(image: Pillow.Image, extension: str) -> None:
    most = MAX_JPEG_PIXELS if extension == "jpg" else MAX_PIXELS
    if image.width * image.height > most:
        raise _unsupported(
            f"The image has {image.width} × {image.height} pixels; at most {most // 1_000_000} megapixels are allowed."
        )


def _animation(image: Pillow.Image, content: bytes, extension: str) -> ProcessedImage:
    if extension != "gif":
        raise _unsupported("Most email programs do not show WebP animations. Save the animation as GIF.")
    kept = without_metadata(content)
    if len(kept) > MAX_ANIMATION_BYTES:
        raise _unsupported(
            f"An animated GIF can have at most {MAX_ANIMATION_BYTES // 1024**2} MB. Make it shorter or smaller."
        )
    frames: int = getattr(image, "n_frames", 1)
    if frames * image.width * image.height > MAX_ANIMATION_PIXELS:
        raise _unsupported(
            f"The animation has {frames} frames of {image.width} × {image.height} pixels. Make it shorter or smaller."
        )
    for number in range(frames):  # Decode all frames, to find damaged ones now.
        image.seek(number)
        image.load()
    return ProcessedImage(kept, "gif", image.width, image.height)


def _upright(image: Pillow.Image) -> Pillow.Image:
    """Apply the orientation and the colour profile, because both are removed with the other metadata."""
    image.load()
    profile = image.info.get("icc_profile")
    turned = ImageOps.exif_transpose(image)
    has_alpha = "A" in turned.getbands() or "transparency" in turned.info
    if turned.mode.startswith("I;16"):
        turned = turned.point(lambda value: value / 256, "L")
    if profile and turned.mode in ("RGB", "CMYK"):
        with suppress(ImageCms.PyCMSError, OSError, ValueError):  # An invalid profile changes no colours.
            own = ImageCms.ImageCmsProfile(BytesIO(profile))
            converted = ImageCms.profileToProfile(turned, own, ImageCms.createProfile("sRGB"), outputMode="RGB")
            turned = converted or turned
    return turned.convert("RGBA" if has_alpha else "RGB")


def _shrink(image: Pillow.Image) -> Pillow.Image:
    image.thumbnail((MAX_WIDTH, MAX_HEIGHT), Pillow.Resampling.LANCZOS)
    return image


def _encode(image: Pillow.Image, extension: str) -> ProcessedImage:
    """Choose PNG for transparency and drawings, and JPEG for photos. Outlook shows both, but no WebP."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    # A new image has no metadata, even if the uploaded one had some.
    plain = Pillow.new(image.mode, image.size)
    plain.paste(image)
    if plain.mode == "RGBA":
        return _result(plain, _small_png(plain), "png")
    jpeg = _written(plain, "JPEG", quality=_JPEG_QUALITY, optimize=True, progressive=True)
    if extension != "jpg":
        png = _written(plain, "PNG", optimize=True)
        if len(png) < 2 * len(jpeg):
            return _result(plain, png, "png")
    return _result(plain, jpeg, "jpg")


def _small_png(image: Pillow.Image) -> bytes:
    png = _written(image, "PNG", optimize=True)
    if len(png) <= _LARGE_PNG_BYTES:
        return png
    reduced = image.quantize(256, method=Pillow.Quantize.FASTOCTREE)
    return min(png, _written(reduced, "PNG", optimize=True), key=len)


def _written(image: Pillow.Image, kind: str, **options: bool | int) -> bytes:
    output = BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def _result(image: Pillow.Image, content: bytes, extension: str) -> ProcessedImage:
    return ProcessedImage(content, extension, image.width, image.height)


def _unsupported(reason: str) -> UnsupportedImage:
    return UnsupportedImage(reason, field="body")
