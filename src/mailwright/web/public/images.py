"""Images that recipients load, without an API key."""

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.content.image_rules import MEDIA_TYPES
from mailwright.domain.errors import NotFound
from mailwright.web.state import EngineDep

router = APIRouter(include_in_schema=False)

# The name is derived from the content, so browsers can cache the image forever. The other headers make sure that
# browsers treat the content only as an image.
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
}


@router.api_route("/images/{fileName}", methods=["GET", "HEAD"])
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
