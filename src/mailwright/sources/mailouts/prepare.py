"""Prepare a mailout: render its page, read its recipients, and put both into the campaign queue.

Nothing is sent before that. Each step ends in a commit and can be repeated, so a run resumes after a crash.
"""

from collections import Counter
from collections.abc import Iterator

from sqlalchemy import delete, func, select

from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import IS_TEST, Source
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.logs import logger
from mailwright.sources.campaigns import external
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.external import ExternalCampaign, ExternalRecipient
from mailwright.sources.mailouts.addresses import deduplicate, name_in, parse_test_emails
from mailwright.sources.mailouts.audience import AudienceMember, MailoutAudience
from mailwright.sources.mailouts.exclusions import find_exclusions
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
from mailwright.sources.mailouts.refusals import (
    CONTENT_INVALID,
    MailoutRefused,
    already_sent,
    approval_rejected,
    combine,
    empty_body,
    needs_real_trigger,
    no_footer,
    no_recipients,
    no_subject,
    no_test_emails,
    no_test_property,
    only_local_mailbox,
    sender_refused,
    sender_rules_unmet,
)
from mailwright.sources.mailouts.rendering import ContentIssue, ImageCopier, framed, render
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunLease, error_of_issue, store_errors
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import SupabaseRefused
from mailwright.sources.send_approvals import (
    ApprovalRejected,
    PlannedSend,
    SendKind,
    is_waiting,
    require_approval,
)
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules, refusal_text
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import mailout_recipients, templates

STAGE_RECIPIENTS = statement(__package__, "stage_recipients")

# Campaign names are cut to this length; subjects are not.
MAX_NAME_LENGTH = 200
# Marks the position of the footer, the only part of the document that is a template.
_FOOTER = "<!-- footer -->"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class MailoutContent:
    """The email as a template. Its variables are the recipient's unsubscribe link and the placeholders."""

    subject: str
    html: str
    text: str
    issues: tuple[ContentIssue, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRun:
    """The email that a run would send, and its recipients. Nothing is stored or sent."""

    page: MailoutPage
    content: MailoutContent
    recipients: dict[str, str | None]
    excluded: dict[str, str]  # the reason by address, for members of the audience who are left out
    is_local: bool = False  # a run would reach the local mailbox only


class MailoutPreparation:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        setup: MailoutSetup,
        *,
        notion: Notion,
        images: ImageCopier,
        templates: TemplateStore,
        audience: MailoutAudience,
        rules: SenderRules = NO_SENDER_RULES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._setup = setup
        self._notion = notion
        self._images = images
        self._templates = templates
        self._audience = audience
        self._rules = rules
        self._warned: set[str] = set()

    async def step(self, lease: RunLease) -> MailoutRun:
        """Do the next step before sending. A refusal ends the run; temporary failures are raised."""
        try:
            match lease.run.status:
                case MailoutRunStatus.ACCEPTED:
                    return await self._fix_content(lease)
                case MailoutRunStatus.GATHERING:
                    return await self._gather(lease)
                case _:
                    return await self._enqueue(lease)
        except MailoutRefused as refused:
            return await self._refuse(lease, refused)
        except (NotionRefused, SupabaseRefused) as refused:
            return await self._refuse(lease, MailoutRefused(refused.text, code=refused.code))

    async def check(self, lease: RunLease) -> MailoutRun:
        """Check the properties of the page, and that its content is not empty. A refusal ends the run."""
        try:
            page = await self._examine(lease)
            if faults := await self._check_content(page):
                raise combine(faults)
        except MailoutRefused as refused:
            return await self._refuse(lease, refused)
        except NotionRefused as refused:
            return await self._refuse(lease, MailoutRefused(refused.text, code=refused.code))
        return lease.run

    async def read(self, page_id: str) -> tuple[MailoutPage, MailoutContent]:
        """Check and render the page as a run would. Only copies of images are stored."""
        page = await self._page(page_id)
        await self._validate(page)
        return page, await self._write(page)

    async def dry_run(self, page_id: str) -> DryRun:
        page, content = await self.read(page_id)
        tenant_id, excluded = self._setup.tenant_id, dict[str, str]()
        if page.is_test:
            people = deduplicate((each, None) for each in self._test_emails())
        else:
            members = [each async for part in self._audience.pages(tenant_id) for each in part]
            people = deduplicate(_wanted(members))
            excluded = {each.email: each.excluded for each in members if each.excluded is not None}
            excluded |= await self._audience.excluded(tenant_id)
            if not people and not excluded:
                raise no_recipients(self._audience.empty_reason)
        excluded |= await find_exclusions(self._database, tenant_id, list(people))
        recipients = {email: name for email, name in people.items() if email not in excluded}
        return DryRun(page, content, recipients, excluded, self._setup.is_local)

    async def _refuse(self, lease: RunLease, refused: MailoutRefused) -> MailoutRun:
        # Logged only as info, because the caller and Notion get the reason anyway.
        log.info("mailout_refused", run=lease.run.mailout_id, code=refused.code, reason=str(refused))
        return await lease.refuse(refused)

    # Checks.

    async def _examine(self, lease: RunLease) -> MailoutPage:
        page = await self._page(lease.run.page_id)
        async with self._database.write() as tx:
            await lease.change(tx, is_test=page.is_test, is_local=self._setup.is_local, subject=page.subject)
        await self._validate(page)
        if not page.is_test and not self._setup.is_local:
            await lease.claim_page()
        return page

    async def _page(self, page_id: str) -> MailoutPage:
        found = await self._notion.page(page_id)
        if self._setup.mailouts_database is not None:
            # Fail now, before anything is sent, if the results could not be written back.
            await self._notion.data_source(self._setup.mailouts_database, setting="NOTION_DB_MAILOUTS")
        page = read_mailout(found, self._setup.columns)
        for name in page.lacking:
            if name not in self._warned:
                self._warned.add(name)
                log.warning("notion_property_missing", property=name, page=page.page_id)
        return page

    async def _validate(self, page: MailoutPage) -> None:
        """Raise all refusals at once, always in the same order."""
        of_page, of_settings = [*_check_properties(self._setup, page)], [*_check_settings(self._setup, page)]
        if of_page or of_settings:
            raise combine([*of_page, *await self._check_content(page), *of_settings])

    async def _check_content(self, page: MailoutPage) -> list[MailoutRefused]:
        """Check that the page is not empty, usually with one request. If Notion is unavailable, report nothing."""
        try:
            blocks = await read_top_level(self._notion, page.page_id)
            rendered = render(blocks, {})
            if rendered.is_empty and any(each.missing is not None for each in blocks):
                rendered = render(await read_content(self._notion, page.page_id), {})
        except NotionError:
            return []
        return [empty_body(rendered.issues)] if rendered.is_empty else []

    def _test_emails(self) -> list[str]:
        found = parse_test_emails(self._setup.test_emails)
        if not found:
            raise no_test_emails()
        return found

    # Content.

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
            raise MailoutRefused(
                "The page cannot be rendered as an email: {error}.", code=CONTENT_INVALID, error=error
            ) from error
        async with self._database.write() as tx:
            now = self._clock.now()
            await store_errors(tx, lease.run.key, [error_of_issue(each, now) for each in content.issues])
            return await lease.change(
                tx, status=MailoutRunStatus.GATHERING, template_key=stored.key, due_at=now, failures=0
            )

    async def _write(self, page: MailoutPage) -> MailoutContent:
        blocks = await read_content(self._notion, page.page_id)
        copies = await self._images.copy(self._setup.tenant_id, blocks)
        rendered = render(blocks, copies)
        if rendered.is_empty:
            raise empty_body(rendered.issues)
        unreachable = () if self._setup.has_public_url or not copies else (_unreachable_images(page),)
        html_footer, text_footer = footers(self._setup.footer)
        html = literal_html(framed(page.subject, rendered.html, _FOOTER)).replace(_FOOTER, html_footer)
        text = f"{literal_text(rendered.text)}\n{text_footer}"
        return MailoutContent(literal_text(page.subject), html, text, (*rendered.issues, *unreachable))

    # Recipients.

    async def _gather(self, lease: RunLease) -> MailoutRun:
        """Read all recipients. An interrupted step starts again from the beginning."""
        run = lease.run
        mine = mailout_recipients.c.mailout_key == run.key
        async with self._database.write() as tx:
            await lease.renew(tx)
            if await is_waiting(tx, run.tenant_id, SendKind.MAILOUT, run.page_id):
                raise AwaitsApproval("The mailout waits for the approval of a second person.")
            await tx.execute(delete(mailout_recipients).where(mine))
        if run.is_test:
            await self._stage(lease, [(email, None) for email in self._test_emails()])
        else:
            async for page in self._audience.pages(run.tenant_id):
                await self._stage(lease, _wanted(page))
        async with self._database.read() as tx:
            planned = int((await tx.execute(select(func.count()).select_from(mailout_recipients).where(mine)))[0][0])
        if planned == 0:
            raise no_recipients(self._audience.empty_reason)
        await self._check_sender_rules(run, planned)
        if not run.is_test and not run.is_local:
            send = await _planned_send(self._database, self._setup, run, planned)
            try:
                await require_approval(self._database, self._clock, send, actor=run.actor)
            except ApprovalRejected as rejected:
                raise approval_rejected(rejected.text) from rejected
        now = self._clock.now()
        async with self._database.write() as tx:
            key = await external.enqueue_external(tx, self._campaign(run, planned), now)
            return await lease.change(
                tx, status=MailoutRunStatus.QUEUEING, campaign_key=key, planned=planned, due_at=now, failures=0
            )

    async def _check_sender_rules(self, run: MailoutRun, planned: int) -> None:
        """Check the sender's domain and the rules of the large mailbox providers. The footer has a postal address."""
        refusal = await self._rules.refusal(run.tenant_id, self._setup.from_email)
        if refusal is not None:
            raise sender_refused(refusal)
        if run.overrides_rules:
            return
        unmet = await self._rules.unmet(
            run.tenant_id, Source.MAILOUT, planned, sender=self._setup.from_email, has_postal_address=True
        )
        if unmet:
            raise sender_rules_unmet(refusal_text(unmet, self._rules.limit))

    async def _stage(self, lease: RunLease, people: list[tuple[str, str | None]]) -> None:
        rows = [{"email": email, "from_name": name} for email, name in deduplicate(people).items()]
        async with self._database.write() as tx:
            await lease.renew(tx)  # Raises if another process has taken over the run.
            if rows:
                await tx.count(STAGE_RECIPIENTS, people=rows, mailout_key=lease.run.key)

    def _campaign(self, run: MailoutRun, planned: int) -> ExternalCampaign:
        subject, template_key = run.subject or "", run.template_key or 0
        kind = "Test" if run.is_test else "Mailout"
        return ExternalCampaign(
            campaign_id=run.mailout_id,
            tenant_id=run.tenant_id,
            name=f"{kind}: {subject}"[:MAX_NAME_LENGTH],
            subject=subject,
            template_id=run.template_id,
            template_key=template_key,
            planned=planned,
            limits=CampaignLimits(interval_ms=self._setup.interval_ms, one_at_a_time=self._setup.one_at_a_time),
        )

    async def _enqueue(self, lease: RunLease) -> MailoutRun:
        """Enqueue batches. The transaction of each also removes it from the list, so none is skipped or duplicated."""
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
            is_test = bool(run.is_test)
            batch = [ExternalRecipient(row.email, self._payload(row.email, row.from_name, is_test)) for row in rows]
            # `add_recipients` returns false if the campaign was cancelled.
            if not batch or not await external.add_recipients(tx, Source.MAILOUT, run.campaign_key, batch, now):
                await tx.execute(delete(mailout_recipients).where(mine))
                await external.close_recipients(tx, run.campaign_key, now)
                await lease.change(tx, status=MailoutRunStatus.SENDING, due_at=now, failures=0)
                return False
            is_enqueued = people.email <= batch[-1].email
            await tx.execute(delete(mailout_recipients).where(mine, is_enqueued))
            await lease.renew(tx)
        return True

    def _payload(self, email: str, from_name: str | None, is_test: bool) -> dict[str, object]:
        """Return the payload that is specific to the recipient: the From name of the subscriber, if any."""
        sender = {"email": self._setup.from_email, "name": from_name or self._setup.from_name}
        variables = {"name": from_name or name_in(email), "from_name": from_name or ""}
        payload: dict[str, object] = {"from": sender, "variables": variables}
        if self._setup.reply_to is not None:
            payload["replyTo"] = self._setup.reply_to
        if is_test:
            payload[IS_TEST] = True
        return payload


def _wanted(members: list[AudienceMember]) -> list[tuple[str, str | None]]:
    """Return the address and From name of everyone who is not excluded, and log how many are, by reason."""
    for reason, count in Counter(each.excluded for each in members if each.excluded is not None).items():
        log.warning("mailout_subscribers_excluded", reason=reason, count=count)
    return [(each.email, each.from_name) for each in members if each.excluded is None]


def _check_properties(setup: MailoutSetup, page: MailoutPage) -> Iterator[MailoutRefused]:
    if not page.subject.strip():
        yield no_subject()
    if page.is_test is None:
        yield no_test_property(setup.columns.test)
    elif not page.is_test and setup.statuses.is_test_only(page.status):
        yield needs_real_trigger(page.status, setup.statuses.ready)
    if not page.is_test and (how := _how_sent(setup, page)) is not None:
        yield already_sent(how)


def _how_sent(setup: MailoutSetup, page: MailoutPage) -> str | None:
    if (page.status or "").casefold() == setup.statuses.send.casefold():
        return lazy_gettext("its status is {status}", status=page.status)
    return None if page.sent_at is None else lazy_gettext("it was sent at {time}", time=page.sent_at)


def _check_settings(setup: MailoutSetup, page: MailoutPage) -> Iterator[MailoutRefused]:
    if page.is_test and not parse_test_emails(setup.test_emails):
        yield no_test_emails()
    if missing := setup.footer.missing:
        yield no_footer(missing)
    if setup.is_local and not setup.allows_local and not page.is_test:
        yield only_local_mailbox()


async def _planned_send(database: Database, setup: MailoutSetup, run: MailoutRun, planned: int) -> PlannedSend:
    """Return the content for an approval by a second person: the stored email, its sender and the number of recipients.

    The page is the subject, so that a rejected page stays rejected when it is sent again.
    """
    t = templates.c
    async with database.read() as tx:
        [stored] = await tx.execute(select(t.subject, t.html, t.text).where(t.id == run.template_key))
    content = {"page": run.page_id, "from": f"{setup.from_name} <{setup.from_email}>", "subject": stored.subject}
    content |= {"text": stored.text, "html": stored.html}
    name = run.subject or run.page_id
    return PlannedSend(run.tenant_id, SendKind.MAILOUT, run.page_id, name, planned, content)


def _unreachable_images(page: MailoutPage) -> ContentIssue:
    reason = lazy_gettext(
        "recipients cannot load its images: set MAILWRIGHT_BASE_URL to the public address of this installation"
    )
    return ContentIssue(page.page_id, "page", reason, "content_image_unreachable")
