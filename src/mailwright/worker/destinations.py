"""Apply the limits per recipient domain. A message over a limit is deferred alone; the rest of its lane continues."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mailwright.domain.address import domain_of
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral, DeferReason, DomainLimit, DomainLimits, LimitWindow
from mailwright.outbox.ledger import Ledger
from mailwright.policies.domains import SendSlots, window
from mailwright.policies.reserve import keep_reserve

# A message to a domain that has reached its concurrency limit is deferred by this much.
PAUSE: Instant = 250
# Admit up to this multiple of the concurrency limit in advance, so that no connection is idle while the next message
# is built.
READY = 2


@dataclass(frozen=True, slots=True)
class DomainDecision:
    permits: dict[int, LimitWindow]  # By message key, for domains with a rate limit.
    concurrency: dict[int, int]  # By message key, for domains with a concurrency limit.
    deferred: list[tuple[Claimed, Deferral]]


class Destinations:
    def __init__(self, clock: Clock, ledger: Ledger, limits: DomainLimits, reserve_percent: int = 0) -> None:
        self._clock = clock
        self._ledger = ledger
        self._limits = limits
        self._reserve_percent = reserve_percent  # The share that bulk messages leave for transactional messages.
        self._slots = SendSlots()
        self._workers = 1
        # Sends started to domains with a concurrency limit, in this second and in the previous one.
        self._started: Counter[str] = Counter()
        self._started_before: Counter[str] = Counter()

    async def decide(self, batch: Sequence[Claimed]) -> DomainDecision:
        """Reserve permits for the messages that may be sent now, transactional ones first; defer the others."""
        urgent = [claimed for claimed in batch if not claimed.is_bulk]
        if not urgent or len(urgent) == len(batch):
            return await self._decide(batch, is_bulk=not urgent)
        first = await self._decide(urgent, is_bulk=False)
        second = await self._decide([claimed for claimed in batch if claimed.is_bulk], is_bulk=True)
        return DomainDecision(
            first.permits | second.permits, first.concurrency | second.concurrency, first.deferred + second.deferred
        )

    async def _decide(self, batch: Sequence[Claimed], *, is_bulk: bool) -> DomainDecision:
        deferred: list[tuple[Claimed, Deferral]] = []
        concurrency: dict[int, int] = {}
        wanted: dict[LimitWindow, Sequence[Claimed]] = {}
        for domain, limit, group in self._limited(batch):
            ready = group
            if limit.at_once is not None:
                concurrency |= {claimed.message_key: limit.at_once for claimed in group}
                ready = group[: READY * limit.at_once]
                deferred += [(claimed, self.next_slot(claimed, limit.at_once)) for claimed in group[len(ready) :]]
            if limit.rate_per_second is not None:
                counter = window(domain, limit.rate_per_second, self._clock.now())
                wanted[keep_reserve(counter, self._reserve_percent) if is_bulk else counter] = ready
        granted = await self._ledger.reserve_each({counter: len(group) for counter, group in wanted.items()})
        permits: dict[int, LimitWindow] = {}
        for counter, group in wanted.items():
            count = granted[counter]
            permits |= {claimed.message_key: counter for claimed in group[:count]}
            deferred += [(claimed, self._next_second(claimed, counter)) for claimed in group[count:]]
        return DomainDecision(permits, concurrency, deferred)

    def next_slot(self, claimed: Claimed, at_once: int) -> Deferral:
        """Return when to retry a message whose domain has reached its concurrency limit."""
        domain = domain_of(claimed.to_email)
        # Assume twice the recent rate, because an idle slot costs more than an unnecessary retry.
        per_second = max(at_once * SECOND / PAUSE / self._workers, 2.0 * self._started_before[domain])
        slot = self._slots.take(
            claimed.lane, f"{domain} at once", per_second=per_second, earliest=self._clock.now() + PAUSE
        )
        return Deferral(slot, DeferReason.DOMAIN_CONCURRENCY)

    def count_send(self, claimed: Claimed) -> None:
        self._started[domain_of(claimed.to_email)] += 1

    def start_second(self, workers: int) -> None:
        """Begin a new second. Each of the `workers` assigns its share of a domain's slots."""
        self._workers = max(1, workers)
        self._slots.forget_before(self._clock.now())
        self._started_before, self._started = self._started, Counter()

    def _limited(self, batch: Iterable[Claimed]) -> Iterator[tuple[str, DomainLimit, Sequence[Claimed]]]:
        groups: dict[str, list[Claimed]] = {}
        for claimed in batch:
            groups.setdefault(domain_of(claimed.to_email), []).append(claimed)
        for domain, group in groups.items():
            if (limit := self._limits.of(domain)) is not None:
                yield domain, limit, group

    def _next_second(self, claimed: Claimed, full: LimitWindow) -> Deferral:
        """Defer to the start of a second, so that one poll of the worker finds all messages for that second."""
        share = full.limit / self._workers
        slot = self._slots.take(
            claimed.lane, domain_of(claimed.to_email), per_second=share, earliest=full.deferred_until
        )
        return Deferral(slot // SECOND * SECOND, full.reason)
