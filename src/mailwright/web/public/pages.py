"""Render public pages with strict security headers."""

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
from mailwright.web.public.theme import NO_THEME, PublicTheme

# The style sheet is inlined, so that a page is one request and works behind any proxy path.
STYLE = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
STYLE_DIGEST = b64encode(sha256(STYLE.encode()).digest()).decode()

# The page may load and run nothing except our own style sheet, and no site may frame it.
RULES: Mapping[str, str] = {
    "default-src": "'none'",
    "style-src": f"'sha256-{STYLE_DIGEST}'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in RULES.items()),
    "Referrer-Policy": "no-referrer",  # The URL of the page contains the recipient's token.
    "X-Robots-Tag": "noindex, nofollow",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept, Accept-Language",
}
FOR_EVERYONE: Mapping[str, str] = {"X-Robots-Tag": "all", "Cache-Control": "public, max-age=300"}


def page(
    template: str,
    language: str,
    status: HTTPStatus = HTTPStatus.OK,
    *,
    headers: Mapping[str, str] | None = None,
    rules: Mapping[str, str] | None = None,
    theme: PublicTheme = NO_THEME,
    is_for_everyone: bool = False,
    **values: Any,
) -> HTMLResponse:
    """Render a public page. `is_for_everyone`: it contains no personal data, so it may be indexed and cached.

    `rules` change directives of the Content-Security-Policy.
    """
    content = _TEMPLATES.get_template(f"{template}.html").render(
        texts=LANGUAGES[language],
        language=language,
        languages=LANGUAGES,
        style=Markup(STYLE),  # noqa: S704 - our own file
        theme=theme,
        theme_style=Markup(theme.style),  # noqa: S704 - made of validated colours
        is_for_everyone=is_for_everyone,
        **values,
    )
    all_headers = {
        **HEADERS,
        **(FOR_EVERYONE if is_for_everyone else {}),
        "Content-Language": language,
        "Content-Security-Policy": _policy({**theme.rules, **(rules or {})}),
        **(headers or {}),
    }
    return HTMLResponse(content, status, headers=all_headers)


def _policy(changes: Mapping[str, str]) -> str:
    """Return the Content-Security-Policy with some directives changed. Further style sheets are added to ours."""
    merged = {**RULES, **changes}
    if "style-src" in changes:
        merged["style-src"] = f"{RULES['style-src']} {changes['style-src']}"
    return "; ".join(f"{name} {value}" for name, value in merged.items())


def stored_html(html: str, *, framed_by: str, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """Serve untrusted HTML in a sandbox: no scripts, no cookies, no forms, no redirects."""
    rules = (
        "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src https: http: data:; "
        "font-src https:; style-src 'unsafe-inline' https:; form-action 'none'; base-uri 'none'; "
        f"frame-ancestors {framed_by}"
    )
    return HTMLResponse(html, headers={**HEADERS, "Content-Security-Policy": rules, **(headers or {})})


def filled(text: str, **names: str) -> Markup:
    """Insert escaped, emphasized names into a text: a list may be named `<b>`."""
    strong = {name: Markup("<strong>{}</strong>").format(value) for name, value in names.items()}
    return Markup(escape(text)).format(**strong)  # noqa: S704 - escaped above


_TEMPLATES = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["filled"] = filled
