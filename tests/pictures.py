"""Images for tests, drawn here."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from PIL import Image as Pillow

GPS_INFO, ORIENTATION, MAKER = 0x8825, 0x0112, 0x010F


def encoded(image: Pillow.Image, kind: str, **options: Any) -> bytes:
    output = BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def decoded(content: bytes) -> Pillow.Image:
    image = Pillow.open(BytesIO(content))
    image.load()
    return image


def made(content: bytes | Callable[[], bytes]) -> bytes:
    """Make a large file only for the test that uses it, not whenever tests are collected."""
    return content if isinstance(content, bytes) else content()


def a_png(width: int = 40, height: int = 20, color: Any = (20, 90, 200)) -> bytes:
    return encoded(Pillow.new("RGBA" if len(color) == 4 else "RGB", (width, height), color), "PNG")


def a_photo(width: int = 640, height: int = 480, *, kind: str = "JPEG", **options: Any) -> bytes:
    """Noise, which compresses as badly as a detailed photo."""
    return encoded(Pillow.effect_noise((width, height), 80).convert("RGB"), kind, **options)


def a_phone_photo(width: int = 640, height: int = 480) -> bytes:
    """A JPEG that is stored on its side, with the place where it was taken."""
    exif = Pillow.Exif()
    exif[ORIENTATION] = 6
    exif[MAKER] = "SecretCamera"
    exif.get_ifd(GPS_INFO)[2] = (38.0, 43.0, 1.0)
    return a_photo(width, height, exif=exif, comment=b"SecretComment")


def an_animation(frames: int = 5, width: int = 60, height: int = 40) -> bytes:
    pictures = [Pillow.effect_noise((width, height), 20 + 10 * number).convert("P") for number in range(frames)]
    options = {"save_all": True, "append_images": pictures[1:], "duration": 80, "loop": 0}
    return encoded(pictures[0], "GIF", comment=b"SecretComment", **options)
