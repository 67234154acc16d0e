"""List pages: settings and subscribers."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists
from mailwright.audience.lists import List
from mailwright.audience.search import ContactQuery, count_subscribers, search_contacts
from mailwright.audience.status import ContactStatusService
from mailwright.audience.suppressions import suppressed_among
from mailwright.domain.errors import MailwrightError, NotFound
from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.lists import ListRequest
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.validation import parse
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/lists", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50


@router.get("")
async def list_lists(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    return await _page(request, engine, visitor, Fields({"isPublic": "yes"}), Errors())


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        wanted = _wanted(form, form["listKey"])
        made = await lists.create(
            engine.database,
            engine.clock,
            visitor.tenant_id,
            wanted.list_key,
            name=wanted.name,
            description=wanted.description,
            is_public=wanted.is_public,
            requires_confirmation=wanted.requires_confirmation,
            tracking=wanted.tracking,
            actor=visitor.actor,
        )
    except MailwrightError as error:
        return await _page(request, engine, visitor, form, field_errors(error))
    return redirect(request, f"/lists/{made.list_key}", "List created.")


@router.get("/{list_key}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, list_key: str, cursor: str = "") -> Response:
    return await _show(request, engine, visitor, await _found(engine, visitor, list_key), Fields(), Errors(), cursor)


@router.get("/{list_key}/count")
async def count(request: Request, engine: EngineDep, visitor: ViewerDep, list_key: str) -> Response:
    """Count the subscribers. Loaded after the page, because counting a long list takes time."""
    await _found(engine, visitor, list_key)
    number = await count_subscribers(engine.database, visitor.tenant_id, list_key)
    return fragment(request, visitor, "audience/count.html", count=number)


@router.get("/{list_key}/edit")
async def show_form(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found = await _found(engine, visitor, list_key)
    form = Fields(name=found.name, description=found.description or "", isPublic="yes" if found.is_public else "")
    form["optIn"] = "confirmed" if found.requires_confirmation else "single"
    form["tracking"] = found.tracking or TrackingMode.INDIVIDUAL
    return await _form_page(request, visitor, found, form, Errors())


@router.post("/{list_key}/edit")
async def edit(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found, form = await _found(engine, visitor, list_key), await read_fields(request)
    try:
        wanted = _wanted(form, list_key)
    except MailwrightError as error:
        return await _form_page(request, visitor, found, form, field_errors(error))
    await lists.edit(
        engine.database,
        engine.clock,
        visitor.tenant_id,
        list_key,
        name=wanted.name or list_key,
        description=wanted.description or "",
        is_public=wanted.is_public,
        requires_confirmation=wanted.requires_confirmation,
        tracking=wanted.tracking,
        actor=visitor.actor,
    )
    return redirect(request, f"/lists/{list_key}", "List saved.")


@router.post("/{list_key}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found = await _found(engine, visitor, list_key)
    try:
        await lists.delete(engine.database, engine.clock, visitor.tenant_id, list_key, actor=visitor.actor)
    except lists.ListInUse as error:
        return await _show(request, engine, visitor, found, Fields(), Errors({"form": str(error)}))
    return redirect(request, "/lists", "List deleted.")


@router.post("/{list_key}/add")
async def add(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    """Add a subscriber. With double opt-in they confirm first, unless they have already agreed."""
    found, form = await _found(engine, visitor, list_key), await read_fields(request)
    try:
        if form["confirmed"]:
            contact_status = ContactStatusService(engine.database, engine.clock)
            actor = visitor.actor
            await contact_status.subscribe(visitor.tenant_id, form["email"], list_key, source=actor, actor=actor)
        else:
            double_opt_in, actor = await engine.double_opt_in(), visitor.actor
            await double_opt_in.subscribe(visitor.tenant_id, form["email"], list_key, source=actor, actor=actor)
    except MailwrightError as error:
        return await _show(request, engine, visitor, found, form, field_errors(error))
    is_asked = found.requires_confirmation and not form["confirmed"]
    words = "Confirmation email sent." if is_asked else "Subscriber added."
    return redirect(request, f"/lists/{list_key}", words)


@router.post("/{list_key}/remove")
async def remove(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    form = await read_fields(request)
    contact_status = ContactStatusService(engine.database, engine.clock)
    actor = visitor.actor
    await contact_status.unsubscribe(visitor.tenant_id, form["email"], list_key, source=actor, actor=actor)
    return redirect(request, f"/lists/{list_key}", f"{form['email']} unsubscribed.")


async def _found(engine: Engine, visitor: Visitor, list_key: str) -> List:
    every = await lists.list_all(engine.database, visitor.tenant_id)
    found = next((each for each in every if each.list_key == list_key), None)
    if found is None:
        raise NotFound("This list does not exist.")
    return found


def _wanted(form: Fields, list_key: str) -> ListRequest:
    """Validate the form with the schema of the API."""
    given = {
        "listKey": list_key,
        "name": form["name"] or None,
        "description": form["description"] or None,
        "isPublic": bool(form["isPublic"]),
        "requiresConfirmation": form["optIn"] == "confirmed",
        "tracking": form["tracking"] or None,
    }
    return parse(ListRequest, given)


async def _form_page(request: Request, visitor: Visitor, found: List, form: Fields, errors: Errors) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/list_edit.html", status=status, list=found, form=form, errors=errors)


async def _page(request: Request, engine: Engine, visitor: Visitor, form: Fields, errors: Errors) -> Response:
    every = await lists.list_all(engine.database, visitor.tenant_id)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/lists.html", status=status, lists=every, form=form, errors=errors)


async def _show(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: List,
    form: Fields,
    errors: Errors,
    cursor: str = "",
) -> Response:
    before = decode_cursor("member", cursor)[0] if cursor else contacts.NEWEST
    members = await search_contacts(
        engine.database, visitor.tenant_id, ContactQuery(list_key=found.list_key), limit=PAGE, before=before
    )
    async with engine.database.read() as tx:
        emails = [each.email for each in members.contacts]
        suppressed = await suppressed_among(tx, visitor.tenant_id, emails, found.list_key)
    values: dict[str, Any] = {
        "list": found,
        "members": members.contacts,
        "suppressed": suppressed,
        "following": encode_cursor("member", members.next_key) if members.next_key is not None else None,
        "form": form,
        "errors": errors,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/list.html", status=status, **values)
