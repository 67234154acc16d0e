"""Parse, normalize and mask email addresses in linear time."""

import re
import string
from functools import lru_cache

import idna

from mailwright.domain.translation import lazy_gettext

MAX_LENGTH = 254
MAX_LOCAL = 64

_ATEXT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~.")


# This pattern runs in linear time, because no character can be matched in two ways.
_PLAIN = re.compile(r"([a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*)@([a-z0-9-]+(?:\.[a-z0-9-]+)+)")
# A whole quoted-string of RFC 5322, also in linear time.
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_SEPARATOR = re.compile(r"[,;\s]")
# Only ASCII letters become lower case, because `str.lower` also turns the Kelvin sign into k, a different mailbox.
_LOWER_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Unicode spaces, soft hyphens, zero-width characters, direction marks and byte order marks.
_BLANK_RANGES = ((0x09, 0x0D), (0x1C, 0x20), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x2064))
_BLANK = "\x85\xa0\xad\u1680\u3000\ufeff" + "".join(
    chr(code) for first, last in _BLANK_RANGES for code in range(first, last + 1)
)
# A domain with A-labels, alone or in a longer text; not the part before @.
_INTERNATIONAL = re.compile(r"(?<![\w.+-])(?:[a-z0-9-]+\.)*xn--[a-z0-9-]+(?:\.[a-z0-9-]+)*(?![\w@+-])")


class InvalidAddress(ValueError):
    """The text is not a valid email address."""

    def __init__(self, message: str, /, **values: object) -> None:
        super().__init__(lazy_gettext(message, **values))


@lru_cache(maxsize=4_096)  # Cached because validation, headers and envelope each parse the same address.
def parse(text: str) -> tuple[str, str]:
    """Split an address into its local part and its domain (lower-case A-labels).

    The length is checked first, because parsing takes time in proportion to it.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidAddress("longer than {max_length} characters", max_length=MAX_LENGTH)
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain:
        raise InvalidAddress("must look like name@example.com")
    if "@" in local:
        raise InvalidAddress(
            "it contains more than one address" if _SEPARATOR.search(local) else "it contains more than one @ sign"
        )
    _check_local(local)
    return local, _ascii_domain(domain)


def deliverable(text: str) -> str:
    """Return the form used in the SMTP envelope: local part unchanged, domain as A-labels."""
    local, domain = parse(text)
    return f"{local}@{domain}"


def normal(text: str) -> str:
    """Return the form used to compare addresses: deduplication, suppression and contacts all use it."""
    if text.isascii() and len(text) <= MAX_LENGTH:
        # Fast path for nearly all imported addresses: one match validates everything except the domain.
        plain = _PLAIN.fullmatch(lowered := text.lower())
        if plain is not None and plain.end(1) <= MAX_LOCAL:
            _ascii_domain(plain[2])
            return lowered
    local, domain = parse(text)
    return f"{local.translate(_LOWER_ASCII)}@{domain}"


def trim(text: str) -> str:
    """Return the text without spaces and invisible characters around it."""
    return text.strip(_BLANK)


def split_mailbox(text: str) -> tuple[str | None, str]:
    """Split `Name <address>` or `address` into a display name (or None) and an address, which is not validated.

    Quotes around the whole name are syntax and removed; other quotes belong to the name, as in `ACME "West" <a@b.c>`.
    """
    name, bracket, rest = text.rstrip(_BLANK).rpartition("<")
    if not bracket or not rest.endswith(">"):
        return None, trim(text)
    name = name.strip()
    if quoted := _QUOTED.fullmatch(name):
        name = _ESCAPED.sub(r"\1", quoted[1]).strip()
    return name or None, trim(rest[:-1])


def normal_mailbox(text: str) -> str | None:
    """Normalize the address of a mailbox, which may have a display name; None if it is not valid."""
    try:
        return normal(split_mailbox(text)[1])
    except InvalidAddress:
        return None


def format_mailbox(name: str | None, address: str) -> str:
    """Format a mailbox so that `split_mailbox` returns the same name and address."""
    if not name:
        return address
    if _QUOTED.fullmatch(name):
        name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{name} <{address}>"


def readable(text: str) -> str:
    """Return text for people: every domain in it that has A-labels is shown in Unicode."""
    return _INTERNATIONAL.sub(lambda found: _unicode_domain(found[0]), text) if "xn--" in text else text


def both_forms(domain: str) -> str:
    """Return a domain for people who decide about it: in Unicode and, if DNS has another form, also in that form."""
    shown = readable(domain)
    return domain if shown == domain else f"{shown} ({domain})"


def domain_of(address: str) -> str:
    return address.rpartition("@")[2]


def mask(address: str) -> str:
    """Return `a***@e***.com`: recognizable in a log, but not an address that can be used."""
    local, at, domain = address.rpartition("@")
    if not at:
        return "***"
    name, dot, suffix = domain.rpartition(".")
    return f"{local[:1]}***@{name[:1]}***{dot}{suffix}" if dot else f"{local[:1]}***@{domain[:1]}***"


def _check_local(local: str) -> None:
    if len(local.encode()) > MAX_LOCAL:
        raise InvalidAddress("the part before @ is longer than {max_local} bytes", max_local=MAX_LOCAL)
    if local[0] == "." or local[-1] == "." or ".." in local:
        raise InvalidAddress("a dot before @ must be between other characters")
    if _ATEXT.issuperset(local):
        return
    for character in local:
        if character in _ATEXT:
            continue
        if ord(character) < 128 or not character.isprintable() or character.isspace():
            raise InvalidAddress("{character} is not allowed before @", character=repr(character))


@lru_cache(maxsize=4_096)  # Cached because most recipients of a list share a few domains.
def _ascii_domain(domain: str) -> str:
    if domain.isascii():
        ascii_domain = domain.lower()
    else:
        try:
            ascii_domain = idna.encode(domain, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise InvalidAddress("the domain is not valid: {error}", error=error) from error
    # Checking every label rejects a trailing dot, which would be a second spelling of the same domain.
    labels = ascii_domain.split(".")
    if len(labels) < 2:
        raise InvalidAddress("the domain needs a dot, for example example.com")
    for label in labels:
        _check_label(label)
    if labels[-1].isdigit():
        raise InvalidAddress("the domain must be a name such as example.com, not an IP address")
    if len(ascii_domain) > 253:
        raise InvalidAddress("the domain is longer than 253 characters")
    return ascii_domain


def _unicode_domain(domain: str) -> str:
    try:
        return idna.decode(domain)
    except (idna.IDNAError, UnicodeError):
        return domain


def _check_label(label: str) -> None:
    if not 1 <= len(label) <= 63:
        raise InvalidAddress("each part of the domain must have 1 to 63 characters")
    if label[0] == "-" or label[-1] == "-":
        raise InvalidAddress("a part of the domain must not begin or end with a hyphen")
    if not all(character.isalnum() or character == "-" for character in label):
        raise InvalidAddress("the domain may contain only letters, digits, hyphens and dots")
