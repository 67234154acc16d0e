"""Rows that the queue refuses to change."""

from mailwright.domain.clock import MINUTE, Instant
from mailwright.ops.logs import logger

# How long a row is skipped after the queue refused to change it.
FAILING_ROW_PAUSE: Instant = 5 * MINUTE

log = logger(__name__)


class FailingRows:
    """Rows that the queue refuses to change, for example because of a trigger. Each is skipped for a while."""

    def __init__(self, event: str = "notification_row_failed") -> None:
        """`event` is logged for each row."""
        self._event = event
        self._until: dict[str, Instant] = {}  # by row key

    def contains(self, row_key: str, now: Instant) -> bool:
        return self._until.get(row_key, 0) > now

    def count(self, now: Instant) -> int:
        return sum(until > now for until in self._until.values())

    def add(self, row_key: str, now: Instant, row_id: int, error: Exception) -> None:
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[row_key] = now + FAILING_ROW_PAUSE
        log.error(self._event, row=row_id, reason=f"{type(error).__name__}: {error}")
