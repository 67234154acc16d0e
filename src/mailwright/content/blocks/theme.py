"""The colours, fonts and sizes of a document: its own settings, then the brand kit, then defaults."""

from typing import Final

from mailwright.content.blocks.document import DocumentSettings, brand_color
from mailwright.content.brand import FONT_STACKS, Brand
from mailwright.content.colors import TEXT_CONTRAST, WHITE, contrast, mix, parse_color, readable_on, with_contrast
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import is_right_to_left

DEFAULT_WIDTH: Final = 600
# The dark scheme of programs that apply the email's own styles. Others invert the light colours themselves.
DARK_PAGE: Final = "#111113"
DARK_CONTENT: Final = "#1c1c1f"
DARK_SOFT: Final = "#2a2a2f"
DARK_TEXT: Final = "#ececf1"
DARK_MUTED: Final = "#a5a5b0"
DARK_LINE: Final = "#3f3f46"


@dataclass(frozen=True, slots=True)
class Theme:
    brand: Brand
    width: int
    page: str
    content: str
    text: str
    link: str
    font: str
    heading_font: str
    is_right_to_left: bool = False
    has_icons: bool = False  # Whether recipients can load the icons of social links.

    @classmethod
    def of(cls, settings: DocumentSettings, brand: Brand, locale: str = "", *, has_icons: bool = False) -> "Theme":
        content = _resolved(settings.content_background, brand, WHITE)
        font = brand.font_stack if settings.font is None else FONT_STACKS[settings.font]
        return cls(
            brand=brand,
            width=settings.width or DEFAULT_WIDTH,
            page=_resolved(settings.background, brand, brand.background),
            content=content,
            text=with_contrast(_resolved(settings.text_color, brand, brand.text), content),
            link=with_contrast(_resolved(settings.link_color, brand, brand.primary), content),
            font=font,
            heading_font=font if settings.font is not None else brand.heading_font_stack,
            is_right_to_left=is_right_to_left(locale),
            has_icons=has_icons,
        )

    @property
    def start(self) -> str:
        """The side where lines begin."""
        return "right" if self.is_right_to_left else "left"

    def color(self, color: str | None, default: str) -> str:
        return _resolved(color, self.brand, default)

    def text_on(self, background: str) -> str:
        """Return the text colour for a background: the document's own if it is readable there."""
        return self.text if contrast(self.text, background) >= TEXT_CONTRAST else readable_on(background)

    def link_on(self, background: str) -> str:
        return self.link if contrast(self.link, background) >= TEXT_CONTRAST else self.text_on(background)

    def muted_on(self, background: str) -> str:
        return with_contrast(mix(self.text_on(background), background, 40), background)

    @property
    def line(self) -> str:
        return mix(self.text, self.content, 82)

    @property
    def is_dark(self) -> bool:
        """Whether the author chose a dark content background, which then stays as it is in the dark scheme."""
        return readable_on(self.content) == WHITE

    @property
    def dark_link(self) -> str:
        return with_contrast(self.link, DARK_CONTENT, 6)


def _resolved(color: str | None, brand: Brand, default: str) -> str:
    if color is None:
        return default
    name = brand_color(color)
    return parse_color(color) if name is None else str(getattr(brand, name))
