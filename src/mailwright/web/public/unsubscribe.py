"""Unsubscribe and resubscribe through links, or with one click in the email client (RFC 8058)."""

from http import HTTPStatus
from typing import assert_never

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience.lists import GENERAL, list_all
from mailwright.audience.preferences import has_unsubscribed_from_all, is_blocked
from mailwright.audience.status import ContactStatusService
from mailwright.domain.machines import (
    is_machine_request,
    is_navigation_by_person,
    is_other_request,
    is_prefetch,
)
from mailwright.domain.unsubscribe_confirmation import UnsubscribeConfirmation
from mailwright.events.tracking.visits import Visit, unsubscribe_visitor
from mailwright.web.bodies import json_response
from mailwright.web.errors import problem
from mailwright.web.public.forms import read_form
from mailwright.web.public.preferences import preferences_page
from mailwright.web.public.subscribers import (
    SOURCE,
    LinkRecipient,
    PublicRoute,
    recipient_of,
    recipient_page,
    refuse_erasing_recipient,
    wants_json,
)
from mailwright.web.state import EngineDep

# Form fields that unsubscribe: the one that email clients send (RFC 8058) and the one in `templates/unsubscribe.html`.
UNSUBSCRIBE_FIELDS = (("List-Unsubscribe", "One-Click"), ("confirm", "unsubscribe"))
ONE_CLICK_NEEDED = "To unsubscribe, send a POST request with the form field List-Unsubscribe=One-Click."

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/unsubscribe", methods=["GET", "HEAD"])
async def open_link(request: Request, engine: EngineDep) -> Response:
    """Unsubscribe, or show a button to visitors who may be link scanners. HEAD and prefetches change nothing."""
    recipient = await recipient_of(request, engine)
    if recipient.is_test:
        return await _show_test(request, engine, recipient)
    if not _asks_first(request, engine) and await _unsubscribe_visitor(engine, recipient):
        return await _show_unsubscribed(request, engine, recipient)
    if wants_json(request):
        return problem(HTTPStatus.CONFLICT, "CONFIRMATION_NEEDED", ONE_CLICK_NEEDED)
    # Do not ask again after unsubscribing, because the language links lead to this page.
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    template = "unsubscribed" if recipient.list_key in about.scopes else "unsubscribe"
    return await _show(request, engine, recipient, template, here=recipient.links.unsubscribe)


@router.post("/unsubscribe")
async def unsubscribe(request: Request, engine: EngineDep) -> Response:
    """Unsubscribe with one click (RFC 8058) or the button of the page. Any other request changes nothing."""
    recipient = await recipient_of(request, engine)
    if recipient.is_test:
        return await _show_test(request, engine, recipient)
    form = await read_form(request)
    if any(value in form.get(name, ()) for name, value in UNSUBSCRIBE_FIELDS):
        await _unsubscribe_by_link(engine, recipient)
        return await _show_unsubscribed(request, engine, recipient)
    if wants_json(request):
        return problem(HTTPStatus.BAD_REQUEST, "CONFIRMATION_NEEDED", ONE_CLICK_NEEDED)
    return await _show(
        request,
        engine,
        recipient,
        "unsubscribe",
        here=recipient.links.unsubscribe,
        status=HTTPStatus.BAD_REQUEST,
    )


@router.api_route("/resubscribe", methods=["GET", "HEAD"])
async def show_resubscribe(request: Request, engine: EngineDep) -> Response:
    """Show the button that resubscribes."""
    recipient = await recipient_of(request, engine, returns=True)
    if recipient.is_test:
        return await _show_test(request, engine, recipient)
    await refuse_erasing_recipient(engine, recipient)
    return await _show(request, engine, recipient, "resubscribe", here=recipient.links.resubscribe)


@router.post("/resubscribe")
async def resubscribe(request: Request, engine: EngineDep) -> Response:
    """Resubscribe, or report that the address still cannot receive emails of this list."""
    recipient = await recipient_of(request, engine, returns=True)
    if recipient.is_test:
        return await _show_test(request, engine, recipient)
    contact_status = ContactStatusService(engine.database, engine.clock)
    await contact_status.resubscribe_by_link(recipient.tenant_id, recipient.email, recipient.list_key, source=SOURCE)
    now = await contact_status.load_preferences(recipient.tenant_id, recipient.email)
    if is_blocked(now):
        if wants_json(request):
            return problem(
                HTTPStatus.CONFLICT,
                "ADDRESS_BLOCKED",
                "This address is suppressed for another reason, for example a bounce. Contact the sender.",
            )
        return await recipient_page(request, engine, recipient, "blocked", locale=now.locale, here=None)
    if wants_json(request):
        return _success_json(recipient)
    if has_unsubscribed_from_all(now):
        return await preferences_page(request, engine, recipient, now)
    return await _show(request, engine, recipient, "resubscribed", here=None)


def _asks_first(request: Request, engine: Engine) -> bool:
    if request.method == "HEAD" or is_prefetch(request.headers):
        return True
    match engine.public_pages.confirmation:
        case UnsubscribeConfirmation.EVERYONE:
            return True
        case UnsubscribeConfirmation.NOBODY:
            return False
        case UnsubscribeConfirmation.UNCONFIRMED_PEOPLE:
            return not _is_person(request) or _is_machine(request)
        case UnsubscribeConfirmation.MACHINES:
            return is_other_request(request.headers) or _is_machine(request)
        case other:
            assert_never(other)


def _is_person(request: Request) -> bool:
    """Return whether a person opened the link elsewhere. The language links of this page must not unsubscribe."""
    return is_navigation_by_person(request.headers) and request.headers.get("sec-fetch-site") != "same-origin"


def _is_machine(request: Request) -> bool:
    address = request.client.host if request.client else None
    return is_machine_request(request.headers, address, is_click=True)


async def _unsubscribe_visitor(engine: Engine, recipient: LinkRecipient) -> bool:
    """Unsubscribe the visitor. Return False if other visits of the email show that this one is a machine's."""
    if engine.public_pages.confirmation is UnsubscribeConfirmation.NOBODY:
        await _unsubscribe_by_link(engine, recipient)
        return True
    visit = Visit(recipient.tenant_id, recipient.email, recipient.list_key, recipient.message_id)
    return await unsubscribe_visitor(engine.database, engine.clock, engine.redirects.spool, visit, source=SOURCE)


async def _unsubscribe_by_link(engine: Engine, recipient: LinkRecipient) -> None:
    contact_status = ContactStatusService(engine.database, engine.clock)
    await contact_status.unsubscribe_by_link(
        recipient.tenant_id, recipient.email, recipient.list_key, source=SOURCE, message_id=recipient.message_id
    )


async def _show_unsubscribed(request: Request, engine: Engine, recipient: LinkRecipient) -> Response:
    if wants_json(request):
        return _success_json(recipient)
    return await _show(request, engine, recipient, "unsubscribed", here=recipient.links.unsubscribe)


def _success_json(recipient: LinkRecipient) -> Response:
    content: dict[str, object] = {"ok": True, "listKey": recipient.list_key}
    if recipient.is_test:
        content["isTest"] = True
    return json_response(content, headers={"Cache-Control": "no-store"})


async def _show_test(request: Request, engine: Engine, recipient: LinkRecipient) -> Response:
    """Show what the link of a test email would change. It changes nothing."""
    if wants_json(request):
        return _success_json(recipient)
    return await _show(request, engine, recipient, "test_link", here=recipient.links.unsubscribe)


async def _show(
    request: Request,
    engine: Engine,
    recipient: LinkRecipient,
    template: str,
    *,
    here: str | None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    about = await ContactStatusService(engine.database, engine.clock).load_preferences(
        recipient.tenant_id, recipient.email
    )
    name = await _list_name(engine, recipient)
    return await recipient_page(
        request, engine, recipient, template, locale=about.locale, status=status, here=here, list=name
    )


async def _list_name(engine: Engine, recipient: LinkRecipient) -> str | None:
    """Return the name of the list, or None for all bulk email. For a deleted list, return its key."""
    if recipient.list_key == GENERAL:
        return None
    lists = await list_all(engine.database, recipient.tenant_id, with_archived=True)
    return next((each.name for each in lists if each.list_key == recipient.list_key), recipient.list_key)
