"""Plain sentences for validation errors, so that no error shows a regular expression or the name of a Python type."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic_core.core_schema import ErrorType

from mailwright.domain.translation import (
    gettext,
    lazy_gettext,
    lazy_text,
    lower_first,
    marked_plural,
    pgettext,
    plural_message,
)

_WHOLE_NUMBER: Final = lazy_gettext("must be a whole number")
_NUMBER: Final = lazy_gettext("must be a number")
_TRUE_OR_FALSE: Final = lazy_gettext("must be true or false")
_CHOICE: Final = lazy_gettext("must be {expected}")
_LIST: Final = lazy_gettext("must be a list")
_OBJECT: Final = lazy_gettext("must be an object")
_DATE: Final = lazy_gettext("must be a date such as 2027-01-31")
_TIME: Final = lazy_gettext("must be a time such as 2027-01-31T09:00:00Z")
_SENTENCES: Final[Mapping[str, str]] = {
    "missing": lazy_gettext("is required"),
    "extra_forbidden": lazy_gettext("is not a known field"),
    "string_type": lazy_gettext("must be text"),
    "string_pattern_mismatch": lazy_gettext("has an invalid format"),
    "int_type": _WHOLE_NUMBER,
    "int_parsing": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": lazy_gettext("must be a finite number"),
    "bool_type": _TRUE_OR_FALSE,
    "bool_parsing": _TRUE_OR_FALSE,
    "greater_than": lazy_gettext("must be more than {gt}"),
    "greater_than_equal": lazy_gettext("must be at least {ge}"),
    "less_than": lazy_gettext("must be less than {lt}"),
    "less_than_equal": lazy_gettext("must be at most {le}"),
    "literal_error": _CHOICE,
    "enum": _CHOICE,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "timezone_aware": lazy_gettext("needs a time zone, for example 2027-01-31T09:00:00Z"),
    "json_invalid": lazy_gettext("is not valid JSON"),
}
# The number in the context of the error, and the forms of the sentence.
_COUNTED: Final[Mapping[str, tuple[str, tuple[str, str]]]] = {
    "string_too_short": (
        "min_length",
        marked_plural("must have at least {count} character", "must have at least {count} characters"),
    ),
    "string_too_long": (
        "max_length",
        marked_plural("must have at most {count} character", "must have at most {count} characters"),
    ),
    "too_short": (
        "min_length",
        marked_plural("must have at least {count} item", "must have at least {count} items"),
    ),
    "too_long": ("max_length", marked_plural("must have at most {count} item", "must have at most {count} items")),
}
_OF_TEXTS: Final = {"too_short": "string_too_short", "too_long": "string_too_long"}
# Errors of these types already have our own text.
_OWN: Final = frozenset({"value_error", "assertion_error"})
_BUILT_IN: Final = frozenset(get_args(ErrorType)) - _OWN


def validation_sentence(error: Mapping[str, Any]) -> str:
    """Describe one entry of `ValidationError.errors()` as a predicate that follows the name of the field."""
    return lazy_text(lambda: _sentence(error_kind(error), error.get("ctx") or {}, error["msg"]))


def error_kind(error: Mapping[str, Any]) -> str:
    """Return the type of the error. A limit on a text is about characters, even if pydantic counts them as items."""
    kind: str = error["type"]
    return _OF_TEXTS.get(kind, kind) if isinstance(error.get("input"), str) else kind


def _sentence(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind in _COUNTED and _COUNTED[kind][0] in context:
        name, forms = _COUNTED[kind]
        return plural_message(*forms, context[name]).format(count=context[name])
    if kind in _SENTENCES:
        expected = str(context.get("expected", "")).replace(" or ", f" {pgettext('choices', 'or')} ")
        return _SENTENCES[kind].format(**{**context, "expected": expected})
    if kind in _BUILT_IN and "reason" not in context:
        return gettext("is not valid")
    return lower_first(own_message(context, message))


def own_message(context: Mapping[str, Any], message: str) -> str:
    """Return the message that a validator of ours raised, which may be translated, or else the validator's text."""
    raised = context.get("error")
    given = raised.args[0] if isinstance(raised, Exception) and raised.args else context.get("reason")
    return str(given if given is not None else message).removeprefix("Value error, ").removeprefix("Assertion failed, ")
