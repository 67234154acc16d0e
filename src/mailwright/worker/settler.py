"""Record results, begin the next attempts in the same commit, and release messages that are not sent."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.frequency import cap_reason
from mailwright.domain.lifetimes import Lifetimes
from mailwright.domain.message import Claimed, Delivered, Outcome
from mailwright.domain.permits import Deferral
from mailwright.ops import tracing
from mailwright.outbox.settle import BegunAttempts
from mailwright.pipeline.conclude import ReadyMessage, fail_validation
from mailwright.pipeline.validate import over_frequency_cap
from mailwright.worker.parts import WorkerParts
from mailwright.worker.queues import Queues
from mailwright.worker.report_outcomes import report_outcomes

# A draining worker stops waiting for a lane that was released this often without a send.
MAX_GIVE_BACKS = 8


class ResultSettler:
    def __init__(self, parts: WorkerParts, queues: Queues, *, logs_sent: bool = True) -> None:
        self._parts = parts
        self._queues = queues
        self._is_traced = tracing.is_on()
        self._logs_sent = logs_sent
        self._recent: deque[tuple[Instant, int]] = deque()  # Time and number of the results in the last second.
        self._settled_recently = 0
        self.sent_by_provider: Counter[str] = Counter()
        # True if a message is due again at once, because another provider may send it or it missed its send time.
        self.is_due_again = False
        self.deferred_until: Instant = 0  # The latest time that this worker deferred a message to.
        self.lane_give_backs: Counter[int] = Counter()  # How often each lane was released since its last send.

    # Results.

    async def commit(self, attempts: Sequence[ReadyMessage]) -> BegunAttempts:
        """Settle all results and begin these attempts in one transaction. Only the returned attempts may be sent."""
        queues = self._queues
        outcomes = list(queues.outcomes)
        queues.outcomes.clear()
        queues.committing = [*(outcome.claimed for outcome in outcomes), *(attempt.claimed for attempt in attempts)]
        try:
            if queues.releases or queues.deferrals:
                await self._return_messages()
            begun = await self._exchange(outcomes, attempts)
        except BaseException:
            # It is unknown whether the commit succeeded. Write the results again; the claim token makes this harmless.
            # Release the attempts, which may have begun but were not handed over.
            queues.outcomes[:0] = outcomes
            self.give_back(attempt.claimed for attempt in attempts)
            raise
        finally:
            queues.committing = []
            # The queue of ready messages has shrunk even after a failure.
            queues.feed_event.set()
            queues.build_event.set()
        if self.is_due_again and not self._queues.is_draining:
            self.is_due_again = False
            self._parts.wake.set()
        self._report(outcomes)
        return begun

    async def _exchange(self, outcomes: Sequence[Outcome], attempts: Sequence[ReadyMessage]) -> BegunAttempts:
        settling, recorder = self._parts.settling, self._parts.recorder
        if recorder is None:
            return await settling.exchange(outcomes, attempts)
        recorder.settle(outcomes)
        recorder.begin(attempts, self._parts.clock.now())
        begun: Collection[int] = ()
        try:
            exchanged = await settling.exchange(outcomes, attempts)
            begun = exchanged.message_keys
        finally:
            # After an error none of them is handed over, even if the commit succeeded.
            if len(begun) < len(attempts):
                keys = (attempt.claimed.message_key for attempt in attempts)
                recorder.withdraw(key for key in keys if key not in begun)
        return exchanged

    def settled_per_second(self) -> int:
        now = self._parts.clock.now()
        while self._recent and self._recent[0][0] < now - SECOND:
            self._settled_recently -= self._recent.popleft()[1]
        return self._settled_recently

    def _report(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            now = self._parts.clock.now()
            self._recent.append((now, len(outcomes)))
            self._settled_recently += len(outcomes)
            self.sent_by_provider.update(outcome.provider for outcome in outcomes if isinstance(outcome, Delivered))
            report_outcomes(outcomes, logs_sent=self._logs_sent)
            if self._is_traced:
                tracing.record(outcomes, now)

    # Messages that this worker does not send.

    def give_back(self, messages: Iterable[Claimed]) -> None:
        """Release messages so that any worker can claim them at once."""
        released = list(messages)
        if released:
            for claimed in released:
                self._queues.pacing.drop(claimed)
            self._parts.composer.forget(released)
            self._queues.releases += released
            self._queues.send_event.set()

    def give_back_in_order(self, ready: ReadyMessage, until: Instant | None = None) -> None:
        """Release a message. If its lane sends in order, also release the later messages to keep the order."""
        self.give_back([ready.claimed])
        if ready.admitted.lane_limit is None:
            return
        lane = ready.claimed.lane
        self.give_back_lane(lane)
        if until is not None:
            self._parts.claims.skip_lane(lane, until)
            self.lane_give_backs[lane] += 1
            # A draining worker waits for a short deferral, but not for another worker's lease, which may last long.
            if self.lane_give_backs[lane] <= MAX_GIVE_BACKS:
                self.deferred_until = max(self.deferred_until, until)

    def give_back_lane(self, lane: int) -> None:
        """Release every message of a lane whose attempt has not begun."""
        queues = self._queues
        self.give_back(ready.claimed for ready in (*queues.pacing.clear_lane(lane), *queues.ready.clear_lane(lane)))
        self.give_back(message.claimed for message in queues.admitted.clear_lane(lane))

    def defer(self, claimed: Claimed, deferral: Deferral) -> None:
        """Defer this message alone; the rest of its lane continues."""
        self._queues.pacing.drop(claimed)
        self.deferred_until = max(self.deferred_until, deferral.until)
        self._queues.deferrals.append((claimed, deferral))
        self._queues.send_event.set()

    async def apply_caps(
        self, attempts: Sequence[ReadyMessage], begun: BegunAttempts, lifetimes: Lifetimes
    ) -> list[ReadyMessage]:
        """Defer messages over a frequency cap, or fail those that would be sent after their lifetime."""
        now, dropped = begun.attempted_at, []
        for ready in attempts:
            claimed = ready.claimed
            if (reached := begun.reached_caps.get(claimed.message_key)) is None:
                continue
            ends_at = lifetimes.end_of(claimed, now)
            if reached.until <= ends_at:
                self.defer(claimed, Deferral(reached.until, cap_reason(reached.cap), give_up_at=ends_at))
            else:
                self._queues.pacing.drop(claimed)
                self._queues.outcomes.append(fail_validation(claimed, over_frequency_cap(reached), now))
                dropped.append(claimed)
        await self._parts.gate.give_back(dropped)
        return [ready for ready in attempts if ready.claimed.message_key not in begun.reached_caps]

    def give_back_unsent(self) -> None:
        """Release every message whose attempt has not begun."""
        queues = self._queues
        built = (*queues.ready.clear(), *queues.resends.clear(), *queues.pacing.clear())
        self.give_back(ready.claimed for ready in built)
        self.give_back(message.claimed for message in queues.admitted.clear())

    def leave_to_others(self, attempts: Sequence[ReadyMessage], until: Instant) -> None:
        """Release all messages, and leave these lanes to the worker that replaces this one."""
        for lane in {ready.claimed.lane for ready in (*attempts, *self._queues.ready)}:
            self._parts.claims.skip_lane(lane, until)
        self.give_back(ready.claimed for ready in attempts)
        self.give_back_unsent()

    async def _return_messages(self) -> None:
        queues, gate = self._queues, self._parts.gate
        releases, deferrals = list(queues.releases), list(queues.deferrals)
        await gate.give_back(releases)  # Only a claimed message has permits.
        await self._parts.claims.release(releases)
        await gate.defer(deferrals)
        del queues.releases[: len(releases)]
        del queues.deferrals[: len(deferrals)]
