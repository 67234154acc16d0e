"""Images for the library of the shop, drawn here."""

import math
from io import BytesIO

from PIL import Image as Pillow
from PIL import ImageDraw

from mailwright.app.wiring import Engine

_SKY, _SEA, _SUN, _INK = (214, 228, 240), (38, 92, 128), (244, 190, 96), (31, 41, 55)


async def load_images(engine: Engine, tenant_id: int) -> None:
    """Store a logo and three pictures."""
    for name, image, alt in (
        ("harbour.png", _harbour(), "A sailing boat in the harbour at sunrise"),
        ("mill.png", _mill(), "Four brass wheels of the mill"),
        ("engine.png", _engine(), "The wheels of a calculating machine"),
        ("logo.png", _logo(), "Analytical Engines"),
    ):
        output = BytesIO()
        image.save(output, "PNG")
        await engine.images.put(tenant_id, name, output.getvalue(), alt=alt)


def _harbour() -> Pillow.Image:
    image = Pillow.new("RGB", (1200, 640), _SKY)
    draw = ImageDraw.Draw(image)
    draw.ellipse((760, 120, 980, 340), fill=_SUN)
    draw.rectangle((0, 420, 1200, 640), fill=_SEA)
    draw.polygon([(420, 150), (420, 400), (250, 400)], fill=(255, 255, 255))
    draw.polygon([(436, 190), (436, 400), (560, 400)], fill=(236, 240, 244))
    draw.polygon([(220, 420), (600, 420), (540, 480), (280, 480)], fill=(124, 45, 18))
    return image


def _engine() -> Pillow.Image:
    image = Pillow.new("RGB", (900, 600), (243, 236, 222))
    draw = ImageDraw.Draw(image)
    for column in range(5):
        for row in range(6):
            left, top = 90 + 150 * column, 40 + 90 * row
            draw.ellipse((left, top, left + 120, top + 60), fill=(176, 137, 74), outline=_INK, width=4)
            draw.line((left + 60, top, left + 60, top + 60), fill=_INK, width=3)
    return image


def _mill() -> Pillow.Image:
    image = Pillow.new("RGB", (900, 600), _SKY)
    draw = ImageDraw.Draw(image)
    for x, y, radius in ((250, 330, 190), (520, 200, 130), (650, 420, 150), (790, 210, 90)):
        for step in range(24):
            angle = math.tau * step / 24
            tooth = (x + radius * math.cos(angle), y + radius * math.sin(angle))
            draw.ellipse((tooth[0] - 14, tooth[1] - 14, tooth[0] + 14, tooth[1] + 14), fill=(176, 137, 74))
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(176, 137, 74), outline=_INK, width=4)
        draw.ellipse((x - 30, y - 30, x + 30, y + 30), fill=_SKY, outline=_INK, width=4)
    return image


def _logo() -> Pillow.Image:
    image = Pillow.new("RGBA", (480, 120), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    draw.ellipse((8, 8, 112, 112), fill=(*_SEA, 255))
    draw.ellipse((40, 40, 80, 80), fill=(255, 255, 255, 255))
    draw.text((136, 30), "Analytical Engines", fill=(*_INK, 255), font_size=40)
    return image
