"""The walk: a run's audience becomes messages, portion by portion, in the order of addresses.

Each portion is one transaction that also moves `enqueued_to`, so a walk that was cut off goes on where it ended:
nobody is left out and nobody is met twice. What readers get is composed before that, once for each variant, and stored
by its content: whoever takes the walk up again finds it there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import update

from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.domain.ids import uuid7s
from mailwright.domain.message import Source
from mailwright.domain.retry import ARTICLES
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.accept import RunMessage, accept_run
from mailwright.sources.articles import recipients
from mailwright.sources.articles.assembly import SliceSelection, SliceSet
from mailwright.sources.articles.compose import ArticleVariant, compose, keep
from mailwright.sources.articles.recipients import ArticleRecipient
from mailwright.sources.articles.runs import ArticleRun, content_of, open_runs
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import campaign_runs

ADD_TO_VARIANTS = statement(__package__, "add_to_variants")
LOCK_RUN = statement(__package__, "lock_run")
MOVE_RUN = statement(__package__, "move_run")

# A commit must stay short while workers wait for their turn.
BATCH_SIZE = 2_000

log = logger(__name__)


@dataclass(slots=True)
class _Walk:
    """What this process remembers of a run from one portion to the next."""

    edition: SliceSet
    variants: dict[SliceSelection, ArticleVariant] = field(default_factory=dict)


class ArticleScheduler:
    """Carries on whatever runs are open. Any worker does it, and two at once do no harm."""

    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self._walks: dict[int, _Walk] = {}

    async def tick(self) -> bool:
        """One portion of each run; true when anything was done, so that there may be more."""
        async with self._database.read() as tx:
            runs = await open_runs(tx)
        self._walks = {run.id: walk for run in runs if (walk := self._walks.get(run.id)) is not None}
        has_done = False
        for run in reversed(runs):  # the oldest first
            try:
                has_done |= await self._portion(run)
            except NotDurable:
                raise
            except InvalidTemplate as error:
                log.warning("article_run_failed", run_id=run.run_id, reason=str(error))
                await self._give_up(run, str(error))
            except Exception:  # one run that cannot go on must not hold up the others
                log.exception("article_run_stuck", run_id=run.run_id)
        return has_done

    async def _portion(self, run: ArticleRun) -> bool:
        now = self._clock.now()
        async with self._database.read() as tx:
            walk = self._walks.get(run.id) or _Walk(await content_of(tx, run))
            self._walks[run.id] = walk
            asked = run.asked
            found = await recipients.page(tx, run.tenant_id, asked, now, after=run.enqueued_to, limit=BATCH_SIZE)
        met = [each for each in found if asked.holds_for(each)]
        choose = walk.edition.choose
        meant = [(each, choice) for each in met if (choice := choose(each.divisions))]
        await self._compose(run, walk, meant)
        is_last = len(found) < BATCH_SIZE
        portion = _Portion(
            letters=[
                _letter(run, recipient, walk.variants[choice], outbox_id)
                for outbox_id, (recipient, choice) in zip(uuid7s(now, len(meant)), meant, strict=True)
            ],
            choices=[choice for _, choice in meant],
            moved={
                "run_key": run.id,
                "skipped": len(met) - len(meant),
                # A walk that is over needs no mark, and the address of its last reader is nobody's business.
                "enqueued_to": "" if is_last else found[-1].email,
                "enqueue_ended_at": now if is_last else None,
            },
        )
        stored = await self._database.transact(lambda tx: _store(tx, run, walk, portion, now))
        metrics.ACCEPTED.labels(Source.ARTICLE).inc(stored)
        return True

    async def _compose(
        self, run: ArticleRun, walk: _Walk, meant: Sequence[tuple[ArticleRecipient, SliceSelection]]
    ) -> None:
        for choice in dict.fromkeys(choice for _, choice in meant):
            if choice not in walk.variants:
                composed = await compose(self._templates, run.tenant_id, walk.edition.assemble(choice))
                walk.variants[choice] = await keep(self._database, self._templates, run.tenant_id, composed)

    async def _give_up(self, run: ArticleRun, failure: str) -> None:
        ended = {"failure": failure[:1_000], "enqueued_to": "", "enqueue_ended_at": self._clock.now()}
        async with self._database.write() as tx:
            await tx.execute(update(campaign_runs).where(campaign_runs.c.id == run.id).values(**ended))


@dataclass(frozen=True, slots=True)
class _Portion:
    letters: list[RunMessage]
    choices: list[SliceSelection]  # of each letter
    moved: dict[str, Any]


async def _store(tx: Runner, run: ArticleRun, walk: _Walk, portion: _Portion, now: Instant) -> int:
    """How many letters: all of the portion or nothing, and nothing where another worker has moved the run meanwhile."""
    [row] = await tx.run(LOCK_RUN, run_key=run.id)
    if row.enqueued_to != run.enqueued_to or row.enqueue_ended_at is not None:
        return 0
    choices = await _accept(tx, run, portion, row.newest, now) if portion.letters else []
    if choices:
        await tx.count(ADD_TO_VARIANTS, variants=_variants(run, walk, choices))
    await tx.count(MOVE_RUN, recipients=len(choices), **portion.moved)
    return len(choices)


async def _accept(tx: Runner, run: ArticleRun, portion: _Portion, after_key: int, now: Instant) -> list[SliceSelection]:
    """Accept the messages, and return the selections of those whose contacts still exist."""
    accepted = await accept_run(
        tx,
        portion.letters,
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        list_key=run.list_key,
        retry_policy=ARTICLES.name,
        after_key=after_key,
        now=now,
    )
    return [choice for choice, is_accepted in zip(portion.choices, accepted, strict=True) if is_accepted]


def _variants(run: ArticleRun, walk: _Walk, choices: Sequence[SliceSelection]) -> list[dict[str, Any]]:
    return [
        {
            "run_key": run.id,
            "slices": orjson.dumps([walk.edition.slices[place].slice_id for place in choice]).decode(),
            "template_key": walk.variants[choice].template_key,
            "recipients": number,
        }
        for choice, number in Counter(choices).items()
    ]


def _letter(run: ArticleRun, recipient: ArticleRecipient, variant: ArticleVariant, outbox_id: str) -> RunMessage:
    payload = {
        "campaign": run.campaign_tag,
        "to": recipient.email,
        "toName": recipient.name,
        "variables": variant.values(recipient.name, recipient.attributes),
    }
    said = orjson.dumps(payload).decode()
    return outbox_id, recipient.contact_key, recipient.email, variant.subject, variant.template_key, said
