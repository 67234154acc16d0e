"""Send, preview and watch mailouts, and do the next step of their runs."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from mailwright.content.template import RenderedEmail, Template
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.mailouts.notion import (
    DataSource,
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

# How long a request waits for the first check of the page.
CHECK_SECONDS: Final = 10.0
TIMEOUT: Final = "timeout"
INTERNAL_ERROR: Final = "internal_error"
PREPARED: Final = (MailoutRunStatus.SENDING, MailoutRunStatus.SENT, MailoutRunStatus.REFUSED)

log = logger(__name__)


class MailoutSender:
    def __init__(
        self,
        setup: MailoutSetup,
        runs: MailoutRuns,
        *,
        notion: Notion,
        preparation: MailoutPreparation,
        write_back: WriteBack,
    ) -> None:
        self._setup = setup
        self._runs = runs
        self._notion = notion
        self._preparation = preparation
        self._write_back = write_back

    async def send(self, page: str, *, actor: str, overrides_rules: bool = False) -> MailoutRun:
        """Store a run and check its page. A worker does the rest.

        `overrides_rules` sends even if the rules of the large mailbox providers are not met; the audit log records it.

        Returns a refused run if the check finds a problem. If Notion is too slow, a worker repeats the check.
        """
        run = await self._runs.accept(self._setup.tenant_id, page, actor=actor, overrides_rules=overrides_rules)
        lease = await self._runs.claim(run)
        return run if lease is None else await self._work_on(lease, self._check)

    async def _start(self, page: str, source: DataSource, *, actor: str, fingerprint: str) -> MailoutRun:
        """Send a page because of its status, and show in Notion that it has started."""

        async def work(lease: RunLease) -> Instant | None:
            due_at = await self._check(lease)
            # Written under the lease, so that it cannot overwrite a result that a worker wrote.
            await self._write_back.show_start(lease.run, source)
            return due_at

        run = await self._runs.accept(self._setup.tenant_id, page, actor=actor, fingerprint=fingerprint)
        lease = await self._runs.claim(run)
        return run if lease is None else await self._work_on(lease, work)

    async def prepare(self, run: MailoutRun) -> MailoutRun:
        """Immediately do all steps that come before sending. Raises the error that stops them, if any."""
        while run.status not in PREPARED:
            lease = await self._runs.claim(run)
            if lease is None:
                return run  # Another process works on the run.
            run = await self._work_on(lease, self._prepare, is_raised=True)
        return run

    async def list_errors(self, run: MailoutRun) -> list[RunError]:
        return await self._runs.list_errors(run)

    async def read_content(self, page: str) -> MailoutContent:
        """Return the content of the email as a template."""
        return (await self._preparation.read(page))[1]

    def preview(self, content: MailoutContent) -> RenderedEmail:
        """Render the email with an unsubscribe link that belongs to no recipient."""
        template = Template(subject=content.subject, html=content.html, text=content.text)
        sample = {**STANDARD_VARIABLES, "from_name": STANDARD_VARIABLES["name"]}
        return template.render({**sample, "unsubscribe_url": self._setup.unsubscribe_url})

    async def dry_run(self, page: str) -> DryRun:
        return await self._preparation.dry_run(page)

    async def send_ready_pages(self, actor: str) -> list[MailoutRun]:
        """Send every page whose status requests it, unless its current version was already handled."""
        if self._setup.mailouts_database is None:
            raise MailoutRefused("Set NOTION_DB_MAILOUTS to the database to watch.", code=NOT_CONFIGURED)
        source = await self._notion.data_source(self._setup.mailouts_database, setting="NOTION_DB_MAILOUTS")
        kind = source.types.get(self._setup.columns.status)
        if kind not in ("status", "select"):
            raise MailoutRefused(
                "The table {table} in Notion has no status or select property {name}. Add it.",
                code=NOT_CONFIGURED,
                table=repr(source.name),
                name=repr(self._setup.columns.status),
            )
        started: list[MailoutRun] = []
        pages = [page async for page in self._notion.query(source, where=self._triggered(kind))]
        await self._runs.forget_tests_of([page.id for page in pages])
        for page in pages:
            mailout = read_mailout(page, self._setup.columns)
            if mailout.status == self._setup.statuses.reset:
                await self._write_back.reset(page.id, source)
                continue
            digest = _digest(mailout)
            fingerprint = f"{digest} {page.edited_at}"
            if not await self._runs.was_handled(page.id, digest, fingerprint):
                started.append(await self._start(page.id, source, actor=actor, fingerprint=fingerprint))
        return started

    def _triggered(self, kind: str) -> dict[str, Any]:
        """Return the filter for pages whose status triggers an action."""
        name, triggers = self._setup.columns.status, self._setup.statuses.triggers.values()
        return {"or": [{"property": name, kind: {"equals": status}} for status in triggers]}

    async def tick(self) -> bool:
        """Do one step of the run that has waited longest. Return true if there may be more to do."""
        lease = await self._runs.claim()
        if lease is None:
            return False
        _warn_of_delay(
            await self._work_on(lease, self._write_back.step if lease.run.status in PREPARED else self._prepare)
        )
        return True

    async def check_sending(self) -> None:
        """Immediately check all runs that are being sent, without waiting for their next interval."""
        for run in await self._runs.list_sending():
            lease = await self._runs.claim(run)
            if lease is not None:
                _warn_of_delay(await self._work_on(lease, self._write_back.step))

    async def _check(self, lease: RunLease) -> Instant | None:
        async with asyncio.timeout(CHECK_SECONDS):
            return (await self._preparation.check(lease)).due_at

    async def _prepare(self, lease: RunLease) -> Instant | None:
        return (await self._preparation.step(lease)).due_at

    async def _work_on(
        self, lease: RunLease, work: Callable[[RunLease], Awaitable[Instant | None]], *, is_raised: bool = False
    ) -> MailoutRun:
        """Run `work` under the lease; it returns the time to continue. Retry temporary failures without limit."""
        try:
            async with lease.renewed():
                due_at = await work(lease)
            await lease.release(due_at)
        except LeaseLost:
            return lease.run
        except asyncio.CancelledError:
            await lease.abandon()  # Another process can continue at once.
            raise
        except NotDurable:
            raise
        except TimeoutError:
            await lease.postpone(TIMEOUT, f"No response within {CHECK_SECONDS:.0f} seconds.")
            if is_raised:
                raise
        except AwaitsApproval as error:
            await lease.postpone(error.code, str(error))
        except (NotionError, SupabaseError) as error:
            at_least = error.retry_after if isinstance(error, NotionUnavailable) else None
            await lease.postpone(error.code, str(error), at_least=at_least)
            if is_raised:
                raise
        except Exception as error:  # A run that cannot continue must not block the others.
            if not is_raised:  # The caller logs a raised error.
                log.exception("mailout_stuck", run=lease.run.mailout_id)
            await lease.postpone(INTERNAL_ERROR, f"Internal error ({type(error).__name__}). See the log for details.")
            if is_raised:
                raise
        return lease.run


def _warn_of_delay(run: MailoutRun) -> None:
    """Log a delay of background work, which has no caller to report it."""
    if (delay := run.delay) is not None:
        until = delay.next_try_at
        log.warning("mailout_delayed", run=run.mailout_id, code=delay.code, reason=delay.reason, until=until)


def _digest(page: MailoutPage) -> str:
    values = [page.subject, page.status, page.is_test, page.sent_at]
    return hashlib.sha256(orjson.dumps(values)).hexdigest()
