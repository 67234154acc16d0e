"""List pages: settings and subscribers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions import lists as actions
from mailwright.actions.lists import ListRequest, ListUpdateRequest, SubscribeRequest, UnsubscribeRequest
from mailwright.app.wiring import Engine
from mailwright.audience import lists
from mailwright.audience.list_removal import ListInUse
from mailwright.audience.lists import List, ListExists
from mailwright.audience.search import ContactQuery, count_subscribers, search_contacts
from mailwright.audience.suppressions import suppressed_among
from mailwright.domain import keys
from mailwright.domain.errors import NotFound
from mailwright.domain.record_state import RecordState
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import gettext
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.validation import parse
from mailwright.sources.campaigns.tracking_plan import find_off_level
from mailwright.web.context import visitor_context
from mailwright.web.dashboard.forms import read_fields
from mailwright.web.dashboard.input_forms import InputForm, stored_values
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.sorting import sort_rows
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/lists", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
_ORDERS: Final[dict[str, Callable[[List], Any]]] = {
    "name": lambda each: each.name.casefold(),
    "created": lambda each: each.created_at,
}


@router.get("")
async def list_lists(
    request: Request, engine: EngineDep, visitor: ViewerDep, show: RecordState = RecordState.ACTIVE, sort: str = ""
) -> Response:
    every = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    is_archived = show is RecordState.ARCHIVED
    kept = [each for each in every if (each.archived_at is not None) is is_archived]
    rows, order = sort_rows(kept, sort, _ORDERS, "name")
    values: dict[str, Any] = {
        "lists": rows,
        "order": order,
        "deleted": await engine.list_removal.list_deleted(visitor.tenant_id),
        "archived": sum(each.archived_at is not None for each in every),
        "shown": show,
    }
    return await page(request, visitor, "audience/lists.html", **values)


@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = InputForm(ListRequest, requires_confirmation=True, tracking=TrackingMode.INDIVIDUAL)
    return await _form_page(request, engine, visitor, form)


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await InputForm(ListRequest).read(request)
    # The page fills in a key that it derives from the name, so only a different key was entered by the user.
    is_derived = form["listKey"] in ("", keys.derive_key(form["name"], "list"))
    key = await unused_list_key(engine, visitor, form["name"]) if is_derived else form["listKey"]
    made = await form.submit(partial(actions.create, visitor_context(request, visitor)), list_key=key)
    if made is None:
        return await _form_page(request, engine, visitor, form)
    return redirect(request, f"/lists/{made.list_key}", gettext("List created."))


@router.get("/{list_key}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, list_key: str, cursor: str = "") -> Response:
    return await _show(request, engine, visitor, await _found(engine, visitor, list_key), cursor=cursor)


@router.get("/{list_key}/count")
async def count(request: Request, engine: EngineDep, visitor: ViewerDep, list_key: str) -> Response:
    """Count the subscribers. Loaded after the page, because counting a long list takes time."""
    await _found(engine, visitor, list_key)
    number = await count_subscribers(engine.database.reader, visitor.tenant_id, list_key)
    return fragment(request, visitor, "audience/count.html", count=number)


@router.get("/{list_key}/edit")
async def show_form(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found = await _found(engine, visitor, list_key)
    form = InputForm(ListUpdateRequest, **{"tracking": TrackingMode.INDIVIDUAL, **stored_values(found)})
    return await _form_page(request, engine, visitor, form, found)


@router.post("/{list_key}/edit")
async def edit(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found, form = await _found(engine, visitor, list_key), await InputForm(ListUpdateRequest).read(request)
    change = partial(actions.change, visitor_context(request, visitor), list_key)
    if await form.submit(change, name=form["name"] or list_key) is None:
        return await _form_page(request, engine, visitor, form, found)
    return redirect(request, f"/lists/{list_key}", gettext("List saved."))


@router.post("/{list_key}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found = await _found(engine, visitor, list_key)
    try:
        await actions.delete(visitor_context(request, visitor), list_key)
    except ListInUse as error:
        return await _show(request, engine, visitor, found, error=error)
    return redirect(request, "/lists", gettext("Deleted {name}.", name=found.name), undo=f"/lists/{list_key}/restore")


@router.post("/{list_key}/archive")
async def archive(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    found = await _found(engine, visitor, list_key)
    try:
        await actions.archive(visitor_context(request, visitor), list_key)
    except ListInUse as error:
        return await _show(request, engine, visitor, found, error=error)
    return redirect(request, "/lists", gettext("Archived {name}.", name=found.name), undo=f"/lists/{list_key}/restore")


@router.post("/{list_key}/restore")
async def restore(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    """Bring back an archived or deleted list."""
    try:
        await actions.restore(visitor_context(request, visitor), list_key)
    except ListExists as error:
        return redirect(request, "/lists?show=deleted", error.text, tone="bad")
    return redirect(request, f"/lists/{list_key}", gettext("List restored."))


@router.post("/{list_key}/add")
async def add(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    """Add a subscriber. With double opt-in they confirm first, unless they have already agreed."""
    found, form = await _found(engine, visitor, list_key), await InputForm(SubscribeRequest).read(request)
    if await form.submit(partial(actions.subscribe, visitor_context(request, visitor), list_key)) is None:
        return await _show(request, engine, visitor, found, form)
    is_asked = found.requires_confirmation and form["confirmed"] != "yes"
    words = gettext("Confirmation email sent.") if is_asked else gettext("Subscriber added.")
    return redirect(request, f"/lists/{list_key}", words)


@router.post("/{list_key}/remove")
async def remove(request: Request, engine: EngineDep, visitor: EditorDep, list_key: str) -> Response:
    form = await read_fields(request)
    wanted = parse(UnsubscribeRequest, {"email": form["email"]})
    await actions.unsubscribe(visitor_context(request, visitor), list_key, wanted)
    return redirect(request, f"/lists/{list_key}", gettext("{form} unsubscribed.", form=form["email"]))


async def unused_list_key(engine: Engine, visitor: Visitor, name: str) -> str:
    """Return an unused key for a new list that has only a name."""
    every = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    deleted = await engine.list_removal.list_deleted(visitor.tenant_id)
    taken = [lists.GENERAL, *(each.list_key for each in every), *(each.list_key for each in deleted)]
    return keys.unused_key(keys.derive_key(name, "list"), taken)


async def _found(engine: Engine, visitor: Visitor, list_key: str) -> List:
    every = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    found = next((each for each in every if each.list_key == list_key), None)
    if found is None:
        raise NotFound(gettext("This list does not exist."))
    return found


async def _form_page(
    request: Request, engine: Engine, visitor: Visitor, form: InputForm[Any], found: List | None = None
) -> Response:
    """Show the form of a new list or of an existing one, and the level above the list that turned tracking off."""
    async with engine.database.read() as tx:
        off_by = await find_off_level(tx, visitor.tenant_id, engine.settings.tracking)
    values: dict[str, Any] = {"list": found, "tracking_off_by": off_by, "transliteration": keys.TRANSLITERATION}
    template = "audience/list_new.html" if found is None else "audience/list_edit.html"
    return await page(request, visitor, template, status=form.status, form=form, **values)


async def _show(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: List,
    form: InputForm[SubscribeRequest] | None = None,
    *,
    cursor: str = "",
    error: ListInUse | None = None,
) -> Response:
    form = form or InputForm(SubscribeRequest)
    if error is not None:
        form.fail(error)
    after = decode_cursor("member", cursor)[0] if cursor else None
    members = await search_contacts(
        engine.database.reader, visitor.tenant_id, ContactQuery(list_key=found.list_key), limit=PAGE, after=after
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
        "uses": () if error is None else error.uses,
    }
    return await page(request, visitor, "audience/list.html", status=form.status, **values)
