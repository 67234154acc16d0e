"""The brand kit of a tenant: logo, colours, fonts, footer and links of its emails and public pages.

Every field is validated so that none can add CSS, HTML or a script where it is used: colours are hexadecimal, fonts
are names of a fixed list, addresses are plain URLs, and the footer keeps only a few harmless elements.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

import nh3
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from mailwright.content.colors import TEXT_CONTRAST, WHITE, contrast, parse_color
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.printable import is_printable
from mailwright.domain.translation import lazy_gettext


class Font(StrEnum):
    """Fonts that email programs have, or replace by a similar one."""

    SYSTEM = "system"
    ARIAL = "arial"
    HELVETICA = "helvetica"
    VERDANA = "verdana"
    TAHOMA = "tahoma"
    TREBUCHET = "trebuchet"
    GEORGIA = "georgia"
    TIMES = "times"
    PALATINO = "palatino"
    COURIER = "courier"


# The value of `font-family`. Names with spaces have single quotes, so that a stack fits into a style attribute.
FONT_STACKS: Final[Mapping[Font, str]] = {
    Font.SYSTEM: "-apple-system, BlinkMacSystemFont, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif",
    Font.ARIAL: "Arial, Helvetica, sans-serif",
    Font.HELVETICA: "'Helvetica Neue', Helvetica, Arial, sans-serif",
    Font.VERDANA: "Verdana, Geneva, sans-serif",
    Font.TAHOMA: "Tahoma, Verdana, Segoe, sans-serif",
    Font.TREBUCHET: "'Trebuchet MS', 'Lucida Grande', 'Lucida Sans', Tahoma, sans-serif",
    Font.GEORGIA: "Georgia, Times, 'Times New Roman', serif",
    Font.TIMES: "'Times New Roman', Times, serif",
    Font.PALATINO: "'Palatino Linotype', Palatino, 'Book Antiqua', Georgia, serif",
    Font.COURIER: "'Courier New', Courier, monospace",
}


class Network(StrEnum):
    FACEBOOK = "facebook"
    INSTAGRAM = "instagram"
    X = "x"
    LINKEDIN = "linkedin"
    YOUTUBE = "youtube"
    TIKTOK = "tiktok"
    TELEGRAM = "telegram"
    WHATSAPP = "whatsapp"
    GITHUB = "github"
    MASTODON = "mastodon"
    BLUESKY = "bluesky"
    WEB = "web"


MAX_NAME_LENGTH: Final = 100
MAX_FOOTER = 5_000
_MAX_URL = 2_000
_FOOTER_ELEMENTS: Final = {"p", "br", "strong", "b", "em", "i", "u", "s", "a"}
# Every character that a URL may have, except quotes and parentheses, which would end a CSS value.
_URL: Final = re.compile(r"https?://[A-Za-z0-9\-._~:/?#\[\]@!$&*+,;=%]+", re.ASCII)


def _is_web_url(text: str) -> str:
    try:
        has_host = bool(_URL.fullmatch(text) and urlsplit(text).hostname)
    except ValueError:
        has_host = False
    if not has_host:
        raise ValueError(lazy_gettext("must be a URL such as https://example.com"))
    return text


def _one_line(text: str) -> str:
    if not is_printable(text):
        raise ValueError(lazy_gettext("must be one line of text without control characters"))
    return text.strip()


def _lines(text: str) -> str:
    lines = text.replace("\r\n", "\n").split("\n")
    if not all(map(is_printable, lines)):
        raise ValueError(lazy_gettext("must be text without control characters"))
    return "\n".join(line.strip() for line in lines).strip()


def clean_footer(html: str) -> str:
    """Keep simple formatting and links, and drop everything else."""
    return nh3.clean(
        html,
        tags=_FOOTER_ELEMENTS,
        clean_content_tags={"script", "style", "template", "title"},
        attributes={"a": {"href"}},
        url_schemes={"http", "https", "mailto", "tel"},
        link_rel=None,
    ).strip()


Color = Annotated[str, Field(max_length=7), AfterValidator(parse_color)]
WebUrl = Annotated[str, Field(max_length=_MAX_URL), AfterValidator(_is_web_url)]


class SocialLink(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    network: Network
    href: WebUrl


class Brand(BaseModel):
    """A brand kit. Every field has a default, so that a tenant without one has readable emails and pages."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    name: Annotated[str, Field(max_length=MAX_NAME_LENGTH), AfterValidator(_one_line)] = ""
    logo_url: WebUrl | None = None
    # Outlook ignores CSS and shows an image as wide as its attribute says.
    logo_width: Annotated[int, Field(ge=16, le=600)] = 160
    primary: Color = "#2563eb"
    text: Color = "#18181b"
    background: Color = "#f4f4f5"
    accent: Color = "#7c3aed"
    font: Font = Font.SYSTEM
    heading_font: Font = Font.SYSTEM
    footer_html: Annotated[str, Field(max_length=MAX_FOOTER), AfterValidator(clean_footer)] = ""
    postal_address: Annotated[str, Field(max_length=500), AfterValidator(_lines)] = ""
    social: Annotated[tuple[SocialLink, ...], Field(max_length=len(Network))] = ()
    website: WebUrl | None = None

    @property
    def font_stack(self) -> str:
        return FONT_STACKS[self.font]

    @property
    def heading_font_stack(self) -> str:
        return FONT_STACKS[self.heading_font]


DEFAULT_BRAND: Final = Brand()


@dataclass(frozen=True, slots=True)
class BrandWarning:
    """A colour that is hard to read where it is used."""

    field: str
    message: str


def contrast_warnings(brand: Brand) -> list[BrandWarning]:
    """Compare the colours as WCAG asks for: text needs a contrast of at least 4.5 to 1."""
    pairs = (
        ("text", brand.text, WHITE, "Text is", "white"),
        ("text", brand.text, brand.background, "Text is", "the background colour"),
        ("primary", brand.primary, WHITE, "Links in the primary colour are", "white"),
        ("accent", brand.accent, WHITE, "Text in the accent colour is", "white"),
    )
    return [
        BrandWarning(field, f"{what} hard to read on {where}: contrast {ratio:.1f} to 1, at least 4.5 is needed.")
        for field, color, background, what, where in pairs
        if (ratio := contrast(color, background)) < TEXT_CONTRAST
    ]
