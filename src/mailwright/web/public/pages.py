"""Pages: a template, the texts of a language and one style make an answer that nothing can be injected into."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from mailwright.web.public.texts import LANGUAGES

# The style stands in the page itself: a page is one request, and looks right behind any proxy and path.
STYLE = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
STYLE_DIGEST = b64encode(sha256(STYLE.encode()).digest()).decode()

HEADERS: Mapping[str, str] = {
    # Nothing may load, run or frame the page; the only style is the one whose digest is named.
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_DIGEST}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",  # the address of the page holds the reader's token
    "X-Robots-Tag": "noindex, nofollow",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept, Accept-Language",
}


def page(
    template: str,
    language: str,
    status: HTTPStatus = HTTPStatus.OK,
    *,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    content = _TEMPLATES.get_template(f"{template}.html").render(
        texts=LANGUAGES[language],
        language=language,
        languages=LANGUAGES,
        style=Markup(STYLE),  # noqa: S704 - our own file
        **values,
    )
    return HTMLResponse(content, status, headers={**HEADERS, "Content-Language": language, **(headers or {})})


def filled(text: str, **names: str) -> Markup:
    """Names stand out, and stay names whatever they are made of: a list may be called `<b>`."""
    strong = {name: Markup("<strong>{}</strong>").format(value) for name, value in names.items()}
    return Markup(escape(text)).format(**strong)  # noqa: S704 - escaped in the same breath


_TEMPLATES = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["filled"] = filled
