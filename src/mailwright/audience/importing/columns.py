"""Map the columns of a file to contact fields. Every other column becomes an attribute."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailwright.audience.contact_fields import (
    MAX_ATTRIBUTES,
    InvalidContact,
    attribute_name_from_title,
    check_attribute_name,
)
from mailwright.domain.errors import InvalidInput

# The contact fields. First and last names are attributes, and form the name if there is no other.
FIELDS: Final = ("email", "name", "locale", "timezone", "tags")
SKIPPED: Final = "-"
MAX_COLUMNS: Final = 200

# Usual titles, in lower case and without punctuation.
TITLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("email", "mail", "emailaddress", "mailaddress", "eмail", "почта", "электроннаяпочта", "адресэлектроннойпочты",
         "емейл", "имейл", "correio", "correioeletronico", "enderecodeemail", "correo", "correoelectronico"),
        "email",
    ),
    **dict.fromkeys(("name", "fullname", "имя", "фио", "полноеимя", "nome", "nomecompleto", "nombre"), "name"),
    **dict.fromkeys(("firstname", "givenname", "primeironome"), "first_name"),
    **dict.fromkeys(("lastname", "surname", "familyname", "фамилия", "sobrenome", "apelido"), "last_name"),
    **dict.fromkeys(("locale", "language", "lang", "язык", "idioma", "lingua"), "locale"),
    **dict.fromkeys(("timezone", "tz", "часовойпояс", "fusohorario"), "timezone"),
    **dict.fromkeys(("tags", "tag", "labels", "теги", "метки", "etiquetas"), "tags"),
    # Exports contain these, and imports never change them.
    **dict.fromkeys(("status", "lists", "createdat", "contactid"), SKIPPED),
}  # fmt: skip

_BETWEEN: Final = re.compile(r"[\W_]+")


class InvalidColumns(InvalidInput):
    """The columns of the file are ambiguous."""

    code = "COLUMNS_INVALID"


@dataclass(frozen=True, slots=True)
class ImportColumn:
    title: str
    target: str  # one of FIELDS, SKIPPED, or the name of an attribute


def map_columns(titles: Sequence[str], chosen: Mapping[str, str]) -> tuple[ImportColumn, ...]:
    """Map by what the user has chosen for a title, otherwise by the title itself."""
    if len(titles) > MAX_COLUMNS:
        raise InvalidColumns(f"The file has {len(titles)} columns; at most {MAX_COLUMNS} are allowed.", field="file")
    targets = {_plain(title): _target(target) for title, target in chosen.items()}
    known_titles = {_plain(title) for title in titles}
    if unknown := [title for title in chosen if _plain(title) not in known_titles]:
        known = ", ".join(title.strip() for title in titles[:20])
        raise InvalidColumns(f"There is no column {unknown[0]!r}. Columns: {known}.", field="map")
    mapped = tuple(ImportColumn(title.strip(), targets.get(_plain(title)) or suggest_target(title)) for title in titles)
    _check(mapped)
    return mapped


def columns_without_header(first: Sequence[str], email_at: int) -> tuple[ImportColumn, ...]:
    """For a file without a header: only the column with the address is used, because the others have no names."""
    return tuple(
        ImportColumn(f"column {n}", "email" if n == email_at + 1 else SKIPPED) for n in range(1, len(first) + 1)
    )


def suggest_target(title: str) -> str:
    """Return the target that a title suggests."""
    return TITLES.get(_plain(title)) or attribute_name_from_title(title) or SKIPPED


def _target(text: str) -> str:
    plain = text.strip()
    if plain in FIELDS or plain == SKIPPED:
        return plain
    try:
        return check_attribute_name(plain)
    except InvalidContact as error:
        raise InvalidColumns(f"{plain!r}: {error}", field="map") from error


def _check(columns: Sequence[ImportColumn]) -> None:
    targets = [column.target for column in columns if column.target != SKIPPED]
    if "email" not in targets:
        titles = ", ".join(column.title for column in columns[:20])
        raise InvalidColumns(
            f"No column contains the address. Name it, for example E-Mail=email. Columns: {titles}.", field="map"
        )
    for target in targets:
        if targets.count(target) > 1:
            both = " and ".join(column.title for column in columns if column.target == target)
            raise InvalidColumns(
                f"{both} are both mapped to {target}. Skip one of them: {both.split(' and ')[-1]}=-.", field="map"
            )
    if len(targets) > MAX_ATTRIBUTES + len(FIELDS):
        raise InvalidColumns(f"More than {MAX_ATTRIBUTES} columns would become attributes.", field="file")


def _plain(title: str) -> str:
    """Drop case, accents and punctuation: `E-Mail` and `email` are the same title."""
    decomposed = unicodedata.normalize("NFD", title.strip().casefold())
    return _BETWEEN.sub("", "".join(char for char in decomposed if not unicodedata.combining(char) or char == "\u0306"))
