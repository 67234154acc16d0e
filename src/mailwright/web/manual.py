"""The manual at `/manual`: the site that the build makes from docs/ (see tools/manual.py)."""

import re
import zipfile
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from mailwright.web.dashboard.assets import file_response

router = APIRouter(include_in_schema=False)

SITE: Final = Path(__file__).parent / "manual.zip"
NOT_BUILT: Final = (
    "The manual is not built in this checkout. Run `make setup` or `make manual`. Its text is in docs/README.md.\n"
)

_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".xml": "application/xml",
}
_OTHER_TYPE: Final = "text/plain; charset=utf-8"
# Names of the site generator's own files contain a hash of their content, for example bundle.77dd0ce9.min.js.
_FINGERPRINTED: Final = re.compile(r"\.[0-9a-f]{8}\.min\.(?:css|js)$")
_SCRIPT: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
# The style sheet of the search dialog, which the script of the site inserts into the page.
_INSERTED_STYLE: Final = re.compile(rb"""=(['"])(\.[\w-]+\{(?:(?!\1)[^\\\n])*\})\1""")
_ROOT_LINK: Final = re.compile(rb'((?:href|src)="|"(?:base|search)":"|new URL\(")/(?!/)')
_POLICY: Final = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self'{styles}; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@router.api_route("/manual", methods=["GET", "HEAD"])
async def to_manual() -> Response:
    """Redirect to the folder, because the links of the pages are relative."""
    return RedirectResponse("/manual/", HTTPStatus.TEMPORARY_REDIRECT)


@router.api_route("/manual/{path:path}", methods=["GET", "HEAD"])
async def serve(path: str, request: Request) -> Response:
    """Serve a file of the manual. It is public: it describes the program, and not this installation."""
    if not SITE.is_file():
        return PlainTextResponse(NOT_BUILT, HTTPStatus.NOT_FOUND)
    file = _files().get(path or "index.html")
    if file is None:
        return _not_found(path.rstrip("/"))
    if file.suffix == ".html":
        return file_response(request, file, _MEDIA_TYPES[".html"], _headers(_policy(file)))
    is_fingerprinted = _FINGERPRINTED.search(file.name) is not None
    caching = "public, max-age=31536000, immutable" if is_fingerprinted else "no-cache"
    return file_response(request, file, _MEDIA_TYPES.get(file.suffix, _OTHER_TYPE), {"Cache-Control": caching})


def _not_found(path: str) -> Response:
    """Redirect from the name of a page without its suffix; otherwise answer with the page for missing pages."""
    if f"{path}.html" in _files():
        return RedirectResponse(f"/manual/{path}.html", HTTPStatus.TEMPORARY_REDIRECT)
    page, policy = _not_found_page()
    return Response(page, HTTPStatus.NOT_FOUND, _headers(policy), _MEDIA_TYPES[".html"])


@cache
def _not_found_page() -> tuple[bytes, str]:
    """Return the page for missing pages and its policy. It is built for the root of a host, so its links change."""
    page = _ROOT_LINK.sub(rb"\1/manual/", _files()["404.html"].read_bytes())
    return page, _policy_of(page)


def _headers(policy: str) -> dict[str, str]:
    return {
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
        "Referrer-Policy": "same-origin",
        "X-Robots-Tag": "noindex, nofollow",
    }


@cache
def _policy(page: zipfile.Path) -> str:
    return _policy_of(page.read_bytes())


def _policy_of(page: bytes) -> str:
    """Return the Content-Security-Policy of a page: it allows exactly the inline code that the site was built with."""
    return _POLICY.format(scripts=_digests(_SCRIPT.findall(page)), styles=_digests(_inserted_styles()))


@cache
def _inserted_styles() -> list[bytes]:
    scripts = (file for name, file in _files().items() if name.startswith("assets/javascripts/bundle."))
    return [style for file in scripts for _, style in _INSERTED_STYLE.findall(file.read_bytes())]


def _digests(inline: Iterable[bytes]) -> str:
    found = {b64encode(sha256(code).digest()).decode() for code in inline}
    return "".join(f" 'sha256-{digest}'" for digest in sorted(found))


@cache
def _files() -> dict[str, zipfile.Path]:
    """Return the known files by path, so that no path is ever built from a request."""
    archive = zipfile.ZipFile(SITE)
    return {name: zipfile.Path(archive, name) for name in archive.namelist()}
