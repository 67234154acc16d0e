"""A typed client for the Mailwright HTTP API."""

from mailwright_client import models
from mailwright_client.client import NO_RETRIES, AsyncClient, Client, Retries
from mailwright_client.errors import (
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
