"""Plain sentences for validation errors, so that no error shows a regular expression or the name of a Python type."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core.core_schema import ErrorType

_SENTENCES: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has an invalid format",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "date_type": "must be a date such as 2027-01-31",
    "date_parsing": "must be a date such as 2027-01-31",
    "date_from_datetime_parsing": "must be a date such as 2027-01-31",
    "datetime_type": "must be a time such as 2027-01-31T09:00:00Z",
    "datetime_parsing": "must be a time such as 2027-01-31T09:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2027-01-31T09:00:00Z",
    "timezone_aware": "needs a time zone, for example 2027-01-31T09:00:00Z",
    "json_invalid": "is not valid JSON",
}
# Errors of these types already have our own text.
_OWN: Final = frozenset({"value_error", "assertion_error"})
_BUILT_IN: Final = frozenset(get_args(ErrorType)) - _OWN


def validation_sentence(error: Mapping[str, Any]) -> str:
    """Describe one entry of `ValidationError.errors()` as a predicate that follows the name of the field."""
    kind = error["type"]
    if kind in _SENTENCES:
        return _singular(_SENTENCES[kind].format(**(error.get("ctx") or {})))
    if kind in _BUILT_IN:
        return "is not valid"
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{message[:1].lower()}{message[1:]}"


def _singular(sentence: str) -> str:
    for plural in ("characters", "items"):
        sentence = sentence.replace(f" 1 {plural}", f" 1 {plural[:-1]}")
    return sentence
