"""Forms of pages, derived from the input of an action. A page states the layout and the words.

The input model decides which control a field has, its limits, how its text is read and which error stands beside it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from enum import Enum
from http import HTTPStatus
from typing import Any, Final, Generic, NamedTuple, TypeVar

from annotated_types import MaxLen, MinLen
from fastapi import Request
from pydantic.fields import FieldInfo

from mailwright.actions.inputs import annotations_of, find_annotation, plain_type
from mailwright.domain.errors import MailwrightError
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import parse
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields, read_values

Input = TypeVar("Input", bound=RequestModel)
Result = TypeVar("Result")

# The texts of a switch.
_ON: Final = "yes"
_OFF: Final = "no"


class Control(NamedTuple):
    """A field, for its template: the control, its limits and what it shows."""

    type: str  # of the HTML element
    value: str
    is_required: bool
    max_length: int | None


class InputForm(Generic[Input]):
    """The fields of an input model, with the texts that the form shows and one error for each invalid field.

    `shown` holds values by the names of the model. Fields without a value show the default of the model.
    """

    def __init__(self, model: type[Input], **shown: Any) -> None:
        self.errors = Errors()
        self.posted = Fields()  # everything that the browser sent, also fields that are not in the model
        self._model = model
        self._fields = {field.alias or name: field for name, field in model.model_fields.items()}
        self._texts: dict[str, str] = {}
        self._many: dict[str, list[str]] = {}
        for name, field in model.model_fields.items():
            value = shown.get(name, None if field.is_required() else field.get_default())
            if plain_type(field.annotation)[1]:
                self._many[field.alias or name] = [_text(each) for each in value or ()]
            else:
                self._texts[field.alias or name] = _text(value)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    @property
    def status(self) -> HTTPStatus:
        return HTTPStatus.UNPROCESSABLE_ENTITY if self.errors else HTTPStatus.OK

    def control(self, name: str) -> Control:
        field = self._fields[name]
        longest = find_annotation(field, MaxLen)
        return Control(
            _control_type(name, field),
            self._texts[name],
            field.is_required(),
            None if longest is None else longest.max_length,
        )

    def has(self, name: str, value: str) -> bool:
        """Return whether a field that takes many values contains this one."""
        return value in self._many[name]

    async def read(self, request: Request) -> "InputForm[Input]":
        """Replace the texts with those that the browser sent. Fields that are not on the page keep theirs.

        A field that takes many values is empty if the browser sent none, because it sends no empty checkboxes.
        """
        self.posted = await read_fields(request)
        self._texts |= {name: text for name, text in self.posted.items() if name in self._texts}
        for name in self._many:
            self._many[name] = [each for each in await read_values(request, name) if each]
        return self

    async def submit(self, run: Callable[[Input], Awaitable[Result]], **fixed: Any) -> Result | None:
        """Run an action with the input of the form. If that fails, return None; the form then has errors.

        `fixed` holds the values that the page decides itself, by the names of the model.
        """
        try:
            return await run(self._input(fixed))
        except MailwrightError as error:
            self.fail(error)
            return None

    def fail(self, error: MailwrightError) -> None:
        """Show an error beside its field, or above the form if the field is not on the page."""
        for name, sentence in field_errors(error).items():
            whole = name.partition("[")[0]  # Of `types[0]`, for example.
            self.errors[whole if whole in self.posted or whole in self._many else FORM] = sentence

    def _input(self, fixed: Mapping[str, Any]) -> Input:
        given = {self._model.model_fields[name].alias or name: value for name, value in fixed.items()}
        read = {name: self._read(name, field) for name, field in self._fields.items() if name not in given}
        return parse(self._model, {**{name: value for name, value in read.items() if value is not None}, **given})

    def _read(self, name: str, field: FieldInfo) -> Any:
        """Return the value of a field; None if it is empty and the model does not take an empty text."""
        kind, is_many = plain_type(field.annotation)
        if is_many:
            return self._many[name]
        if kind is bool:
            return self._texts[name] == _ON if self._texts[name] else None
        if kind is int:
            return Fields(self._texts).number(name)
        is_text = kind is str and find_annotation(field, MinLen) is None
        return self._texts[name] if self._texts[name] or (is_text and name in self.posted) else None


def stored_values(stored: Any) -> dict[str, Any]:
    """Return the present values of a dataclass, for the form that changes it."""
    values = {field.name: getattr(stored, field.name) for field in fields(stored)}
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return _ON if value else _OFF
        case Enum():
            return str(value.value)
    return str(value)


def _control_type(name: str, field: FieldInfo) -> str:
    kind, _ = plain_type(field.annotation)
    formats = [(getattr(each, "json_schema_extra", None) or {}).get("format") for each in annotations_of(field)]
    if kind is bool:
        return "checkbox"
    if "email" in formats or name == "email":
        return "email"
    return "url" if name == "url" else "text"
