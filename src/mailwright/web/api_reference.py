"""The interactive API reference at `/docs`, from the OpenAPI document. Its scripts and styles are our own files."""

from typing import Final

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from mailwright.web.dashboard.assets import asset

router = APIRouter(include_in_schema=False)

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
}
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API reference · Mailwright</title>
<link rel="icon" href="{mark}" type="image/svg+xml">
<link rel="stylesheet" href="{swagger_style}">
<link rel="stylesheet" href="{style}">
<script src="{theme}"></script>
<script src="{swagger}" defer></script>
<script src="{script}" defer></script>
</head>
<body>
<header><a href="/">Mailwright</a> <a href="/manual/">Manual</a> <a href="/openapi.json">OpenAPI document</a></header>
<main id="reference"><noscript>This page needs JavaScript. The OpenAPI document has the same content.</noscript></main>
</body>
</html>
"""


@router.api_route("/docs", methods=["GET", "HEAD"])
async def show() -> HTMLResponse:
    """Show all routes. To try them, enter an API key under "Authorize". The key stays in the page."""
    page = _PAGE.format(
        mark=asset("mark.svg"),
        theme=asset("theme.js"),
        swagger_style=asset("swagger-ui.css"),
        swagger=asset("swagger-ui.js"),
        style=asset("api-reference.css"),
        script=asset("api-reference.js"),
    )
    return HTMLResponse(page, headers=_HEADERS)
