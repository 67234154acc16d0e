"""Frequency caps: how many bulk emails a contact receives at most within some days."""

import re
from functools import lru_cache
from typing import Final

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

FREQUENCY_CAP: Final = "frequency_cap"
OFF: Final = "off"
MAX_LIMIT: Final = 1_000
MAX_DAYS: Final = 90
_CAP: Final = re.compile(r"([1-9][0-9]{0,3}) per ([1-9][0-9]?)? ?days?")


@dataclass(frozen=True, slots=True)
class FrequencyCap:
    """At most `limit` bulk emails to a contact within any `days` days."""

    limit: int
    days: int

    @property
    def window(self) -> Instant:
        return self.days * DAY


@dataclass(frozen=True, slots=True)
class CapReached:
    """A contact has received as many bulk emails as the cap allows. Check the next one again at `until`."""

    until: Instant
    cap: FrequencyCap


def cap_reason(cap: FrequencyCap) -> str:
    """Return the reason of a deferral: `frequency_cap:3/7`."""
    return f"{FREQUENCY_CAP}:{cap.limit}/{cap.days}"


def cap_of_detail(detail: str | None) -> FrequencyCap | None:
    """Return the cap that deferred a message, from the detail of the reason."""
    limit, _, days = (detail or "").partition("/")
    return FrequencyCap(int(limit), int(days)) if limit.isdecimal() and days.isdecimal() else None


@lru_cache(maxsize=1_024)
def parse_frequency_cap(text: str | None) -> FrequencyCap | None:
    """Parse `3 per 7 days`. Return None for `off` and None."""
    if text is None or text.strip().lower() == OFF:
        return None
    match = _CAP.fullmatch(text.strip().lower())
    limit, days = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
    if not 1 <= limit <= MAX_LIMIT or not 1 <= days <= MAX_DAYS:
        raise InvalidInput(
            "The cap must look like `3 per 7 days` or `off`: at most {max_limit} emails and {max_days} days.",
            field="frequency_cap",
            max_limit=MAX_LIMIT,
            max_days=MAX_DAYS,
        )
    return FrequencyCap(limit, days)
