"""Confirm a subscription. The link shows a button, because link scanners open links but press no buttons."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience.lists import list_all
from mailwright.audience.preferences import has_unsubscribed_from_all, is_blocked
from mailwright.audience.status import ContactPreferences, ContactStatusService
from mailwright.web.bodies import json_response
from mailwright.web.errors import problem
from mailwright.web.public.subscribers import (
    LinkRecipient,
    PublicRoute,
    recipient_of,
    recipient_page,
    refuse_erasing_recipient,
    wants_json,
)
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/confirm", methods=["GET", "HEAD"])
async def show(request: Request, engine: EngineDep) -> Response:
    recipient = await recipient_of(request, engine, confirms=True)
    await refuse_erasing_recipient(engine, recipient)
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    is_on = recipient.list_key in about.subscription_state.subscribed
    template = "already_confirmed" if is_on and _can_receive(about) else "confirm"
    return await _show(request, engine, recipient, template, here=recipient.links.confirm)


@router.post("/confirm")
async def confirm(request: Request, engine: EngineDep) -> Response:
    """Confirm the subscription, or report that the address cannot receive emails of this list."""
    recipient = await recipient_of(request, engine, confirms=True)
    await refuse_erasing_recipient(engine, recipient)
    is_on = await (await engine.double_opt_in()).confirm(
        recipient.tenant_id,
        recipient.email,
        recipient.list_key,
        with_consent=recipient.confirms_consent,
        submission_id=recipient.submission_id,
    )
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    can_receive = is_on and _can_receive(about)
    if wants_json(request):
        if can_receive:
            return json_response({"ok": True, "listKey": recipient.list_key}, headers={"Cache-Control": "no-store"})
        return problem(HTTPStatus.CONFLICT, "NOT_CONFIRMED", "This address cannot receive emails of this list.")
    return await _show(request, engine, recipient, "confirmed" if can_receive else "blocked", here=None)


def _can_receive(about: ContactPreferences) -> bool:
    return not is_blocked(about) and not has_unsubscribed_from_all(about)


async def _show(
    request: Request, engine: Engine, recipient: LinkRecipient, template: str, *, here: str | None
) -> Response:
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    known = await list_all(engine.database, recipient.tenant_id)
    name = next((each.name for each in known if each.list_key == recipient.list_key), recipient.list_key)
    return await recipient_page(request, engine, recipient, template, locale=about.locale, here=here, list=name)
