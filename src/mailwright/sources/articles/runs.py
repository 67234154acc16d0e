"""Runs: an article goes to an audience under a tag and a batch id; these two are sent once, however often asked for."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import IdempotencyConflict, InvalidInput, NotFound
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.states import Priority, Status
from mailwright.outbox import audit_log
from mailwright.outbox.search import newest_message_key
from mailwright.sources.articles import recipients
from mailwright.sources.articles.assembly import Slice, SliceSet, assemble, published
from mailwright.sources.articles.compose import compose
from mailwright.sources.articles.recipients import ArticleAudience
from mailwright.sources.articles.slices import as_text, from_text, list_slices
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaign_runs, run_variants

RUN_COUNTS = statement(__package__, "run_counts")

NEWEST = 2**63 - 1
# So many readers are looked at together in the search for one who gets anything.
_LOOKED_AT = 5_000


class UnknownArticle(InvalidInput):
    """There is no article of this key."""

    code = "UNKNOWN_ARTICLE"


class NothingPublished(InvalidInput):
    """No slice of this article is published now."""

    code = "NO_PUBLISHED_SLICE"


class EmptyAudience(InvalidInput):
    """Nobody who may be written to would get this article."""

    code = "EMPTY_AUDIENCE"


class BatchIdReused(IdempotencyConflict):
    """This batch id was used before for another article or another audience; nothing was sent."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is asked for. The tag and the batch id name it; the rest must then be the same."""

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
    messages_after_key: int

    @property
    def asked(self) -> ArticleAudience:
        return ArticleAudience(self.list_key, recipients.conditions_of(self.audience_filter))

    def answers(self, order: RunRequest) -> bool:
        return self.article_key == order.article_key and self.audience_filter == dict(order.audience_filter)


@dataclass(frozen=True, slots=True)
class RunVariant:
    """One variant of a run: whose slices these are, and how many readers they went to."""

    slice_ids: tuple[str, ...]
    template_key: int
    recipients: int


class ArticleRuns:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates

    async def start(self, actor: str, tenant_id: int, order: RunRequest) -> tuple[ArticleRun, bool]:
        """The run, and whether it was there already. A worker does the rest, now or after whatever stopped it."""
        if (known := await self._known(tenant_id, order)) is not None:
            return known, True
        now = self._clock.now()
        async with self._database.read() as tx:
            frozen = await _frozen(tx, tenant_id, order.article_key, now)
            asked = await recipients.resolve_audience(tx, tenant_id, order.article_key, order.audience_filter)
            if not await _somebody(tx, tenant_id, asked, SliceSet(frozen), now):
                raise EmptyAudience(field="audience_filter")
        await self._check_as_one(tenant_id, frozen)
        try:
            async with self._database.write() as tx:
                return await self._begun(tx, _Begin(actor, tenant_id, order, asked.list_key, frozen)), False
        except IntegrityError:  # somebody else began it between our look and our insert
            return await self.of_batch(tenant_id, order), True

    async def of_batch(self, tenant_id: int, order: RunRequest) -> ArticleRun:
        if (known := await self._known(tenant_id, order)) is None:
            raise NotFound
        return known

    async def find(self, tenant_id: int, run_id: str) -> ArticleRun:
        mine = and_(campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.run_id == run_id)
        async with self._database.read() as tx:
            found = await _some(tx, mine, 1) if is_uuid(run_id) else []
        if not found:
            raise NotFound("there is no run with this id", field="run_id")
        return found[0]

    async def list_runs(
        self, tenant_id: int, *, limit: int, before: int = NEWEST, article_key: str | None = None
    ) -> list[ArticleRun]:
        """The latest first."""
        mine = and_(campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.id < before)
        if article_key is not None:
            mine = and_(mine, campaign_runs.c.article_key == article_key)
        async with self._database.read() as tx:
            return await _some(tx, mine, limit)

    async def count_messages(self, run: ArticleRun) -> dict[str, int]:
        """How many of its messages stand where, by status, at this moment."""
        async with self._database.read() as tx:
            [now] = await _some(tx, campaign_runs.c.id == run.id, 1)
            rows = await tx.run(RUN_COUNTS, **message_location(now))
        counts = Counter[str]()
        for row in rows:
            counts[row.status] += row.number
        counts[Status.SENT.value] = now.recipients - counts.total()
        return {status: number for status, number in sorted(counts.items()) if number}

    async def list_variants(self, run: ArticleRun) -> list[RunVariant]:
        """The largest first."""
        v = run_variants.c
        query = select(v.slices, v.template_key, v.recipients).where(v.run_key == run.id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(v.recipients.desc(), v.slices))
        return [RunVariant(tuple(orjson.loads(row.slices)), row.template_key, row.recipients) for row in rows]

    async def _known(self, tenant_id: int, order: RunRequest) -> ArticleRun | None:
        same = and_(
            campaign_runs.c.tenant_id == tenant_id,
            campaign_runs.c.campaign_tag == order.campaign_tag,
            campaign_runs.c.send_batch_id == order.send_batch_id,
        )
        async with self._database.read() as tx:
            found = await _some(tx, same, 1)
        if found and not found[0].answers(order):
            raise BatchIdReused
        return found[0] if found else None

    async def _check_as_one(self, tenant_id: int, frozen: list[Slice]) -> None:
        """All of it together is the longest letter that any reader can get."""
        try:
            composed = await compose(self._templates, tenant_id, assemble(frozen))
            Template(subject=composed.subject, html=composed.html, text=None)
        except InvalidTemplate as error:
            raise InvalidInput(f"its slices do not make a letter: {error}", field="article_key") from error

    async def _begun(self, tx: Transaction, begin: "_Begin") -> ArticleRun:
        now, order = self._clock.now(), begin.order
        values: dict[str, Any] = {
            "run_id": uuid7(now),
            "tenant_id": begin.tenant_id,
            "campaign_tag": order.campaign_tag,
            "article_key": order.article_key,
            "actor": begin.actor,
            "send_batch_id": order.send_batch_id,
            "audience_filter": orjson.dumps(dict(order.audience_filter)).decode(),
            "list_key": begin.list_key,
            "content": as_text(begin.frozen),
            "recipients": 0,
            "skipped": 0,
            "enqueued_to": "",
            "started_at": now,
            "messages_after_key": await newest_message_key(tx),
        }
        rows = await tx.execute(insert(campaign_runs).values(**values).returning(*_columns()))
        run = run_of(rows[0])
        await audit_log.record(
            tx,
            now,
            actor=begin.actor,
            action="article.send",
            subject=run.run_id,
            tenant_id=begin.tenant_id,
            detail={"article_key": run.article_key, "campaign_tag": run.campaign_tag},
        )
        return run


@dataclass(frozen=True, slots=True)
class _Begin:
    """All that was found out before the run is written down."""

    actor: str
    tenant_id: int
    order: RunRequest
    list_key: str
    frozen: list[Slice]


def run_of(row: Any) -> ArticleRun:
    return ArticleRun(**{**row._mapping, "audience_filter": orjson.loads(row.audience_filter)})


async def content_of(tx: Transaction, run: ArticleRun) -> SliceSet:
    rows = await tx.execute(select(campaign_runs.c.content).where(campaign_runs.c.id == run.id))
    return SliceSet(from_text(rows[0].content))


async def open_runs(tx: Transaction) -> list[ArticleRun]:
    return await _some(tx, campaign_runs.c.enqueue_ended_at.is_(None), 1_000)


async def _frozen(tx: Transaction, tenant_id: int, article_key: str, now: Instant) -> list[Slice]:
    known = await list_slices(tx, tenant_id, article_key)
    if not known:
        raise UnknownArticle(f"there is no article {article_key}: no slice has this key", field="article_key")
    frozen = published(known, now)
    if not frozen:
        message = f"none of the {len(known)} slices of {article_key} is published now"
        raise NothingPublished(message, field="article_key")
    return frozen


def message_location(run: ArticleRun) -> dict[str, Any]:
    """What the letters of a run are found by where no index knows the run: their tenant, their lane and their keys."""
    return {
        "tenant_id": run.tenant_id,
        "run_id": run.run_id,
        "lane": lane_number(Priority.BULK, run.tenant_id),
        "behind": run.messages_after_key,
    }


async def _somebody(tx: Transaction, tenant_id: int, asked: ArticleAudience, edition: SliceSet, now: Instant) -> bool:
    after = ""
    while found := await recipients.page(tx, tenant_id, asked, now, after=after, limit=_LOOKED_AT):
        if any(asked.holds_for(recipient) and edition.choose(recipient.divisions) for recipient in found):
            return True
        after = found[-1].email
    return False


async def _some(tx: Transaction, condition: ColumnElement[bool], limit: int) -> list[ArticleRun]:
    query = select(*_columns()).where(condition).order_by(campaign_runs.c.id.desc()).limit(limit)
    return [run_of(row) for row in await tx.execute(query)]


def _columns() -> list[ColumnElement[Any]]:
    return [campaign_runs.c[name] for name in ArticleRun.__slots__]
