"""The slice editor with its live preview."""

from datetime import tzinfo
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.content.presend_checks import PresendContext, PresendIssue, run_presend_checks
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.domain.clock import isoformat
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.articles import slice_input
from mailwright.sources.articles.assembly import PublishStatus, Slice, assemble
from mailwright.sources.articles.compose import compose
from mailwright.sources.articles.slice_input import SliceRefused
from mailwright.sources.articles.slices import SlicePositionTaken
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard.campaigns_forms import local_time, utc_text
from mailwright.web.dashboard.editor_preview import EditorPreview
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/articles", route_class=PageRoute, include_in_schema=False)

_VERBATIM: Final = ("body_md",)
_TIME_FIELDS: Final = ("publish_at", "expires_at")
_SUGGESTED_CONTACTS: Final = 20
# A slice is identified by its position, so saving a new one there would silently replace the existing one.
_TAKEN: Final = lazy_gettext("Another slice has this position. Choose another section, scope or order.")
# The layout adds these to every email, so warnings about them are left out.
_ADDED_BY_LAYOUT: Final = ("NO_UNSUBSCRIBE_LINK", "NO_UNSUBSCRIBE_LINK_IN_TEXT", "NO_POSTAL_ADDRESS")


@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    key = request.query_params.get("article", "")
    form = Fields(article_key=key, section_order="1", sort_index="0", publish_status=PublishStatus.DRAFT)
    return await _page(request, engine, visitor, form)


@router.post("/~new")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    try:
        wanted = _slice(form, visitor.zone)
        await _require_free(engine, visitor, wanted)
        await engine.slices.put(visitor.actor, visitor.tenant_id, [wanted])
    except MailwrightError as error:
        return await _page(request, engine, visitor, form, error=error)
    return redirect(request, f"/articles/{wanted.article_key}", gettext("Slice saved."))


@router.get("/~slices/{slice_id}")
async def show_edit(request: Request, engine: EngineDep, visitor: EditorDep, slice_id: str) -> Response:
    found = await engine.slices.find(visitor.tenant_id, slice_id)
    return await _page(request, engine, visitor, _fields(found, visitor.zone), found)


@router.post("/~slices/{slice_id}")
async def change(request: Request, engine: EngineDep, visitor: EditorDep, slice_id: str) -> Response:
    found = await engine.slices.find(visitor.tenant_id, slice_id)
    form = await read_fields(request, verbatim=_VERBATIM)
    try:
        wanted = _slice(form, visitor.zone, found)
        await engine.slices.change(visitor.actor, visitor.tenant_id, slice_id, wanted)
    except MailwrightError as error:
        return await _page(request, engine, visitor, form, found, error)
    return redirect(
        request, f"/articles/{wanted.article_key}", gettext("Slice saved. Started runs keep the previous content.")
    )


@router.post("/~slices/{slice_id}/remove")
async def remove(request: Request, engine: EngineDep, visitor: EditorDep, slice_id: str) -> Response:
    found = await engine.slices.find(visitor.tenant_id, slice_id)
    await engine.slices.remove(visitor.actor, visitor.tenant_id, slice_id)
    rest = await engine.slices.list_slices(visitor.tenant_id, found.article_key)
    return redirect(request, f"/articles/{found.article_key}" if rest else "/articles", gettext("Slice deleted."))


@router.post("/~preview")
async def show_mail(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    return await EditorPreview(form, _render(request, engine, visitor, form), _sentence).frame()


@router.post("/~preview/details")
async def show_preview_details(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    preview = EditorPreview(form, _render(request, engine, visitor, form), _sentence)
    facts = PresendContext(postal_address=engine.postal_address)

    async def check(email: RenderedEmail) -> list[PresendIssue]:
        issues = run_presend_checks(subject=email.subject, html=email.html, text=email.text, context=facts)
        return [each for each in issues if each.code not in _ADDED_BY_LAYOUT]

    is_empty = not (form["title"] or form["dek"] or form["body_md"])
    return await preview.details(request, visitor, check, marks_lines=False, is_empty=is_empty)


async def _render(request: Request, engine: Engine, visitor: Visitor, form: Fields) -> RenderedEmail:
    shown = Fields({**form, "article_key": form["article_key"] or "preview", "publish_at": "", "expires_at": ""})
    person = await engine.article_previews.find_recipient(visitor.tenant_id, form["as_contact"] or None, ())
    article = assemble([_slice(shown, visitor.zone)])
    composed = await compose(engine.templates, visitor.tenant_id, article)
    own = {each.variable: each.fill(person.name, person.attributes) for each in composed.placeholders}
    standard = engine.templates.standard
    values = {**standard, "name": person.name or "", **own, "email": person.email or standard["email"]}
    return Template(subject=composed.subject, html=composed.html, text=None).render(values)


async def _require_free(engine: Engine, visitor: Visitor, wanted: Slice) -> None:
    known = await engine.slices.list_slices(visitor.tenant_id, wanted.article_key)
    if _place(wanted) in {_place(each) for each in known}:
        raise SlicePositionTaken(_TAKEN, field="sort_index")


def _place(each: Slice) -> tuple[int, str | None, int]:
    return each.section_order, each.scope_ocd_id, each.sort_index


def _slice(form: Fields, zone: tzinfo, saved: Slice | None = None) -> Slice:
    given: dict[str, Any] = {name: form[name] for name in slice_input.FIELDS}
    for name in _TIME_FIELDS:
        before = None if saved is None else getattr(saved, name)
        # The form field has no seconds; if the time is unchanged, keep the stored seconds.
        is_same = before is not None and form[name] == local_time(before, zone)
        given[name] = isoformat(before) if is_same else utc_text(form[name], zone)
    return slice_input.parse_slice(given)


def _fields(found: Slice, zone: tzinfo) -> Fields:
    shown = {name: getattr(found, name) for name in slice_input.FIELDS}
    shown |= {name: local_time(getattr(found, name), zone) for name in _TIME_FIELDS}
    shown |= {"is_headline": "yes" if found.is_headline else "", "tags": ", ".join(found.tags)}
    return Fields({name: "" if value is None else str(value) for name, value in shown.items()})


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields,
    found: Slice | None = None,
    error: MailwrightError | None = None,
) -> Response:
    suggested = await contacts.list_page(engine.database, visitor.tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    articles = await engine.slices.list_articles(visitor.tenant_id)
    return await page(
        request,
        visitor,
        "articles/slice.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        form=form,
        found=found,
        errors=Errors() if error is None else _errors_for(error),
        contacts=suggested,
        articles=articles,
        statuses=[(each.value, each.value.capitalize()) for each in PublishStatus],
        zone_name=str(visitor.zone),
    )


def _errors_for(error: MailwrightError) -> Errors:
    match error:
        case SliceRefused():
            return Errors({each.field: sentence(each.message) for each in error.problems})
        case SlicePositionTaken():
            return Errors(sort_index=_TAKEN)
        case InvalidInput():
            return field_errors(error)
        case _:
            return Errors({FORM: error.text})


def _sentence(error: MailwrightError) -> str:
    if isinstance(error, SliceRefused):
        return " ".join(sentence(each.message) for each in error.problems)
    if isinstance(error, InvalidTemplate):
        return error.text.replace("{{ ", "[[").replace(" }}", "]]")
    return error.text
