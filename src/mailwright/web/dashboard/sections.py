"""The settings page that shows or hides the sections a tenant does not use."""

from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.sections import Section, load_sections, switch_sections
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.web.dashboard.forms import Errors, read_values
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

DESCRIPTIONS: Final = {
    Section.ARTICLES: lazy_gettext("One article in many variants, assembled from slices for each recipient."),
    Section.MAILOUTS: lazy_gettext("Pages of Notion, sent as emails to the subscribers in Supabase."),
    Section.NOTIFICATIONS: lazy_gettext("Emails for the rows of a notification queue in another database."),
}


@router.get("/settings/sections")
async def show(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    shown = await load_sections(engine, visitor.tenant_id)
    values: dict[str, Any] = {"tabs": TABS, "errors": Errors(), "shown": shown, "descriptions": DESCRIPTIONS}
    return await page(request, visitor, "settings/sections.html", **values)


@router.post("/settings/sections")
async def save(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    chosen = {each for each in Section if each in await read_values(request, "section")}
    await switch_sections(engine, visitor.tenant, chosen, actor=visitor.actor)
    return redirect(request, "/settings/sections", gettext("Sections saved."))
