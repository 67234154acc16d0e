"""Find an address in a table that stores it as typed: with spaces, in any case, or with a Unicode domain."""

from mailwright.domain import address

_IDN_PREFIX = "xn--"


def search_pattern(email: str) -> str:
    """Return an `ilike` pattern of PostgREST that every spelling matches. Other addresses may match it too.

    A star matches any text, so a label of an internationalised domain is found as an A-label and as a U-label.
    """
    local, _, domain = email.replace("\\", "_").rpartition("@")
    labels = ("*" if label.startswith(_IDN_PREFIX) else label for label in domain.split("."))
    return f"*{local}@{'.'.join(labels)}*"


def is_spelling_of(stored: str, email: str) -> bool:
    """Return whether a stored text is this normalised address."""
    text = address.trim(stored)
    try:
        return text == email or address.normal(text) == email
    except address.InvalidAddress:
        return False
