"""Read the recipients of runs from the table, completely, before the first message is created.

Each page is stored in one transaction with the position of the read, so a killed process loses nothing. If the table
cannot be read completely, the run ends and nobody gets a message.
"""

from typing import Final

from mailwright.domain.clock import HOUR, MINUTE, Clock, Instant
from mailwright.ops.logs import logger
from mailwright.sources.articles.profiles.audience import parse_page
from mailwright.sources.articles.profiles.errors import ProfilesRefused, ProfilesUnavailable
from mailwright.sources.articles.profiles.reads import ProfileRead, end_read, note_problem, store_page
from mailwright.sources.articles.profiles.table import (
    ProfileRows,
    ProfileSource,
    ProfileTable,
    cursor_of,
    table_of,
    whole_groups,
)
from mailwright.sources.articles.runs import ArticleRun, end_run, open_runs
from mailwright.storage.database import Database

# A table that cannot be reached is tried again at this interval, and given up after this time.
RETRY_EVERY: Final = MINUTE
GIVE_UP_AFTER: Final = 24 * HOUR

log = logger(__name__)


class ProfileReader:
    """Reads the table for open runs. Several processes may do this at the same time."""

    def __init__(self, database: Database, clock: Clock, source: ProfileSource | None) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._retry_at: dict[int, Instant] = {}

    async def tick(self) -> bool:
        """Read one page for each open run. Return true if there may be more to read."""
        async with self._database.read() as tx:
            runs = [run for run in await open_runs(tx) if run.read is not None and run.read.ended_at is None]
        self._retry_at = {run.id: at for run in runs if (at := self._retry_at.get(run.id)) is not None}
        has_read = False
        for run in reversed(runs):  # Oldest first.
            assert run.read is not None
            if self._retry_at.get(run.id, 0) <= self._clock.now():
                has_read |= await self._read(run, run.read)
        return has_read

    async def _read(self, run: ArticleRun, read: ProfileRead) -> bool:
        try:
            table = await self._table(run, read)
            if read.read_to is None:
                await table.probe()
            rows = await table.page(read.read_to)
            if not rows:
                # Permissions may have been revoked during the read, which would look like the end of the table.
                await table.probe()
        except ProfilesRefused as error:
            await self._fail(run, str(error))
            return False
        except ProfilesUnavailable as error:
            await self._postpone(run, str(error))
            return False
        return await self._store(run, read, rows)

    async def _table(self, run: ArticleRun, read: ProfileRead) -> ProfileTable:
        table = await table_of(self._source, run.tenant_id)
        if table is None:
            raise ProfilesUnavailable("MAILWRIGHT_PROFILES_URL is not set in the worker that should read the table.")
        if table.description != read.source:
            raise ProfilesRefused(
                "The run began with {before}, and the settings now name {after}.",
                before=read.source,
                after=table.description,
            )
        return table

    async def _store(self, run: ArticleRun, read: ProfileRead, rows: ProfileRows) -> bool:
        now = self._clock.now()
        if not rows:
            async with self._database.write() as tx:
                return await end_read(tx, run.id, read, now)
        try:
            complete = whole_groups(rows, read.read_to)
        except ProfilesUnavailable as error:
            await self._postpone(run, str(error))
            return False
        page = parse_page(complete, run.audience)
        for each in page.refused:
            log.warning("profile_refused", run_id=run.run_id, email=each.email, reason=each.reason)
        async with self._database.write() as tx:
            return await store_page(tx, run.id, read, page, cursor_of(complete))

    async def _postpone(self, run: ArticleRun, problem: str) -> None:
        now = self._clock.now()
        if now - run.started_at >= GIVE_UP_AFTER:
            await self._fail(run, problem)
            return
        log.warning("profiles_unavailable", run_id=run.run_id, reason=problem)
        self._retry_at[run.id] = now + RETRY_EVERY
        async with self._database.write() as tx:
            await note_problem(tx, run.id, problem)

    async def _fail(self, run: ArticleRun, problem: str) -> None:
        log.warning("article_run_failed", run_id=run.run_id, reason=problem)
        failure = f"{problem} Nothing was sent. Correct this, then start a run with another batch id."
        async with self._database.write() as tx:
            await end_run(tx, run, failure, self._clock.now())
