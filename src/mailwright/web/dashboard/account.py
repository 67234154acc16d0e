"""The account page: password, two-factor authentication and active sessions."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from mailwright.access import second_factor
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.app.wiring import Engine
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.web.dashboard.forms import Errors, field_errors, read_fields
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import ViewerDep, Visitor, host_of
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/account", route_class=PageRoute, include_in_schema=False)


class WrongPassword(InvalidInput):
    """The current password is wrong."""

    code = "WRONG_PASSWORD"


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    return await _page(request, engine, visitor)


@router.post("/password")
async def change_password(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Change the password and end all other sessions."""
    form = await read_fields(request)
    try:
        await _require_password(request, engine, visitor, form["current"])
        digest = visitor.session.digest
        await engine.users.change_password(
            visitor.user.login, form["password"], actor=visitor.actor, keep_session=digest
        )
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await _page(request, engine, visitor, error)
    return redirect(request, "/account", "Password changed. All other sessions were signed out.")


@router.post("/second-factor")
async def begin_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    await engine.users.begin_second_factor(visitor.user)
    return redirect(request, "/account#second-factor")


@router.post("/second-factor/confirm")
async def confirm_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Turn on the second factor and show the recovery codes, which are never shown again."""
    form = await read_fields(request)
    codes = await engine.users.confirm_second_factor(visitor.user, form["code"], keep_session=visitor.session.digest)
    if codes is None:
        error = InvalidInput("Wrong code. Check that the clock of your phone is correct.", field="code")
        return await _page(request, engine, visitor, error)
    return await page(request, visitor, "recovery_codes.html", codes=codes)


@router.post("/second-factor/drop")
async def remove_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    form = await read_fields(request)
    try:
        await _require_password(request, engine, visitor, form["current"])
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await _page(request, engine, visitor, error, place="drop")
    await engine.users.remove_second_factor(visitor.user.login, actor=visitor.actor)
    return redirect(request, "/account", "Two-factor authentication turned off.")


@router.post("/sessions/{session_id}/end")
async def end_session(request: Request, engine: EngineDep, visitor: ViewerDep, session_id: int) -> Response:
    await engine.sessions.end(visitor.session, session_id)
    return redirect(request, "/account", "Session signed out.")


async def _require_password(request: Request, engine: Engine, visitor: Visitor, password: str) -> None:
    """Ask for the password again, so that an unlocked screen is not enough to take over the account."""
    if not await engine.users.confirm_password(visitor.user, password, host_of(request)):
        raise WrongPassword(field="current")


async def _page(
    request: Request, engine: Engine, visitor: Visitor, error: MailwrightError | None = None, place: str = ""
) -> Response:
    secret = None if visitor.user.has_second_factor else await engine.users.pending_secret(visitor.user)
    values: dict[str, Any] = {
        "sessions": await engine.sessions.list_for_user(visitor.session),
        "secret": secret,
        "picture": Markup(second_factor.qr_code_svg(secret, visitor.user.login)) if secret else None,  # noqa: S704
        "errors": field_errors(error) if error is not None else Errors(),
        "place": place,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "account.html", status=status, **values)
