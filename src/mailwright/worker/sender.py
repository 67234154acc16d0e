"""Begin attempts, hand the messages over to their providers and receive the responses."""

import asyncio
from dataclasses import replace
from functools import partial

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Outcome, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.results import ResultKind, SendResult
from mailwright.ops.logs import logger
from mailwright.outbox.settle import BegunAttempts
from mailwright.pipeline.conclude import ReadyMessage, conclude, excuse_provider, repeats_failure
from mailwright.providers.callbacks import provider_raised
from mailwright.providers.protocol import CallbackProvider, RetractingProvider, VariableCapacity
from mailwright.providers.route import RouteMember
from mailwright.worker.capacities import Capacities
from mailwright.worker.parts import WorkerParts, WorkerSettings
from mailwright.worker.queues import Backoff, Queues, wait_and_clear
from mailwright.worker.settler import ResultSettler

log = logger(__name__)

# A commit of a few results costs nearly as much as a commit of many. So while more than an eighth of the capacity is in
# flight, the next commit waits this long for more results. With a slow provider this costs almost nothing; with a fast
# one it saves most commits.
GATHER_MILLISECONDS = 4
GATHER_UNTIL = 8
# A message that exceeds a concurrency limit is deferred by this much.
OVER_LIMIT_PAUSE: Instant = 250
# A worker whose provider has another server or account now claims nothing for this long. A new worker replaces it soon.
REPLACED_PAUSE: Instant = 2 * SECOND
LOCK_EXPIRED = "LOCK_EXPIRED"


class Sender:
    def __init__(self, parts: WorkerParts, settings: WorkerSettings, queues: Queues, settler: ResultSettler) -> None:
        self._parts = parts
        self._settings = settings
        self._queues = queues
        self._settler = settler
        self._is_blocked = False  # Whether no provider has capacity for the ready messages.
        for member in parts.route.members:
            if isinstance(member.provider, VariableCapacity):
                member.provider.watch_capacity(queues.send_event.set)
            if isinstance(member.provider, RetractingProvider):
                member.provider.watch_retractions(partial(parts.retractions.record, member.name))
        self._callback_providers = {
            member.name: member.provider
            for member in parts.route.members
            if isinstance(member.provider, CallbackProvider)
        }

    async def run(self) -> None:
        """Send until nothing is left. After a stop, wait at most the shutdown grace for responses."""
        queues, backoff = self._queues, Backoff()
        end_at: float | None = None
        while True:
            if queues.is_stopping and end_at is None:
                end_at = asyncio.get_running_loop().time() + self._settings.shutdown_grace / 1000
            if queues.is_stopping or self._parts.route.deferral() is not None:
                self._settler.give_back_unsent()
            if not self._has_work():
                if self._is_finished(end_at):
                    return
                await wait_and_clear(queues.send_event, self._next_check(end_at))
                self._is_blocked = False
                continue
            try:
                await self._send_next()
                backoff.reset()
                await self._gather_results()
            except NotDurable as error:
                if self._is_finished(end_at):
                    return
                await backoff.wait(error)

    async def abandon(self) -> None:
        """Cancel the sends that outlasted the shutdown grace. Another worker will treat them as in doubt."""
        in_flight = self._queues.in_flight
        grace = SECOND if in_flight else 0
        handles = [ready.handle for ready in in_flight.values()]
        for handle in handles:
            if handle is not None:
                handle.cancel()
        futures = [handle for handle in handles if isinstance(handle, asyncio.Future)]
        await asyncio.gather(*futures, return_exceptions=True)
        await self._parts.route.close(grace)
        await self._parts.retractions.close()

    async def _send_next(self) -> None:
        if self._queues.pacing:
            await self._book_send_times()
        attempts = self._next_attempts()
        if not attempts and not self._queues.has_results():
            return
        begun = await self._settler.commit(attempts)
        if begun.is_account_replaced:
            self._settler.leave_to_others(attempts, begun.attempted_at + REPLACED_PAUSE)
            return
        if begun.reached_caps:
            attempts = await self._settler.apply_caps(attempts, begun, self._settings.lifetimes)
        for ready in attempts:
            self._start(ready, begun)

    async def _book_send_times(self) -> None:
        """Book send times for paced messages. Release the messages of lanes that get no send time."""
        for stranded in await self._queues.pacing.book():
            self._settler.give_back(ready.claimed for ready in stranded.messages)
            if stranded.is_kept_elsewhere:
                self._parts.claims.skip_lane(stranded.lane, stranded.until)
            else:
                self._parts.gate.skip_lane(self._parts.claims, stranded.lane, stranded.until)

    def _next_attempts(self) -> list[ReadyMessage]:
        """Choose the next messages and the provider of each, which is recorded with the attempt."""
        queues, route = self._queues, self._parts.route
        if self._can_resend():
            queues.ready.put_first([queues.resends.pop()])
        queues.ready.put_first(queues.pacing.due())
        in_flight, now = queues.in_flight.values(), self._parts.clock.now()
        capacities = Capacities(route.members, in_flight, self._settings.window, now)
        attempts: list[ReadyMessage] = []
        blocked: list[ReadyMessage] = []
        while queues.is_ready_to_send and capacities.has_room(queues.ready.next_priority):
            ready = queues.ready.pop()
            match self._choose(ready, capacities, now):
                case RouteMember() as member if capacities.take(member.name, ready.claimed.priority):
                    ready.member = member
                    ready.provider = member.name
                    attempts.append(ready)
                case RouteMember():
                    blocked.append(ready)
                case Deferral() as deferral:
                    self._settler.defer(ready.claimed, deferral)
        queues.ready.put_first(blocked)
        self._is_blocked = bool(queues.ready)
        return attempts

    def _choose(self, ready: ReadyMessage, capacities: Capacities, now: Instant) -> RouteMember | Deferral | None:
        """Choose the provider of a message. If the message may no longer be sent, release it and return None."""
        if self._parts.gate.is_still_open(ready.claimed, now):
            return self._parts.route.choose(ready.claimed, capacities.probing)
        self._settler.give_back_in_order(ready)
        return None

    def _can_resend(self) -> bool:
        """Return whether a resend may start. Resends start one at a time, because a resend may crash its worker."""
        in_flight = self._queues.in_flight
        if not self._queues.resends or len(in_flight) >= self._settings.window:
            return False
        return not any(ready.claimed.resends for ready in (*in_flight.values(), *self._queues.ready))

    def _start(self, ready: ReadyMessage, begun: BegunAttempts) -> None:
        """Send a message if its attempt has begun; otherwise defer or release it."""
        claimed, admitted = ready.claimed, ready.admitted
        if claimed.message_key in begun.over_limit and admitted.lane_limit is not None:
            self._settler.give_back_in_order(ready, begun.attempted_at + OVER_LIMIT_PAUSE)
            return
        if claimed.message_key in begun.over_limit:
            is_alone = ready.pacing is not None and ready.pacing.alone
            reason = DeferReason.ONE_AT_A_TIME if is_alone else DeferReason.TENANT_CONCURRENCY
            self._settler.defer(claimed, Deferral(begun.attempted_at + OVER_LIMIT_PAUSE, reason))
            return
        if claimed.message_key in begun.over_domain_limit:
            self._settler.defer(claimed, self._parts.gate.next_slot(admitted))
            return
        if claimed.lane in begun.held_lanes:
            # The campaign was paused or cancelled. Its other messages would be refused as well.
            self._settler.give_back([claimed])
            self._settler.give_back_lane(claimed.lane)
            return
        if claimed.message_key not in begun.message_keys:
            # The recipient has just unsubscribed, or the claim was lost. A released message is claimed and validated
            # again; if the claim was lost, the claim token makes the release harmless.
            self._settler.give_back([claimed])
            return
        self._parts.gate.spend(admitted)
        self._queues.in_flight[claimed.message_key] = ready
        if ready.pacing is None:
            self._hand_over(ready, begun.attempted_at)
        else:
            self._queues.pacing.begin(ready, partial(self._hand_over, ready), partial(self._miss_send_time, ready))

    def _miss_send_time(self, ready: ReadyMessage) -> None:
        del self._queues.in_flight[ready.claimed.message_key]
        self._settler.give_back_in_order(ready)
        self._settler.is_due_again = True

    def _hand_over(self, ready: ReadyMessage, attempted_at: Instant | None = None) -> bool:
        """Hand the message to its provider. Return False if a task will do it in the next loop iteration."""
        claimed, member = ready.claimed, ready.member
        assert member is not None
        self._settler.lane_give_backs.pop(claimed.lane, None)
        leased_until = self._parts.maintenance.renewed.get(claimed.message_key, claimed.leased_until)
        ready.begin(self._parts.clock.now() if attempted_at is None else attempted_at, leased_until)
        provider = self._callback_providers.get(member.name)
        if provider is not None:
            try:
                ready.handle = provider.send_with_callback(ready.outgoing, partial(self._receive, ready))
            except Exception as error:
                self._receive(ready, self._log_exception(ready, error))
            return True
        ready.handle = future = asyncio.ensure_future(member.provider.send(ready.outgoing))
        future.add_done_callback(partial(self._receive_future, ready))
        return False

    def _receive_future(self, ready: ReadyMessage, future: asyncio.Future[SendResult]) -> None:
        if future.cancelled():
            return  # The worker ends without a response, so the message will be treated as in doubt.
        error = future.exception()
        self._receive(ready, future.result() if error is None else self._log_exception(ready, error))

    def _receive(self, ready: ReadyMessage, result: SendResult) -> None:
        del self._queues.in_flight[ready.claimed.message_key]
        self._queues.pacing.end(ready)
        self._queues.answered_at[ready.provider] = now = self._parts.clock.now()
        ready.handle = None  # Break the reference cycle; otherwise the message stays in memory until collected.
        self._queues.send_event.set()
        if ready.provider is not None and result.provider != ready.provider:
            # Use the provider name that was recorded with the attempt, because messages in doubt are looked up by it.
            result = replace(result, provider=ready.provider)
        result = excuse_provider(ready, result)
        if result.code == LOCK_EXPIRED:
            self._settler.give_back([ready.claimed])
        else:
            self._queues.outcomes.append(self._conclude(ready, result, now))

    def _log_exception(self, ready: ReadyMessage, error: BaseException) -> SendResult:
        log.error("provider_raised", **ready.claimed.log_fields, error=repr(error), exc_info=error)
        return provider_raised(ready.provider or "", error)

    def _conclude(self, ready: ReadyMessage, result: SendResult, now: Instant) -> Outcome:
        route, claimed = self._parts.route, ready.claimed
        route.record(
            result,
            is_repeated=repeats_failure(claimed, result),
            attempted_at=ready.attempted_at,
            failed_before=claimed.outbox_id if claimed.has_failed else None,
        )
        if result.kind is ResultKind.SENT:
            return conclude(ready, result, now, deferred_until=now, doubt_until=now)
        outcome = conclude(
            ready,
            result,
            now,
            deferred_until=route.deferred_until(claimed, result.provider),
            doubt_until=now + (self._settings.doubt_grace if route.reports_events(result.provider) else 0),
            fails_over=route.fails_over(claimed, result.provider),
            probe_at=route.probe_at(result.provider),
            lifetimes=self._settings.lifetimes,
            max_attempts=self._settings.max_attempts,
        )
        self._settler.is_due_again |= isinstance(outcome, Settlement) and 0 < outcome.due_at <= now
        return outcome

    # Waiting.

    async def _gather_results(self) -> None:
        enough = self._carried() / GATHER_UNTIL
        for _ in range(GATHER_MILLISECONDS):
            if len(self._queues.in_flight) <= enough or self._queues.is_stopping:
                return
            await asyncio.sleep(0.001)

    def _next_check(self, end_at: float | None) -> float | None:
        """Return when the next paced message must begin its attempt, or when the shutdown grace ends."""
        pause = self._queues.pacing.pause_seconds()
        times = [] if pause is None else [asyncio.get_running_loop().time() + pause]
        return min([*times, *([] if end_at is None else [end_at])], default=None)

    def _has_work(self) -> bool:
        queues = self._queues
        can_begin = queues.ready and queues.is_ready_to_send and not self._is_blocked
        return bool(queues.has_results() or can_begin or self._can_resend() or queues.pacing.has_work())

    def _carried(self) -> int:
        """Return how many messages this worker can have in flight."""
        return min(self._settings.window, sum(member.provider.capacity for member in self._parts.route.members))

    def _is_finished(self, end_at: float | None) -> bool:
        if end_at is not None and asyncio.get_running_loop().time() >= end_at:
            return True
        return not self._queues.is_feeding and self._queues.is_idle()
