"""The caller: who asks, known by the key before anything else of a request is looked at."""

from typing import Annotated

from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPBearer

from mailwright.sources.api.keys import Caller
from mailwright.sources.api.mail import Asking
from mailwright.web.parts import Parts
from mailwright.web.request_ids import request_id

# For the description of the API only: the keys themselves decide, with one answer for every reason.
_BEARER = HTTPBearer(scheme_name="apiKey", description="A key, as `mailwright key create` prints it.", auto_error=False)


async def _caller(request: Request, parts: Parts, _described: Annotated[object, Security(_BEARER)]) -> Caller:
    return await parts.keys.authenticate(request.headers.get("authorization"))


Calling = Annotated[Caller, Depends(_caller)]


async def _asking(
    caller: Calling,
    request_id: Annotated[str, Depends(request_id)],
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            pattern=r"^[ -~]{1,255}$",
            description="The same key with the same body is accepted once; every later request gets the first answer.",
        ),
    ] = None,
) -> Asking:
    return Asking(caller, request_id, idempotency_key)


AskingFor = Annotated[Asking, Depends(_asking)]
