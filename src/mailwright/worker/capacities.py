"""How many more messages each provider can carry now."""

from collections import Counter
from collections.abc import Iterable, Sequence

from mailwright.domain.states import Priority
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.providers.route import RouteMember

# The share of a provider's capacity that bulk messages never use, so that a transactional message finds a free
# connection even if the provider is slow.
RESERVED_SHARE = 0.1
# A provider with less capacity than this reserves none of it.
LEAST_TO_RESERVE = 5


class Capacities:
    """The free capacity of the providers, less what is taken for the attempts that begin next."""

    def __init__(self, members: Sequence[RouteMember], in_flight: Iterable[ReadyMessage], window: int) -> None:
        self.busy: Counter[str | None] = Counter()  # Messages in flight, by provider.
        bulk: Counter[str | None] = Counter()
        for ready in in_flight:
            self.busy[ready.provider] += 1
            bulk[ready.provider] += ready.claimed.priority >= Priority.BULK
        self._left = window - self.busy.total()
        self._free: dict[str, int] = {}
        self._free_for_bulk: dict[str, int] = {}
        for member in members:
            capacity = min(window, member.provider.capacity)
            self._free[member.name] = capacity - self.busy[member.name]
            for_bulk = min(window, member.provider.bulk_capacity)
            self._free_for_bulk[member.name] = for_bulk - _reserved(for_bulk) - bulk[member.name]

    def has_room(self, priority: int | None) -> bool:
        """Return whether any provider can take a message of this priority; None means that there is no message."""
        if priority is None or self._left <= 0:
            return False
        return any(self._has_room(name, priority) for name in self._free)

    def take(self, provider: str, priority: int) -> bool:
        """Take room for a message; return False if there is none."""
        if self._left <= 0 or not self._has_room(provider, priority):
            return False
        self._left -= 1
        self._free[provider] -= 1
        self._free_for_bulk[provider] -= priority >= Priority.BULK
        self.busy[provider] += 1
        return True

    def _has_room(self, provider: str, priority: int) -> bool:
        is_bulk = priority >= Priority.BULK
        return self._free[provider] > 0 and not (is_bulk and self._free_for_bulk[provider] <= 0)


def _reserved(capacity: int) -> int:
    return max(1, int(capacity * RESERVED_SHARE)) if capacity >= LEAST_TO_RESERVE else 0
