"""Confirming: the link of the mail that asks shows a button. Only the button acts, so link scanners confirm nothing."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.audience.lists import list_all
from mailwright.audience.preferences import has_unsubscribed_from_all, is_blocked
from mailwright.audience.status import ContactPreferences, ContactStatusService
from mailwright.web.bodies import json_response
from mailwright.web.errors import problem
from mailwright.web.parts import ApiParts, Parts
from mailwright.web.public.readers import Reader, ReaderRoute, reader_of, reader_page, wants_json

router = APIRouter(route_class=ReaderRoute, include_in_schema=False)


@router.api_route("/confirm", methods=["GET", "HEAD"])
async def ask(request: Request, parts: Parts) -> Response:
    reader = await reader_of(request, parts, confirms=True)
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(reader.tenant_id, reader.email)
    is_on = reader.list_key in about.place.on
    template = "already" if is_on and _may_be_written_to(about) else "confirm"
    return await _show(request, parts, reader, template, here=reader.links.confirm)


@router.post("/confirm")
async def confirm(request: Request, parts: Parts) -> Response:
    """Tells the truth: whoever bounced, complained or left everything gets no mail yet, confirmed or not."""
    reader = await reader_of(request, parts, confirms=True)
    is_on = await (await parts.double_opt_in()).confirm(reader.tenant_id, reader.email, reader.list_key)
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(reader.tenant_id, reader.email)
    gets_it = is_on and _may_be_written_to(about)
    if wants_json(request):
        if gets_it:
            return json_response({"ok": True, "listKey": reader.list_key}, headers={"Cache-Control": "no-store"})
        return problem(HTTPStatus.CONFLICT, "NOT_CONFIRMED", "No mail of this list is sent to this address.")
    return await _show(request, parts, reader, "confirmed" if gets_it else "blocked", here=None)


def _may_be_written_to(about: ContactPreferences) -> bool:
    return not is_blocked(about) and not has_unsubscribed_from_all(about)


async def _show(request: Request, parts: ApiParts, reader: Reader, template: str, *, here: str | None) -> Response:
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(reader.tenant_id, reader.email)
    known = await list_all(parts.database, reader.tenant_id)
    name = next((each.name for each in known if each.list_key == reader.list_key), reader.list_key)
    return reader_page(request, parts, reader, template, locale=about.locale, here=here, list=name)
