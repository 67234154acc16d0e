"""The circuit: a provider that is down or refuses us is left alone for a while, and no message pays for it."""

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.permits import Held
from mailwright.domain.results import Category, ResultKind, SendResult

REASON = "provider_unavailable"
# So many failures of the provider itself in a row open the circuit; a configuration error opens it at once.
FAILURES_TO_OPEN = 5
SHORTEST: Instant = 10 * SECOND
LONGEST: Instant = 5 * MINUTE


class Circuit:
    """Closed: mail flows. Open: nothing is claimed. When the time is over, one mail goes first to try."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._pause = SHORTEST
        self._open_until: Instant | None = None
        self.explanation: str | None = None

    def record(self, result: SendResult) -> None:
        if result.category is Category.CONFIGURATION:
            self._open(result)
        elif result.blames_provider and result.kind is not ResultKind.SENT:
            self._failures += 1
            if self._failures >= FAILURES_TO_OPEN or self.is_probing:
                self._open(result)
        elif result.kind is ResultKind.SENT or result.code is not None:
            self._close()

    def objection(self) -> Held | None:
        if self._open_until is None or self._clock.now() >= self._open_until:
            return None
        return Held(self._open_until, REASON)

    @property
    def is_probing(self) -> bool:
        """The pause is over and nothing has succeeded since: one mail at a time."""
        return self._open_until is not None and self._clock.now() >= self._open_until

    def held_until(self) -> Instant:
        """When a message that met the open circuit is due again."""
        return self._open_until or self._clock.now() + SHORTEST

    def _open(self, result: SendResult) -> None:
        now = self._clock.now()
        if self._open_until is not None and now < self._open_until:
            return  # more of what was in flight when it opened
        if self._open_until is not None:
            self._pause = min(2 * self._pause, LONGEST)
        self._open_until = now + self._pause
        self.explanation = f"{result.code}: {result.message}" if result.message else result.code

    def _close(self) -> None:
        self._failures = 0
        self._pause = SHORTEST
        self._open_until = None
        self.explanation = None
