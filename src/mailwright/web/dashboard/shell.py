"""The shell: a template, the visitor and the navigation make a page that nothing can be injected into."""

import re
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.roles import Forbidden
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.errors import InvalidInput, MailwrightError, NotDurable, NotFound
from mailwright.domain.explanation import CampaignExplanation, MessageExplanation
from mailwright.ops.logs import logger
from mailwright.outbox import tenants
from mailwright.schemas import explanation_text
from mailwright.schemas.explanation_text import ExplanationText
from mailwright.schemas.time_text import distance
from mailwright.web.dashboard import labels
from mailwright.web.dashboard.assets import asset
from mailwright.web.dashboard.explanation_links import action_links
from mailwright.web.dashboard.navigation import items_for
from mailwright.web.errors import STATUSES, not_now
from mailwright.web.parts import parts_of
from mailwright.web.session import SecondFactorRequired, SignInRequired, Visitor, found_visitor

ZONE_COOKIE: Final = "zone"
FLASH_COOKIE: Final = "flash"
_FLASH_SECONDS: Final = 60
_CELL: Final = re.compile(r"<(tr|td)\b([^>]*)>")

# What holds for every page. Scripts and styles come from files of ours; the nonce is for the editor's own style sheet.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# A mail as its reader sees it: no script, no form, no cookie, an origin that is nobody's.
_FRAME_POLICY: Final = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src 'self' https: http: data:; font-src https: data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)

log = logger(__name__)


async def page(
    request: Request,
    visitor: Visitor | None,
    template: str,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """A whole page. `template` is a name below templates/, as `overview.html`; it extends `base.html`."""
    nonce = secrets.token_urlsafe(12)
    content = _render(template, request, visitor, nonce=nonce, tenants=await _tenants(request, visitor), **values)
    policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
    response = HTMLResponse(content, status, headers={**_HEADERS, **policy, **(headers or {})})
    if FLASH_COOKIE in request.cookies:
        response.delete_cookie(FLASH_COOKIE, path="/")
    return response


def fragment(request: Request, visitor: Visitor, template: str, **values: Any) -> HTMLResponse:
    """A part of a page, for htmx to put into its place. Asked for by a link, where no script runs, it is a page."""
    content = _render(template, request, visitor, nonce="", tenants=[], **values)
    if _is_htmx(request):
        return HTMLResponse(content, headers=_HEADERS)
    alone = _render("fragment.html", request, visitor, nonce="", tenants=[], part=Markup(content))  # noqa: S704 - escaped
    return HTMLResponse(alone, headers={**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce="none")})


def render_part(request: Request, visitor: Visitor, template: str, **values: Any) -> str:
    """A part of a page as text, for a stream."""
    return _render(template, request, visitor, nonce="", tenants=[], **values)


def email_frame(html: str) -> HTMLResponse:
    """Somebody else's HTML, as a mail's: for an `<iframe sandbox>` that names this address."""
    policy = {"Content-Security-Policy": _FRAME_POLICY}
    return HTMLResponse(html, headers={**_HEADERS, **policy, "Referrer-Policy": "no-referrer"})


def redirect(request: Request, to: str, message: str = "", *, tone: str = "good") -> Response:
    """The answer to a form: another page, which shows the message once. Loading that page again repeats nothing."""
    if _is_htmx(request):
        response: Response = Response(headers={"HX-Redirect": to})
    else:
        response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
    if message:
        text = quote(orjson.dumps({"text": message, "tone": tone}).decode())
        response.set_cookie(FLASH_COOKIE, text, max_age=_FLASH_SECONDS, path="/", httponly=True, samesite="lax")
    return response


def local_path(text: str | None) -> str:
    """A path of ours to go on to; whatever could lead elsewhere leads to the overview."""
    target = text or "/"
    parts = urlsplit(target)
    is_ours = target.startswith("/") and not target.startswith("//") and not parts.scheme and not parts.netloc
    return target if is_ours and "\\" not in target and target.isprintable() else "/"


class PageRoute(APIRoute):
    """What goes wrong is told as a page: `APIRouter(route_class=PageRoute, include_in_schema=False)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_with_error_pages(request: Request) -> Response:
            try:
                return await handle(request)
            except SignInRequired:
                return _redirect_to_sign_in(request, "/sign-in")
            except SecondFactorRequired:
                return _redirect_to_sign_in(request, "/sign-in/code")
            except MailwrightError as error:
                return await _error_page(request, error)
            except RequestValidationError:
                # An address that somebody put together by hand; our own links and forms fit their routes.
                return await _error_page(request, NotFound("There is no such page."))

        return handle_with_error_pages


def _redirect_to_sign_in(request: Request, to: str) -> Response:
    """Back to where they were once they are in; a part of a page takes the whole page with it."""
    here = request.headers.get("hx-current-url", "") if _is_htmx(request) else str(request.url)
    place = urlsplit(here)
    came_from = f"{place.path}?{place.query}" if place.query else place.path
    is_page = request.method == "GET" or _is_htmx(request)
    target = f"{to}?{urlencode({'next': came_from})}" if is_page and came_from not in ("", "/") else to
    if _is_htmx(request) or "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": target})
    return RedirectResponse(target, HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})


async def _error_page(request: Request, error: MailwrightError) -> Response:
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
    if status is None:
        raise error
    detail = str(error)
    if isinstance(error, NotDurable):
        # The database's own words are for the log only; and nobody can be looked up there now.
        log.warning("not_durable", path=request.url.path, reason=detail)
        return await page(request, None, "error.html", status=status, title="Not now", detail=not_now(request))
    title = {Forbidden: "Not for you", NotFound: "Not here", InvalidInput: "That does not work"}
    words_for = next((text for kind, text in title.items() if isinstance(error, kind)), "Not possible now")
    headers = {"Retry-After": str(error.retry_after_seconds)} if isinstance(error, TooManyFailedSignIns) else {}
    if _is_htmx(request):
        # Shown where messages are shown; the page itself stays as it is.
        headers["HX-Trigger"] = orjson.dumps({"complain": detail}).decode()
        return Response(status_code=status, headers=headers)
    visitor = await found_visitor(request)
    if visitor is not None and visitor.session.awaits_code:
        visitor = None
    return await page(request, visitor, "error.html", status=status, headers=headers, title=words_for, detail=detail)


def _is_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


async def _tenants(request: Request, visitor: Visitor | None) -> list[str]:
    """Those that the visitor may look at; of one, nobody needs to choose."""
    if visitor is None or visitor.user.tenant_id is not None:
        return []
    return [tenant.name for tenant in await tenants.list_all(parts_of(request).database)]


def _render(template: str, request: Request, visitor: Visitor | None, **values: Any) -> str:
    parts = parts_of(request)
    return _TEMPLATES.get_template(template).render(
        path=request.url.path,
        query=request.query_params,
        visitor=visitor,
        navigation=items_for(visitor.user.role) if visitor is not None else [],
        flash=_flash(request),
        now=parts.clock.now(),
        zone=labels.zone_of(unquote(request.cookies.get(ZONE_COOKIE, ""))),
        has_zone=ZONE_COOKIE in request.cookies,
        public_url=parts.public_url,
        **values,
    )


def _flash(request: Request) -> dict[str, str] | None:
    try:
        found = orjson.loads(unquote(request.cookies[FLASH_COOKIE]))
        return {"text": str(found["text"])[:500], "tone": "bad" if found["tone"] == "bad" else "good"}
    except (KeyError, TypeError, ValueError):
        return None


# What templates can ask for.


@pass_context
def _time(context: Context, instant: Instant | None, *, form: str = "clock", with_seconds: bool = False) -> Markup:
    """In the viewer's zone. Before their browser has told it, the script of the page puts it right."""
    if instant is None:
        return Markup("{}").format(labels.NO_TIME)
    now, zone = context["now"], context["zone"]
    match form:
        case "ago":
            text = distance(instant, now)
        case "day":
            text = labels.format_day(instant, now, zone)
        case _:
            text = labels.format_clock(instant, now, zone, with_seconds=with_seconds)
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(
        isoformat(instant), labels.format_full(instant, now, zone), form, text
    )


@pass_context
def _clock(context: Context, instant: Instant) -> str:
    """The words alone, for where no element can stand."""
    return labels.format_clock(instant, context["now"], context["zone"])


@pass_context
def _message_text(context: Context, explanation: MessageExplanation) -> ExplanationText:
    return explanation_text.message_text(explanation, context["zone"])


@pass_context
def _campaign_text(context: Context, explanation: CampaignExplanation) -> ExplanationText:
    return explanation_text.campaign_text(explanation, context["zone"])


def _with_query(query: Mapping[str, str], **changes: Any) -> str:
    """The same page with some of its parameters changed; None takes one away."""
    merged = {**dict(query), **changes}
    return "?" + urlencode({name: value for name, value in merged.items() if value not in (None, "")})


def _with_column_labels(rows: Markup, columns: Sequence[str]) -> Markup:
    """Each cell but the one that says what the line is about with the name of its column, for screens on which a line
    stands as a block."""
    place = -1

    def label(tag: re.Match[str]) -> str:
        nonlocal place
        if tag[1] == "tr":
            place = -1
            return tag[0]
        place += 1
        name = columns[place].removeprefix("#") if 0 < place < len(columns) else ""
        if not name or "data-label" in tag[2] or "main-cell" in tag[2]:
            return tag[0]
        return f'<td data-label="{escape(name[0].lower() + name[1:])}"{tag[2]}>'

    return Markup(_CELL.sub(label, rows))  # noqa: S704 - rendered already


_TEMPLATES = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {
    "number": labels.format_number,
    "share": labels.format_percent,
    "limit_name": explanation_text.limit_name,
    "assumption": explanation_text.assumption_text,
    "browser": labels.browser_name,
    "labelled": _with_column_labels,
    "clock": _clock,
}
_TEMPLATES.globals |= {
    "asset": asset,
    "status_style": labels.status_style,
    "message_text": _message_text,
    "campaign_text": _campaign_text,
    "action_links": action_links,
    "deferral_label": explanation_text.deferral_label,
    "has_end": explanation_text.has_end,
    "time": _time,
    "with_query": _with_query,
}
