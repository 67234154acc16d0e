"""Convert between the filter editor and the filter format of the API."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext
from mailwright.web.dashboard.forms import Fields

# Condition types, in display order.
KINDS: Final = {
    "attribute": lazy_gettext("Attribute"),
    "tag": lazy_gettext("Tag"),
    "list": lazy_gettext("List"),
    "status": lazy_gettext("Status"),
    "opened": lazy_gettext("Opened emails"),
    "clicked": lazy_gettext("Clicked emails"),
    "sent": lazy_gettext("Received emails"),
    "bounced": lazy_gettext("Bounced emails"),
    "event": lazy_gettext("Contact event"),
    "created": lazy_gettext("Added"),
    "domain": lazy_gettext("Email domain"),
    "locale": lazy_gettext("Language"),
    "timezone": lazy_gettext("Time zone"),
}
COMPARISONS: Final = {
    "is": lazy_pgettext("condition", "is"),
    "isNot": lazy_gettext("is not"),
    "contains": lazy_pgettext("condition", "contains"),
    "greaterThan": lazy_gettext("is more than"),
    "atLeast": lazy_gettext("is at least"),
    "lessThan": lazy_gettext("is less than"),
    "atMost": lazy_gettext("is at most"),
    "known": lazy_gettext("is set"),
    "unknown": lazy_gettext("is not set"),
}
ACTIVITIES: Final = ("opened", "clicked", "sent", "bounced")
COUNTED: Final = (*ACTIVITIES, "event")
_FREQUENCY: Final = {"yes": lazy_gettext("at least"), "no": lazy_gettext("fewer than")}
_YES_NO: Final = {"yes": lazy_pgettext("condition", "is"), "no": lazy_gettext("is not")}
OPERATORS: Final[Mapping[str, Mapping[str, str]]] = {
    "attribute": COMPARISONS,
    "tag": _YES_NO,
    "list": {"yes": lazy_pgettext("condition", "on"), "no": lazy_gettext("not on")},
    "status": _YES_NO,
    **dict.fromkeys(COUNTED, _FREQUENCY),
    "created": {"since": lazy_pgettext("condition", "since"), "before": lazy_pgettext("condition", "before")},
    "domain": _YES_NO,
    "locale": _YES_NO,
    "timezone": _YES_NO,
}
JOINS: Final = {"all": lazy_gettext("all of these conditions"), "any": lazy_gettext("any of these conditions")}

_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d+)?")
_ROW: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.kind")


@dataclass(slots=True)
class ConditionRow:
    """One condition, as the values of its form fields."""

    kind: str = "attribute"
    op: str = ""
    name: str = ""
    value: str = ""
    days: str = ""
    count: str = ""

    @property
    def operators(self) -> Mapping[str, str]:
        return OPERATORS[self.kind]

    @property
    def is_activity(self) -> bool:
        return self.kind in COUNTED

    @property
    def needs_value(self) -> bool:
        return not self.is_activity and self.op not in ("known", "unknown")


@dataclass(slots=True)
class ConditionGroup:
    join: str = "all"
    rows: list[ConditionRow] = field(default_factory=lambda: [ConditionRow()])


@dataclass(slots=True)
class FilterForm:
    join: str = "all"
    groups: list[ConditionGroup] = field(default_factory=lambda: [ConditionGroup()])


def filter_form_from(form: Fields) -> FilterForm:
    """Read the editor from a form. An unknown condition type becomes an attribute condition."""
    numbers = sorted((int(found[1]), int(found[2])) for found in map(_ROW.fullmatch, form) if found)
    groups: dict[int, ConditionGroup] = {}
    for group, row in numbers:
        at = groups.setdefault(group, ConditionGroup(_join(form[f"{group}.join"]), []))
        at.rows.append(_row(form, f"{group}.{row}"))
    return FilterForm(_join(form["join"]), list(groups.values()) or [ConditionGroup()])


def apply_action(filter_form: FilterForm, action: str) -> FilterForm:
    """Apply a button of the editor: `add-0`, `remove-0-1` or `add-group`."""
    words = action.split("-")
    numbers = [int(word) for word in words[1:] if word.isdecimal()]
    match words[0], numbers:
        case "add", [group] if group < len(filter_form.groups):
            filter_form.groups[group].rows.append(ConditionRow())
        case "add", []:
            filter_form.groups.append(ConditionGroup("any" if filter_form.join == "all" else "all"))
        case "remove", [group, row] if group < len(filter_form.groups) and row < len(filter_form.groups[group].rows):
            del filter_form.groups[group].rows[row]
            filter_form.groups = [each for each in filter_form.groups if each.rows] or [ConditionGroup()]
        case _:
            pass
    return filter_form


def filter_of(filter_form: FilterForm) -> dict[str, Any]:
    """Return the filter in the format of the API, which validates it."""
    groups = [{group.join: [_condition(row) for row in group.rows]} for group in filter_form.groups]
    return groups[0] if len(groups) == 1 else {filter_form.join: groups}


def missing(filter_form: FilterForm) -> str:
    """Return a sentence about the first incomplete condition, or an empty string."""
    rows = [row for group in filter_form.groups for row in group.rows]
    for number, row in enumerate(rows, 1):
        if row.kind == "attribute" and not row.name:
            return gettext("Enter the attribute name of condition {number}.", number=number)
        if row.kind == "event" and not row.name:
            return gettext("Enter the event name of condition {number}.", number=number)
        if row.needs_value and not row.value:
            return gettext("Enter the value of condition {number}.", number=number)
    return ""


def filter_form_of(condition: Any) -> FilterForm | None:
    """Convert a filter for the editor, or return None if it is nested too deeply."""
    join, parts = _joined(condition)
    if all(_row_of(part) is not None for part in parts):
        return FilterForm("all", [ConditionGroup(join, [row for part in parts if (row := _row_of(part)) is not None])])
    groups = []
    for part in parts:
        inner, conditions = _joined(part)
        rows = [row for each in conditions if (row := _row_of(each)) is not None]
        if len(rows) != len(conditions):
            return None
        groups.append(ConditionGroup(inner, rows))
    return FilterForm(join, groups)


def _row(form: Fields, at: str) -> ConditionRow:
    kind = form[f"{at}.kind"] if form[f"{at}.kind"] in KINDS else "attribute"
    operators = OPERATORS[kind]
    op = form[f"{at}.op"] if form[f"{at}.op"] in operators else next(iter(operators))
    return ConditionRow(kind, op, form[f"{at}.name"], form[f"{at}.value"], form[f"{at}.days"], form[f"{at}.count"])


def _condition(row: ConditionRow) -> dict[str, Any]:
    match row.kind:
        case "attribute":
            return _attribute(row)
        case "created":
            return {"createdSince" if row.op == "since" else "createdBefore": row.value}
        case kind if kind in COUNTED:
            named = {"name": row.name} if kind == "event" else {}
            activity = {name: int(text) for name, text in _figures(row) if text.isdecimal()}
            return _negated({kind: {**named, **activity}}, is_yes=row.op != "no")
        case kind:
            return _negated({kind: row.value}, is_yes=row.op != "no")


def _figures(row: ConditionRow) -> Iterator[tuple[str, str]]:
    yield "withinDays", row.days
    yield "atLeast", row.count


def _attribute(row: ConditionRow) -> dict[str, Any]:
    if row.op in ("known", "unknown"):
        return {"attribute": row.name, "exists": row.op == "known"}
    value: Any = row.value
    if row.op != "contains" and _NUMBER.fullmatch(row.value):
        value = float(row.value) if "." in row.value else int(row.value)
    return {"attribute": row.name, row.op: value}


def _negated(condition: dict[str, Any], *, is_yes: bool) -> dict[str, Any]:
    return condition if is_yes else {"not": condition}


def _joined(condition: Any) -> tuple[str, list[Any]]:
    if isinstance(condition, dict) and len(condition) == 1:
        [(name, parts)] = condition.items()
        if name in JOINS and isinstance(parts, list):
            return name, parts
    return "all", [condition]


def _row_of(condition: Any) -> ConditionRow | None:  # noqa: PLR0911 - a table
    """Convert a condition to a row of the editor, or return None if one row cannot show it."""
    if not isinstance(condition, dict):
        return None
    if "attribute" in condition:
        return _attribute_row(condition)
    if len(condition) != 1:
        return None
    [(name, value)] = condition.items()
    if name == "not":
        inner = _row_of(value)
        return (
            ConditionRow(inner.kind, "no", inner.name, inner.value, inner.days, inner.count)
            if inner and inner.op == "yes"
            else None
        )
    if name in ("createdSince", "createdBefore") and isinstance(value, str):
        return ConditionRow("created", "since" if name == "createdSince" else "before", value=value)
    if name in COUNTED and isinstance(value, dict) and value.keys() - {"name"} <= {"withinDays", "atLeast"}:
        days, count = str(value.get("withinDays", "")), str(value.get("atLeast", ""))
        return ConditionRow(name, "yes", str(value.get("name", "")), days=days, count=count)
    if name in OPERATORS and isinstance(value, str):
        return ConditionRow(name, "yes", value=value)
    return None


def _attribute_row(condition: dict[str, Any]) -> ConditionRow | None:
    rest = {name: value for name, value in condition.items() if name != "attribute"}
    if len(rest) != 1:
        return None
    [(op, value)] = rest.items()
    if op == "exists":
        return ConditionRow("attribute", "known" if value else "unknown", str(condition["attribute"]))
    if op not in COMPARISONS or isinstance(value, bool | list | dict):
        return None
    return ConditionRow("attribute", op, str(condition["attribute"]), str(value))


def _join(text: str) -> str:
    return text if text in JOINS else "all"
