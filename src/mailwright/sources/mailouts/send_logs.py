"""Write the outcome of each message of a mailout to `send_logs` in Supabase, exactly once."""

from collections.abc import Sequence
from typing import Any, Final

from mailwright.sources.mailouts.runs import RunLease
from mailwright.sources.mailouts.supabase import LogLine, Supabase
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

MARK_LOGGED = statement(__package__, "mark_logged")
UNLOGGED = statement(__package__, "unlogged")

LOG_BATCH_SIZE: Final = 1_000
MAX_LOG_BATCHES: Final = 10


class SendLogs:
    def __init__(self, database: Database, supabase: Supabase | None) -> None:
        self._database = database
        self._supabase = supabase

    async def write_batches(self, lease: RunLease) -> bool:
        """Write up to `MAX_LOG_BATCHES` batches. Return true if there may be more."""
        run, after = lease.run, ""
        if self._supabase is None or run.campaign_key is None:
            return False
        for _ in range(MAX_LOG_BATCHES):
            async with self._database.read() as tx:
                rows = await tx.run(UNLOGGED, campaign_key=run.campaign_key, after=after, limit=LOG_BATCH_SIZE)
            if not rows or (not after and not await self._supabase.has_logs()):
                return False
            await self._write_batch(lease, self._supabase, rows)
            after = rows[-1].to_email
        return True

    async def _write_batch(self, lease: RunLease, supabase: Supabase, rows: Sequence[Any]) -> None:
        """Write a batch. Rows that may exist already are searched for first."""
        doubtful = [row for row in rows if row.is_confirmed is not None and not row.is_confirmed]
        there = await supabase.logged(lease.run.page_id, [row.to_email for row in doubtful])
        known = {row.message_key for row in doubtful if (row.to_email, _log_status(row.status)) in there}
        await self._mark_logged(lease, [row for row in rows if row.message_key in known], is_confirmed=True)
        missing = [row for row in rows if row.message_key not in known]
        if missing:
            # Marked before the request, so that after a crash the rows are searched for before they are added again.
            await self._mark_logged(lease, missing, is_confirmed=False)
            await supabase.log(lease.run.page_id, [_line(row) for row in missing])
            await self._mark_logged(lease, missing, is_confirmed=True)

    async def _mark_logged(self, lease: RunLease, rows: Sequence[Any], *, is_confirmed: bool) -> None:
        lines = [{"message_key": row.message_key, "status": _log_status(row.status)} for row in rows]
        if lines:
            async with self._database.write() as tx:
                await tx.count(MARK_LOGGED, lines=lines, mailout_key=lease.run.key, is_confirmed=is_confirmed)
                await lease.renew(tx)


def _line(row: Any) -> LogLine:
    return LogLine(row.to_email, _log_status(row.status), None if row.status == "SENT" else row.error_reason)


def _log_status(status: str) -> str:
    return "sent" if status == "SENT" else "failed"
