"""Sign-in with password and optional second factor, sign-out, and the first administrator."""

from http import HTTPStatus
from typing import Any, TypedDict
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.initial_setup import SetupLinkInvalid
from mailwright.access.users import User
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.schemas.time_text import duration
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, local_path, page, redirect
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


class SessionOrigin(TypedDict):
    """IP address and user agent of a session, as the account page shows them."""

    address: str
    agent: str


@router.get("/sign-in")
async def show_sign_in(request: Request, engine: EngineDep) -> Response:
    visitor = await find_visitor(request)
    if visitor is not None and not visitor.session.awaits_code:
        return RedirectResponse(_after_sign_in(request.query_params.get("next")), HTTPStatus.SEE_OTHER)
    has_users = engine.admin_password is not None or await engine.users.has_any()
    values: dict[str, Any] = {"errors": Errors(), "login": "", "next": request.query_params.get("next", "")}
    return await page(request, None, "sign_in.html", has_users=has_users, **values)


@router.post("/sign-in")
async def sign_in(request: Request, engine: EngineDep) -> Response:
    """Sign in. There is no session and so no form token yet; the Origin header protects this form."""
    require_own_origin(request)
    form = await read_fields(request)
    try:
        user = await engine.users.sign_in(form["login"], form["password"], host_of(request))
    except TooManyFailedSignIns as error:
        return await _refused(request, form, _too_many(error), HTTPStatus.TOO_MANY_REQUESTS)
    if user is None:
        return await _refused(request, form, "Wrong user name or password.", HTTPStatus.UNAUTHORIZED)
    return await _enter(request, engine, user, form["next"])


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
    visitor = await _visitor_awaiting_code(request)
    if visitor is None:
        return RedirectResponse(_after_sign_in(next_path), HTTPStatus.SEE_OTHER)
    values: dict[str, Any] = {"errors": Errors(), "form_token": visitor.form_token, "next": next_path}
    return await page(request, None, "code.html", **values)


@router.post("/sign-in/code")
async def verify_code(request: Request, engine: EngineDep) -> Response:
    visitor = await _visitor_awaiting_code(request)
    if visitor is None:
        return redirect(request, "/")
    await require_own_form(request, visitor.token)
    form = await read_fields(request)
    try:
        is_right = await engine.users.verify_code(visitor.user, form["code"], host_of(request))
        wrong, status = "This code is wrong or was already used.", HTTPStatus.UNAUTHORIZED
    except TooManyFailedSignIns as error:
        is_right, wrong, status = False, _too_many(error), HTTPStatus.TOO_MANY_REQUESTS
    if not is_right:
        errors = Errors(code=wrong)
        values: dict[str, Any] = {"errors": errors, "form_token": visitor.form_token, "next": form["next"]}
        return await page(request, None, "code.html", status=status, **values)
    token = await engine.sessions.renew(visitor.session, **_session_origin(request))
    response = redirect(request, _after_sign_in(form["next"]))
    set_session_cookie(request, response, token)
    return response


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
    return await _enter(request, engine, user, "/")


async def _enter(request: Request, engine: EngineDep, user: User, to: str) -> Response:
    token = await engine.sessions.open(user, **_session_origin(request))
    target = _after_sign_in(to)
    response = redirect(request, f"/sign-in/code?next={quote(target)}" if user.has_second_factor else target)
    set_session_cookie(request, response, token)
    return response


async def _visitor_awaiting_code(request: Request) -> Visitor | None:
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
    return NotFound("This sign-in link has expired or was already used. Create a new one with `mailwright user link`.")


async def _refused(request: Request, form: Fields, sentence: str, status: HTTPStatus) -> Response:
    """Show the form again and keep the page to return to."""
    return await page(
        request,
        None,
        "sign_in.html",
        status=status,
        errors=Errors({FORM: sentence}),
        login=form["login"][:100],
        next=form["next"],
        has_users=True,
    )


def _too_many(error: TooManyFailedSignIns) -> str:
    return f"Too many failed attempts. Try again in {duration(error.retry_after_seconds * 1000)}."


def _session_origin(request: Request) -> SessionOrigin:
    return SessionOrigin(address=host_of(request) or "unknown", agent=request.headers.get("user-agent", ""))
