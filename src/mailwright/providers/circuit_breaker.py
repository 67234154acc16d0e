"""The circuit breaker pauses a provider that is down, rejects our configuration or throttles us.

Messages that meet an open circuit breaker are deferred, and no attempt is counted.
"""

from enum import Enum

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.permits import Deferral, DeferReason
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult
from mailwright.domain.retry import LONGEST_OUTAGE_DELAY

# This many provider failures in a row open the circuit breaker; a configuration error opens it at once.
FAILURES_TO_OPEN = 5
SHORTEST: Instant = 10 * SECOND
LONGEST: Instant = 5 * MINUTE

# This many throttled messages in a row pause all sending. One or two may have been throttled for their recipients.
THROTTLES_TO_PAUSE = 3
SHORTEST_THROTTLE: Instant = SECOND
LONGEST_THROTTLE: Instant = MINUTE


class CircuitState(Enum):
    """The state of a circuit breaker. The metric exports these values."""

    CLOSED = 0  # Messages are sent.
    PROBING = 1  # The pause is over, but no message has succeeded yet: messages are sent one at a time.
    OPEN = 2  # Nothing is sent.


class CircuitBreaker:
    """Closed: messages are sent. Open: nothing is sent. After the pause, one message is sent as a probe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._throttles = 0
        self._pause = SHORTEST
        self._throttle_pause = SHORTEST_THROTTLE
        self._open_until: Instant | None = None
        self._reason = DeferReason.PROVIDER_UNAVAILABLE
        self.explanation: str | None = None
        self._unclear_probe: str | None = None  # The message whose probe failed and that may be the cause itself.
        self.opened_at: Instant | None = None  # When the circuit breaker opened last; None if it is closed.

    def record(
        self,
        result: SendResult,
        *,
        is_repeated: bool = False,
        is_paced: bool = False,
        failed_before: str | None = None,
    ) -> None:
        """Record a result.

        `is_repeated` means that the same message failed before, so the message may be the cause. `is_paced` means that
        a learned rate slows down sending, so that throttling without a retry-after needs no pause. `failed_before` is
        the ID of a message that failed before: if it fails as a probe, another message decides.
        """
        if result.pauses_provider:
            self._fail(result)
        elif result.category is ErrorCategory.QUOTA:
            self._throttle(result, is_paced=is_paced)
        elif result.blames_provider and result.kind is not ResultKind.SENT:
            self._failures += not is_repeated
            self._throttles = 0
            if self.is_probing:
                if not is_repeated and not self._awaits_another_probe(failed_before):
                    self._fail(result)
            elif self._failures >= FAILURES_TO_OPEN:
                self._fail(result)
        elif result.kind is ResultKind.SENT or result.code is not None:
            self._record_response()

    @property
    def state(self) -> CircuitState:
        if self._open_until is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if self._clock.now() < self._open_until else CircuitState.PROBING

    @property
    def is_probing(self) -> bool:
        return self._open_until is not None and self._clock.now() >= self._open_until

    def deferral(self) -> Deferral | None:
        if self._open_until is None or self._clock.now() >= self._open_until:
            return None
        return Deferral(self._open_until, self._reason)

    def outage(self) -> Deferral | None:
        """Return the deferral while the provider is unavailable. It lasts until a probe succeeds."""
        return None if self._open_until is None else Deferral(self._open_until, self._reason)

    def deferred_until(self) -> Instant:
        """Return when a message that met the open circuit breaker is due again."""
        return self._open_until or self._clock.now() + SHORTEST

    def _fail(self, result: SendResult) -> None:
        now = self._clock.now()
        is_throttled = self._reason is DeferReason.PROVIDER_THROTTLED
        if self._open_until is not None and not is_throttled:
            if now < self._open_until:
                return  # The message was in flight when the circuit breaker opened.
            # A provider that is down is probed often, so that sending resumes soon after it is back. Wrong settings are
            # probed rarely: they stay wrong until someone corrects them, and repeated logins can lock an account.
            self._pause = min(2 * self._pause, LONGEST if result.pauses_provider else LONGEST_OUTAGE_DELAY)
        self._open(now + self._pause, DeferReason.PROVIDER_UNAVAILABLE, result)

    def _awaits_another_probe(self, failed_before: str | None) -> bool:
        """Return whether a failed probe proves nothing yet, because its message failed before and may be the cause."""
        if failed_before is None or self._unclear_probe not in (None, failed_before):
            return False
        self._unclear_probe = failed_before
        return True

    def _throttle(self, result: SendResult, *, is_paced: bool) -> None:
        self._failures = 0
        self._throttles = 0 if is_paced and result.retry_after is None else self._throttles + 1
        if self._open_until is not None and self._clock.now() < self._open_until:
            return
        if result.retry_after is None and self._throttles < THROTTLES_TO_PAUSE and not self._is_slowed:
            self._close()  # The outage is over, because the provider responded.
            return
        # A retry-after of hours may concern one message only, so limit the pause; then a probe follows.
        pause = max(self._throttle_pause, min(result.retry_after or 0, LONGEST))
        self._throttle_pause = min(2 * self._throttle_pause, LONGEST_THROTTLE)
        self._open(self._clock.now() + pause, DeferReason.PROVIDER_THROTTLED, result)

    def _record_response(self) -> None:
        self._failures = self._throttles = 0
        if self._open_until is not None and self._is_slowed and not self.is_probing:
            return  # The message was in flight when others were throttled; the pause is only for later messages.
        self._throttle_pause = SHORTEST_THROTTLE
        self._close()

    @property
    def _is_slowed(self) -> bool:
        return self._open_until is not None and self._reason is DeferReason.PROVIDER_THROTTLED

    def _open(self, until: Instant, reason: DeferReason, result: SendResult) -> None:
        self.opened_at, self._open_until, self._reason = self._clock.now(), until, reason
        self._unclear_probe = None
        self.explanation = f"{result.code}: {result.message}" if result.message else result.code

    def _close(self) -> None:
        self._pause = SHORTEST
        self._unclear_probe = None
        self.opened_at = self._open_until = None
        self.explanation = None
