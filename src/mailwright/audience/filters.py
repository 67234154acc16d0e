"""Filters: questions about people as data. Typed and bounded, and never a word of SQL in them.

A filter is an object: `{"all": […]}`, `{"any": […]}` and `{"not": …}` hold others, and each of the rest asks one thing:
`{"attribute": "plan", "is": "pro"}`, `{"tag": "vip"}`, `{"opened": {"withinDays": 30}}`. Every question is answered
with yes or no; what is not known of a person is a no.
"""

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from itertools import zip_longest
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from mailwright.audience.contact_fields import InvalidContact, attribute_name, tag_name
from mailwright.audience.lists import KEY_PATTERN
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import InvalidInput

MAX_DEPTH: Final = 8
MAX_CONDITIONS: Final = 100
MAX_VALUES: Final = 500
MAX_VALUE_LENGTH: Final = 500
# Numbers of attributes are compared as far as every engine keeps them exactly.
MAX_NUMBER: Final = 1e15


class InvalidFilter(InvalidInput):
    """The filter is not one that can be asked."""

    code = "FILTER_INVALID"


def _value(value: Any) -> Any:
    if isinstance(value, str) and (not value.isprintable() or value != value.strip()):
        raise ValueError("must be printable, without space at its ends")
    if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
        raise ValueError(f"must lie between -{MAX_NUMBER:.0e} and {MAX_NUMBER:.0e}")
    return value


def _day(text: str) -> str:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise ValueError("must be a number or a day, as 2027-01-31")


def _written(check: Any) -> Any:
    """Takes the objections of those who write such names as objections to the filter."""

    def checked(text: str) -> str:
        try:
            name: str = check(text)
        except InvalidContact as error:
            raise ValueError(str(error)) from error
        return name

    return AfterValidator(checked)


def _locale(text: str) -> str:
    if (locale := locales.normal(text)) is None:
        raise ValueError("is no locale, as pt or pt-BR")
    return locale


def _domain(text: str) -> str:
    try:
        return address.parse(f"a@{text}")[1]
    except address.InvalidAddress as error:
        raise ValueError(str(error)) from error


def _moment(value: Any) -> Instant:
    """`2027-01-31T09:00:00Z`; a day alone is its beginning in UTC."""
    text = f"{value}T00:00:00Z" if isinstance(value, str) and len(value) == len("2027-01-31") else value
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return to_instant(moment)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("must be a day or a time with its zone, as 2027-01-31T09:00:00Z")


Words = Annotated[StrictStr, Field(min_length=1, max_length=MAX_VALUE_LENGTH), AfterValidator(_value)]
Number = Annotated[StrictInt | StrictFloat, AfterValidator(_value)]
Value: TypeAlias = StrictBool | Number | Words
Bound: TypeAlias = Number | Annotated[StrictStr, AfterValidator(_day)]
Moment = Annotated[Instant, BeforeValidator(_moment)]


class FilterCondition(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class AllOf(FilterCondition):
    all: Annotated[tuple["Filter", ...], Field(min_length=1, max_length=MAX_CONDITIONS)]


class AnyOf(FilterCondition):
    any: Annotated[tuple["Filter", ...], Field(min_length=1, max_length=MAX_CONDITIONS)]


class Not(FilterCondition):
    not_: Annotated["Filter", Field(alias="not")]


class AttributeCondition(FilterCondition):
    """One comparison. Words are compared with words, exactly; numbers also with words that are numbers, as files bring
    them; days by the first ten characters of words that begin with a day. `contains` does not tell A from a."""

    attribute: Annotated[str, _written(attribute_name)]
    is_: Annotated[Value | None, Field(alias="is")] = None
    is_not: Value | None = None
    in_: Annotated[tuple[Value, ...] | None, Field(alias="in", min_length=1, max_length=MAX_VALUES)] = None
    contains: Words | None = None
    greater_than: Bound | None = None
    less_than: Bound | None = None
    at_least: Bound | None = None
    at_most: Bound | None = None
    exists: StrictBool | None = None

    @model_validator(mode="after")
    def _one(self) -> "AttributeCondition":
        if len(self._comparisons()) != 1:
            names = [field.alias for name, field in type(self).model_fields.items() if name != "attribute"]
            raise ValueError(f"needs exactly one of {', '.join(filter(None, names))}")
        return self

    def _comparisons(self) -> dict[str, Any]:
        return {name: value for name, value in self if name != "attribute" and value is not None}

    @property
    def comparison(self) -> tuple[str, Any]:
        """Its name, as the field here is called, and what is compared with."""
        return next(iter(self._comparisons().items()))


class HasTag(FilterCondition):
    tag: Annotated[str, _written(tag_name)]


class OnList(FilterCondition):
    """Subscribed now, and confirmed where the list asks for that."""

    list: Annotated[str, Field(pattern=f"^{KEY_PATTERN}$")]


class HasStatus(FilterCondition):
    status: Literal["active", "unsubscribed", "bounced"]


class HasLocale(FilterCondition):
    """`pt` is also `pt-BR`."""

    locale: Annotated[str, AfterValidator(_locale)]


class InTimezone(FilterCondition):
    timezone: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_+/-]+$")]


class AtDomain(FilterCondition):
    domain: Annotated[str, Field(max_length=253), AfterValidator(_domain)]


class CreatedSince(FilterCondition):
    created_since: Moment


class CreatedBefore(FilterCondition):
    created_before: Moment


class MessageActivity(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)

    within_days: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None
    at_least: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    campaign: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")] | None = None


class WasSent(FilterCondition):
    sent: MessageActivity


class HasOpened(FilterCondition):
    opened: MessageActivity


class HasClicked(FilterCondition):
    clicked: MessageActivity


class HasBounced(FilterCondition):
    bounced: MessageActivity


CONDITION_TYPES: Final[Mapping[str, type[FilterCondition]]] = {
    "all": AllOf,
    "any": AnyOf,
    "not": Not,
    "attribute": AttributeCondition,
    "tag": HasTag,
    "list": OnList,
    "status": HasStatus,
    "locale": HasLocale,
    "timezone": InTimezone,
    "domain": AtDomain,
    "createdSince": CreatedSince,
    "createdBefore": CreatedBefore,
    "sent": WasSent,
    "opened": HasOpened,
    "clicked": HasClicked,
    "bounced": HasBounced,
}


def _shape(given: Any) -> str | None:
    """The one key that says what is asked."""
    if isinstance(given, FilterCondition):
        return next(name for name, shape in CONDITION_TYPES.items() if shape is type(given))
    named = [name for name in CONDITION_TYPES if name in given] if isinstance(given, dict) else []
    return named[0] if len(named) == 1 else None


Filter: TypeAlias = Annotated[
    Annotated[AllOf, Tag("all")]
    | Annotated[AnyOf, Tag("any")]
    | Annotated[Not, Tag("not")]
    | Annotated[AttributeCondition, Tag("attribute")]
    | Annotated[HasTag, Tag("tag")]
    | Annotated[OnList, Tag("list")]
    | Annotated[HasStatus, Tag("status")]
    | Annotated[HasLocale, Tag("locale")]
    | Annotated[InTimezone, Tag("timezone")]
    | Annotated[AtDomain, Tag("domain")]
    | Annotated[CreatedSince, Tag("createdSince")]
    | Annotated[CreatedBefore, Tag("createdBefore")]
    | Annotated[WasSent, Tag("sent")]
    | Annotated[HasOpened, Tag("opened")]
    | Annotated[HasClicked, Tag("clicked")]
    | Annotated[HasBounced, Tag("bounced")],
    Discriminator(
        _shape,
        custom_error_type="unknown_question",
        custom_error_message=f"asks nothing that is known here; use exactly one of {', '.join(CONDITION_TYPES)}",
    ),
]

for _model in (AllOf, AnyOf, Not):
    _model.model_rebuild()
_FILTER: TypeAdapter[Any] = TypeAdapter(Filter)
_MODELS: Final[tuple[type[BaseModel], ...]] = (*CONDITION_TYPES.values(), MessageActivity)
_FIELDS: Final = {field.alias for shape in _MODELS for field in shape.model_fields.values() if field.alias}


def parse(given: Any) -> FilterCondition:
    """Everything that is wrong is told, each with its place, as `all[1].attribute`."""
    _check_size(given)
    try:
        parsed: FilterCondition = _FILTER.validate_python(given)
    except ValidationError as error:
        # A value that is of no kind is told once for each kind that it could have been: once is enough.
        told = {_place(each["loc"]): _sentence(each) for each in reversed(error.errors()) if not _is_echo(each)}
        first = sorted(told.items())[:5]
        raise InvalidFilter("; ".join(f"{place}: {what}" for place, what in first), field="filter") from error
    return parsed


def _check_size(given: Any) -> None:
    """Looked at level by level before anything else, so that no depth of nesting costs anything."""
    level, questions = [given], 0
    for _ in range(MAX_DEPTH + 1):
        level = [part for each in level for part in _inner(each)]
        questions += len(level)
        if questions > MAX_CONDITIONS:
            raise InvalidFilter(f"asks more than {MAX_CONDITIONS} questions", field="filter")
        if not level:
            return
    raise InvalidFilter(f"is nested deeper than {MAX_DEPTH} levels", field="filter")


def _inner(given: Any) -> Iterator[Any]:
    if isinstance(given, dict):
        for name in ("all", "any"):
            if isinstance(given.get(name), list | tuple):
                yield from given[name]
        if "not" in given:
            yield given["not"]


def _place(steps: tuple[Any, ...]) -> str:
    """Without the names of shapes, which the place has already said."""
    text = "filter"
    for step, following in zip_longest(steps, steps[1:]):
        if isinstance(step, int):
            text += f"[{step}]"
        elif step in _FIELDS and (step not in CONDITION_TYPES or step == following):
            text += f".{step}"
    return text


def _is_echo(error: Any) -> bool:
    """A list is called too short when what stands in it was refused; that was told already."""
    return error["type"] == "too_short" and bool(error["input"])


def _sentence(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}"
