"""Normalise and deduplicate addresses as people typed them."""

import re
from collections.abc import Iterable, Mapping

from mailwright.domain import address
from mailwright.ops.logs import logger

_BETWEEN = re.compile(r"[,;\s]+")
_BETWEEN_NAMES = re.compile(r"[._-]+")

log = logger(__name__)


def parse_test_emails(text: str) -> list[str]:
    """Parse addresses separated by commas, semicolons or spaces. Invalid ones are skipped and logged."""
    return list(deduplicate((each, None) for each in _BETWEEN.split(text) if each))


def deduplicate(people: Iterable[tuple[str, str | None]]) -> Mapping[str, str | None]:
    """Return names by normalised address, sorted. If an address has several spellings, the first name is used."""
    found: dict[str, str | None] = {}
    for email, name in people:
        try:
            normal = normalise(email)
        except address.InvalidAddress as error:
            log.warning("mailout_address_invalid", email=address.mask(email), reason=str(error))
            continue
        found[normal] = found.get(normal) or name
    return dict(sorted(found.items()))


def name_in(email: str) -> str:
    """Derive the owner's name from an address: `ada lovelace` from ada.lovelace@example.com."""
    return " ".join(_BETWEEN_NAMES.split(email.rpartition("@")[0])).strip()


def normalise(email: str) -> str:
    return address.normal(address.trim(email))
