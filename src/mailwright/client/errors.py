"""What can go wrong with a call. Programs decide by the class and by `code`; people read the message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pydantic_core


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that is wrong, in the API's spelling."""

    field: str
    code: str
    message: str


class MailwrightError(Exception):
    """A call did not succeed."""


class NotReached(MailwrightError):
    """No whole answer came. Unless the call can be repeated, nobody knows whether it was heard."""


class ApiError(MailwrightError):
    """The API refused. `code` is stable; `request_id` finds the request in the server's log."""

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
    """The key is missing, unknown or revoked."""


class Forbidden(ApiError):
    """The key may not do this."""


class NotFound(ApiError):
    """There is nothing with this id here."""


class Conflict(ApiError):
    """Not possible now, or an idempotency key that was used with another body."""


class Invalid(ApiError):
    """The request breaks a rule; `errors` names each field and what is wrong with it."""


class Unavailable(ApiError):
    """Not now: the server is busy or cannot store anything. Nothing was done."""


KINDS: Mapping[int, type[ApiError]] = {
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
    """From a problem (RFC 9457), or from whatever else stood in its place."""
    told = _problem(content)
    errors = told.get("errors")
    return KINDS.get(status, ApiError)(
        status,
        str(told.get("code", f"HTTP_{status}")),
        str(told.get("detail", "The answer was not from Mailwright.")),
        errors=tuple(_field(each) for each in errors if isinstance(each, dict)) if isinstance(errors, list) else (),
        request_id=headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
    )


def _field(told: Mapping[str, Any]) -> FieldProblem:
    return FieldProblem(*(str(told.get(name, "")) for name in ("field", "code", "message")))


def _problem(content: bytes) -> dict[str, Any]:
    try:
        found = pydantic_core.from_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
