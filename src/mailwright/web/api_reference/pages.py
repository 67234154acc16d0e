"""The pages of the API reference: a list of all operations, and a page for each group."""

from functools import cache
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.responses import HTMLResponse

from mailwright.domain.errors import NotFound
from mailwright.web.api_reference.document import Operation, Reference
from mailwright.web.dashboard.assets import asset

router = APIRouter(include_in_schema=False)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False})


@router.api_route("/docs", methods=["GET", "HEAD"])
async def index(request: Request, q: str = "") -> HTMLResponse:
    """List all operations, or those with all words of a search."""
    words = q.lower().split()
    reference = _reference(request)
    found = {
        group.key: [each for each in group.operations if all(word in each.words for word in words)]
        for group in reference.groups.values()
    }
    return _page("index.html", reference=reference, found=found, q=q)


@router.api_route("/docs/{key}", methods=["GET", "HEAD"])
async def show(request: Request, key: str) -> HTMLResponse:
    """Show the operations of a group. The API key that a reader enters stays in the tab."""
    reference = _reference(request)
    if key not in reference.groups:
        raise NotFound
    return _page("group.html", reference=reference, group=reference.groups[key])


def _reference(request: Request) -> Reference:
    """Return the reference of this application, which is made from its description once."""
    state = request.app.state
    if not hasattr(state, "api_reference"):
        state.api_reference = Reference(request.app.openapi())
    found: Reference = state.api_reference
    return found


def _page(name: str, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates().get_template(name).render(**values), headers=_HEADERS)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"asset": asset, "is_changing": _is_changing}
    environment.filters |= {"words": _words, "paragraphs": _paragraphs}
    return environment


def _is_changing(operation: Operation) -> bool:
    return operation.verb != "GET"


def _words(text: str) -> Markup:
    """Render the code in a sentence."""
    return Markup(_MARKDOWN.renderInline(text))  # noqa: S704 - Markdown without HTML


def _paragraphs(text: str) -> Markup:
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - Markdown without HTML
