"""Write the results of mailouts back to Notion and to `send_logs` in Supabase, until both have them.

Each pending write is stored before its request, and marked as written afterwards. An interrupted write is repeated; if
that could add a second row, the row is searched for first.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import or_, select

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.error_rows import ErrorRows
from mailwright.sources.mailouts.notion import (
    Cell,
    DataSource,
    Notion,
    NotionPage,
    NotionRefused,
    read_mailout,
)
from mailwright.sources.mailouts.progress import campaign_progress, share
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError, RunLease, store_errors
from mailwright.sources.mailouts.send_logs import SendLogs
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import Supabase
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailouts

FIGURES = statement(__package__, "figures")
UNSUBSCRIBED_SINCE = statement(__package__, "unsubscribed_since")

# The interval of checks for the end of sending.
CHECK_INTERVAL: Final = 2 * SECOND
# The update interval by the time since the last message. It grows, because most reports arrive early.
UPDATE_INTERVALS: Final = ((HOUR, 30 * SECOND), (DAY, 5 * MINUTE), (14 * DAY, HOUR))
# Refusals that mean that the page is gone, with their explanation. It may be restored later.
PAGE_GONE: Final = {
    "NOTION_IN_TRASH": "The page or its table is in Notion's trash.",
    "NOTION_NOT_SHARED": "The page is no longer accessible in Notion: it was deleted, or the integration was removed "
    "from its Connections.",
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
        return share(self.bounced, self.sent)

    @property
    def unsub_rate(self) -> float:
        return share(self.unsubscribed, self.sent)


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
        self._error_rows = ErrorRows(database, clock, setup, notion)
        self._send_logs = SendLogs(database, supabase)

    async def step(self, lease: RunLease) -> Instant | None:
        """Write the results so far. Return the time to continue, or None if everything is final."""
        match lease.run.status:
            case MailoutRunStatus.SENDING:
                return await self._check_sending(lease)
            case MailoutRunStatus.REFUSED:
                is_more = await self._error_rows.write_batch(lease)
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
            progress.bounced,
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
        await self._error_rows.find_failures(lease)
        problems: list[Exception] = []
        is_more = False
        writers = (self._error_rows.write_batch, self._send_logs.write_batches)
        for part in (self._write_figures_if_changed, self._reopen_if_repeatable, *writers):
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
        """Set the status `not_started` once if the page's status started the run, so that it can start another."""
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
        if (cells == run.figures and run.error_code is None) or await self._is_superseded(run):
            return False
        try:
            if await self._is_sent_elsewhere(run):
                return False
            page = await self._write_figures(run, cells)
        except NotionRefused as refused:
            if refused.code not in PAGE_GONE:
                raise
            await self._record_page_gone(lease, refused.code)
            return False
        written: dict[str, Any] = {"figures": orjson.dumps(cells).decode(), "reported_at": self._clock.now()}
        if run.fingerprint is not None and page is not None:
            # Mailwright made this edit, so the page counts as changed only if it is edited later.
            written["fingerprint"] = f"{run.fingerprint.split()[0]} {page.edited_at}"
        async with self._database.write() as tx:
            await lease.change(tx, **written, error_code=None, error_message=None)
        return False

    async def _is_superseded(self, run: MailoutRun) -> bool:
        """Return whether the page shows the results of another run: of the run to its audience, or of a later test."""
        if not run.is_test and not run.is_local:
            return False
        m = mailouts.c
        is_later = (m.id > run.key) & (m.status != MailoutRunStatus.REFUSED)
        is_other = (m.page_id == run.page_id) & (m.id != run.key)
        async with self._database.read() as tx:
            rows = await tx.execute(select(m.id).where(is_other, or_(m.sent_page.is_not(None), is_later)).limit(1))
        return bool(rows)

    async def _is_sent_elsewhere(self, run: MailoutRun) -> bool:
        """Return whether a test must keep the figures of the page, because another program has sent it."""
        if not run.is_test and not run.is_local:
            return False
        page = read_mailout(await self._notion.page(run.page_id), self._setup.columns)
        if page.sent_at is not None or self._setup.statuses.is_sent(page.status):
            return True
        if page.sent_count is None:
            return False
        # Counts without a time are those of our own tests, or another program wrote them.
        ours = (mailouts.c.page_id == run.page_id) & mailouts.c.reported_at.is_not(None)
        async with self._database.read() as tx:
            return not await tx.execute(select(mailouts.c.id).where(ours).limit(1))

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
            # The page must not look sent, because it can still be sent after a test or a rehearsal.
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
