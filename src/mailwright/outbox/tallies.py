"""Tallies: how many mails were sent, failed, opened and so on in each minute, so that no chart counts events itself.

They follow the events at a short distance, each event once, whichever process adds it up: for each tenant, and for each
campaign. The road of a message pays nothing for them.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.storage.database import Database, Transaction
from mailwright.storage.horizon import EventHorizon, event_horizon
from mailwright.storage.statements import Statement, statement
from mailwright.storage.tables import campaign_tallies, hourly_tallies, installation, tallies

TALLY_EVENTS = statement(__package__, "tally_events")
ADD_TALLIES = statement(__package__, "add_tallies")
ADD_HOURS = statement(__package__, "add_hours")
TALLY_CAMPAIGNS = statement(__package__, "tally_campaigns")
TALLY_CAMPAIGN = statement(__package__, "tally_campaign")
ADD_CAMPAIGN_TALLIES = statement(__package__, "add_campaign_tallies")
ADD_VARIANT_TALLIES = statement(__package__, "add_variant_tallies")
RESULTS_BY_TEMPLATE = statement(__package__, "results_by_template")

KEPT: Final[Instant] = 400 * DAY
# So many events at once take a fraction of a second to add up.
PORTION: Final = 50_000
LOOK_SECONDS: Final = 2.0
log = logger(__name__)


@dataclass(frozen=True, slots=True)
class TallyAccount:
    """One way to add events up. `place`: where the last process stopped, beside what else the installation keeps."""

    place: str
    tally: Statement
    additions: tuple[Statement, ...]


TENANTS: Final = TallyAccount("tallied_up_to", TALLY_EVENTS, (ADD_TALLIES, ADD_HOURS))
CAMPAIGNS: Final = TallyAccount("campaigns_tallied_up_to", TALLY_CAMPAIGNS, (ADD_CAMPAIGN_TALLIES, ADD_VARIANT_TALLIES))


@dataclass(frozen=True, slots=True)
class TallyBucket:
    """What happened from one moment on, for so long."""

    begins_at: Instant
    counts: Mapping[str, int]


class EventTallier:
    def __init__(self, database: Database, clock: Clock, portion: int = PORTION) -> None:
        self._database = database
        self._clock = clock
        self._portion = portion
        self._seen: EventHorizon | None = None

    async def run(self) -> None:
        """Until cancelled: adds up what is new, and forgets what is old."""
        forgets_at: Instant = 0
        while True:
            try:
                while await self.add_batch():
                    pass
                if self._clock.now() >= forgets_at:
                    await self._forget()
                    forgets_at = self._clock.now() + HOUR
            except NotDurable as error:
                log.warning("not_tallied", reason=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def add_batch(self) -> bool:
        """One portion of what no transaction under way can still add to; whether there may be more."""
        async with self._database.read() as tx:
            seen, last = await event_horizon(tx), self._seen
            settled = _settled(seen, last)
            portions = [await self._portion_of(tx, account, settled) for account in (TENANTS, CAMPAIGNS)]
        if last is None or seen.oldest_running >= last.next_to_run:
            self._seen = seen
        for each in portions:
            if each.up_to > each.after:
                await self._store(each)
        return any(each.up_to > each.after for each in portions)

    async def _portion_of(self, tx: Transaction, account: TallyAccount, settled: int) -> "_Portion":
        place = await _place(tx, account)
        after = place or 0
        up_to = min(settled, after + self._portion)
        found = await tx.run(account.tally, after=after, up_to=up_to) if up_to > after else ()
        return _Portion(account, after, up_to, [dict(row._mapping) for row in found], is_first=place is None)

    async def _store(self, portion: "_Portion") -> None:
        """Whoever comes second finds that the place has moved, and stores nothing."""
        place, up_to = portion.account.place, str(portion.up_to)
        try:
            async with self._database.write() as tx:
                if portion.is_first:
                    await tx.execute(insert(installation).values(name=place, value=up_to))
                else:
                    mine = (installation.c.name == place, installation.c.value == str(portion.after))
                    moved = update(installation).where(*mine).values(value=up_to)
                    if not await tx.execute(moved.returning(installation.c.name)):
                        return
                for addition in portion.account.additions if portion.found else ():
                    await tx.run(addition, tallies=portion.found)
        except IntegrityError:
            return  # another process began at the same moment

    async def _forget(self) -> None:
        kept_since = self._clock.now() - KEPT
        async with self._database.write() as tx:
            await tx.execute(delete(tallies).where(tallies.c.minute < kept_since))
            await tx.execute(delete(hourly_tallies).where(hourly_tallies.c.hour < kept_since))


@dataclass(frozen=True, slots=True)
class _Portion:
    account: TallyAccount
    after: int
    up_to: int
    found: Sequence[dict[str, int]]
    is_first: bool


async def _place(tx: Transaction, account: TallyAccount) -> int | None:
    rows = await tx.execute(select(installation.c.value).where(installation.c.name == account.place))
    return int(rows[0].value) if rows else None


def _settled(seen: EventHorizon, last: EventHorizon | None) -> int:
    """Up to where nothing can appear any more."""
    if seen.is_quiet:
        return seen.newest
    return last.newest if last is not None and seen.oldest_running >= last.next_to_run else 0


async def load_buckets(
    database: Database, *, tenant_id: int | None, since: Instant, until: Instant, length: Instant = MINUTE
) -> list[TallyBucket]:
    """What happened in each stretch of this length, also where that is nothing; `tenant_id` None is all tenants."""
    begins = since - since % length
    # Whole hours are read from the hours, of which there are sixty times fewer.
    is_of_hours = length % HOUR == 0 and until - begins > DAY
    t = hourly_tallies.c if is_of_hours else tallies.c
    moment = t.hour if is_of_hours else t.minute
    at = moment - moment % length
    query = select(at.label("begins_at"), t.type, func.sum(t.events).label("events"))
    query = query.where(moment >= begins, moment < until).group_by(at, t.type)
    if tenant_id is not None:
        query = query.where(t.tenant_id == tenant_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    counts: dict[Instant, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(int(row.begins_at), {})[row.type] = int(row.events)
    return [TallyBucket(moment, counts.get(moment, {})) for moment in range(begins, until, length)]


@dataclass(frozen=True, slots=True)
class CampaignTally:
    """What happened to a campaign's mails from a minute or an hour on; `mails`: to how many for the first time."""

    begins_at: Instant
    type: str
    events: int
    unique_messages: int


async def load_campaign_tallies(
    tx: Transaction, campaign_key: int, length: Instant, types: Collection[str]
) -> list[CampaignTally]:
    """What of these is added up, by minutes or hours."""
    c = campaign_tallies.c
    mine = (c.campaign_key == campaign_key, c.bucket_ms == length, c.type.in_(types))
    rows = await tx.execute(select(c.begins_at, c.type, c.events, c.unique_messages).where(*mine))
    return [CampaignTally(row.begins_at, row.type, row.events, row.unique_messages) for row in rows]


async def count_campaign_messages(tx: Transaction, campaign_key: int) -> dict[str, int]:
    """To how many mails each thing has happened, as far as it is added up."""
    c = campaign_tallies.c
    query = select(c.type, func.sum(c.unique_messages).label("unique_messages")).where(
        c.campaign_key == campaign_key, c.bucket_ms == HOUR
    )
    return {row.type: int(row.unique_messages) for row in await tx.execute(query.group_by(c.type))}


async def load_untallied(tx: Transaction, campaign_key: int) -> list[CampaignTally]:
    """What happened since, by minutes: little, where somebody keeps up. Both together are true at this moment."""
    place = await _place(tx, CAMPAIGNS) or 0
    rows = await tx.run(TALLY_CAMPAIGN, after=place, campaign_key=campaign_key)
    return [CampaignTally(row.minute, row.type, row.events, row.unique_messages) for row in rows]


@dataclass(frozen=True, slots=True)
class TemplateResults:
    """Of how many mails what is known; a reader counts once, however often they opened or clicked."""

    sent: int
    opened: int
    clicked: int


async def results_by_template(tx: Transaction, campaign_key: int) -> dict[int, TemplateResults]:
    """True at this moment, also where a little of it is not added up yet."""
    place = await _place(tx, CAMPAIGNS) or 0
    rows = await tx.run(RESULTS_BY_TEMPLATE, campaign_key=campaign_key, after=place)
    return {row.template_key: TemplateResults(row.sent, row.opened, row.clicked) for row in rows}
