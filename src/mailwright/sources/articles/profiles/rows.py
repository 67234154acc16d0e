"""Parse rows of the table of recipients. A row that cannot be used is refused alone."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from mailwright.audience import contact_fields
from mailwright.domain import address
from mailwright.domain.divisions import EXAMPLE, OCD_IDS, division_ids, malformed_division
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.printable import is_printable
from mailwright.domain.unsubscribe_tokens import GENERAL

STATE: Final = "state"
ACTIVE: Final = "active"

_BETWEEN: Final = re.compile(r"[\s,;|]+")
_MAX_SHOWN: Final = 60


class InvalidProfile(ValueError):
    """The row cannot be used. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A row with a normalised address. `is_active` is false for an unsubscribed, bounced or unknown status."""

    email: str
    name: str | None
    attributes: dict[str, Any]  # with the divisions, as in a contact
    lists: frozenset[str]
    is_active: bool

    @property
    def divisions(self) -> tuple[str, ...]:
        return division_ids(self.attributes.get(OCD_IDS))

    def is_on(self, list_key: str) -> bool:
        """Return whether the row is on a list. `general` stands for the whole table."""
        return list_key == GENERAL or list_key in self.lists


def parse_profile(row: Mapping[str, Any]) -> Profile:
    """Parse a row by field. Raises `InvalidProfile`."""
    email = parse_email(row.get("email"))
    divisions = parse_texts(row.get(OCD_IDS), OCD_IDS)
    if (wrong := malformed_division(divisions)) is not None:
        raise InvalidProfile(f"{wrong[:_MAX_SHOWN]!r} in ocd_ids is not a division id such as {EXAMPLE}")
    known = ("email", OCD_IDS, "lists", "status", "name")
    attributes = {name: _attribute(value) for name, value in row.items() if name not in known and value is not None}
    name = row.get("name")
    return Profile(
        email,
        " ".join(name.split())[: contact_fields.MAX_NAME_LENGTH] or None if isinstance(name, str) else None,
        {**attributes, OCD_IDS: divisions},
        frozenset(parse_texts(row.get("lists"), "lists")),
        _is_active(row.get("status")),
    )


def parse_email(given: Any) -> str:
    if not isinstance(given, str):
        raise InvalidProfile("the address is missing or not text")
    try:
        return address.normal(address.trim(given))
    except address.InvalidAddress as error:
        raise InvalidProfile(f"invalid address: {error}") from error


def parse_texts(given: Any, name: str) -> list[str]:
    """Return the texts of an array, of a JSON array, or of a text that separates them by commas or semicolons."""
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            given = load_json(given)
        except orjson.JSONDecodeError as error:
            raise InvalidProfile(f"{name} is not a valid JSON array") from error
    elif isinstance(given, str) and given.lstrip().startswith("{"):
        with suppress(orjson.JSONDecodeError):  # An array of PostgreSQL, `{a,"b c"}`, is no JSON, unless it is empty.
            given = load_json(given) or given
    match given:
        case None:
            return []
        case str():
            bare = given.strip().removeprefix("{").removesuffix("}").replace('"', "")
            return [each for each in _BETWEEN.split(bare) if each]
        case list() | tuple() if all(isinstance(each, str) for each in given):
            return [each.strip() for each in given if each.strip()]
        case _:
            raise InvalidProfile(f"{name} must be an array of texts, or one text separated by commas")


def _is_active(status: Any) -> bool:
    return status is None or (isinstance(status, str) and status.strip().lower() in ("", ACTIVE))


def _attribute(value: Any) -> Any:
    """Return a value as a contact could have it: text, a number or a boolean."""
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text.strip() if is_printable(text) else " ".join(text.split())
