"""Images over HTTP: uploaded by authors with a key, loaded by readers without one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.content.images import MAX_BYTES, MEDIA_TYPES
from mailwright.domain.errors import NotFound
from mailwright.schemas import templates as answers
from mailwright.schemas.paging import PageQuery, decode_cursor, encode_cursor
from mailwright.sources.api.requests import RequestModel
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.parts import Parts

router = APIRouter(tags=["images"])

# The name is made from the content, so what was loaded once is right forever. A browser takes it for nothing but an
# image, whatever is inside.
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in MEDIA_TYPES.values()
        },
    }
}


class NameQuery(RequestModel):
    name: Annotated[str, Field(max_length=100, description="What templates call it, as logo.png.")]


@router.post(
    "/v1/images",
    status_code=HTTPStatus.CREATED,
    openapi_extra=_UPLOAD,
    responses=describe_responses({HTTPStatus.CREATED: answers.ImageResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def upload(request: Request, parts: Parts, caller: CallerDep, query: Annotated[NameQuery, Query()]) -> Response:
    """PNG, JPEG, GIF or WebP, known by its content. Templates that are written from now on show it under its name."""
    made = await parts.images.put(caller.tenant_id, query.name, await read_bytes(request, MAX_BYTES))
    return json_response(answers.image(made, parts.public_url), HTTPStatus.CREATED)


@router.get("/v1/images", responses=describe_responses({HTTPStatus.OK: answers.ImageListResponse}))
async def list_images(parts: Parts, caller: CallerDep, page: PageQuery) -> Response:
    """The latest first."""
    before = decode_cursor("image", page.cursor)[0] if page.cursor is not None else 2**63 - 1
    found = await parts.images.list_page(caller.tenant_id, limit=page.limit, before=before)
    following = encode_cursor("image", found[-1][0]) if len(found) == page.limit else None
    return json_response(
        {"images": [answers.image(image, parts.public_url) for _, image in found], "nextCursor": following}
    )


@router.api_route("/images/{fileName}", methods=["GET", "HEAD"], include_in_schema=False)
async def load(fileName: str, parts: Parts) -> Response:  # noqa: N803 - the name in the address
    """For readers: whoever has the address may see it."""
    content = await parts.images.read(fileName)
    if content is None:
        raise NotFound
    return Response(content, media_type=MEDIA_TYPES[fileName.rpartition(".")[2]], headers=_HEADERS)
