"""Bodies: JSON in, within a size that memory can hold, and JSON out."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from starlette.responses import Response

from mailwright.web.errors import BodyTooLarge, InvalidJson, NotJson

LARGEST = 16 * 1024 * 1024
LARGEST_BATCH = 64 * 1024 * 1024


async def read_json(request: Request, largest: int = LARGEST) -> Any:
    """Read by a strict parser: what it takes in can be written again, without infinities and broken characters."""
    if not request.headers.get("content-type") and request.headers.get("content-length", "0") == "0":
        raise InvalidJson("There is no body: send {} as application/json where there is nothing to say.")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise NotJson
    try:
        return orjson.loads(await read_bytes(request, largest))
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error


async def read_bytes(request: Request, largest: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > largest:
        raise _too_large(largest)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > largest:
            raise _too_large(largest)
        chunks.append(chunk)
    return b"".join(chunks)


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json", headers=headers)


def _too_large(largest: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {largest // 1024**2} MB, the most that this route takes.")
