"""Mailouts as people handle them: asked for, rehearsed, watched for; and the work on them that any worker takes up."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import orjson

from mailwright.content.template import RenderedEmail, Template
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.notion import (
    MailoutPage,
    Notion,
    NotionError,
    NotionUnavailable,
    read_mailout,
)
from mailwright.sources.mailouts.prepare import DryRun, MailoutContent, MailoutPreparation
from mailwright.sources.mailouts.refusals import NOT_CONFIGURED, MailoutRefused
from mailwright.sources.mailouts.runs import LeaseLost, MailoutRun, MailoutRuns, MailoutRunStatus, RunError, RunLease
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import SupabaseError
from mailwright.sources.mailouts.write_back import WriteBack

# Whoever asks waits no longer than this for what can be told of the page at once.
ANSWER_SECONDS: Final = 10.0
TOOK_TOO_LONG: Final = "timeout"
STUCK: Final = "internal_error"
PREPARED: Final = (MailoutRunStatus.SENDING, MailoutRunStatus.SENT, MailoutRunStatus.REFUSED)

log = logger(__name__)


class MailoutSender:
    def __init__(
        self,
        setup: MailoutSetup,
        runs: MailoutRuns,
        *,
        notion: Notion,
        preparing: MailoutPreparation,
        reporting: WriteBack,
    ) -> None:
        self._setup = setup
        self._runs = runs
        self._notion = notion
        self._preparing = preparing
        self._reporting = reporting

    async def send(self, page: str, *, actor: str, fingerprint: str | None = None) -> MailoutRun:
        """A run, on disk. What the page itself speaks against it is told at once, where Notion answers in time; the
        rest, and the sending, goes on without whoever asked."""
        run = await self._runs.accept(self._setup.tenant_id, page, actor=actor, fingerprint=fingerprint)
        lease = await self._runs.claim(run)
        return run if lease is None else await self._worked(lease, self._check)

    async def prepare(self, run: MailoutRun) -> MailoutRun:
        """All that comes before the sending, here and now; raises what keeps it from going on."""
        while run.status not in PREPARED:
            lease = await self._runs.claim(run)
            if lease is None:
                return run  # somebody else is at it
            run = await self._worked(lease, self._prepare, is_raised=True)
        return run

    async def list_errors(self, run: MailoutRun) -> list[RunError]:
        return await self._runs.list_errors(run)

    async def read_content(self, page: str) -> MailoutContent:
        """What readers would get, whoever they are."""
        return (await self._preparing.read(page))[1]

    def preview(self, content: MailoutContent) -> RenderedEmail:
        """As readers see it. The link to leave leads where theirs do, and is nobody's."""
        template = Template(subject=content.subject, html=content.html, text=content.text)
        return template.render({**STANDARD_VARIABLES, "unsubscribe_url": self._setup.unsubscribe_url})

    async def dry_run(self, page: str) -> DryRun:
        return await self._preparing.dry_run(page)

    async def send_ready_pages(self, actor: str) -> list[MailoutRun]:
        """Sends every page that says it is ready and was not met as it is now."""
        if self._setup.mailouts_database is None:
            raise MailoutRefused(NOT_CONFIGURED, "Set NOTION_DB_MAILOUTS to the database that is to be watched.")
        source = await self._notion.data_source(self._setup.mailouts_database, setting="NOTION_DB_MAILOUTS")
        kind = source.types.get(self._setup.columns.status)
        if kind not in ("status", "select"):
            raise MailoutRefused(
                NOT_CONFIGURED,
                f"The table {source.name!r} in Notion has no status or select {self._setup.columns.status!r}: add it.",
            )
        where = {"property": self._setup.columns.status, kind: {"equals": self._setup.statuses.ready}}
        begun: list[MailoutRun] = []
        async for page in self._notion.query(source, where=where):
            said = _fingerprint(read_mailout(page, self._setup.columns))
            mark = f"{said} {page.edited_at}"
            if not await self._runs.was_handled(page.id, said, mark):
                begun.append(await self.send(page.id, actor=actor, fingerprint=mark))
        return begun

    async def tick(self) -> bool:
        """One step for the run that has waited longest; true where there may be more to do at once."""
        lease = await self._runs.claim()
        if lease is None:
            return False
        _warn_of_delay(
            await self._worked(lease, self._reporting.step if lease.run.status in PREPARED else self._prepare)
        )
        return True

    async def check_sending(self) -> None:
        """Runs whose mails leave are looked at now and then; this looks now."""
        for run in await self._runs.list_sending():
            lease = await self._runs.claim(run)
            if lease is not None:
                _warn_of_delay(await self._worked(lease, self._reporting.step))

    async def _check(self, lease: RunLease) -> Instant | None:
        async with asyncio.timeout(ANSWER_SECONDS):
            return (await self._preparing.check(lease)).due_at

    async def _prepare(self, lease: RunLease) -> Instant | None:
        return (await self._preparing.step(lease)).due_at

    async def _worked(
        self, lease: RunLease, work: Callable[[RunLease], Awaitable[Instant | None]], *, is_raised: bool = False
    ) -> MailoutRun:
        """`work` answers when to look again. Whatever is out of reach is tried again later, for as long as it takes."""
        try:
            async with lease.kept():
                due_at = await work(lease)
            await lease.let_go(due_at)
        except LeaseLost:
            return lease.run
        except asyncio.CancelledError:
            await lease.give_back()  # whoever is started next goes on at once
            raise
        except NotDurable:
            raise
        except TimeoutError:
            await lease.postpone(TOOK_TOO_LONG, f"No answer came within {ANSWER_SECONDS:.0f} seconds.")
            if is_raised:
                raise
        except (NotionError, SupabaseError) as error:
            at_least = error.retry_after if isinstance(error, NotionUnavailable) else None
            await lease.postpone(error.code, str(error), at_least=at_least)
            if is_raised:
                raise
        except Exception as error:  # one run that cannot go on must not hold up the others
            if not is_raised:  # else whoever waits for the answer says it
                log.exception("mailout_stuck", run=lease.run.mailout_id)
            await lease.postpone(STUCK, f"This went wrong here: {type(error).__name__}. The log has the details.")
            if is_raised:
                raise
        return lease.run


def _warn_of_delay(run: MailoutRun) -> None:
    """Where nobody waits for the answer, and so nobody else would say it."""
    if (waits := run.delay) is not None:
        log.warning("mailout_waits", run=run.mailout_id, code=waits.code, reason=waits.reason, until=waits.next_try_at)


def _fingerprint(page: MailoutPage) -> str:
    said = [page.subject, page.status, page.is_test, page.sent_at]
    return hashlib.sha256(orjson.dumps(said)).hexdigest()
