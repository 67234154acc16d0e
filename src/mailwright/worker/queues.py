"""The queues between the tasks of a worker."""

import asyncio
import contextlib
from collections import deque

from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Admitted, Claimed, Outcome
from mailwright.domain.permits import Deferral
from mailwright.ops.logs import logger
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.worker.pacing import Pacing

log = logger(__name__)

LONGEST_BACKOFF_SECONDS = 5.0


class Queues:
    """Every message that a worker holds is in exactly one of these queues, or waits for its send time in `pacing`."""

    def __init__(self, pacing: Pacing) -> None:
        self.pacing = pacing  # builder → sender: messages that wait for a send time
        self.admitted: deque[Admitted] = deque()  # feeder → builder
        self.building: list[Admitted] = []
        self.ready: deque[ReadyMessage] = deque()  # builder → sender
        self.resends: deque[ReadyMessage] = deque()  # builder → sender: messages that were in doubt, sent one at a time
        self.in_flight: dict[int, ReadyMessage] = {}  # sender → provider
        self.answered_at: dict[str | None, Instant] = {}  # When each provider responded last.
        self.outcomes: list[Outcome] = []  # builder, sender → settler
        self.releases: list[Claimed] = []  # any task → settler: to be claimed again at once
        self.deferrals: list[tuple[Claimed, Deferral]] = []  # any task → settler: to be claimed again later
        self.committing: list[Claimed] = []  # messages in the running commit
        # Each task of the worker waits for its event, and checks its condition again whenever the event is set.
        self.feed_event = asyncio.Event()  # Set when `admitted` shrinks or results are settled.
        self.build_event = asyncio.Event()  # Set when `admitted` grows or `ready` shrinks.
        self.send_event = asyncio.Event()  # Set when a message is built or given back, or its provider responds.
        self.is_stopping = False
        self.is_draining = False  # Stop as soon as nothing is due.
        self.is_feeding = True  # False once no more messages will be claimed.

    def is_idle(self) -> bool:
        built = self.ready or self.resends or self.pacing
        waiting = self.admitted or self.building or built or self.committing
        return not (waiting or self.in_flight or self.outcomes or self.releases or self.deferrals)

    def unanswered_since(self, provider: str) -> Instant | None:
        """Return since when the provider's messages in flight got no response; None if none is in flight."""
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

    def wake_all(self) -> None:
        for event in (self.feed_event, self.build_event, self.send_event):
            event.set()


async def wait_and_clear(event: asyncio.Event, until: float | None = None) -> None:
    """Wait for an event, or until a time of the event loop's clock, and reset the event."""
    if until is None:
        await event.wait()
    else:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await event.wait()
    event.clear()


class Backoff:
    """Wait longer after each failure of the database, and log it."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def reset(self) -> None:
        self._seconds = 0.0

    async def wait(self, error: NotDurable) -> None:
        self._seconds = min(max(0.1, self._seconds * 2), LONGEST_BACKOFF_SECONDS)
        log.warning("database_unavailable", error=str(error), retryInSeconds=self._seconds)
        await asyncio.sleep(self._seconds)
