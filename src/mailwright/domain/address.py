"""Parse, normalize and mask email addresses in linear time."""

import re
from functools import lru_cache

import idna

MAX_LENGTH = 254
MAX_LOCAL = 64

_ATEXT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~.")


# This pattern runs in linear time, because no character can be matched in two ways.
_PLAIN = re.compile(r"([a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*)@([a-z0-9-]+(?:\.[a-z0-9-]+)+)")


class InvalidAddress(ValueError):
    """The text is not a valid email address."""


@lru_cache(maxsize=4_096)  # Cached because validation, headers and envelope each parse the same address.
def parse(text: str) -> tuple[str, str]:
    """Split an address into its local part and its domain (lower-case A-labels).

    The length is checked first, because parsing takes time in proportion to it.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidAddress(f"longer than {MAX_LENGTH} characters")
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain:
        raise InvalidAddress("must look like name@example.com")
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
    return f"{local.lower()}@{domain}"


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
        raise InvalidAddress(f"the part before @ is longer than {MAX_LOCAL} bytes")
    if local[0] == "." or local[-1] == "." or ".." in local:
        raise InvalidAddress("a dot before @ must be between other characters")
    if _ATEXT.issuperset(local):
        return
    for character in local:
        if character in _ATEXT:
            continue
        if ord(character) < 128 or not character.isprintable() or character.isspace():
            raise InvalidAddress(f"{character!r} is not allowed before @")


@lru_cache(maxsize=4_096)  # Cached because most recipients of a list share a few domains.
def _ascii_domain(domain: str) -> str:
    lowered = domain.lower()
    if lowered.isascii():
        labels = lowered.split(".")
        if len(labels) < 2 and lowered != "localhost":
            raise InvalidAddress("the domain needs a dot, for example example.com")
        for label in labels:
            _check_label(label)
        ascii_domain = lowered
    else:
        try:
            ascii_domain = idna.encode(lowered, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise InvalidAddress(f"the domain is not valid: {error}") from error
        if "." not in ascii_domain:
            raise InvalidAddress("the domain needs a dot, for example example.com")
        # Checking every label rejects a trailing dot, which would be a second spelling of the same domain.
        for label in ascii_domain.split("."):
            _check_label(label)
    if len(ascii_domain) > 253:
        raise InvalidAddress("the domain is longer than 253 characters")
    return ascii_domain


def _check_label(label: str) -> None:
    if not 1 <= len(label) <= 63:
        raise InvalidAddress("each part of the domain must have 1 to 63 characters")
    if label[0] == "-" or label[-1] == "-":
        raise InvalidAddress("a part of the domain must not begin or end with a hyphen")
    if not all(character.isalnum() or character == "-" for character in label):
        raise InvalidAddress("the domain may contain only letters, digits, hyphens and dots")
