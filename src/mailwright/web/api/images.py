"""HTTP routes of images: uploads need an API key, recipients load them without one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.content.images import MAX_BYTES, MEDIA_TYPES
from mailwright.domain.errors import NotFound
from mailwright.schemas.images import ImageListResponse, ImageNameQuery, ImageResponse, image_response
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.state import EngineDep

router = APIRouter(tags=["images"])

# The name is derived from the content, so browsers can cache the image forever. The other headers make sure that
# browsers treat the content only as an image.
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


@router.post(
    "/v1/images",
    status_code=HTTPStatus.CREATED,
    openapi_extra=_UPLOAD,
    responses=describe_responses({HTTPStatus.CREATED: ImageResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def upload(
    request: Request, engine: EngineDep, caller: CallerDep, query: Annotated[ImageNameQuery, Query()]
) -> Response:
    """Upload a PNG, JPEG, GIF or WebP image. New template versions can refer to it by name."""
    image = await engine.images.put(caller.tenant_id, query.name, await read_bytes(request, MAX_BYTES))
    return json_response(image_response(image, engine.public_url), HTTPStatus.CREATED)


@router.get("/v1/images", responses=describe_responses({HTTPStatus.OK: ImageListResponse}))
async def list_images(engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:
    """List the images, latest first."""
    found = await engine.images.list_page(caller.tenant_id, limit=page.limit, before=page.before("image"))
    return json_response(
        ImageListResponse(
            images=[image_response(image, engine.public_url) for _, image in found],
            next_cursor=page.next_cursor("image", [key for key, _ in found]),
        )
    )


@router.api_route("/images/{fileName}", methods=["GET", "HEAD"], include_in_schema=False)
async def load(fileName: str, engine: EngineDep) -> Response:  # noqa: N803
    """Load an image, without an API key."""
    content = await engine.images.read(fileName)
    if content is None:
        raise NotFound
    return Response(content, media_type=MEDIA_TYPES[fileName.rpartition(".")[2]], headers=_HEADERS)
