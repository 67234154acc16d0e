"""The web view: an email in the browser, for anyone with its link."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.domain.errors import NotFound
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.pipeline.web_view import WebViewSettings, render_web_view
from mailwright.web.public.pages import stored_html
from mailwright.web.public.subscribers import PublicRoute, link_secrets
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/view/{token}", methods=["GET", "HEAD"])
async def view(_request: Request, token: str, engine: EngineDep) -> Response:
    pages = await _pages(engine)
    html = await render_web_view(engine.database, engine.templates, pages, pages.views.parse(token))
    if html is None:
        raise NotFound
    return stored_html(html, framed_by="'none'")


async def _pages(engine: Engine) -> WebViewSettings:
    secrets = await link_secrets(engine)
    return WebViewSettings(
        engine.public_url,
        engine.public_pages.unsubscribe_url or f"{engine.public_url}/unsubscribe",
        UnsubscribeTokens(*secrets),
        WebViewTokens(*secrets),
        engine.postal_address or "",
    )
