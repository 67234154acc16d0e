"""Begin a sequence: from a ready-made one, empty, or from a file."""

from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.content.template import InvalidTemplate
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.foreign_json import load_json
from mailwright.domain.translation import gettext
from mailwright.schemas.sequence_files import MAX_FILE_BYTES, read_sequence_file
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.sequences.bundles import add_templates
from mailwright.sources.sequences.ready import ReadySequences
from mailwright.sources.sequences.records import StoredSequence
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.sequences import list_options, ready_cards
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sequences", route_class=PageRoute, include_in_schema=False)

BLANK: Final = "blank"
# The number of options if the tenant has one list: the empty option and that list.
_ONLY_LIST: Final = 2
_REFUSED: Final = (InvalidInput, RequestInvalid, NotFound)


@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep, ready: str = "welcome") -> Response:
    form = Fields({"ready": ready})
    if len(options := await list_options(engine, visitor)) == _ONLY_LIST:
        form["list"] = options[-1][0]
    return await _page(request, engine, visitor, form)


@router.post("/~new")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        created = await _create(engine, visitor, form)
    except _REFUSED as error:
        return await _page(request, engine, visitor, form, error)
    return redirect(
        request, f"/sequences/{created.sequence_id}", gettext("Draft created. Nobody enters before you publish it.")
    )


@router.post("/~import")
async def import_file(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Create a draft from the file of an exported sequence."""
    try:
        document, bundled = read_sequence_file(await _uploaded(request))
        await add_templates(
            engine.database,
            engine.templates,
            visitor.tenant_id,
            document,
            bundled,
            actor=visitor.actor,
            replaces=bool((await read_fields(request))["replace"]),
            keeps_locked=not visitor.may(Role.ADMIN),
        )
        created = await engine.sequences.create(visitor.tenant_id, document, actor=visitor.actor)
    except (*_REFUSED, InvalidTemplate, NotPossibleNow) as error:
        return await _page(request, engine, visitor, Fields({"ready": BLANK}), InvalidInput(error.text, field="file"))
    words = gettext("Draft created. Nobody enters before you publish it.")
    if missing := await engine.sequences.missing(created):
        problems = "; ".join(dict.fromkeys(each.message for each in missing))
        words = gettext("Draft created. Before you can publish it: {problems}.", problems=problems)
    return redirect(request, f"/sequences/{created.sequence_id}", words)


async def _create(engine: Engine, visitor: Visitor, form: Fields) -> StoredSequence:
    if form["ready"] != BLANK:
        ready = ReadySequences(engine.database, engine.clock, engine.templates, engine.sequences)
        return await ready.create(visitor.tenant_id, form["ready"], list_key=form["list"] or None, actor=visitor.actor)
    # A document needs a step, so it begins with an email.
    templates = await engine.templates.list_page(visitor.tenant_id, limit=1)
    template = next(iter(templates[0].values())).template_id if templates else "welcome"
    document = {
        "name": form["name"] or gettext("New sequence"),
        "trigger": {"joinsList": form["list"]} if form["list"] else {"manual": True},
        **({"list": form["list"]} if form["list"] else {}),
        "steps": [{"id": "first-email", "send": {"template": template}}],
    }
    return await engine.sequences.create(visitor.tenant_id, document, actor=visitor.actor)


async def _uploaded(request: Request) -> Any:
    given = (await request.form()).get("file")
    if not isinstance(given, UploadFile) or not given.filename:
        raise InvalidInput(gettext("Choose a file."), field="file")
    data = await given.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(
            gettext("The file is larger than {max_document_bytes} KB.", max_document_bytes=MAX_FILE_BYTES // 1024),
            field="file",
        )
    try:
        return load_json(data)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            gettext("This is not a JSON file. Choose the file of an exported sequence."), field="file"
        ) from error


async def _page(
    request: Request, engine: Engine, visitor: Visitor, form: Fields, error: MailwrightError | None = None
) -> Response:
    errors = field_errors(error) if error is not None else Errors()
    values: dict[str, Any] = {
        "cards": ready_cards(),
        "lists": await list_options(engine, visitor),
        "form": form,
        "errors": errors,
        # The problems of a file, which has no field for each of them.
        "problems": [f"{name}: {words}" for name, words in errors.items() if name not in ("list", "name", "file")],
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/new.html", status=status, **values)
