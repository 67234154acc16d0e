"""Static files under addresses that contain a hash of their content, so that browsers cache them forever."""

import gzip
import hashlib
import zipfile
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.ops.logs import logger

router = APIRouter(include_in_schema=False)
log = logger(__name__)

# Our own files, and those that the build bundles from npm (see tools/assets).
FOLDERS: Final = (Path(__file__).parent / "static", Path(__file__).parent / "vendor")
MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
# Fonts and images are compressed already, and smaller files are not worth compressing.
_COMPRESSED: Final = (".png", ".webp", ".woff2")
_WORTH_COMPRESSING: Final = 1_000
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@cache
def asset(name: str) -> str:
    """Return the address of an asset, which changes with its content."""
    file = _file(name)
    if file is None:
        log.error("asset_missing", asset=name, message="Run `make setup`, which builds the browser's files.")
        return f"/assets/missing/{name}"
    return f"/assets/{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}/{name}"


@router.api_route("/assets/{fingerprint}/{name}", methods=["GET", "HEAD"])
async def serve(fingerprint: str, name: str, request: Request) -> Response:
    """Serve the current content under any fingerprint. Browsers may cache it forever only under the current one."""
    file = _file(name)
    if file is None:
        return Response(status_code=HTTPStatus.NOT_FOUND)
    is_current = asset(name) == f"/assets/{fingerprint}/{name}"
    headers = {"Cache-Control": _FOR_EVER if is_current else "no-cache"}
    return file_response(request, file, MEDIA_TYPES[file.suffix], headers)


def file_response(request: Request, file: Path | zipfile.Path, media_type: str, headers: Mapping[str, str]) -> Response:
    """Return the content of a file of this package, compressed if the browser can read that."""
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    content, encoding = _content(file, takes_gzip)
    all_headers = {
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        **({"Content-Encoding": encoding} if encoding else {}),
        **headers,
    }
    return Response(content, media_type=media_type, headers=all_headers)


@cache
def _content(file: Path | zipfile.Path, takes_gzip: bool) -> tuple[bytes, str | None]:
    content = file.read_bytes()
    if takes_gzip and file.suffix not in _COMPRESSED and len(content) >= _WORTH_COMPRESSING:
        return gzip.compress(content, mtime=0), "gzip"
    return content, None


@cache
def _files() -> dict[str, Path]:
    """Return the known files by name, so that no path is ever built from a request."""
    found = [file for folder in FOLDERS if folder.is_dir() for file in folder.iterdir()]
    return {file.name: file for file in found if file.suffix in MEDIA_TYPES}


def _file(name: str) -> Path | None:
    return _files().get(name)
