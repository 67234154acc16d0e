"""The caller: who asks, known by the key before anything else of a request is looked at.

Plain functions: the routes that take most of the traffic call them directly, because the framework's way of resolving
dependencies costs more than all the rest of a request.
"""

import re
from typing import Annotated

from fastapi import Depends, Request

from mailwright.sources.api.keys import Caller
from mailwright.sources.api.mail import Asking
from mailwright.sources.api.requests import FieldError, RequestInvalid
from mailwright.web.parts import parts_of
from mailwright.web.request_ids import request_id_of

KEY_NAME = "Idempotency-Key"
KEY_PATTERN = r"^[ -~]{1,255}$"

_KEY = re.compile(KEY_PATTERN)


async def caller_of(request: Request) -> Caller:
    caller = await parts_of(request).keys.authenticate(request.headers.get("authorization"))
    request_id_of(request)
    return caller


async def asking_of(request: Request) -> Asking:
    """The caller, and the names that the request goes by."""
    caller = await caller_of(request)
    key = request.headers.get(KEY_NAME)
    if key is not None and not _KEY.fullmatch(key):
        message = "must have 1 to 255 printable ASCII characters"
        raise RequestInvalid([FieldError(KEY_NAME, "INVALID", message)])
    return Asking(caller, request_id_of(request), key)


Calling = Annotated[Caller, Depends(caller_of)]
