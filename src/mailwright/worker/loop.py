"""The worker: keeps a small stock of claimed messages, marks a window of them, sends those, and settles.

Five things run side by side. `_feed` claims and asks the gate. `_build` makes the mails, a window ahead of need.
`_pump` is the heart: each turn is one commit that settles what is done and marks what goes next, so at most one window
of mails is ever in doubt. `_keep` renews locks, takes over from the dead and decides doubts. `_conduct` sees to it that
campaigns become messages.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.message import Claimed, Delivered, Outcome, Settlement
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.results import ResultKind, SendResult
from mailwright.ops import metrics, tracing
from mailwright.ops.logs import logger
from mailwright.outbox.claim import Claims
from mailwright.outbox.settle import BegunAttempts, Settler
from mailwright.outbox.workers import WorkerPresence
from mailwright.pipeline.compose import Composer
from mailwright.pipeline.conclude import ReadyMessage, conclude, excuse_provider
from mailwright.providers.callbacks import provider_raised
from mailwright.providers.protocol import CallbackProvider
from mailwright.providers.route import Route, RouteMember
from mailwright.worker.announce import announce
from mailwright.worker.gate import Gate
from mailwright.worker.maintenance import Maintenance
from mailwright.worker.pacing import Pacing
from mailwright.worker.source_duties import SourceDuty
from mailwright.worker.wake import Wake

log = logger(__name__)

# Building mails is pure computing: after so many, the event loop gets to serve its connections.
BUILD_STRIDE = 16
# One claim takes no more than this: on SQLite the next settle waits for it.
CLAIM_STRIDE = 100
LONGEST_BACKOFF_SECONDS = 5.0
# A commit for a few answers costs nearly as much as one for many. While most of the window is under way, the next turn
# waits so many milliseconds for more of them: it costs a slow provider next to nothing, and a fast one a third fewer
# commits.
GATHER_MILLISECONDS = 4
# A tenant at its limit of mails under way is looked at again after this.
OVER_LIMIT_PAUSE: Instant = 250
# More resends than a worker keeps for their turn are looked at again after this.
RESEND_PAUSE: Instant = SECOND
# A lane that stood back so often in a row waits for somebody else.
MOST_STOOD_BACK = 8
LOCK_EXPIRED = "LOCK_EXPIRED"
LONGEST_PAUSE_TO_OUTWAIT: Instant = 2 * SECOND


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How much a worker takes on. The window bounds what a crash can leave in doubt."""

    window: int = 64
    claim_batch: int = 500  # the most that is held ahead of need
    poll_seconds: float = 0.5
    keep_seconds: float = 1.0
    conduct_seconds: float = 1.0
    shutdown_grace: Instant = 30 * SECOND
    doubt_grace: Instant = 0  # how long a provider's own report may take to come


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What a worker is made of; `app` puts it together."""

    clock: Clock
    claims: Claims
    settling: Settler
    composer: Composer
    gate: Gate
    route: Route
    maintenance: Maintenance
    source_duties: SourceDuty
    wake: Wake
    pacing: Pacing


class Worker:
    def __init__(self, parts: WorkerParts, pace: WorkerSettings) -> None:
        self._parts = parts
        self._pace = pace
        self._backlog: deque[Claimed] = deque()  # claimed and admitted
        self._stock: deque[ReadyMessage] = deque()  # validated and built
        self._resends: deque[ReadyMessage] = deque()  # as well, and in doubt before: they go one at a time
        self._building: list[Claimed] = []
        self._exchanging: list[Claimed] = []  # part of the commit that is under way
        self._in_flight: dict[int, ReadyMessage] = {}
        self._done: list[Outcome] = []
        self._to_release: list[Claimed] = []
        self._to_defer: list[tuple[Claimed, Deferral]] = []
        self._carriers = {
            member.name: member.provider
            for member in parts.route.members
            if isinstance(member.provider, CallbackProvider)
        }
        # One for each of the three that wait: what each waits for is looked at again whenever its event is set.
        self._feed_event = asyncio.Event()  # the backlog shrank, or something was settled
        self._build_event = asyncio.Event()  # the backlog grew, or the stock shrank
        self._pump_event = asyncio.Event()  # something was built, answered or given back
        self._stopping = False
        self._until_idle = False
        self._is_traced = tracing.is_on()
        self._is_feeding = True
        self._recent: deque[tuple[Instant, int]] = deque()
        self._settled_lately = 0
        self._taken: Counter[str] = Counter()  # by each provider
        self._is_due_again = False  # something was settled and is due at once, as another provider takes it
        self._conducting = asyncio.Lock()
        self._has_conducted = False  # something was done for campaigns, so that there may be mail
        self._stood_back: Counter[int] = Counter()  # how often lanes did, since the last of their mails began
        self._paused_until: Instant = 0  # the latest moment that this worker put something off to

    async def run(self, *, drain: bool = False) -> None:
        """Works until it is stopped; with `drain`, until nothing is due."""
        self._until_idle = drain
        try:
            async with asyncio.TaskGroup() as tasks:
                # Should this one break, the worker ends: without renewed locks others would take over what it sends.
                keeping = tasks.create_task(self._keep(), name="keep")
                conducting = tasks.create_task(self._conduct(), name="conduct")
                async with asyncio.TaskGroup() as work:
                    work.create_task(self._feed(), name="feed")
                    work.create_task(self._build(), name="build")
                    work.create_task(self._pump(), name="pump")
                keeping.cancel()
                conducting.cancel()
        finally:
            await self._abandon()
            with contextlib.suppress(NotDurable):
                await self._parts.maintenance.leave()

    def stop(self) -> None:
        """No claim after this; what is in flight finishes, what was not started is given back."""
        self._stopping = True
        self._wake_all()
        self._parts.wake.set()

    # Feeding: claim, gate.

    async def _feed(self) -> None:
        backoff = Backoff()
        try:
            while not self._stopping:
                try:
                    if await self._take_more():
                        backoff.reset()
                    elif not self._until_idle:
                        await self._parts.wake.wait(self._pace.poll_seconds)
                    elif not self._is_idle():
                        await _next(self._feed_event)
                    elif not await self._is_more_due() and not await self._outwait_own_pauses():
                        return
                except NotDurable as error:
                    await backoff.wait(error)
        finally:
            self._is_feeding = False
            self._wake_all()

    async def _outwait_own_pauses(self) -> bool:
        """What this worker put off for a moment is looked at once more before it leaves; longer holds are not."""
        pause = max(self._paused_until, self._parts.gate.deferred_until) - self._parts.clock.now()
        self._paused_until = self._parts.gate.deferred_until = 0
        if not 0 < pause <= LONGEST_PAUSE_TO_OUTWAIT:
            return False
        await asyncio.sleep(pause / 1000)
        return True

    async def _take_more(self) -> bool:
        """One claim, or a wait for the backlog to shrink; false when nothing was due."""
        if self._parts.route.deferral() is not None:
            return False
        if self._parts.maintenance.suspects_wait:
            return await self._take_suspects()
        target = self._backlog_target()
        # Not before half of it is gone: a claim of many costs little more than a claim of one.
        if len(self._backlog) * 2 > target or target == 0:
            await _next(self._feed_event)
            return True
        return await self._admit(await self._parts.claims.claim(min(target - len(self._backlog), CLAIM_STRIDE)))

    async def _take_suspects(self) -> bool:
        """Messages that may have killed their worker are handled alone, so that they take nobody with them."""
        while not self._is_idle() and not self._stopping:
            await _next(self._feed_event)
        suspects = await self._parts.claims.claim_suspects(self._pace.claim_batch)
        self._parts.maintenance.suspects_wait = bool(suspects)
        return await self._admit(suspects)

    async def _is_more_due(self) -> bool:
        """Before a drained worker leaves: what the dead left behind, doubts whose time has come, campaigns to walk."""
        maintenance = self._parts.maintenance
        await maintenance.look_after_the_dead()
        await self._conduct_once()
        has_conducted, self._has_conducted = self._has_conducted, False
        has_decided, maintenance.has_decided = maintenance.has_decided, False
        is_due_again, self._is_due_again = self._is_due_again, False
        is_open = self._parts.route.deferral() is None
        return is_open and (has_decided or is_due_again or maintenance.suspects_wait or has_conducted)

    async def _admit(self, batch: Sequence[Claimed]) -> bool:
        if not batch:
            return False
        if self._stopping:
            self._give_back(batch)
            return True
        try:
            admitted = await self._parts.gate.admit(self._parts.claims, batch)
            await self._parts.composer.look_up(admitted)
        except NotDurable:
            self._give_back(batch)
            raise
        self._backlog.extend(admitted)
        self._build_event.set()
        return bool(admitted) or self._parts.gate.has_put_off

    def _backlog_target(self) -> int:
        """About half a second of work: a password reset must not wait behind a long row of newsletters."""
        if self._parts.route.is_probing:
            return 1 if self._is_idle() else 0
        return max(self._pace.window, min(self._pace.claim_batch, self._per_second() // 2))

    def _per_second(self) -> int:
        now = self._parts.clock.now()
        while self._recent and self._recent[0][0] < now - SECOND:
            self._settled_lately -= self._recent.popleft()[1]
        return self._settled_lately

    # Building: validate, render, sign.

    async def _build(self) -> None:
        """Only a window ahead: built mails are large, and what stays in the processor's cache is sent sooner."""
        while self._is_feeding or self._backlog:
            if not self._backlog or len(self._stock) >= self._pace.window:
                await _next(self._build_event)
                continue
            batch = [self._backlog.popleft() for _ in range(min(BUILD_STRIDE, len(self._backlog)))]
            self._building = batch
            await self._prepare(batch)
            self._building = []
            self._pump_event.set()
            self._feed_event.set()
            await asyncio.sleep(0)

    async def _prepare(self, batch: Sequence[Claimed]) -> None:
        now = self._parts.clock.now()
        ready: list[ReadyMessage] = []
        refused: list[Claimed] = []
        for claimed in batch:
            match self._parts.composer.prepare(claimed, now):
                case ReadyMessage() as built:
                    ready.append(built)
                case Settlement() as refusal:
                    self._done.append(refusal)
                    refused.append(claimed)
        for built in await self._parts.composer.sign(ready, now):
            if built.claimed.paced is not None:
                self._parts.pacing.add(built)
            elif not built.claimed.resends:
                self._stock.append(built)
            elif len(self._resends) < self._pace.window:
                self._resends.append(built)
            else:
                self._put_off(built.claimed, Deferral(now + RESEND_PAUSE, DeferReason.RESEND_TURN))
        with contextlib.suppress(NotDurable):  # permits that do not come back are too few, never too many
            await self._parts.gate.give_back(refused)

    # Pumping: settle and mark in one commit, then send.

    async def _pump(self) -> None:
        backoff = Backoff()
        leave_at: float | None = None
        while True:
            if self._stopping and leave_at is None:
                leave_at = asyncio.get_running_loop().time() + self._pace.shutdown_grace / 1000
            if self._stopping or self._parts.route.deferral() is not None:
                self._put_back_what_was_not_started()
            if not self._has_work():
                if self._is_over(leave_at):
                    return
                await _next(self._pump_event, self._look_again_at(leave_at))
                continue
            try:
                await self._turn()
                backoff.reset()
                await self._gather()
            except NotDurable as error:
                if self._is_over(leave_at):
                    return
                await backoff.wait(error)

    def _look_again_at(self, leave_at: float | None) -> float | None:
        """When the next mail that waits for its moment wants to be marked, or this worker leaves."""
        pause = self._parts.pacing.pause_seconds()
        moments = [] if pause is None else [asyncio.get_running_loop().time() + pause]
        return min([*moments, *([] if leave_at is None else [leave_at])], default=None)

    async def _gather(self) -> None:
        for _ in range(GATHER_MILLISECONDS):
            if len(self._in_flight) * 2 <= self._pace.window or self._stopping:
                return
            await asyncio.sleep(0.001)

    async def _turn(self) -> None:
        if self._parts.pacing:
            await self._book()
        if self._to_release or self._to_defer:
            await self._release()
        outcomes, self._done = self._done, []
        next_up = self._next_up()
        marking = [ready.claimed for ready, _ in next_up]
        self._exchanging = [*(outcome.claimed for outcome in outcomes), *marking]
        try:
            begun = await self._parts.settling.exchange(outcomes, marking)
        except BaseException:
            # Whether that commit happened is unknown. Results are written again (the token makes that harmless);
            # what was perhaps marked was not handed over, so it can be given back.
            self._done = outcomes + self._done
            self._give_back(marking)
            raise
        finally:
            self._exchanging = []
            self._wake_all()  # whatever came of it, the stock has shrunk
        self._account(outcomes)
        for ready, member in next_up:
            self._launch(ready, member, begun)

    async def _book(self) -> None:
        """Moments for the mails that need one. Where there are none to be had for now, their lane is left alone."""
        for stranded in await self._parts.pacing.book():
            self._give_back(ready.claimed for ready in stranded.mails)
            if stranded.is_others:
                self._parts.claims.skip_lane(stranded.lane, stranded.held.until)
            else:
                await self._parts.gate.leave_for_now(stranded.lane, stranded.held)

    def _next_up(self) -> list[tuple[ReadyMessage, RouteMember]]:
        """Each with its provider: the mark tells which, so that a doubt knows who may have the mail."""
        now = self._parts.clock.now()
        busy = {ready.claimed.provider for ready in self._in_flight.values()}
        chosen: list[tuple[ReadyMessage, RouteMember]] = []
        if self._can_resend():
            self._stock.appendleft(self._resends.popleft())
        self._stock.extendleft(reversed(self._parts.pacing.due()))
        while self._stock and len(chosen) < self._pace.window - len(self._in_flight):
            ready = self._stock.popleft()
            if not self._parts.gate.is_still_open(ready.claimed, now):
                self._stand_back(ready.claimed)
                continue
            match self._parts.route.choose(ready.claimed, busy):
                case RouteMember() as member:
                    ready.claimed.provider = member.name
                    busy.add(member.name)
                    chosen.append((ready, member))
                case Deferral() as held:
                    self._put_off(ready.claimed, held)
        return chosen

    def _can_resend(self) -> bool:
        """One at a time: should it be the one that kills its worker, it takes no other's only resend with it."""
        if not self._resends or len(self._in_flight) >= self._pace.window:
            return False
        return not any(ready.claimed.resends for ready in self._in_flight.values())

    def _launch(self, ready: ReadyMessage, member: RouteMember, begun: BegunAttempts) -> None:
        claimed = ready.claimed
        if claimed.message_key in begun.over_limit and claimed.lane_limit is not None:
            self._stand_back(claimed, begun.attempted_at + OVER_LIMIT_PAUSE)
            return
        if claimed.message_key in begun.over_limit:
            is_alone = claimed.paced is not None and claimed.paced.alone
            reason = DeferReason.ONE_AT_A_TIME if is_alone else DeferReason.TENANT_CONCURRENCY
            self._put_off(claimed, Deferral(begun.attempted_at + OVER_LIMIT_PAUSE, reason))
            return
        if claimed.message_key in begun.over_domain_limit:
            self._put_off(claimed, self._parts.gate.next_place(claimed))
            return
        if claimed.message_key not in begun.message_keys:
            # Its recipient has just left, or it is no longer ours. Given back, it is claimed and validated anew if it
            # can be; where it is not ours, the token keeps this from doing anything.
            self._give_back([claimed])
            return
        self._parts.gate.spend(claimed)
        self._in_flight[claimed.message_key] = ready
        if claimed.paced is None:
            self._hand_over(ready, member, begun.attempted_at)
        else:
            self._parts.pacing.begin(
                ready, partial(self._hand_over, ready, member), partial(self._missed_its_moment, ready)
            )

    def _missed_its_moment(self, ready: ReadyMessage) -> None:
        del self._in_flight[ready.claimed.message_key]
        self._stand_back(ready.claimed)

    def _hand_over(self, ready: ReadyMessage, member: RouteMember, attempted_at: Instant | None = None) -> bool:
        """Whether its provider has it already; a task has it in the next turn of the loop."""
        claimed = ready.claimed
        self._stood_back.pop(claimed.lane, None)
        locked_until = self._parts.maintenance.renewed.get(claimed.message_key, claimed.leased_until)
        ready.begin(self._parts.clock.now() if attempted_at is None else attempted_at, locked_until)
        carrier = self._carriers.get(member.name)
        if carrier is not None:
            try:
                ready.sending = carrier.send_with_callback(ready.outgoing, partial(self._answered, ready))
            except Exception as error:
                self._answered(ready, self._raised(ready, error))
            return True
        ready.sending = answer = asyncio.ensure_future(member.provider.send(ready.outgoing))
        answer.add_done_callback(partial(self._returned, ready))
        return False

    def _returned(self, ready: ReadyMessage, answer: asyncio.Future[SendResult]) -> None:
        if answer.cancelled():
            return  # we leave without an answer: whoever finds the message later treats it as in doubt
        error = answer.exception()
        self._answered(ready, answer.result() if error is None else self._raised(ready, error))

    def _answered(self, ready: ReadyMessage, result: SendResult) -> None:
        del self._in_flight[ready.claimed.message_key]
        self._parts.pacing.ended(ready.claimed)
        ready.sending = None  # it leads back to us: the mail would stay in memory until somebody looks for such circles
        self._pump_event.set()
        result = self._told(ready, result)
        if result.code == LOCK_EXPIRED:
            self._give_back([ready.claimed])
        else:
            self._done.append(self._conclude(ready, result))

    def _told(self, ready: ReadyMessage, result: SendResult) -> SendResult:
        """Under the name that the mark has: a doubt is looked for there."""
        provider = ready.claimed.provider
        if provider is not None and result.provider != provider:
            result = replace(result, provider=provider)
        return excuse_provider(ready, result)

    def _raised(self, ready: ReadyMessage, error: BaseException) -> SendResult:
        log.error("provider_raised", **ready.claimed.log_fields, error=repr(error), exc_info=error)
        return provider_raised(ready.claimed.provider or "", error)

    def _conclude(self, ready: ReadyMessage, result: SendResult) -> Outcome:
        now, route, claimed = self._parts.clock.now(), self._parts.route, ready.claimed
        route.record(result)
        if result.kind is ResultKind.SENT:
            return conclude(ready, result, now, deferred_until=now, doubt_until=now)
        outcome = conclude(
            ready,
            result,
            now,
            deferred_until=route.deferred_until(claimed, result.provider),
            doubt_until=now + (self._pace.doubt_grace if route.reports_events(result.provider) else 0),
            fails_over=route.fails_over(claimed, result.provider),
        )
        self._is_due_again |= isinstance(outcome, Settlement) and 0 < outcome.due_at <= now
        return outcome

    def _account(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            now = self._parts.clock.now()
            self._recent.append((now, len(outcomes)))
            self._settled_lately += len(outcomes)
            self._taken.update(outcome.provider for outcome in outcomes if isinstance(outcome, Delivered))
            if self._is_due_again and not self._until_idle:
                self._is_due_again = False
                self._parts.wake.set()
            announce(outcomes)
            if self._is_traced:
                tracing.record(outcomes, now)

    # Giving back.

    def _give_back(self, claims: Iterable[Claimed]) -> None:
        given = list(claims)
        if given:
            for claimed in given:
                self._parts.pacing.drop(claimed)
            self._parts.composer.forget(given)
            self._to_release += given
            self._pump_event.set()

    def _stand_back(self, claimed: Claimed, until: Instant | None = None) -> None:
        """Gives it back. Where mails go one after another, those behind it go back too, and are claimed in order."""
        self._give_back([claimed])
        if claimed.lane_limit is None:
            return
        behind = [ready.claimed for ready in self._parts.pacing.clear_lane(claimed.lane)]
        behind += [each for each in self._backlog if each.lane == claimed.lane]
        self._backlog = deque(each for each in self._backlog if each.lane != claimed.lane)
        self._give_back(behind)
        if until is not None:
            self._parts.claims.skip_lane(claimed.lane, until)
            self._stood_back[claimed.lane] += 1
            # Whoever is drained outwaits a moment, and not another's lock, which may last.
            if self._stood_back[claimed.lane] <= MOST_STOOD_BACK:
                self._paused_until = max(self._paused_until, until)

    def _put_off(self, claimed: Claimed, held: Deferral) -> None:
        """This message alone waits; the rest of its lane goes on."""
        self._parts.pacing.drop(claimed)
        self._paused_until = max(self._paused_until, held.until)
        self._to_defer.append((claimed, held))
        self._pump_event.set()

    def _put_back_what_was_not_started(self) -> None:
        self._give_back(self._backlog)
        self._give_back(ready.claimed for ready in (*self._stock, *self._resends, *self._parts.pacing.clear()))
        self._backlog.clear()
        self._stock.clear()
        self._resends.clear()

    async def _release(self) -> None:
        releasing, deferring = list(self._to_release), list(self._to_defer)
        await self._parts.claims.release(releasing)
        await self._parts.gate.defer(deferring)
        del self._to_release[: len(releasing)]
        del self._to_defer[: len(deferring)]
        await self._parts.gate.give_back(releasing)

    async def _abandon(self) -> None:
        """Ends what is left when the grace is over. Whoever finds it later treats it as in doubt."""
        grace = SECOND if self._in_flight else 0
        sends = [ready.sending for ready in self._in_flight.values()]
        for sending in sends:
            if sending is not None:
                sending.cancel()
        await asyncio.gather(*[each for each in sends if isinstance(each, asyncio.Future)], return_exceptions=True)
        await self._parts.route.close(grace)

    # Keeping house.

    async def _keep(self) -> None:
        while True:
            try:
                await self._parts.maintenance.tick(self._held, self._presence())
            except NotDurable:
                pass  # `_feed` and `_pump` say so already
            except Exception:  # without this round locks would end under mails that are being sent
                log.exception("keeping_failed")
            self._measure()
            await asyncio.sleep(self._pace.keep_seconds)

    async def _conduct(self) -> None:
        """Beside the keeping: a walk of a million people must not make a lock end."""
        while not self._stopping:
            has_more = False
            try:
                has_more = await self._conduct_once()
            except NotDurable:
                pass  # `_feed` and `_pump` say so already
            except Exception:
                log.exception("conducting_failed")
            if has_more:
                self._parts.wake.set()
            await asyncio.sleep(0 if has_more else self._pace.conduct_seconds)

    async def _conduct_once(self) -> bool:
        async with self._conducting:
            has_done = await self._parts.source_duties.tick()
            self._has_conducted |= has_done
        return has_done

    def _held(self) -> list[Claimed]:
        """What a lock must be kept on; an answer that could not be written yet is one of them."""
        unmarked = (*self._stock, *self._resends, *self._parts.pacing.waiting())
        built = [ready.claimed for ready in (*unmarked, *self._in_flight.values())]
        done = [outcome.claimed for outcome in self._done]
        put_off = [claimed for claimed, _ in self._to_defer]
        return [*self._backlog, *self._building, *built, *self._exchanging, *done, *self._to_release, *put_off]

    def _presence(self) -> list[WorkerPresence]:
        found = []
        for member in self._parts.route.members:
            deferral = member.breaker.deferral()
            reason = member.breaker.explanation if deferral else None
            until = deferral.until if deferral else None
            found.append(WorkerPresence(member.name, until, reason, sent=self._taken[member.name]))
        return found

    def _measure(self) -> None:
        metrics.SEND_RATE.set(self._per_second())
        for member in self._parts.route.members:
            metrics.CIRCUIT_STATE.labels(member.name).set(member.breaker.state.value)

    # Waiting.

    def _has_work(self) -> bool:
        can_begin = self._stock and len(self._in_flight) < self._pace.window
        has_results = self._done or self._to_release or self._to_defer
        return bool(has_results or can_begin or self._can_resend() or self._parts.pacing.has_work())

    def _is_idle(self) -> bool:
        built = self._stock or self._resends or self._parts.pacing
        waiting = self._backlog or self._building or built or self._exchanging
        return not (waiting or self._in_flight or self._done or self._to_release or self._to_defer)

    def _is_over(self, leave_at: float | None) -> bool:
        if leave_at is not None and asyncio.get_running_loop().time() >= leave_at:
            return True
        return not self._is_feeding and self._is_idle()

    def _wake_all(self) -> None:
        for event in (self._feed_event, self._build_event, self._pump_event):
            event.set()


async def _next(event: asyncio.Event, until: float | None = None) -> None:
    """Waits for the event, and for the next one the next time."""
    if until is None:
        await event.wait()
    else:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await event.wait()
    event.clear()


class Backoff:
    """Waits longer each time that the database stays away, and says so."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def reset(self) -> None:
        self._seconds = 0.0

    async def wait(self, error: NotDurable) -> None:
        self._seconds = min(max(0.1, self._seconds * 2), LONGEST_BACKOFF_SECONDS)
        log.warning("database_unavailable", error=str(error), retryInSeconds=self._seconds)
        await asyncio.sleep(self._seconds)
