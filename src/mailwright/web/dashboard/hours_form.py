"""Working hours as form fields: weekdays by checkboxes, and one opening and closing time."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.forms import Fields

# As working hours are written, in every language.
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Hours that differ between weekdays have no such fields. They are edited as a text.
_PART: Final = re.compile(r"(?:(\w{3})(?:-(\w{3}))?\s+)?(\d\d:\d\d-\d\d:\d\d)")


def hours_fields(text: str | None) -> dict[str, str]:
    """Return the form fields of working hours."""
    if not text:
        return {}
    days: list[str] = []
    times: set[str] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            return {"hours": "yes", "limits.workingHours": text}
        first, last, span = match.groups()
        days += _range(first, last)
        times.add(span)
    if len(times) != 1:
        return {"hours": "yes", "limits.workingHours": text}
    opens, _, closes = times.pop().partition("-")
    shown_end = "00:00" if closes == "24:00" else closes
    return {"hours": "yes", "hours.days": ",".join(days), "hours.opens": opens, "hours.closes": shown_end}


def hours_text(form: Fields) -> str:
    """Return the working hours of a form in the syntax of the API, or an empty text if there are none."""
    if not form["hours"]:
        return ""
    if form["limits.workingHours"]:
        return form["limits.workingHours"]
    if not form["hours.opens"] or not form["hours.closes"]:
        raise InvalidInput(gettext("Enter when sending begins and ends."), field="hours.days")
    chosen = [day for day in DAYS if day in form["hours.days"].split(",")]
    span = f"{form['hours.opens']}-{'24:00' if form['hours.closes'] == '00:00' else form['hours.closes']}"
    if not chosen:
        raise InvalidInput(gettext("Choose at least one weekday."), field="hours.days")
    if len(chosen) == len(DAYS):
        return span
    return ", ".join(f"{days} {span}" for days in _joined(chosen))


def _range(first: str | None, last: str | None) -> list[str]:
    if first is None:
        return list(DAYS)
    begin = DAYS.index(first.capitalize())
    end = DAYS.index((last or first).capitalize())
    return [DAYS[number % 7] for number in range(begin, end + 1 if end >= begin else end + 8)]


def _joined(days: Sequence[str]) -> list[str]:
    """Return `Mon-Fri` for consecutive days."""
    found = []
    numbers = [DAYS.index(day) for day in days]
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [DAYS[number] for _, number in group]
        found.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return found
