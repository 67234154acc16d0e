"""One request to the API as a value, and the functions that read its response."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote
from uuid import uuid4

T = TypeVar("T")
R = TypeVar("R")

KEY_HEADER = "Idempotency-Key"
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    takes_key: bool = False
    idempotency_key: str | None = None

    @property
    def can_be_repeated(self) -> bool:
        """Repeating is harmless: the call changes nothing, or the API accepts its idempotency key once."""
        return self.method in SAFE_METHODS or self.takes_key

    def parameters(self) -> list[tuple[str, str]]:
        """Return the query parameters that were given."""
        found: list[tuple[str, str]] = []
        for name, value in self.query.items():
            values = value if isinstance(value, list | tuple) else [value]
            found += [(name, _text(each)) for each in values if each is not None]
        return found

    def headers(self) -> dict[str, str]:
        """Build the headers once per call, so that every attempt carries the same idempotency key."""
        found = {} if self.body is None else {"Content-Type": self.content_type}
        return {**found, KEY_HEADER: self.idempotency_key or str(uuid4())} if self.takes_key else found


class Send(Protocol):
    def __call__(self, call: Call[R]) -> R: ...


class SendAsync(Protocol):
    def __call__(self, call: Call[R]) -> Awaitable[R]: ...


def path(template: str, *values: str) -> str:
    """Fill in ids, quoted so that each stays one path segment."""
    for value in values:
        if value in ("", ".", ".."):  # Such a segment disappears, and the call would reach another address.
            raise ValueError(f"{value!r} is not an id.")
    return template.format(*(quote(value, safe="") for value in values))


def read_json(content: bytes) -> Any:
    return json.loads(content)


def read_bytes(content: bytes) -> bytes:
    return content


def read_nothing(_content: bytes) -> None:
    """Ignore the body, because the status is enough."""


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
