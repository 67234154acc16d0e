"""The suppression list: search, add and remove addresses."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import lists, suppressions
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain import address
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/suppressions", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
REASONS: Final = {
    "bounce": lazy_gettext("Hard bounce"),
    "soft_bounces": lazy_gettext("Repeated soft bounces"),
    "complaint": lazy_gettext("Complaint"),
    "unsubscribed": lazy_pgettext("status", "Unsubscribed"),
}


@router.get("")
async def list_suppressions(
    request: Request, engine: EngineDep, visitor: ViewerDep, q: str = "", cursor: str = ""
) -> Response:
    return await _page(request, engine, visitor, q=q.strip()[:320], cursor=cursor)


@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _new_page(request, engine, visitor, Fields(), Errors())


@router.post("")
async def add(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        _, is_new = await suppressions.add(
            engine.database,
            engine.clock,
            visitor.tenant_id,
            form["email"],
            reason=(form["reason"] or "asked for")[:200],
            source=visitor.actor,
            list_key=form["scope"] or ALL_MESSAGES,
            actor=visitor.actor,
        )
    except InvalidInput as error:
        return await _new_page(request, engine, visitor, form, field_errors(error, {"listKey": "scope"}))
    words = (
        gettext("Address suppressed. Queued emails to it will not be sent.")
        if is_new
        else gettext("This address was already suppressed.")
    )
    return redirect(request, "/suppressions", words)


@router.post("/remove")
async def remove(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    await suppressions.remove(
        engine.database,
        visitor.tenant_id,
        form["email"],
        list_key=form["scope"] or None,
        actor=visitor.actor,
        clock=engine.clock,
    )
    return redirect(request, "/suppressions", gettext("Suppression of {form} removed.", form=form["email"]))


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    *,
    q: str = "",
    cursor: str = "",
) -> Response:
    before = decode_cursor("suppression", cursor)[0] if cursor else suppressions.NEWEST
    following = None
    if q:
        async with engine.database.read() as tx:
            found = await suppressions.list_for_address(tx, visitor.tenant_id, _normal(q))
    else:
        found = await suppressions.list_page(engine.database, visitor.tenant_id, limit=PAGE, before=before)
        following = encode_cursor("suppression", found[-1].id) if len(found) == PAGE else None
    values: dict[str, Any] = {
        "found": found,
        "following": following,
        "q": q,
        "scope_labels": dict(await _scopes(engine, visitor)),
        "reasons": REASONS,
    }
    return await page(request, visitor, "audience/suppressions.html", **values)


async def _new_page(request: Request, engine: Engine, visitor: Visitor, form: Fields, errors: Errors) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    values: dict[str, Any] = {"form": form, "errors": errors, "scopes": await _scopes(engine, visitor)}
    return await page(request, visitor, "audience/suppression_new.html", status=status, **values)


async def _scopes(engine: Engine, visitor: Visitor) -> list[tuple[str, str]]:
    every = await lists.list_all(engine.database, visitor.tenant_id)
    general = [(ALL_MESSAGES, gettext("All email")), (GENERAL, gettext("Bulk email"))]
    return general + [(each.list_key, gettext("List {name}", name=each.name)) for each in every]


def _normal(text: str) -> str:
    """Normalize an address. Return an invalid one unchanged; the search then finds nothing."""
    try:
        return address.normal(text)
    except address.InvalidAddress:
        return text
