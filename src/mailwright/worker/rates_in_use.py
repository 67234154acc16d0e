"""Track the send rates that the messages of a worker use."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import ceil

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import PacingRules, SendRate
from mailwright.outbox.ledger import TAKE_OVER, Booking, RateCheckpoint

# How far ahead send times are booked. Booking all of them costs one commit, as booking a single one would.
AHEAD: Instant = 200


@dataclass(slots=True)
class SendTime:
    """A booked send time."""

    time_us: int  # In microseconds, by the clock that all workers share.
    starts_at: float  # The same time by this process's monotonic clock.


class RatesInUse:
    def __init__(self) -> None:
        self.checkpoints: dict[
            str, RateCheckpoint
        ] = {}  # The ledger's state of each rate after this worker's last booking.
        self._ahead: Counter[str] = Counter()  # Booked send times that have not passed, by rate.
        self._booked_alone: Counter[str] = Counter()  # Booked messages, by owner that sends one at a time.
        self._exact: set[str] = set()
        self._started: dict[str, float] = {}  # When the last send of each exact rate started.
        self._late_us: dict[str, int] = {}  # How late that send started.

    def can_book(self, pacing: PacingRules, apart_us: int) -> bool:
        """Return whether to book more. `apart_us` is the distance of messages that are sent one at a time."""
        if not pacing.rates:
            return not any(self._booked_alone[owner] > 0 for owner in pacing.alone)
        has_few = all(self._booked_alone[owner] * 2 <= _most_alone(apart_us) for owner in pacing.alone)
        return has_few and all(self._ahead[rate.name] * 2 <= _most_ahead(rate) for rate in pacing.rates)

    def room(self, pacing: PacingRules, apart_us: int) -> int:
        alone = [_most_alone(apart_us) - self._booked_alone[owner] for owner in pacing.alone]
        return min([*alone, *(_most_ahead(rate) - self._ahead[rate.name] for rate in pacing.rates)])

    def remember(self, rates: Sequence[SendRate], booking: Booking) -> None:
        for rate in rates:
            left_at = booking.left_at[rate.name]
            self.checkpoints[rate.name] = RateCheckpoint(left_at, left_at // 2)
            self._exact |= {rate.name} if rate.is_exact else set()

    def count(self, pacing: PacingRules, number: int) -> None:
        """Count booked messages.

        An owner that sends one at a time books the next message while one is in flight, so that the next can start as
        soon as that one ends.
        """
        self.count_rates(pacing, number)
        self.count_alone(pacing, number)

    def count_rates(self, pacing: PacingRules, number: int) -> None:
        for rate in pacing.rates:
            self._ahead[rate.name] += number

    def count_alone(self, pacing: PacingRules, number: int) -> None:
        for owner in pacing.alone:
            self._booked_alone[owner] += number

    # Exact rates: the next interval begins when the last send really started.

    def earliest_starts(self, pacing: PacingRules, send_time: SendTime) -> Iterator[float]:
        """Yield the earliest start of a message by each exact rate."""
        for rate in pacing.rates:
            if rate.is_exact and (last := self._started.get(rate.name)) is not None:
                earliest = last + rate.interval_us / 1_000_000
                # A larger gap means that the shared clock was changed.
                if earliest - send_time.starts_at <= TAKE_OVER / 2_000:
                    yield earliest

    def record_start(self, pacing: PacingRules, now: float, late_seconds: float) -> None:
        for rate in pacing.rates:
            self._ahead[rate.name] -= 1
            if rate.is_exact:
                self._started[rate.name] = now
                self._late_us[rate.name] = max(0, ceil(late_seconds * 1_000_000))
                checkpoint = self.checkpoints[rate.name]
                next_us = checkpoint.left_at // 2 + self._late_us[rate.name]
                self.checkpoints[rate.name] = RateCheckpoint(checkpoint.left_at, next_us)

    def note_start(self, pacing: PacingRules, now: float) -> None:
        """Record that a send has started, so that the next interval of its exact rates begins now."""
        for rate in pacing.rates:
            if rate.is_exact:
                self._started[rate.name] = now

    # Returning unused rates and send times.

    def unused(self, wanted: Collection[str]) -> list[str]:
        """List the rates that no message of this worker needs any more, so that other workers can use them at once."""
        return [name for name in self.checkpoints if name not in wanted and self._ahead[name] <= 0]

    def is_worth_returning(self, name: str) -> bool:
        checkpoint = self.checkpoints[name]
        return name in self._exact or checkpoint.next_us < checkpoint.left_at // 2

    def return_send_time(self, pacing: PacingRules, send_time: SendTime) -> None:
        """Make an unused send time available to other workers, unless a later send time has been booked."""
        for rate in pacing.rates:
            if rate.batch_size == 1:  # With larger batches several messages share a send time, and others may use it.
                self._return(rate, send_time)

    def return_exact_send_time(self, pacing: PacingRules, send_time: SendTime) -> None:
        """Return an unused send time of the exact rates only; other workers may use later send times of other rates."""
        for rate in pacing.rates:
            if rate.is_exact:
                self._return(rate, send_time)

    def _return(self, rate: SendRate, send_time: SendTime) -> None:
        checkpoint = self.checkpoints[rate.name]
        next_us = min(checkpoint.next_us, send_time.time_us + self._late_us.get(rate.name, 0))
        self.checkpoints[rate.name] = RateCheckpoint(checkpoint.left_at, next_us)


def _most_alone(apart_us: int) -> int:
    return max(1, ceil(AHEAD * 1_000 / max(1, apart_us)))


def _most_ahead(rate: SendRate) -> int:
    return max(1, ceil(AHEAD * 1_000 / rate.interval_us)) * rate.batch_size
