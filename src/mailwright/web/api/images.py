"""HTTP routes of images: uploads need an API key, recipients load them without one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.images import delete_image
from mailwright.content.image_rules import MAX_UPLOAD_BYTES, MEDIA_TYPES
from mailwright.domain.errors import NotFound
from mailwright.schemas.images import (
    ImageChangeRequest,
    ImageListQuery,
    ImageListResponse,
    ImageQuery,
    ImageResponse,
    image_response,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep
from mailwright.web.uploads import read_upload

router = Routes(tags=["images"])

# The name is derived from the content, so browsers can cache the image forever. The other headers make sure that
# browsers treat the content only as an image.
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}
_BINARY = {"type": "string", "format": "binary"}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            **{media_type: {"schema": _BINARY} for media_type in MEDIA_TYPES.values()},
            "multipart/form-data": {
                "schema": {"type": "object", "required": ["file"], "properties": {"file": _BINARY}}
            },
        },
    }
}


@router.post(
    "/v1/images",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=_UPLOAD,
    responses=describe_responses({HTTPStatus.CREATED: ImageResponse}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
)
async def upload(
    request: Request, engine: EngineDep, caller: CallerDep, query: Annotated[ImageQuery, Query()]
) -> Response:
    """Upload a PNG, JPEG, GIF or WebP image. It is resized and compressed for email, and its metadata is removed."""
    file = await read_upload(request, MAX_UPLOAD_BYTES)
    image = await engine.images.put(caller.tenant_id, query.name, file.content, alt=query.alt, actor=actor_of(caller))
    return json_response(image_response(image, engine.images, engine.public_url), HTTPStatus.CREATED)


@router.get("/v1/images", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ImageListResponse}))
async def list_images(engine: EngineDep, caller: CallerDep, query: Annotated[ImageListQuery, Query()]) -> Response:
    """List the images, latest first."""
    found = await engine.images.list_page(
        caller.tenant_id, limit=query.limit, before=query.before("image"), search=query.q
    )
    return json_response(
        ImageListResponse(
            images=[image_response(image, engine.images, engine.public_url) for _, image in found],
            next_cursor=query.next_cursor("image", [key for key, _ in found]),
        )
    )


@router.patch(
    "/v1/images/{imageName}",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ImageChangeRequest),
    responses=describe_responses({HTTPStatus.OK: ImageResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def change(request: Request, imageName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Change the alt text. Emails that exist keep theirs."""
    wanted = parse(ImageChangeRequest, await read_json(request))
    image = await engine.images.change_alt(caller.tenant_id, imageName, wanted.alt, actor=actor_of(caller))
    return json_response(image_response(image, engine.images, engine.public_url))


@router.delete(
    "/v1/images/{imageName}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def delete(imageName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete an image that nothing uses. It can be restored for 30 days, and sent emails show it until then."""
    await delete_image(engine.database, engine.images, caller.tenant_id, imageName, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/v1/images/{imageName}/restore",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: ImageResponse}, HTTPStatus.NOT_FOUND),
)
async def restore(imageName: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Restore an image that was deleted less than 30 days ago."""
    image = await engine.images.restore(caller.tenant_id, imageName, actor=actor_of(caller))
    return json_response(image_response(image, engine.images, engine.public_url))


@router.api_route("/images/{fileName}", methods=["GET", "HEAD"], include_in_schema=False)
async def load(fileName: str, request: Request, engine: EngineDep) -> Response:  # noqa: N803
    """Load an image, without an API key."""
    tag = f'"{fileName}"'
    content = await engine.images.read(fileName)
    if content is None:
        raise NotFound
    headers = {**_HEADERS, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type=MEDIA_TYPES[fileName.rpartition(".")[2]], headers=headers)
