"""Pages that move contacts from another product, including those who must not get email: upload, preview and result."""

from functools import partial
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse, Response

from mailwright.app.wiring import Engine
from mailwright.audience import lists
from mailwright.audience.switching.uploads import MAX_FILES, MoveOptions, UploadedExport
from mailwright.audience.switching.vendors import FORMATS, MemberStatus, Vendor
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.web.dashboard.forms import Errors, Fields, read_fields
from mailwright.web.dashboard.imports import NEW_LIST, chunks_of, create_list
from mailwright.web.dashboard.shell import PageRoute, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/imports/~move", route_class=PageRoute, include_in_schema=False)

_VENDORS: Final = {each: each.label for each in Vendor} | {Vendor.MAILWRIGHT: "Another Mailwright"}
# The file inputs of the form, with the status of the contacts in their files.
_INPUTS: Final[dict[str, MemberStatus | None]] = {
    "upload": None,
    "unsubscribed": MemberStatus.UNSUBSCRIBED,
    "bounced": MemberStatus.BOUNCED,
    "complained": MemberStatus.COMPLAINED,
    "subscribed": MemberStatus.SUBSCRIBED,
}


@router.get("")
async def form(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _form(request, engine, visitor, Fields(), Errors())


@router.post("")
async def take(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Store the uploaded files temporarily, and lead to their preview."""
    fields, uploads = await read_fields(request), engine.switch_uploads
    given = [
        (file, status)
        for name, status in _INPUTS.items()
        for file in (await request.form()).getlist(name)
        if isinstance(file, UploadFile) and file.filename
    ]
    try:
        options = _options(fields, [status for _, status in given])
        files = [UploadedExport(file.filename or "", status, chunks_of(file)) for file, status in given]
        token = await uploads.stage(visitor.tenant_id, options, files)
        await uploads.preview(visitor.tenant_id, token)
    except InvalidInput as error:
        field = error.field if error.field in ("vendor", "list", "newList") else "upload"
        return await _form(request, engine, visitor, fields, Errors({field: error.text}))
    return redirect(request, f"/imports/~move/{token}")


@router.get("/{token}")
async def show(request: Request, engine: EngineDep, visitor: EditorDep, token: str) -> Response:
    """Show the preview of uploaded files, the running move or its result."""
    try:
        values = await _values(request, engine, visitor, token)
    except NotFound as error:
        return await _form(request, engine, visitor, Fields(), Errors({"upload": error.text}))
    return await page(request, visitor, "audience/move_result.html", **values)


@router.post("/{token}")
async def begin(request: Request, engine: EngineDep, visitor: EditorDep, token: str) -> Response:
    """Begin to move the contacts, or continue after an interruption."""
    uploads, create = engine.switch_uploads, partial(create_list, engine, visitor)
    await uploads.begin(visitor.tenant_id, token, create, actor=visitor.actor)
    return redirect(request, f"/imports/~move/{token}")


@router.get("/{token}/stream")
async def listen(request: Request, engine: EngineDep, visitor: EditorDep, token: str) -> Response:
    await engine.switch_uploads.find(visitor.tenant_id, token)

    async def render_parts() -> dict[str, str]:
        values = await _values(request, engine, visitor, token)
        return {"move": render_part(request, visitor, "audience/move_state.html", **values)}

    return stream(request, visitor, f"move {token}", render_parts)


@router.get("/{token}/report.csv")
async def download_report(engine: EngineDep, visitor: EditorDep, token: str) -> Response:
    """Download the result of each row."""
    path = await engine.switch_uploads.report(visitor.tenant_id, token)
    return FileResponse(path, media_type="text/csv; charset=utf-8", filename="moved-contacts.csv")


def _options(fields: Fields, statuses: list[MemberStatus | None]) -> MoveOptions:
    if fields["vendor"] not in _VENDORS:
        raise InvalidInput("Choose the product that wrote the files.", field="vendor")
    vendor = Vendor(fields["vendor"])
    format_, chosen = FORMATS[vendor], fields["list"]
    if not statuses:
        raise InvalidInput("Choose the files of the export.", field="upload")
    if len(statuses) > MAX_FILES:
        raise InvalidInput("Choose at most {max_files} files, or one zip archive.", field="upload", max_files=MAX_FILES)
    if format_.lists_column is not None:
        return MoveOptions(vendor, is_confirmed=bool(fields["confirmed"]))
    if not chosen:
        raise InvalidInput("Choose the list that the subscribers join.", field="list")
    if chosen == NEW_LIST and not fields["newList"]:
        raise InvalidInput("Enter a name for the new list.", field="newList")
    if chosen == NEW_LIST and not fields["confirmed"]:
        reason = (
            "The new list uses double opt-in, so the contacts must have agreed. Say so below, or choose another list."
        )
        raise InvalidInput(reason, field="newList")
    if format_.hides_unsubscribed and MemberStatus.UNSUBSCRIBED not in statuses and not fields["filtered"]:
        raise InvalidInput(
            "{vendors} exports contacts who left a list as subscribers. Export them separately and "
            "choose that file under contacts who unsubscribed, or say that the export contains none of "
            "them.",
            field="upload",
            vendors=_VENDORS[vendor],
        )
    return MoveOptions(
        vendor,
        None if chosen == NEW_LIST else chosen,
        fields["newList"][:200] if chosen == NEW_LIST else "",
        bool(fields["confirmed"]),
        bool(fields["filtered"]),
    )


async def _form(request: Request, engine: Engine, visitor: Visitor, fields: Fields, errors: Errors) -> Response:
    every = await lists.list_all(engine.database, visitor.tenant_id)
    values: dict[str, Any] = {
        "vendors": [("", "Choose a product"), *_VENDORS.items()],
        "lists": [
            ("", "Choose a list"),
            *((each.list_key, each.name) for each in every),
            (NEW_LIST, "New list…"),
        ],
        "form": fields,
        "errors": errors,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/move.html", status=status, **values)


async def _values(request: Request, engine: Engine, visitor: Visitor, token: str) -> dict[str, Any]:
    found, counts, problem = await engine.switch_uploads.describe(visitor.tenant_id, token)
    every = await lists.list_all(engine.database, visitor.tenant_id)
    names = {each.list_key: each.name for each in every}
    return {
        "move": found,
        "vendor": _VENDORS[found.options.vendor],
        "list_name": found.options.new_list or names.get(found.options.list_key or "", found.options.list_key),
        "counts": counts,
        "problem": problem,
    }
