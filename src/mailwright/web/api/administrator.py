"""The administrator: scripts show `ADMIN_PASSWORD` as a bearer, people are signed in. Both open the same routes.

A route takes `administrator: AdministratorDep`, says `openapi_extra=ADMINISTRATORS_ONLY`, and writes
`administrator.actor` into the journal.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from mailwright.access import failed_sign_ins
from mailwright.access.roles import Role
from mailwright.domain.errors import Unauthorized
from mailwright.web.parts import ApiParts, parts_of
from mailwright.web.session import SecondFactorRequired, SignInRequired, session_token, visitor_of

# In a route's description: who may call it. 401 and 429 are added to what it answers.
SECURITY_SCHEME: Final = "administrator"
ADMINISTRATORS_ONLY: Final[dict[str, Any]] = {"security": [{SECURITY_SCHEME: []}]}

# What wrong passwords are counted under; no user can have this name.
_ACCOUNT: Final = "ADMIN_PASSWORD"
_BEARER = re.compile(r"bearer +(\S.{0,999})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Administrator:
    """Who acts, as the journal shall name them."""

    actor: str


async def administrator_of(request: Request) -> Administrator:
    """Whoever shows nothing is not guessing; whoever shows the wrong thing is."""
    authorization = request.headers.get("authorization")
    if authorization is None and session_token(request) is not None:
        return await _by_session(request)
    bearer = _BEARER.fullmatch(authorization or "")
    if bearer is None:
        raise _unknown()
    return await _by_password(request, parts_of(request), bearer[1])


AdministratorDep = Annotated[Administrator, Depends(administrator_of)]


async def _by_password(request: Request, parts: ApiParts, shown: str) -> Administrator:
    async def verify() -> Administrator | None:
        expected = parts.admin_password
        # Headers arrive as latin-1; a password is what its bytes are.
        is_right = expected is not None and secrets.compare_digest(shown.encode("latin-1"), expected.encode())
        return Administrator("ADMIN_PASSWORD") if is_right else None

    host = request.client.host if request.client else None
    found = await parts.failed_sign_ins.check(
        [failed_sign_ins.account_key(_ACCOUNT), failed_sign_ins.address_key(host)], verify
    )
    if found is None:
        raise _unknown()
    return found


async def _by_session(request: Request) -> Administrator:
    try:
        return Administrator((await visitor_of(request, Role.ADMIN)).actor)
    except (SignInRequired, SecondFactorRequired) as error:
        raise _unknown() from error


def _unknown() -> Unauthorized:
    return Unauthorized("Show the administrator's password: Authorization: Bearer <ADMIN_PASSWORD>, if that is set.")
