"""Who gets a mailout: addresses as people typed them become each reader once, in one order."""

import re
from collections.abc import Iterable, Mapping

from mailwright.domain import address
from mailwright.ops.logs import logger

_BETWEEN = re.compile(r"[,;\s]+")

log = logger(__name__)


def parse_test_emails(text: str) -> list[str]:
    """Between commas, semicolons or spaces. Whatever is no address is left out, and logged."""
    return list(once_each((each, None) for each in _BETWEEN.split(text) if each))


def once_each(people: Iterable[tuple[str, str | None]]) -> Mapping[str, str | None]:
    """By address in normal form, sorted; of several spellings of one address the first that has a name gives it."""
    found: dict[str, str | None] = {}
    for email, name in people:
        normal = normal_or_none(email)
        if normal is not None:
            found[normal] = found.get(normal) or name
    return dict(sorted(found.items()))


def normal_or_none(email: str) -> str | None:
    try:
        return address.normal(email.strip())
    except address.InvalidAddress as error:
        log.warning("mailout_address_invalid", email=address.mask(email), reason=str(error))
        return None
