"""OCD division ids (Open Civic Data): parse them, and sort them from broad to narrow."""

from typing import Final

from mailwright.domain.divisions import EXAMPLE, is_division
from mailwright.domain.errors import InvalidInput

# The sort order of types at equal depth, broadest first: cities and counties are both direct children of a state.
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
# The types that a filter by state matches. Washington, D.C. is a district, not a state.
STATES: Final = _TYPES[1]

Breadth = tuple[int, int, int]
EVERYWHERE: Final[Breadth] = (0, 0, 0)


class MalformedDivision(InvalidInput):
    """The value is not an OCD division id."""

    code = "MALFORMED_OCD_ID"


def parse(text: str, *, field: str) -> str:
    if not is_division(text):
        raise MalformedDivision(
            "{text} is not an OCD division id, for example {example}",
            field=field,
            text=repr(text[:80]),
            example=EXAMPLE,
        )
    return text


def breadth(division: str | None) -> Breadth:
    """Return a sort key, broadest first: by depth, then by type, then by the length of the id."""
    if division is None:
        return EVERYWHERE
    last = division.rpartition("/")[2].partition(":")[0]
    return division.count("/"), _RANKS.get(last, len(_TYPES)), len(division)
