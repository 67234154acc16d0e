"""Describe the document of a sequence in words: its trigger, its steps and the paths of its branches.

Kinds without a sentence of their own are described by their fields, so that every step of a document can be shown.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mailwright.audience.filters import InvalidFilter
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recurrence import WEEKDAYS
from mailwright.domain.translation import gettext, lazy_gettext, pgettext
from mailwright.texts.filters import describe
from mailwright.texts.times import count_text, weekday_text

# The name of each kind of step, and of its icon in the dashboard.
STEP_TITLES: Final = {
    "send": (lazy_gettext("Send email"), "messages"),
    "wait": (lazy_gettext("Wait"), "clock"),
    "waitUntil": (lazy_gettext("Wait until"), "clock"),
    "waitFor": (lazy_gettext("Wait for"), "clock"),
    "branch": (lazy_gettext("Branch"), "branch"),
    "split": (lazy_gettext("Split"), "split"),
    "change": (lazy_gettext("Change contact"), "contacts"),
    "webhook": (lazy_gettext("Call webhook"), "webhooks"),
    "notify": (lazy_gettext("Notify team"), "notifications"),
    "goTo": (lazy_gettext("Go to step"), "loop"),
    "end": (lazy_gettext("End"), "slash"),
}
TRIGGER_TITLES: Final = {
    "manual": lazy_gettext("Only when enrolled by hand or API"),
    "joinsList": lazy_gettext("Joins a list"),
    "entersSegment": lazy_gettext("Enters a segment"),
    "leavesSegment": lazy_gettext("Leaves a segment"),
    "event": lazy_gettext("Event"),
    "dateAttribute": lazy_gettext("Date of the contact"),
    "opens": lazy_gettext("Opens a campaign"),
    "clicks": lazy_gettext("Clicks in a campaign"),
    "rss": lazy_gettext("New feed item"),
    "schedule": lazy_gettext("Schedule"),
}
_ALWAYS_NESTED: Final = {"waitFor": ("then", "else"), "branch": ("else",)}
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class StepPath:
    """Nested steps. `key` names the path in its step: `then`, `else`, `branch.0` or `split.1`."""

    key: str
    label: str
    outcome: str  # As the history records it.
    steps: "tuple[StepText, ...]"


@dataclass(frozen=True, slots=True)
class StepText:
    id: str
    kind: str
    title: str
    icon: str
    summary: str
    paths: tuple[StepPath, ...]
    reference: str = ""  # The template of an email, or the step to continue at.
    subject: str = ""  # of an email, instead of the subject of its template

    def templates(self) -> Iterator[str]:
        """Yield the templates of this step and of the steps on its paths."""
        if self.kind == "send":
            yield self.reference
        for path in self.paths:
            for step in path.steps:
                yield from step.templates()


def kind_of(step: Mapping[str, Any]) -> str:
    """Return the kind of a step: its first field that is neither its ID nor a path."""
    return next((name for name in step if name not in ("id", "then", "else")), "")


def nested_steps(step: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the nested lists of steps by the keys of their paths. A missing list is an empty one."""
    kind = kind_of(step)
    parts = step[kind] if kind and isinstance(step[kind], list) else []
    found = {f"{kind}.{number}": part["steps"] for number, part in enumerate(parts) if isinstance(part, dict)}
    return found | {name: step.get(name, []) for name in _ALWAYS_NESTED.get(kind, ())}


def describe_steps(steps: Iterable[Mapping[str, Any]]) -> tuple[StepText, ...]:
    return tuple(_describe_step(step) for step in steps)


def walk_steps(steps: Iterable[StepText]) -> Iterable[StepText]:
    """Return all steps in the order of the document, each before its nested steps."""
    for step in steps:
        yield step
        for path in step.paths:
            yield from walk_steps(path.steps)


def describe_trigger(trigger: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:  # noqa: PLR0911 - a table
    """Return, for example, `Joins the list News`. `names` are the names of lists, segments and campaigns by key."""
    kind = trigger_kind(trigger)
    value = trigger.get(kind)
    name = (names or {}).get(str(value), str(value))
    match kind:
        case "manual":
            return TRIGGER_TITLES[kind]
        case "joinsList":
            return gettext("Joins the list {name}", name=name)
        case "entersSegment":
            return gettext("Enters the segment {name}", name=name)
        case "leavesSegment":
            return gettext("Leaves the segment {name}", name=name)
        case "opens" | "clicks":
            text = gettext("Opens the campaign {name}") if kind == "opens" else gettext("Clicks in the campaign {name}")
            return text.format(name=name) + (f" ({trigger['url']})" if trigger.get("url") else "")
        case "dateAttribute":
            return _date_text(trigger)
        case "event":
            return _event_text(trigger)
        case "schedule":
            return f"{_schedule_text(trigger[kind])}, {_group_text(trigger, names)}"
        case "rss":
            return gettext("New item in {value}, {trigger}", value=value, trigger=_group_text(trigger, names))
        case _:
            return ": ".join([TRIGGER_TITLES.get(kind, _words(kind).capitalize()), *_rest(trigger)])


def trigger_kind(trigger: Mapping[str, Any]) -> str:
    return next((kind for kind in TRIGGER_TITLES if kind in trigger), next(iter(trigger), ""))


def describe_reentry(reentry: Any) -> str:
    if reentry == "each":
        return gettext("Each time the trigger applies")
    if isinstance(reentry, dict):
        return gettext("Again after {get}", get=count_text(reentry.get("afterDays", 0), "day"))
    return gettext("Once per person")


def describe_condition(condition: Any) -> str:
    """Return a filter as a sentence.

    An event that ends the sequence and an invalid filter are returned as their fields.
    """
    if isinstance(condition, dict) and isinstance(condition.get("event"), str):
        return gettext("{condition} after they entered.", condition=_event_text(condition))
    try:
        return describe(condition)
    except InvalidFilter:
        return " ".join(_rest(condition))


def duration_text(duration: Mapping[str, Any]) -> str:
    parts = [count_text(duration[f"{unit}s"], unit) for unit in ("day", "hour", "minute") if duration.get(f"{unit}s")]
    return " ".join(parts)


def _event_text(part: Mapping[str, Any]) -> str:
    if where := part.get("where"):
        return gettext("Event {name} where {where}", name=part["event"], where=", ".join(_rest(where)))
    return gettext("Event {part}", part=part["event"])


def _schedule_text(schedule: Mapping[str, Any]) -> str:
    if schedule.get("monthDays"):
        days = gettext("On day {schedule} of each month", schedule=", ".join(str(day) for day in schedule["monthDays"]))
    else:
        wanted = schedule.get("weekdays", WEEKDAYS)
        named = ", ".join(weekday_text(each) for each in WEEKDAYS if each in wanted)
        days = gettext("Every day") if len(wanted) == len(WEEKDAYS) else gettext("Every {named}", named=named)
    zone = f" {schedule['timezone']}" if schedule.get("timezone") else ""
    return gettext("{days} at {time}", days=days, time=f"{schedule['time']}{zone}")


def _group_text(trigger: Mapping[str, Any], names: Mapping[str, str] | None) -> str:
    is_segment = bool(trigger.get("segment"))
    key = str(trigger.get("segment" if is_segment else "list"))
    text = gettext("everyone in the segment {name}") if is_segment else gettext("everyone on the list {name}")
    return text.format(name=(names or {}).get(key, key))


def _date_text(trigger: Mapping[str, Any]) -> str:
    before, after, is_yearly = trigger.get("daysBefore"), trigger.get("daysAfter"), bool(trigger.get("yearly"))
    match bool(before), bool(after), is_yearly:
        case True, _, True:
            text = gettext("{days} before the date {date} every year at {time}")
        case True, _, False:
            text = gettext("{days} before the date {date} at {time}")
        case False, True, True:
            text = gettext("{days} after the date {date} every year at {time}")
        case False, True, False:
            text = gettext("{days} after the date {date} at {time}")
        case _, _, True:
            text = gettext("On the date {date} every year at {time}")
        case _:
            text = gettext("On the date {date} at {time}")
    days = count_text(before or after or 0, "day")
    return text.format(days=days, date=trigger["dateAttribute"], time=trigger.get("at", "09:00"))


def _describe_step(step: Mapping[str, Any]) -> StepText:
    kind = kind_of(step)
    body: Any = step.get(kind)
    title, icon = STEP_TITLES.get(kind, (_words(kind).capitalize(), "ring"))
    summary = _SUMMARIES[kind](body) if kind in _SUMMARIES else " ".join(_rest(body))
    paths = [
        StepPath(key, _path_label(kind, body, key), _outcome(kind, key), describe_steps(steps))
        for key, steps in nested_steps(step).items()
    ]
    reference = str(body["template"]) if kind == "send" else str(body) if kind == "goTo" else ""
    subject = str(body.get("subject") or "") if kind == "send" else ""
    return StepText(str(step.get("id", "")), kind, title, icon, summary, tuple(paths), reference, subject)


def _send_text(body: Mapping[str, Any]) -> str:
    if subject := body.get("subject"):
        return gettext("Template {name} with the subject “{subject}”", name=body["template"], subject=subject)
    return gettext("Template {name}", name=body["template"])


def _wait_until_text(body: Mapping[str, Any]) -> str:
    days = [each for each in WEEKDAYS if each in body.get("weekdays", WEEKDAYS)]
    if len(days) == len(WEEKDAYS):
        return gettext("The next day at {time} in the contact's time zone", time=body["time"])
    if days == list(WEEKDAYS[:5]):
        return gettext("The next working day, Mon–Fri, at {time} in the contact's time zone", time=body["time"])
    named = f" {pgettext('choices', 'or')} ".join(map(weekday_text, days))
    return gettext("The next {days} at {time} in the contact's time zone", days=named, time=body["time"])


def _wait_for_text(body: Mapping[str, Any]) -> str:
    wanted = _event_text(body) if body.get("event") else describe_condition(body.get("filter")).rstrip(".")
    return gettext("{wanted}, at most {body}", wanted=wanted, body=duration_text(body["timeout"]))


def _change_text(body: Mapping[str, Any]) -> str:
    parts = []
    parts += [gettext("Add the tag {tag}", tag=tag) for tag in body.get("addTags", ())]
    parts += [gettext("Remove the tag {tag}", tag=tag) for tag in body.get("removeTags", ())]
    for name, value in body.get("attributes", {}).items():
        parts.append(
            gettext("Remove {name}", name=name)
            if value is None
            else gettext("Set {name} to {value}", name=name, value=value)
        )
    parts += [gettext("Subscribe to {name}", name=key) for key in body.get("subscribe", ())]
    parts += [gettext("Unsubscribe from {name}", name=key) for key in body.get("unsubscribe", ())]
    return ". ".join(parts)


_SUMMARIES: Final[Mapping[str, Callable[[Any], str]]] = {
    "send": _send_text,
    "wait": duration_text,
    "waitUntil": _wait_until_text,
    "waitFor": _wait_for_text,
    "branch": lambda body: gettext(
        "The first of {body} that matches, otherwise the last path", body=count_text(len(body), "case")
    ),
    "split": lambda body: gettext("At random: {shares}", shares=", ".join(f"{part['percent']} %" for part in body)),
    "change": _change_text,
    "notify": lambda body: f"{body['to']}: {body['subject']}",
    "goTo": lambda body: gettext("Continues at {body}", body=body),
    "end": lambda _: gettext("The sequence ends for this person"),
}


def _path_label(kind: str, body: Any, key: str) -> str:
    name, _, number = key.partition(".")
    if kind == "waitFor":
        return gettext("It happened") if name == "then" else gettext("Time is over")
    if kind == "branch" and number:
        return describe_condition(body[int(number)].get("if")).rstrip(".")
    if kind == "split":
        return gettext("{get} % of people", get=body[int(number)].get("percent"))
    return (
        gettext("Everyone else")
        if name == "else"
        else f"{_words(name).capitalize()} {int(number) + 1}"
        if number
        else name
    )


def _outcome(kind: str, key: str) -> str:
    """Return the text of the history entry for a person who takes a path."""
    _, _, number = key.partition(".")
    return f"{'share' if kind == 'split' else 'case'} {int(number) + 1}" if number else key


def _rest(value: Any) -> list[str]:
    """Return the fields of a value that has no sentence of its own."""
    if isinstance(value, dict):
        return [", ".join(f"{_words(name)} {' '.join(_rest(each))}" for name, each in value.items())]
    if isinstance(value, list):
        return [", ".join(" ".join(_rest(each)) for each in value)]
    return [] if value is True else [str(value)]


def _words(name: str) -> str:
    return _WORD_START.sub(" ", name).lower()
