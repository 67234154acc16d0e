"""Learn from throttling how many messages per second a provider accepts.

After throttled responses the rate drops slightly below the rate accepted in the last seconds. It rises again slowly
while the provider accepts everything. Each worker learns from its own responses and limits only itself. Workers that
share an account are all throttled, so the sum of their rates settles near the account's limit.
"""

from collections import deque

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult

# The accepted rate is measured over this period. After a longer gap without responses, the measurement starts again.
MEASURED: Instant = 2 * SECOND
# The rate drops if at least this share and this number of responses are throttled. Fewer throttled messages may have
# been throttled for their recipients.
THROTTLED_SHARE = 0.05
THROTTLED_MESSAGES = 2
# The rate drops to this share of the accepted rate, but not below the minimum.
KEPT_SHARE = 0.95
MIN_RATE = 0.2
# The rate rises by this share, and at least by this amount, after each second in which it was used fully and every
# message was accepted.
RISE_SHARE = 0.02
MIN_RISE = 0.25
USED_SHARE = 0.8
# Messages are admitted about a second ahead, so a new rate takes effect after this time.
SETTLES_AFTER: Instant = 1_200
# After a drop to less than this share, nearly all messages that were admitted at the old rate will be throttled.
DEEP_DROP = 0.7
# A provider that has accepted nothing for this long is down and not only throttling.
ACCEPTS_WITHIN: Instant = 3 * SECOND
# Without another drop, the rate is forgotten after this long.
FORGOTTEN_AFTER: Instant = 10 * MINUTE


class LearnedRate:
    """The rate of one provider as one worker sees it; None until the provider throttles."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate: float | None = None
        self._accepted: deque[Instant] = deque()  # The times of the accepted responses that are measured.
        self._throttled: deque[Instant] = deque()
        self._measured_since: Instant = 0
        self._responded_at: Instant = 0
        self._accepted_at: Instant = 0
        self._changed_at: Instant = 0
        self._lowered_at: Instant = 0
        self._learned_at: Instant = 0  # When the rate was learned first, or dropped deeply.

    @property
    def per_second(self) -> float | None:
        if self._rate is not None and self._clock.now() - self._lowered_at >= FORGOTTEN_AFTER:
            self._rate = None
        return self._rate

    def applied_to(self, attempted_at: Instant) -> bool:
        """Return whether the rate limited an attempt at this time and the provider currently accepts messages."""
        if self.per_second is None or self._clock.now() - self._accepted_at > ACCEPTS_WITHIN:
            return False
        return attempted_at >= self._learned_at + SETTLES_AFTER

    def record(self, result: SendResult, attempted_at: Instant) -> None:
        """Record a result. If the provider requests a pause, the circuit breaker pauses it instead."""
        is_accepted = result.kind is ResultKind.SENT
        if not is_accepted and (result.category is not ErrorCategory.QUOTA or result.retry_after is not None):
            return
        now = self._clock.now()
        if is_accepted:
            self._accepted_at = now
        if self._rate is not None and attempted_at < self._lowered_at + SETTLES_AFTER:
            return  # The attempt was made at the previous rate.
        self._start_measuring(now)
        (self._accepted if is_accepted else self._throttled).append(now)
        if is_accepted:
            self._raise(now)
        else:
            self._lower(now)

    def _start_measuring(self, now: Instant) -> None:
        if not 0 <= now - self._responded_at <= MEASURED:
            self._accepted.clear()
            self._throttled.clear()
            self._measured_since = now
        self._responded_at = now
        for responses in (self._accepted, self._throttled):
            while responses and responses[0] < now - MEASURED:
                responses.popleft()

    def _accepted_per_second(self, now: Instant) -> float:
        # Measure over at least a second, because the first responses of a burst do not show a rate yet.
        measured = max(SECOND, now - max(self._measured_since, now - MEASURED))
        return len(self._accepted) * SECOND / measured

    def _lower(self, now: Instant) -> None:
        throttled, rate = len(self._throttled), self.per_second
        if throttled < max(THROTTLED_MESSAGES, THROTTLED_SHARE * (throttled + len(self._accepted))):
            return
        if not self._accepted or (rate is not None and now - self._measured_since < SECOND):
            return
        lower = max(MIN_RATE, KEPT_SHARE * self._accepted_per_second(now))
        if rate is not None and lower >= rate:
            return
        if rate is None or lower < DEEP_DROP * rate:
            self._learned_at = now
        self._rate = lower
        self._lowered_at = self._changed_at = now
        self._responded_at = 0  # Measure the new rate from its first response on.

    def _raise(self, now: Instant) -> None:
        rate = self.per_second
        if rate is None or self._throttled or now - max(self._changed_at, self._measured_since) < SECOND:
            return
        if self._accepted_per_second(now) >= USED_SHARE * rate:
            self._rate = rate + max(MIN_RISE, RISE_SHARE * rate)
            self._changed_at = now
