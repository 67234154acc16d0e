"""Reporting: Notion and `send_logs` are told what became of a mailout, until they have it. No mail is sent for that.

What is to be told is on disk before anybody is asked to take it, and what was taken is noted after. A report that was
cut off is made again; where that could make a second row, it is looked for first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from sqlalchemy import select, update

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant, isoformat, to_instant
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.notion import Cell, DataSource, Notion, NotionPage, NotionRefused, plain
from mailwright.sources.mailouts.queue import MailoutProgress, MailoutQueue
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError, RunLease, note_errors
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import LogLine, Supabase
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_errors

FIGURES = statement(__package__, "figures")
LEFT_SINCE = statement(__package__, "left_since")
NOTE_LOGGED = statement(__package__, "note_logged")
UNLOGGED = statement(__package__, "unlogged")
UNREPORTED_FAILURES = statement(__package__, "unreported_failures")

# While mails leave, this often is looked whether the last one has.
LOOK_EVERY: Final = 2 * SECOND
# Rows for Notion in one turn: at its three a second, other mailouts wait no longer than this takes.
ERROR_BATCH_SIZE: Final = 20
FAILURE_BATCH_SIZE: Final = 1_000
LOG_BATCH_SIZE: Final = 1_000
MAX_LOG_BATCHES: Final = 10
# How often figures are looked at again, by the time since the last mail: most that is reported comes soon.
LOOK_BACK: Final = ((HOUR, 30 * SECOND), (DAY, 5 * MINUTE), (14 * DAY, HOUR))
# Refusals that say that there is no page to write to. Somebody may put it back, or never will.
GONE: Final = {
    "NOTION_IN_TRASH": "The page, or the table that it stands in, is in Notion's trash.",
    "NOTION_NOT_SHARED": "Notion does not show us the page any more: it was deleted, or our integration is no longer "
    "among its Connections.",
}

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class MailoutFigures:
    """What Notion is told of a mailout."""

    sent: int
    failed: int
    delivered: int
    bounced: int
    left: int
    is_whole: bool  # nobody was left out because somebody cancelled it

    @property
    def bounce_rate(self) -> float:
        return _share(self.bounced, self.sent)

    @property
    def unsub_rate(self) -> float:
        return _share(self.left, self.sent)


class WriteBack:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        setup: MailoutSetup,
        *,
        notion: Notion,
        queue: MailoutQueue,
        supabase: Supabase | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._setup = setup
        self._notion = notion
        self._queue = queue
        self._supabase = supabase

    async def step(self, lease: RunLease) -> Instant | None:
        """What can be told now; answers when to look again, None where there is nothing more to tell."""
        match lease.run.status:
            case MailoutRunStatus.SENDING:
                return await self._look(lease)
            case MailoutRunStatus.REFUSED:
                return self._clock.now() if await self._tell_errors(lease) else None
            case _:
                return await self._tell(lease)

    async def figures(self, run: MailoutRun) -> MailoutFigures:
        assert run.campaign_key is not None
        async with self._database.read() as tx:
            tally = await self._queue.tally(tx, run.campaign_key, self._clock.now())
            [told] = await tx.run(FIGURES, campaign_key=run.campaign_key)
            [left] = await tx.run(LEFT_SINCE, campaign_key=run.campaign_key, since=run.created_at)
        return MailoutFigures(tally.sent, tally.failed, told.delivered, told.bounced, left.people, not tally.cancelled)

    async def _look(self, lease: RunLease) -> Instant:
        run, now = lease.run, self._clock.now()
        assert run.campaign_key is not None
        async with self._database.read() as tx:
            tally: MailoutProgress = await self._queue.tally(tx, run.campaign_key, now)
        if not tally.is_over:
            return now + LOOK_EVERY
        async with self._database.write() as tx:
            await lease.change(tx, status=MailoutRunStatus.SENT, finished_at=now)
        log.info("mailout_sent", run=run.mailout_id, sent=tally.sent, failed=tally.failed)
        return now

    async def _tell(self, lease: RunLease) -> Instant | None:
        """Each part by itself: where one of them is out of reach, the others are told all the same."""
        await self._find_failures(lease)
        problems: list[Exception] = []
        is_more = False
        for part in (self._tell_figures, self._tell_errors, self._tell_logs):
            try:
                is_more |= await part(lease)
            except Exception as error:
                problems.append(error)
        if problems:
            raise problems[0]
        return self._clock.now() if is_more else self._look_back(lease.run)

    def _look_back(self, run: MailoutRun) -> Instant | None:
        now = self._clock.now()
        age = now - (run.finished_at or now)
        return next((now + every for until, every in LOOK_BACK if age < until), None)

    # Figures, in the row of the mailout itself.

    async def _tell_figures(self, lease: RunLease) -> bool:
        run = lease.run
        cells = self._cells(run, await self.figures(run))
        if cells == run.figures and run.error_code is None:
            return False
        try:
            await self._write_figures(run, cells)
        except NotionRefused as refused:
            if refused.code not in GONE:
                raise
            await self._note_gone(lease, refused.code)
            return False
        told = {"figures": orjson.dumps(cells).decode(), "reported_at": self._clock.now()}
        async with self._database.write() as tx:
            await lease.change(tx, **told, error_code=None, error_message=None)
        return False

    async def _write_figures(self, run: MailoutRun, cells: Mapping[str, Cell]) -> None:
        source = await self._source_of(run)
        if source is None:
            log.warning("mailout_outside_of_a_table", run=run.mailout_id, page=run.page_id)
        else:
            await self._notion.update_page(run.page_id, source, cells)

    async def _note_gone(self, lease: RunLease, code: str) -> None:
        """Told once, and no failure: the page is looked for as often as figures are looked at, and no longer."""
        run, now = lease.run, self._clock.now()
        if run.error_code == code:
            return
        looked_until = (run.finished_at or now) + LOOK_BACK[-1][0]
        day = (isoformat(looked_until) or "")[:10]
        hope = f", and written there if it is back by {day}" if looked_until > now else ""
        message = f"{GONE[code]} What became of the mails is kept here{hope}."
        async with self._database.write() as tx:
            await note_errors(tx, run.key, [RunError("page", "report", code, message, now)])
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
        if run.is_test:
            # Marked as sent, the page could not be sent to everybody after its test.
            return cells
        is_clean = figures.failed == 0 and figures.is_whole
        cells[names.status] = statuses.send if is_clean else statuses.failed
        cells[names.sent_at] = isoformat(run.finished_at)
        return cells

    async def _source_of(self, run: MailoutRun) -> DataSource | None:
        """The table that the page is in, whichever that is: it says what can be written."""
        page = await self._notion.page(run.page_id)
        if page.data_source_id is not None:
            return await self._notion.table(page.data_source_id)
        database = self._setup.mailouts_database
        return None if database is None else await self._notion.data_source(database, setting="NOTION_DB_MAILOUTS")

    # Errors, a row each.

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
                await note_errors(tx, run.key, [_failure(row, self._clock.now()) for row in rows])
                await lease.renew(tx)
            if len(rows) < FAILURE_BATCH_SIZE:
                return

    async def _tell_errors(self, lease: RunLease) -> bool:
        """True where there are more."""
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
            await self._tell_error(lease, source, row)
        return len(rows) == ERROR_BATCH_SIZE

    async def _tell_error(self, lease: RunLease, source: DataSource, row: Any) -> None:
        cells = self._error_cells(lease.run, row)
        if not row.is_in_doubt or not await self._is_there(source, cells, row.at):
            # Noted before it is asked for: should we die in between, it is looked for first.
            await self._note(row.id, is_in_doubt=True)
            await self._notion.create_page(source, cells)
        await self._note(row.id, is_in_doubt=False, written_at=self._clock.now(), email=None)

    async def _note(self, error_id: int, **values: Any) -> None:
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

    async def _is_there(self, source: DataSource, cells: Mapping[str, Cell], at: Instant) -> bool:
        """By its title, and by its time and its message where the table has them; Notion keeps no seconds."""
        names = self._setup.error_columns
        title = next((name for name, kind in source.types.items() if kind == "title"), names.name)
        where = {"property": title, "title": {"equals": cells.get(title) or ""}}
        async for page in self._notion.query(source, where=where):
            there_at, said = _time_in(page, names.timestamp), _text_in(page, names.error_message)
            is_then = there_at is None or there_at // MINUTE == at // MINUTE
            if is_then and (said is None or said.split() == str(cells[names.error_message]).split()):
                return True
        return False

    # Lines of `send_logs`, in Supabase.

    async def _tell_logs(self, lease: RunLease) -> bool:
        """True where there may be more."""
        run, after = lease.run, ""
        if self._supabase is None or run.campaign_key is None:
            return False
        for _ in range(MAX_LOG_BATCHES):
            async with self._database.read() as tx:
                rows = await tx.run(UNLOGGED, campaign_key=run.campaign_key, after=after, limit=LOG_BATCH_SIZE)
            if not rows or (not after and not await self._supabase.has_logs()):
                return False
            await self._tell_lines(lease, self._supabase, rows)
            after = rows[-1].to_email
        return True

    async def _tell_lines(self, lease: RunLease, supabase: Supabase, rows: Sequence[Any]) -> None:
        """Those that may be there already are looked for first."""
        doubtful = [row for row in rows if row.is_confirmed is not None and not row.is_confirmed]
        there = await supabase.logged(lease.run.page_id, [row.to_email for row in doubtful])
        known = {row.message_key for row in doubtful if (row.to_email, _word(row.status)) in there}
        await self._note_logged(lease, [row for row in rows if row.message_key in known], is_confirmed=True)
        untold = [row for row in rows if row.message_key not in known]
        if untold:
            # Noted before it is told: should we die in between, it is looked for.
            await self._note_logged(lease, untold, is_confirmed=False)
            await supabase.log(lease.run.page_id, [_line(row) for row in untold])
            await self._note_logged(lease, untold, is_confirmed=True)

    async def _note_logged(self, lease: RunLease, rows: Sequence[Any], *, is_confirmed: bool) -> None:
        lines = [{"message_key": row.message_key, "status": _word(row.status)} for row in rows]
        if lines:
            async with self._database.write() as tx:
                await tx.count(NOTE_LOGGED, lines=lines, mailout_key=lease.run.key, is_confirmed=is_confirmed)
                await lease.renew(tx)


def _share(some: int, of_all: int) -> float:
    return round(some / of_all, 4) if of_all else 0.0


def _failure(row: Any, now: Instant) -> RunError:
    is_unknown = row.status == "CLOSED_UNKNOWN"
    return RunError(
        key=f"send:{row.message_key}:{row.attempts}",
        stage="send",
        code="OUTCOME_UNKNOWN" if is_unknown else row.error_code or "FAILED",
        message="Nobody can tell whether it arrived." if is_unknown else row.error_reason or "It gave no reason.",
        at=row.failed_at or now,
        email=row.to_email,
        provider=row.provider,
        retry_count=max(0, row.attempts - 1),
    )


def _line(row: Any) -> LogLine:
    return LogLine(row.to_email, _word(row.status), None if row.status == "SENT" else row.error_reason)


def _word(status: str) -> str:
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
