"""Parse requests, and report every invalid field with Mailwright's own error messages."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_text
from mailwright.domain.validation_text import error_kind, validation_sentence


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem. `field` is spelled as in the request, for example `cc[0]` or `recipient.email`."""

    field: str
    code: str
    message: str


class RequestInvalid(InvalidInput):
    """The request is invalid."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(
            lazy_text(lambda: "; ".join(f"{error.field}: {error.message}" for error in errors[:3])),
            field=errors[0].field,
        )
        self.errors = tuple(errors)


# Of the header Idempotency-Key and the option --idempotency-key.
IDEMPOTENCY_KEY_PATTERN: Final = r"^[ -~]{1,255}$"
_IDEMPOTENCY_KEY: Final = re.compile(IDEMPOTENCY_KEY_PATTERN)


def require_idempotency_key(key: str, field: str) -> None:
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise RequestInvalid([FieldError(field, "INVALID", "must have 1 to 255 printable ASCII characters")])


UNKNOWN_FIELD: Final = "UNKNOWN_FIELD"

# Error codes of the API for the validator's error types. For other types, the code is the type in capitals.
_CODES: Final[Mapping[str, str]] = {
    "missing": "REQUIRED",
    "extra_forbidden": UNKNOWN_FIELD,
    "string_too_long": "TOO_LONG",
    "string_too_short": "TOO_SHORT",
    "too_long": "TOO_MANY",
    "too_short": "TOO_FEW",
    "string_pattern_mismatch": "INVALID",
    "model_type": "WRONG_TYPE",
    "string_type": "WRONG_TYPE",
    "dict_type": "WRONG_TYPE",
    "list_type": "WRONG_TYPE",
    "enum": "INVALID",
    "literal_error": "INVALID",
    "value_error": "INVALID",
}

# Names that other services use for the content of an email.
_CONTENT_NAMES: Final = frozenset({"body", "content", "message"})

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], body: Any, zone: tzinfo | None = None) -> Model:
    """Build a request from parsed JSON, or raise RequestInvalid with every problem.

    Times without a time zone are in `zone`; if `zone` is None, they are invalid.
    """
    try:
        return model.model_validate(body, context=None if zone is None else {"zone": zone})
    except ValidationError as error:
        raise RequestInvalid(_errors_of(model, error)) from error


def parse_strict(model: type[Model], body: Any, zone: tzinfo | None = None) -> Model:
    """Like `parse`, without conversions: the text "5" is not a number."""
    context = None if zone is None else {"zone": zone}
    try:
        return model.model_validate_json(orjson.dumps(body), strict=True, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        raise RequestInvalid(_errors_of(model, error)) from error


def _errors_of(model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    found = field_errors(error.errors(include_url=False))
    known = {field.alias or name for name, field in model.model_fields.items()}
    return [_with_suggestion(each, known) if each.code == UNKNOWN_FIELD else each for each in found]


def _with_suggestion(error: FieldError, known: Collection[str]) -> FieldError:
    """Add the field that was probably meant, if there is one."""
    by_plain_name = {_plain(name): name for name in known}
    meant: str | None = None
    if error.field in _CONTENT_NAMES and {"html", "text"} <= set(known):
        meant = "html or text"
    elif similar := difflib.get_close_matches(_plain(error.field), by_plain_name, n=1, cutoff=0.75):
        meant = by_plain_name[similar[0]]
    if meant is None:
        return error
    message = lazy_gettext("{reason}; did you mean {field}?", reason=error.message, field=meant)
    return replace(error, message=message)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def field_errors(errors: Iterable[Any]) -> list[FieldError]:
    """Translate the validator's errors, so that users never see the validator's own texts."""
    return [
        FieldError(_path(error["loc"]), _CODES.get(kind, kind.upper()), validation_sentence(error))
        for error in errors
        for kind in (error_kind(error),)
    ]


def invalid(code: str, reason: str) -> PydanticCustomError:
    """Return the error for a field's own check. `reason` continues a sentence that begins with the field's name."""
    return PydanticCustomError(code, "{reason}", {"reason": reason})


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "body"
