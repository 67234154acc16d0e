"""Queues under any order of events: whatever workers, crashes and operators do, attempts are counted exactly."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
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
from tests.notifications import MOST, PLACES, Stand, a_stand_at
from tests.standins.provider import ScriptedProvider

ROWS = 3
ANSWERS = {"sent": SENT, "fault": FAULT, "refusal": REFUSAL, "throttle": THROTTLE, "unknown": UNKNOWN}
WORKERS = ("mine", "theirs")

steps = st.one_of(
    st.tuples(
        st.sampled_from(["take", "tell", "take_and_die", "tell_and_die", "renew", "give_back"]),
        st.sampled_from(WORKERS),
    ),
    st.tuples(st.just("send"), st.lists(st.sampled_from(sorted(ANSWERS)), min_size=1, max_size=ROWS)),
    st.tuples(st.just("wait"), st.sampled_from([1, 2_000, 60_000, 121_000])),
    st.tuples(st.just("requeue"), st.none()),
)


class Died(Exception):
    """The worker's process has ended here."""


class History:
    """What really happened, beside what the rows say."""

    def __init__(self, stand: Stand, notification_ids: list[int]) -> None:
        self._stand = stand
        self._notification_ids = notification_ids
        self._workers: dict[str, NotificationFanout] = {}  # those that are alive
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
                await getattr(self, f"_{name}")(await self._worker(detail))

    async def end(self) -> None:
        """Everything is let run out, and then the sums must be right to the last one."""
        for _ in range(8):
            self._stand.advance(121_000)
            fanout = await self._worker("last")
            await fanout.record_results()
            await fanout.claim_due(MOST)
            await self._send([])
            await fanout.record_results()
            rows = await self._rows()
            if not any(row.fanout_status == "pending" for row in rows):
                break
        for row in rows:
            reader = f"reader{row.subscription_id}@example.com"
            assert row.fanout_status in {"sent", "failed"}, row
            assert row.locked_by is None
            assert row.fanout_attempts == self._completed[reader] - self._before[reader], (row, self._completed)
            assert self._sent[reader] <= 1 or reader in self._doubted
        ours = {row.subscription_id for row in rows}
        timeline = await self._stand.seats.timeline()
        told = Counter(each.subscription_id for each in timeline if each.subscription_id in ours)
        assert told == {row.subscription_id: 1 for row in rows if row.fanout_status == "sent"}
        assert (await audit(self._stand.bench.database)).ok

    async def _rows(self) -> list[Any]:
        return [row for row in await self._stand.seats.rows() if row.notification_id in self._notification_ids]

    async def _worker(self, name: str) -> NotificationFanout:
        if name not in self._workers:
            self._workers[name] = await self._stand.fanout(name)
        return self._workers[name]

    async def _take(self, fanout: NotificationFanout) -> None:
        await fanout.claim_due(MOST)

    async def _tell(self, fanout: NotificationFanout) -> None:
        await fanout.record_results()

    async def _renew(self, fanout: NotificationFanout) -> None:
        await fanout.renew_locks()

    async def _give_back(self, fanout: NotificationFanout) -> None:
        await fanout.release_locks()

    async def _take_and_die(self, fanout: NotificationFanout) -> None:
        await self._dying(fanout, "_hand_over", fanout.claim_due(MOST))

    async def _tell_and_die(self, fanout: NotificationFanout) -> None:
        await self._dying(fanout, "_end_links", fanout.record_results())

    async def _dying(self, fanout: NotificationFanout, where: str, doing: Any) -> None:
        async def die(*_: Any) -> None:
            raise Died

        setattr(fanout, where, die)
        with suppress(Died):
            await doing
        self._workers = {name: each for name, each in self._workers.items() if each is not fanout}

    async def _send(self, answers: list[SendResult]) -> None:
        left = list(answers)

        def answer(mail: OutgoingMessage) -> SendResult:
            result = left.pop(0) if left else SENT
            reader = mail.recipients[0]
            if result.kind is ResultKind.IN_DOUBT:
                self._doubted.add(reader)
            elif result is not THROTTLE:
                self._completed[reader] += 1
                self._sent[reader] += result.kind is ResultKind.SENT
            return result

        await self._stand.bench.drain(ScriptedProvider(*[answer] * 100))

    async def _requeue(self) -> None:
        """As the contract has it: three columns, by hand."""
        for row in await self._rows():
            if row.fanout_status == "failed":
                reset = {"fanout_status": "pending", "fanout_attempts": 0, "error": None}
                await self._stand.seats.change("open_event_notifications", row.notification_id, **reset)
                reader = f"reader{row.subscription_id}@example.com"
                self._before[reader] = self._completed[reader]


async def play(stand: Stand, history: list[tuple[str, Any]]) -> None:
    what_happened = History(stand, [await stand.seats.notification() for _ in range(ROWS)])
    for name, detail in history:
        await what_happened.step(name, detail)
    await what_happened.end()


EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(params=PLACES)
async def stand(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stand]:
    async with a_stand_at(request.param, request, tmp_path, clock) as stand:
        yield stand


@pytest.mark.promise("notify-attempts")
@pytest.mark.timeout(600)
async def test_attempts_are_exactly_those_completed_in_any_history(stand: Stand) -> None:
    """One history after the other, each with rows of its own, in one queue that fills up."""
    loop = asyncio.get_running_loop()

    @EXAMPLES
    @given(st.lists(steps, min_size=4, max_size=14))
    def any_history(history: list[tuple[str, Any]]) -> None:
        asyncio.run_coroutine_threadsafe(play(stand, history), loop).result()

    await asyncio.to_thread(any_history)
