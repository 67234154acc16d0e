"""Golden files: the emails of our sample pages. `python -m tests.notion_golden` writes them again.

Open the HTML in a browser and look before you commit a change of them.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from mailwright.sources.mailouts.footer import footers
from mailwright.sources.mailouts.rendering import ImageCopy, RenderedPage, framed, render
from mailwright.sources.mailouts.setup import FooterDetails
from tests.notion_pages import Described, a_newsletter, as_blocks, every_colour, every_type, every_word

FOLDER = Path(__file__).parent / "golden" / "mailouts"
PICTURE = "crane.png"
EXPIRING = "https://prod-files-secure.s3.us-west-2.amazonaws.com/a/crane.png?X-Amz-Expires=3600"
EMOJI = "https://example.com/e.png"
IMAGES = {EXPIRING: ImageCopy(PICTURE, 1200), EMOJI: ImageCopy(PICTURE)}
# The footer of every mailout, with the link of one recipient.
FOOTER = footers(FooterDetails("Example Harbour", "1 Quay Street, Porto"))[0].replace(
    "{{ unsubscribe_url }}", "https://example.com/unsubscribe"
)

PAGES: dict[str, tuple[str, list[Described]]] = {
    "newsletter": ("What the harbour did in March", a_newsletter(EXPIRING)),
    "every-type": ("Every type of block", every_type(EXPIRING)),
    "every-word": ("Every form of text", every_word()),
    "every-colour": ("Every colour", every_colour()),
}


def rendered(name: str) -> RenderedPage:
    return render(as_blocks(PAGES[name][1]), IMAGES)


def files(name: str) -> Iterator[tuple[str, str]]:
    """Return the name and content of each file of a page."""
    found = rendered(name)
    left_out = "".join(f"{each.type} ({each.code}): {each.reason}\n" for each in found.issues)
    yield f"{name}.html", framed(PAGES[name][0], found.html, FOOTER)
    yield f"{name}.txt", found.text
    yield f"{name}.left-out.txt", left_out


def a_picture(width: int = 1200, height: int = 520) -> bytes:
    """Draw a picture as a PNG, so that the tests need no third-party image."""
    sky, sea, iron, sun = (250, 214, 165), (44, 95, 122), (52, 58, 64), (255, 245, 225)
    shore = height * 3 // 4
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            is_mast = 300 <= x < 330 and 90 <= y < shore
            is_arm = 300 <= x < 860 and 110 <= y < 134
            is_brace = abs((y - 122) * 2 + (x - 330)) < 12 and y >= 122 and 140 <= x < 330
            is_rope = 780 <= x < 785 and 134 <= y < 260
            is_load = 730 <= x < 835 and 260 <= y < 310
            is_sun = (x - 960) ** 2 + (y - 200) ** 2 < 70**2
            base = sea if y >= shore else (sun if is_sun else sky)
            row += bytes(iron if (is_mast or is_arm or is_brace or is_rope or is_load) else base)
        rows.append(b"\0" + bytes(row))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(rows), 9)), (b"IEND", b""))
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / PICTURE).write_bytes(a_picture())
    for page in PAGES:
        for name, content in files(page):
            (FOLDER / name).write_text(content, encoding="utf-8")
            print(FOLDER / name)


if __name__ == "__main__":
    main()
