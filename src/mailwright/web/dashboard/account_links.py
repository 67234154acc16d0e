"""Pages behind the links in emails about accounts: accept an invitation, or replace a forgotten password."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import Response

from mailwright.access.account_links import LinkInvalid
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.roles import Forbidden
from mailwright.access.users import is_login
from mailwright.app.wiring import Engine
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext
from mailwright.ops.logs import logger
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.dashboard.sign_in import enter_first, oidc_required_text, origin_of, requires_oidc, too_many_text
from mailwright.web.session import host_of, require_own_origin
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sign-in", route_class=PageRoute, include_in_schema=False)

log = logger(__name__)

_INVALID: Final = HTTPStatus.UNPROCESSABLE_ENTITY


@router.get("/invitation")
async def show_invitation(request: Request, engine: EngineDep, token: str = "") -> Response:
    return await _invitation_page(request, engine, token)


@router.post("/invitation")
async def accept_invitation(request: Request, engine: EngineDep) -> Response:
    """Create the invited user and sign them in."""
    require_own_origin(request)
    form = await read_fields(request)
    invitation = await engine.account_links.find_invitation(form["token"])
    if requires_oidc(engine, invitation.role):
        raise Forbidden(oidc_required_text(engine))
    try:
        user = await engine.account_links.accept_invitation(form["token"], form["login"], form["password"])
    except LinkInvalid:
        raise
    except InvalidInput as error:
        return await _invitation_page(request, engine, form["token"], form, error)
    return await enter_first(request, engine, user, "/")


async def _invitation_page(
    request: Request, engine: Engine, token: str, form: Fields | None = None, error: InvalidInput | None = None
) -> Response:
    invitation = await engine.account_links.find_invitation(token)
    suggested = invitation.email if invitation.is_emailed and is_login(invitation.email) else ""
    values: dict[str, Any] = {
        "invitation": invitation,
        "login": suggested if form is None else form["login"],
        "token": token,
        "oidc": engine.oidc.settings if engine.oidc is not None else None,
        "errors": Errors() if error is None else field_errors(error),
    }
    status = HTTPStatus.OK if error is None else _INVALID
    return await page(request, None, "invitation.html", status=status, **values)


@router.get("/forgotten")
async def show_forgotten(request: Request) -> Response:
    return await page(request, None, "password_forgotten.html", is_requested=False, login="", errors=Errors())


@router.post("/forgotten")
async def request_reset(request: Request, engine: EngineDep) -> Response:
    """Email a link, and answer the same whether the user exists or not."""
    require_own_origin(request)
    login = (await read_fields(request))["login"]
    try:
        await engine.failed_sign_ins.limit_requests("reset", host_of(request))
    except TooManyFailedSignIns as error:
        errors = Errors({FORM: too_many_text(error)})
        values: dict[str, Any] = {"is_requested": False, "login": login[:320], "errors": errors}
        status = HTTPStatus.TOO_MANY_REQUESTS
        return await page(request, None, "password_forgotten.html", status=status, **values)
    response = await page(request, None, "password_forgotten.html", is_requested=True, login="", errors=Errors())
    # After the response, because its time must not reveal whether the user exists.
    response.background = BackgroundTask(_request_reset, engine, login)
    return response


async def _request_reset(engine: Engine, login: str) -> None:
    try:
        await engine.account_links.request_reset(login)
    except Exception:
        log.exception("password_reset_not_sent")


@router.get("/reset")
async def show_reset(request: Request, engine: EngineDep, token: str = "") -> Response:
    login = await engine.account_links.find_reset(token)
    return await page(request, None, "password_reset.html", login=login, token=token, errors=Errors())


@router.post("/reset")
async def reset_password(request: Request, engine: EngineDep) -> Response:
    require_own_origin(request)
    form = await read_fields(request)
    login = await engine.account_links.find_reset(form["token"])
    try:
        await engine.account_links.reset_password(form["token"], form["password"], origin=origin_of(request, engine))
    except LinkInvalid:
        raise
    except InvalidInput as error:
        login, errors = await engine.account_links.find_reset(form["token"]), field_errors(error)
        values: dict[str, Any] = {"login": login, "token": form["token"], "errors": errors}
        return await page(request, None, "password_reset.html", status=_INVALID, **values)
    # The link reached the owner, so failed sign-ins of others do not block this network.
    await engine.failed_sign_ins.remember(login, host_of(request))
    return redirect(request, "/sign-in", gettext("Password changed. Sign in with the new one."))
