"""Uploads become images for email: upright, small, without metadata. Others are refused with a reason."""

import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from mailwright.content.image_processing import process_image
from mailwright.content.image_rules import MAX_UPLOAD_BYTES, MAX_WIDTH, UnsupportedImage
from tests.pictures import a_phone_photo, a_photo, a_png, an_animation, decoded, encoded, made


def a_bomb(width: int, height: int) -> bytes:
    """A small PNG that claims to be huge."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(bytes(1_000_000))), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.promise("images-clean")
async def test_phone_photo_is_upright_and_without_metadata() -> None:
    image = await process_image(a_phone_photo(640, 480))
    assert (image.extension, image.width, image.height) == ("jpg", 480, 640)
    assert b"Secret" not in image.content
    written = decoded(image.content)
    assert not written.getexif()
    assert not {"exif", "icc_profile", "comment", "xmp"} & set(written.info)


@pytest.mark.parametrize(
    ("content", "extension", "size"),
    [
        (lambda: a_photo(3_000, 1_500), "jpg", (1_200, 600)),
        (a_photo(600, 400, kind="WEBP"), "jpg", (600, 400)),
        (a_photo(600, 400, kind="PNG"), "jpg", (600, 400)),
        (a_png(300, 100), "png", (300, 100)),
        (a_png(2_400, 100, (0, 0, 0, 99)), "png", (1_200, 50)),
        (encoded(Pillow.new("RGBA", (50, 50), (9, 9, 9, 120)), "WEBP", lossless=True), "png", (50, 50)),
        (encoded(Pillow.new("CMYK", (50, 50)), "JPEG"), "jpg", (50, 50)),
        (encoded(Pillow.new("I;16", (50, 50), 30_000), "PNG"), "png", (50, 50)),
        (encoded(Pillow.new("P", (50, 50)), "GIF"), "png", (50, 50)),
        (encoded(Pillow.new("1", (50, 50)), "PNG"), "png", (50, 50)),
    ],
)
async def test_image_gets_a_format_and_size_for_email(
    content: bytes | Callable[[], bytes], extension: str, size: tuple[int, int]
) -> None:
    image = await process_image(made(content))
    assert (image.extension, (image.width, image.height)) == (extension, size)
    assert decoded(image.content).size == size
    assert image.width <= MAX_WIDTH


async def test_transparency_is_kept() -> None:
    image = decoded((await process_image(a_png(10, 10, (200, 0, 0, 100)))).content)
    assert image.convert("RGBA").getpixel((5, 5)) == (200, 0, 0, 100)


async def test_large_photo_shrinks() -> None:
    content = a_photo(4_000, 3_000, quality=95)
    assert len((await process_image(content)).content) < len(content) / 5


async def test_animation_keeps_its_frames_and_loses_metadata() -> None:
    image = await process_image(an_animation(5) + b"SecretTail")
    written = decoded(image.content)
    assert (image.extension, getattr(written, "n_frames", 1), written.info["loop"]) == ("gif", 5, 0)
    assert b"Secret" not in image.content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "SVG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b'<?xml version="1.0"?><svg/>', "SVG"),
        (b"\xef\xbb\xbf <!DOCTYPE html><p>Hello</p>", "HTML"),
        (b"<script>alert(1)</script>", "HTML"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"%PDF-1.7", "not a PNG, JPEG, GIF or WebP"),
        (b"", "not a PNG, JPEG, GIF or WebP"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(20), "damaged"),
        (b"GIF89a<script>alert(1)</script>", "damaged"),
        (a_photo(300, 300)[:2_000], "damaged"),
        (a_photo(300, 300, kind="PNG")[:2_000], "damaged"),
        (a_photo(300, 300, kind="WEBP")[:2_000], "damaged"),
        (an_animation(5)[:-40], "damaged"),
        (lambda: a_bomb(50_000, 50_000), "megapixels"),
        (lambda: a_bomb(9_000, 9_000), "megapixels"),
        (a_photo(20, 20) + bytes(MAX_UPLOAD_BYTES), "at most 20 MB"),
        (lambda: an_animation(40, 500, 500), "at most 5 MB"),
    ],
    ids=range(18),
)
@pytest.mark.promise("images-clean")
async def test_unsuitable_file_is_refused_with_its_reason(content: bytes | Callable[[], bytes], reason: str) -> None:
    with pytest.raises(UnsupportedImage, match=reason):
        await process_image(made(content))


async def test_webp_animation_is_refused() -> None:
    frames = [Pillow.new("RGB", (9, 9), color) for color in ("red", "blue")]
    with pytest.raises(UnsupportedImage, match="Save the animation as GIF"):
        await process_image(encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]))


SEEDS = [a_png(), a_photo(30, 20), an_animation(2), a_photo(30, 20, kind="WEBP"), a_phone_photo(30, 20)]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 10_000), st.binary(min_size=1, max_size=12))
@pytest.mark.promise("images-clean")
async def test_damaged_file_is_refused_or_readable(seed: bytes, at: int, noise: bytes) -> None:
    at %= len(seed)
    try:
        image = await process_image(seed[:at] + noise + seed[at + len(noise) :])
    except UnsupportedImage:
        return
    assert decoded(image.content).size == (image.width, image.height)
