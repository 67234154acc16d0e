"""Write the results of mailouts back to Notion and to `send_logs` in Supabase, until both have them.

What remains to be written is stored before the request, and marked as written after it. An interrupted write is
repeated; where that could add a second row, the row is searched for first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from sqlalchemy import select, update

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant, isoformat, to_instant
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.notion import (
    Cell,
    DataSource,
    Notion,
    NotionPage,
    NotionRefused,
    plain,
    read_mailout,
)
from mailwright.sources.mailouts.progress import campaign_progress
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError, RunLease, store_errors
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import LogLine, Supabase
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_errors

FIGURES = statement(__package__, "figures")
UNSUBSCRIBED_SINCE = statement(__package__, "unsubscribed_since")
MARK_LOGGED = statement(__package__, "mark_logged")
UNLOGGED = statement(__package__, "unlogged")
UNREPORTED_FAILURES = statement(__package__, "unreported_failures")

# The interval of checks for the end of sending.
CHECK_INTERVAL: Final = 2 * SECOND
# Rows written to Notion per step. At three requests per second, this limits how long other mailouts wait.
ERROR_BATCH_SIZE: Final = 20
FAILURE_BATCH_SIZE: Final = 1_000
LOG_BATCH_SIZE: Final = 1_000
MAX_LOG_BATCHES: Final = 10
# The interval of updates by the time since the last message: most reports arrive early.
UPDATE_INTERVALS: Final = ((HOUR, 30 * SECOND), (DAY, 5 * MINUTE), (14 * DAY, HOUR))
# Refusals that mean that the page is gone, with their explanation. It may be restored later.
PAGE_GONE: Final = {
    "NOTION_IN_TRASH": "The page or its table is in Notion's trash.",
    "NOTION_NOT_SHARED": "The page is no longer accessible in Notion: it was deleted, or the integration was removed "
    "from its Connections.",
}

# Messages that may have left, with the code and text of their error row.
_UNKNOWN_OUTCOMES: Final = {
    "IN_DOUBT": (
        "IN_DOUBT",
        "It is not known whether this email left: sending was interrupted. Find out, then resolve the message in "
        "Mailwright.",
    ),
    "CLOSED_UNKNOWN": ("OUTCOME_UNKNOWN", "The outcome is unknown."),
}

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class MailoutFigures:
    """The results of a mailout as written to Notion."""

    sent: int
    failed: int
    delivered: int
    bounced: int
    unsubscribed: int
    in_doubt: int
    is_whole: bool  # no recipient was left out by a cancellation

    @property
    def bounce_rate(self) -> float:
        return _share(self.bounced, self.sent)

    @property
    def unsub_rate(self) -> float:
        return _share(self.unsubscribed, self.sent)


class WriteBack:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        setup: MailoutSetup,
        *,
        notion: Notion,
        supabase: Supabase | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._setup = setup
        self._notion = notion
        self._supabase = supabase

    async def step(self, lease: RunLease) -> Instant | None:
        """Write what is available. Return when to continue, or None if everything is final."""
        match lease.run.status:
            case MailoutRunStatus.SENDING:
                return await self._check_sending(lease)
            case MailoutRunStatus.REFUSED:
                is_more = await self._write_errors(lease)
                await self._reopen(lease)
                return self._clock.now() if is_more else None
            case _:
                return await self._write_results(lease)

    async def show_start(self, run: MailoutRun, source: DataSource) -> None:
        """Show in Notion that the run has started, if there is a status for that."""
        status = self._setup.statuses.in_progress
        if status is not None and run.status is not MailoutRunStatus.REFUSED:
            await self._notion.update_page(run.page_id, source, {self._setup.columns.status: status})

    async def reset(self, page_id: str, source: DataSource) -> None:
        """Clear the results of a page, for example of a duplicate, and tick Test, so that the next send is a test."""
        names = self._setup.columns
        results = (names.sent_at, names.sent_count, names.failed_count, names.delivered_count)
        cells: dict[str, Cell] = dict.fromkeys((*results, names.bounce_rate, names.unsub_rate))
        cells |= {names.test: True, names.status: self._setup.statuses.not_started}
        await self._notion.update_page(page_id, source, cells)
        log.info("mailout_reset", page=page_id)

    async def figures(self, run: MailoutRun) -> MailoutFigures:
        assert run.campaign_key is not None
        async with self._database.read() as tx:
            progress = await campaign_progress(tx, run.campaign_key, self._clock.now())
            [reports] = await tx.run(FIGURES, campaign_key=run.campaign_key)
            [unsubscribed] = await tx.run(UNSUBSCRIBED_SINCE, campaign_key=run.campaign_key, since=run.created_at)
        return MailoutFigures(
            progress.sent + progress.bounced,
            progress.failed,
            reports.delivered,
            reports.bounced,
            unsubscribed.people,
            progress.in_doubt,
            not progress.cancelled,
        )

    async def _check_sending(self, lease: RunLease) -> Instant:
        run, now = lease.run, self._clock.now()
        assert run.campaign_key is not None
        async with self._database.read() as tx:
            progress = await campaign_progress(tx, run.campaign_key, now)
        if not progress.is_over:
            return now + CHECK_INTERVAL
        async with self._database.write() as tx:
            await lease.change(tx, status=MailoutRunStatus.SENT, finished_at=now)
        kind = "TEST" if run.is_test else "REAL"
        log.info(
            "mailout_sent",
            run=run.mailout_id,
            kind=kind,
            is_local=run.is_local,
            sent=progress.sent + progress.bounced,
            failed=progress.failed,
        )
        return now

    async def _write_results(self, lease: RunLease) -> Instant | None:
        """Write each part independently: if one fails, the others are still written."""
        await self._find_failures(lease)
        problems: list[Exception] = []
        is_more = False
        for part in (self._write_figures_if_changed, self._reopen_if_repeatable, self._write_errors, self._write_logs):
            try:
                is_more |= await part(lease)
            except Exception as error:
                problems.append(error)
        if problems:
            raise problems[0]
        return self._clock.now() if is_more else self._next_update(lease.run)

    def _next_update(self, run: MailoutRun) -> Instant | None:
        now = self._clock.now()
        age = now - (run.finished_at or now)
        return next((now + every for until, every in UPDATE_INTERVALS if age < until), None)

    # The status of a page that can be sent again.

    async def _reopen_if_repeatable(self, lease: RunLease) -> bool:
        if lease.run.is_test or lease.run.is_local:
            await self._reopen(lease)
        return False

    async def _reopen(self, lease: RunLease) -> None:
        """Set the status `not_started` once, if its status started the run: the same status can then start another."""
        run, statuses = lease.run, self._setup.statuses
        if statuses.not_started is None or run.fingerprint is None:
            return
        try:
            page = await self._notion.page(run.page_id)
            status = read_mailout(page, self._setup.columns).status
            source = await self._source_of(page)
            if source is not None and status in (statuses.ready, statuses.test, statuses.in_progress):
                await self._notion.update_page(page.id, source, {self._setup.columns.status: statuses.not_started})
        except NotionRefused as refused:
            log.warning("mailout_not_reopened", run=run.mailout_id, page=run.page_id, code=refused.code)
        async with self._database.write() as tx:
            await lease.change(tx, fingerprint=None)

    # Results, in the row of the mailout.

    async def _write_figures_if_changed(self, lease: RunLease) -> bool:
        run = lease.run
        cells = self._cells(run, await self.figures(run))
        if cells == run.figures and run.error_code is None:
            return False
        try:
            page = await self._write_figures(run, cells)
        except NotionRefused as refused:
            if refused.code not in PAGE_GONE:
                raise
            await self._record_page_gone(lease, refused.code)
            return False
        written: dict[str, Any] = {"figures": orjson.dumps(cells).decode(), "reported_at": self._clock.now()}
        if run.fingerprint is not None and page is not None:
            # This edit is our own: the page counts as changed only if somebody edits it later.
            written["fingerprint"] = f"{run.fingerprint.split()[0]} {page.edited_at}"
        async with self._database.write() as tx:
            await lease.change(tx, **written, error_code=None, error_message=None)
        return False

    async def _write_figures(self, run: MailoutRun, cells: Mapping[str, Cell]) -> NotionPage | None:
        source = await self._source_of(await self._notion.page(run.page_id))
        if source is None:
            log.warning("mailout_outside_of_a_table", run=run.mailout_id, page=run.page_id)
            return None
        return await self._notion.update_page(run.page_id, source, cells)

    async def _record_page_gone(self, lease: RunLease, code: str) -> None:
        """Record once that the page is gone. This is not a failure: updates continue at their interval."""
        run, now = lease.run, self._clock.now()
        if run.error_code == code:
            return
        updates_end_at = (run.finished_at or now) + UPDATE_INTERVALS[-1][0]
        day = (isoformat(updates_end_at) or "")[:10]
        hope = f" and will be written to the page if it is restored by {day}" if updates_end_at > now else ""
        message = f"{PAGE_GONE[code]} The results are kept here{hope}."
        async with self._database.write() as tx:
            await store_errors(tx, run.key, [RunError("page", "report", code, message, now)])
            await lease.change(tx, error_code=code, error_message=message)
        log.warning("mailout_page_gone", run=run.mailout_id, page=run.page_id, code=code)

    def _cells(self, run: MailoutRun, figures: MailoutFigures) -> dict[str, Cell]:
        names, statuses = self._setup.columns, self._setup.statuses
        cells: dict[str, Cell] = {
            names.sent_count: figures.sent,
            names.failed_count: figures.failed,
            names.delivered_count: figures.delivered,
            names.bounce_rate: figures.bounce_rate,
            names.unsub_rate: figures.unsub_rate,
        }
        if run.is_test or run.is_local:
            # A page marked as sent could not be sent to the audience after a test or a rehearsal.
            return cells
        is_clean = figures.failed == 0 and figures.in_doubt == 0 and figures.is_whole
        cells[names.status] = statuses.send if is_clean else statuses.failed
        cells[names.sent_at] = isoformat(run.finished_at)
        return cells

    async def _source_of(self, page: NotionPage) -> DataSource | None:
        """Return the table of the page, which defines the columns that can be written."""
        if page.data_source_id is not None:
            return await self._notion.table(page.data_source_id)
        database = self._setup.mailouts_database
        return None if database is None else await self._notion.data_source(database, setting="NOTION_DB_MAILOUTS")

    # Errors, one row each.

    async def _find_failures(self, lease: RunLease) -> None:
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

    async def _write_errors(self, lease: RunLease) -> bool:
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
            await self._write_error(lease, source, row)
        return len(rows) == ERROR_BATCH_SIZE

    async def _write_error(self, lease: RunLease, source: DataSource, row: Any) -> None:
        cells = self._error_cells(lease.run, row)
        if not row.is_in_doubt or not await self._has_row(source, cells, row.at):
            # Marked before the request: after a crash in between, the row is searched for first.
            await self._update_error(row.id, is_in_doubt=True)
            await self._notion.create_page(source, cells)
        await self._update_error(row.id, is_in_doubt=False, written_at=self._clock.now(), email=None)

    async def _update_error(self, error_id: int, **values: Any) -> None:
        async with self._database.write() as tx:
            await tx.execute(update(mailout_errors).where(mailout_errors.c.id == error_id).values(**values))

    def _error_cells(self, run: MailoutRun, row: Any) -> dict[str, Cell]:
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
        """Find the row by title, and by time and message if the table has them. Notion stores no seconds."""
        names = self._setup.error_columns
        title = next((name for name, kind in source.types.items() if kind == "title"), names.name)
        where = {"property": title, "title": {"equals": cells.get(title) or ""}}
        async for page in self._notion.query(source, where=where):
            row_at, message = _time_in(page, names.timestamp), _text_in(page, names.error_message)
            is_same_time = row_at is None or row_at // MINUTE == at // MINUTE
            if is_same_time and (message is None or message.split() == str(cells[names.error_message]).split()):
                return True
        return False

    # Rows of `send_logs` in Supabase.

    async def _write_logs(self, lease: RunLease) -> bool:
        """Write up to `MAX_LOG_BATCHES` batches. Return true if there may be more."""
        run, after = lease.run, ""
        if self._supabase is None or run.campaign_key is None:
            return False
        for _ in range(MAX_LOG_BATCHES):
            async with self._database.read() as tx:
                rows = await tx.run(UNLOGGED, campaign_key=run.campaign_key, after=after, limit=LOG_BATCH_SIZE)
            if not rows or (not after and not await self._supabase.has_logs()):
                return False
            await self._write_log_batch(lease, self._supabase, rows)
            after = rows[-1].to_email
        return True

    async def _write_log_batch(self, lease: RunLease, supabase: Supabase, rows: Sequence[Any]) -> None:
        """Write a batch. Rows that may exist already are searched for first."""
        doubtful = [row for row in rows if row.is_confirmed is not None and not row.is_confirmed]
        there = await supabase.logged(lease.run.page_id, [row.to_email for row in doubtful])
        known = {row.message_key for row in doubtful if (row.to_email, _log_status(row.status)) in there}
        await self._mark_logged(lease, [row for row in rows if row.message_key in known], is_confirmed=True)
        missing = [row for row in rows if row.message_key not in known]
        if missing:
            # Marked before the request: after a crash in between, the rows are searched for first.
            await self._mark_logged(lease, missing, is_confirmed=False)
            await supabase.log(lease.run.page_id, [_line(row) for row in missing])
            await self._mark_logged(lease, missing, is_confirmed=True)

    async def _mark_logged(self, lease: RunLease, rows: Sequence[Any], *, is_confirmed: bool) -> None:
        lines = [{"message_key": row.message_key, "status": _log_status(row.status)} for row in rows]
        if lines:
            async with self._database.write() as tx:
                await tx.count(MARK_LOGGED, lines=lines, mailout_key=lease.run.key, is_confirmed=is_confirmed)
                await lease.renew(tx)


def _share(some: int, of_all: int) -> float:
    return round(some / of_all, 4) if of_all else 0.0


def _failure(row: Any, now: Instant) -> RunError:
    code, message = _UNKNOWN_OUTCOMES.get(
        row.status, (row.error_code or "FAILED", row.error_reason or "No reason was given.")
    )
    return RunError(
        key=f"send:{row.message_key}:{row.attempts}",
        stage="send",
        code=code,
        message=message,
        at=row.failed_at or now,
        email=row.to_email,
        provider=row.provider,
        retry_count=max(0, row.attempts - 1),
    )


def _line(row: Any) -> LogLine:
    return LogLine(row.to_email, _log_status(row.status), None if row.status == "SENT" else row.error_reason)


def _log_status(status: str) -> str:
    return "sent" if status == "SENT" else "failed"


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
