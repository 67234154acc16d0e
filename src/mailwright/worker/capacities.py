"""The number of additional messages that each provider can process now."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from mailwright.domain.clock import Instant
from mailwright.domain.retry import LONGEST_OUTAGE_DELAY
from mailwright.domain.states import Priority
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.providers.reserve import reserved
from mailwright.providers.route import RouteMember


class Capacities:
    """The free capacity of the providers, minus the capacity taken for the attempts that begin next."""

    def __init__(
        self, members: Sequence[RouteMember], in_flight: Collection[ReadyMessage], window: int, now: Instant
    ) -> None:
        busy: Counter[str | None] = Counter()
        bulk: Counter[str | None] = Counter()
        for ready in in_flight:
            busy[ready.provider] += 1
            bulk[ready.provider] += ready.claimed.priority >= Priority.BULK
        self.probing = find_probing(members, in_flight, now)
        self._left = window - busy.total()
        self._free: dict[str, int] = {}
        self._free_for_bulk: dict[str, int] = {}
        for member in members:
            capacity = min(window, member.provider.capacity)
            self._free[member.name] = capacity - busy[member.name]
            for_bulk = min(window, member.provider.bulk_capacity)
            self._free_for_bulk[member.name] = for_bulk - reserved(for_bulk) - bulk[member.name]

    def has_room(self, priority: int | None) -> bool:
        """Return whether a provider has capacity for a message of this priority. None means that no message waits."""
        if priority is None or self._left <= 0:
            return False
        return any(self._has_room(name, priority) for name in self._free)

    def take(self, provider: str, priority: int) -> bool:
        """Take capacity for a message; return False if there is none."""
        if self._left <= 0 or not self._has_room(provider, priority):
            return False
        self._left -= 1
        self._free[provider] -= 1
        self._free_for_bulk[provider] -= priority >= Priority.BULK
        self.probing.add(provider)
        return True

    def _has_room(self, provider: str, priority: int) -> bool:
        is_bulk = priority >= Priority.BULK
        return self._free[provider] > 0 and not (is_bulk and self._free_for_bulk[provider] <= 0)


def find_probing(members: Sequence[RouteMember], in_flight: Iterable[ReadyMessage], now: Instant) -> set[str | None]:
    """Return the providers with a probe in flight.

    A send that began before the provider failed does not count as a probe, because it may never get a response. A send
    that takes too long does not count either.
    """
    opened_at = {member.name: member.breaker.opened_at for member in members if member.breaker.opened_at is not None}
    if not opened_at:
        return set()
    return {
        ready.provider
        for ready in in_flight
        if ready.provider in opened_at
        and (not ready.attempted_at or ready.attempted_at > max(opened_at[ready.provider], now - LONGEST_OUTAGE_DELAY))
    }
