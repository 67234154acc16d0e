"""Tallies: the number of messages sent, failed, opened and so on per minute, so that charts do not count events.

A background task adds every event once, for its tenant and its campaign, shortly after it was written. Tallies do not
slow down sending.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Final

import orjson
from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.installation_values import insert_value, load_position, load_value, lock_value, move_cursor
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.horizon import HorizonWatch, read_horizon
from mailwright.storage.statements import Statement, statement
from mailwright.storage.tables import campaign_tallies, events, hourly_tallies, link_tallies, tallies

TALLY_EVENTS = statement(__package__, "tally_events")
ADD_TALLIES = statement(__package__, "add_tallies")
ADD_HOURS = statement(__package__, "add_hours")
TALLY_CAMPAIGNS = statement(__package__, "tally_campaigns")
TALLY_CAMPAIGN = statement(__package__, "tally_campaign")
ADD_CAMPAIGN_TALLIES = statement(__package__, "add_campaign_tallies")
ADD_VARIANT_TALLIES = statement(__package__, "add_variant_tallies")
UNSETTLED_BY_TEMPLATE = statement(__package__, "unsettled_by_template")
RESULTS_BY_TEMPLATE = statement(__package__, "results_by_template")
TALLY_LINKS = statement(__package__, "tally_links")
ADD_LINK_TALLIES = statement(__package__, "add_link_tallies")

RETENTION: Final[Instant] = 400 * DAY
# Adding this many events takes a fraction of a second.
BATCH_SIZE: Final = 50_000
# Pages add at most this many events that are not tallied yet, so that their time does not depend on how far the tallies
# lag. A running task tallies this many in less than a second.
MAX_UNTALLIED: Final = 20_000
# More events than an installation records in the seconds before the decision of an A/B test.
MAX_LATEST_EVENTS: Final = 100_000
LOOK_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.05
# Longer URLs are cut, because they do not fit into a PostgreSQL index.
MAX_URL_CHARACTERS: Final = 500
MACHINE: Final = "machine_"  # The prefix of the event type, for opens, clicks and replies by machines.
# The name of the value in `installation` that changes when stored events are corrected: see `machine_responses.py`.
CORRECTION: Final = "tallies_corrected"


@dataclass(frozen=True, slots=True)
class TallyAccount:
    """One set of tallies. `cursor` is the name of the value in `installation` with the key of the last added event."""

    cursor: str
    tally: Statement
    additions: tuple[Statement, ...]
    summarize: Callable[[Sequence[Any]], list[dict[str, Any]]] = lambda rows: [dict(row._mapping) for row in rows]


TENANTS: Final = TallyAccount("tallied_up_to", TALLY_EVENTS, (ADD_TALLIES, ADD_HOURS))
CAMPAIGNS: Final = TallyAccount("campaigns_tallied_up_to", TALLY_CAMPAIGNS, (ADD_CAMPAIGN_TALLIES, ADD_VARIANT_TALLIES))


def _summarize_clicks(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Count clicks by campaign and link."""
    clicks: Counter[tuple[int, str, str]] = Counter()
    first: Counter[tuple[int, str, str]] = Counter()
    for row in rows:
        metadata = orjson.loads(row.metadata)
        type_ = f"{MACHINE}{EventType.CLICKED}" if metadata.get("isMachine") is True else str(EventType.CLICKED)
        key = (row.campaign_key, type_, str(metadata.get("url") or ""))
        clicks[key] += 1
        first[key] += row.is_first
    return _link_rows(clicks, first)


def _link_rows(
    events: Mapping[tuple[int, str, str], int], first: Mapping[tuple[int, str, str], int]
) -> list[dict[str, Any]]:
    rows: dict[tuple[int, str, str], dict[str, Any]] = {}
    for (campaign_key, type_, url), number in sorted(events.items()):
        key = (campaign_key, type_, url[:MAX_URL_CHARACTERS])
        named = dict(zip(("campaign_key", "type", "url"), key, strict=True))
        row = rows.setdefault(key, {**named, "events": 0, "unique_messages": 0})
        row["events"] += number
        row["unique_messages"] += first.get((campaign_key, type_, url), 0)
    return list(rows.values())


LINKS: Final = TallyAccount("links_tallied_up_to", TALLY_LINKS, (ADD_LINK_TALLIES,), _summarize_clicks)


@dataclass(frozen=True, slots=True)
class TallyBucket:
    """The number of events of each type in one interval."""

    begins_at: Instant
    counts: Mapping[str, int]


class EventTallier:
    def __init__(self, database: Database, clock: Clock, batch_size: int = BATCH_SIZE) -> None:
        self._database = database
        self._clock = clock
        self._batch_size = batch_size
        self._horizon = HorizonWatch(events)
        self._deletes_at: Instant = 0

    async def run(self) -> None:
        """Add new events and delete old tallies until cancelled."""
        await run_periodically("tallies", self._add_and_delete, seconds=LOOK_SECONDS, raises_unexpected=True)

    async def _add_and_delete(self) -> None:
        while await self.add_batch():
            pass
        if self._clock.now() >= self._deletes_at:
            await self._delete_old()
            self._deletes_at = self._clock.now() + HOUR

    async def add_batch(self) -> bool:
        """Add one batch of events, only up to a key before which all events are visible.

        Return whether there may be more.
        """
        reach = await self._horizon.look(self._database)
        async with self._database.read() as tx:
            correction = await load_value(tx, CORRECTION)
            batches = [await self._load_batch(tx, account, reach) for account in (TENANTS, CAMPAIGNS, LINKS)]
        if correction is None:
            await self._create_correction()
            return True
        for batch in batches:
            if batch.up_to > batch.after:
                await self._store(batch, correction)
        return any(batch.up_to > batch.after for batch in batches)

    async def add_existing(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Add all events that exist now. Wait for transactions that run now, but not longer than the patience."""
        async with self._database.read() as tx:
            newest = (await read_horizon(tx, events)).newest
        gives_up_at = monotonic() + patience_seconds
        while True:
            while await self.add_batch():
                pass
            async with self._database.read() as tx:
                if await tallied_up_to(tx) >= newest or monotonic() >= gives_up_at:
                    return
            await asyncio.sleep(RETRY_SECONDS)

    async def _load_batch(self, tx: Transaction, account: TallyAccount, reach: int) -> "_TallyBatch":
        position = await load_position(tx, account.cursor)
        after = position or 0
        up_to = min(reach, after + self._batch_size)
        rows = await tx.run(account.tally, after=after, up_to=up_to) if up_to > after else ()
        return _TallyBatch(account, after, up_to, account.summarize(rows), is_first=position is None)

    async def _create_correction(self) -> None:
        try:
            async with self._database.write() as tx:
                await insert_value(tx, CORRECTION, "")
        except IntegrityError:
            return  # Another process created it at the same time.

    async def _store(self, batch: "_TallyBatch", correction: str) -> None:
        """Store a batch, unless its events were corrected or another process has moved the cursor in the meantime."""
        before = None if batch.is_first else batch.after
        try:
            async with self._database.write() as tx:
                if not await lock_value(tx, CORRECTION, correction):
                    return
                if not await move_cursor(tx, batch.account.cursor, before, batch.up_to):
                    return
                for addition in batch.account.additions if batch.rows else ():
                    await tx.run(addition, tallies=batch.rows)
        except IntegrityError:
            return  # Another process stored the first batch at the same time.

    async def _delete_old(self) -> None:
        keep_since = self._clock.now() - RETENTION
        async with self._database.write() as tx:
            await tx.execute(delete(tallies).where(tallies.c.minute < keep_since))
            await tx.execute(delete(hourly_tallies).where(hourly_tallies.c.hour < keep_since))


@dataclass(frozen=True, slots=True)
class _TallyBatch:
    account: TallyAccount
    after: int
    up_to: int
    rows: Sequence[dict[str, Any]]
    is_first: bool


async def tallied_up_to(tx: Transaction) -> int:
    """Return the key of the last event that is in all tallies."""
    return min([await load_position(tx, account.cursor) or 0 for account in (TENANTS, CAMPAIGNS, LINKS)])


async def count_untallied(tx: Transaction) -> int:
    """Return about how many of the newest events no figure contains, because the tallies lag; usually 0."""
    newest = (await read_horizon(tx, events)).newest
    lag = newest - await tallied_up_to(tx)
    return lag if lag > MAX_UNTALLIED else 0


async def _load_untallied_keys(tx: Transaction, account: TallyAccount) -> dict[str, int]:
    """Return the keys of the events that a page adds to the tallies: the first ones that are not tallied yet."""
    after = await load_position(tx, account.cursor) or 0
    return {"after": after, "up_to": after + MAX_UNTALLIED}


async def load_buckets(
    database: Readable, *, tenant_id: int | None, since: Instant, until: Instant, length: Instant = MINUTE
) -> list[TallyBucket]:
    """Return all intervals of this length, including empty ones. If `tenant_id` is None, count all tenants."""
    begins = since - since % length
    # Whole hours are read from the hourly tallies, which have sixty times fewer rows.
    is_hourly = length % HOUR == 0 and until - begins > DAY
    t = hourly_tallies.c if is_hourly else tallies.c
    time = t.hour if is_hourly else t.minute
    at = time - time % length
    query = select(at.label("begins_at"), t.type, func.sum(t.events).label("events"))
    query = query.where(time >= begins, time < until).group_by(at, t.type)
    if tenant_id is not None:
        query = query.where(t.tenant_id == tenant_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    counts: dict[Instant, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(int(row.begins_at), {})[row.type] = int(row.events)
    return [TallyBucket(begin, counts.get(begin, {})) for begin in range(begins, until, length)]


async def count_events(database: Database, type_: EventType, *, tenant_id: int, since: Instant) -> int:
    """Count a tenant's events of a type from the minute of `since` until now."""
    t = tallies.c
    wanted = (t.tenant_id == tenant_id, t.type == type_, t.minute >= since - since % MINUTE)
    async with database.read() as tx:
        [row] = await tx.execute(select(func.coalesce(func.sum(t.events), 0).label("events")).where(*wanted))
    return int(row.events)


@dataclass(frozen=True, slots=True)
class CampaignTally:
    """A campaign's events of one type in one minute or hour.

    `unique_messages` counts only a message's first event. For SENT, it counts the messages whose recipients are tracked
    individually.
    """

    begins_at: Instant
    type: str
    events: int
    unique_messages: int


async def load_campaign_tallies(
    tx: Transaction, campaign_key: int, length: Instant, types: Collection[str]
) -> list[CampaignTally]:
    """Load the tallies of these types, by minute or hour."""
    c = campaign_tallies.c
    is_wanted = (c.campaign_key == campaign_key, c.bucket_ms == length, c.type.in_(types))
    rows = await tx.execute(select(c.begins_at, c.type, c.events, c.unique_messages).where(*is_wanted))
    return [CampaignTally(row.begins_at, row.type, row.events, row.unique_messages) for row in rows]


async def count_campaign_messages(tx: Transaction, campaign_key: int) -> dict[str, int]:
    """Return the number of messages with each type of event. For SENT, count those that are tracked individually.

    Events that are not tallied yet are not included.
    """
    c = campaign_tallies.c
    query = select(c.type, func.sum(c.unique_messages).label("unique_messages")).where(
        c.campaign_key == campaign_key, c.bucket_ms == HOUR
    )
    return {row.type: int(row.unique_messages) for row in await tx.execute(query.group_by(c.type))}


async def count_messages_of_campaigns(tx: Transaction, campaign_keys: Collection[int]) -> dict[int, Counter[str]]:
    """Return the number of messages with each type of event by campaign, including events that are not tallied yet."""
    keys = await _load_untallied_keys(tx, CAMPAIGNS)
    c = campaign_tallies.c
    query = select(c.campaign_key, c.type, func.sum(c.unique_messages).label("unique_messages")).where(
        c.campaign_key.in_(campaign_keys), c.bucket_ms == HOUR
    )
    rows = [*await tx.execute(query.group_by(c.campaign_key, c.type))]
    rows += await tx.run(TALLY_CAMPAIGNS, **keys)
    counts: dict[int, Counter[str]] = {key: Counter() for key in campaign_keys}
    for row in rows:
        if row.campaign_key in counts:
            counts[row.campaign_key][row.type] += int(row.unique_messages)
    return counts


async def count_campaign_events(tx: Transaction, campaign_key: int) -> dict[str, int]:
    """Return the number of events of each type. Events that are not tallied yet are not included."""
    c = campaign_tallies.c
    query = select(c.type, func.sum(c.events).label("events")).where(
        c.campaign_key == campaign_key, c.bucket_ms == HOUR
    )
    return {row.type: int(row.events) for row in await tx.execute(query.group_by(c.type))}


async def load_untallied(tx: Transaction, campaign_key: int) -> list[CampaignTally]:
    """Count the events that are not tallied yet, by minute. Add them to the tallies to get the current numbers."""
    rows = await tx.run(TALLY_CAMPAIGN, **await _load_untallied_keys(tx, CAMPAIGNS), campaign_key=campaign_key)
    return [CampaignTally(row.minute, row.type, row.events, row.unique_messages) for row in rows]


@dataclass(frozen=True, slots=True)
class LinkTally:
    """The clicks of one link, or opens if there is no URL. Anonymous opens and clicks count in `events` only."""

    type: str
    url: str
    events: int
    unique_messages: int


async def load_link_tallies(tx: Transaction, campaign_key: int) -> list[LinkTally]:
    """Return the current numbers, including clicks that are not tallied yet."""
    keys = await _load_untallied_keys(tx, LINKS)
    c = link_tallies.c
    rows = await tx.execute(select(c.type, c.url, c.events, c.unique_messages).where(c.campaign_key == campaign_key))
    untallied = await tx.run(TALLY_LINKS, **keys)
    totals: dict[tuple[str, str], LinkTally] = {}
    counted: list[Mapping[str, Any]] = [dict(row._mapping) for row in rows]
    counted += [row for row in _summarize_clicks(untallied) if row["campaign_key"] == campaign_key]
    for row in counted:
        known = totals.get((row["type"], row["url"]), LinkTally(row["type"], row["url"], 0, 0))
        events, messages = known.events + row["events"], known.unique_messages + row["unique_messages"]
        totals[row["type"], row["url"]] = LinkTally(row["type"], row["url"], events, messages)
    return list(totals.values())


async def add_link_tallies(tx: Transaction, counts: Mapping[tuple[int, str, str], int]) -> None:
    """Add anonymous opens and clicks by campaign, type and URL."""
    await tx.run(ADD_LINK_TALLIES, tallies=_link_rows(counts, {}))


@dataclass(frozen=True, slots=True)
class TemplateResults:
    """The number of a template's messages that were sent, opened and clicked. Repeated opens and clicks count once."""

    sent: int
    opened: int
    clicked: int


async def results_by_template(tx: Transaction, campaign_key: int) -> dict[int, TemplateResults]:
    """Return the current results, including events that are not tallied yet."""
    rows = await tx.run(RESULTS_BY_TEMPLATE, campaign_key=campaign_key, **await _load_untallied_keys(tx, CAMPAIGNS))
    return {row.template_key: TemplateResults(row.sent, row.opened, row.clicked) for row in rows}


async def settled_results_by_template(
    tx: Transaction, campaign_key: int, *, since: Instant
) -> dict[int, TemplateResults]:
    """Return the results without the messages that were first opened or clicked after `since`."""
    rows = await tx.run(UNSETTLED_BY_TEMPLATE, campaign_key=campaign_key, since=since, most=MAX_LATEST_EVENTS)
    unsettled = {row.template_key: row for row in rows}
    found = await results_by_template(tx, campaign_key)
    return {
        key: replace(each, opened=each.opened - unsettled[key].opened, clicked=each.clicked - unsettled[key].clicked)
        if key in unsettled
        else each
        for key, each in found.items()
    }
