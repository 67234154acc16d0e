"""Enqueue the messages of article runs batch by batch, in the order of addresses.

Each batch is one transaction that also moves the cursor `enqueued_to`, so an interrupted run resumes where it stopped:
no recipient is skipped or enqueued twice. Variants are composed before the transaction and stored by their content, so
a worker that resumes a run reuses them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import orjson
from sqlalchemy import update

from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import SENDER_RULES
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.retry import ARTICLES
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.accept import RunMessage, accept_run
from mailwright.sources.articles import recipients
from mailwright.sources.articles.assembly import SliceSelection, SliceSet
from mailwright.sources.articles.compose import ArticleVariant, compose, store_variant
from mailwright.sources.articles.profiles.reads import next_recipients, remove_accepted
from mailwright.sources.articles.recipients import ArticleRecipient, divisions_of
from mailwright.sources.articles.runs import ArticleRun, content_of, end_run, open_runs
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules, SenderRulesDecision
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaign_runs

ADD_TO_VARIANTS = statement(__package__, "add_to_variants")
LOCK_RUN = statement(__package__, "lock_run")
MOVE_RUN = statement(__package__, "move_run")

# Batches are small, because workers wait while one is committed.
BATCH_SIZE = 2_000

# How often the sender rules are checked again for a run that is on hold.
RECHECK_EVERY: Instant = 10 * MINUTE

TOO_MANY = (
    "The audience has grown beyond the {:,} recipients that need no further approval, so the run ended before all of "
    "them got the article."
)

log = logger(__name__)


@dataclass(slots=True)
class _RunCache:
    """The data of a run that this process caches between batches."""

    slices: SliceSet
    variants: dict[SliceSelection, ArticleVariant] = field(default_factory=dict)


class ArticleScheduler:
    """Enqueues the batches of open runs. Several workers may do this at the same time."""

    def __init__(
        self, database: Database, clock: Clock, templates: TemplateStore, rules: SenderRules = NO_SENDER_RULES
    ) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self._rules = rules
        self._caches: dict[int, _RunCache] = {}
        self._held_until: dict[int, Instant] = {}

    async def tick(self) -> bool:
        """Enqueue one batch of each run. Return true if there may be more to do."""
        async with self._database.read() as tx:
            runs = [run for run in await open_runs(tx) if run.is_read]
        self._caches = {run.id: cache for run in runs if (cache := self._caches.get(run.id)) is not None}
        has_worked = False
        for run in reversed(runs):  # Oldest first.
            try:
                has_worked |= await self._enqueue_batch(run)
            except NotDurable:
                raise
            except InvalidTemplate as error:
                log.warning("article_run_failed", run_id=run.run_id, reason=str(error))
                await self._fail(run, str(error))
            except Exception:  # A run that cannot continue must not block the others.
                log.exception("article_run_stuck", run_id=run.run_id)
        return has_worked

    async def _enqueue_batch(self, run: ArticleRun) -> bool:
        now = self._clock.now()
        async with self._database.read() as tx:
            cache = self._caches.get(run.id) or _RunCache(await content_of(tx, run))
            self._caches[run.id] = cache
        page = await self._next_page(run, now)
        audience = run.audience
        matching = [recipient for recipient in page.candidates if audience.includes(recipient)]
        select = cache.slices.select
        selected = [(recipient, chosen) for recipient in matching if (chosen := select(recipient.divisions))]
        if await self._is_held(run, len(selected), now):
            return False
        if run.max_recipients is not None and run.recipients + len(selected) > run.max_recipients:
            log.warning("article_run_stopped", run_id=run.run_id, approved=run.max_recipients)
            await self._fail(run, TOO_MANY.format(run.max_recipients))
            return False
        await self._compose(run, cache, selected)
        is_last = page.last is None
        batch = _Batch(
            messages=[
                _message(run, recipient, cache.variants[chosen], outbox_id)
                for outbox_id, (recipient, chosen) in zip(uuid7s(now, len(selected)), selected, strict=True)
            ],
            selections=[chosen for _, chosen in selected],
            progress={
                "run_key": run.id,
                "skipped": len(matching) - len(selected),
                # A finished run needs no cursor, and must not keep the address of its last recipient.
                "enqueued_to": page.last or "",
                "enqueue_ended_at": now if is_last else None,
            },
            suppressed=page.suppressed,
        )
        stored = await self._database.transact(lambda tx: _store(tx, run, cache, batch, now))
        metrics.ACCEPTED.labels(Source.ARTICLE).inc(stored)
        return True

    async def _is_held(self, run: ArticleRun, more: int, now: Instant) -> bool:
        """Check the sender rules if the run is about to exceed their limit because its audience has grown."""
        recipients = run.recipients + more
        if run.sender_rules is not None:
            return False
        if self._held_until.get(run.id, 0) > now:
            return True
        has_postal_address = bool(self._rules.postal_address)
        unmet = await self._rules.unmet(
            run.tenant_id, Source.ARTICLE, recipients, has_postal_address=has_postal_address
        )
        if unmet is None:
            return False
        if unmet:
            log.warning("article_run_held", run_id=run.run_id, reason=SENDER_RULES, unmet=list(unmet))
            self._held_until[run.id] = now + RECHECK_EVERY
        decided = {"hold_reason": " ".join(unmet)} if unmet else {"sender_rules": SenderRulesDecision.MET.value}
        undecided = (campaign_runs.c.id == run.id, campaign_runs.c.sender_rules.is_(None))
        async with self._database.write() as tx:
            await tx.execute(update(campaign_runs).where(*undecided).values(**{"hold_reason": None, **decided}))
        return bool(unmet)

    async def _compose(
        self, run: ArticleRun, cache: _RunCache, selected: Sequence[tuple[ArticleRecipient, SliceSelection]]
    ) -> None:
        for chosen in dict.fromkeys(chosen for _, chosen in selected):
            if chosen not in cache.variants:
                composed = await compose(self._templates, run.tenant_id, cache.slices.assemble(chosen))
                cache.variants[chosen] = await store_variant(self._database, self._templates, run.tenant_id, composed)

    async def _next_page(self, run: ArticleRun, now: Instant) -> "_Page":
        """Return the next recipients: contacts, or those that were read from a table of another program."""
        if run.read is None:
            async with self._database.read() as tx:
                found = await recipients.page(
                    tx, run.tenant_id, run.audience, now, after=run.enqueued_to, limit=BATCH_SIZE
                )
            return _Page(found, found[-1].email if len(found) == BATCH_SIZE else None)
        async with self._database.write() as tx:
            batch = await next_recipients(
                tx, run.id, run.tenant_id, run.list_key, after=run.enqueued_to, limit=BATCH_SIZE, now=now
            )
        people = [
            ArticleRecipient(each.contact_key, each.email, each.name, each.attributes, divisions_of(each.attributes))
            for each in batch.recipients
        ]
        return _Page(people, batch.last if batch.read == BATCH_SIZE else None, batch.suppressed)

    async def _fail(self, run: ArticleRun, failure: str) -> None:
        async with self._database.write() as tx:
            await end_run(tx, run, failure, self._clock.now())


@dataclass(frozen=True, slots=True)
class _Page:
    """Recipients in the order of addresses. `last` is None after the last page."""

    candidates: list[ArticleRecipient]
    last: str | None
    suppressed: int = 0


@dataclass(frozen=True, slots=True)
class _Batch:
    messages: list[RunMessage]
    selections: list[SliceSelection]  # one for each message
    progress: dict[str, Any]
    suppressed: int  # recipients from another program's table who get no bulk email


async def _store(tx: Runner, run: ArticleRun, cache: _RunCache, batch: _Batch, now: Instant) -> int:
    """Store the whole batch and return the number of messages: 0 if another worker has advanced the run."""
    [row] = await tx.run(LOCK_RUN, run_key=run.id)
    if row.enqueued_to != run.enqueued_to or row.enqueue_ended_at is not None:
        return 0
    selections = await _accept(tx, run, batch, row.newest, now) if batch.messages else []
    if selections:
        await tx.count(ADD_TO_VARIANTS, variants=variant_rows(run, cache, selections))
    await tx.count(MOVE_RUN, recipients=len(selections), **batch.progress)
    if run.read is not None:
        last, is_last = batch.progress["enqueued_to"], batch.progress["enqueue_ended_at"] is not None
        await remove_accepted(tx, run.id, email=last, is_last=is_last, suppressed=batch.suppressed)
    return len(selections)


async def _accept(tx: Runner, run: ArticleRun, batch: _Batch, after_key: int, now: Instant) -> list[SliceSelection]:
    """Accept the messages, and return the selections of those whose contacts still exist."""
    accepted = await accept_run(
        tx,
        batch.messages,
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        list_key=run.list_key,
        retry_policy=ARTICLES.name,
        after_key=after_key,
        now=now,
    )
    return [chosen for chosen, is_accepted in zip(batch.selections, accepted, strict=True) if is_accepted]


def variant_rows(run: ArticleRun, cache: _RunCache, selections: Sequence[SliceSelection]) -> list[dict[str, Any]]:
    return [
        {
            "run_key": run.id,
            "slices": orjson.dumps([cache.slices.slices[position].slice_id for position in chosen]).decode(),
            "template_key": cache.variants[chosen].template_key,
            "recipients": number,
        }
        for chosen, number in Counter(selections).items()
    ]


def _message(run: ArticleRun, recipient: ArticleRecipient, variant: ArticleVariant, outbox_id: str) -> RunMessage:
    payload = {
        "campaign": run.campaign_tag,
        "to": recipient.email,
        "toName": recipient.name,
        "variables": variant.values(recipient.name, recipient.attributes),
    }
    encoded = orjson.dumps(payload).decode()
    return outbox_id, recipient.contact_key, recipient.email, variant.subject, variant.template_key, encoded
