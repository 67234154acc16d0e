"""The document of a sequence: what starts it, its steps, and what ends it. Every problem is reported with its path."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from mailwright.audience import filters
from mailwright.audience.contact_fields import InvalidContact, check_attribute_name, normalize_tag
from mailwright.audience.lists import GENERAL, KEY_PATTERN
from mailwright.domain import address
from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recurrence import WEEKDAYS, Recurrence
from mailwright.domain.translation import lazy_gettext
from mailwright.domain.validation_text import validation_sentence
from mailwright.sources.api.contact_events import MAX_NAME_LENGTH
from mailwright.sources.api.fields import is_deeper_than
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.recurrence_fields import ClockTime, FeedUrl, ScheduleFields, Weekday

MAX_STEPS: Final = 200
MAX_DEPTH: Final = 6
MAX_PATHS: Final = 20
MAX_EXITS: Final = 10
# Deeper than any valid document, and less than the limit of the JSON encoder.
MAX_JSON_DEPTH: Final = 100
MAX_WEBHOOK_DATA_BYTES: Final = 16 * 1024
# The days after the last step in which a goal still counts, unless the document says otherwise.
DEFAULT_GOAL_DAYS: Final = 7
MAX_GOAL_DAYS: Final = 90
# The days after their entry in which a person who may not receive the emails yet can still consent.
DEFAULT_CONSENT_DAYS: Final = 7
MAX_CONSENT_DAYS: Final = 90
# The minimum wait in a cycle, so that nobody gets many emails within an hour.
SHORTEST_CYCLE_WAIT: Final[Instant] = HOUR

_KEY: Final = re.compile(KEY_PATTERN)
_STEP_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class InvalidSequence(RequestInvalid):
    """The document of the sequence is not valid."""

    code = "SEQUENCE_INVALID"


class StepKind(StrEnum):
    SEND = "send"
    WAIT = "wait"
    WAIT_UNTIL = "waitUntil"
    WAIT_FOR = "waitFor"
    BRANCH = "branch"
    SPLIT = "split"
    CHANGE = "change"
    NOTIFY = "notify"
    WEBHOOK = "webhook"
    GO_TO = "goTo"
    END = "end"


class TriggerKind(StrEnum):
    MANUAL = "manual"
    JOINS_LIST = "joinsList"
    ENTERS_SEGMENT = "entersSegment"
    LEAVES_SEGMENT = "leavesSegment"
    DATE_ATTRIBUTE = "dateAttribute"
    OPENS = "opens"
    CLICKS = "clicks"
    EVENT = "event"
    SCHEDULE = "schedule"
    RSS = "rss"


def _key(text: str) -> str:
    if not _KEY.fullmatch(text):
        raise ValueError(lazy_gettext("must be a key such as product-news"))
    return text


def _tag(text: str) -> str:
    try:
        return normalize_tag(text)
    except InvalidContact as error:
        raise ValueError(error.text) from error


def _attribute(text: str) -> str:
    try:
        return check_attribute_name(text)
    except InvalidContact as error:
        raise ValueError(error.text) from error


def _email(text: str) -> str:
    try:
        local, domain = address.parse(text)
    except address.InvalidAddress as error:
        raise ValueError(lazy_gettext("must be an email address: {error}", error=error)) from error
    return f"{local}@{domain}"


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(lazy_gettext("must be one line of printable text"))
    return text


def _webhook_id(text: str) -> str:
    if not is_uuid(text):
        raise ValueError(lazy_gettext("must be the ID of a webhook of the tenant"))
    return text


Key = Annotated[str, AfterValidator(_key)]
Tag = Annotated[str, AfterValidator(_tag)]
AttributeName = Annotated[str, AfterValidator(_attribute)]
Email = Annotated[str, AfterValidator(_email)]
Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
WebhookId = Annotated[str, AfterValidator(_webhook_id)]
TemplateId = Annotated[str, Field(min_length=1, max_length=200)]
EventName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_one_line)]
# Conditions on the properties of an event.
PropertyConditions = Annotated[
    dict[filters.PropertyName, filters.PropertyComparison], Field(min_length=1, max_length=20)
]
CampaignId = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class _Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class SendBody(_Body):
    template: TemplateId
    subject: Line | None = None
    variables: dict[str, Any] = {}


class Duration(_Body):
    days: Annotated[int, Field(ge=0, le=3650)] = 0
    hours: Annotated[int, Field(ge=0, le=1000)] = 0
    minutes: Annotated[int, Field(ge=0, le=100_000)] = 0

    @model_validator(mode="after")
    def _require_some(self) -> "Duration":
        if not self.milliseconds:
            raise ValueError(lazy_gettext("needs days, hours or minutes"))
        return self

    @property
    def milliseconds(self) -> Instant:
        return self.days * DAY + self.hours * HOUR + self.minutes * MINUTE


class WaitUntilBody(_Body):
    weekdays: Annotated[tuple[Weekday, ...], Field(min_length=1)] = WEEKDAYS
    time: ClockTime

    @property
    def recurrence(self) -> Recurrence:
        return Recurrence(self.time, self.weekdays)


class WaitForBody(_Body):
    filter: dict[str, Any] | None = None
    event: EventName | None = None
    where: PropertyConditions | None = None
    timeout: Duration

    @model_validator(mode="after")
    def _require_one(self) -> "WaitForBody":
        if (self.filter is None) == (self.event is None):
            raise ValueError(lazy_gettext("needs exactly one of filter and event"))
        if self.where is not None and self.event is None:
            raise ValueError(lazy_gettext("has where without event; a filter has its own conditions"))
        return self


class ChangeBody(_Body):
    add_tags: Annotated[tuple[Tag, ...], Field(max_length=20)] = ()
    remove_tags: Annotated[tuple[Tag, ...], Field(max_length=20)] = ()
    attributes: Annotated[dict[AttributeName, filters.Value | None], Field(max_length=20)] = {}
    subscribe: Annotated[tuple[Key, ...], Field(max_length=20)] = ()
    unsubscribe: Annotated[tuple[Key, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _require_some(self) -> "ChangeBody":
        if not any((self.add_tags, self.remove_tags, self.attributes, self.subscribe, self.unsubscribe)):
            raise ValueError(lazy_gettext("needs addTags, removeTags, attributes, subscribe or unsubscribe"))
        if both := set(self.add_tags) & set(self.remove_tags) or set(self.subscribe) & set(self.unsubscribe):
            raise ValueError(lazy_gettext("adds and removes {both}", both=sorted(both)[0]))
        if GENERAL in self.subscribe:
            raise ValueError(
                lazy_gettext(
                    "subscribes to {general}, which only people themselves can do; name a list", general=GENERAL
                )
            )
        return self


class NotifyBody(_Body):
    to: Email
    subject: Line
    text: Annotated[str, Field(min_length=1, max_length=5_000)]


class WebhookBody(_Body):
    """A request to one of the tenant's webhooks, with data of the step's author."""

    to: WebhookId
    data: dict[str, Any] = {}

    @model_validator(mode="after")
    def _limit_data(self) -> "WebhookBody":
        if len(orjson.dumps(self.data)) > MAX_WEBHOOK_DATA_BYTES:
            raise ValueError(
                lazy_gettext(
                    "has more than {max_webhook_data_bytes} KB of data",
                    max_webhook_data_bytes=MAX_WEBHOOK_DATA_BYTES // 1024,
                )
            )
        return self


class AfterDays(_Body):
    after_days: Annotated[int, Field(ge=1, le=3650)]


class JoinsList(_Body):
    joins_list: Key


class EntersSegment(_Body):
    enters_segment: Key


class LeavesSegment(_Body):
    leaves_segment: Key


class Manual(_Body):
    manual: Literal[True]


class DateAttribute(_Body):
    date_attribute: AttributeName
    days_before: Annotated[int, Field(ge=0, le=366)] | None = None
    days_after: Annotated[int, Field(ge=0, le=3650)] | None = None
    at: ClockTime = "09:00"
    yearly: StrictBool = False

    @model_validator(mode="after")
    def _require_one_offset(self) -> "DateAttribute":
        if self.days_before is not None and self.days_after is not None:
            raise ValueError(lazy_gettext("has daysBefore and daysAfter; keep one of them"))
        return self

    @property
    def offset_days(self) -> int:
        """The days from the date to the start of the sequence; negative before the date."""
        return (self.days_after or 0) - (self.days_before or 0)


class Opens(_Body):
    opens: CampaignId


class EventTrigger(_Body):
    event: EventName
    where: PropertyConditions | None = None


class HappenedEvent(_Body):
    """An exit or a goal: an event that is reported after the person entered."""

    event: EventName
    where: PropertyConditions | None = None


class _Group(_Body):
    """Everyone on a list or in a segment."""

    list: Key | None = None
    segment: Key | None = None

    @model_validator(mode="after")
    def _require_one_group(self) -> Self:
        if (self.list is None) == (self.segment is None):
            raise ValueError(lazy_gettext("needs exactly one of list and segment: who enters"))
        return self


class ScheduleTrigger(_Group):
    schedule: ScheduleFields


class RssTrigger(_Group):
    rss: FeedUrl


class Clicks(_Body):
    clicks: CampaignId
    url: Annotated[str, Field(min_length=1, max_length=500)] | None = None


_TRIGGERS: Final[Mapping[TriggerKind, type[_Body]]] = {
    TriggerKind.MANUAL: Manual,
    TriggerKind.JOINS_LIST: JoinsList,
    TriggerKind.ENTERS_SEGMENT: EntersSegment,
    TriggerKind.LEAVES_SEGMENT: LeavesSegment,
    TriggerKind.DATE_ATTRIBUTE: DateAttribute,
    TriggerKind.OPENS: Opens,
    TriggerKind.CLICKS: Clicks,
    TriggerKind.EVENT: EventTrigger,
    TriggerKind.SCHEDULE: ScheduleTrigger,
    TriggerKind.RSS: RssTrigger,
}
_BODIES: Final[Mapping[StepKind, type[_Body]]] = {
    StepKind.SEND: SendBody,
    StepKind.WAIT: Duration,
    StepKind.WAIT_UNTIL: WaitUntilBody,
    StepKind.WAIT_FOR: WaitForBody,
    StepKind.CHANGE: ChangeBody,
    StepKind.NOTIFY: NotifyBody,
    StepKind.WEBHOOK: WebhookBody,
}
# The keys that a step of each kind may have in addition to its ID and its kind.
_NESTED: Final[Mapping[StepKind, tuple[str, ...]]] = {
    StepKind.WAIT_FOR: ("then", "else"),
    StepKind.BRANCH: ("else",),
}


@dataclass(frozen=True, slots=True)
class Trigger:
    kind: TriggerKind
    body: Any

    @property
    def value(self) -> str | None:
        """The list, segment, attribute, campaign, event or feed of the trigger."""
        if self.kind is TriggerKind.MANUAL:
            return None
        if self.kind is TriggerKind.SCHEDULE:
            return str(self.body.list or self.body.segment)
        return str(getattr(self.body, _FIRST_FIELDS[self.kind]))


_FIRST_FIELDS: Final = {
    TriggerKind.JOINS_LIST: "joins_list",
    TriggerKind.ENTERS_SEGMENT: "enters_segment",
    TriggerKind.LEAVES_SEGMENT: "leaves_segment",
    TriggerKind.DATE_ATTRIBUTE: "date_attribute",
    TriggerKind.OPENS: "opens",
    TriggerKind.CLICKS: "clicks",
    TriggerKind.EVENT: "event",
    TriggerKind.RSS: "rss",
}


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """A step. `paths` are the nested steps: of each branch or share in order, then of `else`."""

    id: str
    kind: StepKind
    body: Any
    paths: "StepPaths"
    where: str


StepPaths = tuple[tuple[SequenceStep, ...], ...]
StopCondition = Mapping[str, Any] | HappenedEvent


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    trigger: Trigger
    entry: Mapping[str, Any] | None
    reentry: int | None  # The days after which a person may enter again; 0 for each time, None for never.
    list_key: str | None
    exits: tuple["StopCondition", ...]
    goal: "StopCondition | None"
    goal_days: int  # The days after the last step in which the goal still counts.
    consent_days: int  # The days after their entry in which a person's first email waits for their consent.
    steps: tuple[SequenceStep, ...]

    def walk(self) -> Iterator[SequenceStep]:
        """Return all steps in the order of the document, each before its nested steps."""
        return _walk(self.steps)


def _walk(steps: tuple[SequenceStep, ...]) -> Iterator[SequenceStep]:
    for step in steps:
        yield step
        for path in step.paths:
            yield from _walk(path)


def _repeats(trigger: Trigger) -> str | None:
    """Return why a trigger can start the sequence again for the same person; None if it cannot."""
    match trigger.kind:
        case TriggerKind.DATE_ATTRIBUTE if trigger.body.yearly:
            return lazy_gettext("a yearly date starts the sequence every year")
        case TriggerKind.SCHEDULE:
            return lazy_gettext("a schedule starts the sequence for the same people again and again")
        case TriggerKind.RSS:
            return lazy_gettext("each new item starts the sequence for the same people")
        case _:
            return None


def parse_definition(document: Any) -> Definition:
    """Parse a document, or raise InvalidSequence with every problem and its path."""
    if is_deeper_than(document, MAX_JSON_DEPTH):
        raise InvalidSequence(
            [
                FieldError(
                    "document",
                    "TOO_DEEP",
                    lazy_gettext("is nested deeper than {max_json_depth} levels", max_json_depth=MAX_JSON_DEPTH),
                )
            ]
        )
    reader = _Reader()
    definition = reader.read(document)
    if reader.problems or definition is None:
        raise InvalidSequence(reader.problems)
    return definition


_FIELDS: Final = frozenset(
    {
        "format",
        "name",
        "trigger",
        "entry",
        "reentry",
        "list",
        "exits",
        "goal",
        "goalDays",
        "consentDays",
        "steps",
    }
)


class _Reader:
    """Reads a document and collects its problems."""

    def __init__(self) -> None:
        self.problems: list[FieldError] = []
        self._ids: dict[str, str] = {}  # The path of each step, by its ID.
        self._targets: list[tuple[str, str]] = []  # The path and the ID of each `goTo`.

    def read(self, document: Any) -> Definition | None:
        if not isinstance(document, dict):
            self._add("document", lazy_gettext("must be a JSON object"))
            return None
        for name in sorted(document.keys() - _FIELDS):
            self._add(str(name), lazy_gettext("is not a known field"), "UNKNOWN_FIELD")
        if document.get("format", 1) != 1:
            self._add("format", lazy_gettext("must be 1"))
        list_key = document.get("list")
        if list_key is not None and not (isinstance(list_key, str) and _KEY.fullmatch(list_key)):
            self._add(
                "list", lazy_gettext("must be the key of a list such as product-news, or null for all bulk email")
            )
        trigger = self._trigger(document.get("trigger"))
        definition = Definition(
            name=self._name(document.get("name")),
            trigger=trigger or Trigger(TriggerKind.MANUAL, None),
            entry=self._optional_filter(document, "entry"),
            reentry=self._reentry(document.get("reentry", "never")),
            list_key=list_key,
            exits=self._exits(document.get("exits", [])),
            goal=None if document.get("goal") is None else self._stop(document["goal"], "goal"),
            goal_days=self._days(document, "goalDays", DEFAULT_GOAL_DAYS, MAX_GOAL_DAYS),
            consent_days=self._days(document, "consentDays", DEFAULT_CONSENT_DAYS, MAX_CONSENT_DAYS),
            steps=self._steps(document.get("steps"), "steps", 1),
        )
        self._check_targets()
        if trigger is not None and definition.reentry is None and (reason := _repeats(trigger)):
            self._add("reentry", lazy_gettext('must be "each" or afterDays, because {reason}', reason=reason))
        return definition

    def _add(self, path: str, message: str, code: str = "INVALID") -> None:
        self.problems.append(FieldError(path, code, message))

    def _name(self, given: Any) -> str:
        if not isinstance(given, str) or not 1 <= len(given) <= 200 or not given.isprintable():
            self._add("name", lazy_gettext("must be text of 1 to 200 printable characters"))
            return ""
        return given

    def _days(self, document: Mapping[str, Any], name: str, default: int, most: int) -> int:
        given = document.get(name, default)
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= most:
            return given
        self._add(name, lazy_gettext("must be a whole number of days from 0 to {most}", most=most))
        return 0

    def _reentry(self, given: Any) -> int | None:
        if given == "never":
            return None
        if given == "each":
            return 0
        if isinstance(given, dict):
            body = self._model(AfterDays, given, "reentry")
            return body.after_days if body is not None else None
        self._add("reentry", lazy_gettext('must be "never", "each" or {"afterDays": N}'))
        return None

    def _exits(self, given: Any) -> tuple[StopCondition, ...]:
        if not isinstance(given, list) or len(given) > MAX_EXITS:
            self._add(
                "exits", lazy_gettext("must be a list of at most {max_exits} filters or events", max_exits=MAX_EXITS)
            )
            return ()
        found = [self._stop(each, f"exits[{number}]") for number, each in enumerate(given)]
        return tuple(each for each in found if each is not None)

    def _stop(self, given: Any, path: str) -> StopCondition | None:
        """Read a filter, or an event that ends the sequence: a filter has an object as its `event`."""
        if isinstance(given, dict) and isinstance(given.get("event"), str):
            event: HappenedEvent | None = self._model(HappenedEvent, given, path)
            return event
        return self._filter(given, path)

    def _optional_filter(self, document: dict[str, Any], name: str) -> Mapping[str, Any] | None:
        return None if document.get(name) is None else self._filter(document[name], name)

    def _filter(self, given: Any, path: str) -> Mapping[str, Any] | None:
        try:
            filters.parse(given)
        except filters.InvalidFilter as error:
            self._add(path, error.text, "FILTER_INVALID")
            return None
        return dict(given)

    def _trigger(self, given: Any) -> Trigger | None:
        kinds = ", ".join(TriggerKind)
        if not isinstance(given, dict):
            self._add("trigger", lazy_gettext("must be an object with one of {kinds}", kinds=kinds))
            return None
        named = [kind for kind in TriggerKind if kind.value in given]
        if len(named) != 1:
            self._add("trigger", lazy_gettext("needs exactly one of {kinds}", kinds=kinds))
            return None
        body = self._model(_TRIGGERS[named[0]], given, "trigger")
        return None if body is None else Trigger(named[0], body)

    def _steps(self, given: Any, path: str, depth: int) -> tuple[SequenceStep, ...]:
        if not isinstance(given, list):
            self._add(path, lazy_gettext("must be a list of steps"))
            return ()
        if depth > MAX_DEPTH:
            self._add(path, lazy_gettext("is nested deeper than {max_depth} levels", max_depth=MAX_DEPTH))
            return ()
        if depth == 1 and not given:
            self._add(path, lazy_gettext("needs at least one step"))
        if len(self._ids) + len(given) > MAX_STEPS:
            self._add(path, lazy_gettext("a sequence has at most {max_steps} steps", max_steps=MAX_STEPS))
            return ()
        found = [self._step(each, f"{path}[{number}]", depth) for number, each in enumerate(given)]
        return tuple(each for each in found if each is not None)

    def _step(self, given: Any, path: str, depth: int) -> SequenceStep | None:
        kinds = ", ".join(StepKind)
        if not isinstance(given, dict):
            self._add(path, lazy_gettext("must be an object with an id and one of {kinds}", kinds=kinds))
            return None
        named = [kind for kind in StepKind if kind.value in given]
        if len(named) != 1:
            self._add(path, lazy_gettext("needs exactly one of {kinds}", kinds=kinds))
            return None
        kind = named[0]
        step_id = self._step_id(given.get("id"), path)
        for name in sorted(given.keys() - {"id", kind.value, *_NESTED.get(kind, ())}):
            self._add(f"{path}.{name}", lazy_gettext("is not a known field of this step"), "UNKNOWN_FIELD")
        body, paths = self._content(kind, given, path, depth)
        return SequenceStep(step_id, kind, body, paths, path)

    def _step_id(self, given: Any, path: str) -> str:
        if not isinstance(given, str) or not _STEP_ID.fullmatch(given):
            self._add(
                f"{path}.id", lazy_gettext("must have 1 to 63 characters: a-z, 0-9, - and _, for example first-email")
            )
            return ""
        if given in self._ids:
            self._add(
                f"{path}.id",
                lazy_gettext("is used twice: {ids} has the id {given} too", ids=self._ids[given], given=given),
            )
        self._ids[given] = path
        return given

    def _content(self, kind: StepKind, given: dict[str, Any], path: str, depth: int) -> tuple[Any, StepPaths]:
        value, inside = given[kind.value], f"{path}.{kind.value}"
        match kind:
            case StepKind.BRANCH:
                return self._branch(given, path, depth)
            case StepKind.SPLIT:
                return self._split(value, inside, depth)
            case StepKind.WAIT_FOR:
                return self._wait_for(given, path, depth)
            case StepKind.GO_TO:
                self._targets.append((inside, str(value)))
                return str(value), ()
            case StepKind.END:
                if value is not True:
                    self._add(inside, lazy_gettext("must be true"))
                return None, ()
            case _:
                return self._model(_BODIES[kind], value, inside), ()

    def _wait_for(self, given: dict[str, Any], path: str, depth: int) -> tuple[Any, StepPaths]:
        value, inside = given["waitFor"], f"{path}.waitFor"
        body = self._model(WaitForBody, value, inside)
        if body is not None and body.filter is not None:
            self._filter(body.filter, f"{inside}.filter")
        nested = [self._steps(given.get(name, []), f"{path}.{name}", depth + 1) for name in ("then", "else")]
        return body, tuple(nested)

    def _branch(self, given: dict[str, Any], path: str, depth: int) -> tuple[Any, StepPaths]:
        cases = given["branch"]
        if not isinstance(cases, list) or not 1 <= len(cases) <= MAX_PATHS:
            self._add(f"{path}.branch", f'must be a list of 1 to {MAX_PATHS} cases {{"if": filter, "steps": […]}}')
            return (), ()
        conditions, paths = [], []
        for number, case in enumerate(cases):
            inside = f"{path}.branch[{number}]"
            if not isinstance(case, dict) or case.keys() != {"if", "steps"}:
                self._add(inside, lazy_gettext('must be {"if": filter, "steps": […]}'))
                continue
            conditions.append(self._filter(case["if"], f"{inside}.if"))
            paths.append(self._steps(case["steps"], f"{inside}.steps", depth + 1))
        otherwise = self._steps(given.get("else", []), f"{path}.else", depth + 1)
        return tuple(conditions), (*paths, otherwise)

    def _split(self, shares: Any, path: str, depth: int) -> tuple[Any, StepPaths]:
        if not isinstance(shares, list) or not 2 <= len(shares) <= MAX_PATHS:
            self._add(path, f'must be a list of 2 to {MAX_PATHS} shares {{"percent": N, "steps": […]}}')
            return (), ()
        percents, paths = [], []
        for number, share in enumerate(shares):
            inside = f"{path}[{number}]"
            if not isinstance(share, dict) or share.keys() != {"percent", "steps"}:
                self._add(inside, lazy_gettext('must be {"percent": N, "steps": […]}'))
                continue
            percent = share["percent"]
            if not isinstance(percent, int) or isinstance(percent, bool) or not 1 <= percent <= 99:
                self._add(f"{inside}.percent", lazy_gettext("must be a whole number from 1 to 99"))
                percent = 0
            percents.append(percent)
            paths.append(self._steps(share["steps"], f"{inside}.steps", depth + 1))
        if sum(percents) != 100:
            self._add(
                path,
                lazy_gettext(
                    "the shares add up to {percents} percent; they must add up to 100", percents=sum(percents)
                ),
            )
        return tuple(percents), tuple(paths)

    def _model(self, model: type[_Body], given: Any, path: str) -> Any:
        try:
            return model.model_validate(given)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                # The validator also names its own functions.
                named = [part for part in detail["loc"] if not str(part).startswith("function-")]
                location = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in named)
                raised = detail["ctx"]["error"] if detail["type"] == "value_error" else None
                sentence = raised.args[0] if raised is not None else validation_sentence(detail)
                self._add(f"{path}{location}", sentence)
            return None

    def _check_targets(self) -> None:
        for path, target in self._targets:
            if target not in self._ids:
                self._add(path, lazy_gettext("there is no step with the id {target}", target=target))
