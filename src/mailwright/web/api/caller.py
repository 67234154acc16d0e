"""Authentication of API callers, by API key or by the session of a signed-in user.

The busiest routes call these functions directly, because FastAPI's dependencies would take longer than the rest of the
request.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from mailwright.access.api_keys import Caller, is_api_key, platform_caller
from mailwright.access.roles import Role, Scope
from mailwright.domain.errors import Unauthorized
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import require_idempotency_key
from mailwright.web.api.administrator import BEARER, administrator_by_session, administrator_of
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import SecondFactorRequired, SignInRequired, session_token, visitor_of
from mailwright.web.state import engine_of

# The key in the ASGI scope under which a request from within the process carries its caller.
INTERNAL_CALLER = "mailwright.caller"
KEY_NAME = "Idempotency-Key"

_PLACEHOLDER = re.compile(r"\{[^}]+\}")


class Credential(StrEnum):
    """What a route checks instead of an API key."""

    ADMINISTRATOR = "administrator"  # the password in `ADMIN_PASSWORD`, or a signed-in administrator
    SIGNATURE = "signature"  # the signature of the system that sends the request


Needed = Scope | Credential


class Permission(NamedTuple):
    needed: Needed
    role: Role  # for signed-in users
    takes_password: bool = False  # whether a platform scope can be replaced by the password in `ADMIN_PASSWORD`


# The permission of each route, by method and path. Each route declares its own.
_permissions: dict[tuple[str, str], Permission] = {}


def declare_permission(method: str, path: str, permission: Permission) -> None:
    _permissions[method, _template(path)] = permission


def permission_of(method: str, path: str) -> Permission | None:
    """Return the permission of a route. The names of the placeholders in its path do not matter."""
    return _permissions.get((method, _template(path)))


def scope_of(method: str, path: str) -> Scope:
    """Return the scope of a route that takes API keys."""
    permission = permission_of(method, path)
    if permission is None or isinstance(permission.needed, Credential):
        raise TypeError(f"{method} {path} has no scope.")
    return permission.needed


@cache
def _template(path: str) -> str:
    return _PLACEHOLDER.sub("{}", path)


async def caller_of(request: Request) -> Caller:
    """Authenticate the caller of a route, who needs the scope and, if signed in, the role that the route states."""
    path = request.scope["route"].path
    scope = scope_of(request.method, path)
    authorization = request.headers.get("authorization")
    caller: Caller
    if INTERNAL_CALLER in request.scope:
        caller = request.scope[INTERNAL_CALLER]
    elif scope.is_platform:
        caller = await _platform_caller(request, _permissions[request.method, _template(path)])
    elif authorization is None and session_token(request) is not None:
        caller = await _signed_in(request, _permissions[request.method, _template(path)].role)
    else:
        caller = await engine_of(request).keys.authenticate(authorization)
    caller.require(scope)
    request_id_of(request)
    return caller


async def _platform_caller(request: Request, permission: Permission) -> Caller:
    """Authenticate a platform key, or an administrator of the installation who is signed in."""
    authorization = request.headers.get("authorization")
    if authorization is None and session_token(request) is not None:
        return platform_caller((await administrator_by_session(request)).actor)
    bearer = BEARER.fullmatch(authorization or "")
    if permission.takes_password and not (bearer and is_api_key(bearer[1])):
        return platform_caller((await administrator_of(request)).actor)
    return await engine_of(request).keys.authenticate(authorization)


async def _signed_in(request: Request, needed: Role) -> Caller:
    """Grant a signed-in user the scopes of their role. Changes must come from a page of the dashboard."""
    try:
        visitor = await visitor_of(request, needed)
    except (SignInRequired, SecondFactorRequired) as error:
        raise Unauthorized from error
    return Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)


async def request_context_of(request: Request) -> RequestContext:
    """Authenticate the caller and read the ids of the request."""
    caller = await caller_of(request)
    # An agent on this machine acts for the console, whose messages are not those of a signed-in person.
    is_person = caller.actor is not None and INTERNAL_CALLER not in request.scope
    return RequestContext(caller, request_id_of(request), idempotency_key_of(request), is_person=is_person)


def idempotency_key_of(request: Request) -> str | None:
    key = request.headers.get(KEY_NAME)
    if key is not None:
        require_idempotency_key(key, KEY_NAME)
    return key


def actor_of(caller: Caller) -> str:
    return caller.audit_name


CallerDep = Annotated[Caller, Depends(caller_of)]
