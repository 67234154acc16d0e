"""People: what can be known of a contact beside the address, and the one form in which each of it is stored."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final
from zoneinfo import available_timezones

import orjson

from mailwright.domain import address, locales
from mailwright.domain.errors import InvalidInput

LONGEST_NAME: Final = 200
LONGEST_TAG: Final = 64
LONGEST_ATTRIBUTE_NAME: Final = 64
LONGEST_ATTRIBUTE: Final = 4_096
MOST_ATTRIBUTES: Final = 100
LARGEST_ATTRIBUTES: Final = 64 * 1024
MOST_TAGS: Final = 50

_TIMEZONES: Final = {name.lower(): name for name in available_timezones()}
_NO_NAME: Final = re.compile(r"\W+")


class InvalidPerson(InvalidInput):
    """This cannot be kept of a person."""


def email(text: str) -> str:
    """The normal form. Characters beyond ASCII before the @ are refused: most servers cannot take them."""
    try:
        normal = address.normal(text)
    except address.InvalidAddress as error:
        raise InvalidPerson(f"is not an email address: {error}", field="email") from error
    if not normal.isascii() or len(normal) > address.MAX_LENGTH:
        raise InvalidPerson("most mail servers cannot take this address", field="email")
    return normal


def name(text: str) -> str | None:
    """In one line. None for nothing."""
    line = " ".join(text.split())
    if line.isprintable() and len(line) <= LONGEST_NAME:
        return line or None
    if len(line) > LONGEST_NAME:
        raise InvalidPerson(f"the name is longer than {LONGEST_NAME} characters", field="name")
    raise InvalidPerson("the name holds a character that cannot be printed", field="name")


def locale(text: str) -> str | None:
    if not text.strip():
        return None
    if (found := locales.normal(text)) is None:
        raise InvalidPerson("is no locale, as pt or pt-BR", field="locale")
    return found


def timezone(text: str) -> str | None:
    """Any spelling of an IANA name, as `europe/lisbon`."""
    if not text.strip():
        return None
    if (found := _TIMEZONES.get(text.strip().lower().replace(" ", "_"))) is None:
        raise InvalidPerson("is no IANA time zone, as Europe/Lisbon", field="timezone")
    return found


def tag_name(text: str) -> str:
    """Small letters, so that VIP and vip are one tag."""
    tag = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    if not 1 <= len(tag) <= LONGEST_TAG or not tag.isprintable() or "," in tag or ";" in tag:
        raise InvalidPerson(f"a tag has 1 to {LONGEST_TAG} printable characters and no comma", field="tags")
    return tag


def tags(texts: Iterable[str]) -> tuple[str, ...]:
    found = tuple(sorted({tag_name(text) for text in texts if text.strip()}))
    if len(found) > MOST_TAGS:
        raise InvalidPerson(f"more than {MOST_TAGS} tags", field="tags")
    return found


def attribute_name(text: str) -> str:
    """A name that templates can use as a variable: letters, digits and _, as `favourite_colour`."""
    if not text.isidentifier() or len(text) > LONGEST_ATTRIBUTE_NAME or unicodedata.normalize("NFC", text) != text:
        raise InvalidPerson(
            f"an attribute's name has up to {LONGEST_ATTRIBUTE_NAME} letters, digits and _, and begins with no digit",
            field="attributes",
        )
    return text


def attribute_name_of(title: str) -> str | None:
    """What a column of a file is called as an attribute: `Favourite Colour` is `favourite_colour`. None for nothing."""
    made = _NO_NAME.sub("_", unicodedata.normalize("NFC", title).strip().lower()).strip("_")[:LONGEST_ATTRIBUTE_NAME]
    if made and not made.isidentifier():
        made = f"_{made}"[:LONGEST_ATTRIBUTE_NAME]
    return made if made.isidentifier() else None


def attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Any JSON; what filters can ask about is words, numbers and yes or no. None takes an attribute away."""
    kept: dict[str, Any] = {}
    for key, value in given.items():
        attribute_name(key)
        if isinstance(value, str):
            value = attribute_text(value) or None  # noqa: PLW2901 - what is empty is not there
        if "\\u0000" in orjson.dumps(value).decode():
            raise InvalidPerson(f"{key} holds a character that cannot be stored", field="attributes")
        kept[key] = value
    if len(kept) > MOST_ATTRIBUTES or len(orjson.dumps(kept)) > LARGEST_ATTRIBUTES:
        raise InvalidPerson(
            f"more than {MOST_ATTRIBUTES} attributes, or more than {LARGEST_ATTRIBUTES // 1024} KB of them",
            field="attributes",
        )
    return kept


def attribute_text(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > LONGEST_ATTRIBUTE:
        raise InvalidPerson(f"an attribute is longer than {LONGEST_ATTRIBUTE} characters", field="attributes")
    return stripped


def merged(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given replaces what is known; what only looks different, as 42 and "42", stays as it is."""
    result = dict(known)
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
        elif key not in result or as_text(result[key]) != as_text(value):
            result[key] = value
    return result


def as_text(value: Any) -> str:
    """How a file shows an attribute."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
