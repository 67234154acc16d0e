"""A state machine runs outbox operations in any order, and a small model checks the result, on both engines."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from mailwright.domain.clock import DAY, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Claimed
from mailwright.domain.report import Report
from mailwright.domain.results import SendResult
from mailwright.domain.states import EventType, OnDoubt, Status
from mailwright.events.reports import REPORTABLE, Reports
from mailwright.outbox.audit import audit
from mailwright.outbox.operations import Operations
from mailwright.pipeline.conclude import fail_poisoned, fail_validation, is_poison
from mailwright.pipeline.validate import suppressed
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, events, messages
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    LOCK_TTL,
    MISCONFIGURED,
    REFUSAL,
    SENT,
    THROTTLE,
    UNKNOWN,
    a_message,
    a_newsletter,
    a_result,
    a_settler,
    an_acceptor,
    an_in_doubt_handler,
    claims_of,
    suppress,
)
from tests.engines import PostgresServer
from tests.examples import examples

T = TypeVar("T")

READERS = [f"reader{n}@example.com" for n in range(6)]
KEYS = ["key-1", "key-2"]
LISTS = ["general", "news", "tips"]
SCOPES = ["*", *LISTS]
# Most responses do not end the message.
RESULTS = [UNKNOWN, FAULT, SENT, THROTTLE, UNKNOWN, MISCONFIGURED, FAULT, REFUSAL]
# After these results the provider has or may have the message; after all others it does not.
MAY_HAVE_LEFT = (SENT, UNKNOWN, None)
# The possible last events of a message, by its state.
LAST_EVENTS = {
    Status.SENT: EventType.SENT,
    Status.FAILED: EventType.FAILED,
    Status.RETRY_SCHEDULED: EventType.RETRY_SCHEDULED,
    Status.IN_DOUBT: EventType.IN_DOUBT,
    Status.CLOSED_UNKNOWN: EventType.CLOSED_UNKNOWN,
    Status.CANCELLED: EventType.CANCELLED,
}
FOR_EVER = (Status.SENT, Status.CLOSED_UNKNOWN, Status.CANCELLED)


ACTIONS = [
    *["claim"] * 2,
    *["begin"] * 4,
    *["settle"] * 4,
    *["stall", "stall", "crash", "wait", "wait"],
    *["accept", "accept", "leave", "leave", "cancel", "report", "report"],
    *["give_back", "give_back_unsent", "recover_lost_work"],
]


@dataclass
class Attempt:
    claimed: Claimed
    result: SendResult | None = None  # none came


@dataclass
class Model:
    """The expected state of one message, derived from the operations so far."""

    email: str
    on_doubt: OnDoubt
    list_key: str | None
    attempts: list[Attempt] = field(default_factory=list)  # One entry for each handover to a provider.

    is_reported: bool = False  # the provider reported it while no attempt was running

    @property
    def may_have_left(self) -> int:
        return sum(attempt.result in MAY_HAVE_LEFT for attempt in self.attempts)

    @property
    def stopped_by(self) -> set[tuple[str, str]]:
        """Return the suppressions that each prevent this message from being sent."""
        scopes = ["*"] if self.list_key is None else ["*", "general", self.list_key]
        return {(self.email, scope) for scope in scopes}


class Outbox(RuleBasedStateMachine):
    def __init__(self, open_database: Callable[[], Awaitable[tuple[Database, Callable[[], Awaitable[None]]]]]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.database, self.dispose = self.run(open_database())  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.settling = a_settler(self.database, self.clock)
        self.claims = [claims_of(self.database, self.clock, name) for name in ("a", "b")]
        self.asked = 0
        self.messages: dict[str, Model] = {}
        self.known_keys: set[str] = set()
        self.left: set[tuple[str, str]] = set()
        self.stock: list[Claimed] = []  # Messages that workers have claimed and whose attempt has not begun.
        self.in_flight: list[Attempt] = []
        self.ended: dict[int, str] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.database.close())
        self.run(self.dispose())  # type: ignore[arg-type]
        self.runner.close()

    @initialize(kinds=st.lists(st.booleans(), min_size=6, max_size=9))
    def accept_some(self, kinds: list[bool]) -> None:
        for number, is_bulk in enumerate(kinds):
            self._accept(READERS[number % len(READERS)], is_bulk, None)
        self.claim(1)

    @rule(action=st.sampled_from(ACTIONS), which=st.integers(0, 99))
    def do(self, action: str, which: int) -> None:
        """Choose one operation. One rule for all of them makes frequent operations of workers the most likely ones."""
        getattr(self, action)(which)

    # What callers do.

    def accept(self, which: int) -> None:
        for number in range(1 + which % 3):
            reader = READERS[(which + number) % len(READERS)]
            self._accept(reader, number % 2 == 0, [None, *KEYS][(which // 10 + number) % 3])

    def _accept(self, email: str, is_bulk: bool, key: str | None) -> None:
        self.asked += 1
        # The ID determines the jitter of delays, so it must be the same at every replay.
        outbox_id = uuid7(self.asked, lambda size: self.asked.to_bytes(size, "big"))
        changes: dict[str, Any] = {"outbox_id": outbox_id, "to": email, "dedupe_key": key, "body_digest": "same"}
        list_key = LISTS[self.asked % len(LISTS)]
        message = a_newsletter(**changes, list_key=list_key) if is_bulk else a_message(**changes)
        (answer,) = self.run(an_acceptor(self.database, self.clock).accept([message]))
        assert answer.is_replay == (key in self.known_keys)
        if key is not None:
            self.known_keys.add(key)
        if not answer.is_replay:
            self.messages[answer.outbox_id] = Model(email, message.on_doubt, message.list_key)

    def leave(self, which: int) -> None:
        email, scope = READERS[which % len(READERS)], SCOPES[which // 10 % len(SCOPES)]
        if (email, scope) not in self.left:
            self.run(suppress(self.database, email, list_key=scope))
            self.left.add((email, scope))

    def cancel(self, which: int) -> None:
        outbox_id = list(self.messages)[which % len(self.messages)]
        with contextlib.suppress(NotPossibleNow):
            self.run(Operations(self.database, self.clock).cancel(outbox_id, tenant_id=DEFAULT_TENANT))

    def report(self, which: int) -> None:
        """Let the provider report, once or twice, a message that it may have."""
        told = [outbox_id for outbox_id, message in self.messages.items() if message.may_have_left]
        if not told:
            return
        outbox_id = told[which % len(told)]
        type_ = sorted(REPORTABLE)[which % len(REPORTABLE)]
        report = Report(f"{outbox_id}-{type_}", "ses", type_, self.clock.now(), outbox_id=outbox_id)
        self.run(Reports(self.database, self.clock).receive([report] * (1 + which % 2)))
        if not any(attempt.claimed.outbox_id == outbox_id for attempt in self.in_flight):
            self.messages[outbox_id].is_reported = True

    # What workers do.

    def claim(self, which: int) -> None:
        claims = self.claims[which % 2]
        self.stock += self.run(claims.claim_suspects(4)) or self.run(claims.claim(1 + which % 4))

    def begin(self, which: int) -> None:
        if not self.stock:
            self.claim(which)
        for claimed in self._from_stock(which):
            if is_poison(claimed):
                self.run(self.settling.exchange([fail_poisoned(claimed, self.clock.now())], []))
            elif claimed.suppressed_because:
                self.run(self.settling.exchange([fail_validation(claimed, suppressed("left"), self.clock.now())], []))
            elif self.run(self.settling.exchange([], [claimed])).message_keys:
                self._hand_over(claimed)

    def _hand_over(self, claimed: Claimed) -> None:
        message = self.messages[claimed.outbox_id]
        assert not message.stopped_by & self.left, "sent to someone who had left"
        assert not message.is_reported, "sent again though the provider had said that it has it"
        under_way = [attempt for attempt in self.in_flight if attempt.claimed.outbox_id == claimed.outbox_id]
        now = self.clock.now()
        assert all(attempt.claimed.leased_until <= now for attempt in under_way), "begun twice at once"
        # A newsletter that may have left is never sent again, a receipt once.
        assert message.may_have_left <= (0 if message.on_doubt is OnDoubt.HOLD else 1), "sent again in doubt"
        attempt = Attempt(claimed)
        message.attempts.append(attempt)
        self.in_flight.append(attempt)

    def settle(self, which: int) -> None:
        if not self.in_flight:
            self.begin(which)
            return
        attempt = self.in_flight.pop(which % len(self.in_flight))
        attempt.result = RESULTS[which // 10 % len(RESULTS)]
        settlement = a_result(attempt.claimed, attempt.result, self.clock.now())
        for _ in range(1 + which % 2):  # The response of the first commit may have been lost.
            self.run(self.settling.exchange([settlement], []))

    def give_back(self, which: int) -> None:
        if not self.stock:
            self.claim(which)
        self.run(self.claims[0].release(self._from_stock(which)))

    def give_back_unsent(self, which: int) -> None:
        if not self.in_flight:
            self.begin(which)
            return
        attempt = self.in_flight.pop(which % len(self.in_flight))
        self.messages[attempt.claimed.outbox_id].attempts.remove(attempt)
        self.run(self.claims[0].release([attempt.claimed]))

    def _from_stock(self, which: int) -> list[Claimed]:
        """Return some of the claimed messages, oldest or newest first."""
        count = 1 + which % 3
        chosen = self.stock[:count] if which % 2 else self.stock[-count:]
        self.stock = self.stock[count:] if which % 2 else self.stock[:-count]
        return chosen

    # Faults of workers.

    def crash(self, _which: int) -> None:
        """All workers crash. Their attempts in flight never get a result."""
        self.stock.clear()
        self.in_flight.clear()

    def stall(self, which: int) -> None:
        """All workers stall until their leases expire. Their later results and attempts arrive too late."""
        self.clock.advance(LOCK_TTL)
        self.recover_lost_work(which)

    def wait(self, which: int) -> None:
        self.clock.advance((2 * SECOND, MINUTE, 15 * MINUTE, DAY)[which % 4])

    def recover_lost_work(self, which: int) -> None:
        doubts = an_in_doubt_handler(self.database, self.clock, (0, 10 * MINUTE)[which % 2])
        self.run(doubts.mark_lost_attempts())
        self.run(doubts.decide_due())

    # Checks after every step.

    @invariant()
    def everything_that_was_accepted_is_somewhere(self) -> None:
        found = self.run(audit(self.database))
        assert found.ok
        assert found.accepted == len(self.messages)

    @invariant()
    def rows_and_events_tell_the_same_story(self) -> None:
        rows, story = self.run(self._read())
        for row in rows:
            told = [event for event in story.get(row.message_key, []) if event.type not in REPORTABLE]
            if expected := LAST_EVENTS.get(row.status):
                assert told[-1].type == expected, (row.status, [event.type for event in told])
            assert row.attempts == len(_completed_attempts(told)), "attempts"
            answered = [attempt for attempt in self.messages[row.outbox_id].attempts if attempt.result is not None]
            assert row.attempts <= len(answered) + row.resends, "an attempt was counted twice"
            assert row.attempts - row.excused_attempts <= 5 + row.resends
            assert row.resends <= 1
            assert 0 <= row.claims <= 6
            assert row.claims > 0 or row.locked_by is None
            # A report may arrive at any time, and settle a message that was closed as unknown or failed when resent.
            is_proven = bool(told) and "settledBy" in told[-1].metadata
            ends = {row.status, Status.CLOSED_UNKNOWN, Status.FAILED} if is_proven else {row.status}
            assert self.ended.get(row.message_key, row.status) in ends, "an end that was none"
            if row.status in FOR_EVER:
                self.ended[row.message_key] = row.status

    async def _read(self) -> tuple[list[Any], dict[int, list[Any]]]:
        story: dict[int, list[Any]] = {}
        async with self.database.read() as tx:
            for event in await tx.execute(select(events).order_by(events.c.id)):
                story.setdefault(event.message_key, []).append(event)
            columns = (*deliveries.c, messages.c.outbox_id)
            rows = await tx.execute(select(*columns).join(messages, messages.c.id == deliveries.c.message_key))
        return list(rows), story


def _completed_attempts(told: list[Any]) -> set[int]:
    """Return the numbers of completed calls, with that of a lost worker whose message is sent again."""
    completed = {orjson.loads(event.metadata)["attempt"] for event in told if _completes_an_attempt(event)}
    resent = [orjson.loads(event.metadata) for event in told if "in_doubt_resend" in event.metadata]
    return completed | {each["nextAttemptNumber"] - 1 for each in resent}


def _completes_an_attempt(event: Any) -> bool:
    """Return whether this event records a completed call of a provider."""
    if event.type == EventType.SENT:
        return "settledBy" not in event.metadata
    if event.type == EventType.FAILED:
        return not any(code in event.metadata for code in ("POISON_MESSAGE", "RECIPIENT_SUPPRESSED"))
    if event.type == EventType.RETRY_SCHEDULED:
        return not any(word in event.metadata for word in ("in_doubt_resend", "doubt_withdrawn"))
    return event.type == EventType.IN_DOUBT and "WORKER_LOST" not in event.metadata


def _bounded(number: int, steps: int) -> settings:
    return settings(
        max_examples=examples(number),
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),  # Phase.shrink would shorten a failing example, but takes minutes.
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.promise("audit-identity")
@pytest.mark.promise("any-order")
@pytest.mark.many
def test_any_order_of_operations_is_safe_on_sqlite(tmp_path: Path, empty_sqlite: bytes) -> None:
    async def nothing() -> None:
        """Do nothing, because the next example overwrites the file."""

    async def open_database() -> tuple[Database, Callable[[], Awaitable[None]]]:
        for file in tmp_path.iterdir():
            file.unlink()
        (tmp_path / "any.db").write_bytes(empty_sqlite)
        return Database(f"sqlite:///{tmp_path}/any.db"), nothing

    run_state_machine_as_test(lambda: Outbox(open_database), settings=_bounded(15, 30))


@pytest.mark.promise("audit-identity")
@pytest.mark.promise("any-order")
@pytest.mark.many
def test_any_order_of_operations_is_safe_on_postgresql(postgres_server: PostgresServer) -> None:
    async def open_database() -> tuple[Database, Callable[[], Awaitable[None]]]:
        url = await postgres_server.create()
        return Database(url), lambda: postgres_server.drop(url)

    run_state_machine_as_test(lambda: Outbox(open_database), settings=_bounded(10, 25))
