"""Begin a new email: from a starter, empty, or from what already exists elsewhere."""

from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.content.blocks.document import InvalidDocument
from mailwright.content.blocks.starters import Starter, list_starters, load_starter
from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate, Template
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.keys import derive_key
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.api.validation import RequestInvalid
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.composed_email import render_starter, with_undeclared
from mailwright.web.dashboard.composer_pages import create_template
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, email_frame, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/templates", route_class=PageRoute, include_in_schema=False)

BLANK: Final = "blank"
# The kinds of content that the composer asks for and inserts as blocks.
_SOURCES: Final = {
    "html": lazy_gettext("HTML or Markdown"),
    "feed": lazy_gettext("RSS feed"),
    "notion": lazy_gettext("Notion page"),
}
_BLANK_DOCUMENT: Final[dict[str, Any]] = {
    "version": 1,
    "blocks": [
        {"id": "header", "type": "header"},
        {"id": "heading", "type": "heading", "level": 1, "html": ""},
        {"id": "text", "type": "text", "html": ""},
        {"id": "footer", "type": "footer"},
    ],
}


@router.get("/~start")
async def show_start(request: Request, visitor: EditorDep, starter: str = "newsletter") -> Response:
    return await _page(request, visitor, Fields({"starter": starter}))


@router.post("/~start")
async def start(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Create a template and open it in the composer."""
    form = await read_fields(request)
    try:
        template_id = template_id_for(form["name"])
        stored = await create_from_starter(engine, visitor, template_id, form["starter"], name=form["name"])
    except (InvalidInput, RequestInvalid, InvalidTemplate, InvalidDocument) as error:
        return await _page(request, visitor, form, error=error)
    parts = {"campaign": form["campaign"], "insert": form["starter"] if form["starter"] in _SOURCES else ""}
    query = urlencode({name: value for name, value in parts.items() if value})
    return redirect(request, f"/templates/{stored}/compose{'?' if query else ''}{query}")


@router.get("/~start/{name}/mail")
async def show_starter(engine: EngineDep, visitor: EditorDep, name: str) -> Response:
    """Render a starter with the brand of the tenant, for its picture."""
    rendered = await render_starter(engine, visitor.tenant_id, load_starter(name))
    return email_frame(previews.preview_html(rendered, is_dark=False))


def template_id_for(name: str) -> str:
    """Return the id for the name that someone chose: `Spring news, 2027!` becomes `spring-news-2027`."""
    if not name:
        raise InvalidInput(gettext("Enter a name, for example Spring news."), field="name")
    return derive_key(name, "email", longest=90)


async def create_from_starter(
    engine: Engine, visitor: Visitor, template_id: str, starter: str, *, name: str, subject: str | None = None
) -> str:
    """Store a starter, or an empty email, as a new template and return its ID. The default subject is the name."""
    if starter in _SOURCES:
        around = [_BLANK_DOCUMENT["blocks"][0], _BLANK_DOCUMENT["blocks"][-1]]
        empty = {"version": 1, "blocks": around}
        made = await create_template(engine, visitor, template_id, subject or name, empty)
    elif starter == BLANK:
        made = await create_template(engine, visitor, template_id, subject or name, _BLANK_DOCUMENT)
    else:
        chosen = load_starter(starter)
        variables, subject = chosen.variables, subject or chosen.subject
        if variables:
            # The subject of a campaign may have its own variables.
            body = orjson.dumps(chosen.document).decode()
            html = await engine.templates.compiled(visitor.tenant_id, body, TemplateFormat.BLOCKS, title=subject)
            variables = with_undeclared(Template(subject=subject, html=html, text=None), variables)
        made = await create_template(engine, visitor, template_id, subject, chosen.document, variables=variables)
    return made.template_id


async def _page(request: Request, visitor: Visitor, form: Fields, *, error: MailwrightError | None = None) -> Response:
    starters: tuple[Starter, ...] = tuple(list_starters())
    values: dict[str, Any] = {
        "starters": starters,
        "sources": _SOURCES,
        "form": form,
        "errors": field_errors(error, {"templateId": "name"}) if error is not None else Errors(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "composer/start.html", status=status, **values)
