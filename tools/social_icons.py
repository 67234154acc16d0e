"""Draw the icons of social links in emails: `python tools/social_icons.py`.

White shapes on a grey disc can be seen on light and on dark backgrounds. They are drawn here, so that the project
contains no icons of third parties.
"""

from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

TARGET = Path(__file__).parent.parent / "src/mailwright/web/dashboard/static"
# Emails show the icons with 32 pixels, so they are sharp on phones.
SIZE, SCALE = 96, 4
UNIT = SIZE * SCALE / 24  # The shapes are drawn on a grid of 24.
DISC, INK = (82, 82, 91, 255), (255, 255, 255, 255)


class Pen:
    def __init__(self, image: Image.Image) -> None:
        self._draw = ImageDraw.Draw(image)

    def line(self, *points: tuple[float, float], width: float = 1.6) -> None:
        self._draw.line([_at(point) for point in points], fill=INK, width=int(width * UNIT), joint="curve")

    def shape(self, *points: tuple[float, float], fill: tuple[int, ...] = INK) -> None:
        self._draw.polygon([_at(point) for point in points], fill=fill)

    def disc(self, x: float, y: float, radius: float, height: float = 0, fill: tuple[int, ...] = INK) -> None:
        self._draw.ellipse(_box(x, y, radius, height or radius), fill=fill)

    def ring(self, x: float, y: float, radius: float, height: float = 0, width: float = 1.4) -> None:
        self._draw.ellipse(_box(x, y, radius, height or radius), outline=INK, width=int(width * UNIT))

    def frame(self, x: float, y: float, radius: float, height: float, round_: float) -> None:
        box = _box(x, y, radius, height)
        self._draw.rounded_rectangle(box, radius=round_ * UNIT, outline=INK, width=int(1.5 * UNIT))

    def word(self, text: str, size: float) -> None:
        font = ImageFont.load_default(size * UNIT)
        self._draw.text(_at((12, 12)), text, fill=INK, font=font, anchor="mm", stroke_width=int(0.35 * UNIT))


def _at(point: tuple[float, float]) -> tuple[float, float]:
    return point[0] * UNIT, point[1] * UNIT


def _box(x: float, y: float, radius: float, height: float) -> tuple[float, float, float, float]:
    return (x - radius) * UNIT, (y - height) * UNIT, (x + radius) * UNIT, (y + height) * UNIT


def _instagram(pen: Pen) -> None:
    pen.frame(12, 12, 5.2, 5.2, 2.2)
    pen.ring(12, 12, 2.5)
    pen.disc(14.9, 9.1, 0.7)


def _x(pen: Pen) -> None:
    pen.line((8, 7.6), (16, 16.4), width=2.2)
    pen.line((16, 7.6), (8, 16.4), width=1.1)


def _youtube(pen: Pen) -> None:
    pen.frame(12, 12, 6, 4.3, 2.2)
    pen.shape((10.8, 10), (10.8, 14), (14.2, 12))


def _tiktok(pen: Pen) -> None:
    pen.disc(10.4, 14.9, 2.3)
    pen.line((12.1, 15), (12.1, 7), width=1.4)
    pen.line((12.2, 7.2), (13.4, 9.4), (15.6, 10.2), width=1.6)


def _telegram(pen: Pen) -> None:
    pen.shape((6, 12), (17.6, 7), (15, 17), (11.6, 14.2))
    pen.line((15.6, 8.8), (10.6, 13.4), (10.4, 16.4), width=0.8)
    pen.shape((10.2, 13.2), (11.6, 14.2), (10.3, 16.6))


def _whatsapp(pen: Pen) -> None:
    pen.shape((6.6, 17.4), (7.4, 13.6), (10.4, 16.5))
    pen.disc(12.2, 11.8, 5.4)
    pen.disc(12.2, 11.8, 4.2, fill=DISC)
    pen.line((10.6, 10), (11.4, 12), (12.4, 13), (14.2, 13.7), width=1.5)


def _github(pen: Pen) -> None:
    pen.line((9.6, 8.6), (6.6, 12), (9.6, 15.4))
    pen.line((14.4, 8.6), (17.4, 12), (14.4, 15.4))
    pen.line((13.1, 8), (10.9, 16), width=1.2)


def _bluesky(pen: Pen) -> None:
    for side in (-1, 1):
        pen.disc(12 + side * 2.7, 10.2, 2.7, 2.5)
        pen.disc(12 + side * 2, 14.2, 2, 1.9)


def _web(pen: Pen) -> None:
    pen.ring(12, 12, 5.4)
    pen.ring(12, 12, 2.3, 5.4, width=1.1)
    pen.line((6.8, 12), (17.2, 12), width=1.1)


ICONS: dict[str, Callable[[Pen], None]] = {
    "facebook": lambda pen: pen.word("f", 11),
    "instagram": _instagram,
    "x": _x,
    "linkedin": lambda pen: pen.word("in", 9),
    "youtube": _youtube,
    "tiktok": _tiktok,
    "telegram": _telegram,
    "whatsapp": _whatsapp,
    "github": _github,
    "mastodon": lambda pen: pen.word("m", 10),
    "bluesky": _bluesky,
    "web": _web,
}


def main() -> None:
    for name, draw in ICONS.items():
        image = Image.new("RGBA", (SIZE * SCALE, SIZE * SCALE), (*DISC[:3], 0))
        pen = Pen(image)
        pen.disc(12, 12, 11.9, fill=DISC)
        draw(pen)
        small = image.resize((SIZE, SIZE), Image.Resampling.LANCZOS).quantize(24, dither=Image.Dither.NONE)
        small.save(TARGET / f"mailwright-social-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
