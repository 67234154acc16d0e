"""Map the columns of a file to contact fields. Every other column becomes an attribute."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from mailwright.audience.contact_fields import (
    MAX_ATTRIBUTES,
    InvalidContact,
    attribute_name_from_title,
    check_attribute_name,
)
from mailwright.audience.importing.value_formats import ColumnFormat
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

# The contact fields. First and last name are attributes. They form the name if the file has no name column.
FIELDS: Final = ("email", "name", "locale", "timezone", "tags", "tracking_consent", "subscribed", "opted_out")
# Fields with a yes or a no: who wants the newsletter, and who does not.
ANSWERS: Final = ("subscribed", "opted_out")
SKIPPED: Final = "-"
MAX_COLUMNS: Final = 200

_BETWEEN: Final = re.compile(r"[\W_]+")


# Common column titles in many languages.
_TITLES: Final[Mapping[str, Sequence[str]]] = {
    "email": (
        "email", "e-mail", "mail", "email address", "mailaddress", "eмail", "почта", "эл. почта", "электронная почта",
        "адрес электронной почты", "адрес эл. почты", "емейл", "имейл", "электронна пошта", "пошта", "correio",
        "correio eletrônico", "endereço de email", "correo", "correo electrónico", "dirección de correo",
        "E-Mail-Adresse", "Mailadresse", "courriel", "adresse e-mail", "adressemail", "adresse électronique",
        "posta elettronica", "indirizzo email", "e-mailadres", "adres e-mail", "adres email", "e-posta", "e-postadress",
        "emailová adresa", "sähköposti", "メール", "メールアドレス", "邮箱", "电子邮件", "电子邮箱", "이메일",
    ),
    "name": (
        "name", "full name", "имя", "фио", "полное имя", "имя и фамилия", "ім'я", "піб", "nome", "nome completo",
        "nombre", "nombre completo", "vollständiger name", "nom complet", "nominativo", "volledige naam", "naam",
        "imię i nazwisko", "ad soyad", "jméno a příjmení", "namn", "nimi", "氏名", "名前", "姓名", "이름",
    ),
    "first_name": (
        "first name", "given name", "primeiro nome", "vorname", "prénom", "voornaam", "imię", "förnamn", "fornavn",
        "jméno", "nome di battesimo", "primer nombre", "etunimi",
    ),
    "last_name": (
        "last name", "surname", "family name", "фамилия", "прізвище", "sobrenome", "apelido", "apellido", "apellidos",
        "nachname", "familienname", "nom de famille", "cognome", "achternaam", "nazwisko", "soyad", "soyadı",
        "efternamn", "etternavn", "příjmení", "sukunimi",
    ),
    "locale": (
        "locale", "language", "lang", "язык", "мова", "idioma", "língua", "lingua", "sprache", "langue", "taal",
        "język", "dil", "språk", "sprog", "jazyk", "kieli", "言語", "语言", "언어",
    ),
    "timezone": (
        "timezone", "time zone", "tz", "часовой пояс", "часовая зона", "таймзона", "часовий пояс", "fuso horário",
        "fuso", "zona horaria", "huso horario", "zeitzone", "fuseau horaire", "fuso orario", "tijdzone",
        "strefa czasowa", "saat dilimi", "zaman dilimi", "časové pásmo", "tidszon", "tidssone", "tidszone",
        "aikavyöhyke", "タイムゾーン", "时区", "시간대",
    ),
    "tags": (
        "tags", "tag", "labels", "теги", "тег", "тэги", "метки", "теги и метки", "мітки", "etiquetas", "marcadores",
        "schlagwörter", "schlagworte", "étiquettes", "etichette", "labels", "tagi", "etykiety", "etiketler", "štítky",
        "taggar", "タグ", "标签", "태그",
    ),
    "tracking_consent": ("tracking consent", "trackingConsent"),
    "subscribed": (
        "subscribed", "is subscribed", "subscribe", "subscription", "newsletter", "newsletters", "newsletter consent",
        "newsletter subscription", "newsletter opt in", "subscribed to newsletter", "wants newsletter", "opt in",
        "opted in", "email opt in", "marketing opt in", "marketing consent", "email consent", "accepts marketing",
        "accepts email marketing", "email marketing consent", "accepts emails", "mailing", "mailing list",
        "email subscription", "рассылка", "рассылки", "подписка", "подписан", "подписана", "подписан на рассылку",
        "согласие на рассылку", "согласен на рассылку", "получать рассылку", "новости", "розсилка", "підписка",
        "aceita newsletter", "aceita receber newsletter", "aceita receber emails", "recebe newsletter",
        "quer newsletter", "aceita marketing", "inscrito", "inscrito na newsletter", "assinante", "acepta newsletter",
        "acepta publicidad", "suscrito", "suscrito al boletín", "boletín", "newsletter abonniert", "abonniert",
        "newsletter anmeldung", "newsletter einwilligung", "abonné", "inscrit newsletter", "accepte newsletter",
        "iscritto", "iscritto alla newsletter", "consenso newsletter", "nieuwsbrief", "nyhetsbrev", "nyhedsbrev",
        "uutiskirje", "zgoda marketingowa", "bülten",
    ),
    "opted_out": (
        "opt out", "opted out", "email opt out", "has opted out of email", "unsubscribed", "is unsubscribed",
        "do not email", "no newsletter", "отписан", "отписка", "не присылать", "descadastrado",
        "cancelou inscrição", "abgemeldet", "désabonné", "desuscrito",
    ),
    # Exports contain these columns, but imports ignore them.
    SKIPPED: ("status", "lists", "created at", "contact id", "snoozed until"),
}  # fmt: skip


class InvalidColumns(InvalidInput):
    """The columns of the file are ambiguous."""

    code = "COLUMNS_INVALID"


@dataclass(frozen=True, slots=True)
class ImportColumn:
    title: str
    target: str  # one of FIELDS, SKIPPED, or the name of an attribute
    format: str = ""  # the format of its numbers or dates; empty if values are stored as written


def map_columns(titles: Sequence[str], chosen: Mapping[str, str]) -> tuple[ImportColumn, ...]:
    """Map each column to the target that the user chose for its title, or else to the one that the title suggests."""
    if len(titles) > MAX_COLUMNS:
        raise InvalidColumns(
            "The file has {count} columns; at most {max_columns} are allowed.",
            field="file",
            count=len(titles),
            max_columns=MAX_COLUMNS,
        )
    targets = {_plain(title): _target(target) for title, target in chosen.items()}
    known_titles = {_plain(title) for title in titles}
    if unknown := [title for title in chosen if _plain(title) not in known_titles]:
        known = ", ".join(title.strip() for title in titles[:20])
        raise InvalidColumns(
            "There is no column {unknown}. Columns: {known}.", field="map", unknown=repr(unknown[0]), known=known
        )
    mapped = tuple(_column(title, targets.get(_plain(title)) or (suggest_target(title), "")) for title in titles)
    _check(mapped)
    return mapped


def columns_without_header(first: Sequence[str], email_at: int) -> tuple[ImportColumn, ...]:
    """Return the columns of a file without a header. Only the address is imported; other columns have no titles."""
    return tuple(
        ImportColumn(f"column {n}", "email" if n == email_at + 1 else SKIPPED) for n in range(1, len(first) + 1)
    )


def suggest_target(title: str) -> str:
    """Return the target that a title suggests."""
    return _TARGETS.get(_plain(title)) or attribute_name_from_title(title) or SKIPPED


def _column(title: str, target: tuple[str, str]) -> ImportColumn:
    return ImportColumn(title.strip(), *target)


def _target(text: str) -> tuple[str, str]:
    """Split a chosen target such as `birthday:dmy` into the field or attribute and the optional format."""
    plain, colon, format_ = text.strip().partition(":")
    if colon and format_ not in list(ColumnFormat):
        options = ", ".join(ColumnFormat)
        raise InvalidColumns(
            "There is no format {format}. Formats: {options}.", field="map", format=repr(format_), options=options
        )
    if plain in FIELDS or plain == SKIPPED:
        return plain, ""
    try:
        return check_attribute_name(plain), format_
    except InvalidContact as error:
        raise InvalidColumns("{plain}: {error}", field="map", plain=repr(plain), error=error) from error


def _check(columns: Sequence[ImportColumn]) -> None:
    targets = [column.target for column in columns if column.target != SKIPPED]
    if "email" not in targets:
        titles = ", ".join(column.title for column in columns[:20])
        raise InvalidColumns(
            "No column contains the address. Choose the column that does. Columns: {titles}.",
            field="map",
            titles=titles,
        )
    for target in targets:
        if targets.count(target) > 1:
            both = " and ".join(column.title for column in columns if column.target == target)
            raise InvalidColumns(
                "{both} are both mapped to {target}. Map one of them to another field, or skip it.",
                field="map",
                both=both,
                target=target,
            )
    if len(targets) > MAX_ATTRIBUTES + len(FIELDS):
        raise InvalidColumns(
            "More than {max_attributes} columns would become attributes.", field="file", max_attributes=MAX_ATTRIBUTES
        )


def _plain(title: str) -> str:
    """Drop case, accents and punctuation: `E-Mail` and `email` are the same title."""
    decomposed = unicodedata.normalize("NFD", title.strip().casefold())
    return _BETWEEN.sub("", "".join(char for char in decomposed if not unicodedata.combining(char) or char == "\u0306"))


_TARGETS: Final = {_plain(title): target for target, titles in _TITLES.items() for title in titles}
