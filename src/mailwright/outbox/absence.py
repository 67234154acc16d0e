"""Remember when a worker last ran, to know which scheduled messages became due while none did."""

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.message import Claimed, Source
from mailwright.domain.schedule import OVERDUE_AFTER
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.storage.database import Database

_NAME = "worker_ran_at"
# How often a running worker records that it runs. A shorter gap is no absence.
RECORD_EVERY: Instant = MINUTE


class WorkerAbsence:
    """The time in which no worker ran, as one worker sees it.

    A worker reads at its start when one ran last. A gap between two of its own records is an absence too: its machine
    was suspended.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._since: Instant | None = None  # The start of the last absence; None before the first record.
        self._until: Instant = 0  # Its end.
        self._recorded_at: Instant = 0

    async def record(self) -> None:
        """Record that a worker runs. Call this before the first claim, and often."""
        now = self._clock.now()
        if self._since is not None and 0 <= now - self._recorded_at < RECORD_EVERY:
            return
        async with self._database.write() as tx:
            ran_at = int(await load_value(tx, _NAME) or 0)
            if ran_at < now:
                await store_value(tx, _NAME, str(now))
        if self._since is None or now - ran_at > OVERDUE_AFTER:
            self._since, self._until = ran_at, now
        self._recorded_at = now

    def has_missed(self, claimed: Claimed) -> bool:
        """Return whether the send time of a message passed over a day ago, while no worker ran.

        A message that limits delayed is sent: a worker ran when it became due. Copies and messages of campaigns and
        sequences follow other rules.
        """
        due_at = claimed.scheduled_at
        if due_at is None or claimed.source != Source.API or claimed.attempts or "copy" in claimed.payload:
            return False
        if claimed.expires_at is not None and claimed.expires_at <= claimed.received_at:
            return False  # It has expired, which is the reason to state.
        is_late = claimed.received_at - due_at > OVERDUE_AFTER
        return is_late and self._since is not None and self._since < due_at <= self._until
