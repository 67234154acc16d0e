"""Article runs: each pair of campaign tag and batch id is sent once, even if it is requested several times."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.content.text import from_html
from mailwright.domain.approval import max_recipients
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import IdempotencyConflict, InvalidInput, NotFound
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.sender_policy import SENDER_DOMAIN_NOT_VERIFIED
from mailwright.domain.states import Priority, Status
from mailwright.outbox import audit_log
from mailwright.outbox.search import newest_message_key
from mailwright.sources.articles import recipients
from mailwright.sources.articles.assembly import Slice, SliceSet, assemble, published
from mailwright.sources.articles.compose import ComposedArticle, compose
from mailwright.sources.articles.profiles.audience import check_list, sendable_pages
from mailwright.sources.articles.profiles.reads import ProfileRead, discard_recipients, insert_read, load_reads
from mailwright.sources.articles.profiles.table import ProfileSource, ProfileTable, table_of
from mailwright.sources.articles.recipients import ArticleAudience
from mailwright.sources.articles.slices import list_slices, slices_from_json, slices_to_json
from mailwright.sources.send_approvals import PlannedSend, SendKind, find_limit, require_approval
from mailwright.sources.sender_rules import CODE, NO_SENDER_RULES, SenderRules, SenderRulesDecision, refusal_text
from mailwright.sources.value_digest import hash_value
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaign_runs, run_variants

RUN_COUNTS = statement(__package__, "run_counts")

NEWEST = 2**63 - 1
# Contacts read per query in the search for the first recipient.
_PAGE_SIZE = 5_000
MAX_COUNTED = 2**31 - 1


class UnknownArticle(InvalidInput):
    """There is no article with this key."""

    code = "UNKNOWN_ARTICLE"


class NothingPublished(InvalidInput):
    """No slice of this article is currently published."""

    code = "NO_PUBLISHED_SLICE"


class EmptyAudience(InvalidInput):
    """No subscriber in the audience would receive this article."""

    code = "EMPTY_AUDIENCE"


class SenderRulesUnmet(InvalidInput):
    """The run does not meet the rules of the large mailbox providers."""

    code = CODE

    def __init__(self, reason: str) -> None:
        super().__init__(
            "{reason} After that, send the article again, or override the rules now.",
            reason=reason,
            field="override_sender_rules",
        )


class SenderRefused(InvalidInput):
    """The tenant may not send from this domain."""

    code = SENDER_DOMAIN_NOT_VERIFIED


class BatchIdReused(IdempotencyConflict):
    """This batch id was already used for another article or audience; nothing was sent."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request to send an article. A repeated tag and batch id must come with the same article and filter."""

    campaign_tag: str
    article_key: str
    send_batch_id: str
    audience_filter: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ArticleRun:
    id: int
    run_id: str
    tenant_id: int
    campaign_tag: str
    article_key: str
    actor: str
    send_batch_id: str
    audience_filter: dict[str, str]
    list_key: str
    recipients: int
    skipped: int
    enqueued_to: str
    started_at: Instant
    enqueue_ended_at: Instant | None
    failure: str | None
    sender_rules: str | None
    hold_reason: str | None
    messages_after_key: int
    max_recipients: int | None
    read: ProfileRead | None = None  # for recipients from a table of another program

    @property
    def is_read(self) -> bool:
        """Whether all recipients are known here, so that messages can be created."""
        return self.read is None or self.read.is_complete

    @property
    def is_enqueued(self) -> bool:
        """Whether all messages are in the queue."""
        return self.enqueue_ended_at is not None

    @property
    def audience(self) -> ArticleAudience:
        return ArticleAudience(self.list_key, recipients.conditions_of(self.audience_filter))

    def matches(self, request: RunRequest) -> bool:
        return self.article_key == request.article_key and self.audience_filter == dict(request.audience_filter)


@dataclass(frozen=True, slots=True)
class RunVariant:
    """One variant of a run: its slices, and how many recipients it has."""

    slice_ids: tuple[str, ...]
    template_key: int
    recipients: int


class ArticleRuns:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        templates: TemplateStore,
        rules: SenderRules = NO_SENDER_RULES,
        profiles: ProfileSource | None = None,
    ) -> None:
        """Create the service. With `profiles`, the recipients of its tenant come from that table."""
        self._database = database
        self._clock = clock
        self._templates = templates
        self._rules = rules
        self._profiles = profiles

    async def start(
        self, actor: str, tenant_id: int, request: RunRequest, *, overrides_rules: bool = False
    ) -> tuple[ArticleRun, bool]:
        """Return the run, and whether it already existed. A worker enqueues its messages.

        `overrides_rules` starts the run even if the rules of the large mailbox providers are not met, and resumes an
        existing run that is on hold because of them. The audit log records the override.
        """
        if (existing := await self._find_batch(tenant_id, request)) is not None:
            if overrides_rules and existing.sender_rules is None and existing.enqueue_ended_at is None:
                existing = await self._override_rules(actor, existing)
            return existing, True
        now = self._clock.now()
        table = await table_of(self._profiles, tenant_id)
        async with self._database.read() as tx:
            published_slices = await _published_slices(tx, tenant_id, request.article_key, now)
            audience = await recipients.resolve_audience(tx, tenant_id, request.article_key, request.audience_filter)
            most = self._rules.limit + 1 if self._rules.find_route is not None else 1
            over = await find_limit(tx, tenant_id)
            most = most if over is None else MAX_COUNTED
            slices = SliceSet(published_slices)
            number = 0 if table else await _count_recipients(tx, tenant_id, audience, slices, now, most=most)
        if table is not None:
            number = await _count_profiles(self._database, table, tenant_id, audience, slices, most=most)
        if not number:
            raise EmptyAudience(field="audience_filter")
        composed = await self._check_content(tenant_id, published_slices)
        if (refusal := await self._rules.refusal(tenant_id)) is not None:
            raise SenderRefused(refusal)
        decision = await self._decide(tenant_id, number, overrides_rules=overrides_rules)
        source = None if table is None else table.description
        new = _NewRun(actor, tenant_id, request, audience.list_key, published_slices, source, decision)
        await require_approval(self._database, self._clock, new.planned(composed, number), actor=actor)
        if over is not None:
            new = replace(new, max_recipients=max(over, max_recipients(number)))
        try:
            async with self._database.write() as tx:
                return await self._insert(tx, new), False
        except IntegrityError:  # Another process started the run after our check.
            return await self.find_batch(tenant_id, request), True

    async def find_batch(self, tenant_id: int, request: RunRequest) -> ArticleRun:
        if (existing := await self._find_batch(tenant_id, request)) is None:
            raise NotFound
        return existing

    async def find(self, tenant_id: int, run_id: str) -> ArticleRun:
        mine = and_(campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.run_id == run_id)
        async with self._database.read() as tx:
            runs = await _select(tx, mine, 1) if is_uuid(run_id) else []
        if not runs:
            raise NotFound("There is no run with this id", field="run_id")
        return runs[0]

    async def list_runs(
        self, tenant_id: int, *, limit: int, before: int = NEWEST, article_key: str | None = None
    ) -> list[ArticleRun]:
        """List runs, newest first."""
        mine = and_(campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.id < before)
        if article_key is not None:
            mine = and_(mine, campaign_runs.c.article_key == article_key)
        async with self._database.read() as tx:
            return await _select(tx, mine, limit)

    async def count_messages(self, run: ArticleRun) -> dict[str, int]:
        """Count the run's messages by status."""
        async with self._database.read() as tx:
            [now] = await _select(tx, campaign_runs.c.id == run.id, 1)
            rows = await tx.run(RUN_COUNTS, **message_location(now))
        counts = Counter[str]()
        for row in rows:
            counts[row.status] += row.number
        counts[Status.SENT.value] = now.recipients - counts.total()
        return {status: number for status, number in sorted(counts.items()) if number}

    async def list_variants(self, run: ArticleRun) -> list[RunVariant]:
        """List the variants of a run, largest first."""
        v = run_variants.c
        query = select(v.slices, v.template_key, v.recipients).where(v.run_key == run.id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(v.recipients.desc(), v.slices))
        return [RunVariant(tuple(orjson.loads(row.slices)), row.template_key, row.recipients) for row in rows]

    async def _find_batch(self, tenant_id: int, request: RunRequest) -> ArticleRun | None:
        same = and_(
            campaign_runs.c.tenant_id == tenant_id,
            campaign_runs.c.campaign_tag == request.campaign_tag,
            campaign_runs.c.send_batch_id == request.send_batch_id,
        )
        async with self._database.read() as tx:
            runs = await _select(tx, same, 1)
        if runs and not runs[0].matches(request):
            raise BatchIdReused
        return runs[0] if runs else None

    async def _decide(self, tenant_id: int, recipients: int, *, overrides_rules: bool) -> SenderRulesDecision | None:
        """Decide about the rules of the large mailbox providers, or raise if they are not met."""
        if overrides_rules:
            return SenderRulesDecision.OVERRIDDEN
        has_postal_address = bool(self._rules.postal_address)
        unmet = await self._rules.unmet(tenant_id, Source.ARTICLE, recipients, has_postal_address=has_postal_address)
        if unmet:
            raise SenderRulesUnmet(refusal_text(unmet, self._rules.limit))
        return None if unmet is None else SenderRulesDecision.MET

    async def _override_rules(self, actor: str, run: ArticleRun) -> ArticleRun:
        decided = {"sender_rules": SenderRulesDecision.OVERRIDDEN.value, "hold_reason": None}
        async with self._database.write() as tx:
            await tx.execute(update(campaign_runs).where(campaign_runs.c.id == run.id).values(**decided))
            await _record_override(tx, self._clock.now(), actor, run)
        return await self.find(run.tenant_id, run.run_id)

    async def _check_content(self, tenant_id: int, published_slices: list[Slice]) -> ComposedArticle:
        """Return the longest possible email, which contains all slices. It must be a valid template."""
        try:
            composed = await compose(self._templates, tenant_id, assemble(published_slices))
            Template(subject=composed.subject, html=composed.html, text=None)
        except InvalidTemplate as error:
            raise InvalidInput(
                "the slices of this article cannot be sent: {error}", field="article_key", error=error
            ) from error
        return composed

    async def _insert(self, tx: Transaction, new: "_NewRun") -> ArticleRun:
        now, request = self._clock.now(), new.request
        values: dict[str, Any] = {
            "run_id": uuid7(now),
            "tenant_id": new.tenant_id,
            "campaign_tag": request.campaign_tag,
            "article_key": request.article_key,
            "actor": new.actor,
            "send_batch_id": request.send_batch_id,
            "audience_filter": orjson.dumps(dict(request.audience_filter)).decode(),
            "list_key": new.list_key,
            "content": slices_to_json(new.published_slices),
            "recipients": 0,
            "skipped": 0,
            "enqueued_to": "",
            "started_at": now,
            "sender_rules": new.sender_rules,
            "messages_after_key": await newest_message_key(tx),
            "max_recipients": new.max_recipients,
        }
        rows = await tx.execute(insert(campaign_runs).values(**values).returning(*_columns()))
        run = run_from_row(rows[0])
        if new.source is not None:
            await insert_read(tx, run.id, new.source)
            run = replace(run, read=(await load_reads(tx, [run.id]))[run.id])
        await audit_log.record(
            tx,
            now,
            actor=new.actor,
            action="article.send",
            subject=run.run_id,
            tenant_id=new.tenant_id,
            detail={
                "article_key": run.article_key,
                "campaign_tag": run.campaign_tag,
                **({} if new.source is None else {"recipients_from": new.source}),
            },
        )
        if new.sender_rules is SenderRulesDecision.OVERRIDDEN:
            await _record_override(tx, now, new.actor, run)
        return run


@dataclass(frozen=True, slots=True)
class _NewRun:
    """The values that `start` resolves before it inserts the run."""

    actor: str
    tenant_id: int
    request: RunRequest
    list_key: str
    published_slices: list[Slice]
    source: str | None  # the table of the recipients; None for contacts
    sender_rules: SenderRulesDecision | None = None
    max_recipients: int | None = None

    def planned(self, composed: ComposedArticle, recipients: int) -> PlannedSend:
        """Return the content for an approval by a second person: the text of all slices, and the audience."""
        request = self.request
        content = {
            "article": request.article_key,
            "tag": request.campaign_tag,
            "batch": request.send_batch_id,
            "list": self.list_key,
            "filter": dict(request.audience_filter),
            **({} if self.source is None else {"source": self.source}),
            "subject": composed.subject,
            "text": from_html(composed.html),
            "html": composed.html,
            "slices": hash_value(slices_to_json(self.published_slices)),
        }
        subject = f"{request.campaign_tag}/{request.send_batch_id}"
        return PlannedSend(self.tenant_id, SendKind.ARTICLE, subject, request.article_key, recipients, content)


async def _record_override(tx: Transaction, now: Instant, actor: str, run: ArticleRun) -> None:
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action="article.override_sender_rules",
        subject=run.run_id,
        tenant_id=run.tenant_id,
        detail={"article_key": run.article_key, "campaign_tag": run.campaign_tag},
    )


def run_from_row(row: Any) -> ArticleRun:
    return ArticleRun(**{**row._mapping, "audience_filter": orjson.loads(row.audience_filter)})


async def content_of(tx: Transaction, run: ArticleRun) -> SliceSet:
    rows = await tx.execute(select(campaign_runs.c.content).where(campaign_runs.c.id == run.id))
    return SliceSet(slices_from_json(rows[0].content))


async def open_runs(tx: Transaction) -> list[ArticleRun]:
    return await _select(tx, campaign_runs.c.enqueue_ended_at.is_(None), 1_000)


async def stop_open_runs(database: Database, clock: Clock) -> None:
    """Stop runs of a restored database that still add recipients: these may have received the article already."""
    failure = "The database was restored while this run was adding recipients. Start another run for the rest."
    async with database.write() as tx:
        is_open = campaign_runs.c.enqueue_ended_at.is_(None)
        stopped = await tx.execute(
            update(campaign_runs)
            .where(is_open)
            .values(enqueue_ended_at=clock.now(), failure=failure)
            .returning(campaign_runs.c.id)
        )
        await discard_recipients(tx, [row.id for row in stopped])


async def end_run(tx: Transaction, run: ArticleRun, failure: str, now: Instant) -> None:
    """End a run before all recipients have a message."""
    ended = {"failure": failure[:1_000], "enqueued_to": "", "enqueue_ended_at": now}
    still_open = (campaign_runs.c.id == run.id, campaign_runs.c.enqueue_ended_at.is_(None))
    await tx.execute(update(campaign_runs).where(*still_open).values(**ended))
    if run.read is not None:
        await discard_recipients(tx, [run.id])


async def _published_slices(tx: Transaction, tenant_id: int, article_key: str, now: Instant) -> list[Slice]:
    existing = await list_slices(tx, tenant_id, article_key)
    if not existing:
        raise UnknownArticle(
            "There is no article {article_key}: no slice has this key", field="article_key", article_key=article_key
        )
    published_slices = published(existing, now)
    if not published_slices:
        raise NothingPublished(
            "none of the {count} slices of {article} is currently published",
            count=len(existing),
            article=article_key,
            field="article_key",
        )
    return published_slices


def message_location(run: ArticleRun) -> dict[str, Any]:
    """Return the query parameters that find the messages of a run by tenant, lane and key."""
    return {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "lane": lane_number(Priority.BULK, run.tenant_id),
        "behind": run.messages_after_key,
    }


async def _count_recipients(
    tx: Transaction, tenant_id: int, audience: ArticleAudience, slices: SliceSet, now: Instant, *, most: int
) -> int:
    """Count the recipients, and stop as soon as there are `most`."""
    after, number = "", 0
    while page := await recipients.page(tx, tenant_id, audience, now, after=after, limit=_PAGE_SIZE):
        for recipient in page:
            number += audience.includes(recipient) and bool(slices.select(recipient.divisions))
            if number >= most:
                return number
        after = page[-1].email
    return number


async def _count_profiles(
    database: Database,
    table: ProfileTable,
    tenant_id: int,
    audience: ArticleAudience,
    slices: SliceSet,
    *,
    most: int,
) -> int:
    """Count the recipients in a table of another program, as `_count_recipients` does."""
    check_list(table, audience)
    number = 0
    async for page in sendable_pages(database, table, tenant_id, audience):
        number += sum(bool(slices.select(recipient.divisions)) for recipient in page)
        if number >= most:
            return number
    return number


async def _select(tx: Transaction, condition: ColumnElement[bool], limit: int) -> list[ArticleRun]:
    query = select(*_columns()).where(condition).order_by(campaign_runs.c.id.desc()).limit(limit)
    runs = [run_from_row(row) for row in await tx.execute(query)]
    reads = await load_reads(tx, [run.id for run in runs])
    return [replace(run, read=reads[run.id]) if run.id in reads else run for run in runs]


def _columns() -> list[ColumnElement[Any]]:
    return [campaign_runs.c[name] for name in ArticleRun.__slots__ if name != "read"]
