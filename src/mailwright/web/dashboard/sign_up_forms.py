"""Sign-up forms: their fields, consents, page and HTML to embed."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions.forms import MAX_CONSENTS, MAX_FIELDS, FormRequest
from mailwright.app.wiring import Engine
from mailwright.audience.contact_fields import attribute_name_from_title
from mailwright.audience.form_snippet import form_snippet, form_url
from mailwright.audience.forms import SignUpForm
from mailwright.audience.lists import list_all
from mailwright.domain.errors import MailwrightError
from mailwright.domain.sign_up_forms import FieldType
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.api.validation import parse
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/forms", route_class=PageRoute, include_in_schema=False)

TYPES: Final = (
    (FieldType.TEXT, lazy_gettext("Text")),
    (FieldType.NUMBER, lazy_gettext("Number")),
    (FieldType.DATE, lazy_gettext("Date")),
    (FieldType.CHOICE, lazy_gettext("Choice")),
    (FieldType.CHECKBOX, lazy_gettext("Checkbox")),
)
# Empty rows of the editor, for new fields and consents.
SPARE_FIELDS: Final = 3
SPARE_CONSENTS: Final = 2


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    found = await engine.forms.list_all(visitor.tenant_id)
    known = {each.list_key: each.name for each in await list_all(engine.database, visitor.tenant_id)}
    return await page(request, visitor, "audience/forms.html", forms=found, names=known)


@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _editor(request, engine, visitor, None, Fields())


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        wanted = _wanted(form)
        made = await engine.forms.create(
            visitor.tenant_id, name=wanted.name, list_key=wanted.list_key, content=wanted.content(), actor=visitor.actor
        )
    except MailwrightError as error:
        return await _editor(request, engine, visitor, None, form, error)
    return redirect(request, f"/forms/{made.form_id}", gettext("Sign-up form created."))


@router.get("/{form_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, form_id: str) -> Response:
    found = await engine.forms.find(visitor.tenant_id, form_id)
    known = {each.list_key: each.name for each in await list_all(engine.database, visitor.tenant_id)}
    return await page(
        request,
        visitor,
        "audience/form.html",
        found=found,
        counts=await engine.forms.count(found),
        list_name=known.get(found.list_key),
        url=form_url(engine.public_url, found),
        snippet=form_snippet(engine.public_url, found),
        types=dict(TYPES),
    )


@router.get("/{form_id}/edit")
async def show_editor(request: Request, engine: EngineDep, visitor: EditorDep, form_id: str) -> Response:
    found = await engine.forms.find(visitor.tenant_id, form_id)
    return await _editor(request, engine, visitor, found, _fields_of(found))


@router.post("/{form_id}/edit")
async def edit(request: Request, engine: EngineDep, visitor: EditorDep, form_id: str) -> Response:
    found, form = await engine.forms.find(visitor.tenant_id, form_id), await read_fields(request)
    try:
        wanted = _wanted(form)
        await engine.forms.edit(
            visitor.tenant_id,
            form_id,
            name=wanted.name,
            list_key=wanted.list_key,
            content=wanted.content(),
            actor=visitor.actor,
        )
    except MailwrightError as error:
        return await _editor(request, engine, visitor, found, form, error)
    return redirect(request, f"/forms/{form_id}", gettext("Sign-up form saved."))


@router.post("/{form_id}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, form_id: str) -> Response:
    await engine.forms.delete(visitor.tenant_id, form_id, actor=visitor.actor)
    return redirect(request, "/forms", gettext("Sign-up form deleted. Stored consents are kept."))


def _wanted(form: Fields) -> FormRequest:
    """Validate the form with the schema of the API. Rows without a label or wording are left out."""
    given: dict[str, Any] = {name: form[name] for name in ("name", "listKey", "title", "text", "button")}
    given["fields"] = [
        _field(form, f"fields[{number}]") for number in range(MAX_FIELDS) if form[f"fields[{number}].label"]
    ]
    given["consents"] = [
        _consent(form, f"consents[{number}]", number)
        for number in range(MAX_CONSENTS)
        if form[f"consents[{number}].wording"]
    ]
    return parse(FormRequest, given)


def _field(form: Fields, row: str) -> dict[str, Any]:
    label, kind = form[f"{row}.label"], form[f"{row}.type"] or FieldType.TEXT
    choices = [each.strip() for each in form[f"{row}.choices"].split(",") if each.strip()]
    return {
        "attribute": form[f"{row}.attribute"] or attribute_name_from_title(label) or "",
        "label": label,
        "type": kind,
        "isRequired": bool(form[f"{row}.isRequired"]),
        "choices": choices if kind == FieldType.CHOICE else [],
    }


def _consent(form: Fields, row: str, number: int) -> dict[str, Any]:
    return {
        "key": form[f"{row}.key"] or f"consent-{number + 1}",
        "wording": form[f"{row}.wording"],
        "isRequired": bool(form[f"{row}.isRequired"]),
    }


def _fields_of(found: SignUpForm) -> Fields:
    """Return the inputs of the editor with the values of a form."""
    content = found.content
    form = Fields(
        name=found.name, listKey=found.list_key, title=content.title, text=content.text, button=content.button
    )
    for number, field in enumerate(content.fields):
        row = f"fields[{number}]"
        form |= {f"{row}.label": field.label, f"{row}.attribute": field.attribute, f"{row}.type": field.type}
        form |= {f"{row}.choices": ", ".join(field.choices), f"{row}.isRequired": "yes" if field.is_required else ""}
    for number, consent in enumerate(content.consents):
        row = f"consents[{number}]"
        form |= {f"{row}.key": consent.key, f"{row}.wording": consent.wording}
        form[f"{row}.isRequired"] = "yes" if consent.is_required else ""
    return form


async def _editor(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: SignUpForm | None,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    known = await list_all(engine.database, visitor.tenant_id)
    fields = [number for number in range(MAX_FIELDS) if form[f"fields[{number}].label"]]
    consents = [number for number in range(MAX_CONSENTS) if form[f"consents[{number}].wording"]]
    errors = field_errors(error) if error is not None else Errors()
    return await page(
        request,
        visitor,
        "audience/form_edit.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        found=found,
        form=form,
        errors=errors,
        others=[text for name, text in errors.items() if name not in ("name", "listKey", "title", "text", "button")],
        lists=[(each.list_key, each.name) for each in known],
        types=TYPES,
        field_rows=range(min(MAX_FIELDS, max(fields, default=-1) + 1 + SPARE_FIELDS)),
        consent_rows=range(min(MAX_CONSENTS, max(consents, default=-1) + 1 + SPARE_CONSENTS)),
    )
