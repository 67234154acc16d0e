"""Validate, render and sign the admitted messages, one window ahead of the sender."""

import asyncio
import contextlib
from collections.abc import Sequence

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import RAW_BYTES, Admitted, Claimed, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.pipeline.conclude import ReadyMessage, fail_overdue
from mailwright.worker.parts import WorkerParts
from mailwright.worker.queues import Queues, wait_and_clear
from mailwright.worker.settler import ResultSettler

# Building blocks the event loop, so yield to it after this many messages.
BUILD_BATCH = 16
# Maximum memory for built messages, which are kept until they are handed over. Above it, the builder waits.
MAX_BUILT_BYTES = 64 * 1024 * 1024
# Smaller messages cannot fill this memory within one window, so their sizes are not counted.
LARGE_BYTES = 256 * 1024
# Resends that do not fit into the queue are deferred by this much.
RESEND_PAUSE: Instant = SECOND


class Builder:
    def __init__(self, parts: WorkerParts, window: int, queues: Queues, settler: ResultSettler) -> None:
        self._parts = parts
        self._window = window
        self._queues = queues
        self._settler = settler
        self._has_large = False  # Whether a large message was built since the sizes were last summed.

    async def run(self) -> None:
        """Build messages at most one window ahead: they are large, and recent ones are still in the CPU cache."""
        queues, admitted = self._queues, self._queues.admitted
        while queues.is_feeding or admitted:
            priority = admitted.next_priority
            if priority is None or (queues.is_ready_to_send and self._has_enough(priority)):
                await wait_and_clear(queues.build_event)
                continue
            queues.building = admitted.pop_up_to(BUILD_BATCH)
            await self._build(queues.building)
            queues.building = []
            queues.send_event.set()
            queues.feed_event.set()
            await asyncio.sleep(0)

    async def _build(self, batch: list[Admitted]) -> None:
        """Build the messages of a batch, or as many as memory allows; the others return to the queue."""
        now, composer = self._parts.clock.now(), self._parts.composer
        built: list[ReadyMessage] = []
        rejected: list[Claimed] = []
        if not await self._load_raw([one.claimed for one in batch if _raw_bytes(one) <= LARGE_BYTES]):
            self._settler.give_back(one.claimed for one in batch)
            return
        for number, admitted in enumerate(batch, 1):
            if _raw_bytes(admitted) > LARGE_BYTES and not await self._load_raw([admitted.claimed]):
                self._settler.give_back([admitted.claimed])
                continue
            match self._overdue(admitted.claimed, now) or composer.prepare(admitted, now):
                case ReadyMessage() as ready:
                    built.append(ready)
                    if len(ready.outgoing.content) > LARGE_BYTES:
                        self._has_large = True
                        if self._is_full(admitted.claimed.priority, built):
                            self._queues.admitted.put_first(batch[number:])
                            del batch[number:]
                case Settlement() as settlement:
                    self._queues.outcomes.append(settlement)
                    rejected.append(admitted.claimed)
        for ready in await composer.sign(built, now):
            self._enqueue(ready, now)
        with contextlib.suppress(NotDurable):  # Lost permits only lower a limit.
            await self._parts.gate.give_back(rejected)

    def _overdue(self, claimed: Claimed, now: Instant) -> Settlement | None:
        """Return the failure of a message whose send time passed long ago while no worker ran."""
        if not self._parts.absence.has_missed(claimed):
            return None
        self._parts.composer.forget([claimed])
        return fail_overdue(claimed, now)

    async def _load_raw(self, batch: Sequence[Claimed]) -> bool:
        """Load the raw emails of a batch. Return False if the database is not reachable."""
        try:
            await self._parts.composer.load_raw(batch)
        except NotDurable:
            return False
        return True

    def _has_enough(self, priority: int) -> bool:
        """Return whether to wait until messages are sent. Never wait while the sender needs all suspects built."""
        return self._queues.ready.count_up_to(priority) >= self._window or self._is_full(priority)

    def _is_full(self, priority: int, building: Sequence[ReadyMessage] = ()) -> bool:
        """Return whether the memory is filled by built messages of this or a higher priority."""
        queues = self._queues
        if not self._has_large or queues.suspects:  # Suspects are sent only when all of them are built.
            return False
        built = (*building, *queues.ready, *queues.resends, *queues.pacing.waiting(), *queues.in_flight.values())
        sizes = [len(ready.outgoing.content) for ready in built if ready.claimed.priority <= priority]
        self._has_large = max(sizes, default=0) > LARGE_BYTES
        return sum(sizes) >= MAX_BUILT_BYTES

    def _enqueue(self, ready: ReadyMessage, now: Instant) -> None:
        queues = self._queues
        if ready.pacing is not None:
            queues.pacing.add(ready)
        elif not ready.claimed.resends:
            queues.ready.append(ready)
        elif len(queues.resends) < self._window:
            queues.resends.append(ready)
        else:
            self._settler.defer(ready.claimed, Deferral(now + RESEND_PAUSE, DeferReason.RESEND_TURN))


def _raw_bytes(admitted: Admitted) -> int:
    """Return the size of a raw email in bytes; 0 for any other message."""
    claimed = admitted.claimed
    return int(claimed.payload.get(RAW_BYTES, 0)) if claimed.content_digest is not None else 0
