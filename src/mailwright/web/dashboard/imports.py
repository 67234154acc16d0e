"""Import pages: upload, column mapping, preview, progress and report."""

from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse

from mailwright.app.wiring import Engine
from mailwright.audience import lists
from mailwright.audience.contact_fields import attribute_name_from_title
from mailwright.audience.enrolments import starts_sequence
from mailwright.audience.importing.columns import FIELDS, SKIPPED, suggest_target
from mailwright.audience.importing.file_format import DELIMITER_NAMES
from mailwright.audience.importing.plan import ImportOptions, ImportPreview
from mailwright.audience.importing.report import RefusedLine
from mailwright.audience.importing.value_formats import LABELS
from mailwright.audience.legal_basis import LegalBasisRecord, legal_basis_record
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext
from mailwright.texts.subscription_answers import (
    ANSWER_LABELS,
    BLOCKED_LABEL,
    import_answers_text,
    import_figures,
    preview_figures,
)
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.labels import legal_basis_options
from mailwright.web.dashboard.lists import unused_list_key
from mailwright.web.dashboard.shell import PageRoute, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep, result_cache_of

router = APIRouter(prefix="/imports", route_class=PageRoute, include_in_schema=False)

_SHOWN: Final = 50
_CHUNK: Final = 256 * 1024
# Fields of the upload form that the preview keeps.
_OPTIONS: Final = ("file", "name", "list", "tags", "confirmed", "legalBasis", "legalBasisSource", "sheets")
NEW_LIST: Final = "~new"  # no list has this key
_NO_LIST: Final = "~none"
_ENCODINGS: Final = ("utf-8", "cp1252", "cp1250", "cp1251", "utf-16")
_BETWEEN_SHEETS: Final = "/"  # no sheet name contains this character
_FIELD_WORDS: Final = {
    "email": lazy_pgettext("address", "Email"),
    "name": lazy_pgettext("person", "Name"),
    "locale": lazy_gettext("Language"),
    "timezone": lazy_gettext("Time zone"),
    "tags": lazy_gettext("Tags"),
    "tracking_consent": lazy_gettext("Tracking consent (wording)"),
    "subscribed": lazy_gettext("Newsletter: yes subscribes, no does not"),
    "opted_out": lazy_gettext("No newsletter: yes does not subscribe"),
}


@router.get("")
async def list_imports(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    list: str = "",  # noqa: A002 - the name in the URL
) -> Response:
    return await _page(request, engine, visitor, Fields({"list": list}), Errors())


@router.post("/file")
async def take(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Store an uploaded file temporarily, for its preview. If another field has an error, the file is kept."""
    form = await read_fields(request)
    try:
        form |= await _stage(request, engine, visitor, form)
        if not form["list"]:
            raise InvalidInput(gettext("Choose a list, a new list or no list."), field="list")
        _legal_basis(form, visitor)
        if form["list"] == NEW_LIST:
            form["list"] = await create_list(engine, visitor, form["newList"])
    except (InvalidInput, NotFound) as error:
        return await _page(request, engine, visitor, form, field_errors(error))
    options = {name: form[name] for name in _OPTIONS if form[name] not in ("", _NO_LIST)}
    return redirect(request, f"/imports/preview?{urlencode(options)}")


async def _stage(request: Request, engine: Engine, visitor: Visitor, form: Fields) -> dict[str, str]:
    """Return the fields of the uploaded file, or of the one that an earlier attempt uploaded."""
    uploaded = (await request.form()).get("upload")
    if not isinstance(uploaded, UploadFile) or not uploaded.filename:
        if not form["file"]:
            raise InvalidInput(gettext("Choose a CSV or Excel file."), field="upload")
        await _read_titles(engine, visitor, form["file"])
        return {}
    try:
        staged = await engine.import_uploads.stage(visitor.tenant_id, chunks_of(uploaded))
    except InvalidInput as error:
        raise InvalidInput(error.text, field="upload") from error
    await _read_titles(engine, visitor, staged.token)
    sheets = _BETWEEN_SHEETS.join(staged.other_sheets)
    return {"file": staged.token, "name": uploaded.filename[:255], "sheets": sheets}


async def _read_titles(engine: Engine, visitor: Visitor, token: str) -> None:
    """Raise if the file expired or cannot be read."""
    try:
        await engine.import_uploads.staged_titles(visitor.tenant_id, token)
    except (InvalidInput, NotFound) as error:
        raise InvalidInput(error.text, field="upload") from error


@router.get("/preview")
async def preview(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Show how the first rows will be read."""
    return await _preview(request, engine, visitor, Fields(dict(request.query_params)))


@router.post("/preview")
async def preview_again(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Show the preview again with other columns."""
    return await _preview(request, engine, visitor, await read_fields(request))


@router.post("")
async def begin(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        titles = await engine.import_uploads.staged_titles(visitor.tenant_id, form["file"], form["encoding"] or None)
        begun = await engine.import_uploads.receive_staged(
            visitor.tenant_id,
            form["file"],
            _purpose(form, titles, visitor),
            file_name=form["name"] or "contacts.csv",
            actor=visitor.actor,
        )
    except InvalidInput as error:
        return await _preview(request, engine, visitor, form, error)
    return redirect(request, f"/imports/{begun.import_id}")


@router.get("/{import_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, import_id: str) -> Response:
    values = await _result_values(request, engine, visitor, import_id)
    return await page(request, visitor, "audience/import.html", **values)


@router.get("/{import_id}/stream")
async def listen(request: Request, engine: EngineDep, visitor: ViewerDep, import_id: str) -> Response:
    await engine.import_uploads.find(visitor.tenant_id, import_id)

    async def render_parts() -> dict[str, str]:
        values = await _result_values(request, engine, visitor, import_id)
        return {"import": render_part(request, visitor, "audience/import_progress.html", **values)}

    return stream(request, visitor, f"import {import_id}", render_parts)


@router.get("/{import_id}/report.csv")
async def download_report(engine: EngineDep, visitor: ViewerDep, import_id: str) -> Response:
    """Download the same report as the API: one line per processed row."""
    content = await engine.import_uploads.report(visitor.tenant_id, import_id)
    headers = {"Content-Disposition": f'attachment; filename="import-{import_id}.csv"'}
    return StreamingResponse(content, media_type="text/csv; charset=utf-8", headers=headers)


async def _result_values(request: Request, engine: Engine, visitor: Visitor, import_id: str) -> dict[str, Any]:
    """Return an import, its list if it still exists, and at the end its first refused rows."""
    found = await engine.import_uploads.find(visitor.tenant_id, import_id)

    async def read_refused() -> list[RefusedLine]:
        return await engine.import_uploads.refused_rows(visitor.tenant_id, import_id, limit=_SHOWN)

    refused: list[RefusedLine] = []
    if found.finished_at is not None and found.refused:
        refused = await result_cache_of(request).get((gettext("refused rows"), import_id), read_refused)
    every = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    list_ = next((each for each in every if each.list_key == found.plan.list_key), None)
    answers = [*import_figures(found)]
    return {"each": found, "list": list_, "refused": refused, "answers": answers, "field_words": _FIELD_WORDS}


async def create_list(engine: Engine, visitor: Visitor, name: str) -> str:
    """Create a list for the import, with double opt-in, and return its key."""
    if not name:
        raise InvalidInput(gettext("Enter a name for the new list."), field="newList")
    key = await unused_list_key(engine, visitor, name)
    await lists.create(
        engine.database,
        engine.clock,
        visitor.tenant_id,
        key,
        name=name[:200],
        requires_confirmation=True,
        actor=visitor.actor,
    )
    return key


async def _list_names(engine: Engine, visitor: Visitor) -> dict[str, str]:
    every = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    return {each.list_key: each.name for each in every}


async def _page(request: Request, engine: Engine, visitor: Visitor, form: Fields, errors: Errors) -> Response:
    if "upload" in errors:
        form = Fields({name: value for name, value in form.items() if name not in ("file", "name", "sheets")})
    every = await lists.list_all(engine.database, visitor.tenant_id)
    offered = [("", gettext("Choose a list")), *((each.list_key, each.name) for each in every)]
    values: dict[str, Any] = {
        "imports": await engine.import_uploads.latest(visitor.tenant_id, limit=_SHOWN),
        "answers_text": import_answers_text,
        "lists": [*offered, (NEW_LIST, gettext("New list…")), (_NO_LIST, gettext("No list: only store the contacts"))],
        "list_names": await _list_names(engine, visitor),
        "legal_bases": [("", gettext("None")), *legal_basis_options()],
        "form": form,
        "errors": errors,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/imports.html", status=status, **values)


async def _preview(
    request: Request, engine: Engine, visitor: Visitor, form: Fields, error: InvalidInput | None = None
) -> Response:
    try:
        titles = await engine.import_uploads.staged_titles(visitor.tenant_id, form["file"], form["encoding"] or None)
    except NotFound as gone:
        return await _page(request, engine, visitor, form, Errors({"upload": str(gone)}))
    seen: ImportPreview | None = None
    # Consent is only required for the import itself, not for the preview.
    purpose = _purpose(form, titles, visitor)
    try:
        seen = await engine.import_uploads.preview_staged(
            visitor.tenant_id, form["file"], replace(purpose, is_confirmed=True, asks=False)
        )
    except InvalidInput as problem:
        error = error or problem
    values: dict[str, Any] = {
        "form": form,
        "columns": [
            (number, title, form[f"column-{number}"] or _suggestion(title, seen, number), _options(title))
            for number, title in enumerate(titles)
        ],
        "seen": seen,
        "encodings": _encodings(seen if not form["encoding"] else None),
        "list_names": await _list_names(engine, visitor),
        "delimiter": DELIMITER_NAMES[seen.plan.file_format.delimiter] if seen else "",
        "asks_agreement": await _requires_confirmation(engine, visitor, purpose.list_key),
        "starts_sequence": await _starts_sequence(engine, visitor, purpose.list_key),
        "answer_labels": ANSWER_LABELS,
        "blocked_label": BLOCKED_LABEL,
        "answers": [*preview_figures(seen)] if seen else [],
        "unreadable": "; ".join(f"{line} ({row.proof})" for line, row in seen.first_unreadable) if seen else "",
        "asks_subscription": seen is not None and seen.plan.asks_subscription,
        "error": error.text if error is not None else "",
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "audience/import_preview.html", status=status, **values)


def _encodings(seen: ImportPreview | None) -> list[tuple[str, str]]:
    """Return the encodings to choose from: the detected one, and common others."""
    used = seen.plan.file_format.encoding if seen else ""
    return [
        ("", gettext("Detected ({used})", used=used) if used else gettext("Detected")),
        *((each, each.upper()) for each in _ENCODINGS),
    ]


async def _starts_sequence(engine: Engine, visitor: Visitor, list_key: str | None) -> bool:
    async with engine.database.read() as tx:
        return list_key is not None and await starts_sequence(tx, visitor.tenant_id, list_key)


async def _requires_confirmation(engine: Engine, visitor: Visitor, list_key: str | None) -> bool:
    every = await lists.list_all(engine.database, visitor.tenant_id)
    return any(each.requires_confirmation for each in every if each.list_key == list_key)


def _purpose(form: Fields, titles: tuple[str, ...], visitor: Visitor) -> ImportOptions:
    tags = tuple(tag.strip() for tag in form["tags"].split(",") if tag.strip())
    chosen = {title: form[f"column-{number}"] for number, title in enumerate(titles) if form[f"column-{number}"]}
    basis = _legal_basis(form, visitor)
    sheets = tuple(form["sheets"].split(_BETWEEN_SHEETS)) if form["sheets"] else ()
    options = ImportOptions(form["list"] or None, tags, chosen, bool(form["confirmed"]), form["encoding"] or None)
    return replace(
        options,
        legal_basis=basis,
        other_sheets=sheets,
        starts_sequences=bool(form["startSequences"]),
        keeps_subscriptions=bool(form["keepSubscriptions"]),
        asks=bool(form["ask"]),
    )


def _legal_basis(form: Fields, visitor: Visitor) -> LegalBasisRecord | None:
    return legal_basis_record(form["legalBasis"] or None, form["legalBasisSource"] or None, visitor.actor)


def _options(title: str) -> list[tuple[str, str]]:
    """Return the possible targets of a column: a field, an attribute named after its title, or none."""
    found = [(name, _FIELD_WORDS[name]) for name in FIELDS]
    names = {name for name in (attribute_name_from_title(title), suggest_target(title)) if name} - {*FIELDS, SKIPPED}
    for name in sorted(names):
        found.append((name, gettext("Attribute “{name}”", name=name)))
        found += [
            (f"{name}:{each}", gettext("Attribute “{name}”, {label}", name=name, label=label))
            for each, label in LABELS.items()
        ]
    return [*found, (SKIPPED, gettext("Ignore"))]


def _suggestion(title: str, seen: ImportPreview | None, number: int) -> str:
    """Return the target that the import would choose, with the format of the values."""
    column = seen.plan.columns[number] if seen else None
    return f"{column.target}:{column.format}" if column and column.format else suggest_target(title)


async def chunks_of(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk
