"""Paging: a cursor names the last line of a page, so that the next one costs the same however far one has come."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

from fastapi import Query
from pydantic import Field

from mailwright.sources.api.requests import FieldError, RequestInvalid, RequestModel

_LARGEST = 2**63 - 1


class Page(RequestModel):
    """What every list takes. A misspelt parameter is refused: a filter that is silently ignored shows too much."""

    limit: Annotated[int, Field(ge=1, le=200, description="How many at most.")] = 50
    cursor: Annotated[str | None, Field(max_length=200, description="`nextCursor` of the page before.")] = None


PageQuery = Annotated[Page, Query()]


def encode_cursor(kind: str, *position: int) -> str:
    return urlsafe_b64encode(":".join([kind, *map(str, position)]).encode()).rstrip(b"=").decode()


def decode_cursor(kind: str, cursor: str, length: int = 1) -> tuple[int, ...]:
    """Only what `encode_cursor` gave out for the same list is taken back."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        position = tuple(int(number) for number in text.split(":")[1:])
    except ValueError as error:
        raise _invalid() from error
    if (
        len(position) != length
        or not all(0 <= each <= _LARGEST for each in position)
        or encode_cursor(kind, *position) != cursor
    ):
        raise _invalid()
    return position


def _invalid() -> RequestInvalid:
    return RequestInvalid([FieldError("cursor", "INVALID_CURSOR", "is not a cursor that this list gave out")])
