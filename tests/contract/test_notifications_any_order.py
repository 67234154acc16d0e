"""Queues under any order of events: whatever workers, crashes and operators do, attempts are counted exactly."""

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.domain.outgoing import Outgoing
from mailwright.domain.results import ResultKind, SendResult
from mailwright.outbox.audit import audit
from mailwright.sources.notifications.fanout import Fanout
from tests.builders import FAULT, REFUSAL, SENT, UNKNOWN
from tests.engines import PostgresServer
from tests.notifications import MOST, Stand, a_stand, drop_schema, make_tables
from tests.standins.provider import ScriptedProvider

ROWS = 3
ANSWERS = {"sent": SENT, "fault": FAULT, "refusal": REFUSAL, "unknown": UNKNOWN}
WORKERS = ("mine", "theirs")

steps = st.one_of(
    st.tuples(st.sampled_from(["take", "tell", "take_and_die", "tell_and_die", "give_back"]), st.sampled_from(WORKERS)),
    st.tuples(st.just("send"), st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=ROWS)),
    st.tuples(st.just("wait"), st.sampled_from([1, 2_000, 60_000, 121_000])),
    st.tuples(st.just("requeue"), st.none()),
)


class Died(Exception):
    """The worker's process has ended here."""


class History:
    """What really happened, beside what the rows say."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._completed: Counter[str] = Counter()  # by recipient: answers that are results
        self._before: Counter[str] = Counter()  # of those, what was before the row was requeued
        self._sent: Counter[str] = Counter()
        self._doubted: set[str] = set()

    async def step(self, name: str, detail: Any) -> None:
        match name:
            case "send":
                await self._send([ANSWERS[each] for each in detail])
            case "wait":
                self._stand.advance(detail)
            case "requeue":
                await self._requeue()
            case _:
                await getattr(self, f"_{name}")(await self._stand.fanout(detail))

    async def end(self) -> None:
        """Everything is let run out, and then the sums must be right to the last one."""
        for _ in range(8):
            self._stand.advance(121_000)
            fanout = await self._stand.fanout("last")
            await fanout.reconcile()
            await fanout.take(MOST)
            await self._send([])
            await fanout.reconcile()
        rows = await self._stand.seats.rows()
        for row in rows:
            reader = f"reader{row.subscription_id}@example.com"
            assert row.fanout_status in {"sent", "failed"}, row
            assert row.locked_by is None
            assert row.fanout_attempts == self._completed[reader] - self._before[reader], (row, self._completed)
            assert self._sent[reader] <= 1 or reader in self._doubted
        told = Counter(each.subscription_id for each in await self._stand.seats.timeline())
        assert told == {row.subscription_id: 1 for row in rows if row.fanout_status == "sent"}
        assert (await audit(self._stand.bench.database)).ok

    async def _take(self, fanout: Fanout) -> None:
        await fanout.take(MOST)

    async def _tell(self, fanout: Fanout) -> None:
        await fanout.reconcile()

    async def _give_back(self, fanout: Fanout) -> None:
        await fanout.give_back()

    async def _take_and_die(self, fanout: Fanout) -> None:
        await self._dying(fanout, "_hand_over", fanout.take(MOST))

    async def _tell_and_die(self, fanout: Fanout) -> None:
        await self._dying(fanout, "_end_links", fanout.reconcile())

    async def _dying(self, fanout: Fanout, where: str, doing: Any) -> None:
        async def die(*_: Any) -> None:
            raise Died

        setattr(fanout, where, die)
        with suppress(Died):
            await doing

    async def _send(self, answers: list[SendResult]) -> None:
        left = list(answers)

        def answer(mail: Outgoing) -> SendResult:
            result = left.pop(0) if left else SENT
            reader = mail.recipients[0]
            if result.kind is ResultKind.IN_DOUBT:
                self._doubted.add(reader)
            else:
                self._completed[reader] += 1
                self._sent[reader] += result.kind is ResultKind.SENT
            return result

        await self._stand.bench.drain(ScriptedProvider(*[answer] * 100))

    async def _requeue(self) -> None:
        """As the contract has it: three columns, by hand."""
        for row in await self._stand.seats.rows():
            if row.fanout_status == "failed":
                reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
                await self._stand.seats.change("open_event_notifications", row.notification_id, **reset)
                reader = f"reader{row.subscription_id}@example.com"
                self._before[reader] = self._completed[reader]


async def play(stand: Stand, history: list[tuple[str, Any]]) -> None:
    for _ in range(ROWS):
        await stand.seats.notification()
    what_happened = History(stand)
    for name, detail in history:
        await what_happened.step(name, detail)
    await what_happened.end()


EXAMPLES = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.promise("notify-attempts")
@pytest.mark.timeout(600)
def test_attempts_are_exactly_those_completed_in_any_history_on_sqlite(empty_sqlite: bytes) -> None:
    @EXAMPLES
    @given(st.lists(steps, min_size=4, max_size=12))
    def any_history(history: list[tuple[str, Any]]) -> None:
        async def run() -> None:
            with tempfile.TemporaryDirectory(prefix="mwnotify") as folder:
                (Path(folder) / "mailwright.db").write_bytes(empty_sqlite)
                theirs = f"sqlite:///{folder}/queue.db"
                await make_tables(theirs)
                async with a_stand(f"sqlite:///{folder}/mailwright.db", theirs, None, ManualClock()) as stand:
                    await play(stand, history)

        asyncio.run(run())

    any_history()


@pytest.mark.promise("notify-attempts")
@pytest.mark.timeout(600)
def test_attempts_are_exactly_those_completed_in_any_history_on_postgresql(postgres_server: PostgresServer) -> None:
    @EXAMPLES
    @given(st.lists(steps, min_size=4, max_size=12))
    def any_history(history: list[tuple[str, Any]]) -> None:
        async def run() -> None:
            url = await postgres_server.create()
            await make_tables(url, "seats")
            try:
                async with a_stand(url, url, "seats", ManualClock()) as stand:
                    await play(stand, history)
            finally:
                await drop_schema(url, "seats")
                await postgres_server.drop(url)

        asyncio.run(run())

    any_history()
