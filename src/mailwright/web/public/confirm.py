"""Confirming: the link of the mail that asks shows a button, and only the button acts: link scanners confirm nothing."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.audience.lists import list_all
from mailwright.audience.opting_in import PAGE, confirmation_tokens
from mailwright.audience.standing import Standing
from mailwright.domain.unsubscribe import FIRST_TENANT, unsubscribe_link
from mailwright.web.bodies import json_response
from mailwright.web.parts import ApiParts, Parts
from mailwright.web.problems import problem
from mailwright.web.public.choices import has_left_everything, is_blocked
from mailwright.web.public.readers import Reader, ReaderRoute, reader_of, reader_page, wants_json

router = APIRouter(route_class=ReaderRoute, include_in_schema=False)


@router.api_route(f"/{PAGE}", methods=["GET", "HEAD"])
async def ask(request: Request, parts: Parts) -> Response:
    return await _show(request, parts, await reader_of(request, parts, purpose=confirmation_tokens), "confirm")


@router.post(f"/{PAGE}")
async def confirm(request: Request, parts: Parts) -> Response:
    """Tells the truth: whoever bounced, complained or left everything gets no mail yet, confirmed or not."""
    reader = await reader_of(request, parts, purpose=confirmation_tokens)
    is_on = await (await parts.opting_in()).confirm(reader.tenant_id, reader.email, reader.list_key)
    about = await Standing(parts.database, parts.clock).preferences(reader.tenant_id, reader.email)
    if is_on and not is_blocked(about) and not has_left_everything(about):
        return json_response({"ok": True}) if wants_json(request) else await _show(request, parts, reader, "confirmed")
    if wants_json(request):
        return problem(HTTPStatus.CONFLICT, "NOT_CONFIRMED", "No mail of this list is sent to this address.")
    return reader_page(request, parts, reader, "blocked", locale=about.locale, here=None)
