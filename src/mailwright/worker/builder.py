"""Validate, render and sign the admitted messages, one window ahead of the sender."""

import asyncio
import contextlib
from collections.abc import Sequence

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Admitted, Claimed, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.worker.parts import WorkerParts
from mailwright.worker.queues import Queues, wait_and_clear
from mailwright.worker.settler import ResultSettler

# Building blocks the event loop, so yield to it after this many messages.
BUILD_BATCH = 16
# Resends that exceed the queue are deferred by this much.
RESEND_PAUSE: Instant = SECOND


class Builder:
    def __init__(self, parts: WorkerParts, window: int, queues: Queues, settler: ResultSettler) -> None:
        self._parts = parts
        self._window = window
        self._queues = queues
        self._settler = settler

    async def run(self) -> None:
        """Build messages, one window ahead: they are large, and recently built ones are still in the CPU cache."""
        queues, admitted, ready = self._queues, self._queues.admitted, self._queues.ready
        while queues.is_feeding or admitted:
            priority = admitted.next_priority
            if priority is None or ready.count_up_to(priority) >= self._window:
                await wait_and_clear(queues.build_event)
                continue
            queues.building = [admitted.pop() for _ in range(min(BUILD_BATCH, admitted.count_up_to(priority)))]
            await self._build(queues.building)
            queues.building = []
            queues.send_event.set()
            queues.feed_event.set()
            await asyncio.sleep(0)

    async def _build(self, batch: Sequence[Admitted]) -> None:
        now, composer = self._parts.clock.now(), self._parts.composer
        built: list[ReadyMessage] = []
        rejected: list[Claimed] = []
        for admitted in batch:
            match composer.prepare(admitted, now):
                case ReadyMessage() as ready:
                    built.append(ready)
                case Settlement() as settlement:
                    self._queues.outcomes.append(settlement)
                    rejected.append(admitted.claimed)
        for ready in await composer.sign(built, now):
            self._enqueue(ready, now)
        with contextlib.suppress(NotDurable):  # Lost permits lower a limit and never exceed it.
            await self._parts.gate.give_back(rejected)

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
