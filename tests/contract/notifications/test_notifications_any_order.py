"""Attempts are counted exactly under any sequence of workers, crashes and operator actions."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ResultKind, SendResult
from mailwright.outbox.audit import audit
from mailwright.sources.notifications.fanout import NotificationFanout
from tests.builders import FAULT, REFUSAL, SENT, THROTTLE, UNKNOWN
from tests.examples import examples
from tests.notifications import MOST, PLACES, HookedDatabase, QueueSetup, a_queue_setup_at
from tests.standins.provider import ScriptedProvider

ROWS = 3
DOWN = replace(FAULT, code="NETWORK_ERROR", is_deferral=True, blames_provider=True, is_completed=False)
RESPONSES = {
    "sent": SENT,
    "fault": FAULT,
    "refusal": REFUSAL,
    "throttle": THROTTLE,
    "unknown": UNKNOWN,
    "down": DOWN,
}
WORKERS = ("mine", "theirs")

steps = st.one_of(
    st.tuples(
        st.sampled_from(["claim", "record", "claim_and_crash", "record_and_crash", "renew", "release"]),
        st.sampled_from(WORKERS),
    ),
    st.tuples(st.just("send"), st.lists(st.sampled_from(sorted(RESPONSES)), min_size=1, max_size=ROWS)),
    st.tuples(st.just("wait"), st.sampled_from([1, 2_000, 60_000, 121_000])),
    st.tuples(st.just("requeue"), st.none()),
)


class Crash(Exception):
    """Simulates the end of the worker process."""


class History:
    """Records what really happened, to compare it with the rows."""

    def __init__(self, setup: QueueSetup, notification_ids: list[int]) -> None:
        self._setup = setup
        self._notification_ids = notification_ids
        self._workers: dict[str, NotificationFanout] = {}  # live workers
        self._databases: dict[NotificationFanout, HookedDatabase] = {}
        self._completed: Counter[str] = Counter()  # completed attempts by recipient
        self._before: Counter[str] = Counter()  # of these, attempts before the row was requeued
        self._sent: Counter[str] = Counter()
        self._doubted: set[str] = set()

    async def step(self, name: str, detail: Any) -> None:
        match name:
            case "send":
                await self._send([RESPONSES[each] for each in detail])
            case "wait":
                self._setup.advance(detail)
            case "requeue":
                await self._requeue()
            case _:
                await getattr(self, f"_{name}")(await self._worker(detail))

    async def end(self) -> None:
        """Run until nothing is pending and compare all counts."""
        for _ in range(8):
            self._setup.advance(121_000)
            fanout = await self._worker("last")
            await fanout.record_results()
            await fanout.claim_due(MOST)
            await self._send([])
            await fanout.record_results()
            rows = await self._rows()
            if not any(row.fanout_status == "pending" for row in rows):
                break
        for row in rows:
            recipient = f"reader{row.subscription_id}@example.com"
            assert row.fanout_status in {"sent", "failed"}, row
            assert row.locked_by is None
            assert row.fanout_attempts == self._completed[recipient] - self._before[recipient], (row, self._completed)
            assert self._sent[recipient] <= 1 or recipient in self._doubted
        ours = {row.subscription_id for row in rows}
        timeline = await self._setup.owner.timeline()
        sent = Counter(each.subscription_id for each in timeline if each.subscription_id in ours)
        assert sent == {row.subscription_id: 1 for row in rows if row.fanout_status == "sent"}
        assert (await audit(self._setup.bench.database)).ok

    async def _rows(self) -> list[Any]:
        return [row for row in await self._setup.owner.rows() if row.notification_id in self._notification_ids]

    async def _worker(self, name: str) -> NotificationFanout:
        if name not in self._workers:
            database = HookedDatabase(self._setup.bench.database)
            self._workers[name] = await self._setup.fanout(name, database=database)
            self._databases[self._workers[name]] = database
        return self._workers[name]

    async def _claim(self, fanout: NotificationFanout) -> None:
        await fanout.claim_due(MOST)

    async def _record(self, fanout: NotificationFanout) -> None:
        await fanout.record_results()

    async def _renew(self, fanout: NotificationFanout) -> None:
        await fanout.locks.renew()

    async def _release(self, fanout: NotificationFanout) -> None:
        await fanout.locks.release()

    async def _claim_and_crash(self, fanout: NotificationFanout) -> None:
        await self._crash(fanout, fanout.claim_due(MOST))

    async def _record_and_crash(self, fanout: NotificationFanout) -> None:
        await self._crash(fanout, fanout.record_results())

    async def _crash(self, fanout: NotificationFanout, call: Any) -> None:
        """Crash at the first write to the own database, after the commit in the queue's database."""

        async def die() -> None:
            raise Crash

        self._databases[fanout].before_transact = die
        with suppress(Crash):
            await call
        self._workers = {name: worker for name, worker in self._workers.items() if worker is not fanout}

    async def _send(self, responses: list[SendResult]) -> None:
        remaining = list(responses)

        def respond(message: OutgoingMessage) -> SendResult:
            result = remaining.pop(0) if remaining else SENT
            recipient = message.recipients[0]
            if result.kind is ResultKind.IN_DOUBT:
                self._doubted.add(recipient)
            if result is not DOWN:
                self._completed[recipient] += 1
                self._sent[recipient] += result.kind is ResultKind.SENT
            return result

        await self._setup.bench.drain(ScriptedProvider(*[respond] * 100))

    async def _requeue(self) -> None:
        """Requeue by SQL, as the contract describes."""
        for row in await self._rows():
            if row.fanout_status == "failed":
                reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
                await self._setup.owner.change("open_event_notifications", row.notification_id, **reset)
                recipient = f"reader{row.subscription_id}@example.com"
                self._before[recipient] = self._completed[recipient]


async def play(setup: QueueSetup, history: list[tuple[str, Any]]) -> None:
    recorded = History(setup, [await setup.owner.notification() for _ in range(ROWS)])
    for name, detail in history:
        await recorded.step(name, detail)
    await recorded.end()


EXAMPLES = settings(
    max_examples=examples(6),
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(params=PLACES)
async def setup(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[QueueSetup]:
    async with a_queue_setup_at(request.param, request, tmp_path, clock) as setup:
        yield setup


@pytest.mark.promise("notify-foreign-rows")
@pytest.mark.timeout(600)
@pytest.mark.many
async def test_attempts_are_exactly_those_completed_in_any_history(setup: QueueSetup) -> None:
    """Run many histories in one growing queue, each with rows of its own."""
    loop = asyncio.get_running_loop()

    @EXAMPLES
    @given(st.lists(steps, min_size=4, max_size=14))
    def any_history(history: list[tuple[str, Any]]) -> None:
        asyncio.run_coroutine_threadsafe(play(setup, history), loop).result()

    await asyncio.to_thread(any_history)
