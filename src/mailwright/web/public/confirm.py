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
from mailwright.web.public.subscribers import LinkRecipient, PublicRoute, recipient_of, recipient_page, wants_json

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/confirm", methods=["GET", "HEAD"])
async def ask(request: Request, parts: Parts) -> Response:
    recipient = await recipient_of(request, parts, confirms=True)
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    is_on = recipient.list_key in about.subscription_state.subscribed
    template = "already_confirmed" if is_on and _may_be_written_to(about) else "confirm"
    return await _show(request, parts, recipient, template, here=recipient.links.confirm)


@router.post("/confirm")
async def confirm(request: Request, parts: Parts) -> Response:
    """Tells the truth: whoever bounced, complained or left everything gets no mail yet, confirmed or not."""
    recipient = await recipient_of(request, parts, confirms=True)
    is_on = await (await parts.double_opt_in()).confirm(recipient.tenant_id, recipient.email, recipient.list_key)
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    gets_it = is_on and _may_be_written_to(about)
    if wants_json(request):
        if gets_it:
            return json_response({"ok": True, "listKey": recipient.list_key}, headers={"Cache-Control": "no-store"})
        return problem(HTTPStatus.CONFLICT, "NOT_CONFIRMED", "No mail of this list is sent to this address.")
    return await _show(request, parts, recipient, "confirmed" if gets_it else "blocked", here=None)


def _may_be_written_to(about: ContactPreferences) -> bool:
    return not is_blocked(about) and not has_unsubscribed_from_all(about)


async def _show(
    request: Request, parts: ApiParts, recipient: LinkRecipient, template: str, *, here: str | None
) -> Response:
    about = await ContactStatusService(parts.database, parts.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    known = await list_all(parts.database, recipient.tenant_id)
    name = next((each.name for each in known if each.list_key == recipient.list_key), recipient.list_key)
    return recipient_page(request, parts, recipient, template, locale=about.locale, here=here, list=name)
