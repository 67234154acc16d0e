"""Limit how many messages an API key submits per minute, so that a loop in one application cannot fill the outbox."""

from typing import Final

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import MailwrightError

# Far more keys than one installation has.
_MAX_KEYS: Final = 10_000


class IntakeRateExceeded(MailwrightError):
    """The API key submitted too many messages. Wait, then try again."""

    def __init__(self, per_minute: int, retry_after_seconds: int) -> None:
        super().__init__(f"At most {per_minute:,} messages per minute; try again in {retry_after_seconds} seconds")


class IntakeRate:
    """A token bucket for each key, which holds the messages of one minute."""

    def __init__(self, clock: Clock, per_minute: int | None) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._used_until: dict[str, Instant] = {}  # Until when the messages of each key use up the rate.

    def take(self, key: str, messages: int) -> None:
        """Count the messages of an email, or raise if not even one is left. The last email may exceed the rate."""
        if self._per_minute is None:
            return
        now = self._clock.now()
        used_until = max(self._used_until.get(key, 0), now)
        if (excess := used_until + MINUTE // self._per_minute - now - MINUTE) > 0:
            raise IntakeRateExceeded(self._per_minute, -(-excess // SECOND))
        if len(self._used_until) >= _MAX_KEYS:
            self._used_until.clear()
        self._used_until[key] = used_until + messages * MINUTE // self._per_minute
