"""Pagination. A cursor identifies the last row of a page, so that every page takes equally long to load."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import FieldError, RequestInvalid

NEWEST = 2**63 - 1
MAX_PAGE = 200


class Page(RequestModel):
    """Query parameters of every list. Unknown parameters are errors, because an ignored filter would show too much."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Maximum number of entries.")] = 50
    cursor: Annotated[str | None, Field(max_length=200, description="`nextCursor` of the previous page.")] = None

    def before(self, kind: str) -> int:
        """Return the sort key in the cursor. The page holds the rows with lower keys, newest first."""
        return decode_cursor(kind, self.cursor)[0] if self.cursor is not None else NEWEST

    def next_cursor(self, kind: str, keys: Sequence[int]) -> str | None:
        """Return the cursor after the last of these rows, or None if they do not fill the page."""
        return encode_cursor(kind, keys[-1]) if len(keys) == self.limit else None


def encode_cursor(kind: str, *position: int) -> str:
    return urlsafe_b64encode(":".join([kind, *map(str, position)]).encode()).rstrip(b"=").decode()


def decode_cursor(kind: str, cursor: str, length: int = 1) -> tuple[int, ...]:
    """Accept only cursors that `encode_cursor` made for the same kind of list."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        position = tuple(int(number) for number in text.split(":")[1:])
    except ValueError as error:
        raise _invalid_cursor() from error
    if (
        len(position) != length
        or not all(0 <= number <= NEWEST for number in position)
        or encode_cursor(kind, *position) != cursor
    ):
        raise _invalid_cursor()
    return position


def _invalid_cursor() -> RequestInvalid:
    return RequestInvalid([FieldError("cursor", "INVALID_CURSOR", "must be the `nextCursor` of a page of this list")])
