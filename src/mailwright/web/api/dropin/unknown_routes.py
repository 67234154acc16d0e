"""Respond to requests that match no route in the error format of the service whose SDK sent them."""

import functools
from collections.abc import Awaitable, Callable
from http import HTTPMethod, HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mailwright.web.api.dropin import mailgun, postmark, resend, sendgrid, ses
from mailwright.web.errors import ErrorResponse
from mailwright.web.request_ids import request_id_of

_POSTMARK_TOKENS: Final = ("x-postmark-server-token", "x-postmark-account-token")

_DETAIL: Final = (
    "Mailwright does not support this route of {service}, only those that its documentation lists under drop-in APIs. "
    "Use Mailwright's own API for everything else."
)

ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]


def with_formats_of_services(handle: ErrorHandler) -> ErrorHandler:
    """Return a handler of 404 and 405. Requests of browsers and of other programs get the response of `handle`."""

    @functools.wraps(handle)
    async def respond(request: Request, error: Exception) -> Response:
        is_browser = "text/html" in request.headers.get("accept", "").lower()
        response = None if is_browser or not isinstance(error, HTTPException) else _response(request, error)
        return response or await handle(request, error)

    return respond


def _response(request: Request, error: HTTPException) -> Response | None:
    path, authorization = request.url.path, request.headers.get("authorization", "").lower()
    if path == "/" and request.method == HTTPMethod.POST and authorization.startswith("aws4-hmac-sha256"):
        return ses.respond_to_version_1(request_id_of(request))
    if _is_below(path, "/v2/email"):
        service, respond = "Amazon SES", ses.respond_to_unknown
    elif _is_below(path, "/emails"):
        service, respond = "Resend", resend.respond
    elif _is_below(path, "/email") or any(name in request.headers for name in _POSTMARK_TOKENS):
        service, respond = "Postmark", postmark.respond
    elif _is_below(path, "/v3"):
        is_mailgun = authorization.startswith("basic ")
        service, respond = ("Mailgun", mailgun.respond) if is_mailgun else ("SendGrid", sendgrid.respond)
    else:
        return None
    status = HTTPStatus(error.status_code)
    response = respond(ErrorResponse(status, status.name, _DETAIL.format(service=service)))
    response.headers.update(error.headers or {})
    return response


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
