"""The queues between the tasks of a worker."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.lanes import priority_of
from mailwright.domain.message import Admitted, Claimed, Outcome
from mailwright.domain.permits import Deferral
from mailwright.ops.logs import logger
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.worker.pacing import Pacing

log = logger(__name__)

LONGEST_BACKOFF_SECONDS = 5.0


class HasClaim(Protocol):
    @property
    def claimed(self) -> Claimed: ...


T = TypeVar("T", bound=HasClaim)


class PriorityQueue(Generic[T]):
    """Messages ordered by priority and, within a priority, by arrival."""

    def __init__(self) -> None:
        self._by_priority: dict[int, deque[T]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_priority.values()))

    def __iter__(self) -> Iterator[T]:
        for priority in sorted(self._by_priority):
            yield from self._by_priority[priority]

    @property
    def next_priority(self) -> int | None:
        """The priority of the next message; None if there is none."""
        found = None
        for priority, queue in self._by_priority.items():
            if queue and (found is None or priority < found):
                found = priority
        return found

    def count_up_to(self, priority: int) -> int:
        """Return the number of messages with this or a higher priority."""
        return sum(len(queue) for one, queue in self._by_priority.items() if one <= priority)

    def append(self, message: T) -> None:
        self._queue(message.claimed.priority).append(message)

    def extend(self, messages: Iterable[T]) -> None:
        for priority, group in groupby(messages, key=_priority):
            self._queue(priority).extend(group)

    def put_first(self, messages: Sequence[T]) -> None:
        """Put messages before all others of their priority, in this order."""
        for message in reversed(messages):
            self._queue(message.claimed.priority).appendleft(message)

    def pop(self) -> T:
        priority = self.next_priority
        assert priority is not None
        return self._by_priority[priority].popleft()

    def pop_up_to(self, count: int) -> list[T]:
        """Remove and return the next messages, at most `count`, all of the same priority."""
        priority = self.next_priority
        assert priority is not None
        queue = self._by_priority[priority]
        return [queue.popleft() for _ in range(min(count, len(queue)))]

    def clear(self) -> list[T]:
        """Remove and return all messages."""
        removed = list(self)
        self._by_priority.clear()
        return removed

    def clear_lane(self, lane: int) -> list[T]:
        """Remove and return the messages of one lane."""
        queue = self._by_priority.get(priority_of(lane), deque())
        removed = [message for message in queue if message.claimed.lane == lane]
        if removed:
            self._by_priority[priority_of(lane)] = deque(message for message in queue if message.claimed.lane != lane)
        return removed

    def _queue(self, priority: int) -> deque[T]:
        queue = self._by_priority.get(priority)
        if queue is None:
            queue = self._by_priority[priority] = deque()
        return queue


def _priority(message: HasClaim) -> int:
    return message.claimed.priority


class Queues:
    """Every message that a worker holds is in exactly one of these queues, or waits for its send time in `pacing`."""

    def __init__(self, pacing: Pacing) -> None:
        self.pacing = pacing  # builder → sender: messages that wait for a send time
        self.admitted: PriorityQueue[Admitted] = PriorityQueue()  # feeder → builder
        self.building: list[Admitted] = []
        self.ready: PriorityQueue[ReadyMessage] = PriorityQueue()  # builder → sender
        # builder → sender: messages that were in doubt, sent one at a time
        self.resends: PriorityQueue[ReadyMessage] = PriorityQueue()
        self.in_flight: dict[int, ReadyMessage] = {}  # sender → provider
        self.answered_at: dict[str | None, Instant] = {}  # When each provider responded last.
        self.outcomes: list[Outcome] = []  # builder, sender → settler
        self.releases: list[Claimed] = []  # any task → settler: to be claimed again at once
        self.deferrals: list[tuple[Claimed, Deferral]] = []  # any task → settler: to be claimed again later
        self.committing: list[Claimed] = []  # messages in the running commit
        # Each task of the worker waits for its event, and checks its condition again whenever the event is set.
        self.feed_event = asyncio.Event()  # Set when `admitted` shrinks, results are settled or messages arrive.
        self.build_event = asyncio.Event()  # Set when `admitted` grows or `ready` shrinks.
        # Set when a message is built or released, or when a provider responds or opens a connection.
        self.send_event = asyncio.Event()
        # The suspects that were claimed last. All are built before one is sent, because building causes most crashes.
        self.suspects: set[int] = set()
        self.is_stopping = False
        self.is_draining = False  # Stop as soon as nothing is due.
        self.is_feeding = True  # False once no more messages will be claimed.

    def is_idle(self) -> bool:
        return not self.in_flight and self.only_awaits_responses()

    def only_awaits_responses(self) -> bool:
        """Return whether all messages held are in flight."""
        built = self.ready or self.resends or self.pacing
        waiting = self.admitted or self.building or built or self.committing
        return not (waiting or self.outcomes or self.releases or self.deferrals)

    def holds_suspects(self) -> bool:
        return bool(self.suspects) and any(claimed.message_key in self.suspects for claimed in self.leased())

    def unanswered_since(self, provider: str) -> Instant | None:
        """Return the start of the provider's silence while messages are in flight; None if none is in flight."""
        started = [
            ready.attempted_at for ready in self.in_flight.values() if ready.provider == provider and ready.attempted_at
        ]
        return max(min(started), self.answered_at.get(provider, 0)) if started else None

    def leased(self) -> list[Claimed]:
        """List every message whose lease must be renewed, including results that are not written yet."""
        admitted = [message.claimed for message in (*self.admitted, *self.building)]
        unsent = (*self.ready, *self.resends, *self.pacing.waiting())
        built = [ready.claimed for ready in (*unsent, *self.in_flight.values())]
        settled = [outcome.claimed for outcome in self.outcomes]
        deferred = [claimed for claimed, _ in self.deferrals]
        return [*admitted, *built, *self.committing, *settled, *self.releases, *deferred]

    def has_results(self) -> bool:
        """Return whether the settler has something to write."""
        return bool(self.outcomes or self.releases or self.deferrals)

    @property
    def is_ready_to_send(self) -> bool:
        """Whether attempts may begin. They may not until all suspects are built."""
        if not self.suspects:
            return True
        return not any(message.claimed.message_key in self.suspects for message in (*self.admitted, *self.building))

    def wake_all(self) -> None:
        for event in (self.feed_event, self.build_event, self.send_event):
            event.set()


async def wait_and_clear(event: asyncio.Event, until: float | None = None) -> None:
    """Wait for an event, or until a time of the event loop's clock, and reset the event."""
    if not event.is_set():
        # A timer that sets the event takes a fraction of the time of `asyncio.timeout_at`.
        timer = None if until is None else asyncio.get_running_loop().call_at(until, event.set)
        try:
            await event.wait()
        finally:
            if timer is not None:
                timer.cancel()
    event.clear()


class Backoff:
    """Waits longer after each database failure, and logs it."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def reset(self) -> None:
        self._seconds = 0.0

    async def wait(self, error: NotDurable) -> None:
        self._seconds = min(max(0.1, self._seconds * 2), LONGEST_BACKOFF_SECONDS)
        log.warning("database_unavailable", error=str(error), retryInSeconds=self._seconds)
        await asyncio.sleep(self._seconds)
