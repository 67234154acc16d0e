"""Errors of a call. Programs branch on the class and on `code`; people read the message."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One invalid field, under its JSON name."""

    field: str
    code: str
    message: str


class MailwrightError(Exception):
    """A call did not succeed."""


class NotReached(MailwrightError):
    """No complete response arrived, so it is unknown whether the server received the request."""


class ApiError(MailwrightError):
    """The API returned an error. `code` is stable; `request_id` identifies the request in the server's log."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: tuple[FieldProblem, ...] = (),
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.request_id = request_id
        self.retry_after = retry_after  # seconds


class Unauthorized(ApiError):
    """The API key is missing, unknown or revoked."""


class Forbidden(ApiError):
    """The API key lacks the required scope."""


class NotFound(ApiError):
    """Nothing with this id exists in this tenant."""


class Conflict(ApiError):
    """The current state does not allow this, or the idempotency key was used with a different body."""


class Invalid(ApiError):
    """The request is invalid; `errors` lists each field with its problem."""


class Unavailable(ApiError):
    """The server is busy or cannot store anything. The request had no effect."""


ERROR_CLASSES: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
    503: Unavailable,
}


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> ApiError:
    """Build the error from a problem document (RFC 9457), or from any other body that arrived instead."""
    problem = _problem(content)
    errors = problem.get("errors")
    return ERROR_CLASSES.get(status, ApiError)(
        status,
        str(problem.get("code", f"HTTP_{status}")),
        str(problem.get("detail", "The response did not come from Mailwright.")),
        errors=tuple(_field(each) for each in errors if isinstance(each, dict)) if isinstance(errors, list) else (),
        request_id=headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
    )


def _field(error: Mapping[str, Any]) -> FieldProblem:
    return FieldProblem(*(str(error.get(name, "")) for name in ("field", "code", "message")))


def _problem(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
