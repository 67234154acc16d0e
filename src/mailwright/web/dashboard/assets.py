"""Assets: styles, scripts and pictures under addresses that name their content, so that a browser asks once."""

import gzip
import hashlib
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.ops.logs import logger

router = APIRouter(include_in_schema=False)
log = logger(__name__)

# Our own, and what the build fetched from npm and bundled: see tools/assets.
FOLDERS: Final = (Path(__file__).parent / "static", Path(__file__).parent / "vendor")
MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
# Below this, compressing gains less than its header costs.
_WORTH_COMPRESSING: Final = 1_000
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@cache
def asset(name: str) -> str:
    """The address of an asset. Another content has another address."""
    file = _file(name)
    if file is None:
        log.error("asset_missing", asset=name, message="Run `make setup`, which builds the browser's files.")
        return f"/assets/missing/{name}"
    return f"/assets/{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}/{name}"


@router.api_route("/assets/{fingerprint}/{name}", methods=["GET", "HEAD"])
async def hand_out(fingerprint: str, name: str, request: Request) -> Response:
    """Whatever the fingerprint is, the content is today's; only its own may be kept for ever."""
    file = _file(name)
    if file is None:
        return Response(status_code=HTTPStatus.NOT_FOUND)
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    content, encoding = _content(file, takes_gzip)
    is_current = asset(name) == f"/assets/{fingerprint}/{name}"
    headers = {
        "Cache-Control": _FOR_EVER if is_current else "no-cache",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        **({"Content-Encoding": encoding} if encoding else {}),
    }
    return Response(content, media_type=MEDIA_TYPES[file.suffix], headers=headers)


@cache
def _content(file: Path, takes_gzip: bool) -> tuple[bytes, str | None]:
    content = file.read_bytes()
    if takes_gzip and len(content) >= _WORTH_COMPRESSING:
        return gzip.compress(content, mtime=0), "gzip"
    return content, None


@cache
def _files() -> dict[str, Path]:
    """Only what is there under these names: an address is never put together with a path."""
    found = [file for folder in FOLDERS if folder.is_dir() for file in folder.iterdir()]
    return {file.name: file for file in found if file.suffix in MEDIA_TYPES}


def _file(name: str) -> Path | None:
    return _files().get(name)
