"""Destinations: room at the recipients' domains. Whoever finds none waits alone, and the rest of the lane goes on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mailwright.domain.address import domain_of
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral, DeferReason, LimitWindow
from mailwright.outbox.ledger import Ledger
from mailwright.policies.domains import DomainLimit, DomainLimits, SendSlots, window

# A domain that has as many mails under way as it may is looked at again after this.
PAUSE: Instant = 250
# So many times what may be under way at once is held ready, so that no place stays empty while the next mail is built.
READY = 2


@dataclass(frozen=True, slots=True)
class Sorted:
    permits: dict[int, LimitWindow]  # by message; where nothing is counted there is none
    waiting: list[tuple[Claimed, Deferral]]


class Destinations:
    def __init__(self, clock: Clock, ledger: Ledger, limits: DomainLimits) -> None:
        self._clock = clock
        self._ledger = ledger
        self._limits = limits
        self._slots = SendSlots()
        self._workers = 1
        self._begun: Counter[str] = Counter()  # mails to domains with a limit of mails at once, this second
        self._lately: Counter[str] = Counter()  # and the second before

    async def sort(self, batch: Iterable[Claimed]) -> Sorted:
        waiting: list[tuple[Claimed, Deferral]] = []
        wanted: dict[LimitWindow, Sequence[Claimed]] = {}
        for domain, limit, group in self._limited(batch):
            ready = group if limit.at_once is None else self._at_once(group, limit.at_once)
            waiting += [(claimed, self.next_place(claimed)) for claimed in group[len(ready) :]]
            if limit.rate_per_second is not None:
                wanted[window(domain, limit.rate_per_second, self._clock.now())] = ready
        granted = await self._ledger.reserve_each({counter: len(group) for counter, group in wanted.items()})
        permits: dict[int, LimitWindow] = {}
        for counter, group in wanted.items():
            count = granted[counter]
            permits |= {claimed.message_key: counter for claimed in group[:count]}
            waiting += [(claimed, self._next_second(claimed, counter)) for claimed in group[count:]]
        return Sorted(permits, waiting)

    def next_place(self, claimed: Claimed) -> Deferral:
        """When a mail is looked at again whose domain has as many under way as it may."""
        domain, at_once = domain_of(claimed.to_email), claimed.domain_limit or 1
        # Twice of what went lately is on the safe side: a place that stays empty costs more than a second look.
        per_second = max(at_once * SECOND / PAUSE / self._workers, 2.0 * self._lately[domain])
        slot = self._slots.take(
            claimed.lane, f"{domain} at once", per_second=per_second, earliest=self._clock.now() + PAUSE
        )
        return Deferral(slot, DeferReason.DOMAIN_CONCURRENCY)

    def has_begun(self, claimed: Claimed) -> None:
        self._begun[domain_of(claimed.to_email)] += 1

    def turn_second(self, workers: int) -> None:
        """Each worker gives out its share of a domain's moments, so that all of them together give out each once."""
        self._workers = max(1, workers)
        self._slots.forget_before(self._clock.now())
        self._lately, self._begun = self._begun, Counter()

    def _limited(self, batch: Iterable[Claimed]) -> Iterator[tuple[str, DomainLimit, Sequence[Claimed]]]:
        groups: dict[str, list[Claimed]] = {}
        for claimed in batch:
            groups.setdefault(domain_of(claimed.to_email), []).append(claimed)
        for domain, group in groups.items():
            if (limit := self._limits.of(domain)) is not None:
                yield domain, limit, group

    def _at_once(self, group: Sequence[Claimed], at_once: int) -> Sequence[Claimed]:
        for claimed in group:
            claimed.domain_limit = at_once  # the mark counts what is under way, over all workers
        return group[: READY * at_once]

    def _next_second(self, claimed: Claimed, full: LimitWindow) -> Deferral:
        """At the beginning of a second: a worker that looks twice a second then finds all that the second allows."""
        share = full.limit / self._workers
        slot = self._slots.take(
            claimed.lane, domain_of(claimed.to_email), per_second=share, earliest=full.deferred_until
        )
        return Deferral(slot // SECOND * SECOND, full.reason)
