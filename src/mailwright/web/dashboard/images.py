"""The image library: upload, search, alt texts and deletion, as pages and as JSON for the composer."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.app.images import ImageInUse, ImageUse, delete_image, find_sent_uses, find_uses
from mailwright.app.wiring import Engine
from mailwright.content.image_files import ImagesUnavailable
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.content.images import MAX_ALT, Image
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.schemas.paging import NEWEST, decode_cursor, encode_cursor
from mailwright.web.bodies import json_response
from mailwright.web.dashboard.forms import read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.errors import BodyTooLarge, problem
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep
from mailwright.web.uploads import read_upload

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_PAGE: Final = 48
_REFUSED: Final = (InvalidInput, BodyTooLarge, ImagesUnavailable)

Search = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str | None, Query(max_length=200)]


@router.get("/images")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    q: Search = "",
    cursor: Cursor = None,
    added: Annotated[str, Query(max_length=100)] = "",
    delete: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show the library. `delete` names an image whose uses are shown before it is deleted."""
    found, following = await _found(engine, visitor, q, cursor)
    shown = [{"image": image, "url": engine.images.url(image, engine.public_url)} for image in found]
    return await page(
        request,
        visitor,
        "images.html",
        shown=shown,
        search=q,
        following=following,
        is_first=cursor is None,
        added=added,
        deleting=await _deleting(engine, visitor, delete) if delete else None,
        max_alt=MAX_ALT,
        max_mb=MAX_UPLOAD_BYTES // 1024**2,
    )


@router.get("/images.json")
async def list_images(engine: EngineDep, visitor: ViewerDep, q: Search = "", cursor: Cursor = None) -> Response:
    """List images for the composer."""
    found, following = await _found(engine, visitor, q, cursor)
    return json_response({"images": [_described(engine, image) for image in found], "nextCursor": following})


@router.post("/images")
async def upload(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Store an image for the composer or the library. The file is the body, or the field `file` of a form."""
    try:
        image = await _add(request, engine, visitor)
    except _REFUSED as error:
        if _is_page_form(request):
            return redirect(request, "/images", error.text, tone="bad")
        return problem(_status(error), error.code, error.text)
    if _is_page_form(request):
        return redirect(
            request,
            f"/images?added={image.name}",
            gettext("Uploaded {name}. Describe it in its alt text.", name=image.name),
        )
    return json_response(_described(engine, image), HTTPStatus.CREATED)


@router.post("/images/{name}/alt")
async def change_alt(request: Request, engine: EngineDep, visitor: EditorDep, name: str) -> Response:
    form = await read_fields(request)
    try:
        image = await engine.images.change_alt(visitor.tenant_id, name, form["alt"], actor=visitor.actor)
    except InvalidInput as error:
        return redirect(request, "/images", error.text, tone="bad")
    if _is_page_form(request):
        return redirect(request, "/images", gettext("Alt text of {name} saved.", name=name))
    return json_response(_described(engine, image))


@router.post("/images/{name}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, name: str) -> Response:
    """Delete an image.

    If it is in use, show where first. Users can confirm the deletion only if just sent emails use it.
    """
    question = f"/images?delete={name}"
    if not (await read_fields(request))["confirmed"] and (await _deleting(engine, visitor, name)).sent:
        return redirect(request, question)
    try:
        await delete_image(engine.database, engine.images, visitor.tenant_id, name, actor=visitor.actor)
    except ImageInUse:
        return redirect(request, question)
    text = gettext("Deleted {name}. Emails that were sent show it for 30 more days.", name=name)
    return redirect(request, "/images", text, undo=f"/images/{name}/restore")


@router.post("/images/{name}/restore")
async def restore(request: Request, engine: EngineDep, visitor: EditorDep, name: str) -> Response:
    await engine.images.restore(visitor.tenant_id, name, actor=visitor.actor)
    return redirect(request, "/images", gettext("Restored {name}.", name=name))


@dataclass(frozen=True, slots=True)
class _Deletion:
    """An image that a user wants to delete, and where it is used."""

    image: Image
    uses: list[ImageUse]
    sent: list[ImageUse]  # in campaigns that were sent


async def _deleting(engine: Engine, visitor: Visitor, name: str) -> _Deletion:
    image = await engine.images.find(visitor.tenant_id, name)
    uses = await find_uses(engine.database, visitor.tenant_id, image)
    return _Deletion(image, uses, await find_sent_uses(engine.database, visitor.tenant_id, image))


async def _found(engine: Engine, visitor: Visitor, q: str, cursor: str | None) -> tuple[list[Image], str | None]:
    before = decode_cursor("image", cursor)[0] if cursor else NEWEST
    rows = await engine.images.list_page(visitor.tenant_id, limit=_PAGE, before=before, search=q)
    following = encode_cursor("image", rows[-1][0]) if len(rows) == _PAGE else None
    return [image for _, image in rows], following


async def _add(request: Request, engine: Engine, visitor: Visitor) -> Image:
    file = await read_upload(request, MAX_UPLOAD_BYTES)
    return await engine.images.add(
        visitor.tenant_id, file.name or "image", file.content, alt=file.alt, actor=visitor.actor
    )


def _described(engine: Engine, image: Image) -> dict[str, Any]:
    """Describe an image for the composer. The dashboard may load `previewUrl`, but not always `url`."""
    return {
        "name": image.name,
        "url": engine.images.url(image, engine.public_url),
        "previewUrl": f"/images/{image.file_name}",
        "width": image.width,
        "height": image.height,
        "alt": image.alt,
        "sizeBytes": image.size_bytes,
    }


def _is_page_form(request: Request) -> bool:
    """Return whether a browser without scripts sent the form, so that the response must be a page."""
    return "text/html" in request.headers.get("accept", "")


def _status(error: MailwrightError) -> HTTPStatus:
    if isinstance(error, BodyTooLarge):
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    unavailable = isinstance(error, ImagesUnavailable)
    return HTTPStatus.SERVICE_UNAVAILABLE if unavailable else HTTPStatus.UNPROCESSABLE_ENTITY
