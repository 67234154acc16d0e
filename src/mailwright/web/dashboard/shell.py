"""Render pages: layout, navigation, security headers, flash messages and error pages."""

import json
import re
import secrets
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit
from zoneinfo import ZoneInfo

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mailwright import __version__
from mailwright.access.account_links import LinkInvalid, LinkOfAnotherUser
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.roles import Forbidden
from mailwright.app.sections import Section, load_sections
from mailwright.domain.address import both_forms, readable
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.errors import InvalidInput, MailwrightError, NotDurable, NotFound
from mailwright.domain.explanation import CampaignExplanation, MessageExplanation
from mailwright.domain.sizes import size_text
from mailwright.domain.translation import ENGLISH, current_catalogue, gettext, number_text, plural_message
from mailwright.ops.catalogues import LANGUAGES, load_catalogue
from mailwright.ops.logs import logger
from mailwright.outbox import tenants
from mailwright.sources.campaigns.approval_records import count_waiting_for
from mailwright.sources.mailouts.progress import shown_status
from mailwright.texts import explanations, sending_readiness
from mailwright.texts.ab_tests import ab_test_state_text, metric_text
from mailwright.texts.buckets import BUCKET_LABELS, BUCKET_NOTES
from mailwright.texts.explanations import ExplanationText
from mailwright.texts.sentences import sentence
from mailwright.texts.times import count_text, distance, weekday_text
from mailwright.web.dashboard import labels
from mailwright.web.dashboard.assets import asset
from mailwright.web.dashboard.explanation_links import action_links
from mailwright.web.dashboard.navigation import NavItem, item_at, items_for
from mailwright.web.dashboard.readiness import FIX_PATHS
from mailwright.web.dashboard.script_texts import script_texts
from mailwright.web.dashboard.template_messages import Find, TranslatedEnvironment
from mailwright.web.dashboard.variable_chips import with_chips
from mailwright.web.errors import STATUSES, unavailable_detail
from mailwright.web.languages import translated
from mailwright.web.public.subscribers import page_not_found as public_page_not_found
from mailwright.web.session import SecondFactorMissing, SecondFactorRequired, SignInRequired, Visitor, find_visitor
from mailwright.web.state import engine_of

FLASH_COOKIE: Final = "flash"
_FLASH_SECONDS: Final = 60
_CELL: Final = re.compile(r"<(tr|td)\b([^>]*)>")

# Scripts and styles come from our own files only; the nonce is for the style sheet that the code editor inserts.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex, nofollow",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# An email in a frame: no scripts, no forms, no cookies, an opaque origin.
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
    """Render a whole page. `template` is a path below templates/ and extends `base.html`."""
    nonce = secrets.token_urlsafe(12)
    sections = await load_sections(engine_of(request), visitor.tenant_id) if visitor is not None else {}
    switchable = await _tenants(request, visitor)
    waiting = await _approvals(request, visitor)
    content = _render(
        template, request, visitor, sections=sections, approvals=waiting, nonce=nonce, tenants=switchable, **values
    )
    policy = {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
    response = HTMLResponse(content, status, headers={**_HEADERS, **policy, **(headers or {})})
    if FLASH_COOKIE in request.cookies:
        response.delete_cookie(FLASH_COOKIE, path="/")
    return response


def fragment(request: Request, visitor: Visitor, template: str, **values: Any) -> HTMLResponse:
    """Render a part of a page for htmx. If the browser runs no scripts, wrap the part in a whole page."""
    content = _render(template, request, visitor, nonce="", tenants=[], **values)
    if is_htmx(request):
        return HTMLResponse(content, headers=_HEADERS)
    alone = _render("fragment.html", request, visitor, nonce="", tenants=[], part=Markup(content))  # noqa: S704 - escaped
    return HTMLResponse(alone, headers={**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce="none")})


def render_part(request: Request, visitor: Visitor, template: str, **values: Any) -> str:
    """Render a part of a page as text, for a live stream."""
    return _render(template, request, visitor, nonce="", tenants=[], **values)


def email_frame(html: str) -> HTMLResponse:
    """Serve untrusted HTML of an email for an `<iframe sandbox>`."""
    policy = {"Content-Security-Policy": _FRAME_POLICY}
    return HTMLResponse(html, headers={**_HEADERS, **policy, "Referrer-Policy": "no-referrer"})


def redirect(request: Request, to: str, message: str = "", *, tone: str = "good", undo: str | None = None) -> Response:
    """Redirect after a form and show `message` once on the next page, with a button that posts to the path `undo`."""
    if is_htmx(request):
        response: Response = Response(headers={"HX-Redirect": to})
    else:
        response = RedirectResponse(to, HTTPStatus.SEE_OTHER)
    if message:
        text = quote(orjson.dumps({"text": str(message), "tone": tone, "undo": undo}).decode())
        response.set_cookie(FLASH_COOKIE, text, max_age=_FLASH_SECONDS, path="/", httponly=True, samesite="lax")
    return response


def local_path(text: str | None) -> str:
    """Return `text` if it is a path of this site, otherwise `/`, so that no redirect leads to another site."""
    target = text or "/"
    parts = urlsplit(target)
    is_ours = target.startswith("/") and not target.startswith("//") and not parts.scheme and not parts.netloc
    return target if is_ours and "\\" not in target and target.isprintable() else "/"


class PageRoute(APIRoute):
    """A route that renders errors as pages: `APIRouter(route_class=PageRoute, include_in_schema=False)`.

    It closes the temporary files of uploads at the end of every request, even after an error.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_with_error_pages(request: Request) -> Response:
            with translated(request):
                try:
                    return await handle(request)
                except SignInRequired:
                    return _redirect_to_sign_in(request, "/sign-in")
                except SecondFactorRequired:
                    return _redirect_to_sign_in(request, "/sign-in/code")
                except SecondFactorMissing as error:
                    return redirect(request, "/account#second-factor", error.text, tone="bad")
                except MailwrightError as error:
                    return await _error_page(request, error)
                except RequestValidationError:
                    # Our own links and forms match their routes, so a user typed this address. Report it as not found.
                    return await _error_page(request, NotFound(gettext("This page does not exist.")))
                finally:
                    await request.close()

        return handle_with_error_pages


def _redirect_to_sign_in(request: Request, to: str) -> Response:
    """Redirect to sign in and come back afterwards. For htmx, the whole page is redirected."""
    here = request.headers.get("hx-current-url", "") if is_htmx(request) else str(request.url)
    address = urlsplit(here)
    came_from = f"{address.path}?{address.query}" if address.query else address.path
    is_page = request.method == "GET" or is_htmx(request)
    target = f"{to}?{urlencode({'next': came_from})}" if is_page and came_from not in ("", "/") else to
    if is_htmx(request) or "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": target})
    return RedirectResponse(target, HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})


async def page_not_found(request: Request, error: Exception) -> Response:
    """Respond to requests that match no route. Signed-in users stay in the dashboard."""
    with translated(request):
        if "text/html" in request.headers.get("accept", "").lower() and await find_visitor(request) is not None:
            return await _error_page(request, NotFound(gettext("This page does not exist.")))
    return await public_page_not_found(request, error)


async def _error_page(request: Request, error: MailwrightError) -> Response:
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
    if status is None:
        raise error
    detail = str(error.text)
    if isinstance(error, NotDurable):
        # The database is unavailable, so the visitor cannot be looked up. Only the log contains its error message.
        log.warning("not_durable", path=request.url.path, reason=str(error))
        return await page(
            request,
            None,
            "error.html",
            status=status,
            title=gettext("Service unavailable"),
            detail=unavailable_detail(request),
        )
    if isinstance(error, LinkInvalid):
        detail = _link_text(error)
    titles = {
        Forbidden: gettext("Permission denied"),
        LinkInvalid: gettext("Link not valid"),
        NotFound: gettext("Page not found"),
        InvalidInput: gettext("Invalid request"),
    }
    title = next((text for kind, text in titles.items() if isinstance(error, kind)), gettext("Not possible"))
    headers = {"Retry-After": str(error.retry_after_seconds)} if isinstance(error, TooManyFailedSignIns) else {}
    if is_htmx(request):
        # shell.js shows the message; the page itself stays as it is.
        headers["HX-Trigger"] = json.dumps({"showError": detail})  # A header is ASCII.
        return Response(status_code=status, headers=headers)
    visitor = await find_visitor(request)
    if visitor is not None and visitor.session.awaits_code:
        visitor = None
    return await page(request, visitor, "error.html", status=status, headers=headers, title=title, detail=detail)


def _link_text(error: LinkInvalid) -> str:
    if isinstance(error, LinkOfAnotherUser):
        return gettext("This link belongs to another user. Sign out, and open it again as the user who asked for it.")
    return gettext("This link has expired or was already used. Ask for a new one.")


def is_htmx(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


async def _tenants(request: Request, visitor: Visitor | None) -> list[str]:
    """Return the tenants that the visitor can switch between."""
    if visitor is None or visitor.user.tenant_id is not None:
        return []
    return [tenant.name for tenant in await tenants.list_all(engine_of(request).database)]


async def _approvals(request: Request, visitor: Visitor | None) -> int | None:
    """Return how many campaigns wait for the visitor's approval; None if the tenant does not use approvals."""
    if visitor is None:
        return None
    return await count_waiting_for(engine_of(request).database, visitor.tenant_id, visitor.actor)


def _render(
    template: str,
    request: Request,
    visitor: Visitor | None,
    *,
    sections: Collection[Section] = (),
    approvals: int | None = None,
    **values: Any,
) -> str:
    engine = engine_of(request)
    items: list[NavItem] = []
    if visitor is not None:
        items = items_for(visitor.user.role, sections, has_approvals=approvals is not None)
    language = current_catalogue().language
    return (
        _templates(language)
        .get_template(template)
        .render(
            language=language,
            path=request.url.path,
            query=request.query_params,
            visitor=visitor,
            navigation=items,
            open_item=item_at(items, request.url.path),
            waiting_approvals=approvals,
            flash=_flash(request),
            now=engine.clock.now(),
            zone=visitor.zone if visitor is not None else ZoneInfo(engine.defaults.limits.timezone),
            public_url=engine.public_url,
            **values,
        )
    )


def _flash(request: Request) -> dict[str, str | None] | None:
    try:
        flash = orjson.loads(unquote(request.cookies[FLASH_COOKIE]))
        undo = local_path(flash["undo"]) if flash.get("undo") else None
        return {"text": str(flash["text"])[:500], "tone": "bad" if flash["tone"] == "bad" else "good", "undo": undo}
    except (KeyError, TypeError, ValueError):
        return None


# Filters and functions for templates.


@pass_context
def _time(context: Context, instant: Instant | None, *, form: str = "clock", with_seconds: bool = False) -> Markup:
    """Show a time in the tenant's time zone."""
    if instant is None:
        return Markup("{}").format(labels.NO_TIME)
    now, zone = context["now"], context["zone"]
    match form:
        case "ago":
            text = distance(instant, now)
        case "day":
            text = labels.format_day(instant, zone)
        case _:
            text = labels.format_clock(instant, now, zone, with_seconds=with_seconds)
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(
        isoformat(instant), labels.format_full(instant, now, zone), form, text
    )


@pass_context
def _clock(context: Context, instant: Instant) -> str:
    """Format a time as plain text, for attributes and titles."""
    return labels.format_clock(instant, context["now"], context["zone"])


@pass_context
def _day(context: Context, instant: Instant | None) -> str:
    return labels.NO_TIME if instant is None else labels.format_day(instant, context["zone"])


@pass_context
def _message_text(context: Context, explanation: MessageExplanation) -> ExplanationText:
    return explanations.message_text(explanation, context["zone"])


@pass_context
def _campaign_text(context: Context, explanation: CampaignExplanation) -> ExplanationText:
    return explanations.campaign_text(explanation, context["zone"])


def _with_query(query: Mapping[str, str], **changes: Any) -> str:
    """Return the current query string with some parameters changed; None removes one."""
    merged = {**dict(query), **changes}
    return "?" + urlencode({name: value for name, value in merged.items() if value not in (None, "")})


def _with_column_labels(rows: Markup, columns: Sequence[str | tuple[str, str]]) -> Markup:
    """Add the column name to each cell except the first, because narrow screens show each row as a block."""
    names = [each if isinstance(each, str) else each[0] for each in columns]
    column = -1

    def label(tag: re.Match[str]) -> str:
        nonlocal column
        if tag[1] == "tr":
            column = -1
            return tag[0]
        column += 1
        name = names[column].removeprefix("#") if 0 < column < len(names) else ""
        if not name or "data-label" in tag[2] or "main-cell" in tag[2]:
            return tag[0]
        return f'<td data-label="{escape(name[0].lower() + name[1:])}"{tag[2]}>'

    return Markup(_CELL.sub(label, rows))  # noqa: S704 - rendered already


def _strong_count(number: int, word: str, words: str | None = None) -> Markup:
    """Show `<strong>1,200</strong> messages`."""
    text = plural_message(f"{{count}} {word}", f"{{count}} {words or f'{word}s'}", number)
    return Markup(escape(text)).format(count=Markup("<strong>{}</strong>").format(number_text(number)))  # noqa: S704 - escaped


_CODE = re.compile(r"`([^`]+)`")


def _with_code(text: str) -> Markup:
    """Show the parts between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


_OPTIONS: Final[Mapping[str, Any]] = {
    "loader": PackageLoader(__package__),
    "autoescape": True,
    "undefined": StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
}
_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "number": labels.format_number,
    "count": count_text,
    "strong_count": _strong_count,
    "size": size_text,
    "share": labels.format_percent,
    "rate": labels.format_rate,
    "limit_name": explanations.limit_name,
    "assumption": explanations.assumption_text,
    "status_label": lambda status: labels.status_style(status).label,
    "browser": labels.browser_name,
    "check_name": labels.check_name,
    "words": labels.spell_name,
    "both_forms": both_forms,
    "readable": readable,
    "sentence": sentence,
    "with_code": _with_code,
    "with_chips": with_chips,
    "labelled": _with_column_labels,
    "clock": _clock,
    "weekday": weekday_text,
    "day": _day,
    "context": lambda text, _context: text,
    "translated": gettext,
}
_GLOBALS: Final[Mapping[str, Any]] = {
    "asset": asset,
    "script_texts": script_texts,
    "version": __version__,
    "languages": LANGUAGES,
    "status_style": labels.status_style,
    "message_text": _message_text,
    "campaign_text": _campaign_text,
    "included_texts": explanations.included_texts,
    "bulk_limit_text": explanations.bulk_limit_text,
    "mailout_wait_text": explanations.mailout_wait_text,
    "shown_status": shown_status,
    "action_links": action_links,
    "deferral_label": explanations.deferral_label,
    "has_end": explanations.has_end,
    "time": _time,
    "ab_test_state_text": ab_test_state_text,
    "ab_test_metric": metric_text,
    "bucket_labels": BUCKET_LABELS,
    "bucket_notes": BUCKET_NOTES,
    "readiness_text": sending_readiness.readiness_text,
    "readiness_remarks": sending_readiness.readiness_remarks,
    "readiness_path": FIX_PATHS.get,
    "consent_text": sending_readiness.consent_text,
    "send_label": sending_readiness.send_label,
    "sent_note": sending_readiness.sent_note,
    "with_query": _with_query,
}


@cache
def _templates(language: str) -> Environment:
    """Return the templates of a language, which are translated when they are compiled."""
    if language == ENGLISH.language:
        return _equipped(Environment(**_OPTIONS))  # noqa: S701 - the options have it
    return make_environment(load_catalogue(language).messages.get)


def make_environment(find: Find, find_count: Callable[[str, str], object] = lambda one, many: None) -> Environment:
    return _equipped(TranslatedEnvironment(find, find_count, **_OPTIONS))


def _equipped(environment: Environment) -> Environment:
    environment.filters |= _FILTERS
    environment.globals |= _GLOBALS
    return environment
