"""A brand kit cannot add CSS, HTML or a script where it is used, and its colours stay readable."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mailwright.content.brand import DEFAULT_BRAND, FONT_STACKS, Brand, Font
from mailwright.content.colors import contrast, parse_color, readable_on, with_contrast

colors = st.integers(0, 0xFFFFFF).map("#{:06x}".format)


@pytest.mark.parametrize(
    "field",
    [
        {"primary": "red"},
        {"primary": "#fff;background:url(https://evil.example)"},
        {"text": "var(--x)"},
        {"font": "Arial; } body { display: none"},
        {"headingFont": "Comic Sans"},
        {"logoUrl": "javascript:alert(1)"},
        {"logoUrl": "data:image/svg+xml,<svg onload=alert(1)>"},
        {"logoUrl": 'https://example.com/logo.png" onerror="alert(1)'},
        {"logoUrl": "https://example.com/logo.png) ; } body { x: url(y"},
        {"logoUrl": "https://"},
        {"website": "//example.com"},
        {"website": "https://[example"},
        {"name": "Acme\r\nBcc: eve@example.com"},
        {"postalAddress": "1 Street\x00"},
        {"social": [{"network": "myspace", "href": "https://example.com"}]},
        {"social": [{"network": "x", "href": "vbscript:x"}]},
        {"unknown": 1},
    ],
    ids=str,
)
@pytest.mark.promise("images-clean")
def test_unsafe_brand_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Brand.model_validate(field)


@pytest.mark.promise("images-clean")
def test_footer_keeps_only_formatting_and_links() -> None:
    footer = (
        '<p onclick="x()" style="position:fixed">Hi <b>you</b><script>x()</script><img src=x onerror=x()>'
        '<a href="javascript:x()">a</a> <a href="https://example.com" target=_top>b</a></p><style>p{}</style>'
    )
    expected = '<p>Hi <b>you</b><a>a</a> <a href="https://example.com">b</a></p>'
    assert Brand.model_validate({"footerHtml": footer}).footer_html == expected


def test_brand_survives_a_round_trip() -> None:
    brand = Brand.model_validate(
        {
            "name": "Acme",
            "primary": "#F0A",
            "postalAddress": "1 Main Street \r\n Lisbon",
            "social": [{"network": "github", "href": "https://github.com/acme"}],
        }
    )
    assert (brand.primary, brand.postal_address) == ("#ff00aa", "1 Main Street\nLisbon")
    assert Brand.model_validate_json(brand.model_dump_json(by_alias=True)) == brand


def test_every_font_stack_fits_into_a_style_attribute() -> None:
    assert set(FONT_STACKS) == set(Font)
    assert not any(character in stack for stack in FONT_STACKS.values() for character in '";{}<>')


def test_default_colors_are_readable() -> None:
    assert contrast(DEFAULT_BRAND.text, DEFAULT_BRAND.background) > 7
    assert contrast(readable_on(DEFAULT_BRAND.primary), DEFAULT_BRAND.primary) > 4.5


def test_contrast_equals_the_standard_formula() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@given(colors, colors)
def test_enforced_contrast_holds_for_any_colors(color: str, background: str) -> None:
    assert contrast(readable_on(background), background) >= 4.5
    enforced = with_contrast(color, background)
    assert contrast(enforced, background) >= 4.5
    assert parse_color(enforced) == enforced


@given(colors, colors)
def test_readable_color_stays_unchanged(color: str, background: str) -> None:
    if contrast(color, background) >= 4.5:
        assert with_contrast(color, background) == color
