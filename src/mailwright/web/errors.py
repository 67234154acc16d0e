"""Report every error as `application/problem+json` (RFC 9457) with a stable code. One table maps errors to statuses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.roles import Forbidden
from mailwright.content.image_files import ImagesUnavailable
from mailwright.content.template import InvalidTemplate
from mailwright.domain.errors import (
    IdempotencyConflict,
    InvalidInput,
    MailwrightError,
    NotDurable,
    NotFound,
    NotPossibleNow,
    Unauthorized,
)
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.ops.logs import logger
from mailwright.sources.api.senders import SenderNotAllowed
from mailwright.sources.api.validation import FieldError, RequestInvalid, field_errors
from mailwright.sources.articles.profiles.errors import ProfilesRefused, ProfilesUnavailable
from mailwright.storage.secret_box import SecretKeyInvalid

MEDIA_TYPE = "application/problem+json"

log = logger(__name__)


class InvalidJson(MailwrightError):
    """The body is not valid JSON."""

    code = "INVALID_JSON"


class BodyTooLarge(MailwrightError):
    """The body is too large for this route."""

    code = "BODY_TOO_LARGE"


class NotJson(MailwrightError):
    """The body must be JSON, sent with Content-Type: application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"


# The first matching class decides.
STATUSES: Mapping[type[MailwrightError], HTTPStatus] = {
    InvalidJson: HTTPStatus.BAD_REQUEST,
    Unauthorized: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    SenderNotAllowed: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    IdempotencyConflict: HTTPStatus.CONFLICT,
    NotPossibleNow: HTTPStatus.CONFLICT,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    NotJson: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidTemplate: HTTPStatus.UNPROCESSABLE_ENTITY,
    ProfilesRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyFailedSignIns: HTTPStatus.TOO_MANY_REQUESTS,
    NotDurable: HTTPStatus.SERVICE_UNAVAILABLE,
    SecretKeyInvalid: HTTPStatus.SERVICE_UNAVAILABLE,
    ImagesUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    ProfilesUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
# Titles by HTTP status; all others use the standard reason phrase.
TITLES: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "Invalid request",
    HTTPStatus.UNAUTHORIZED: "Authentication required",
    HTTPStatus.FORBIDDEN: "Permission denied",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "Method not allowed",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Request body too large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "Unsupported media type",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid fields",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Internal error",
    HTTPStatus.SERVICE_UNAVAILABLE: "Temporarily unavailable",
}
# Details of errors that the framework raises.
DETAILS: Mapping[HTTPStatus, str] = {
    HTTPStatus.NOT_FOUND: "There is no page or resource at this address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not support the request's method.",
}
HEADERS: Mapping[HTTPStatus, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": 'Bearer realm="mailwright"'},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "5"},
}


class ProblemField(BaseModel):
    field: str
    code: str
    message: str


class Problem(BaseModel):
    """RFC 9457. `code` is stable and meant for programs; `detail` is meant for people."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[ProblemField] | None = None


def handle_problems(app: FastAPI) -> None:
    app.add_exception_handler(MailwrightError, known_problem)
    app.add_exception_handler(RequestValidationError, _invalid_parameters)
    app.add_exception_handler(HTTPException, http_problem)
    app.add_middleware(UnexpectedErrors)


class UnexpectedErrors:
    """ASGI middleware that logs unexpected errors and reports them without internal details."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def watch_and_send(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, watch_and_send)
        except ClientDisconnect:
            return  # The client disconnected during its request, so nobody would receive a response.
        except Exception as error:
            log.error("request_failed", path=scope.get("path"), method=scope.get("method"), exc_info=error)
            if has_started:
                raise
            response = problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                MailwrightError.code,
                "An internal error occurred. The log has the details under this request id.",
            )
            await response(scope, receive, send)


def problem(
    status: HTTPStatus,
    code: str,
    detail: str,
    *,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    content: dict[str, Any] = {
        "type": f"urn:mailwright:problem:{code.lower().replace('_', '-')}",
        "title": TITLES.get(status, status.phrase),
        "status": status,
        "detail": str(detail),
        "code": code,
    }
    if errors:
        content["errors"] = [replace(each, message=str(each.message)) for each in errors]
    return Response(
        orjson.dumps(content), status, media_type=MEDIA_TYPE, headers={**HEADERS.get(status, {}), **(headers or {})}
    )


def unavailable_detail(request: Request) -> str:
    """Return an error text without the database's message, which can contain hosts and users and is only logged."""
    is_read = request.method in ("GET", "HEAD")
    return gettext("The database is not reachable. Try again in a few seconds.") if is_read else NotDurable().text


async def respond_to_error(error: MailwrightError, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to an error outside of all routes, for a middleware."""
    response = await known_problem(Request(scope), error)
    await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """The status of an error's response, and the content that every format of responses can use."""

    status: HTTPStatus
    code: str
    detail: str
    errors: Sequence[FieldError] = ()


def error_response(request: Request, error: MailwrightError) -> ErrorResponse:
    """Return how to respond to an error. Raise it again if it is unexpected."""
    status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), None)
    if status is None:
        raise error
    detail = error.text
    if isinstance(error, NotDurable):
        log.warning("not_durable", path=request.url.path, reason=str(error))
        detail = unavailable_detail(request)
    return ErrorResponse(status, error.code, detail, _errors(error))


async def known_problem(request: Request, error: Exception) -> Response:
    """Respond to an error of ours, in the language of the request."""
    if not isinstance(error, MailwrightError):
        raise error
    found = error_response(request, error)
    headers = {"Retry-After": str(error.retry_after_seconds)} if isinstance(error, TooManyFailedSignIns) else None
    return problem(found.status, found.code, found.detail, errors=found.errors, headers=headers)


async def _invalid_parameters(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    # The first step of a location is the kind of parameter (query, path), which the field name does not need.
    invalid = RequestInvalid(field_errors([{**detail, "loc": detail["loc"][1:]} for detail in error.errors()]))
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, invalid.code, str(invalid), errors=invalid.errors)


async def http_problem(_request: Request, error: Exception) -> Response:
    """Respond to an error of the framework, for example to a method that a path does not declare."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    return problem(status, status.name, DETAILS.get(status, status.description or status.phrase), headers=error.headers)


def _errors(error: MailwrightError) -> Sequence[FieldError]:
    if isinstance(error, RequestInvalid):
        return error.errors
    if isinstance(error, InvalidInput):
        return [FieldError(error.field or "body", error.code, error.text)]
    return ()
