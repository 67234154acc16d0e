"""Sign-up forms: typed fields that become contact attributes, and consent boxes whose wording is evidence."""

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Any, Final

from mailwright.domain.lazy_dataclass import dataclass

MAX_VALUE_LENGTH: Final = 500
MAX_NUMBER: Final = 1e15


class FieldType(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    CHOICE = "choice"
    CHECKBOX = "checkbox"


@dataclass(frozen=True, slots=True)
class FormField:
    """A field. Its value becomes the attribute `attribute` of the contact who confirms."""

    attribute: str
    label: str
    type: FieldType = FieldType.TEXT
    is_required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsentBox:
    """A box with the exact text that people agree to."""

    key: str
    wording: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class FormContent:
    """The content of a form. Empty texts are replaced by the texts of the list, in the visitor's language."""

    title: str = ""
    text: str = ""
    button: str = ""
    fields: tuple[FormField, ...] = ()
    consents: tuple[ConsentBox, ...] = ()


class FieldProblem(StrEnum):
    MISSING = "missing"
    INVALID = "invalid"
    NOT_A_NUMBER = "not_a_number"
    NOT_A_DATE = "not_a_date"


_WRONG_TYPES: Final = {FieldType.NUMBER: FieldProblem.NOT_A_NUMBER, FieldType.DATE: FieldProblem.NOT_A_DATE}


@dataclass(frozen=True, slots=True)
class FormAnswers:
    """The values of a submitted form, and the problems by the name of their input."""

    attributes: Mapping[str, Any]
    consents: Mapping[str, bool]
    problems: Mapping[str, FieldProblem]


def field_input(field: FormField) -> str:
    """Return the name of a field's input. The prefix keeps it apart from the address and the hidden fields."""
    return f"field.{field.attribute}"


def consent_input(consent: ConsentBox) -> str:
    return f"consent.{consent.key}"


def parse_answers(content: FormContent, given: Mapping[str, Sequence[str]]) -> FormAnswers:
    """Parse a submitted form. Inputs that the form does not have are ignored."""
    attributes: dict[str, Any] = {}
    consents: dict[str, bool] = {}
    problems: dict[str, FieldProblem] = {}
    for field in content.fields:
        name = field_input(field)
        text = " ".join((given.get(name) or [""])[0].split())
        try:
            value = _parse(field, text)
        except ValueError:
            problems[name] = _WRONG_TYPES.get(field.type, FieldProblem.INVALID)
            continue
        if field.is_required and (value is None or value is False):  # The number 0 is an answer.
            problems[name] = FieldProblem.MISSING
        elif value is not None:
            attributes[field.attribute] = value
    for consent in content.consents:
        name = consent_input(consent)
        consents[consent.key] = bool(given.get(name))
        if consent.is_required and not consents[consent.key]:
            problems[name] = FieldProblem.MISSING
    return FormAnswers(attributes, consents, problems)


def _parse(field: FormField, text: str) -> Any:
    """Return the value of a field; None if it is empty. Raise `ValueError` if it is not of the field's type."""
    if field.type is FieldType.CHECKBOX:
        return bool(text)
    if not text:
        return None
    if len(text) > MAX_VALUE_LENGTH or not text.isprintable():
        raise ValueError
    match field.type:
        case FieldType.NUMBER:
            return _number(text)
        case FieldType.DATE:
            return date.fromisoformat(text).isoformat()
        case FieldType.CHOICE if text not in field.choices:
            raise ValueError
        case _:
            return text


def _number(text: str) -> int | float:
    """Parse a number with a point or a comma. Infinities and exponents without end are refused."""
    number = float(text.replace(",", "."))
    if not abs(number) <= MAX_NUMBER:
        raise ValueError
    return int(number) if number.is_integer() else number
