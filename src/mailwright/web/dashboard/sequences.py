"""Sequence pages: list, steps with live counts, publishing, pausing, people and failed steps."""

from collections.abc import Awaitable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import lists, segments
from mailwright.content.template_store import newest_subjects
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.translation import gettext, lazy_gettext, pgettext
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.sequences.content_checks import PublishWarning
from mailwright.sources.sequences.definition import StepKind, TriggerKind
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.figures import (
    SequenceFigures,
    StepFigures,
    StepReport,
    load_figures,
    load_published_document,
    load_published_triggers,
    load_step_report,
)
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice
from mailwright.sources.sequences.publish import MovePlan, Received
from mailwright.sources.sequences.ready import list_ready
from mailwright.sources.sequences.records import SequenceStatus, StoredSequence
from mailwright.texts.sequence_documents import (
    STEP_TITLES,
    TRIGGER_TITLES,
    StepText,
    describe_condition,
    describe_reentry,
    describe_steps,
    describe_trigger,
    trigger_kind,
    walk_steps,
)
from mailwright.texts.times import duration
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, fragment, is_htmx, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep, result_cache_of

router = APIRouter(prefix="/sequences", route_class=PageRoute, include_in_schema=False)

PEOPLE_PAGE: Final = 50
# At most this many people are listed by name before publishing; the totals count everyone.
AFFECTED_SHOWN: Final = 100
_NEWEST: Final = 2**63 - 1
# Triggers whose next time or last reading is shown.
_REPEATED: Final = (TriggerKind.SCHEDULE.value, TriggerKind.RSS.value)
_STEP_KINDS: Final = frozenset(StepKind)
_TRIGGER_KINDS: Final = frozenset(TriggerKind)
_STATES: Final = {
    "": lazy_gettext("All"),
    "active": lazy_gettext("In it now"),
    "failed": lazy_gettext("Failed"),
    "ended": lazy_gettext("Ended"),
}
_OVERDUE_CHOICES: Final = (
    (
        Overdue.SPREAD.value,
        lazy_gettext("Spread them over some hours"),
        lazy_gettext("The emails go out evenly, not all at once."),
    ),
    (
        Overdue.SEND.value,
        lazy_gettext("Send now"),
        lazy_gettext("Everyone's next step runs within a minute, within your limits."),
    ),
    (
        Overdue.SKIP.value,
        lazy_gettext("Skip the overdue email"),
        lazy_gettext(
            "People continue after it and never get it. Those who entered during a pause still get their first email."
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class SequenceRow:
    """A sequence of the list, with its figures and its trigger in words."""

    sequence: StoredSequence
    trigger: str


@router.get("")
async def list_sequences(request: Request, engine: EngineDep, visitor: ViewerDep, show: str = "") -> Response:
    is_archived = show == SequenceStatus.ARCHIVED
    found = await engine.sequences.list_all(visitor.tenant_id)
    names = await names_of(engine, visitor)
    running = await load_published_triggers(engine.database, visitor.tenant_id)
    rows = [
        SequenceRow(each, describe_trigger(running.get(each.id, each.draft["trigger"]), names))
        for each in _shown(found, show)
    ]
    values: dict[str, Any] = {"rows": rows, "is_archived": is_archived, "has_any": bool(found), "cards": ready_cards()}
    return await page(request, visitor, "sequences/list.html", **values)


def _shown(found: Iterable[StoredSequence], show: str) -> list[StoredSequence]:
    """Return the archived sequences, or the others."""
    return [each for each in found if (each.status is SequenceStatus.ARCHIVED) == (show == SequenceStatus.ARCHIVED)]


@router.get("/figures")
async def show_figures(request: Request, engine: EngineDep, visitor: ViewerDep, show: str = "") -> Response:
    """Fill in the figures of the list. Loaded after it, because they count everyone."""
    found, listed = await _figures(request, engine, visitor), await engine.sequences.list_all(visitor.tenant_id)
    shown = [(each, found.get(each.id, SequenceFigures())) for each in _shown(listed, show)]
    return fragment(request, visitor, "sequences/figures.html", shown=shown)


@router.get("/{sequence_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, sequence_id: str) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    values = await step_values(engine, visitor, sequence)
    if sequence.status is SequenceStatus.RUNNING:
        values["readiness"] = await readiness_of(engine, visitor, source=Source.SEQUENCE)
    return await page(request, visitor, "sequences/show.html", **values)


@router.get("/{sequence_id}/counts")
async def show_counts(request: Request, engine: EngineDep, visitor: ViewerDep, sequence_id: str) -> Response:
    """Fill in the figures of the sequence and of each of its steps."""
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)

    async def ask() -> StepReport:
        return await load_step_report(engine.database.reader, sequence)

    report = await result_cache_of(request).get(("sequence", sequence.id), ask)
    figures = (await _figures(request, engine, visitor)).get(sequence.id, SequenceFigures())
    steps = list(walk_steps(describe_steps(sequence.draft["steps"])))
    values: dict[str, Any] = {
        "sequence": sequence,
        "is_part": is_htmx(request),
        "report": report,
        "nobody": StepFigures(),
        "figures": figures,
        "steps": steps,
        "counts": await engine.sequences.counts(sequence) if sequence.trigger_kind in _REPEATED else None,
        "funnel": _funnel(steps, report, figures, has_goal=bool(sequence.draft.get("goal"))),
        "to_goal": None if report.median_to_goal is None else duration(report.median_to_goal),
    }
    return fragment(request, visitor, "sequences/counts.html", **values)


@router.get("/{sequence_id}/publish")
async def show_publish(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    """Show how publishing the draft affects people, in totals and by name."""
    return await _publish_page(request, engine, visitor, sequence_id, Fields())


@router.post("/{sequence_id}/publish")
async def publish(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    try:
        published, _ = await engine.sequences.publish(
            visitor.tenant_id,
            sequence_id,
            revision=form.number("revision"),
            overdue=_choice(form),
            received=Received.SEND if form["received"] == Received.SEND else Received.SKIP,
            actor=visitor.actor,
        )
    except (InvalidInput, RequestInvalid, NotPossibleNow) as error:
        return await _publish_page(request, engine, visitor, sequence_id, form, error)
    words = gettext("Version {version} is published.", version=published.version)
    if published.status is SequenceStatus.PAUSED:
        words += " " + gettext("The sequence is still paused.")
    return redirect(request, f"/sequences/{sequence_id}", words)


@router.post("/{sequence_id}/pause")
async def pause(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    action = engine.sequences.pause(visitor.tenant_id, sequence_id, actor=visitor.actor)
    return await _act(request, sequence_id, action, gettext("Sequence paused. Everyone keeps their place."))


@router.get("/{sequence_id}/resume")
async def show_resume(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    return await _resume_page(request, engine, visitor, sequence_id, Fields())


@router.post("/{sequence_id}/resume")
async def resume(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    try:
        await engine.sequences.resume(visitor.tenant_id, sequence_id, overdue=_choice(form), actor=visitor.actor)
    except (InvalidInput, NotPossibleNow) as error:
        return await _resume_page(request, engine, visitor, sequence_id, form, error)
    return redirect(request, f"/sequences/{sequence_id}", gettext("Sequence resumed."))


@router.post("/{sequence_id}/remove")
async def remove(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    """Delete a draft that was never published; archive any other sequence."""
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    await engine.sequences.remove(visitor.tenant_id, sequence_id, actor=visitor.actor)
    words = (
        gettext("Draft deleted.")
        if sequence.version is None
        else gettext("Sequence archived. It ended for everyone in it.")
    )
    return redirect(request, "/sequences", words)


@router.get("/{sequence_id}/people")
async def list_people(
    request: Request, engine: EngineDep, visitor: ViewerDep, sequence_id: str, *, state: str = "", cursor: str = ""
) -> Response:
    """List who is or was in the sequence."""
    return await _people_page(request, engine, visitor, sequence_id, state=state, cursor=cursor)


@router.post("/{sequence_id}/enrol")
async def enrol(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    emails = tuple(each for each in form["emails"].replace(",", " ").replace(";", " ").split() if each)
    people = People(emails, form["list"] or None, form["segment"] or None)
    try:
        result = await engine.sequences.enrolments.enrol(visitor.tenant_id, sequence_id, people, actor=visitor.actor)
    except (InvalidInput, RequestInvalid, NotPossibleNow) as error:
        return await _people_page(request, engine, visitor, sequence_id, form=form, error=error)
    parts = [gettext("{enrolled} enrolled", enrolled=result.enrolled)]
    parts += [gettext("{already_in} already in it", already_in=result.already_in)] if result.already_in else []
    parts += [gettext("{re_entry} left out by the re-entry rule", re_entry=result.re_entry)] if result.re_entry else []
    parts += (
        [gettext("{not_eligible} may not receive its emails", not_eligible=result.not_eligible)]
        if result.not_eligible
        else []
    )
    parts += [gettext("{unknown} not among the contacts", unknown=result.unknown)] if result.unknown else []
    return redirect(request, f"/sequences/{sequence_id}/people", f"{', '.join(parts)}.")


@router.post("/{sequence_id}/retry")
async def retry(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    """Run failed steps again, or skip their emails: of one person or of everyone."""
    form = await read_fields(request)
    skips = form["skip"] == "yes"
    action = engine.sequences.enrolments.retry(
        visitor.tenant_id, sequence_id, email=form["email"] or None, actor=visitor.actor, skips=skips
    )
    words = (
        gettext("Skipped. They continue after the failed step.")
        if skips
        else gettext("The failed step runs again within a minute.")
    )
    return await _act(request, sequence_id, action, words, back=f"/sequences/{sequence_id}/people")


@router.post("/{sequence_id}/remove-person")
async def remove_person(request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str) -> Response:
    form = await read_fields(request)
    action = engine.sequences.enrolments.remove(visitor.tenant_id, sequence_id, form["email"], actor=visitor.actor)
    return await _act(
        request,
        sequence_id,
        action,
        gettext("{form} was removed.", form=form["email"]),
        back=f"/sequences/{sequence_id}/people",
    )


def ready_cards() -> list[dict[str, Any]]:
    """Return the ready-made sequences with the icons of their steps."""
    cards = []
    for each in list_ready():
        steps = list(walk_steps(describe_steps(each.document["steps"])))
        emails = sum(step.kind == "send" for step in steps)
        cards.append({"ready": each, "icons": [step.icon for step in steps], "emails": emails})
    return cards


async def names_of(engine: Engine, visitor: Visitor) -> dict[str, str]:
    """Return the names of the tenant's lists and segments by their keys."""
    known = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    saved = await segments.list_all(engine.database, visitor.tenant_id)
    return {each.list_key: each.name for each in known} | {each.segment_key: each.name for each in saved}


async def list_options(engine: Engine, visitor: Visitor) -> list[tuple[str, str]]:
    """Return the lists as options of a form, after an empty one."""
    found = await lists.list_all(engine.database, visitor.tenant_id)
    return [("", "–"), *((each.list_key, each.name) for each in found)]


async def segment_options(engine: Engine, visitor: Visitor) -> list[tuple[str, str]]:
    """Return the segments as options of a form, after an empty one."""
    found = await segments.list_all(engine.database, visitor.tenant_id)
    return [("", "–"), *((each.segment_key, each.name) for each in found)]


async def step_values(engine: Engine, visitor: Visitor, sequence: StoredSequence) -> dict[str, Any]:
    """Return the values of the page with the steps."""
    draft, names = sequence.draft, await names_of(engine, visitor)
    steps = describe_steps(draft["steps"])
    used = {template for step in steps for template in step.templates()}
    async with engine.database.read() as tx:
        subjects = await newest_subjects(tx, visitor.tenant_id, used)
    return {
        **await header_values(engine, sequence),
        "kinds": {kind: title for kind, title in STEP_TITLES.items() if kind in _STEP_KINDS},
        "trigger_kinds": {kind: title for kind, title in TRIGGER_TITLES.items() if kind in _TRIGGER_KINDS},
        "steps": steps,
        "subjects": subjects,
        "trigger": describe_trigger(draft["trigger"], names),
        "trigger_kind": trigger_kind(draft["trigger"]),
        "reentry": describe_reentry(draft.get("reentry", "never")),
        "entry": draft.get("entry") and describe_condition(draft["entry"]),
        "goal": draft.get("goal") and describe_condition(draft["goal"]),
        "exits": [describe_condition(each) for each in draft.get("exits", ())],
        "list_name": names.get(draft.get("list"), draft.get("list")),
    }


async def header_values(engine: Engine, sequence: StoredSequence) -> dict[str, Any]:
    """Return the values for the heading and the tabs of each page of a sequence."""
    published = await load_published_document(engine.database, sequence)
    to = f"/sequences/{sequence.sequence_id}"
    places = {
        "": gettext("Steps"),
        "/simulation": gettext("Simulation"),
        "/people": gettext("People"),
        "/source": pgettext("code", "Source"),
    }
    return {
        "sequence": sequence,
        "to": to,
        "has_changes": published is not None and published != sequence.draft,
        "tabs": [(f"{to}{path}", label) for path, label in places.items()],
    }


async def _figures(request: Request, engine: Engine, visitor: Visitor) -> Mapping[int, SequenceFigures]:
    async def ask() -> Mapping[int, SequenceFigures]:
        return await load_figures(engine.database.reader, visitor.tenant_id)

    return await result_cache_of(request).get(("sequences", visitor.tenant_id), ask)


def _funnel(
    steps: list[StepText], report: StepReport, figures: SequenceFigures, *, has_goal: bool
) -> list[tuple[str, int]]:
    """Return how many people entered, got each email and reached the goal."""
    emails = [
        (step.id, report.steps[step.id].by_outcome.get("sent", 0))
        for step in steps
        if step.kind == "send" and step.id in report.steps
    ]
    return [(gettext("Entered"), figures.entered), *emails, *([(gettext("Goal"), figures.goals)] if has_goal else [])]


def _by_subject(warnings: Iterable[PublishWarning]) -> dict[tuple[str | None, str, str | None], list[str]]:
    """Return the sentences of the warnings, grouped by template and locale, by step, or under the feed."""
    found: dict[tuple[str | None, str, str | None], list[str]] = {}
    for each in warnings:
        sentences = found.setdefault((each.template, each.locale, None if each.template else each.step), [])
        if each.sentence not in sentences:
            sentences.append(each.sentence)
    return found


async def _publish_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence_id: str,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    plan: MovePlan | None = None
    problem = error
    try:
        plan = await engine.sequences.preview_publish(visitor.tenant_id, sequence_id)
    except RequestInvalid as invalid:
        problem = invalid
    values: dict[str, Any] = {
        **await header_values(engine, sequence),
        "plan": plan,
        "shown": plan.affected[:AFFECTED_SHOWN] if plan is not None else (),
        "warnings": _by_subject(plan.warnings) if plan is not None else {},
        "problems": problems_of(sequence, problem) if problem is not None else [],
        "awaits_approval": isinstance(error, AwaitsApproval),
        "form": form,
        "choices": _OVERDUE_CHOICES,
        "readiness": await readiness_of(engine, visitor, source=Source.SEQUENCE),
        "trigger": describe_trigger(sequence.draft["trigger"], await names_of(engine, visitor)),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/publish.html", status=status, **values)


async def _resume_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence_id: str,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    values: dict[str, Any] = {
        **await header_values(engine, sequence),
        "overdue": await engine.sequences.count_overdue(visitor.tenant_id, sequence_id),
        "problems": [error.text] if error is not None else [],
        "form": form,
        "choices": _OVERDUE_CHOICES,
        "readiness": await readiness_of(engine, visitor, source=Source.SEQUENCE),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/resume.html", status=status, **values)


async def _people_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence_id: str,
    *,
    state: str = "",
    cursor: str = "",
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    if state not in _STATES:
        raise NotFound(gettext("This page does not exist."))
    before = decode_cursor("enrolment", cursor)[0] if cursor else _NEWEST
    found = await engine.sequences.enrolments.list_page(
        visitor.tenant_id, sequence_id, limit=PEOPLE_PAGE, before=before, state=state or None
    )
    values: dict[str, Any] = {
        **await header_values(engine, sequence),
        "people": found,
        "following": encode_cursor("enrolment", found[-1].id) if len(found) == PEOPLE_PAGE else None,
        "is_first": not cursor,
        "state": state,
        "states": _STATES,
        "counts": await engine.sequences.counts(sequence),
        "lists": await list_options(engine, visitor),
        "segments": await segment_options(engine, visitor),
        "form": form or Fields(),
        "errors": _people_errors(error) if error is not None else Errors(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/people.html", status=status, **values)


def _people_errors(error: MailwrightError) -> Errors:
    """Return the errors by form field. The API names one of the addresses as `emails[3]`."""
    field = error.field or ""
    return field_errors(error, {field: "emails"} if field.startswith("emails[") else None)


def problems_of(sequence: StoredSequence, error: MailwrightError) -> list[str]:
    """Return the problems of a document, with the IDs of its steps instead of their paths."""
    if not isinstance(error, RequestInvalid):
        return [next(iter(field_errors(error).values()))]
    found = []
    for each in error.errors:
        step = step_at(sequence.draft, each.field)
        found.append(f"{gettext('Step {step}', step=step) if step else each.field}: {each.message}.")
    return found


def step_at(document: Any, path: str) -> str | None:
    """Return the ID of the innermost step of a path such as `steps[2].branch[0].steps[1].send.template`."""
    found, step = document, None
    for part in path.replace("[", ".").replace("]", "").split("."):
        try:
            found = found[int(part)] if part.isdecimal() else found[part]
        except (KeyError, IndexError, TypeError):
            break
        if isinstance(found, dict) and isinstance(found.get("id"), str):
            step = found["id"]
    return step


async def _act(
    request: Request, sequence_id: str, action: Awaitable[Any], words: str, *, back: str | None = None
) -> Response:
    """Run an action and redirect; if it is not possible, show the reason."""
    to = back or f"/sequences/{sequence_id}"
    try:
        await action
    except (NotPossibleNow, InvalidInput, NotFound) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, words)


def _choice(form: Fields) -> OverdueChoice | None:
    if form["overdue"] not in list(Overdue):
        return None
    return OverdueChoice(Overdue(form["overdue"]), form.number("hours") or 24)
