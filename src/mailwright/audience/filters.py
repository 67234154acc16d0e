"""Filters: conditions on contacts as typed, bounded JSON, without any SQL.

A filter is an object. `{"all": […]}`, `{"any": […]}` and `{"not": …}` combine other filters. Every other filter is one
condition, for example `{"attribute": "plan", "is": "pro"}`, `{"tag": "vip"}` or `{"opened": {"withinDays": 30}}`. A
condition is either true or false. It is false if the value is unknown.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from functools import cache
from itertools import zip_longest
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

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

from mailwright.audience.contact_fields import InvalidContact, check_attribute_name, normalize_tag
from mailwright.audience.lists import KEY_PATTERN
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.printable import is_printable
from mailwright.domain.translation import lazy_gettext, lazy_text
from mailwright.domain.validation_text import validation_sentence

MAX_DEPTH: Final = 8
MAX_CONDITIONS: Final = 100
MAX_VALUES: Final = 500
MAX_VALUE_LENGTH: Final = 500
# Attribute numbers are compared only in the range that every engine stores exactly.
MAX_NUMBER: Final = 1e15


class InvalidFilter(InvalidInput):
    """The filter is not valid."""

    code = "FILTER_INVALID"


def _value(value: Any) -> Any:
    if isinstance(value, str) and (not is_printable(value) or value != value.strip()):
        raise ValueError(lazy_gettext("must be printable text without spaces at its ends"))
    if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:
        raise ValueError(lazy_gettext("must be between -{max_number} and {max_number}", max_number=f"{MAX_NUMBER:.0e}"))
    return value


def _day(text: str) -> str:
    try:
        if date.fromisoformat(text).isoformat() == text:
            return text
    except ValueError:
        pass
    raise ValueError(lazy_gettext("must be a number or a date such as 2027-01-31"))


def _property_name(text: str) -> str:
    if not text.isprintable() or '"' in text or "\\" in text:
        raise ValueError(lazy_gettext('must be printable text without " and \\'))
    return text


def _checked_by(check: Any) -> Any:
    """Return a validator that calls a function of `contact_fields` and reports its errors as filter errors."""

    def checked(text: str) -> str:
        try:
            name: str = check(text)
        except InvalidContact as error:
            raise ValueError(error.text) from error
        return name

    return AfterValidator(checked)


def _locale(text: str) -> str:
    if (locale := locales.normal(text)) is None:
        raise ValueError(lazy_gettext("must be a locale such as pt or pt-BR"))
    return locale


def _domain(text: str) -> str:
    try:
        return address.parse(f"a@{text}")[1]
    except address.InvalidAddress as error:
        raise ValueError(lazy_gettext("must be a domain such as example.com")) from error


def _list_key(text: str) -> str:
    if not _LIST_KEY.fullmatch(text):
        raise ValueError(lazy_gettext("must be a list key such as product-news"))
    return text


def _timezone(text: str) -> str:
    if not _TIMEZONE.fullmatch(text):
        raise ValueError(lazy_gettext("must be an IANA time zone such as Europe/Lisbon"))
    return text


def _campaign(text: str) -> str:
    if not _CAMPAIGN_ID.fullmatch(text):
        raise ValueError(lazy_gettext("must be the ID of a campaign"))
    return text


def _time(value: Any) -> Instant:
    """Parse a time such as `2027-01-31T09:00:00Z`. A date without a time means its start in UTC."""
    text = f"{value}T00:00:00Z" if isinstance(value, str) and len(value) == len("2027-01-31") else value
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return to_instant(time)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(lazy_gettext("must be a date, or a time with its zone such as 2027-01-31T09:00:00Z"))


_LIST_KEY: Final = re.compile(KEY_PATTERN)
_TIMEZONE: Final = re.compile(r"[A-Za-z0-9_+/-]{1,100}")
_CAMPAIGN_ID: Final = re.compile(r"[0-9a-f-]{36}")

Text = Annotated[StrictStr, Field(min_length=1, max_length=MAX_VALUE_LENGTH), AfterValidator(_value)]
Number = Annotated[StrictInt | StrictFloat, AfterValidator(_value)]
Value: TypeAlias = StrictBool | Number | Text
Bound: TypeAlias = Number | Annotated[StrictStr, AfterValidator(_day)]
Time = Annotated[Instant, BeforeValidator(_time)]


class FilterCondition(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class AllOf(FilterCondition):
    all: Annotated[tuple["Filter", ...], Field(min_length=1, max_length=MAX_CONDITIONS)]


class AnyOf(FilterCondition):
    any: Annotated[tuple["Filter", ...], Field(min_length=1, max_length=MAX_CONDITIONS)]


class Not(FilterCondition):
    not_: Annotated["Filter", Field(alias="not")]


class ValueComparison(BaseModel):
    """One comparison with a value. `contains` ignores case; all other text comparisons are exact.

    A number also matches a text that contains this number, because imported files store numbers as text. A date is
    compared with the first ten characters of a text.
    """

    model_config = FilterCondition.model_config

    is_: Annotated[Value | None, Field(alias="is")] = None
    is_not: Value | None = None
    in_: Annotated[tuple[Value, ...] | None, Field(alias="in", min_length=1, max_length=MAX_VALUES)] = None
    contains: Text | None = None
    greater_than: Bound | None = None
    less_than: Bound | None = None
    at_least: Bound | None = None
    at_most: Bound | None = None
    exists: StrictBool | None = None

    @model_validator(mode="after")
    def _require_one_comparison(self) -> Self:
        if len(self._comparisons()) != 1:
            names = [field.alias for field in ValueComparison.model_fields.values()]
            raise ValueError(lazy_gettext("needs exactly one of {filter}", filter=", ".join(filter(None, names))))
        return self

    def _comparisons(self) -> dict[str, Any]:
        return {name: value for name, value in self if name in ValueComparison.model_fields and value is not None}

    @property
    def comparison(self) -> tuple[str, Any]:
        """The field name of the comparison, and the value to compare with."""
        return next(iter(self._comparisons().items()))


class _NamedAttribute(FilterCondition):
    attribute: Annotated[str, _checked_by(check_attribute_name)]


class AttributeCondition(ValueComparison, _NamedAttribute):
    """One comparison with an attribute."""


class HasTag(FilterCondition):
    tag: Annotated[str, _checked_by(normalize_tag)]


class OnList(FilterCondition):
    """The contact is subscribed to the list and has confirmed if the list requires that."""

    list: Annotated[str, AfterValidator(_list_key)]


class HasStatus(FilterCondition):
    status: Literal["active", "unsubscribed", "bounced"]


class HasLocale(FilterCondition):
    """`pt` includes `pt-BR`."""

    locale: Annotated[str, AfterValidator(_locale)]


class InTimezone(FilterCondition):
    timezone: Annotated[str, AfterValidator(_timezone)]


class AtDomain(FilterCondition):
    domain: Annotated[str, AfterValidator(_domain)]


class CreatedSince(FilterCondition):
    created_since: Time


class CreatedBefore(FilterCondition):
    created_before: Time


class MessageActivity(BaseModel):
    """Bounds for a message condition: the minimum count, the time span and the campaign."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    within_days: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None
    at_least: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    campaign: Annotated[str, AfterValidator(_campaign)] | None = None


class OpenActivity(MessageActivity):
    """Adds bounds for the time between sending and the first open or click."""

    after_minutes: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = None
    before_minutes: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None


class ClickActivity(OpenActivity):
    """Also the link."""

    url: Text | None = None


class CampaignReference(BaseModel):
    model_config = MessageActivity.model_config

    campaign: Annotated[str, AfterValidator(_campaign)]


class WasSent(FilterCondition):
    sent: MessageActivity


class HasOpened(FilterCondition):
    opened: OpenActivity


class HasClicked(FilterCondition):
    clicked: ClickActivity


class DidNotOpen(FilterCondition):
    """The contact received the campaign, could be tracked, and certainly did not open it."""

    did_not_open: CampaignReference


class HasBounced(FilterCondition):
    bounced: MessageActivity


class HasComplained(FilterCondition):
    complained: MessageActivity


class HasUnsubscribed(FilterCondition):
    """The contact unsubscribed through a link of a message."""

    unsubscribed: MessageActivity


def _comparison(given: Any) -> Any:
    """Accept a value instead of a comparison: `"EUR"` is short for `{"is": "EUR"}`."""
    return given if isinstance(given, dict | ValueComparison) else {"is": given}


PropertyComparison = Annotated[ValueComparison, BeforeValidator(_comparison)]
PropertyName = Annotated[StrictStr, Field(min_length=1, max_length=100), AfterValidator(_property_name)]


class EventActivity(BaseModel):
    """Bounds for contact events: the name, the minimum count, the time span, and conditions on their properties."""

    model_config = FilterCondition.model_config

    name: Annotated[StrictStr, Field(min_length=1, max_length=100), AfterValidator(_value)]
    at_least: Annotated[StrictInt, Field(ge=1, le=1000)] = 1
    within_days: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None
    where: Annotated[dict[PropertyName, PropertyComparison], Field(min_length=1, max_length=20)] | None = None


class HasEvent(FilterCondition):
    event: EventActivity


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
    "didNotOpen": DidNotOpen,
    "bounced": HasBounced,
    "complained": HasComplained,
    "unsubscribed": HasUnsubscribed,
    "event": HasEvent,
}


def _condition_name(given: Any) -> str | None:
    """Return the key that identifies the type of the condition, or None unless there is exactly one."""
    if isinstance(given, FilterCondition):
        return next(name for name, type_ in CONDITION_TYPES.items() if type_ is type(given))
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
    | Annotated[DidNotOpen, Tag("didNotOpen")]
    | Annotated[HasBounced, Tag("bounced")]
    | Annotated[HasComplained, Tag("complained")]
    | Annotated[HasUnsubscribed, Tag("unsubscribed")]
    | Annotated[HasEvent, Tag("event")],
    Discriminator(
        _condition_name,
        custom_error_type="unknown_condition",
        custom_error_message=f"needs exactly one of {', '.join(CONDITION_TYPES)}",
    ),
]

_MODELS: Final[tuple[type[BaseModel], ...]] = (
    *CONDITION_TYPES.values(),
    ClickActivity,
    CampaignReference,
    EventActivity,
)


def parse(given: Any) -> FilterCondition:
    """Parse a filter, or raise with every problem and its path, for example `filter.all[1].attribute`."""
    _check_size(given)
    try:
        parsed: FilterCondition = _adapter().validate_python(given)
    except ValidationError as error:
        problems = sorted(_problems(error).items())[:5]
        raise InvalidFilter(
            lazy_text(lambda: "; ".join(f"{path}: {problem}" for path, problem in problems)), field="filter"
        ) from error
    return parsed


def values_named(given: Any, name: str) -> Iterator[str]:
    """Return all texts with this field name in a filter, at any depth: for `list`, the keys of lists."""
    if isinstance(given, Mapping):
        if isinstance(given.get(name), str):
            yield given[name]
        # The properties of events are named by the tenant.
        given = [inner for key, inner in given.items() if key != "where"]
    if isinstance(given, list | tuple):
        for inner in given:
            yield from values_named(inner, name)


@cache  # Made at the first use, because it takes 20 ms and most commands parse no filter.
def _adapter() -> TypeAdapter[Any]:
    for model in (AllOf, AnyOf, Not):
        model.model_rebuild()
    return TypeAdapter(Filter)


@cache
def _field_names() -> frozenset[str]:
    _adapter()  # Pydantic knows the fields of nested filters only then.
    return frozenset(field.alias for model in _MODELS for field in model.model_fields.values() if field.alias)


def _problems(error: ValidationError) -> dict[str, str]:
    """Return one sentence per path. Pydantic reports a wrong type once per allowed type, so merge these errors."""
    by_path: dict[str, list[Any]] = {}
    for detail in error.errors():
        if not _is_consequence(detail):
            by_path.setdefault(_path(_location(detail)), []).append(detail)
    return {path: _sentence(details) for path, details in by_path.items()}


def _sentence(details: list[Any]) -> str:
    specific = [detail for detail in details if not detail["type"].endswith("_type")]
    if len(details) > 1 and not specific:
        return lazy_gettext("must be text, a number, true or false")
    detail = (specific or details)[0]
    if _is_unknown_field(detail):
        return lazy_gettext("has an unknown field {name}", name=repr(detail["loc"][-1]))
    return validation_sentence(detail)


def _location(detail: Any) -> tuple[Any, ...]:
    """Return the location of a problem. For an unknown field, that is the condition that contains it."""
    location: tuple[Any, ...] = detail["loc"]
    return location[:-1] if _is_unknown_field(detail) else location


def _is_unknown_field(detail: Any) -> bool:
    return bool(detail["type"] == "extra_forbidden")


def _check_size(given: Any) -> None:
    """Check depth and size level by level, so that a deeply nested filter is refused early."""
    level, conditions = [given], 0
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inner_filters(outer)]
        conditions += len(level)
        if conditions > MAX_CONDITIONS:
            raise InvalidFilter(
                "The filter has more than {max_conditions} conditions.", field="filter", max_conditions=MAX_CONDITIONS
            )
        if not level:
            return
    raise InvalidFilter("The filter is nested deeper than {max_depth} levels.", field="filter", max_depth=MAX_DEPTH)


def _inner_filters(given: Any) -> Iterator[Any]:
    if isinstance(given, dict):
        for name in ("all", "any"):
            if isinstance(given.get(name), list | tuple):
                yield from given[name]
        if "not" in given:
            yield given["not"]


def _path(steps: tuple[Any, ...]) -> str:
    """Return the path of a problem, without the tags that pydantic adds for kinds of conditions."""
    text = "filter"
    for step, following in zip_longest(steps, steps[1:]):
        if isinstance(step, int):
            text += f"[{step}]"
        elif step in _field_names() and (step not in CONDITION_TYPES or step == following):
            text += f".{step}"
    return text


def _is_consequence(error: Any) -> bool:
    """Return whether a problem only follows from another one.

    For example, a list whose items were refused is also reported as too short.
    """
    return error["type"] == "too_short" and bool(error["input"])
