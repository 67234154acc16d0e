"""Passkeys: sign in with one, use one as the second factor, and manage them on the account page.

A script asks the device for a passkey and submits its answer as a form. Without scripts, these forms are hidden.
"""

from http import HTTPStatus
from typing import Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.challenges import ChallengeInvalid
from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.passkeys import PasskeyRefused, PasskeyRequest
from mailwright.access.sign_in_log import SignInMethod
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.account import account_page, require_password
from mailwright.web.dashboard.forms import FORM, Errors, read_fields
from mailwright.web.dashboard.json_route import JsonRoute
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.dashboard.sign_in import (
    code_page,
    complete_sign_in,
    enter,
    oidc_required_text,
    origin_of,
    requires_oidc,
    sign_in_page,
    visitor_awaiting_code,
)
from mailwright.web.session import (
    SignInRequired,
    ViewerDep,
    host_of,
    read_cookie,
    require_own_form,
    require_own_origin,
    set_cookie,
)
from mailwright.web.state import EngineDep

requests = APIRouter(route_class=JsonRoute, include_in_schema=False)
router = APIRouter(route_class=PageRoute, include_in_schema=False)

_COOKIE: Final = "mailwright-passkey"


@requests.post("/sign-in/passkey/options")
async def request_sign_in(request: Request, engine: EngineDep) -> Response:
    require_own_origin(request)
    return _options(request, engine.passkeys.begin_sign_in())


@router.post("/sign-in/passkey")
async def sign_in(request: Request, engine: EngineDep) -> Response:
    """Sign in with a passkey alone. The device has verified its user, so this counts as two factors."""
    require_own_origin(request)
    form = await read_fields(request)
    try:
        user = await engine.passkeys.sign_in(read_cookie(request, _COOKIE), form["credential"])
    except (PasskeyRefused, ChallengeInvalid, NotPossibleNow) as error:
        await engine.failed_sign_ins.record(SignInMethod.PASSKEY, host_of(request), str(error))
        status = HTTPStatus.FORBIDDEN
        return await sign_in_page(request, engine, error=error.text, status=status, next_path=form["next"])
    if requires_oidc(engine, user.role):
        return await sign_in_page(request, engine, error=oidc_required_text(engine), status=HTTPStatus.FORBIDDEN)
    is_new_network = await engine.users.is_new_network(user.login, host_of(request))
    await engine.failed_sign_ins.remember(user.login, host_of(request))
    return await enter(
        request,
        engine,
        user,
        form["next"],
        SignInMethod.PASSKEY,
        is_new_network=is_new_network,
        proved_two_factors=True,
    )


@requests.post("/sign-in/code/passkey/options")
async def request_second_factor(request: Request, engine: EngineDep) -> Response:
    visitor = await visitor_awaiting_code(request)
    if visitor is None:
        raise SignInRequired
    await require_own_form(request, visitor.token)
    return _options(request, await engine.passkeys.begin_second_factor(visitor.user))


@router.post("/sign-in/code/passkey")
async def verify_second_factor(request: Request, engine: EngineDep) -> Response:
    """Accept a passkey instead of a code, after the password."""
    visitor = await visitor_awaiting_code(request)
    if visitor is None:
        return redirect(request, "/")
    await require_own_form(request, visitor.token)
    form = await read_fields(request)
    try:
        sealed = read_cookie(request, _COOKIE)
        await engine.passkeys.verify_second_factor(visitor.user, sealed, form["credential"])
    except (PasskeyRefused, ChallengeInvalid, NotPossibleNow) as error:
        errors = Errors({FORM: error.text})
        return await code_page(request, visitor, form["next"], errors, status=HTTPStatus.FORBIDDEN)
    return await complete_sign_in(request, engine, visitor, form["next"], SignInMethod.PASSKEY)


@requests.post("/account/passkeys/options")
async def request_registration(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    form = await read_fields(request)
    await require_password(request, engine, visitor, form["current"])
    return _options(request, await engine.passkeys.begin_registration(visitor.user))


@router.post("/account/passkeys")
async def register(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Store a passkey, and show new recovery codes if the user had none."""
    form = await read_fields(request)
    try:
        codes = await engine.passkeys.register(
            visitor.user,
            read_cookie(request, _COOKIE),
            form["credential"],
            form["name"],
            keep_session=visitor.session.digest,
            origin=origin_of(request, engine),
        )
    except InvalidInput as error:
        return await account_page(request, engine, visitor, error, place="passkey")
    if codes is not None:
        return await page(request, visitor, "recovery_codes.html", codes=codes)
    return redirect(request, "/account#passkeys", gettext("Passkey added. All other sessions were signed out."))


@router.post("/account/passkeys/{passkey_id}/rename")
async def rename(request: Request, engine: EngineDep, visitor: ViewerDep, passkey_id: int) -> Response:
    form = await read_fields(request)
    await engine.passkeys.rename(visitor.user, passkey_id, form["name"])
    return redirect(request, "/account#passkeys", gettext("Passkey renamed."))


@router.post("/account/passkeys/{passkey_id}/drop")
async def remove(request: Request, engine: EngineDep, visitor: ViewerDep, passkey_id: int) -> Response:
    form = await read_fields(request)
    try:
        await require_password(request, engine, visitor, form["current"])
    except (InvalidInput, TooManyFailedSignIns) as error:
        return await account_page(request, engine, visitor, error, place=f"passkey-{passkey_id}")
    origin = origin_of(request, engine)
    name = await engine.passkeys.remove(visitor.user, passkey_id, actor=visitor.actor, origin=origin)
    return redirect(request, "/account#passkeys", gettext("Passkey {name} removed.", name=name))


def _options(request: Request, asked: PasskeyRequest) -> Response:
    response = Response(
        orjson.dumps(asked.options), media_type="application/json", headers={"Cache-Control": "no-store"}
    )
    set_cookie(request, response, _COOKIE, asked.sealed)
    return response
