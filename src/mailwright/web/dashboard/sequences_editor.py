"""The editor of a sequence: steps, trigger, filters and settings of its draft. Every change is saved at once.

A change names the revision that it is based on. If somebody else saved meanwhile, it is refused and nothing is lost.
"""

import copy
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience.event_schema import load_schema
from mailwright.content.template_store import latest_by_locale
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recurrence import WEEKDAYS
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.schemas.sequence_files import sequence_file
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.sequences.bundles import load_templates
from mailwright.sources.sequences.definition import StepKind, TriggerKind
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.triggers import check_feed
from mailwright.sources.sequences.versions import published_from
from mailwright.texts.sentences import sentence
from mailwright.texts.sequence_documents import STEP_TITLES, TRIGGER_TITLES, kind_of, trigger_kind
from mailwright.web.dashboard import sequences_document as documents
from mailwright.web.dashboard.campaigns_designs import create_design, list_designs
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, field_sentence, read_fields
from mailwright.web.dashboard.property_conditions import conditions_text
from mailwright.web.dashboard.segments import attribute_suggestions, filter_choices
from mailwright.web.dashboard.segments_forms import FilterForm, apply_action, filter_form_from, filter_form_of
from mailwright.web.dashboard.sequences import list_options, problems_of, segment_options, step_values
from mailwright.web.dashboard.sequences_document import StepPlace
from mailwright.web.dashboard.sequences_forms import (
    NEW_IDS,
    is_known_step,
    is_known_trigger,
    json_text,
    read_filter,
    read_json_field,
    reentry_from,
    settings_fields,
    step_fields,
    step_from,
    stop_from,
    trigger_fields,
    trigger_from,
)
from mailwright.web.dashboard.shell import PageRoute, fragment, is_htmx, page, redirect
from mailwright.web.dashboard.templates_new import BLANK, template_id_for
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sequences/{sequence_id}", route_class=PageRoute, include_in_schema=False)

_TEMPLATES_OFFERED: Final = 500
_CAMPAIGNS_OFFERED: Final = 100
_INVALID: Final = (InvalidInput, RequestInvalid)
# The actions of an email step's buttons that open the composer.
_NEW_EMAIL: Final = "new"
_EDIT: Final = "edit"
_WITH_FILTER: Final = ("waitFor", "branch")
_FILTER_TITLES: Final = {
    "entry": (
        lazy_gettext("Entry filter"),
        lazy_gettext("Only people who match it when they enter. Others leave at once and may enter later."),
    ),
    "goal": (lazy_gettext("Goal"), lazy_gettext("People who match it leave the sequence, and count as a success.")),
    "exit": (lazy_gettext("Exit"), lazy_gettext("People who match it leave the sequence.")),
}
# The re-entry rule that replaces "once per person" when the user chooses a repeating trigger.
_REPEATING: Final[dict[str, Any]] = {"schedule": "each", "rss": "each"}
_REENTRIES: Final = (
    ("never", lazy_gettext("Once per person")),
    ("after", lazy_gettext("Again after some days")),
    ("each", lazy_gettext("Each time the trigger applies")),
)


@dataclass(frozen=True, slots=True)
class DraftChange:
    """What was changed, and the document before it, for the undo button."""

    words: str
    previous: str


# Steps.


@router.get("/steps/~new")
async def show_new_step(
    request: Request,
    engine: EngineDep,
    visitor: EditorDep,
    sequence_id: str,
    *,
    kind: str = "send",
    parent: str = "",
    path: str = "",
    index: int = 0,
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    if kind not in list(StepKind):
        raise NotFound(gettext("There is no such kind of step."))
    place = str(StepPlace(parent, path, index))
    step_id = documents.unused_id(sequence.draft, NEW_IDS.get(kind, kind.lower()))
    weekdays = {f"weekday.{day}": "yes" for day in WEEKDAYS[:5]}
    form = Fields({"kind": kind, "place": place, "id": step_id, "time": "09:00", "for": "event", **weekdays})
    return await _step_page(request, engine, visitor, sequence, form, FilterForm())


@router.post("/steps/~new")
async def add_step(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    if "do" in form:
        return await _step_page(request, engine, visitor, sequence, form, _acted(form))
    try:
        place = documents.parse_place(form["place"])
        saved = await _save_step(
            engine,
            visitor,
            sequence,
            form,
            lambda: documents.insert_step(sequence.draft, place, step_from(form["kind"], form, {})),
        )
    except _INVALID as error:
        return await _step_page(request, engine, visitor, sequence, form, filter_form_from(form), error=error)
    return _step_saved(request, saved, form, gettext("Step added."), form["id"])


@router.get("/steps/{step_id}/edit")
async def show_step(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    step = documents.find_step(sequence.draft, step_id)
    form = step_fields(step)
    form["kind"] = kind_of(step)
    condition = step[form["kind"]].get("filter") if form["kind"] == "waitFor" else None
    if condition is not None:
        form["filter"] = json_text(condition)
    filter_form = filter_form_of(condition) if condition is not None else FilterForm()
    return await _step_page(request, engine, visitor, sequence, form, filter_form, step_id=step_id)


@router.post("/steps/{step_id}/edit")
async def edit_step(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    before = documents.find_step(sequence.draft, step_id)
    form["kind"], form["id"] = kind_of(before), step_id
    if "do" in form:
        return await _step_page(request, engine, visitor, sequence, form, _acted(form), step_id=step_id)
    try:
        saved = await _save_step(
            engine,
            visitor,
            sequence,
            form,
            lambda: documents.replace_step(sequence.draft, step_id, step_from(form["kind"], form, before)),
        )
    except _INVALID as error:
        filter_form = None if form["filter"] else filter_form_from(form)
        return await _step_page(request, engine, visitor, sequence, form, filter_form, step_id=step_id, error=error)
    return _step_saved(request, saved, form, gettext("Step saved."), step_id)


@router.post("/steps/{step_id}/up")
async def move_up(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = documents.nudge_step(sequence.draft, step_id, -1)
    return await _change(
        request, engine, visitor, sequence, changed, gettext("Step {step_id} moved up.", step_id=step_id)
    )


@router.post("/steps/{step_id}/down")
async def move_down(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = documents.nudge_step(sequence.draft, step_id, 1)
    return await _change(
        request, engine, visitor, sequence, changed, gettext("Step {step_id} moved down.", step_id=step_id)
    )


@router.post("/steps/{step_id}/delete")
async def delete_step(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = documents.delete_step(sequence.draft, step_id)
    return await _change(
        request, engine, visitor, sequence, changed, gettext("Step {step_id} deleted.", step_id=step_id)
    )


@router.get("/steps/{step_id}/move")
async def show_move(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    """Choose another place for a step, also in another path."""
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    documents.find_step(sequence.draft, step_id)
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": f"/sequences/{sequence_id}",
        "step_id": step_id,
        "places": documents.list_places(sequence.draft, step_id),
    }
    return await page(request, visitor, "sequences/move.html", **values)


@router.post("/steps/{step_id}/move")
async def move(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str) -> Response:
    """Move a step to a place that was chosen from the list or by dragging."""
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = documents.move_step(sequence.draft, step_id, documents.parse_place(form["place"]))
    if form["dragged"]:
        return await _change(
            request, engine, visitor, sequence, changed, gettext("Step {step_id} moved.", step_id=step_id)
        )
    saved = await _save(engine, visitor, sequence, form, changed)
    return _saved(request, saved, gettext("Step moved."), step_id)


@router.post("/undo")
async def undo(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    """Save the document as it was before the last change."""
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = read_json_field(form, "document")
    return await _change(request, engine, visitor, sequence, changed, gettext("Change undone."), can_undo=False)


# The cases of a branch.


@router.get("/steps/{step_id}/cases/{number}")
async def show_case(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str, number: str
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    case = _case(sequence.draft, step_id, number)
    condition = case["if"] if case is not None else None
    return await _case_page(request, engine, visitor, sequence, step_id, number, condition=condition)


@router.post("/steps/{step_id}/cases/{number}")
async def save_case(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str, number: str
) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = copy.deepcopy(sequence.draft)
    cases, case = documents.find_step(changed, step_id)["branch"], _case(changed, step_id, number)
    if "do" in form:
        return await _case_page(request, engine, visitor, sequence, step_id, number, filter_form=_acted(form))
    try:
        condition = read_filter(form)
        if case is None:
            cases.append({"if": condition, "steps": []})
        else:
            case["if"] = condition
        saved = await _save(engine, visitor, sequence, form, changed)
    except _INVALID as error:
        filter_form = filter_form_from(form)
        return await _case_page(
            request, engine, visitor, sequence, step_id, number, filter_form=filter_form, error=error
        )
    return _saved(request, saved, gettext("Case saved."), step_id)


@router.post("/steps/{step_id}/cases/{number}/delete")
async def delete_case(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str, number: str
) -> Response:
    """Delete a case with its steps."""
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    changed = copy.deepcopy(sequence.draft)
    documents.find_step(changed, step_id)["branch"].remove(_case(changed, step_id, number))
    return await _change(
        request, engine, visitor, sequence, changed, gettext("A case of {step_id} deleted.", step_id=step_id)
    )


def _case(document: Any, step_id: str, number: str) -> Any:
    """Return a case of a branch; None for a new one."""
    cases = documents.find_step(document, step_id).get("branch")
    if not isinstance(cases, list) or (number != "~new" and not (number.isdecimal() and int(number) < len(cases))):
        raise NotFound(gettext("There is no such case. Somebody may have deleted it."))
    return None if number == "~new" else cases[int(number)]


# The trigger, the filters and the settings.


@router.get("/trigger")
async def show_trigger(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, kind: str = ""
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    trigger = sequence.draft["trigger"]
    current = trigger_kind(trigger)
    if kind and kind not in list(TriggerKind):
        raise NotFound(gettext("There is no such trigger."))
    new = Fields({"json": json_text({kind: {}}), "side": "before", "time": "09:00", "weekday.mon": "yes"})
    form = trigger_fields(trigger) if kind in ("", current) else new
    form["kind"] = kind or current
    return await _trigger_page(request, engine, visitor, sequence, form)


@router.post("/trigger")
async def save_trigger(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    try:
        trigger = trigger_from(form["kind"], form)
        changed = {**sequence.draft, "trigger": trigger}
        if trigger.get("yearly") and changed.get("reentry", "never") == "never":
            changed["reentry"] = {"afterDays": 300}
        if changed.get("reentry", "never") == "never" and (reentry := _REPEATING.get(form["kind"])):
            changed["reentry"] = reentry
        unreachable: str | None = None
        if form["kind"] == "rss" and engine.sequences.fetch_feed is not None:
            unreachable = await check_feed(engine.sequences.fetch_feed, form["value"])
        saved = await _save(engine, visitor, sequence, form, changed)
    except _INVALID as error:
        return await _trigger_page(request, engine, visitor, sequence, form, error)
    words = gettext("Trigger saved.")
    if changed.get("reentry") != sequence.draft.get("reentry"):
        words += " " + gettext("People now enter again each time; the settings of the sequence can change that.")
    if unreachable is not None:
        words += " " + gettext("Mailwright tries the feed again later: {unreachable}", unreachable=unreachable)
    return _saved(request, saved, words)


@router.get("/filters/{name}")
async def show_filter(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, name: str) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    condition = _filter_at(sequence.draft, name)
    return await _filter_page(request, engine, visitor, sequence, name, condition=condition)


@router.post("/filters/{name}")
async def save_filter(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, name: str) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    _filter_at(sequence.draft, name)
    if form["do"] == "~remove":
        saved = await _save(engine, visitor, sequence, form, _with_filter(sequence.draft, name, None))
        return _saved(request, saved, gettext("Removed."))
    if "do" in form:
        return await _filter_page(request, engine, visitor, sequence, name, filter_form=_acted(form), form=form)
    try:
        condition = read_filter(form) if name == "entry" else stop_from(form)
        changed = _with_filter(sequence.draft, name, condition)
        saved = await _save(engine, visitor, sequence, form, changed)
    except _INVALID as error:
        filter_form = filter_form_from(form)
        return await _filter_page(
            request, engine, visitor, sequence, name, filter_form=filter_form, form=form, error=error
        )
    return _saved(
        request, saved, gettext("{filter_titles} saved.", filter_titles=_FILTER_TITLES[name.partition("-")[0]][0])
    )


def _filter_at(document: Any, name: str) -> Any:
    """Return the filter named entry, goal or exit-N; None if there is none yet."""
    kind, _, number = name.partition("-")
    if kind in ("entry", "goal") and not number:
        return document.get(kind)
    exits = document.get("exits", [])
    if kind != "exit" or not number.isdecimal() or int(number) > len(exits):
        raise NotFound(gettext("There is no such filter."))
    return exits[int(number)] if int(number) < len(exits) else None


def _with_filter(document: Any, name: str, condition: Any) -> Any:
    kind, _, number = name.partition("-")
    if kind != "exit":
        rest = {key: value for key, value in document.items() if key != kind}
        return rest if condition is None else {**rest, kind: condition}
    exits = list(document.get("exits", []))
    exits[int(number) : int(number) + 1] = [] if condition is None else [condition]
    return {**document, "exits": exits}


@router.get("/settings")
async def show_settings(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    return await _settings_page(request, engine, visitor, sequence, settings_fields(sequence.draft))


@router.post("/settings")
async def save_settings(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    try:
        changed = {**sequence.draft, "name": form["name"], "reentry": reentry_from(form), "list": form["list"]}
        if not form["list"]:
            del changed["list"]
        saved = await _save(engine, visitor, sequence, form, changed)
    except _INVALID as error:
        return await _settings_page(request, engine, visitor, sequence, form, error)
    return _saved(request, saved, gettext("Settings saved."))


# The source.


@router.get("/source")
async def show_source(request: Request, engine: EngineDep, visitor: ViewerDep, sequence_id: str) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    return await _source_page(request, engine, visitor, sequence, json_text(sequence.draft))


@router.post("/source")
async def save_source(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    try:
        saved = await _save(engine, visitor, sequence, form, read_json_field(form, "document"))
    except MailwrightError as error:
        # The text is kept, also if somebody else changed the sequence meanwhile.
        return await _source_page(request, engine, visitor, sequence, form["document"], error)
    return redirect(
        request,
        f"/sequences/{sequence_id}/source",
        gettext("Draft saved, revision {revision}.", revision=saved.revision),
    )


@router.get("/export.json")
async def export(engine: EngineDep, visitor: ViewerDep, sequence_id: str) -> Response:
    """Download the draft with its templates as a file for another sequence, tenant or installation."""
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    content = sequence_file(sequence.draft, await load_templates(engine.database, sequence))
    headers = {"Content-Disposition": f'attachment; filename="sequence-{sequence_id}.json"'}
    return Response(json_text(content), media_type="application/json", headers=headers)


# Saving.


async def _save_step(
    engine: Engine, visitor: Visitor, sequence: StoredSequence, form: Fields, make: Callable[[], Any]
) -> StoredSequence:
    """Save the draft with a step. If its form asks for a new email, create one that the composer can open."""
    if form["kind"] == "send" and await _needs_email(engine, visitor, form):
        given, form["template"] = form["template"], form["template"] or _NEW_EMAIL
        try:
            published_from(make())  # An invalid step creates no template.
        finally:
            form["template"] = given
        wanted = given if form["compose"] == _EDIT else template_id_for(f"{sequence.name} {form['id']}")
        subject = form["subject"] or None
        form["template"] = await create_design(
            engine, visitor, wanted, form["design"] or BLANK, name=sequence.name, subject=subject
        )
        # The template has the subject from now on, so that the composer changes it.
        form["subject"] = ""
    return await _save(engine, visitor, sequence, form, make())


async def _needs_email(engine: Engine, visitor: Visitor, form: Fields) -> bool:
    if form["compose"] != _EDIT:
        return form["compose"] == _NEW_EMAIL
    async with engine.database.read() as tx:
        return bool(form["template"]) and not await latest_by_locale(tx, visitor.tenant_id, form["template"])


def _step_saved(request: Request, saved: StoredSequence, form: Fields, words: str, step_id: str) -> Response:
    """Open the composer if the form of an email asks for it. The composer has a link back to the step."""
    if form["kind"] == "send" and form["compose"]:
        query = urlencode({"sequence": saved.sequence_id, "step": step_id})
        return redirect(request, f"/templates/{quote(form['template'])}/compose?{query}")
    return _saved(request, saved, words, step_id)


async def _save(
    engine: Engine, visitor: Visitor, sequence: StoredSequence, form: Fields, document: Any
) -> StoredSequence:
    return await engine.sequences.edit(
        visitor.tenant_id,
        sequence.sequence_id,
        document,
        revision=form.number("revision") or sequence.revision,
        actor=visitor.actor,
    )


def _saved(request: Request, saved: StoredSequence, words: str, step_id: str = "") -> Response:
    """Show the steps again, at the one that was changed. The revision makes the browser load the page."""
    to = f"/sequences/{saved.sequence_id}?revision={saved.revision}"
    return redirect(request, f"{to}#step-{step_id}" if step_id else to, words)


async def _change(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    document: Any,
    words: str,
    *,
    can_undo: bool = True,
) -> Response:
    """Save a change that has no form, and show the steps again with a button that undoes it."""
    try:
        saved = await _save(engine, visitor, sequence, await read_fields(request), document)
    except RequestInvalid as error:
        raise InvalidInput(
            gettext("Not changed. {sequence}", sequence=" ".join(problems_of(sequence, error)))
        ) from error
    change = DraftChange(words, orjson.dumps(sequence.draft).decode() if can_undo else "")
    values = await step_values(engine, visitor, saved)
    if is_htmx(request):
        return fragment(request, visitor, "sequences/steps.html", change=change, **values)
    return await page(request, visitor, "sequences/show.html", change=change, **values)


def _acted(form: Fields) -> FilterForm:
    """Apply a button of the filter editor, if the browser runs no scripts."""
    return apply_action(filter_form_from(form), form["do"])


# The forms.


async def _step_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    form: Fields,
    filter_form: FilterForm | None,
    *,
    step_id: str | None = None,
    error: MailwrightError | None = None,
) -> Response:
    kind, to = form["kind"], f"/sequences/{sequence.sequence_id}"
    if kind not in list(StepKind):
        raise NotFound(gettext("There is no such kind of step."))
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": to,
        "action": f"{to}/steps/{step_id or '~new'}{'/edit' if step_id else ''}",
        "step_id": step_id,
        "kind": kind,
        "is_known": is_known_step(kind),
        "lacks_webhook": False,
        "title": STEP_TITLES.get(kind, (kind, ""))[0],
        "form": form,
        "filter_form": filter_form,
        "errors": _errors(error, form),
        "weekdays": WEEKDAYS,
    }
    if kind == "send":
        values["templates"] = await _template_options(engine, visitor, form["template"])
        values["designs"] = [(BLANK, gettext("Blank")), *((each.name, gettext(each.title)) for each in list_designs())]
    if kind == "change":
        values["lists"] = (await list_options(engine, visitor))[1:]
    if kind == "webhook":
        found = await engine.webhook_endpoints.list_all(visitor.tenant_id)
        values |= {"webhooks": [(each.webhook_id, each.url) for each in found], "lacks_webhook": not found}
    if kind == "goTo":
        values["targets"] = [(each, each) for each in documents.step_ids(sequence.draft) if each != step_id]
    if kind in _WITH_FILTER:
        values |= await _filter_values(engine, visitor, values["action"])
    return await _form_page(request, visitor, "step", values, error)


async def _case_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    step_id: str,
    number: str,
    *,
    condition: Any = None,
    filter_form: FilterForm | None = None,
    error: MailwrightError | None = None,
) -> Response:
    action = f"/sequences/{sequence.sequence_id}/steps/{step_id}/cases/{number}"
    title = (
        gettext("New case") if number == "~new" else gettext("Edit case"),
        gettext("People who match it take this path."),
    )
    return await _condition_page(
        request,
        engine,
        visitor,
        sequence,
        action,
        title,
        condition=condition,
        filter_form=filter_form,
        is_removable=False,
        error=error,
    )


async def _filter_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    name: str,
    *,
    condition: Any = None,
    filter_form: FilterForm | None = None,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    return await _condition_page(
        request,
        engine,
        visitor,
        sequence,
        f"/sequences/{sequence.sequence_id}/filters/{name}",
        _FILTER_TITLES[name.partition("-")[0]],
        condition=condition,
        filter_form=filter_form,
        is_removable=_filter_at(sequence.draft, name) is not None,
        may_be_event=name != "entry",
        form=form,
        error=error,
    )


async def _condition_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    action: str,
    title: tuple[str, str],
    *,
    condition: Any,
    filter_form: FilterForm | None,
    is_removable: bool,
    may_be_event: bool = False,
    form: Fields | None = None,
    error: MailwrightError | None,
) -> Response:
    """Show one filter. A stored one that is too complex for the filter editor is edited as JSON."""
    form = form if form is not None else Fields({"for": "event"})
    if condition is not None and isinstance(condition.get("event"), str):
        form["event"], form["where"] = condition["event"], conditions_text(condition.get("where"))
        condition = None
    if filter_form is None:
        filter_form = FilterForm() if condition is None else filter_form_of(condition)
        if condition is not None:
            form["filter"], form["for"] = json_text(condition), "filter"
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": f"/sequences/{sequence.sequence_id}",
        "action": action,
        "title": title[0],
        "text": title[1],
        "form": form,
        "filter_form": filter_form,
        "is_removable": is_removable,
        "may_be_event": may_be_event,
        "errors": _errors(error, form),
        **await _filter_values(engine, visitor, action),
    }
    return await _form_page(request, visitor, "condition", values, error)


async def _trigger_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    kind = form["kind"]
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": f"/sequences/{sequence.sequence_id}",
        "kind": kind,
        "is_known": is_known_trigger(kind),
        "title": TRIGGER_TITLES.get(kind, kind),
        "form": form,
        "errors": _errors(error, form, {kind: "value"}),
        "options": await _trigger_options(engine, visitor, kind),
        "weekdays": WEEKDAYS,
        "lists": await list_options(engine, visitor),
        "segments": await segment_options(engine, visitor),
        "event_names": [each.name for each in await load_schema(engine.database, visitor.tenant_id)],
        "suggestions": await attribute_suggestions(engine, visitor) if kind == "dateAttribute" else {},
    }
    return await _form_page(request, visitor, "trigger", values, error)


async def _trigger_options(engine: Engine, visitor: Visitor, kind: str) -> list[tuple[str, str]]:
    match kind:
        case "joinsList":
            return (await list_options(engine, visitor))[1:]
        case "entersSegment" | "leavesSegment":
            return (await segment_options(engine, visitor))[1:]
        case "opens" | "clicks":
            found = await engine.campaigns.list_page(tenant_id=visitor.tenant_id, limit=_CAMPAIGNS_OFFERED)
            return [(each.campaign_id, each.name) for each in found]
        case _:
            return []


async def _settings_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": f"/sequences/{sequence.sequence_id}",
        "form": form,
        "errors": _errors(error, form),
        "lists": [
            ("", gettext("None: everyone who may receive bulk email")),
            *(await list_options(engine, visitor))[1:],
        ],
        "reentries": _REENTRIES,
    }
    return await _form_page(request, visitor, "settings", values, error)


async def _source_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence: StoredSequence,
    text: str,
    error: MailwrightError | None = None,
) -> Response:
    values = await step_values(engine, visitor, sequence)
    problems = problems_of(sequence, error) if error is not None else []
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/source.html", status=status, text=text, problems=problems, **values)


async def _form_page(
    request: Request, visitor: Visitor, name: str, values: dict[str, Any], error: MailwrightError | None
) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, f"sequences/{name}.html", status=status, **values)


async def _filter_values(engine: Engine, visitor: Visitor, action: str) -> dict[str, Any]:
    suggestions = await attribute_suggestions(engine, visitor)
    return {**await filter_choices(engine, visitor), "suggestions": suggestions, "builder_path": action}


async def _template_options(engine: Engine, visitor: Visitor, chosen: str) -> list[tuple[str, str]]:
    """Return the templates as options of a form, also one that does not exist any more."""
    found = await engine.templates.list_page(visitor.tenant_id, limit=_TEMPLATES_OFFERED)
    newest = [next(iter(versions.values())) for versions in found]
    options = [(each.template_id, f"{each.template_id}: {each.subject}") for each in newest]
    missing = chosen and chosen not in dict(options)
    return [(chosen, gettext("{chosen} (does not exist)", chosen=chosen)), *options] if missing else options


def _errors(error: MailwrightError | None, form: Fields, names: dict[str, str] | None = None) -> Errors:
    """Return the problems by field of the form; those of no field are about the whole form."""
    if error is None:
        return Errors()
    if not isinstance(error, RequestInvalid):
        return field_errors(error)
    found = Errors()
    for each in error.errors:
        last = each.field.rpartition(".")[2].partition("[")[0]
        name = (names or {}).get(last, last)
        if each.code == "FILTER_INVALID":
            found["filter"] = sentence(each.message)
        elif name in form:
            found[name] = field_sentence(each)
        else:
            found[FORM] = f"{found[FORM]} {sentence(f'{last} {each.message}')}".strip()
    return found
