"""Authentication of administrators of the installation: scripts send `ADMIN_PASSWORD` as a bearer token, users sign in.

A route takes `administrator: AdministratorDep`, declares `scope=Credential.ADMINISTRATOR`, and writes
`administrator.actor` to the audit log.
"""

import re
import secrets
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from mailwright.access.api_keys import is_api_key
from mailwright.access.roles import Forbidden, Role
from mailwright.access.sign_in_log import SignInMethod
from mailwright.domain.errors import Unauthorized
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.web.session import SecondFactorRequired, SignInRequired, host_of, session_token, visitor_of
from mailwright.web.state import engine_of

# Declares the security scheme of a route in the OpenAPI description, which then gets the responses 401 and 429.
SECURITY_SCHEME: Final = "administrator"
API_KEY_SCHEME: Final = "apiKey"
ADMINISTRATORS_ONLY: Final[dict[str, Any]] = {"security": [{SECURITY_SCHEME: []}]}

# Wrong secrets are counted under these account names, which no user can have.
_ACCOUNT: Final = "ADMIN_PASSWORD"
_MAILOUT_ACCOUNT: Final = "x-auth-token"
BEARER: Final = re.compile(r"bearer +(\S.{0,999})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Administrator:
    """`actor` is the name in the audit log."""

    actor: str


async def administrator_of(request: Request) -> Administrator:
    """Authenticate an administrator. A wrong password counts as a failed sign-in; a missing one does not."""
    authorization = request.headers.get("authorization")
    if authorization is None and session_token(request) is not None:
        return await administrator_by_session(request)
    bearer = BEARER.fullmatch(authorization or "")
    # An API key does not count as a failed sign-in, so that a program that calls the wrong route is not locked out.
    if bearer is None or is_api_key(bearer[1]):
        raise _unauthorized()
    return await _by_secret(request, _ACCOUNT, bearer[1], engine_of(request).admin_password)


AdministratorDep = Annotated[Administrator, Depends(administrator_of)]


async def mailout_sender_of(request: Request) -> Administrator:
    """Authenticate a caller of `/send-mailout`: by the mailout token, or as an administrator."""
    token, engine = request.headers.get("x-auth-token"), engine_of(request)
    if token is None or engine.mailout_token is None:
        return await administrator_of(request)
    return await _by_secret(request, _MAILOUT_ACCOUNT, token, engine.mailout_token)


MailoutSenderDep = Annotated[Administrator, Depends(mailout_sender_of)]


async def _by_secret(request: Request, account: str, shown: str, expected: str | None) -> Administrator:
    async def verify() -> Administrator | None:
        # Headers are decoded as Latin-1, so encode them again to compare the bytes of the secret.
        is_right = expected is not None and secrets.compare_digest(shown.encode("latin-1"), expected.encode())
        return Administrator(account) if is_right else None

    found = await engine_of(request).failed_sign_ins.check(account, host_of(request), verify, SignInMethod.BEARER)
    if found is None:
        raise _unauthorized()
    return found


async def administrator_by_session(request: Request) -> Administrator:
    """Return the signed-in user. Administrators of one tenant are not administrators of the installation."""
    try:
        visitor = await visitor_of(request, Role.ADMIN)
    except (SignInRequired, SecondFactorRequired) as error:
        raise _unauthorized() from error
    if visitor.user.tenant_id is not None:
        raise Forbidden("Only administrators of the installation can do this.")
    return Administrator(visitor.actor)


def _unauthorized() -> Unauthorized:
    return Unauthorized(
        "Send the header Authorization: Bearer <ADMIN_PASSWORD>. The server must have ADMIN_PASSWORD set."
    )
