"""Columns: which column of a file is the address, the name and so on. Everything else becomes an attribute."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mailwright.audience.contact_fields import MAX_ATTRIBUTES, InvalidContact, attribute_name, attribute_name_from_title
from mailwright.domain.errors import InvalidInput

# What a column may be beside an attribute. First and last names are attributes, and make the name where none is given.
FIELDS: Final = ("email", "name", "locale", "timezone", "tags")
SKIPPED: Final = "-"
MAX_COLUMNS: Final = 200

# Titles as people write them, in small letters and without what stands between the letters.
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
    # What exports tell and imports never change.
    **dict.fromkeys(("status", "lists", "createdat", "contactid"), SKIPPED),
}  # fmt: skip

_BETWEEN: Final = re.compile(r"[\W_]+")


class InvalidColumns(InvalidInput):
    """The columns of the file cannot be told apart."""

    code = "COLUMNS_INVALID"


@dataclass(frozen=True, slots=True)
class ImportColumn:
    title: str
    target: str  # one of FIELDS, LEFT_OUT, or the name of an attribute


def map_columns(titles: Sequence[str], chosen: Mapping[str, str]) -> tuple[ImportColumn, ...]:
    """By what a person has chosen for a title, else by what the title says."""
    if len(titles) > MAX_COLUMNS:
        raise InvalidColumns(f"the file has {len(titles)} columns; at most {MAX_COLUMNS} are taken", field="file")
    wanted = {_plain(title): _target(target) for title, target in chosen.items()}
    if unknown := [title for title in chosen if _plain(title) not in {_plain(each) for each in titles}]:
        known = ", ".join(title.strip() for title in titles[:20])
        raise InvalidColumns(f"there is no column {unknown[0]!r}; there are: {known}", field="map")
    found = tuple(ImportColumn(title.strip(), wanted.get(_plain(title)) or suggest_target(title)) for title in titles)
    _check(found)
    return found


def columns_without_header(first: Sequence[str], email_at: int) -> tuple[ImportColumn, ...]:
    """Of a file without a header: the column with the address is used, the others have no name to be kept under."""
    return tuple(
        ImportColumn(f"column {n}", "email" if n == email_at + 1 else SKIPPED) for n in range(1, len(first) + 1)
    )


def suggest_target(title: str) -> str:
    """What a title says that its column is."""
    return TITLES.get(_plain(title)) or attribute_name_from_title(title) or SKIPPED


def _target(text: str) -> str:
    plain = text.strip()
    if plain in FIELDS or plain == SKIPPED:
        return plain
    try:
        return attribute_name(plain)
    except InvalidContact as error:
        raise InvalidColumns(f"{plain!r}: {error}", field="map") from error


def _check(columns: Sequence[ImportColumn]) -> None:
    targets = [column.target for column in columns if column.target != SKIPPED]
    if "email" not in targets:
        titles = ", ".join(column.title for column in columns[:20])
        raise InvalidColumns(
            f"no column looks like the address; name it, as in E-Mail=email. Columns: {titles}", field="map"
        )
    for target in targets:
        if targets.count(target) > 1:
            both = " and ".join(column.title for column in columns if column.target == target)
            raise InvalidColumns(
                f"{both} are both {target}; leave one of them out, as in {both.split(' and ')[-1]}=-", field="map"
            )
    if len(targets) > MAX_ATTRIBUTES + len(FIELDS):
        raise InvalidColumns(f"more than {MAX_ATTRIBUTES} columns would become attributes", field="file")


def _plain(title: str) -> str:
    """Without case, accents and what stands between letters: `E-Mail` and `email` are the same title."""
    letters = unicodedata.normalize("NFD", title.strip().casefold())
    return _BETWEEN.sub(
        "", "".join(letter for letter in letters if not unicodedata.combining(letter) or letter == "\u0306")
    )
