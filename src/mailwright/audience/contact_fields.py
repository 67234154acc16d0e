"""People: what can be known of a contact beside the address, and the one form in which each of it is stored."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final
from zoneinfo import available_timezones

import orjson

from mailwright.domain import address, locales
from mailwright.domain.errors import InvalidInput

MAX_NAME_LENGTH: Final = 200
MAX_TAG_LENGTH: Final = 64
MAX_ATTRIBUTE_NAME_LENGTH: Final = 64
MAX_ATTRIBUTE_LENGTH: Final = 4_096
MAX_ATTRIBUTES: Final = 100
MAX_ATTRIBUTES_BYTES: Final = 64 * 1024
MAX_TAGS: Final = 50

_TIMEZONES: Final = {name.lower(): name for name in available_timezones()}
_NO_NAME: Final = re.compile(r"\W+")


class InvalidContact(InvalidInput):
    """This cannot be kept of a person."""


def email(text: str) -> str:
    """The normal form. Characters beyond ASCII before the @ are refused: most servers cannot take them."""
    try:
        normal = address.normal(text)
    except address.InvalidAddress as error:
        raise InvalidContact(f"is not an email address: {error}", field="email") from error
    if not normal.isascii() or len(normal) > address.MAX_LENGTH:
        raise InvalidContact("most mail servers cannot take this address", field="email")
    return normal


def name(text: str) -> str | None:
    """In one line. None for nothing."""
    line = " ".join(text.split())
    if line.isprintable() and len(line) <= MAX_NAME_LENGTH:
        return line or None
    if len(line) > MAX_NAME_LENGTH:
        raise InvalidContact(f"the name is longer than {MAX_NAME_LENGTH} characters", field="name")
    raise InvalidContact("the name holds a character that cannot be printed", field="name")


def locale(text: str) -> str | None:
    if not text.strip():
        return None
    if (found := locales.normal(text)) is None:
        raise InvalidContact("is no locale, as pt or pt-BR", field="locale")
    return found


def timezone(text: str) -> str | None:
    """Any spelling of an IANA name, as `europe/lisbon`."""
    if not text.strip():
        return None
    if (found := _TIMEZONES.get(text.strip().lower().replace(" ", "_"))) is None:
        raise InvalidContact("is no IANA time zone, as Europe/Lisbon", field="timezone")
    return found


def tag_name(text: str) -> str:
    """Small letters, so that VIP and vip are one tag."""
    tag = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    if not 1 <= len(tag) <= MAX_TAG_LENGTH or not tag.isprintable() or "," in tag or ";" in tag:
        raise InvalidContact(f"a tag has 1 to {MAX_TAG_LENGTH} printable characters and no comma", field="tags")
    return tag


def tags(texts: Iterable[str]) -> tuple[str, ...]:
    found = tuple(sorted({tag_name(text) for text in texts if text.strip()}))
    if len(found) > MAX_TAGS:
        raise InvalidContact(f"more than {MAX_TAGS} tags", field="tags")
    return found


def attribute_name(text: str) -> str:
    """A name that templates can use as a variable: letters, digits and _, as `favourite_colour`."""
    if not text.isidentifier() or len(text) > MAX_ATTRIBUTE_NAME_LENGTH or unicodedata.normalize("NFC", text) != text:
        raise InvalidContact(
            f"an attribute name has at most {MAX_ATTRIBUTE_NAME_LENGTH} letters, digits and _, and no digit first",
            field="attributes",
        )
    return text


def attribute_name_from_title(title: str) -> str | None:
    """What a column of a file is called as an attribute: `Favourite Colour` is `favourite_colour`. None for nothing."""
    made = _NO_NAME.sub("_", unicodedata.normalize("NFC", title).strip().lower()).strip("_")[:MAX_ATTRIBUTE_NAME_LENGTH]
    if made and not made.isidentifier():
        made = f"_{made}"[:MAX_ATTRIBUTE_NAME_LENGTH]
    return made if made.isidentifier() else None


def attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Any JSON; what filters can ask about is words, numbers and yes or no. None takes an attribute away."""
    kept: dict[str, Any] = {}
    for key, value in given.items():
        attribute_name(key)
        if isinstance(value, str):
            value = attribute_text(value) or None  # noqa: PLW2901 - what is empty is not there
        if "\\u0000" in orjson.dumps(value).decode():
            raise InvalidContact(f"{key} holds a character that cannot be stored", field="attributes")
        kept[key] = value
    if len(kept) > MAX_ATTRIBUTES or len(orjson.dumps(kept)) > MAX_ATTRIBUTES_BYTES:
        raise InvalidContact(
            f"more than {MAX_ATTRIBUTES} attributes, or more than {MAX_ATTRIBUTES_BYTES // 1024} KB of them",
            field="attributes",
        )
    return kept


def attribute_text(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > MAX_ATTRIBUTE_LENGTH:
        raise InvalidContact(f"an attribute is longer than {MAX_ATTRIBUTE_LENGTH} characters", field="attributes")
    return stripped


def merge_attributes(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
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
