"""Read JSON request bodies within a size limit, and write JSON responses."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel
from mailwright.web.errors import BodyTooLarge, InvalidJson, NotJson

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_BATCH_BYTES = 64 * 1024 * 1024
RAW_MEDIA_TYPE = "message/rfc822"
# The name of the state of a request whose body was read as a form.
FORM_WAS_READ = "form_was_read"


async def read_json(request: Request, max_bytes: int = MAX_BODY_BYTES) -> Any:
    """Parse the body strictly. Reject infinities and invalid characters, because the database cannot store them."""
    if not request.headers.get("content-type") and request.headers.get("content-length", "0") == "0":
        raise InvalidJson("The body is missing. Send {} as application/json if there is nothing to send.")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise NotJson
    try:
        return load_json(await read_bytes(request, max_bytes))
    except orjson.JSONDecodeError as error:
        raise InvalidJson("The body is not valid JSON: {error}", error=error) from error


async def read_message(request: Request) -> bytes:
    """Read the body of a raw email, unchanged."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != RAW_MEDIA_TYPE:
        raise NotJson("The body must be an email, sent with Content-Type: {type}.", type=RAW_MEDIA_TYPE)
    return await read_bytes(request, MAX_RAW_BYTES)


def stream_body(request: Request) -> AsyncIterator[bytes]:
    """Return the chunks of the body. Raise `InvalidInput` if it is a form, which was read for its token."""
    if getattr(request.state, FORM_WAS_READ, False):
        raise InvalidInput(
            "The body is a form. Send the file as the body, or as the field file of a multipart form.", field="file"
        )
    return request.stream()


async def read_bytes(request: Request, max_bytes: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > max_bytes:
        raise too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in stream_body(request):
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = content.to_json() if isinstance(content, ResponseModel) else orjson.dumps(content)
    return Response(body, status, media_type="application/json", headers=headers)


def too_large(max_bytes: int, what: str = lazy_gettext("body")) -> BodyTooLarge:
    size = f"{max_bytes // 1024**2} MB" if max_bytes >= 1024**2 else f"{max_bytes // 1024} KB"
    return BodyTooLarge("The {what} is larger than {size}, the maximum for this route.", what=what, size=size)
