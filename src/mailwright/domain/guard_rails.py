"""Guard rails: the shares of hard bounces and complaints at which a campaign is slowed down or stopped."""

from dataclasses import fields, replace
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


class Incident(StrEnum):
    """A report that counts against a campaign. Each message counts once for each kind."""

    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"


class GuardAction(StrEnum):
    """What a guard rail does, from the mildest to the strictest."""

    WARN = "warn"
    SLOW_DOWN = "slow_down"
    STOP = "stop"

    @property
    def severity(self) -> int:
        return list(GuardAction).index(self)


Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class GuardRails:
    """The thresholds that apply to a campaign. 0 percent turns a threshold off.

    The complaint thresholds are those of the rules for bulk senders of Gmail and Yahoo: stay below 0.1 %, and never
    reach 0.3 %.
    """

    complaint_warn_percent: float = 0.1
    complaint_stop_percent: float = 0.3
    hard_bounce_warn_percent: float = 2.0
    hard_bounce_stop_percent: float = 5.0
    min_messages: int = 100
    at_warning: str = GuardAction.WARN.value  # or `slow_down`
    slow_per_hour: int = 1_000

    def thresholds(self, kind: Incident) -> tuple[tuple[GuardAction, float], ...]:
        """Return the thresholds of a kind of incident, strictest first."""
        warn, stop = (
            (self.complaint_warn_percent, self.complaint_stop_percent)
            if kind is Incident.COMPLAINT
            else (self.hard_bounce_warn_percent, self.hard_bounce_stop_percent)
        )
        return (GuardAction.STOP, stop), (GuardAction(self.at_warning), warn)


DEFAULT_GUARD_RAILS: Final = GuardRails()


class GuardRailSettings(BaseModel):
    """The guard rails that a tenant or a campaign sets. None means that the next higher level applies."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    complaint_warn_percent: Percent | None = None
    complaint_stop_percent: Percent | None = None
    hard_bounce_warn_percent: Percent | None = None
    hard_bounce_stop_percent: Percent | None = None
    min_messages: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    at_warning: Literal["warn", "slow_down"] | None = None
    slow_per_hour: Annotated[int, Field(ge=1, le=10_000_000)] | None = None

    def over(self, general: GuardRails) -> GuardRails:
        """Return the guard rails with these settings in place of the general ones."""
        own = {field.name: value for field in fields(GuardRails) if (value := getattr(self, field.name)) is not None}
        return replace(general, **own)


@dataclass(frozen=True, slots=True)
class IncidentCounts:
    """The messages of a campaign that have a result, and the incidents among them."""

    messages: int
    hard_bounces: int = 0
    complaints: int = 0

    def of(self, kind: Incident) -> int:
        return self.complaints if kind is Incident.COMPLAINT else self.hard_bounces


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """A threshold that a campaign has passed."""

    kind: Incident
    action: GuardAction
    incidents: int
    messages: int
    threshold: float  # percent

    @property
    def percent(self) -> float:
        return 100 * self.incidents / self.messages if self.messages else 0.0

    @property
    def detail(self) -> dict[str, Any]:
        """The finding for the audit log and webhooks."""
        return {
            "action": self.action.value,
            "kind": self.kind.value,
            "incidents": self.incidents,
            "messages": self.messages,
            "percent": round(self.percent, 3),
            "thresholdPercent": self.threshold,
        }


@dataclass(frozen=True, slots=True)
class GuardState:
    """The findings of a campaign's guard rails. Stored as JSON with its queue entry."""

    since: Instant = 0  # only messages whose attempt began later count: a person resumed the campaign then
    messages_before: int = 0  # the messages with a result at that time
    finding: GuardFinding | None = None  # the threshold whose action is in force
    found_at: Instant | None = None
    slow_per_hour: int | None = None  # set while the campaign is slowed down

    def as_text(self) -> str:
        return _state_adapter().dump_json(self).decode()

    @classmethod
    def read(cls, text: str | None) -> "GuardState":
        return cls() if text is None else _state_adapter().validate_json(text)


@cache  # Made at the first use, which keeps the start fast.
def _state_adapter() -> TypeAdapter[GuardState]:
    return TypeAdapter(GuardState)
