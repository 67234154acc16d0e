"""Convert between the forms of the sequence editor and the parts of its document.

Kinds without a form of their own are edited as JSON, so that every step and trigger can be edited.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json
from mailwright.domain.recurrence import WEEKDAYS
from mailwright.domain.translation import gettext
from mailwright.texts.sequence_documents import kind_of, trigger_kind
from mailwright.web.dashboard.campaigns_forms import variables_of, variables_text
from mailwright.web.dashboard.forms import Fields
from mailwright.web.dashboard.property_conditions import conditions_of, conditions_text
from mailwright.web.dashboard.segments import filter_from
from mailwright.web.dashboard.segments_forms import filter_form_from, missing

_UNITS: Final = ("days", "hours", "minutes")
_LISTS: Final = ("subscribe", "unsubscribe")
_TAGS: Final = ("addTags", "removeTags")
# Triggers of everyone on a list or in a segment.
_GROUPED: Final = ("schedule", "rss")
_KNOWN_TRIGGERS: Final = frozenset(
    {"manual", "joinsList", "entersSegment", "leavesSegment", "event", "dateAttribute", "opens", "clicks", *_GROUPED}
)
# The IDs that new steps get.
NEW_IDS: Final = {
    "send": "email",
    "wait": "wait",
    "waitUntil": "wait-until",
    "waitFor": "wait-for",
    "goTo": "go-to",
}


def read_filter(form: Fields) -> Any:
    """Return the filter of the filter editor.

    Raise an error that names missing values instead of storing an empty condition.
    """
    if not form["filter"] and (lacking := missing(filter_form_from(form))):
        raise InvalidInput(lacking, field="filter")
    return filter_from(form)


def json_text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def read_json_field(form: Fields, name: str) -> Any:
    try:
        return load_json(form[name])
    except orjson.JSONDecodeError as error:
        raise InvalidInput(gettext("This is not valid JSON."), field=name) from error


# Steps.


def step_fields(step: Mapping[str, Any]) -> Fields:
    """Return the fields of the form of a step."""
    kind = kind_of(step)
    body = step[kind]
    fields = _TO_FIELDS[kind](body) if kind in _TO_FIELDS else {"json": json_text(body)}
    return Fields({"id": step["id"], **{name: str(value) for name, value in fields.items() if value is not None}})


def step_from(kind: str, form: Fields, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step from its form. It keeps the nested steps that it had."""
    body = _FROM_FIELDS[kind](form, before.get(kind)) if kind in _FROM_FIELDS else read_json_field(form, "json")
    nested = {name: before[name] for name in ("then", "else") if name in before}
    return {"id": before.get("id") or form["id"], kind: body, **nested}


def is_known_step(kind: str) -> bool:
    return kind in _FROM_FIELDS


def _duration(form: Fields) -> dict[str, int]:
    return {unit: number for unit in _UNITS if (number := form.number(unit))}


def _send(form: Fields, _before: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"template": form["template"]}
    if form["subject"]:
        body["subject"] = form["subject"]
    if variables := variables_of(form["variables"]):
        body["variables"] = variables
    return body


def _wait_until(form: Fields, _before: Any) -> dict[str, Any]:
    return {"weekdays": [day for day in WEEKDAYS if form[f"weekday.{day}"]], "time": form["time"]}


def _wait_for(form: Fields, _before: Any) -> dict[str, Any]:
    timeout = {"timeout": _duration(form)}
    if form["for"] == "filter":
        return {"filter": read_filter(form), **timeout}
    return {**event_from(form, "event"), **timeout}


def event_from(form: Fields, name: str) -> dict[str, Any]:
    """Return an event with the conditions on its properties. `name` is the field that holds its name."""
    where = conditions_of(form["where"])
    return {"event": form[name], **({"where": where} if where else {})}


def stop_from(form: Fields) -> Any:
    """Return the goal or an exit: a filter, or an event that is reported after the person entered."""
    if form["for"] != "event":
        return read_filter(form)
    if not form["event"]:
        raise InvalidInput(gettext("Enter the name of the event."), field="event")
    return event_from(form, "event")


def _webhook(form: Fields, _before: Any) -> dict[str, Any]:
    data = variables_of(form["data"])
    return {"to": form["to"], **({"data": data} if data else {})}


def _branch(form: Fields, before: Any) -> Any:
    return before if before else [{"if": read_filter(form), "steps": []}]


def _split(form: Fields, before: Any) -> list[dict[str, Any]]:
    shares = [each for each in form["shares"].replace("%", " ").replace(",", " ").replace("/", " ").split() if each]
    if not all(each.isdecimal() and len(each) <= 3 for each in shares):
        raise InvalidInput(gettext("Enter whole numbers that add up to 100, for example 50, 50."), field="shares")
    old = [part["steps"] for part in before or []]
    if any(old[len(shares) :]):
        raise InvalidInput(
            gettext("A share that you leave out still has steps. Move or delete them first."), field="shares"
        )
    return [
        {"percent": int(each), "steps": old[number] if number < len(old) else []} for number, each in enumerate(shares)
    ]


def _change(form: Fields, _before: Any) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name in _TAGS:
        if tags := [each.strip() for each in form[name].split(",") if each.strip()]:
            body[name] = tags
    if attributes := variables_of(form["attributes"]):
        body["attributes"] = attributes
    for name in _LISTS:
        if keys := [key.removeprefix(f"{name}.") for key in form if key.startswith(f"{name}.")]:
            body[name] = keys
    return body


_FROM_FIELDS: Final[Mapping[str, Callable[[Fields, Any], Any]]] = {
    "send": _send,
    "wait": lambda form, _: _duration(form),
    "waitUntil": _wait_until,
    "waitFor": _wait_for,
    "branch": _branch,
    "split": _split,
    "change": _change,
    "notify": lambda form, _: {name: form[name] for name in ("to", "subject", "text")},
    "webhook": _webhook,
    "goTo": lambda form, _: form["target"],
    "end": lambda _form, _before: True,
}


def _wait_for_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    event = {"event": body.get("event"), "where": conditions_text(body.get("where"))}
    return {"for": "event" if body.get("event") else "filter", **event, **body["timeout"]}


def _change_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: ", ".join(body.get(name, ())) for name in _TAGS}
    fields["attributes"] = variables_text(body.get("attributes", {}))
    return fields | {f"{name}.{key}": "yes" for name in _LISTS for key in body.get(name, ())}


_TO_FIELDS: Final[Mapping[str, Callable[[Any], Mapping[str, Any]]]] = {
    "send": lambda body: {**body, "variables": variables_text(body.get("variables", {}))},
    "wait": lambda body: body,
    "waitUntil": lambda body: {
        "time": body["time"],
        **{f"weekday.{day}": "yes" for day in body.get("weekdays", WEEKDAYS)},
    },
    "waitFor": _wait_for_fields,
    "branch": lambda _: {},
    "split": lambda body: {"shares": ", ".join(str(part["percent"]) for part in body)},
    "change": _change_fields,
    "notify": lambda body: body,
    "webhook": lambda body: {"to": body["to"], "data": variables_text(body.get("data", {}))},
    "goTo": lambda body: {"target": body},
    "end": lambda _: {},
}


# Triggers.


def trigger_fields(trigger: Mapping[str, Any]) -> Fields:
    kind = trigger_kind(trigger)
    fields: dict[str, Any] = {"value": trigger.get(kind), "url": trigger.get("url"), "json": json_text(trigger)}
    if kind == "dateAttribute":
        before, after = trigger.get("daysBefore"), trigger.get("daysAfter")
        fields |= {"days": before or after or 0, "side": "after" if after else "before", "at": trigger.get("at")}
        fields["yearly"] = "yes" if trigger.get("yearly") else None
    if kind == "event":
        fields["where"] = conditions_text(trigger.get("where"))
    if kind in _GROUPED:
        fields |= {name: trigger.get(name) for name in ("list", "segment")}
    if kind == "schedule":
        schedule = trigger[kind]
        days = schedule.get("weekdays", () if schedule.get("monthDays") else WEEKDAYS)
        fields |= {"time": schedule["time"], "timezone": schedule.get("timezone")}
        fields |= {f"weekday.{day}": "yes" for day in days}
        fields["monthDays"] = ", ".join(str(day) for day in schedule.get("monthDays", ()))
    return Fields({name: str(value) for name, value in fields.items() if value is not None})


def trigger_from(kind: str, form: Fields) -> dict[str, Any]:  # noqa: PLR0911 - a table
    """Return a trigger from its form."""
    match kind:
        case "manual":
            return {"manual": True}
        case "dateAttribute":
            side = "daysAfter" if form["side"] == "after" else "daysBefore"
            fixed = {"dateAttribute": form["value"], side: form.number("days") or 0, "at": form["at"] or "09:00"}
            return {**fixed, "yearly": form["yearly"] == "yes"}
        case "clicks" if form["url"]:
            return {"clicks": form["value"], "url": form["url"]}
        case "event":
            return event_from(form, "value")
        case "schedule":
            return {kind: _schedule(form), **_group(form)}
        case "rss":
            return {kind: form["value"], **_group(form)}
        case _ if is_known_trigger(kind):
            return {kind: form["value"]}
        case _:
            found = read_json_field(form, "json")
            if not isinstance(found, dict):
                raise InvalidInput(gettext("Write the trigger as a JSON object."), field="json")
            return found


def _group(form: Fields) -> dict[str, str]:
    if bool(form["list"]) == bool(form["segment"]):
        raise InvalidInput(gettext("Choose a list or a segment: everyone in it enters."), field="list")
    return {name: form[name] for name in ("list", "segment") if form[name]}


def _schedule(form: Fields) -> dict[str, Any]:
    month_days = [each for each in form["monthDays"].replace(",", " ").split() if each]
    if not all(each.isdecimal() and len(each) <= 2 for each in month_days):
        raise InvalidInput(gettext("Enter days of the month from 1 to 31, for example 1, 15."), field="monthDays")
    weekdays = [day for day in WEEKDAYS if form[f"weekday.{day}"]]
    days = {"monthDays": [int(each) for each in month_days]} if month_days else {"weekdays": weekdays}
    zone = {"timezone": form["timezone"]} if form["timezone"] else {}
    return {**days, "time": form["time"], **zone}


def is_known_trigger(kind: str) -> bool:
    return kind in _KNOWN_TRIGGERS


def reentry_from(form: Fields) -> Any:
    match form["reentry"]:
        case "each":
            return "each"
        case "after":
            return {"afterDays": form.number("afterDays") or 0}
        case _:
            return "never"


def settings_fields(document: Mapping[str, Any]) -> Fields:
    reentry = document.get("reentry", "never")
    after = reentry.get("afterDays") if isinstance(reentry, dict) else None
    fields = {
        "name": document["name"],
        "list": document.get("list") or "",
        "reentry": reentry if after is None else "after",
    }
    return Fields({**fields, "afterDays": str(after or 30)})
