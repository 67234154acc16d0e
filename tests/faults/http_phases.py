"""Kill the worker at every step of a request: an attempt that had begun is in doubt.

A message in doubt waits for the provider's report; without one, its source decides.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import update

from mailwright.domain.clock import MINUTE, SystemClock
from mailwright.domain.message import NewMessage
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.storage.tables import deliveries
from tests.builders import a_message, a_newsletter, record_of
from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.processes import Process, TookTooLong
from tests.faults.providers import FAULT_PROVIDERS, FaultProvider
from tests.faults.stage import Stage
from tests.standins.http import HttpStandIn, Step

# Larger than the socket buffers: after half of it, the rest is not yet sent.
LARGE_BYTES = 16_000_000
KILLED = -9
RULES = (OnDoubt.RESEND, OnDoubt.HOLD)
# A message in doubt that is about to be decided has less time left than this.
SOON = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class KillPoint:
    name: str
    step: Step
    is_large: bool = False


IN_THE_BODY = KillPoint("in the body", Step.BODY)
AMID_A_LARGE_BODY = KillPoint("amid a large body", Step.BODY, is_large=True)
AFTER_THE_BODY = KillPoint("after the body", Step.ANSWER)
IN_THE_ANSWER = KillPoint("in the answer", Step.MIDDLE)
AFTER_THE_ANSWER = KillPoint("after the answer", Step.ANSWERED)
MOMENTS = (IN_THE_BODY, AMID_A_LARGE_BODY, AFTER_THE_BODY, IN_THE_ANSWER, AFTER_THE_ANSWER)


@dataclass(frozen=True, slots=True)
class HttpKillOutcome:
    status: str
    received: int  # Complete requests with this message.
    resends: int
    doubts: int  # Events of this kind.

    def __str__(self) -> str:
        return f"{self.status}, {self.received} received, {self.resends} resent, {self.doubts} doubted"


def after_a_kill(moment: KillPoint, rule: OnDoubt) -> tuple[HttpKillOutcome, ...]:
    """A small message is sent in one piece: it arrives completely even if the worker is killed."""
    received = int(not moment.is_large)
    if rule is OnDoubt.HOLD:
        doubted = HttpKillOutcome(Status.IN_DOUBT, received, 0, 1)
    else:
        doubted = HttpKillOutcome(Status.SENT, received + 1, 1, 1)
    # The worker may settle the complete response before it is killed.
    return (doubted, HttpKillOutcome(Status.SENT, 1, 0, 0)) if moment.step is Step.ANSWERED else (doubted,)


async def kills(
    stage: Stage, *, carriers: Sequence[str] = tuple(FAULT_PROVIDERS), moments: Sequence[KillPoint] = MOMENTS
) -> Figures:
    figures = Figures()
    for carrier in (FAULT_PROVIDERS[name] for name in carriers):
        for moment in moments:
            async with carrier.stand_in() as server:
                stage.settings |= carrier.settings(server)
                await _kills_at(stage, figures, carrier, server, moment)
                figures.none(f"{carrier.name}: what is not HTTP", server.violations)
    rows = await standing(stage)
    figures.none("lost", [key for key in stage.accepted if key not in rows])
    figures.none("left open", await stage.open_messages())
    holds = await stage.identity_holds()
    figures.expect("audit identity", holds, "True", when=holds)
    return figures


async def _kills_at(
    stage: Stage, figures: Figures, carrier: FaultProvider, server: HttpStandIn, moment: KillPoint
) -> None:
    messages = {rule: _message(rule, moment) for rule in RULES}
    name = f"{carrier.name}: killed {moment.name}"
    for message in messages.values():
        await stage.accept_all([message])
        worker = _drain(stage)
        server.call(moment.step, worker.kill, path=carrier.send_path)
        if (code := await worker.ended()) != KILLED:
            figures.expect(name, f"the worker ended with {code}: {worker.said[-300:]}", "killed", when=False)
    await _locks_have_ended(stage)
    await _drained(stage, figures, name)
    patient = await _let_pass_the_time_for_reports(stage)
    undecided = sum(1 in {ending.doubts for ending in after_a_kill(moment, rule)} for rule in RULES)
    figures.expect(
        f"{name}, doubts that wait for a report",
        patient,
        f"{undecided}" + (" at most" if moment.step is Step.ANSWERED else ""),
        when=patient == undecided or (moment.step is Step.ANSWERED and patient < undecided),
    )
    await _drained(stage, figures, name)
    received = Counter(carrier.sends(server))
    for rule, message in messages.items():
        found, right = await _ending(stage, message, received[message.outbox_id]), after_a_kill(moment, rule)
        figures.expect(f"{name}, {rule}", found, " or ".join(map(str, right)), when=found in right)


def _message(rule: OnDoubt, moment: KillPoint) -> NewMessage:
    message = a_newsletter() if rule is OnDoubt.HOLD else a_message()
    if not moment.is_large:
        return message
    attachment = {"filename": "a.bin", "contentType": "application/octet-stream", "content": "A" * LARGE_BYTES}
    return replace(message, payload={**message.payload, "attachments": [attachment]})


def _drain(stage: Stage) -> Process:
    return stage.start("worker", ["worker", "--drain"])


async def _drained(stage: Stage, figures: Figures, name: str) -> None:
    successor = _drain(stage)
    if (code := await successor.ended()) != 0:
        figures.expect(name, f"the successor ended with {code}: {successor.said[-300:]}", "0", when=False)


async def _locks_have_ended(stage: Stage, seconds: float = 20.0) -> None:
    """Wait until the lease ends; before that, no worker may take over."""
    clock = SystemClock()
    for _ in range(int(seconds / 0.1)):
        rows = (await standing(stage)).values()
        if all(row.locked_by is None or row.claimable_at <= clock.now() for row in rows):
            return
        await asyncio.sleep(0.1)
    raise TookTooLong(f"locks of dead workers last longer than {seconds:g} s")


async def _let_pass_the_time_for_reports(stage: Stage) -> int:
    """Make messages in doubt due now; return how many were waiting for a report."""
    now = SystemClock().now()
    is_waiting = (
        (deliveries.c.status == Status.IN_DOUBT)
        & (deliveries.c.claimable_at > now + SOON)
        & (deliveries.c.claimable_at < now + 3 * SOON)  # Held messages wait longer than that.
    )
    async with stage.database.write() as tx:
        query = update(deliveries).where(is_waiting).values(claimable_at=now).returning(deliveries.c.message_key)
        return len(list(await tx.execute(query)))


async def _ending(stage: Stage, message: NewMessage, received: int) -> HttpKillOutcome:
    row = (await standing(stage))[message.outbox_id]
    story = await record_of(stage.database, message.outbox_id)
    doubts = sum(event.type is EventType.IN_DOUBT for event in story.events)
    return HttpKillOutcome(row.status, received, row.resends, doubts)
