"""A typed client of the HTTP API. It knows nothing of the rest of Mailwright, and speaks HTTP only."""

from mailwright.client import models
from mailwright.client.client import NO_RETRIES, AsyncClient, Client, Retries
from mailwright.client.errors import (
    ApiError,
    Conflict,
    FieldProblem,
    Forbidden,
    Invalid,
    MailwrightError,
    NotFound,
    NotReached,
    Unauthorized,
    Unavailable,
)

__all__ = [
    "NO_RETRIES",
    "ApiError",
    "AsyncClient",
    "Client",
    "Conflict",
    "FieldProblem",
    "Forbidden",
    "Invalid",
    "MailwrightError",
    "NotFound",
    "NotReached",
    "Retries",
    "Unauthorized",
    "Unavailable",
    "models",
]
