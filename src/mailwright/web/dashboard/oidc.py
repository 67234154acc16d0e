"""Sign-in with an identity provider (OpenID Connect), and connecting it to an existing account."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.challenges import ChallengeInvalid, ChallengeKind
from mailwright.access.id_tokens import Person
from mailwright.access.identities import Identities
from mailwright.access.roles import Forbidden
from mailwright.access.sign_in_log import SignInMethod
from mailwright.access.users import User
from mailwright.app.oidc import Flow, OidcClient, ProviderUnavailable
from mailwright.app.wiring import Engine
from mailwright.domain.errors import MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.ops.logs import logger
from mailwright.web.dashboard.shell import PageRoute, redirect
from mailwright.web.dashboard.sign_in import enter, origin_of, sign_in_page
from mailwright.web.session import delete_cookie, find_visitor, host_of, read_cookie, set_cookie
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sign-in/oidc", route_class=PageRoute, include_in_schema=False)

log = logger(__name__)

_COOKIE: Final = "mailwright-oidc"


@router.get("")
async def begin(request: Request, engine: EngineDep) -> Response:
    """Redirect to the identity provider.

    This is a link, not a form, because the Content-Security-Policy lets forms lead to our own pages only.
    """
    client, identities = _configured(engine)
    flow, query = Flow.begin(), request.query_params
    values: dict[str, Any] = {"next": query.get("next", "")[:1_000], "invitation": query.get("invitation", "")[:100]}
    try:
        if "connect" in query:
            values["user"] = identities.challenges.open(ChallengeKind.CONNECT, read_cookie(request, _COOKIE))["user"]
        url = await client.authorization_url(flow)
    except (ProviderUnavailable, ChallengeInvalid) as error:
        return await _failed(request, engine, error)
    response = RedirectResponse(url, HTTPStatus.SEE_OTHER, headers={"Cache-Control": "no-store"})
    sealed = identities.challenges.seal(ChallengeKind.OIDC, {**values, **asdict(flow)})
    set_cookie(request, response, _COOKIE, sealed)
    return response


def set_connecting_cookie(request: Request, response: Response, identities: Identities, user: User) -> None:
    """Remember that this user has confirmed to connect the identity provider."""
    set_cookie(request, response, _COOKIE, identities.challenges.seal(ChallengeKind.CONNECT, {"user": user.id}))


@router.get("/callback")
async def finish(request: Request, engine: EngineDep) -> Response:
    """Sign in the person whom the identity provider sends back."""
    client, identities = _configured(engine)
    try:
        challenge = identities.challenges.open(ChallengeKind.OIDC, read_cookie(request, _COOKIE))
        flow = Flow(challenge["state"], challenge["nonce"], challenge["verifier"])
        person = await client.finish(flow, dict(request.query_params))
        if "user" in challenge:
            response = await _connect(request, engine, identities, person, challenge)
        else:
            response = await _sign_in(request, engine, identities, person, challenge)
    except (Forbidden, ProviderUnavailable, NotPossibleNow, NotFound) as error:
        response = await _failed(request, engine, error)
    delete_cookie(request, response, _COOKIE)
    return response


async def _sign_in(
    request: Request, engine: Engine, identities: Identities, person: Person, challenge: dict[str, Any]
) -> Response:
    user = await identities.sign_in(person, challenge, invitation=challenge["invitation"])
    host = host_of(request)
    is_new_network = await engine.users.is_new_network(user.login, host)
    await engine.failed_sign_ins.remember(user.login, host)
    return await enter(
        request,
        engine,
        user,
        challenge["next"],
        SignInMethod.IDENTITY_PROVIDER,
        is_new_network=is_new_network,
        proved_two_factors=person.proved_two_factors,
    )


async def _connect(
    request: Request, engine: Engine, identities: Identities, person: Person, challenge: dict[str, Any]
) -> Response:
    visitor = await find_visitor(request)
    if visitor is None or visitor.session.awaits_code or visitor.user.id != challenge["user"]:
        raise ChallengeInvalid
    await identities.connect(visitor.user, person, challenge, origin=origin_of(request, engine))
    return redirect(request, "/account", gettext("{oidc_label} connected.", oidc_label=engine.settings.oidc_label))


def _configured(engine: Engine) -> tuple[OidcClient, Identities]:
    if engine.oidc is None or engine.identities is None:
        raise NotFound(gettext("This page does not exist."))
    return engine.oidc, engine.identities


async def _failed(request: Request, engine: Engine, error: MailwrightError) -> Response:
    """Show the sign-in page with the reason. Passwords of administrators still work."""
    log.warning("oidc_sign_in_failed", code=error.code, reason=str(error))
    await engine.failed_sign_ins.record(SignInMethod.IDENTITY_PROVIDER, host_of(request), str(error))
    is_unavailable = isinstance(error, ProviderUnavailable)
    status = HTTPStatus.BAD_GATEWAY if is_unavailable else HTTPStatus.FORBIDDEN
    advice = (" " + gettext("Administrators can sign in with their password.")) if is_unavailable else ""
    return await sign_in_page(request, engine, error=f"{error.text}{advice}", status=status)
