"""The account page: password, two-factor authentication, identity provider and active sessions."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import Response

from mailwright.access import second_factor
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.app.wiring import Engine
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.translation import gettext
from mailwright.texts.times import count_text
from mailwright.web.dashboard import labels
from mailwright.web.dashboard.forms import Errors, field_errors, read_fields
from mailwright.web.dashboard.oidc import set_connecting_cookie
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.dashboard.sign_in import origin_of
from mailwright.web.languages import supported_language
from mailwright.web.session import ViewerDep, Visitor, host_of
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/account", route_class=PageRoute, include_in_schema=False)


# How long after a sign-in users without a password can change their account.
RECENT_SIGN_IN: Final[Instant] = 15 * MINUTE


class WrongPassword(InvalidInput):
    """The current password is wrong."""

    code = "WRONG_PASSWORD"


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    return await account_page(request, engine, visitor)


@router.post("/password")
async def change_password(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Change the password and end all other sessions."""
    form = await read_fields(request)
    try:
        await require_password(request, engine, visitor, form["current"])
        await engine.users.change_password(
            visitor.user.login,
            form["password"],
            actor=visitor.actor,
            keep_session=visitor.session.digest,
            origin=origin_of(request, engine),
        )
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await account_page(request, engine, visitor, error)
    return redirect(request, "/account", gettext("Password changed. All other sessions were signed out."))


@router.post("/email")
async def change_email(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Email a link to the new address. It replaces the current address when the user confirms it."""
    form = await read_fields(request)
    try:
        await require_password(request, engine, visitor, form["current"])
        origin = origin_of(request, engine)
        if form["email"]:
            await engine.account_links.request_address(visitor.user, form["email"], origin=origin)
        else:
            await engine.users.change_email(visitor.user.login, "", actor=visitor.actor, origin=origin)
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await account_page(request, engine, visitor, error, place="email", email=form["email"])
    words = (
        gettext("Open the link in the email to the new address to confirm it.")
        if form["email"]
        else gettext("Address removed.")
    )
    return redirect(request, "/account", words)


@router.get("/email/confirm")
async def show_confirmation(request: Request, engine: EngineDep, visitor: ViewerDep, token: str = "") -> Response:
    """Ask before the address changes, because mail programs open links too."""
    email = await engine.account_links.find_confirmation(visitor.user, token)
    return await page(request, visitor, "confirm_address.html", email=email, token=token)


@router.post("/email/confirm")
async def confirm_email(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    form, origin = await read_fields(request), origin_of(request, engine)
    email = await engine.account_links.confirm_address(visitor.user, form["token"], origin=origin)
    return redirect(request, "/account", gettext("Your address is now {email}.", email=email))


@router.post("/email/cancel")
async def cancel_email(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    await engine.account_links.cancel_address(visitor.user)
    return redirect(request, "/account", gettext("The new address is discarded."))


@router.post("/language")
async def change_language(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Change the language of the dashboard, for this user in every browser."""
    language = supported_language((await read_fields(request))["language"])
    await engine.users.change_language(visitor.user, language)
    return redirect(request, "/account")


@router.post("/second-factor")
async def begin_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    await engine.second_factors.begin(visitor.user)
    return redirect(request, "/account#second-factor")


@router.post("/second-factor/confirm")
async def confirm_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Turn on the second factor and show the recovery codes, which are never shown again."""
    form = await read_fields(request)
    codes = await engine.second_factors.confirm(visitor.user, form["code"], keep_session=visitor.session.digest)
    if codes is None:
        error = InvalidInput(gettext("Wrong code. Check that the clock of your phone is correct."), field="code")
        return await account_page(request, engine, visitor, error)
    return await page(request, visitor, "recovery_codes.html", codes=codes)


@router.post("/second-factor/drop")
async def remove_second_factor(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    form = await read_fields(request)
    try:
        await require_password(request, engine, visitor, form["current"])
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await account_page(request, engine, visitor, error, place="drop")
    origin = origin_of(request, engine)
    await engine.second_factors.remove(visitor.user, actor=visitor.actor, with_passkeys=False, origin=origin)
    return redirect(request, "/account", gettext("Authenticator app removed."))


@router.post("/identities")
async def connect_identity(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Confirm the user, then let them continue to the identity provider."""
    form = await read_fields(request)
    if engine.identities is None:
        raise NotFound(gettext("No identity provider is configured."))
    try:
        await require_password(request, engine, visitor, form["current"])
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await account_page(request, engine, visitor, error, place="identity")
    response = await page(request, visitor, "connect_identity.html", label=engine.settings.oidc_label)
    set_connecting_cookie(request, response, engine.identities, visitor.user)
    return response


@router.post("/identities/{identity_id}/drop")
async def disconnect_identity(request: Request, engine: EngineDep, visitor: ViewerDep, identity_id: int) -> Response:
    if engine.identities is None:
        raise NotFound(gettext("No identity provider is configured."))
    await engine.identities.disconnect(visitor.user, identity_id, actor=visitor.actor)
    return redirect(request, "/account", gettext("{oidc_label} disconnected.", oidc_label=engine.settings.oidc_label))


@router.post("/sessions/end-others")
async def end_other_sessions(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    ended = await engine.sessions.end_others(visitor.session)
    return redirect(request, "/account", gettext("{ended} signed out.", ended=count_text(ended, "other session")))


@router.post("/sessions/{session_id}/end")
async def end_session(request: Request, engine: EngineDep, visitor: ViewerDep, session_id: int) -> Response:
    await engine.sessions.end(visitor.session, session_id)
    return redirect(request, "/account", gettext("Session signed out."))


async def require_password(request: Request, engine: Engine, visitor: Visitor, password: str) -> None:
    """Ask for the password again, so that an unlocked screen is not enough to take over the account.

    Users without a password must have signed in recently.
    """
    if not visitor.user.has_password:
        if engine.clock.now() - visitor.session.created_at > RECENT_SIGN_IN:
            raise WrongPassword(gettext("Sign out, sign in again and repeat this within 15 minutes."), field="current")
        return
    if not await engine.users.confirm_password(visitor.user, password, host_of(request)):
        raise WrongPassword(field="current")


async def account_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    error: MailwrightError | None = None,
    *,
    place: str = "",
    email: str | None = None,
) -> Response:
    secret = None if visitor.user.has_totp else await engine.second_factors.pending_secret(visitor.user)
    values: dict[str, Any] = {
        "sessions": await engine.sessions.list_for_user(visitor.user, visitor.session),
        "passkeys": await engine.passkeys.list_for_user(visitor.user),
        "can_add_passkeys": engine.passkeys.is_available,
        "device": labels.known_browser(request.headers.get("user-agent", "")) or "",
        "secret": secret,
        "picture": Markup(second_factor.qr_code_svg(secret, visitor.user.login)) if secret else None,  # noqa: S704
        "errors": field_errors(error) if error is not None else Errors(),
        "place": place,
        "identities": await engine.identities.list_for_user(visitor.user) if engine.identities is not None else None,
        "label": engine.settings.oidc_label,
        "email": email if email is not None else visitor.user.address or "",
        "requested_email": await engine.account_links.find_requested_address(visitor.user),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "account.html", status=status, **values)
