"""Kill the worker or cut its connection at every step of sending a message, and check the outcome.

After a kill, an attempt without a result is in doubt at every step. A worker that survives a cut connection retries the
message if the last byte was not sent; after the last byte, only a complete response decides.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from mailwright.domain.message import NewMessage
from mailwright.domain.states import EventType, OnDoubt, Status
from tests.builders import a_message, a_newsletter, record_of
from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.processes import until
from tests.faults.stage import Stage
from tests.standins.smtp_sink import SmtpSink, Step

STEPS = (Step.EHLO, Step.MAIL, Step.RCPT, Step.DATA, Step.BODY, Step.DOT, Step.ANSWERED)
RULES = (OnDoubt.RESEND, OnDoubt.HOLD)
# More than the kernel takes for a peer that reads slowly into a small buffer.
LARGE_BYTES, SMALL_BUFFER_BYTES = 12_000_000, 65_536


@dataclass(frozen=True, slots=True)
class SmtpKillOutcome:
    status: str
    copies: int  # Copies that the server has.
    resends: int
    doubts: int  # Events of this kind.


def after_a_kill(step: Step, rule: OnDoubt) -> SmtpKillOutcome:
    """A small message is sent in one piece: it arrives completely even if the worker is killed."""
    return _doubted(rule, copies=int(step in (Step.BODY, Step.DOT, Step.ANSWERED)))


def after_a_cut(step: Step, rule: OnDoubt) -> SmtpKillOutcome:
    """The outcome is known unless everything was sent and no reply came."""
    if step in (Step.BODY, Step.DOT):
        return _doubted(rule, copies=int(step is Step.DOT))
    return SmtpKillOutcome(Status.SENT, 1, 0, 0)


def _doubted(rule: OnDoubt, copies: int) -> SmtpKillOutcome:
    return (
        SmtpKillOutcome(Status.IN_DOUBT, copies, 0, 1)
        if rule is OnDoubt.HOLD
        else SmtpKillOutcome(Status.SENT, copies + 1, 1, 1)
    )


async def kills(stage: Stage, *, steps: Sequence[Step] = STEPS) -> Figures:
    figures = Figures()
    for step in steps:
        for rule in RULES:
            message = _message(rule)
            async with _a_sink(stage) as sink:
                await stage.accept_all([message])
                worker = stage.worker()
                sink.call(step, worker.kill)
                await until(lambda process=worker: process.exit_code is not None, 30, f"the kill at {step.name}")
                successor = stage.worker()
                found = await _ending(stage, sink, message)
                successor.kill()
            _note(figures, f"killed at {step.name}, {rule}", found, after_a_kill(step, rule))
    await _whole(stage, figures)
    return figures


async def cuts(stage: Stage, *, steps: Sequence[Step] = STEPS) -> Figures:
    """Close the connection at the step; the worker lives."""
    figures = Figures()
    for step in steps:
        for rule in RULES:
            message = _message(rule)
            async with _a_sink(stage) as sink:
                sink.cut(step, times=1)
                await stage.accept_all([message])
                worker = stage.worker()
                found = await _ending(stage, sink, message)
                worker.kill()
            _note(figures, f"cut at {step.name}, {rule}", found, after_a_cut(step, rule))
    await _whole(stage, figures)
    return figures


async def cut_during_a_large_message(stage: Stage) -> Figures:
    """The message is too large to be sent at once: its last byte was not sent, so it is retried."""
    figures = Figures()
    for rule in RULES:
        message = _message(rule)
        attachment = {"filename": "a.bin", "contentType": "application/octet-stream", "content": "A" * LARGE_BYTES}
        message = replace(message, payload={**message.payload, "attachments": [attachment]})
        async with _a_sink(stage) as sink:
            sink.limit_receive_buffer(SMALL_BUFFER_BYTES)
            sink.cut(Step.BODY, times=1)
            await stage.accept_all([message])
            worker = stage.worker(MAILWRIGHT_LOCK_TTL_SECONDS=60)
            found = await _ending(stage, sink, message)
            worker.kill()
        _note(figures, f"connection cut during a large message, {rule}", found, SmtpKillOutcome(Status.SENT, 1, 0, 0))
    return figures


async def claimed_only(stage: Stage, *, messages: int = 200, concurrency: int = 8) -> Figures:
    """The server never replies, so one window has begun and the rest is only claimed; then kill the worker."""
    figures = Figures()
    async with _a_sink(stage) as sink:
        hold = sink.hold(Step.GREETING)
        await stage.accept(messages)
        worker = stage.worker(MAILWRIGHT_CONCURRENCY=concurrency)
        await hold.reached.wait()
        await asyncio.sleep(0.3)
        worker.kill()
        left = (await standing(stage)).values()
        marked = sum(row.status == Status.SENT_ATTEMPT for row in left)
        claimed = sum(row.locked_by is not None for row in left) - marked
    async with _a_sink(stage) as sink:
        successor = stage.worker()
        await stage.all_done(seconds=60)
        successor.kill()
        copies = [recipient for message in sink.complete for recipient in message.recipients]
    rows = (await standing(stage)).values()
    doubted = [row for row in rows if row.resends or row.status == Status.IN_DOUBT]
    figures.at_most("marked when it was killed", marked, concurrency)
    figures.expect("claimed and not marked", claimed, "some", when=claimed > 0)
    figures.expect("doubted", len(doubted), f"the {marked} that were marked", when=len(doubted) == marked)
    figures.none("others not sent", sum(row.status != Status.SENT for row in rows if row not in doubted))
    figures.none("received twice", len(copies) - len(set(copies)))
    await _whole(stage, figures)
    return figures


def _message(rule: OnDoubt) -> NewMessage:
    return a_newsletter() if rule is OnDoubt.HOLD else a_message()


@asynccontextmanager
async def _a_sink(stage: Stage) -> AsyncIterator[SmtpSink]:
    async with SmtpSink() as sink:
        stage.smtp_url = f"{sink.url}?tls=none"
        yield sink


async def _ending(stage: Stage, sink: SmtpSink, message: NewMessage) -> SmtpKillOutcome:
    await stage.all_done(seconds=60)
    row = (await standing(stage))[message.outbox_id]
    story = await record_of(stage.database, message.outbox_id)
    doubts = sum(event.type is EventType.IN_DOUBT for event in story.events)
    copies = sum(message.to_email in email.recipients for email in sink.complete)
    return SmtpKillOutcome(row.status, copies, row.resends, doubts)


def _note(figures: Figures, name: str, found: SmtpKillOutcome, right: SmtpKillOutcome) -> None:
    figures.expect(name, _words(found), _words(right), when=found == right)


def _words(ending: SmtpKillOutcome) -> str:
    return f"{ending.status}, {ending.copies} received, {ending.resends} resent, {ending.doubts} doubted"


async def _whole(stage: Stage, figures: Figures) -> None:
    holds = await stage.identity_holds()
    figures.expect("audit identity", holds, "True", when=holds)
