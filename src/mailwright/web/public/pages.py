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

# Nothing may load, run or frame the page; the only style is the one whose digest is named.
RULES: Mapping[str, str] = {
    "default-src": "'none'",
    "style-src": f"'sha256-{STYLE_DIGEST}'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in RULES.items()),
    "Referrer-Policy": "no-referrer",  # the address of the page holds the recipient's token
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
    is_for_everyone: bool = False,
    **values: Any,
) -> HTMLResponse:
    """`is_for_everyone`: nothing on it is about a recipient, so it may be found and kept."""
    content = _TEMPLATES.get_template(f"{template}.html").render(
        texts=LANGUAGES[language],
        language=language,
        languages=LANGUAGES,
        style=Markup(STYLE),  # noqa: S704 - our own file
        is_for_everyone=is_for_everyone,
        **values,
    )
    told = {**HEADERS, **(FOR_EVERYONE if is_for_everyone else {}), "Content-Language": language, **(headers or {})}
    return HTMLResponse(content, status, headers=told)


def policy(**changes: str) -> str:
    """The rules of a page of ours, with some of them changed; underscores stand for hyphens."""
    rules = {**RULES, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def stored_html(html: str, *, framed_by: str, headers: Mapping[str, str] | None = None) -> HTMLResponse:
    """HTML that somebody else wrote. It belongs to no site: no script runs in it, no cookie reaches it, no form leaves
    it, and it leads nowhere by itself."""
    rules = (
        "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; img-src https: http: data:; "
        "font-src https:; style-src 'unsafe-inline' https:; form-action 'none'; base-uri 'none'; "
        f"frame-ancestors {framed_by}"
    )
    return HTMLResponse(html, headers={**HEADERS, "Content-Security-Policy": rules, **(headers or {})})


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
