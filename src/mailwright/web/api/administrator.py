"""Authentication of administrators: scripts send `ADMIN_PASSWORD` as a bearer token, users sign in.

A route takes `administrator: AdministratorDep`, declares `openapi_extra=ADMINISTRATORS_ONLY`, and writes
`administrator.actor` to the audit log.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from mailwright.access.api_keys import is_api_key
from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.domain.errors import Unauthorized
from mailwright.web.session import SecondFactorRequired, SignInRequired, host_of, session_token, visitor_of
from mailwright.web.state import engine_of

# Marks a route in the OpenAPI description, which then gets the responses 401 and 429.
SECURITY_SCHEME: Final = "administrator"
ADMINISTRATORS_ONLY: Final[dict[str, Any]] = {"security": [{SECURITY_SCHEME: []}]}

# Wrong passwords are counted under this account name, which no user can have.
_ACCOUNT: Final = "ADMIN_PASSWORD"
_BEARER = re.compile(r"bearer +(\S.{0,999})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Administrator:
    """`actor` is the name in the audit log."""

    actor: str


async def administrator_of(request: Request) -> Administrator:
    """Authenticate an administrator. A wrong password counts as a failed sign-in; a missing one does not."""
    authorization = request.headers.get("authorization")
    if authorization is None and session_token(request) is not None:
        return await _by_session(request)
    bearer = _BEARER.fullmatch(authorization or "")
    # An API key is no failed sign-in: a program that uses the wrong route must not block its address.
    if bearer is None or is_api_key(bearer[1]):
        raise _unauthorized()
    return await _by_password(request, engine_of(request), bearer[1])


AdministratorDep = Annotated[Administrator, Depends(administrator_of)]


async def _by_password(request: Request, engine: Engine, shown: str) -> Administrator:
    async def verify() -> Administrator | None:
        expected = engine.admin_password
        # Headers are decoded as Latin-1, so encode them again to compare the bytes of the password.
        is_right = expected is not None and secrets.compare_digest(shown.encode("latin-1"), expected.encode())
        return Administrator("ADMIN_PASSWORD") if is_right else None

    found = await engine.failed_sign_ins.check(_ACCOUNT, host_of(request), verify)
    if found is None:
        raise _unauthorized()
    return found


async def _by_session(request: Request) -> Administrator:
    try:
        return Administrator((await visitor_of(request, Role.ADMIN)).actor)
    except (SignInRequired, SecondFactorRequired) as error:
        raise _unauthorized() from error


def _unauthorized() -> Unauthorized:
    return Unauthorized(
        "Send the administrator password: Authorization: Bearer <ADMIN_PASSWORD>. It must be configured."
    )
