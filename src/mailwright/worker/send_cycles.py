"""Measure the time that an owner that sends one at a time needs per message: begin, send, response.

Send times at shorter intervals would pass while the previous message is still in flight, and the worker would have to
book each of them again.
"""

from collections import Counter
from collections.abc import Iterable

from mailwright.domain.permits import PacingRules

# The weight of the latest message in the moving average.
NEWEST_SHARE = 0.25
EARLY_SHARE = 0.75


class SendCycles:
    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}  # The moving average, by owner.
        self._last_slots: dict[str, int] = {}  # The last booked send time in microseconds, by owner.
        self._begun_at: dict[int, float] = {}  # By message key, plus the time spent waiting for the send time.
        self._in_flight: Counter[str] = Counter()  # Number of attempts begun and not ended, by owner.

    # Booking.

    def apart_us(self, pacing: PacingRules) -> int:
        """Return the distance between send times, or 0 if no message of these owners has ended yet.

        With exact rates, a message may start later than its send time, so a send time that is too early is better than
        one that is too late.
        """
        seconds = max((self._seconds.get(owner, 0.0) for owner in pacing.alone), default=0.0)
        share = EARLY_SHARE if all(rate.is_exact for rate in pacing.rates) else 1
        return int(seconds * share * 1_000_000)

    def earliest_us(self, pacing: PacingRules) -> int:
        """Return the earliest send time that the owners can meet after their last booked one."""
        return max((self._last_slots.get(owner, 0) for owner in pacing.alone), default=0) + self.apart_us(pacing)

    def note_slot(self, owners: Iterable[str], slot_us: int) -> None:
        for owner in owners:
            self._last_slots[owner] = slot_us

    def forget_slots(self, owners: Iterable[str]) -> None:
        """Forget booked send times that will not be used."""
        for owner in owners:
            self._last_slots.pop(owner, None)

    # Sending.

    def is_busy(self, owners: Iterable[str]) -> bool:
        """Return whether a message of these owners is in flight."""
        return any(self._in_flight[owner] > 0 for owner in owners)

    def begin(self, message_key: int, owners: Iterable[str], now: float) -> None:
        self._begun_at[message_key] = now
        self._in_flight.update(owners)

    def note_wait(self, message_key: int, seconds: float) -> None:
        """Exclude the time that a message waited for its send time."""
        if message_key in self._begun_at:
            self._begun_at[message_key] += seconds

    def end(self, message_key: int, owners: Iterable[str], now: float) -> None:
        self._in_flight.subtract(owners)
        begun_at = self._begun_at.pop(message_key, None)
        if begun_at is None:
            return
        for owner in owners:
            before = self._seconds.get(owner, now - begun_at)
            self._seconds[owner] = before + NEWEST_SHARE * (now - begun_at - before)

    def forget_begin(self, message_key: int) -> None:
        """Discard the measurement of a message that is not sent."""
        self._begun_at.pop(message_key, None)
