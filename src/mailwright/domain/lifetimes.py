"""Lifetimes: how long a message is retried while the receiving server or a provider outage defers it."""

import re
from collections.abc import Mapping
from dataclasses import field

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed, Source

# A message deferred for this long is reported in the log, in its explanation and on Home.
DELAYED_AFTER: Instant = 4 * HOUR

LIFETIME_FIELD = "lifetimeMinutes"
MAX_LIFETIME_MINUTES = 30 * DAY // MINUTE

_TRANSACTIONAL, _BULK = "transactional", "bulk"
_UNITS = {"m": MINUTE, "h": HOUR, "d": DAY}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The lifetimes of messages. A lifetime begins at the message's first deferral."""

    transactional: Instant = 24 * HOUR
    bulk: Instant = 72 * HOUR
    sources: Mapping[str, Instant] = field(default_factory=dict)

    def of(self, claimed: Claimed) -> Instant:
        """Return the lifetime of a message: its own, else the one of its source, else the one of its kind."""
        own = claimed.payload.get(LIFETIME_FIELD)
        if own is not None:
            return int(own) * MINUTE
        return self.sources.get(claimed.source, self.bulk if claimed.is_bulk else self.transactional)

    def end_of(self, claimed: Claimed, now: Instant) -> Instant:
        """Return when a message that is deferred now expires."""
        ends_at = now + self.of(claimed) if claimed.retry_until is None else claimed.retry_until
        return ends_at if claimed.expires_at is None else min(ends_at, claimed.expires_at)


def parse_lifetimes(text: str) -> Lifetimes:
    """Parse `transactional=24h, bulk=72h, notification=30m`; report all problems together."""
    known = (_TRANSACTIONAL, _BULK, *Source)
    found: dict[str, Instant] = {}
    problems: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        name, _, length = (piece.strip() for piece in part.partition("="))
        duration = _DURATION.fullmatch(length)
        if name not in known:
            problems.append(f"{part!r} does not begin with one of {', '.join(known)}")
        elif name in found:
            problems.append(f"{name!r} is listed twice")
        elif duration is None or int(duration[1]) * _UNITS[duration[2]] > MAX_LIFETIME_MINUTES * MINUTE:
            problems.append(f"{part!r} needs a duration of at most 30 days, such as 30m, 24h or 3d")
        else:
            found[name] = int(duration[1]) * _UNITS[duration[2]]
    if problems:
        raise ConfigurationInvalid(*(f"MAILWRIGHT_LIFETIMES: {problem}" for problem in problems))
    general = {name: found.pop(name) for name in (_TRANSACTIONAL, _BULK) if name in found}
    return Lifetimes(**general, sources=found)
