"""Write each error of a mailout as a row of the errors table in Notion, exactly once."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sqlalchemy import select, update

from mailwright.domain.clock import MINUTE, Clock, Instant, isoformat, to_instant
from mailwright.sources.mailouts.notion import Cell, DataSource, Notion, NotionPage, plain
from mailwright.sources.mailouts.runs import MailoutRun, RunError, RunLease, failure_key, store_errors
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_errors

UNREPORTED_FAILURES = statement(__package__, "unreported_failures")

# Rows written to Notion per step. At three requests per second, this limits how long other mailouts wait.
ERROR_BATCH_SIZE: Final = 20
FAILURE_BATCH_SIZE: Final = 1_000

# The code and text of the error row for messages that may have been sent.
_UNKNOWN_OUTCOMES: Final = {
    "IN_DOUBT": (
        "IN_DOUBT",
        "It is unknown whether this email was sent, because sending was interrupted. Ask the recipient or the "
        "provider, then resolve the message in Mailwright.",
    ),
    "CLOSED_UNKNOWN": ("OUTCOME_UNKNOWN", "It is unknown whether this email was sent. It will not be sent again."),
}


class ErrorRows:
    def __init__(self, database: Database, clock: Clock, setup: MailoutSetup, notion: Notion) -> None:
        self._database = database
        self._clock = clock
        self._setup = setup
        self._notion = notion

    async def find_failures(self, lease: RunLease) -> None:
        run = lease.run
        while True:
            async with self._database.write() as tx:
                rows = await tx.run(
                    UNREPORTED_FAILURES,
                    campaign_key=run.campaign_key,
                    mailout_key=run.key,
                    limit=FAILURE_BATCH_SIZE,
                )
                await store_errors(tx, run.key, [_failure(row, self._clock.now()) for row in rows])
                await lease.renew(tx)
            if len(rows) < FAILURE_BATCH_SIZE:
                return

    async def write_batch(self, lease: RunLease) -> bool:
        """Write a batch of errors. Return true if there are more."""
        if self._setup.errors_database is None:
            return False
        e = mailout_errors.c
        waiting = select(mailout_errors).where(e.mailout_key == lease.run.key, e.written_at.is_(None)).order_by(e.id)
        async with self._database.read() as tx:
            rows = await tx.execute(waiting.limit(ERROR_BATCH_SIZE))
        if not rows:
            return False
        source = await self._notion.data_source(self._setup.errors_database, setting="NOTION_DB_ERRORS")
        for row in rows:
            await self._write(lease, source, row)
        return len(rows) == ERROR_BATCH_SIZE

    async def _write(self, lease: RunLease, source: DataSource, row: Any) -> None:
        cells = self._cells(lease.run, row)
        if not row.is_in_doubt or not await self._has_row(source, cells, row.at):
            # Marked before the request, so that after a crash the row is searched for before it is added again.
            await self._update(row.id, is_in_doubt=True)
            await self._notion.create_page(source, cells)
        await self._update(row.id, is_in_doubt=False, written_at=self._clock.now(), email=None)

    async def _update(self, error_id: int, **values: Any) -> None:
        async with self._database.write() as tx:
            await tx.execute(update(mailout_errors).where(mailout_errors.c.id == error_id).values(**values))

    def _cells(self, run: MailoutRun, row: Any) -> dict[str, Cell]:
        names = self._setup.error_columns
        about = row.email or run.subject or run.page_id
        return {
            names.name: f"{row.code} · {about}"[:200],
            names.timestamp: isoformat(row.at),
            names.mailout_id: run.page_id,
            names.is_test: bool(run.is_test),
            names.provider: row.provider,
            names.stage: row.stage,
            names.email: row.email,
            names.error_code: row.code,
            names.error_message: row.message,
            names.retry_count: row.retry_count,
        }

    async def _has_row(self, source: DataSource, cells: Mapping[str, Cell], at: Instant) -> bool:
        """Find the row by title, and by time and message if the table has them. Notion stores times without seconds."""
        names = self._setup.error_columns
        title = next((name for name, kind in source.types.items() if kind == "title"), names.name)
        where = {"property": title, "title": {"equals": cells.get(title) or ""}}
        async for page in self._notion.query(source, where=where):
            row_at, message = _time_in(page, names.timestamp), _text_in(page, names.error_message)
            is_same_time = row_at is None or row_at // MINUTE == at // MINUTE
            if is_same_time and (message is None or message.split() == str(cells[names.error_message]).split()):
                return True
        return False


def _failure(row: Any, now: Instant) -> RunError:
    code, message = _UNKNOWN_OUTCOMES.get(
        row.status, (row.error_code or "FAILED", row.error_reason or "No reason was given.")
    )
    return RunError(
        key=failure_key(row.message_key, row.attempts),
        stage="send",
        code=code,
        message=message,
        at=row.failed_at or now,
        email=row.to_email,
        provider=row.provider,
        retry_count=max(0, row.attempts - 1),
    )


def _text_in(page: NotionPage, name: str) -> str | None:
    pieces = page.properties.get(name, {}).get("rich_text")
    return None if pieces is None else plain(pieces)


def _time_in(page: NotionPage, name: str) -> Instant | None:
    match page.properties.get(name, {}).get("date"):
        case {"start": str(start)}:
            try:
                return to_instant(datetime.fromisoformat(start))
            except ValueError:
                return None
        case _:
            return None
