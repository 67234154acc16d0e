"""Arbitrary provider responses: each affects only its own message.

Each bad response is given once, to one recipient among many good ones.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from mailwright.domain.message import NewMessage
from mailwright.domain.states import OPEN, EventType, Status
from tests.builders import a_message, record_of
from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.processes import Process, TookTooLong
from tests.faults.providers import FAULT_PROVIDERS, FaultProvider
from tests.faults.stage import Stage
from tests.standins.http import (
    BROKEN_JSON,
    EMPTY,
    GARBAGE,
    HTML,
    WRONG_JSON,
    Answer,
    HttpStandIn,
    Request,
    a_large_answer,
)

STATUSES = range(100, 600)
# Keep below the failures in a row that would open the circuit breaker.
GOOD_BESIDE_EACH = 4
CONCURRENCY = 16
SLOW_SECONDS, TRICKLE_SECONDS = 1.0, 0.002
# Far less than the size of the large responses, and more than the allocator needs.
MOST_GROWTH_MB = 24


@dataclass(frozen=True, slots=True)
class ResponseOutcome:
    status: str
    requests: int
    attempts: int  # Counted attempts.

    def __str__(self) -> str:
        return f"{self.status} after {self.requests} requests, {self.attempts} attempts"


TAKEN = ResponseOutcome(Status.SENT, 1, 1)
AGAIN = ResponseOutcome(Status.SENT, 2, 2)
LATER = ResponseOutcome(Status.SENT, 2, 1)  # Deferred by the account or an outage: no attempt counted.
REFUSED = ResponseOutcome(Status.FAILED, 1, 1)
DOUBTED = ResponseOutcome(Status.IN_DOUBT, 1, 1)

# The meaning of a bare status; all others between 300 and 599 are temporary.
FAULTS = range(500, 600)
MEANT: dict[str, dict[ResponseOutcome, Collection[int]]] = {
    "ses": {LATER: (401, 403, 404, 405, 429), REFUSED: (413,), DOUBTED: FAULTS},
    "sendgrid": {
        LATER: (401, 403, 404, 405, 408, 429, 500, 503),
        REFUSED: (400, 413, 415),
        DOUBTED: {*FAULTS} - {500, 503},
    },
}
# These pause a worker for ten seconds, so the short run leaves them out.
ABOUT_THE_ACCOUNT = (401, 403, 404, 405)
SOME_STATUSES = (100, 101, 103, 199, 200, 202, 204, 299, 300, 304, 400, 413, 415, 418, 429, 500, 502, 503, 504, 599)


def meaning_of(carrier: str, status: int) -> ResponseOutcome:
    if status < 300:
        return DOUBTED  # No response, or one that does not say which message was accepted.
    return next((ending for ending, statuses in MEANT[carrier].items() if status in statuses), AGAIN)


# Sends a bad response in place of the usual one, which it gets. Returns True to keep the connection open.
Misdeed = Callable[[asyncio.StreamWriter, Answer], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    misdeed: Misdeed
    right: ResponseOutcome


def says(answer: Answer | bytes) -> Misdeed:
    """Send bytes and close the connection."""

    async def misdeed(writer: asyncio.StreamWriter, _usual: Answer) -> bool:
        writer.write(answer if isinstance(answer, bytes) else answer.wire())
        await writer.drain()
        return isinstance(answer, Answer)

    return misdeed


async def cut_before(_writer: asyncio.StreamWriter, _usual: Answer) -> bool:
    return False


async def cut_within(writer: asyncio.StreamWriter, usual: Answer) -> bool:
    wire = usual.wire()
    return await says(wire[: len(wire) - 3])(writer, usual)


async def slow(writer: asyncio.StreamWriter, usual: Answer) -> bool:
    await asyncio.sleep(SLOW_SECONDS)
    return await says(usual)(writer, usual)


async def trickling(writer: asyncio.StreamWriter, usual: Answer) -> bool:
    for byte in usual.wire():
        writer.write(bytes([byte]))
        await asyncio.sleep(TRICKLE_SECONDS)
    return True


async def two_answers(writer: asyncio.StreamWriter, usual: Answer) -> bool:
    """Append a permanent rejection that the next message on this connection must not receive."""
    writer.write(usual.wire() + Answer(413).wire())
    await writer.drain()
    return True


async def refused_and_taken(writer: asyncio.StreamWriter, usual: Answer) -> bool:
    """Append a success that the next message on this connection must not receive."""
    writer.write(Answer(413).wire() + usual.wire())
    await writer.drain()
    return True


def by_status(carrier: str, statuses: Iterable[int]) -> list[Case]:
    cases = []
    for status in statuses:
        # A final response never follows this 1xx.
        answer = Answer(status) if status >= 200 else f"HTTP/1.1 {status} Wait\r\n\r\n".encode()
        cases.append(Case(f"status {status}", says(answer), meaning_of(carrier, status)))
    return cases


def by_manner(carrier: str, large_answers: int) -> list[Case]:
    no_id = Answer(202) if carrier == "sendgrid" else Answer(200, b"{}", {"Content-Type": "application/json"})
    return [
        Case("slow", slow, TAKEN),
        Case("byte by byte", trickling, TAKEN),
        Case("cut before the answer", cut_before, DOUBTED),
        Case("cut within the answer", cut_within, DOUBTED),
        Case("empty 200", says(EMPTY), DOUBTED),
        Case("HTML 200", says(HTML), DOUBTED),
        Case("wrong JSON", says(WRONG_JSON), DOUBTED),
        Case("broken JSON", says(BROKEN_JSON), DOUBTED),
        Case("taken, without an id", says(no_id), DOUBTED),
        Case("garbage", says(GARBAGE), DOUBTED),
        Case("a head without end", says(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1_000_000), DOUBTED),
        Case("two lengths", says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}"), DOUBTED),
        Case("taken and refused at once", two_answers, TAKEN),
        Case("refused and taken at once", refused_and_taken, REFUSED),
        *(Case("10 MB, 200", says(a_large_answer()), DOUBTED) for _ in range(large_answers)),
        *(Case("10 MB, 413", says(a_large_answer(413)), REFUSED) for _ in range(large_answers)),
    ]


@dataclass(slots=True)
class Script:
    """Which message gets which response. Responses are used once, except those in `always`."""

    once: dict[str, Misdeed] = field(default_factory=dict)
    always: dict[str, Misdeed] = field(default_factory=dict)


def misbehaving(carrier: FaultProvider, script: Script) -> HttpStandIn:
    """The provider's stand-in, with scripted responses for some messages."""
    kind: Any = carrier.stand_in

    class Misbehaving(kind):  # type: ignore[misc]
        async def respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
            message = carrier.message_in(request) if request.path == carrier.send_path else ""
            misdeed = script.always.get(message) or script.once.pop(message, None)
            if misdeed is None:
                await super().respond(request, writer)
            elif not await misdeed(writer, self.usual(request)):
                raise ConnectionResetError

    found: HttpStandIn = Misbehaving()
    return found


async def run(
    stage: Stage,
    *,
    carriers: Sequence[str] = tuple(FAULT_PROVIDERS),
    statuses: Iterable[int] = STATUSES,
    large_answers: int = 50,
    seconds: float = 60,
) -> Figures:
    figures = Figures()
    for name in carriers:
        cases = [*by_status(name, statuses), *by_manner(name, large_answers)]
        await _answered(stage, figures, FAULT_PROVIDERS[name], cases, seconds)
    holds = await stage.identity_holds()
    figures.expect("audit identity", holds, "True", when=holds)
    return figures


async def _answered(
    stage: Stage, figures: Figures, carrier: FaultProvider, cases: Sequence[Case], seconds: float
) -> None:
    script = Script()
    bad = {(message := a_message()).outbox_id: (message, case) for case in cases}
    script.once = {key: case.misdeed for key, (_, case) in bad.items()}
    stubborn = a_message()
    script.always = {stubborn.outbox_id: says(Answer(418))}
    good = [a_message() for _ in range(GOOD_BESIDE_EACH * len(bad))]
    async with misbehaving(carrier, script) as server:
        stage.settings |= carrier.settings(server)
        worker = await stage.working(MAILWRIGHT_CONCURRENCY=CONCURRENCY, MAILWRIGHT_LOCK_TTL_SECONDS=60)
        await stage.accept_all(warm := [a_message() for _ in range(CONCURRENCY * 4)])
        await _done(stage, warm, seconds)
        memory = Memory(worker)
        await stage.accept_all(_mixed([message for message, _ in bad.values()], good, stubborn))
        everybody = [*(message for message, _ in bad.values()), *good]
        await _done(stage, everybody, seconds, memory)
        is_alive = worker.exit_code is None
        worker.kill()
    _compare(figures, carrier, server, await standing(stage), {key: case for key, (_, case) in bad.items()}, good)
    await _stubborn(stage, figures, carrier, stubborn)
    figures.expect(f"{carrier.name}: the worker lives", is_alive, "True", when=is_alive)
    figures.at_most(f"{carrier.name}: its memory grew by, MB", round(memory.growth_mb, 1), MOST_GROWTH_MB)
    figures.none(f"{carrier.name}: what is not HTTP", server.violations)


def _compare(
    figures: Figures,
    carrier: FaultProvider,
    server: HttpStandIn,
    rows: Mapping[str, Any],
    cases: Mapping[str, Case],
    good: Sequence[NewMessage],
) -> None:
    requests = Counter(carrier.sends(server))

    def ending(key: str) -> ResponseOutcome:
        counted = rows[key].attempts - rows[key].excused_attempts
        return ResponseOutcome(rows[key].status, requests[key], counted)

    wrong = [
        f"{case.name}: {ending(key)}, not {case.right} ({rows[key].error_code})"
        for key, case in cases.items()
        if ending(key) != case.right
    ]
    figures.note(f"{carrier.name}: bad answers", len(cases))
    figures.note(f"{carrier.name}: their ends", dict(Counter(rows[key].status for key in cases)))
    figures.none(f"{carrier.name}: bad answers that meant something else", wrong)
    keys = [message.outbox_id for message in good]
    others = [f"{key}: {ending(key)} ({rows[key].error_code})" for key in keys if ending(key) != TAKEN]
    figures.none(f"{carrier.name}: of {len(keys)} good ones, not simply taken", others)
    given = carrier.ids_given(server)
    strange = [key for key in keys if rows[key].provider_message_id != given.get(key)]
    figures.none(f"{carrier.name}: successes with the ID of another message", strange)


async def _stubborn(stage: Stage, figures: Figures, carrier: FaultProvider, message: NewMessage) -> None:
    """A message that always gets a bad response does not delay others."""
    story = await record_of(stage.database, message.outbox_id)
    tries = sum(event.type is EventType.RETRY_SCHEDULED for event in story.events)
    status = story.summary.status
    figures.expect(
        f"{carrier.name}: the recipient that is always refused",
        f"{status} after {tries} attempts",
        "retried while all others are done",
        when=status in {Status.RETRY_SCHEDULED, Status.SENT_ATTEMPT} and tries > 0,
    )


def _mixed(bad: Sequence[NewMessage], good: Sequence[NewMessage], stubborn: NewMessage) -> list[NewMessage]:
    mixed = [stubborn]
    for number, message in enumerate(bad):
        mixed += [message, *good[number * GOOD_BESIDE_EACH : (number + 1) * GOOD_BESIDE_EACH]]
    return mixed


class Memory:
    """Measure how much a process has grown."""

    def __init__(self, process: Process) -> None:
        self._process = psutil.Process(process.pid)
        self._first = self._most = self._now()

    @property
    def growth_mb(self) -> float:
        return (self._most - self._first) / 1e6

    def look(self) -> None:
        self._most = max(self._most, self._now())

    def _now(self) -> int:
        return int(self._process.memory_info().rss)


async def _done(stage: Stage, messages: Sequence[NewMessage], seconds: float, memory: Memory | None = None) -> None:
    waited, fewest = 0.0, len(messages) + 1
    while True:
        rows = await standing(stage)
        left = sum(rows[message.outbox_id].status in OPEN for message in messages)
        if memory is not None:
            memory.look()
        if not left:
            return
        waited, fewest = (0.0, left) if left < fewest else (waited + 0.1, fewest)
        if waited > seconds:
            raise TookTooLong(f"{left} messages did not move for {seconds:g} s")
        await asyncio.sleep(0.1)
