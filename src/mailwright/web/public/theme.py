"""The design of a tenant's public pages: its name, logo and colour."""

from base64 import b64encode
from hashlib import sha256
from urllib.parse import urlsplit

from mailwright.app.wiring import Engine
from mailwright.content.brand import DEFAULT_BRAND
from mailwright.content.colors import mix, readable_on, with_contrast
from mailwright.content.images import FILE_NAME
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT

# Backgrounds of style.css: the page in light mode and the card in dark mode, on which links are harder to read than on
# the other.
_LIGHT, _DARK = "#f6f5f2", "#1c1e22"


@dataclass(frozen=True, slots=True)
class PublicTheme:
    name: str | None = None
    logo: str | None = None
    logo_width: int = 0
    style: str = ""

    @property
    def rules(self) -> dict[str, str]:
        """The additional directives of the Content-Security-Policy: this style sheet, and the logo's host."""
        rules = {}
        if self.style:
            rules["style-src"] = f"'sha256-{b64encode(sha256(self.style.encode()).digest()).decode()}'"
        if self.logo:
            parts = urlsplit(self.logo)
            rules["img-src"] = f"{parts.scheme}://{parts.netloc}"
        return rules


NO_THEME = PublicTheme()


async def load_theme(engine: Engine, tenant_id: int) -> PublicTheme:
    brand = await engine.brands.load(tenant_id)
    sender = engine.public_pages.sender if tenant_id == FIRST_TENANT else None
    return PublicTheme(
        brand.name or sender,
        brand.logo_url if brand.logo_url and _is_ours(engine, brand.logo_url) else None,
        brand.logo_width,
        theme_style(brand.primary) if brand.primary != DEFAULT_BRAND.primary else "",
    )


def _is_ours(engine: Engine, url: str) -> bool:
    """Return whether the logo is an uploaded image.

    Public pages load nothing from other hosts, because these could track visitors.
    """
    base, _, file_name = url.rpartition("/")
    return bool(FILE_NAME.fullmatch(file_name)) and base in engine.images.base_urls(engine.public_url)


def theme_style(primary: str) -> str:
    """Return the colours of links and buttons, changed until they are readable in light and in dark mode."""
    light, dark = with_contrast(primary, _LIGHT), with_contrast(primary, _DARK)
    in_dark = f"@media (prefers-color-scheme: dark){{:root{{{_colors(dark, '#ffffff')}}}}}"
    return f":root{{{_colors(light, '#000000')}}}{in_dark}"


def _colors(accent: str, stronger: str) -> str:
    return f"--accent:{accent};--accent-strong:{mix(accent, stronger, 20)};--on-accent:{readable_on(accent)}"
