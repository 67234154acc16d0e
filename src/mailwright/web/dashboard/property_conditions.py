"""Conditions on the properties of an event as lines of a form: `total >= 100`."""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json

# The comparisons of the API by the sign of a line. Longer signs come first.
_SIGNS: Final = {
    ">=": "atLeast",
    "<=": "atMost",
    "!=": "isNot",
    "=": "is",
    ">": "greaterThan",
    "<": "lessThan",
}
_COMPARISON: Final = re.compile(r"\s*(>=|<=|!=|=|>|<)\s*|\s+(contains|in|exists|missing)(?:\s+|$)")


def conditions_text(where: Mapping[str, Any] | None) -> str:
    """Return the conditions of an event, one per line."""
    return "\n".join(_line(name, wanted) for name, wanted in (where or {}).items())


def conditions_of(text: str, field: str = "where") -> dict[str, Any]:
    """Parse lines such as `total >= 100`, `currency = EUR`, `plan contains pro` or `coupon exists`."""
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = _COMPARISON.search(line)
        name = line[: place.start()].strip() if place else ""
        if place is None or not name:
            help_ = "Write, for example, total >= 100, currency = EUR, plan contains pro, or coupon exists."
            raise InvalidInput("Line {number} is not a condition. {help}", field=field, number=number, help=help_)
        if name in found:
            raise InvalidInput(
                "Line {number} names {name} again. Write one condition for each property.",
                field=field,
                number=number,
                name=name,
            )
        found[name] = _comparison(place[1] or place[2], line[place.end() :].strip())
    return found


def _comparison(sign: str, value: str) -> dict[str, Any]:
    match sign:
        case "exists" | "missing":
            return {"exists": sign == "exists"}
        case "contains":
            return {"contains": value}
        case "in":
            return {"in": _values(value)}
        case _:
            return {_SIGNS[sign]: _value(value)}


def _line(name: str, wanted: Any) -> str:
    comparison, value = next(iter(wanted.items())) if isinstance(wanted, dict) else ("is", wanted)
    if comparison == "exists":
        return f"{name} {'exists' if value else 'missing'}"
    if comparison == "in":
        plain = ", ".join(map(_text, value))
        return f"{name} in {plain if _values(plain) == list(value) else orjson.dumps(value).decode()[1:-1]}"
    sign = next((sign for sign, each in _SIGNS.items() if each == comparison), comparison)
    return f"{name} {sign} {value if comparison == 'contains' else _text(value)}"


def _values(text: str) -> list[Any]:
    """Return values separated by commas, some of which can be JSON."""
    try:
        return list(load_json(f"[{text}]"))
    except orjson.JSONDecodeError:
        return [_value(each.strip()) for each in text.split(",") if each.strip()]


def _value(text: str) -> Any:
    """Return a number, true, false or a text in quotation marks as JSON, and everything else as text."""
    try:
        found = load_json(text)
    except orjson.JSONDecodeError:
        return text
    return found if isinstance(found, str | int | float) else text


def _text(value: Any) -> str:
    """Write a value so that parsing it returns the same value."""
    plain = str(value) if isinstance(value, str) else orjson.dumps(value).decode()
    return plain if _value(plain) == value else orjson.dumps(value).decode()
