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
from mailwright.sources.mailouts.audience import Readers
from mailwright.sources.mailouts.footer import footers
from mailwright.sources.mailouts.literal import literal_html, literal_text
from mailwright.sources.mailouts.notion import (
    Mailout,
    Notion,
    NotionError,
    NotionRefused,
    content_of,
    read_mailout,
    surface_of,
)
from mailwright.sources.mailouts.queue import Addressee, Entering, Queue
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
from mailwright.sources.mailouts.rendering import Pictures, Unsupported, framed, render
from mailwright.sources.mailouts.runs import Held, Run, RunError, RunStatus, note_errors
from mailwright.sources.mailouts.setup import Setup
from mailwright.sources.mailouts.supabase import SupabaseRefused
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_recipients

STAGE_RECIPIENTS = statement(__package__, "stage_recipients")

# A subject is a line of a mail: longer ones are cut in the name of the campaign, and nowhere else.
LONGEST_NAME = 200
# Holds the place of the footer, the only part of the page that is a template.
_FOOTER = "<!-- footer -->"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """What readers will get, as a template; its only variable is each reader's own way out."""

    subject: str
    html: str
    text: str
    unsupported: tuple[Unsupported, ...] = ()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a run would do: nothing of it was stored or sent."""

    page: Mailout
    written: Written
    recipients: dict[str, str | None]


class Preparing:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        setup: Setup,
        *,
        notion: Notion,
        pictures: Pictures,
        templates: TemplateStore,
        readers: Readers,
        queue: Queue,
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

    async def step(self, held: Held) -> Run:
        """The next step of a run that is not in the queue yet. A refusal ends it; what is only out of reach raises."""
        try:
            match held.run.status:
                case RunStatus.ACCEPTED:
                    return await self._fix_content(held)
                case RunStatus.GATHERING:
                    return await self._gather(held)
                case _:
                    return await self._hand_over(held)
        except MailoutRefused as refused:
            return await self._refuse(held, refused)
        except (NotionRefused, SupabaseRefused) as refused:
            return await self._refuse(held, MailoutRefused(refused.code, str(refused)))

    async def check(self, held: Held) -> Run:
        """What the page says of itself, looked at before anybody waits for its content; refusals as in a step."""
        try:
            await self._examine(held)
        except MailoutRefused as refused:
            return await self._refuse(held, refused)
        except NotionRefused as refused:
            return await self._refuse(held, MailoutRefused(refused.code, str(refused)))
        return held.run

    async def read(self, page_id: str) -> tuple[Mailout, Written]:
        """The same questions and the same content as in a run, with nothing stored but copies of pictures."""
        page = await self._page(page_id)
        await self._object(page)
        return page, await self._write(page)

    async def rehearse(self, page_id: str) -> Rehearsal:
        page, written = await self.read(page_id)
        if page.is_test:
            people = dict(once_each((each, None) for each in self._test_emails()))
        else:
            gathered = [each async for part in self._readers.pages(self._setup.tenant_id) for each in part]
            people = dict(once_each(gathered))
            if not people:
                raise nobody_to_write_to(self._readers.place)
        return Rehearsal(page, written, people)

    async def _refuse(self, held: Held, refused: MailoutRefused) -> Run:
        # No warning: whoever asked is told, and so is Notion.
        log.info("mailout_refused", run=held.run.mailout_id, code=refused.code, reason=str(refused))
        return await held.refuse(refused)

    # The page, and what is wrong with it.

    async def _examine(self, held: Held) -> Mailout:
        page = await self._page(held.run.page_id)
        async with self._database.write() as tx:
            await held.change(tx, is_test=page.is_test, subject=page.subject)
        await self._object(page)
        if not page.is_test:
            await held.claim_page()
        return page

    async def _page(self, page_id: str) -> Mailout:
        found = await self._notion.page(page_id)
        if self._setup.mailouts_database is not None:
            # Asked before anything is sent: where nothing can be reported, that is told now.
            await self._notion.data_source(self._setup.mailouts_database, setting="NOTION_DB_MAILOUTS")
        page = read_mailout(found, self._setup.names)
        for name in page.lacking:
            if name not in self._warned:
                self._warned.add(name)
                log.warning("notion_property_missing", property=name, page=page.page_id)
        return page

    async def _object(self, page: Mailout) -> None:
        """Raises all that speaks against the page at once, always in the same order."""
        of_row, of_settings = [*self._faults_of_row(page)], [*self._faults_of_settings(page)]
        if of_row or of_settings:
            raise together([*of_row, *await self._faults_of_content(page), *of_settings])

    def _faults_of_row(self, page: Mailout) -> Iterator[MailoutRefused]:
        if not page.subject.strip():
            yield no_subject()
        if not page.is_test and (how := self._how_sent(page)) is not None:
            yield already_sent(how)

    def _how_sent(self, page: Mailout) -> str | None:
        if (page.status or "").casefold() == self._setup.statuses.send.casefold():
            return f"its status is {page.status}"
        return None if page.sent_at is None else f"it was sent at {page.sent_at}"

    async def _faults_of_content(self, page: Mailout) -> list[MailoutRefused]:
        """As far as one question tells. What cannot be looked at now keeps nobody from being told the rest."""
        try:
            blocks = await surface_of(self._notion, page.page_id)
        except NotionError:
            return []
        holds_others = any(each.missing is not None for each in blocks)
        return [] if holds_others or not render(blocks, {}).is_empty else [empty_body()]

    def _faults_of_settings(self, page: Mailout) -> Iterator[MailoutRefused]:
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

    async def _fix_content(self, held: Held) -> Run:
        page = await self._examine(held)
        written = await self._write(page)
        try:
            stored = await self._templates.put(
                held.run.tenant_id,
                held.run.template_id,
                subject=written.subject,
                html=written.html,
                text=written.text,
            )
        except InvalidTemplate as error:
            raise MailoutRefused(CONTENT_INVALID, f"No mail can be made from the page: {error}.") from error
        async with self._database.write() as tx:
            now = self._clock.now()
            await note_errors(tx, held.run.key, [unsupported_error(each, now) for each in written.unsupported])
            return await held.change(tx, status=RunStatus.GATHERING, template_key=stored.key, due_at=now, failures=0)

    async def _write(self, page: Mailout) -> Written:
        blocks = await content_of(self._notion, page.page_id)
        copies = await self._pictures.copied(self._setup.tenant_id, blocks)
        rendered = render(blocks, copies)
        if rendered.is_empty:
            raise empty_body()
        unseen = () if self._setup.is_reached_by_readers or not copies else (_out_of_reach(page),)
        html_footer, text_footer = footers(self._setup.footer)
        html = literal_html(framed(page.subject, rendered.html, _FOOTER)).replace(_FOOTER, html_footer)
        text = f"{literal_text(rendered.text)}\n{text_footer}"
        return Written(literal_text(page.subject), html, text, (*rendered.unsupported, *unseen))

    # The readers.

    async def _gather(self, held: Held) -> Run:
        """From the beginning if it was cut off: half a list is none."""
        run = held.run
        mine = mailout_recipients.c.mailout_key == run.key
        async with self._database.write() as tx:
            await held.renew(tx)
            await tx.execute(delete(mailout_recipients).where(mine))
        if run.is_test:
            await self._stage(held, [(email, None) for email in self._test_emails()])
        else:
            async for page in self._readers.pages(run.tenant_id):
                await self._stage(held, page)
        now = self._clock.now()
        async with self._database.write() as tx:
            planned = int((await tx.execute(select(func.count()).select_from(mailout_recipients).where(mine)))[0][0])
            if planned == 0:
                raise nobody_to_write_to(self._readers.place)
            key = await self._queue.enter(tx, self._entering(run, planned), now)
            return await held.change(
                tx, status=RunStatus.QUEUEING, campaign_key=key, planned=planned, due_at=now, failures=0
            )

    async def _stage(self, held: Held, people: list[tuple[str, str | None]]) -> None:
        rows = [{"email": email, "from_name": name} for email, name in once_each(people).items()]
        async with self._database.write() as tx:
            await held.renew(tx)  # else whoever lost the run would add to the list of whoever has it
            if rows:
                await tx.count(STAGE_RECIPIENTS, people=rows, mailout_key=held.run.key)

    def _entering(self, run: Run, planned: int) -> Entering:
        subject, template_key = run.subject or "", run.template_key or 0
        kind = "Test" if run.is_test else "Mailout"
        return Entering(
            campaign_id=run.mailout_id,
            tenant_id=run.tenant_id,
            name=f"{kind}: {subject}"[:LONGEST_NAME],
            subject=subject,
            template_id=run.template_id,
            template_key=template_key,
            planned=planned,
            interval_ms=self._setup.interval_ms,
        )

    async def _hand_over(self, held: Held) -> Run:
        """Batch after batch, each in one transaction that also takes it off the list: nobody is left out or doubled."""
        while await self._next_batch(held):
            pass
        return held.run

    async def _next_batch(self, held: Held) -> bool:
        run, now = held.run, self._clock.now()
        assert run.campaign_key is not None
        people = mailout_recipients.c
        mine = people.mailout_key == run.key
        async with self._database.write() as tx:
            query = select(people.email, people.from_name).where(mine).order_by(people.email)
            rows = await tx.execute(query.limit(self._setup.batch_size))
            batch = [Addressee(row.email, self._payload(row.from_name)) for row in rows]
            is_wanted = await self._queue.hand_over(tx, run.campaign_key, batch, now) if batch else True
            if not batch or not is_wanted:
                await tx.execute(delete(mailout_recipients).where(mine))
                await self._queue.all_handed_over(tx, run.campaign_key, now)
                await held.change(tx, status=RunStatus.SENDING, due_at=now, failures=0)
                return False
            done = people.email <= batch[-1].email
            await tx.execute(delete(mailout_recipients).where(mine, done))
            await held.renew(tx)
        return True

    def _payload(self, from_name: str | None) -> dict[str, object]:
        """The From name is the subscriber's own where Supabase has one."""
        name = from_name or self._setup.from_name
        payload: dict[str, object] = {"from": {"email": self._setup.from_email, "name": name}, "variables": {}}
        if self._setup.reply_to is not None:
            payload["replyTo"] = self._setup.reply_to
        return payload


def _out_of_reach(page: Mailout) -> Unsupported:
    reason = "readers will not see its pictures: set MAILWRIGHT_BASE_URL to where they reach us"
    return Unsupported(page.page_id, "page", reason, "content_image_unreachable")


def unsupported_error(found: Unsupported, now: int) -> RunError:
    message = f"{found.type} {found.block_id}: {found.reason}"
    # One block may lack several things, and each of them is told.
    key = f"block:{found.block_id}:{hashlib.sha256(message.encode()).hexdigest()[:16]}"
    return RunError(key, "render", found.code, message, now)
