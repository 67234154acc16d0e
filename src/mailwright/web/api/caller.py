"""The caller: who asks, known by the key, or by the session of a person, before anything else is looked at.

Plain functions: the routes that take most of the traffic call them directly, because the framework's way of resolving
dependencies costs more than all the rest of a request.
"""

import re
from typing import Annotated

from fastapi import Depends, Request

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.domain.errors import Unauthorized
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.requests import FieldError, RequestInvalid
from mailwright.web.parts import parts_of
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import SAFE_METHODS, SecondFactorRequired, SignInRequired, session_token, visitor_of

KEY_NAME = "Idempotency-Key"
KEY_PATTERN = r"^[ -~]{1,255}$"

_KEY = re.compile(KEY_PATTERN)
_SENDING = frozenset({"/v1/email/send", "/v1/email/batch"})
# What is asked with a body, and changes nothing.
_LOOKING = re.compile(r"/v1/articles/[^/]+/(?:preview|coverage)")


async def caller_of(request: Request) -> Caller:
    authorization = request.headers.get("authorization")
    if authorization is None and session_token(request) is not None:
        caller = await _signed_in(request)
    else:
        caller = await parts_of(request).keys.authenticate(authorization)
    caller.require(scope_of(request.method, request.scope["path"]))
    request_id_of(request)
    return caller


async def _signed_in(request: Request) -> Caller:
    """A person asks as their role may; what changes something must come from a page of ours, as everywhere."""
    try:
        visitor = await visitor_of(request)
    except (SignInRequired, SecondFactorRequired) as error:
        raise Unauthorized from error
    return Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)


def scope_of(method: str, path: str) -> Scope:
    """What a key must be for, to ask this."""
    if method in SAFE_METHODS or _LOOKING.fullmatch(path):
        return Scope.READ
    return Scope.SEND if path in _SENDING else Scope.MANAGE


async def request_context_of(request: Request) -> RequestContext:
    """The caller, and the names that the request goes by."""
    caller = await caller_of(request)
    key = request.headers.get(KEY_NAME)
    if key is not None and not _KEY.fullmatch(key):
        message = "must have 1 to 255 printable ASCII characters"
        raise RequestInvalid([FieldError(KEY_NAME, "INVALID", message)])
    return RequestContext(caller, request_id_of(request), key)


CallerDep = Annotated[Caller, Depends(caller_of)]
