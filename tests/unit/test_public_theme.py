"""Public pages are readable with any colour of a brand, in light and in dark mode."""

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content.colors import contrast
from mailwright.web.public.theme import theme_style

# The backgrounds and the colours of the style sheet: light, then dark.
SHEET = files("mailwright.web.public").joinpath("style.css").read_text(encoding="utf-8")


def values(style: str, name: str) -> list[str]:
    return re.findall(rf"--{name}:\s*(#[0-9a-f]{{6}})", style)


@pytest.mark.promise("images-clean")
@given(st.integers(0, 0xFFFFFF).map("#{:06x}".format))
def test_any_brand_color_is_readable(primary: str) -> None:
    style = theme_style(primary)
    accents, strong, on = (values(style, name) for name in ("accent", "accent-strong", "on-accent"))
    for mode in (0, 1):
        for background in (values(SHEET, "paper")[mode], values(SHEET, "card")[mode]):
            assert contrast(accents[mode], background) >= 4.5
        assert contrast(on[mode], accents[mode]) >= 4.5
        assert contrast(on[mode], strong[mode]) >= 4.5
    assert re.fullmatch(r"[:{}();@#, a-z0-9-]+", style)
