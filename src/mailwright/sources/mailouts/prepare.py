"""Preparing: a page becomes a mail and a list of readers, and both enter the queue. Until then nothing is sent.

Each step ends in a commit and may be done again: whoever goes on after a crash begins with the step that was cut off.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import delete, func, select

from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.ops.logs import logger
from mailwright.sources.mailouts.addresses import once_each, parse_test_emails
from mailwright.sources.mailouts.audience import MailoutAudience
from mailwright.sources.mailouts.footer import footers
from mailwright.sources.mailouts.literals import literal_html, literal_text
from mailwright.sources.mailouts.notion import (
    MailoutPage,
    Notion,
    NotionError,
    NotionRefused,
    read_content,
    read_mailout,
    read_top_level,
)
from mailwright.sources.mailouts.queue import MailoutCampaign, MailoutQueue, MailoutRecipient
from mailwright.sources.mailouts.refusals import (
    CONTENT_INVALID,
    MailoutRefused,
    already_sent,
    empty_body,
    no_footer,
    no_subject,
    no_test_emails,
    nobody_to_write_to,
    together,
)
from mailwright.sources.mailouts.rendering import ContentIssue, ImageCopier, framed, render
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError, RunLease, note_errors
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import SupabaseRefused
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_recipients

STAGE_RECIPIENTS = statement(__package__, "stage_recipients")

# A subject is a line of a mail: longer ones are cut in the name of the campaign, and nowhere else.
MAX_NAME_LENGTH = 200
# Holds the place of the footer, the only part of the page that is a template.
_FOOTER = "<!-- footer -->"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class MailoutContent:
    """What readers will get, as a template; its only variable is each reader's own way out."""

    subject: str
    html: str
    text: str
    issues: tuple[ContentIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would do: nothing of it was stored or sent."""

    page: MailoutPage
    content: MailoutContent
    recipients: dict[str, str | None]


class MailoutPreparation:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        setup: MailoutSetup,
        *,
        notion: Notion,
        pictures: ImageCopier,
        templates: TemplateStore,
        readers: MailoutAudience,
        queue: MailoutQueue,
    ) -> None:
        self._database = database
        self._clock = clock
        self._setup = setup
        self._notion = notion
        self._pictures = pictures
        self._templates = templates
        self._readers = readers
        self._queue = queue
        self._warned: set[str] = set()

    async def step(self, lease: RunLease) -> MailoutRun:
        """The next step of a run that is not in the queue yet. A refusal ends it; what is only out of reach raises."""
        try:
            match lease.run.status:
                case MailoutRunStatus.ACCEPTED:
                    return await self._fix_content(lease)
                case MailoutRunStatus.GATHERING:
                    return await self._gather(lease)
                case _:
                    return await self._hand_over(lease)
        except MailoutRefused as refused:
            return await self._refuse(lease, refused)
        except (NotionRefused, SupabaseRefused) as refused:
            return await self._refuse(lease, MailoutRefused(refused.code, str(refused)))

    async def check(self, lease: RunLease) -> MailoutRun:
        """What the page says of itself, looked at before anybody waits for its content; refusals as in a step."""
        try:
            await self._examine(lease)
        except MailoutRefused as refused:
            return await self._refuse(lease, refused)
        except NotionRefused as refused:
            return await self._refuse(lease, MailoutRefused(refused.code, str(refused)))
        return lease.run

    async def read(self, page_id: str) -> tuple[MailoutPage, MailoutContent]:
        """The same questions and the same content as in a run, with nothing stored but copies of pictures."""
        page = await self._page(page_id)
        await self._object(page)
        return page, await self._write(page)

    async def dry_run(self, page_id: str) -> DryRun:
        page, content = await self.read(page_id)
        if page.is_test:
            people = dict(once_each((each, None) for each in self._test_emails()))
        else:
            gathered = [each async for part in self._readers.pages(self._setup.tenant_id) for each in part]
            people = dict(once_each(gathered))
            if not people:
                raise nobody_to_write_to(self._readers.place)
        return DryRun(page, content, people)

    async def _refuse(self, lease: RunLease, refused: MailoutRefused) -> MailoutRun:
        # No warning: whoever asked is told, and so is Notion.
        log.info("mailout_refused", run=lease.run.mailout_id, code=refused.code, reason=str(refused))
        return await lease.refuse(refused)

    # The page, and what is wrong with it.

    async def _examine(self, lease: RunLease) -> MailoutPage:
        page = await self._page(lease.run.page_id)
        async with self._database.write() as tx:
            await lease.change(tx, is_test=page.is_test, subject=page.subject)
        await self._object(page)
        if not page.is_test:
            await lease.claim_page()
        return page

    async def _page(self, page_id: str) -> MailoutPage:
        found = await self._notion.page(page_id)
        if self._setup.mailouts_database is not None:
            # Asked before anything is sent: where nothing can be reported, that is told now.
            await self._notion.data_source(self._setup.mailouts_database, setting="NOTION_DB_MAILOUTS")
        page = read_mailout(found, self._setup.columns)
        for name in page.lacking:
            if name not in self._warned:
                self._warned.add(name)
                log.warning("notion_property_missing", property=name, page=page.page_id)
        return page

    async def _object(self, page: MailoutPage) -> None:
        """Raises all that speaks against the page at once, always in the same order."""
        of_row, of_settings = [*self._faults_of_row(page)], [*self._faults_of_settings(page)]
        if of_row or of_settings:
            raise together([*of_row, *await self._faults_of_content(page), *of_settings])

    def _faults_of_row(self, page: MailoutPage) -> Iterator[MailoutRefused]:
        if not page.subject.strip():
            yield no_subject()
        if not page.is_test and (how := self._how_sent(page)) is not None:
            yield already_sent(how)

    def _how_sent(self, page: MailoutPage) -> str | None:
        if (page.status or "").casefold() == self._setup.statuses.send.casefold():
            return f"its status is {page.status}"
        return None if page.sent_at is None else f"it was sent at {page.sent_at}"

    async def _faults_of_content(self, page: MailoutPage) -> list[MailoutRefused]:
        """As far as one question tells. What cannot be looked at now keeps nobody from being told the rest."""
        try:
            blocks = await read_top_level(self._notion, page.page_id)
        except NotionError:
            return []
        holds_others = any(each.missing is not None for each in blocks)
        return [] if holds_others or not render(blocks, {}).is_empty else [empty_body()]

    def _faults_of_settings(self, page: MailoutPage) -> Iterator[MailoutRefused]:
        if page.is_test and not parse_test_emails(self._setup.test_emails):
            yield no_test_emails()
        if missing := self._setup.footer.missing:
            yield no_footer(missing)

    def _test_emails(self) -> list[str]:
        found = parse_test_emails(self._setup.test_emails)
        if not found:
            raise no_test_emails()
        return found

    # The content.

    async def _fix_content(self, lease: RunLease) -> MailoutRun:
        page = await self._examine(lease)
        content = await self._write(page)
        try:
            stored = await self._templates.put(
                lease.run.tenant_id,
                lease.run.template_id,
                subject=content.subject,
                html=content.html,
                text=content.text,
            )
        except InvalidTemplate as error:
            raise MailoutRefused(CONTENT_INVALID, f"No mail can be made from the page: {error}.") from error
        async with self._database.write() as tx:
            now = self._clock.now()
            await note_errors(tx, lease.run.key, [error_of_issue(each, now) for each in content.issues])
            return await lease.change(
                tx, status=MailoutRunStatus.GATHERING, template_key=stored.key, due_at=now, failures=0
            )

    async def _write(self, page: MailoutPage) -> MailoutContent:
        blocks = await read_content(self._notion, page.page_id)
        copies = await self._pictures.copied(self._setup.tenant_id, blocks)
        rendered = render(blocks, copies)
        if rendered.is_empty:
            raise empty_body()
        unseen = () if self._setup.has_public_url or not copies else (_out_of_reach(page),)
        html_footer, text_footer = footers(self._setup.footer)
        html = literal_html(framed(page.subject, rendered.html, _FOOTER)).replace(_FOOTER, html_footer)
        text = f"{literal_text(rendered.text)}\n{text_footer}"
        return MailoutContent(literal_text(page.subject), html, text, (*rendered.issues, *unseen))

    # The readers.

    async def _gather(self, lease: RunLease) -> MailoutRun:
        """From the beginning if it was cut off: half a list is none."""
        run = lease.run
        mine = mailout_recipients.c.mailout_key == run.key
        async with self._database.write() as tx:
            await lease.renew(tx)
            await tx.execute(delete(mailout_recipients).where(mine))
        if run.is_test:
            await self._stage(lease, [(email, None) for email in self._test_emails()])
        else:
            async for page in self._readers.pages(run.tenant_id):
                await self._stage(lease, page)
        now = self._clock.now()
        async with self._database.write() as tx:
            planned = int((await tx.execute(select(func.count()).select_from(mailout_recipients).where(mine)))[0][0])
            if planned == 0:
                raise nobody_to_write_to(self._readers.place)
            key = await self._queue.enter(tx, self._entering(run, planned), now)
            return await lease.change(
                tx, status=MailoutRunStatus.QUEUEING, campaign_key=key, planned=planned, due_at=now, failures=0
            )

    async def _stage(self, lease: RunLease, people: list[tuple[str, str | None]]) -> None:
        rows = [{"email": email, "from_name": name} for email, name in once_each(people).items()]
        async with self._database.write() as tx:
            await lease.renew(tx)  # else whoever lost the run would add to the list of whoever has it
            if rows:
                await tx.count(STAGE_RECIPIENTS, people=rows, mailout_key=lease.run.key)

    def _entering(self, run: MailoutRun, planned: int) -> MailoutCampaign:
        subject, template_key = run.subject or "", run.template_key or 0
        kind = "Test" if run.is_test else "Mailout"
        return MailoutCampaign(
            campaign_id=run.mailout_id,
            tenant_id=run.tenant_id,
            name=f"{kind}: {subject}"[:MAX_NAME_LENGTH],
            subject=subject,
            template_id=run.template_id,
            template_key=template_key,
            planned=planned,
            interval_ms=self._setup.interval_ms,
        )

    async def _hand_over(self, lease: RunLease) -> MailoutRun:
        """Batch after batch, each in one transaction that also takes it off the list: nobody is left out or doubled."""
        while await self._next_batch(lease):
            pass
        return lease.run

    async def _next_batch(self, lease: RunLease) -> bool:
        run, now = lease.run, self._clock.now()
        assert run.campaign_key is not None
        people = mailout_recipients.c
        mine = people.mailout_key == run.key
        async with self._database.write() as tx:
            query = select(people.email, people.from_name).where(mine).order_by(people.email)
            rows = await tx.execute(query.limit(self._setup.batch_size))
            batch = [MailoutRecipient(row.email, self._payload(row.from_name)) for row in rows]
            is_wanted = await self._queue.hand_over(tx, run.campaign_key, batch, now) if batch else True
            if not batch or not is_wanted:
                await tx.execute(delete(mailout_recipients).where(mine))
                await self._queue.all_handed_over(tx, run.campaign_key, now)
                await lease.change(tx, status=MailoutRunStatus.SENDING, due_at=now, failures=0)
                return False
            done = people.email <= batch[-1].email
            await tx.execute(delete(mailout_recipients).where(mine, done))
            await lease.renew(tx)
        return True

    def _payload(self, from_name: str | None) -> dict[str, object]:
        """The From name is the subscriber's own where Supabase has one."""
        name = from_name or self._setup.from_name
        payload: dict[str, object] = {"from": {"email": self._setup.from_email, "name": name}, "variables": {}}
        if self._setup.reply_to is not None:
            payload["replyTo"] = self._setup.reply_to
        return payload


def _out_of_reach(page: MailoutPage) -> ContentIssue:
    reason = "readers will not see its pictures: set MAILWRIGHT_BASE_URL to where they reach us"
    return ContentIssue(page.page_id, "page", reason, "content_image_unreachable")


def error_of_issue(found: ContentIssue, now: int) -> RunError:
    message = f"{found.type} {found.block_id}: {found.reason}"
    # One block may lack several things, and each of them is told.
    key = f"block:{found.block_id}:{hashlib.sha256(message.encode()).hexdigest()[:16]}"
    return RunError(key, "render", found.code, message, now)
