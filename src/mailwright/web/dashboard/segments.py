"""Segment pages: list, filter editor and matching contacts."""

from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions import segments as actions
from mailwright.app.segment_removal import SegmentInUse
from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists, segments
from mailwright.audience.event_schema import load_schema
from mailwright.audience.lists import GENERAL
from mailwright.audience.search import list_tags
from mailwright.audience.segments import Segment
from mailwright.audience.status import ContactStatus
from mailwright.audience.suppressions import suppressed_among
from mailwright.domain import keys
from mailwright.domain.address import domain_of
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.foreign_json import load_json
from mailwright.domain.translation import gettext, number_text
from mailwright.sources.api.validation import parse
from mailwright.sources.sequences.segment_edits import StartedSequence, edit_segment, preview_edit
from mailwright.texts.filters import describe
from mailwright.web.context import visitor_context
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.segments_forms import (
    JOINS,
    KINDS,
    FilterForm,
    apply_action,
    filter_form_from,
    filter_form_of,
    filter_of,
    missing,
)
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.sorting import sort_rows
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/segments", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
_SAMPLE: Final = 5
# The names and values of attributes are suggested from this many contacts, the newest.
_READ_CONTACTS: Final = 500
_SUGGESTED_VALUES: Final = 30
_MAX_SUGGESTED: Final = 80  # characters
_ORDERS: Final[dict[str, Callable[[Segment], Any]]] = {
    "name": lambda each: each.name.casefold(),
    "changed": lambda each: each.updated_at,
}


@router.get("")
async def list_segments(request: Request, engine: EngineDep, visitor: ViewerDep, sort: str = "") -> Response:
    found, order = sort_rows(await segments.list_all(engine.database, visitor.tenant_id), sort, _ORDERS, "name")
    lines = [(each, describe(each.filter)) for each in found]
    return await page(request, visitor, "audience/segments.html", lines=lines, order=order)


@router.get("/new")
async def show_form(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _form(request, engine, visitor, None, Fields(), FilterForm())


@router.post("/builder")
async def build(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Apply an editor button or a change of condition type, and return the form with its current values."""
    form = await read_fields(request)
    filter_form = apply_action(filter_form_from(form), form["do"])
    if request.headers.get("hx-request") == "true":
        again = fragment(
            request, visitor, "audience/builder.html", **await filter_choices(engine, visitor), filter_form=filter_form
        )
        # This event reloads the summary.
        again.headers["HX-Trigger"] = "rebuilt"
        return again
    found = await segments.find(engine.database, visitor.tenant_id, form["of"]) if form["of"] else None
    return await _form(request, engine, visitor, found, form, filter_form)


@router.post("/summary")
async def show_summary(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Describe the unsaved filter and count its contacts."""
    form = await read_fields(request)
    values: dict[str, Any] = {"error": "", "sentence": "", "count": 0, "people": [], "suppressed": set()}
    if not form["filter"] and (lacking := missing(filter_form_from(form))):
        return fragment(request, visitor, "audience/segment_summary.html", lacking=lacking, **values)
    try:
        filter_ = filter_from(form)
        values["sentence"] = describe(filter_)
        async with engine.database.read() as tx:
            now = engine.clock.now()
            values["count"] = await segments.count_members(tx, visitor.tenant_id, filter_, now)
            people = await segments.list_members(tx, visitor.tenant_id, filter_, now, limit=_SAMPLE)
            emails = [each.email for each in people]
            values |= {"people": people, "suppressed": await suppressed_among(tx, visitor.tenant_id, emails, GENERAL)}
    except InvalidInput as error:
        values["error"] = error.text
    return fragment(request, visitor, "audience/segment_summary.html", lacking="", **values)


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        given = {"segmentKey": await _key_of(engine, visitor, form), "filter": filter_from(form)}
        wanted = parse(actions.SegmentRequest, {**given, "name": form["name"] or None})
        made = await actions.create(visitor_context(request, visitor), wanted)
    except MailwrightError as error:
        return await _form(request, engine, visitor, None, form, filter_form_from(form), field_errors(error))
    return redirect(request, f"/segments/{made.segment_key}", gettext("Segment saved."))


@router.get("/{segment_key}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, segment_key: str, after: str = "") -> Response:
    found = await segments.find(engine.database, visitor.tenant_id, segment_key)
    async with engine.database.read() as tx:
        people = await segments.list_members(
            tx, visitor.tenant_id, found.filter, engine.clock.now(), limit=PAGE, after=after[:254]
        )
        suppressed = await suppressed_among(tx, visitor.tenant_id, [each.email for each in people], GENERAL)
    values: dict[str, Any] = {
        "suppressed": suppressed,
        "segment": found,
        "sentence": describe(found.filter),
        "found": people,
        "following": people[-1].email if len(people) == PAGE else None,
    }
    return await page(request, visitor, "audience/segment.html", **values)


@router.get("/{segment_key}/count")
async def count(request: Request, engine: EngineDep, visitor: ViewerDep, segment_key: str) -> Response:
    """Count the contacts. Loaded after the page, because it evaluates the whole filter."""
    found = await segments.find(engine.database, visitor.tenant_id, segment_key)
    number = await actions.member_count(visitor_context(request, visitor), found)
    return fragment(request, visitor, "audience/count.html", count=number)


@router.get("/{segment_key}/edit")
async def show_edit(request: Request, engine: EngineDep, visitor: EditorDep, segment_key: str) -> Response:
    found = await segments.find(engine.database, visitor.tenant_id, segment_key)
    form = Fields({"name": found.name, "filter": orjson.dumps(found.filter, option=orjson.OPT_INDENT_2).decode()})
    return await _form(request, engine, visitor, found, form, filter_form_of(found.filter))


@router.post("/{segment_key}")
async def change(request: Request, engine: EngineDep, visitor: EditorDep, segment_key: str) -> Response:
    form = await read_fields(request)
    found = await segments.find(engine.database, visitor.tenant_id, segment_key)
    where = (engine.database, engine.clock, visitor.tenant_id, segment_key)
    filter_form = None if form["filter"] else filter_form_from(form)
    try:
        filter_ = filter_from(form)
        started = await preview_edit(*where, filter_) if filter_ != found.filter and not form["members"] else ()
        if started:
            return await _form(request, engine, visitor, found, form, filter_form, started=started)
        enrols, name = form["members"] == "enrol", form["name"] or None
        _, entered = await edit_segment(*where, filter_=filter_, name=name, enrols=enrols, actor=visitor.actor)
    except MailwrightError as error:
        return await _form(request, engine, visitor, found, form, filter_form, field_errors(error))
    words = gettext("Segment saved. Started campaigns keep the previous filter.")
    if entered and enrols:
        into = (gettext("{people} entered {name}", people=number_text(each.people), name=each.name) for each in entered)
        words = gettext("Segment saved. {entered}.", entered=", ".join(into))
    return redirect(request, f"/segments/{segment_key}", words)


@router.post("/{segment_key}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, segment_key: str) -> Response:
    try:
        await actions.remove(visitor_context(request, visitor), segment_key)
    except SegmentInUse as error:
        values: dict[str, Any] = {"title": gettext("Segment in use"), "text": error.text, "uses": error.uses}
        back = (f"/segments/{segment_key}", segment_key)
        return await page(request, visitor, "refused.html", status=HTTPStatus.CONFLICT, back=back, **values)
    return redirect(request, "/segments", gettext("Segment deleted."))


async def _key_of(engine: Engine, visitor: Visitor, form: Fields) -> str:
    """Return the key that the user wrote, or an unused one that is derived from the name."""
    derived = keys.derive_key(form["name"], "segment")
    if form["segmentKey"] not in ("", derived):
        return form["segmentKey"]
    every = await segments.list_all(engine.database, visitor.tenant_id)
    return keys.unused_key(derived, [*segments.RESERVED_KEYS, *(each.segment_key for each in every)])


def filter_from(form: Fields) -> Any:
    """Return the filter of the editor, or the JSON of a filter that is too complex for it."""
    if not form["filter"]:
        return filter_of(filter_form_from(form))
    try:
        return load_json(form["filter"])
    except orjson.JSONDecodeError as error:
        raise InvalidInput(gettext("This is not valid JSON."), field="filter") from error


async def filter_choices(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    """Return the lists, tags, event names and statuses that the filter editor offers."""
    return {
        "kinds": KINDS,
        "joins": JOINS,
        "lists": await lists.list_all(engine.database, visitor.tenant_id),
        "tags": await list_tags(engine.database.reader, visitor.tenant_id),
        "event_names": [each.name for each in await load_schema(engine.database, visitor.tenant_id)],
        "statuses": [each.value for each in ContactStatus],
    }


async def attribute_suggestions(engine: Engine, visitor: Visitor) -> dict[str, list[str]]:
    """Return the names of attributes that contacts have, and values of each, the most common first."""
    found: dict[str, Counter[str]] = {}
    for each in await contacts.list_page(engine.database, visitor.tenant_id, limit=_READ_CONTACTS):
        fields = {"~locale": each.locale, "~timezone": each.timezone, "~domain": domain_of(each.email)}
        for name, value in {**fields, **each.attributes}.items():
            if value not in (None, "") and not isinstance(value, dict | list) and len(str(value)) <= _MAX_SUGGESTED:
                found.setdefault(name, Counter())[str(value)] += 1
    names = sorted(found, key=lambda name: (-found[name].total(), name))
    return {name: [value for value, _ in found[name].most_common(_SUGGESTED_VALUES)] for name in names}


async def _form(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: Segment | None,
    form: Fields,
    filter_form: FilterForm | None,
    errors: Errors | None = None,
    *,
    started: Sequence[StartedSequence] = (),
) -> Response:
    values: dict[str, Any] = {
        "segment": found,
        "started": started,
        "form": form,
        "filter_form": filter_form,
        "errors": errors or Errors(),
        "transliteration": keys.TRANSLITERATION,
        "suggestions": await attribute_suggestions(engine, visitor),
        **await filter_choices(engine, visitor),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors or started else HTTPStatus.OK
    return await page(request, visitor, "audience/segment_edit.html", status=status, **values)
