"""Limits per destination: how fast and how many at once mail may go to one domain, whoever sends it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mailwright.domain import address
from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import DeferReason, LimitWindow, RelatedCounter

OTHERS = "*"
HALF: Instant = SECOND // 2
_WORDS = re.compile(r"(?P<rate>[1-9][0-9]{0,8})/s|(?P<at_once>[1-9][0-9]{0,8})c")


@dataclass(frozen=True, slots=True)
class DomainLimit:
    """None means that there is no such limit."""

    rate_per_second: int | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class DomainLimits:
    named: Mapping[str, DomainLimit] = field(default_factory=dict)
    others: DomainLimit | None = None  # every other domain has this one to itself

    def __bool__(self) -> bool:
        return bool(self.named) or self.others is not None

    def of(self, domain: str) -> DomainLimit | None:
        return self.named.get(domain, self.others) if domain else None


def window(domain: str, rate: int, now: Instant) -> LimitWindow:
    """The counter that the next mail to this domain must find room in.

    Mail is counted by the half second, together with the half before it: what went at the end of one second is missing
    at the beginning of the next. A backlog goes at the beginning of each second and never meets that.
    """
    half, ends = now // HALF, (now // SECOND + 1) * SECOND
    name = f"mailer:rate:domain:{domain}"
    before = RelatedCounter(f"{name}:{half - 1}", (half + 1) * HALF)
    return LimitWindow(f"{name}:{half}", rate, ends, DeferReason.DOMAIN_RATE, ends, (before,))


def parse_domain_limits(text: str) -> DomainLimits:
    """`gmail.com=20/s, yahoo.com=5/s 10c, *=100/s`. Every problem at once, each with its part."""
    named: dict[str, DomainLimit] = {}
    problems: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        try:
            domain, limit = _parse(part)
            if domain in named:
                raise ValueError(f"{domain} is there twice")
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
    found: dict[str, int] = {}
    for word in words.split():
        match = _WORDS.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is neither a rate, as 20/s, nor a number at once, as 10c")
        kind = str(match.lastgroup)
        if kind in found:
            raise ValueError(f"{word!r} is the second of its kind")
        found[kind] = int(match[kind])
    if not found:
        raise ValueError("needs a rate, as 20/s, or a number at once, as 10c")
    return domain, DomainLimit(found.get("rate"), found.get("at_once"))


class SendSlots:
    """A line for each domain and lane: whoever cannot go now is given the next free moment, not just a later one.

    A backlog of half a million mails to one domain is then put off about once each, and not again and again.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[int, str], float] = {}

    def take(self, lane: int, domain: str, *, per_second: float, earliest: Instant) -> Instant:
        """A lane has a line of its own: a receipt does not wait behind a newsletter, nor a tenant behind another."""
        slot = max(self._next.get((lane, domain), 0), float(earliest))
        self._next[lane, domain] = slot + SECOND / per_second
        return int(slot)

    def forget_before(self, now: Instant) -> None:
        self._next = {line: slot for line, slot in self._next.items() if slot > now}
