"""Pacing while other tasks of the worker give messages back."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.permits import PacingRules, SendRate
from mailwright.outbox.ledger import Booking, Ledger
from mailwright.pipeline.conclude import ReadyMessage
from mailwright.worker.pacing import Pacing

RATE = SendRate("rate", 1_000_000, "rate_per_second")


def a_ready_message(lane: int) -> ReadyMessage:
    claimed = SimpleNamespace(lane=lane, resends=0, message_key=lane)
    return cast("ReadyMessage", SimpleNamespace(claimed=claimed, pacing=PacingRules((RATE,))))


class InterruptedLedger:
    """Calls another task's work while a booking is under way."""

    def __init__(self, opens_at: int = 0) -> None:
        self.interrupt: Callable[[], object] = lambda: None
        self._opens_at = opens_at

    async def book(self, _rates: Any, wanted: int, _known: Any, _spacing: Any) -> Booking:
        self.interrupt()
        slots = () if self._opens_at else tuple(range(wanted))
        return Booking(slots, {"rate": 0}, self._opens_at)

    async def release_rates(self, _known: Any) -> None:
        """Do nothing, because no other worker shares these rates."""


@pytest.mark.parametrize("opens_at", [0, 5_000], ids=["booked", "in use elsewhere"])
@pytest.mark.parametrize("clears_lane", [True, False], ids=["lane", "all"])
async def test_messages_given_back_during_a_booking_are_not_booked(opens_at: int, clears_lane: bool) -> None:
    ledger = InterruptedLedger(opens_at)
    pacing = Pacing(ManualClock(), cast("Ledger", ledger))
    first, second = a_ready_message(1), a_ready_message(2)
    pacing.add(first)
    pacing.add(second)
    given_back: list[ReadyMessage] = []
    ledger.interrupt = lambda: given_back.extend(pacing.clear_lane(1) if clears_lane else pacing.clear())
    stranded = [message for lane in await pacing.book() for message in lane.messages]
    left = [*pacing.waiting(), *stranded]
    assert given_back == ([first] if clears_lane else [first, second])
    assert left == ([second] if clears_lane else [])
