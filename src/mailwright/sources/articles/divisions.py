"""Divisions: the ids of the Open Civic Data project, and which of two is the broader one."""

import re
from typing import Final

from mailwright.domain.errors import InvalidInput

# Small letters throughout; what other alphabets write is letters, too.
_ID: Final = re.compile(r"ocd-division/country:[a-z]{2}(?:/[a-z_]+:[\w.~-]+)*")
MAX_DIVISION_LENGTH: Final = 255

# From broad to narrow, among divisions of equal depth: a city hangs off its state just as its county does.
_TYPES: Final = (
    ("country",),
    ("state", "district", "territory"),
    ("cd",),
    ("sldu",),
    ("county", "parish", "borough", "census_area"),
    ("sldl",),
    ("place",),
    ("ward", "council_district"),
    ("precinct",),
)
_RANKS: Final = {name: rank for rank, names in enumerate(_TYPES) for name in names}
# Washington has no state, and people who ask for one mean it all the same.
STATES: Final = _TYPES[1]

Breadth = tuple[int, int, int]
EVERYWHERE: Final[Breadth] = (0, 0, 0)


class MalformedDivision(InvalidInput):
    """This is no OCD division id."""

    code = "MALFORMED_OCD_ID"


def parse(text: str, *, field: str) -> str:
    if len(text) > MAX_DIVISION_LENGTH or text != text.lower() or not _ID.fullmatch(text):
        raise MalformedDivision(
            f"{text[:80]!r} is no OCD division id; one looks like ocd-division/country:us/state:oh, in small letters",
            field=field,
        )
    return text


def breadth(division: str | None) -> Breadth:
    """Sorts the broadest first: by depth, then by type, then by the length of the id."""
    if division is None:
        return EVERYWHERE
    last = division.rpartition("/")[2].partition(":")[0]
    return division.count("/"), _RANKS.get(last, len(_TYPES)), len(division)
