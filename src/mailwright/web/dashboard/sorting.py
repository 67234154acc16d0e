"""Sort lists that are short enough to be read whole."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Row = TypeVar("Row")


def sort_rows(
    rows: Iterable[Row], wanted: str, keys: Mapping[str, Callable[[Row], Any]], default: str
) -> tuple[list[Row], str]:
    """Return the rows in the order `key` or `-key` of the address, and that order; an unknown one is the default."""
    order = wanted if wanted.removeprefix("-") in keys else default
    return sorted(rows, key=keys[order.removeprefix("-")], reverse=order.startswith("-")), order
