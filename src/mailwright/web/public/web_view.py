"""The web view: an email in the browser, for anyone with its link."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.domain.errors import NotFound
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.pipeline.web_view import WebViewSettings, render_web_view
from mailwright.web.parts import ApiParts, Parts
from mailwright.web.public.pages import stored_html
from mailwright.web.public.subscribers import PublicRoute, link_secrets

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/view/{token}", methods=["GET", "HEAD"])
async def view(_request: Request, token: str, parts: Parts) -> Response:
    pages = await _pages(parts)
    html = await render_web_view(parts.database, parts.templates, pages, pages.views.parse(token))
    if html is None:
        raise NotFound
    return stored_html(html, framed_by="'none'")


async def _pages(parts: ApiParts) -> WebViewSettings:
    secrets = await link_secrets(parts)
    return WebViewSettings(
        parts.public_url,
        parts.public_pages.unsubscribe_url or f"{parts.public_url}/unsubscribe",
        UnsubscribeTokens(*secrets),
        WebViewTokens(*secrets),
        parts.postal_address or "",
    )
