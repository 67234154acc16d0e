"""Authentication of API callers, by API key or by the session of a signed-in user.

The busiest routes call these functions directly, because FastAPI's dependencies would take longer than the rest of the
request.
"""

import re
from typing import Annotated

from fastapi import Depends, Request

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role, Scope
from mailwright.domain.errors import Unauthorized
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import require_idempotency_key
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import SAFE_METHODS, SecondFactorRequired, SignInRequired, session_token, visitor_of
from mailwright.web.state import engine_of

# The key in the ASGI scope under which a request from within the process carries its caller.
INTERNAL_CALLER = "mailwright.caller"
KEY_NAME = "Idempotency-Key"

_SEND_PATHS = frozenset({"/v1/email/send", "/v1/email/batch", "/v1/email/raw"})
EVENTS_PATH = "/v1/events"
# Objects that only administrators see and change in the dashboard need that role in the API too.
_ADMIN_PATHS = re.compile(r"/v1/journal|/v1/(?:domains|retention)(?:/.*)?")
_ADMIN_CHANGES = re.compile(r"/v1/(?:approvals|brand)")
# POST requests that change nothing.
_READ_ONLY = re.compile(
    r"/v1/articles/[^/]+/(?:preview|coverage)|/v1/templates/[^/]+/preview"
    r"|/v1/sequences/[^/]+/rehearse"
)
# Requests that only create or change drafts. If the caller lacks the scope `manage`, the routes enforce this.
_PROPOSALS = {
    "POST": re.compile(r"/v1/sequences|/v1/campaigns|/v1/campaigns/[^/]+/(?:duplicate|preflight|plan)"),
    "PUT": re.compile(r"/v1/(?:campaigns|sequences|templates)/[^/]+"),
}


async def caller_of(request: Request) -> Caller:
    """Authenticate the caller of a hand-written route, whose method and path decide which permission it needs."""
    path, is_change = request.scope["path"], request.method not in SAFE_METHODS
    is_for_admins = _ADMIN_PATHS.fullmatch(path) or (is_change and _ADMIN_CHANGES.fullmatch(path))
    return await caller_with(request, scope_of(request.method, path), Role.ADMIN if is_for_admins else Role.VIEWER)


async def caller_with(request: Request, scope: Scope, role: Role) -> Caller:
    """Authenticate the caller, who needs this scope. A signed-in user also needs this role."""
    authorization = request.headers.get("authorization")
    caller: Caller
    if INTERNAL_CALLER in request.scope:
        caller = request.scope[INTERNAL_CALLER]
    elif authorization is None and session_token(request) is not None:
        caller = await _signed_in(request, role)
    else:
        caller = await engine_of(request).keys.authenticate(authorization)
    caller.require(scope)
    request_id_of(request)
    return caller


async def _signed_in(request: Request, needed: Role) -> Caller:
    """Grant a signed-in user the scopes of their role. Changes must come from a page of the dashboard."""
    try:
        visitor = await visitor_of(request, needed)
    except (SignInRequired, SecondFactorRequired) as error:
        raise Unauthorized from error
    return Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)


def scope_of(method: str, path: str) -> Scope:
    """Return the scope that a request needs."""
    if method in SAFE_METHODS or _READ_ONLY.fullmatch(path):
        return Scope.READ
    if method in _PROPOSALS and _PROPOSALS[method].fullmatch(path):
        return Scope.PROPOSE
    if path in _SEND_PATHS:
        return Scope.SEND
    return Scope.EVENTS if path == EVENTS_PATH else Scope.MANAGE


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
