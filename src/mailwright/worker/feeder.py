"""Claim due messages and pass those that the gate admits to the builder."""

import asyncio
from collections.abc import Sequence

from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Claimed
from mailwright.domain.states import Priority
from mailwright.worker.capacities import find_probing
from mailwright.worker.parts import WorkerParts, WorkerSettings
from mailwright.worker.queues import Backoff, Queues, wait_and_clear
from mailwright.worker.settler import ResultSettler

# The maximum size of one claim. On SQLite, the next commit of results waits for the claim to end.
CLAIM_BATCH = 100
# Of this many messages, one that has not failed before probes a provider that was down.
PROBE_CANDIDATES = 10
# The minimum interval between claims of transactional messages while bulk messages fill the queues.
SECONDS_BETWEEN_URGENT_CLAIMS = 0.05
# The interval between claims while the next campaign waits for the last messages of the one before it.
SECONDS_BETWEEN_TURNS = 0.05
# Before suspects are built, the worker waits this long for messages in flight, because a crash would leave these in
# doubt.
SECONDS_TO_FINISH_OTHERS = 2.0


class Feeder:
    def __init__(self, parts: WorkerParts, settings: WorkerSettings, queues: Queues, settler: ResultSettler) -> None:
        self._parts = parts
        self._settings = settings
        self._queues = queues
        self._settler = settler
        self._is_woken = False  # Whether messages may have arrived since the last claim.
        self._claimed_at = 0.0  # When this worker last looked for due messages, by the event loop's clock.

    async def run(self) -> None:
        """Claim until the worker stops; a draining worker ends when nothing is due."""
        with self._parts.wake.listening(self._note_arrival):
            try:
                await self._run()
            finally:
                self._queues.is_feeding = False
                self._queues.wake_all()

    async def _run(self) -> None:
        queues, backoff = self._queues, Backoff()
        while not queues.is_stopping:
            was_idle = queues.is_idle()
            try:
                await self._parts.absence.record()
                if await self._claim_more():
                    backoff.reset()
                elif not queues.is_draining and self._parts.claims.is_turn_awaited:
                    await self._wait_for_event(min(SECONDS_BETWEEN_TURNS, self._settings.poll_seconds))
                elif not queues.is_draining:
                    await self._parts.wake.wait(self._settings.poll_seconds)
                elif not queues.is_idle():
                    await wait_and_clear(queues.feed_event)
                elif not was_idle:
                    continue  # A result may have made other messages due after the claim began.
                elif not await self._is_more_due() and not await self._wait_for_own_deferrals():
                    return
            except NotDurable as error:
                await backoff.wait(error)

    def _note_arrival(self) -> None:
        self._is_woken = True
        self._queues.feed_event.set()

    async def _claim_more(self) -> bool:
        """Claim one batch, or wait until the builder needs more; return False if nothing was due."""
        if self._parts.route.deferral() is not None:
            return False
        if self._parts.maintenance.has_suspects or self._queues.suspects:
            return await self._claim_suspects()
        admitted, target = self._queues.admitted, self._target()
        if target == 0:
            await self._wait_for_event(self._settings.poll_seconds)
            return True
        # Claim only when half of the messages are used up, because claiming many costs little more than claiming one.
        if len(admitted) * 2 <= target:
            return await self._admit(await self._claim_next(min(target - len(admitted), CLAIM_BATCH)))
        await self._claim_urgent_or_wait(target)
        return True

    async def _claim_next(self, limit: int) -> list[Claimed]:
        """Claim messages; to probe a provider, only one. A message that failed before may be the cause itself."""
        if not self._parts.route.is_probing:
            return await self._claim(limit)
        candidates = await self._claim(PROBE_CANDIDATES)
        probe = next((each for each in candidates if not each.has_failed), None) or next(iter(candidates), None)
        self._settler.give_back(each for each in candidates if each is not probe)
        return [] if probe is None else [probe]

    async def _claim(self, limit: int, before: int | None = None) -> list[Claimed]:
        self._is_woken = False
        self._claimed_at = asyncio.get_running_loop().time()
        return await self._parts.claims.claim(limit, before)

    async def _claim_urgent_or_wait(self, target: int) -> None:
        """Claim transactional messages, which overtake the bulk messages that fill the queue, or wait."""
        urgent = self._queues.admitted.count_up_to(Priority.BULK - 1)
        if urgent * 2 > target:
            await wait_and_clear(self._queues.feed_event)
            return
        pause = SECONDS_BETWEEN_URGENT_CLAIMS if self._is_woken else self._settings.poll_seconds
        due_at = self._claimed_at + pause
        if asyncio.get_running_loop().time() < due_at:
            await wait_and_clear(self._queues.feed_event, due_at)
        else:
            await self._admit(await self._claim(min(target - urgent, CLAIM_BATCH), before=Priority.BULK))

    async def _claim_suspects(self) -> bool:
        """Claim messages that may have crashed their worker separately, so that a crash affects few other messages."""
        queues = self._queues
        if not queues.suspects:
            await self._finish_others()
        elif queues.holds_suspects():
            await self._wait_for_suspects()
            return True
        # Claim at most one window, because all of them are built before the first one is sent.
        suspects = await self._parts.claims.claim_suspects(min(self._settings.claim_batch, self._settings.window))
        queues.suspects = {claimed.message_key for claimed in suspects}
        self._parts.maintenance.has_suspects = bool(suspects)
        return await self._admit(suspects)

    async def _finish_others(self) -> None:
        """Release the messages that are not in flight, and wait for the others, but not long for a hanging provider."""
        queues, end_at = self._queues, asyncio.get_running_loop().time() + SECONDS_TO_FINISH_OTHERS
        while not queues.is_idle() and not queues.is_stopping and asyncio.get_running_loop().time() < end_at:
            self._settler.give_back_unsent()
            await wait_and_clear(queues.feed_event, end_at)

    async def _wait_for_suspects(self) -> None:
        """Wait until the suspects are done. Once they are built, transactional messages are sent as well."""
        if self._queues.is_ready_to_send:
            await self._claim_urgent_or_wait(self._settings.window)
        else:
            await wait_and_clear(self._queues.feed_event)

    async def _wait_for_event(self, seconds: float) -> None:
        await wait_and_clear(self._queues.feed_event, asyncio.get_running_loop().time() + seconds)

    async def _admit(self, batch: Sequence[Claimed]) -> bool:
        if not batch:
            return False
        if self._queues.is_stopping:
            self._settler.give_back(batch)
            return True
        try:
            admitted = await self._parts.gate.admit(self._parts.claims, batch)
            await self._parts.composer.load_inputs([message.claimed for message in admitted])
        except NotDurable:
            self._settler.give_back(batch)
            raise
        self._queues.admitted.extend(admitted)
        self._queues.build_event.set()
        return bool(admitted) or self._parts.gate.has_deferred

    def _target(self) -> int:
        """Return how many messages to claim ahead: half a second of work, so that a password reset waits briefly."""
        settings, queues, route = self._settings, self._queues, self._parts.route
        if route.is_probing:
            has_probe = find_probing(route.members, queues.in_flight.values(), self._parts.clock.now())
            return 1 if queues.only_awaits_responses() and not has_probe else 0
        return max(settings.window, min(settings.claim_batch, self._settler.settled_per_second() // 2))

    async def _is_more_due(self) -> bool:
        """Check crashed workers, messages in doubt and the sources again before a draining worker ends."""
        maintenance, duties, settler = self._parts.maintenance, self._parts.source_duties, self._settler
        await maintenance.recover_lost_work()
        await duties.run_once()
        did_work, duties.did_work = duties.did_work, False
        has_decided, maintenance.has_decided = maintenance.has_decided, False
        is_due_again, settler.is_due_again = settler.is_due_again, False
        is_open = self._parts.route.deferral() is None
        return is_open and (has_decided or is_due_again or maintenance.has_suspects or did_work)

    async def _wait_for_own_deferrals(self) -> bool:
        """Wait for messages that this worker deferred briefly. A draining worker does not wait for longer deferrals."""
        gate, settler = self._parts.gate, self._settler
        pause = max(settler.deferred_until, gate.deferred_until) - self._parts.clock.now()
        settler.deferred_until = gate.deferred_until = 0
        if not 0 < pause <= self._settings.drain_wait:
            return False
        await asyncio.sleep(pause / 1000)
        return True
