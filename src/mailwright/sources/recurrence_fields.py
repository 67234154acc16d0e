"""The fields of a schedule that repeats, for sequences and campaigns."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from mailwright.domain.recurrence import WEEKDAYS, Recurrence
from mailwright.policies.hours import is_zone


def _clock_time(text: str) -> str:
    if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
        raise ValueError("must be a time such as 09:00")
    return text


def _zone(name: str) -> str:
    if not is_zone(name):
        raise ValueError("is not an IANA time zone, for example Europe/Lisbon or UTC")
    return name


def _web_address(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", text):
        raise ValueError("must be the web address of a feed such as https://example.com/feed.xml")
    return text


ClockTime = Annotated[str, AfterValidator(_clock_time)]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
FeedUrl = Annotated[str, Field(max_length=2_000), AfterValidator(_web_address)]


class ScheduleFields(BaseModel):
    """Weekdays or days of the month at a local time. Without a zone, the tenant's applies."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    weekdays: Annotated[tuple[Weekday, ...], Field(min_length=1)] = WEEKDAYS
    month_days: Annotated[tuple[Annotated[int, Field(ge=1, le=31)], ...], Field(max_length=31)] = ()
    time: ClockTime
    timezone: Annotated[str, AfterValidator(_zone)] | None = None

    @model_validator(mode="after")
    def _require_one_kind(self) -> "ScheduleFields":
        if {"weekdays", "month_days"} <= self.model_fields_set:
            raise ValueError("has weekdays and monthDays; keep one of them")
        return self

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(self.time, self.weekdays, self.month_days)
