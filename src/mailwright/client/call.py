"""Calls: one request to the API as a value, with what reads its answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote
from uuid import uuid4

import pydantic_core

T = TypeVar("T")
R = TypeVar("R")

KEY_HEADER = "Idempotency-Key"
# Asking these again asks for nothing new.
HARMLESS = frozenset({"GET", "HEAD"})


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
    def may_be_repeated(self) -> bool:
        """Whatever became of it: the API accepts one key once."""
        return self.method in HARMLESS or self.takes_key

    def parameters(self) -> list[tuple[str, str]]:
        """What is None was not given."""
        found: list[tuple[str, str]] = []
        for name, value in self.query.items():
            values = value if isinstance(value, list | tuple) else [value]
            found += [(name, _text(each)) for each in values if each is not None]
        return found

    def headers(self) -> dict[str, str]:
        """Made once for each call: every attempt carries the same key."""
        found = {} if self.body is None else {"Content-Type": self.content_type}
        return {**found, KEY_HEADER: self.idempotency_key or str(uuid4())} if self.takes_key else found


class Send(Protocol):
    def __call__(self, call: Call[R]) -> R: ...


class SendAsync(Protocol):
    def __call__(self, call: Call[R]) -> Awaitable[R]: ...


def path(template: str, *values: str) -> str:
    """Whatever an id is made of, it stays one step of the path."""
    return template.format(*(quote(value, safe="") for value in values))


def as_is(content: bytes) -> Any:
    return pydantic_core.from_json(content)


def as_bytes(content: bytes) -> bytes:
    return content


def nothing(_content: bytes) -> None:
    """The status said everything."""


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
        case _:
            return str(value)
