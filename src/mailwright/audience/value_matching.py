"""Compare values as filters do in SQL, for events whose properties are already in memory."""

import re
from collections.abc import Mapping
from operator import ge, gt, le, lt
from typing import Any, Final

from mailwright.audience.filters import ValueComparison

_ORDER: Final = {"greater_than": gt, "less_than": lt, "at_least": ge, "at_most": le}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MAX_NUMBER_LENGTH: Final = 16


def properties_match(where: Mapping[str, ValueComparison] | None, properties: Mapping[str, Any]) -> bool:
    """Return whether the properties of an event match all conditions."""
    return all(value_matches(comparison, properties.get(name)) for name, comparison in (where or {}).items())


def value_matches(comparison: ValueComparison, value: Any) -> bool:  # noqa: PLR0911 - a table
    """Compare a value. None means that the value is missing."""
    match comparison.comparison:
        case "exists", wanted:
            return (value is not None) is wanted
        case "is_", wanted:
            return _is_same(value, wanted)
        case "is_not", wanted:
            return not _is_same(value, wanted)
        case "in_", several:
            return any(_is_same(value, wanted) for wanted in several)
        case "contains", text:
            return isinstance(value, str) and _folded(text) in _folded(value)
        case name, str() as day:
            return isinstance(value, str) and bool(_DAY.match(value)) and bool(_ORDER[name](value[:10], day))
        case name, bound:
            number = _number(value)
            return number is not None and bool(_ORDER[name](number, bound))


def _is_same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    return _number(value) == float(wanted)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_LENGTH and _NUMBER.fullmatch(value):
        return float(value)
    return None


def _folded(text: str) -> str:
    """Convert only ASCII letters, because the engines convert others differently."""
    return "".join(each.lower() if each.isascii() else each for each in text)
