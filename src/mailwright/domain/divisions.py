"""The syntax of OCD division IDs (Open Civic Data), which contacts have in the attribute `ocd_ids`."""

import re
from typing import Any, Final

OCD_IDS: Final = "ocd_ids"
EXAMPLE: Final = "ocd-division/country:us/state:oh (lower case)"
MAX_DIVISION_LENGTH: Final = 255

# Lower case only; letters of other alphabets are allowed.
_ID: Final = re.compile(r"ocd-division/country:[a-z]{2}(?:/[a-z_]+:[\w.~-]+)*")
_BETWEEN: Final = re.compile(r"[\s,;|]+")
_NO_DIVISIONS: Final[tuple[str, ...]] = ()


def is_division(text: str) -> bool:
    return len(text) <= MAX_DIVISION_LENGTH and text == text.lower() and _ID.fullmatch(text) is not None


def division_ids(given: Any) -> tuple[str, ...]:
    """Return the IDs in a list, or in a text that separates them by commas or semicolons."""
    if isinstance(given, list):
        return tuple([each for each in given if isinstance(each, str)])
    return tuple(_BETWEEN.split(given.strip())) if isinstance(given, str) else _NO_DIVISIONS


def malformed_division(given: Any) -> str | None:
    """Return the first value that is not a division id, or None."""
    if given is None:
        return None
    if not isinstance(given, list | str):
        return str(given)
    strange = (each for each in given if not isinstance(each, str)) if isinstance(given, list) else ()
    return next((str(each) for each in (*strange, *division_ids(given)) if not is_division(str(each))), None)
