"""Sign-in with password and optional second factor, sign-out, and the first administrator."""

from http import HTTPStatus
from typing import Any, TypedDict
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from mailwright.access.account_notices import RequestOrigin
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.initial_setup import SetupLinkInvalid
from mailwright.access.roles import Role
from mailwright.access.sign_in_log import SignInMethod
from mailwright.access.users import User
from mailwright.app.wiring import Engine
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.translation import gettext, lazy_gettext, lazy_text
from mailwright.ops.logs import logger
from mailwright.texts.times import duration
from mailwright.web.dashboard import labels
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, local_path, page, redirect
from mailwright.web.languages import set_language_cookie
from mailwright.web.session import (
    SignInRequired,
    ViewerDep,
    Visitor,
    delete_session_cookie,
    find_visitor,
    host_of,
    require_own_form,
    require_own_origin,
    set_session_cookie,
)
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

log = logger(__name__)


class SessionOrigin(TypedDict):
    """IP address and user agent of a session, as the account page shows them."""

    address: str
    agent: str


@router.get("/sign-in")
async def show_sign_in(request: Request, engine: EngineDep) -> Response:
    if language := request.query_params.get("lang"):
        response = redirect(request, f"/sign-in?{urlencode({'next': request.query_params.get('next', '')})}")
        set_language_cookie(response, language)
        return response
    visitor = await find_visitor(request)
    if visitor is not None and not visitor.session.awaits_code:
        return RedirectResponse(_after_sign_in(request.query_params.get("next")), HTTPStatus.SEE_OTHER)
    has_users = engine.admin_password is not None or await engine.users.has_any()
    next_path = request.query_params.get("next", "")
    return await sign_in_page(request, engine, next_path=next_path, has_users=has_users)


@router.post("/sign-in")
async def sign_in(request: Request, engine: EngineDep) -> Response:
    """Sign in. There is no session and so no form token yet; the Origin header protects this form."""
    require_own_origin(request)
    form = await read_fields(request)
    try:
        is_new_network = await engine.users.is_new_network(form["login"], host_of(request))
        user = await engine.users.sign_in(form["login"], form["password"], host_of(request))
    except TooManyFailedSignIns as error:
        way_in = gettext("To sign in before that, reset your password with a link by email.")
        return await _refused(request, engine, form, f"{too_many_text(error)} {way_in}", HTTPStatus.TOO_MANY_REQUESTS)
    if user is None:
        return await _refused(request, engine, form, gettext("Wrong user name or password."), HTTPStatus.UNAUTHORIZED)
    if requires_oidc(engine, user.role):
        return await _refused(request, engine, form, oidc_required_text(engine), HTTPStatus.FORBIDDEN)
    return await enter(request, engine, user, form["next"], SignInMethod.PASSWORD, is_new_network=is_new_network)


async def _notify(engine: Engine, user: User, origin: RequestOrigin) -> None:
    try:
        await engine.users.notices.notify_sign_in(user, origin)
    except Exception:
        log.exception("sign_in_notice_not_sent")


def origin_of(request: Request, engine: Engine) -> RequestOrigin:
    """Return where a request comes from, for notices about accounts."""
    now, origin = engine.clock.now(), _session_origin(request)
    zone = ZoneInfo(engine.defaults.limits.timezone)
    # Never show an unknown user agent: it is a text that a stranger chose.
    browser = labels.known_browser(origin["agent"]) or lazy_gettext("an unknown browser")
    return RequestOrigin(origin["address"], browser, lazy_text(lambda: labels.format_full(now, now, zone)))


@router.get("/sign-in/link")
async def show_sign_in_link(request: Request, engine: EngineDep) -> Response:
    """Ask before signing in. Otherwise a page of another site could sign its visitors in as someone else."""
    token = request.query_params.get("token", "")
    login = await engine.sessions.find_link(token)
    if login is None:
        raise _link_expired()
    return await page(request, None, "sign_in_link.html", login=login, token=token)


@router.post("/sign-in/link")
async def sign_in_with_link(request: Request, engine: EngineDep) -> Response:
    """Sign in with a link from `mailwright user link`. Its token works once."""
    require_own_origin(request)
    form = await read_fields(request)
    redeemed = await engine.sessions.redeem_link(form["token"], **_session_origin(request))
    if redeemed is None:
        raise _link_expired()
    token, awaits_code = redeemed
    response = redirect(request, "/sign-in/code" if awaits_code else "/")
    set_session_cookie(request, response, token)
    return response


@router.get("/sign-in/code")
async def show_code(request: Request) -> Response:
    next_path = request.query_params.get("next", "")
    visitor = await visitor_awaiting_code(request)
    if visitor is None:
        return RedirectResponse(_after_sign_in(next_path), HTTPStatus.SEE_OTHER)
    return await code_page(request, visitor, next_path)


@router.post("/sign-in/code")
async def verify_code(request: Request, engine: EngineDep) -> Response:
    visitor = await visitor_awaiting_code(request)
    if visitor is None:
        return redirect(request, "/")
    await require_own_form(request, visitor.token)
    form = await read_fields(request)
    try:
        is_right = await engine.second_factors.verify(
            visitor.user, form["code"], host_of(request), origin_of(request, engine)
        )
        wrong, status = gettext("This code is wrong or was already used."), HTTPStatus.UNAUTHORIZED
    except TooManyFailedSignIns as error:
        is_right, wrong, status = False, too_many_text(error), HTTPStatus.TOO_MANY_REQUESTS
    if not is_right:
        return await code_page(request, visitor, form["next"], Errors(code=wrong), status=status)
    return await complete_sign_in(request, engine, visitor, form["next"], SignInMethod.CODE)


async def complete_sign_in(
    request: Request, engine: Engine, visitor: Visitor, to: str, method: SignInMethod
) -> Response:
    """Turn the session of a visitor who has passed the second factor into a full session."""
    token = await engine.sessions.renew(visitor.session, **_session_origin(request), method=method)
    response = redirect(request, _after_sign_in(to))
    set_session_cookie(request, response, token)
    return response


async def code_page(
    request: Request,
    visitor: Visitor,
    next_path: str,
    errors: Errors | None = None,
    *,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    return await page(
        request,
        None,
        "code.html",
        status=status,
        errors=errors or Errors(),
        form_token=visitor.form_token,
        next=next_path,
        user=visitor.user,
    )


@router.post("/sign-out")
async def sign_out(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    await engine.sessions.end(visitor.session)
    response = redirect(request, "/sign-in")
    delete_session_cookie(request, response)
    return response


@router.post("/tenant")
async def switch_tenant(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Switch the tenant and redirect to the section's list, because the open object belongs to the previous tenant."""
    form = await read_fields(request)
    await engine.sessions.switch_tenant(visitor.session, form["tenant"])
    section = "/" + local_path(form["next"]).split("/")[1]
    return redirect(request, section)


# The first administrator.


@router.get("/set-up")
async def show_set_up(request: Request, engine: EngineDep) -> Response:
    if await engine.users.has_any():
        return RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
    token = request.query_params.get("token", "")
    return await page(request, None, "set_up.html", errors=Errors(), login="admin", token=token)


@router.post("/set-up")
async def set_up(request: Request, engine: EngineDep) -> Response:
    require_own_origin(request)
    form = await read_fields(request)
    try:
        user = await engine.initial_setup.create_admin(form["token"], form["login"], form["password"])
    except (InvalidInput, SetupLinkInvalid) as error:
        values: dict[str, Any] = {"errors": field_errors(error), "login": form["login"], "token": form["token"]}
        return await page(request, None, "set_up.html", status=HTTPStatus.UNPROCESSABLE_ENTITY, **values)
    return await enter_first(request, engine, user, "/set-up/continue")


async def enter_first(request: Request, engine: Engine, user: User, to: str) -> Response:
    """Sign in a new user. Their network counts as known, so that sign-ins from others are reported."""
    await engine.failed_sign_ins.remember(user.login, host_of(request))
    return await enter(request, engine, user, to, SignInMethod.INVITATION)


async def enter(
    request: Request,
    engine: EngineDep,
    user: User,
    to: str,
    method: SignInMethod,
    *,
    is_new_network: bool = False,
    proved_two_factors: bool = False,
) -> Response:
    """Open a new session and redirect to the page `to`, or first to the code of the second factor."""
    origin = _session_origin(request)
    token = await engine.sessions.open(user, **origin, method=method, proved_two_factors=proved_two_factors)
    target, awaits_code = _after_sign_in(to), user.has_second_factor and not proved_two_factors
    response = redirect(request, f"/sign-in/code?next={quote(target)}" if awaits_code else target)
    set_session_cookie(request, response, token)
    if is_new_network and user.seen_at is not None:
        response.background = BackgroundTask(_notify, engine, user, origin_of(request, engine))
    return response


async def sign_in_page(
    request: Request,
    engine: Engine,
    *,
    error: str = "",
    status: HTTPStatus = HTTPStatus.OK,
    login: str = "",
    next_path: str = "",
    has_users: bool = True,
) -> Response:
    return await page(
        request,
        None,
        "sign_in.html",
        status=status,
        errors=Errors({FORM: error} if error else {}),
        login=login[:100],
        next=next_path,
        has_users=has_users,
        oidc=engine.oidc.settings if engine.oidc is not None else None,
        has_passkeys=engine.passkeys.is_available,
    )


def requires_oidc(engine: Engine, role: Role) -> bool:
    """Return whether users of a role sign in with the identity provider only. Administrators have another way."""
    return engine.oidc is not None and not engine.oidc.settings.allows_passwords and role is not Role.ADMIN


def oidc_required_text(engine: Engine) -> str:
    label = engine.oidc.settings.label if engine.oidc is not None else ""
    return gettext("Sign in with {label}. Only administrators can use a password or a passkey here.", label=label)


async def visitor_awaiting_code(request: Request) -> Visitor | None:
    """Return the visitor who must enter a code, or None if they are signed in already."""
    visitor = await find_visitor(request)
    if visitor is None:
        raise SignInRequired
    return visitor if visitor.session.awaits_code else None


def _after_sign_in(next_path: str | None) -> str:
    """Return the page to show after the sign-in, which is never a page of the sign-in itself."""
    path = local_path(next_path)
    return "/" if path.startswith("/sign-in") else path


def _link_expired() -> NotFound:
    return NotFound(
        gettext("This sign-in link has expired or was already used. Create a new one with `mailwright user link`.")
    )


async def _refused(request: Request, engine: Engine, form: Fields, sentence: str, status: HTTPStatus) -> Response:
    """Show the form again and keep the page to return to."""
    return await sign_in_page(
        request, engine, error=sentence, status=status, login=form["login"], next_path=form["next"]
    )


def too_many_text(error: TooManyFailedSignIns) -> str:
    return gettext(
        "Too many failed attempts. Try again in {retry_after_seconds}.",
        retry_after_seconds=duration(error.retry_after_seconds * 1000),
    )


def _session_origin(request: Request) -> SessionOrigin:
    return SessionOrigin(address=host_of(request) or "unknown", agent=request.headers.get("user-agent", ""))
