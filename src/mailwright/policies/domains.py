"""Limits per recipient domain: rate and concurrency over all tenants."""

import re

from mailwright.domain import address
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import DeferReason, DomainLimit, DomainLimits, LimitWindow, RelatedCounter

OTHERS = "*"
HALF: Instant = SECOND // 2
_WORDS = re.compile(r"(?P<rate>[1-9][0-9]{0,8})/s|(?P<at_once>[1-9][0-9]{0,8})c")


def window(domain: str, rate: int, now: Instant) -> LimitWindow:
    """Return the counter for the next message to this domain.

    Each half second has its own counter, and the limit applies to the sum of two consecutive counters. Messages sent at
    the end of a second therefore reduce the number allowed at the start of the next. A backlog, which is sent at the
    start of each second, is not slowed down.
    """
    half, ends = now // HALF, (now // SECOND + 1) * SECOND
    name = f"mailwright:rate:domain:{domain}"
    before = RelatedCounter(f"{name}:{half - 1}", (half + 1) * HALF)
    return LimitWindow(f"{name}:{half}", rate, ends, DeferReason.DOMAIN_RATE, ends, (before,))


def parse_domain_limits(text: str) -> DomainLimits:
    """Parse `gmail.com=20/s, yahoo.com=5/s 10c, *=100/s`; report all problems together."""
    named: dict[str, DomainLimit] = {}
    problems: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        try:
            domain, limit = _parse(part)
            if domain in named:
                raise ValueError(f"{domain} is listed twice")
            named[domain] = limit
        except ValueError as error:
            problems.append(f"MAILWRIGHT_DOMAIN_LIMITS: {part!r}: {error}")
    if problems:
        raise ConfigurationInvalid(*problems)
    others = named.pop(OTHERS, None)
    return DomainLimits(named, others)


def _parse(part: str) -> tuple[str, DomainLimit]:
    name, equals, words = part.partition("=")
    if not equals:
        raise ValueError("must look like gmail.com=20/s, gmail.com=10c or gmail.com=20/s 10c")
    domain = OTHERS if name.strip() == OTHERS else address.parse(f"postmaster@{name.strip()}")[1]
    limits: dict[str, int] = {}
    for word in words.split():
        match = _WORDS.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is neither a rate (such as 20/s) nor a concurrency limit (such as 10c)")
        kind = str(match.lastgroup)
        if kind in limits:
            raise ValueError(f"{word!r} repeats a limit of the same kind")
        limits[kind] = int(match[kind])
    if not limits:
        raise ValueError("needs a rate (such as 20/s) or a concurrency limit (such as 10c)")
    return domain, DomainLimit(limits.get("rate"), limits.get("at_once"))


class SendSlots:
    """Assigns each deferred message the next free send time of its domain and lane.

    With distinct times, each message of a large backlog for one domain is deferred about once, not repeatedly.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[int, str], float] = {}

    def take(self, lane: int, domain: str, *, per_second: float, earliest: Instant) -> Instant:
        """Take the next slot. Each lane has its own slots, so that a receipt does not wait behind a newsletter."""
        slot = max(self._next.get((lane, domain), 0), float(earliest))
        self._next[lane, domain] = slot + SECOND / per_second
        return int(slot)

    def forget_before(self, now: Instant) -> None:
        self._next = {key: slot for key, slot in self._next.items() if slot > now}
