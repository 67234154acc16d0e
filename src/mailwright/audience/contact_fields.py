"""Validate and normalize the fields of a contact."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

import orjson

from mailwright.domain import address, locales
from mailwright.domain.divisions import EXAMPLE, OCD_IDS, malformed_division
from mailwright.domain.errors import InvalidInput
from mailwright.domain.printable import is_printable

MAX_NAME_LENGTH: Final = 200
MAX_TAG_LENGTH: Final = 64
MAX_ATTRIBUTE_NAME_LENGTH: Final = 64
MAX_ATTRIBUTE_LENGTH: Final = 4_096
MAX_ATTRIBUTES: Final = 100
MAX_ATTRIBUTES_BYTES: Final = 64 * 1024
MAX_TAGS: Final = 50

_OFFSET: Final = re.compile(r"(utc|gmt|msk|мск)? ?(?:([+-]) ?([0-9]{1,2})(?::?00)?)?")
_NO_NAME: Final = re.compile(r"\W+")


class InvalidContact(InvalidInput):
    """This value of a contact cannot be stored."""


def normalize_email(text: str) -> str:
    try:
        return address.normal(text)
    except address.InvalidAddress as error:
        raise InvalidContact("This is not an email address: {error}.", field="email", error=error) from error


def is_address(text: str) -> bool:
    try:
        address.parse(text)
    except address.InvalidAddress:
        return False
    return True


def normalize_deliverable_email(text: str) -> str:
    """Normalize an address. Non-ASCII characters before the @ are refused, because most servers do not accept them."""
    normal = normalize_email(text)
    if not normal.isascii() or len(normal) > address.MAX_LENGTH:
        raise InvalidContact(
            "Most mail servers do not accept this address, because it has non-ASCII characters before the @.",
            field="email",
        )
    return normal


def normalize_name(text: str) -> str | None:
    """Collapse white space. Return None for an empty name."""
    line = " ".join(text.split())
    if is_printable(line) and len(line) <= MAX_NAME_LENGTH:
        return line or None
    if len(line) > MAX_NAME_LENGTH:
        raise InvalidContact(
            "The name has more than {max_length} characters.", field="name", max_length=MAX_NAME_LENGTH
        )
    raise InvalidContact("The name contains an unprintable character.", field="name")


def normalize_locale(text: str) -> str | None:
    if not text.strip():
        return None
    if (normalized := locales.normal(text)) is None:
        raise InvalidContact("This is not a locale such as pt or pt-BR.", field="locale")
    return normalized


def normalize_timezone(text: str) -> str | None:
    """Normalize any spelling of an IANA name, for example `europe/lisbon`, or an offset such as `UTC+3`."""
    if not text.strip():
        return None
    if (zone := _timezones().get(text.strip().lower().replace(" ", "_")) or _zone_of_offset(text)) is None:
        raise InvalidContact("This is not an IANA time zone such as Europe/Lisbon.", field="timezone")
    return zone


@cache  # Read at the first use, because it takes 20 ms and most commands need no time zone of a contact.
def _timezones() -> Mapping[str, str]:
    return {zone.lower(): zone for zone in available_timezones()}


def _zone_of_offset(text: str) -> str | None:
    """Return the zone for an offset of whole hours from UTC or Moscow time.

    The signs in zone names are inverted: Etc/GMT-3 is UTC+3.
    """
    found = _OFFSET.fullmatch(text.strip().lower().replace("\u2212", "-"))
    if found is None:
        return None
    base, sign, hours = found.groups()
    is_moscow = base in ("msk", "мск")
    if hours is None:
        return "Europe/Moscow" if is_moscow else None
    offset = int(f"{sign}{hours}") + (3 if is_moscow else 0)
    return _timezones().get("etc/utc" if offset == 0 else f"etc/gmt{-offset:+d}")


def normalize_tag(text: str) -> str:
    """Normalize to lower case, so that VIP and vip are the same tag."""
    tag = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    if not 1 <= len(tag) <= MAX_TAG_LENGTH or not is_printable(tag) or "," in tag or ";" in tag:
        raise InvalidContact(
            "A tag has 1 to {max_length} printable characters and no comma.", field="tags", max_length=MAX_TAG_LENGTH
        )
    return tag


def normalize_tags(texts: Iterable[str]) -> tuple[str, ...]:
    unique = tuple(sorted({normalize_tag(text) for text in texts if text.strip()}))
    if len(unique) > MAX_TAGS:
        raise InvalidContact("A contact has at most {max_tags} tags.", field="tags", max_tags=MAX_TAGS)
    return unique


def check_attribute_name(text: str) -> str:
    """Check a name that templates can use as a variable, for example `favourite_colour`."""
    if not text.isidentifier() or len(text) > MAX_ATTRIBUTE_NAME_LENGTH or unicodedata.normalize("NFC", text) != text:
        raise InvalidContact(
            "An attribute name has at most {max_length} letters, digits and _, and no digit first.",
            field="attributes",
            max_length=MAX_ATTRIBUTE_NAME_LENGTH,
        )
    return text


def attribute_name_from_title(title: str) -> str | None:
    """Turn a column title into an attribute name: `Favourite Colour` becomes `favourite_colour`. None if impossible."""
    name_ = _NO_NAME.sub("_", unicodedata.normalize("NFC", title).strip().lower()).strip("_")[
        :MAX_ATTRIBUTE_NAME_LENGTH
    ]
    if name_ and not name_.isidentifier():
        name_ = f"_{name_}"[:MAX_ATTRIBUTE_NAME_LENGTH]
    return name_ if name_.isidentifier() else None


def check_attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check attributes. Values can be any JSON, but filters compare only texts, numbers and booleans.

    None removes an attribute.
    """
    checked: dict[str, Any] = {}
    for key, value in given.items():
        check_attribute_name(key)
        if isinstance(value, str):
            value = check_attribute_text(value) or None  # noqa: PLW2901 - an empty text is the same as no attribute
        if "\\u0000" in orjson.dumps(value).decode():
            raise InvalidContact("{key} contains a character that cannot be stored.", field="attributes", key=key)
        checked[key] = value
    if problem := division_problem(checked):
        raise InvalidContact("{problem}.", field="attributes", problem=problem)
    if len(checked) > MAX_ATTRIBUTES or len(orjson.dumps(checked)) > MAX_ATTRIBUTES_BYTES:
        raise InvalidContact(
            "A contact has at most {max_attributes} attributes with {max_kilobytes} KB in total.",
            field="attributes",
            max_attributes=MAX_ATTRIBUTES,
            max_kilobytes=MAX_ATTRIBUTES_BYTES // 1024,
        )
    return checked


def division_problem(attributes: Mapping[str, Any]) -> str | None:
    """Return an error text if an attribute names an invalid division (articles use divisions), or None."""
    wrong = malformed_division(attributes.get(OCD_IDS))
    return None if wrong is None else f"{OCD_IDS}: {wrong[:80]!r} is not an OCD division id, for example {EXAMPLE}"


def check_attribute_text(text: str) -> str:
    stripped = text.strip()
    if len(stripped) > MAX_ATTRIBUTE_LENGTH:
        raise InvalidContact(
            "An attribute has more than {max_length} characters.", field="attributes", max_length=MAX_ATTRIBUTE_LENGTH
        )
    return stripped


def merge_attributes(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace known values with given ones. A known value stays if only the type differs, such as 42 and "42"."""
    result = dict(known)
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
        elif key not in result or as_text(result[key]) != as_text(value):
            result[key] = value
    return result


def as_text(value: Any) -> str:
    """Format an attribute for a file."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
