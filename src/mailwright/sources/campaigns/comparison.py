"""The rates of a campaign, compared with earlier campaigns of its tenant and shown over time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from sqlalchemy import Select, select, tuple_

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import MACHINE, count_messages_of_campaigns
from mailwright.sources.campaigns.progress import count_messages_of, find_positions
from mailwright.sources.campaigns.records import Campaign, campaign_of_row
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns

# A campaign is compared with this many campaigns that started before it.
COMPARED: Final = 10
# A report over time shows and exports at most this many campaigns.
MAX_HISTORY: Final = 1_000


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """The totals of a campaign. `opened` and `clicked` count people, once each."""

    key: int
    campaign_id: str
    name: str
    started_at: Instant | None
    sent: int  # accepted by the provider, including those that bounced later
    tracked: int  # emails whose opens and clicks were recorded individually
    delivered: int
    opened: int
    clicked: int
    machine_opened: int
    machine_clicked: int
    bounced: int
    complained: int
    unsubscribed: int

    @property
    def rates(self) -> Mapping[str, float | None]:
        """The shares from 0 to 1, or None if nothing was measured. Opens and clicks refer to tracked emails."""
        of_sent = {
            "delivered": self.delivered or None,
            "bounced": self.bounced,
            "complained": self.complained,
            "unsubscribed": self.unsubscribed,
        }
        measured = {"opened": self.opened, "clicked": self.clicked}
        return {
            **{name: self._engaged_share(number) for name, number in measured.items()},
            **{name: _share(number, self.sent) for name, number in of_sent.items()},
        }

    def _engaged_share(self, number: int) -> float | None:
        """Return the share of the tracked emails. If only the provider tracks, it tracks every email."""
        if self.tracked:
            return _share(number, max(self.tracked, number))
        return _share(number, self.sent) if number else None


@dataclass(frozen=True, slots=True)
class ComparedRate:
    """A rate of this campaign and the median of the earlier ones. None if nothing was measured."""

    name: str
    rate: float | None
    median: float | None


@dataclass(frozen=True, slots=True)
class CampaignComparison:
    campaigns: int  # the number of earlier campaigns
    rates: tuple[ComparedRate, ...]


async def load_comparison(
    tx: Transaction, campaign: Campaign, now: Instant
) -> tuple[CampaignResult, CampaignComparison]:
    """Return the totals of a started campaign, and compare them with the tenant's last campaigns before it."""
    before = _started(campaign.tenant_id).where(
        campaigns.c.started_at <= (campaign.started_at or now), campaigns.c.id != campaign.key
    )
    rows = await tx.execute(before.order_by(campaigns.c.started_at.desc(), campaigns.c.id.desc()).limit(COMPARED))
    own, *others = await _results(tx, [campaign, *map(campaign_of_row, rows)], now)
    compared = [ComparedRate(name, rate, _median(others, name)) for name, rate in own.rates.items()]
    return own, CampaignComparison(len(others), tuple(compared))


async def load_history(
    tx: Transaction, tenant_id: int, now: Instant, *, limit: int, before: tuple[Instant, int] | None = None
) -> list[CampaignResult]:
    """Return the totals of the tenant's campaigns, newest first. `before` is the start and the key of the last one."""
    query = _started(tenant_id)
    if before is not None:
        query = query.where(tuple_(campaigns.c.started_at, campaigns.c.id) < before)
    rows = await tx.execute(query.order_by(campaigns.c.started_at.desc(), campaigns.c.id.desc()).limit(limit))
    return await _results(tx, [campaign_of_row(row) for row in rows], now)


def _started(tenant_id: int) -> Select[Any]:
    return select(campaigns).where(campaigns.c.tenant_id == tenant_id, campaigns.c.started_at.is_not(None))


async def _results(tx: Transaction, found: Sequence[Campaign], now: Instant) -> list[CampaignResult]:
    keys = [campaign.key for campaign in found]
    positions = await find_positions(tx, keys)
    counted = await count_messages_of(tx, positions)
    sent = {place.campaign_key: counts for place, counts in zip(positions, counted, strict=True)}
    events = await count_messages_of_campaigns(tx, keys)
    results = []
    for campaign in found:
        numbers, counts = events.get(campaign.key, Counter()), sent.get(campaign.key)
        bounced = counts.bounced if counts else 0
        results.append(
            CampaignResult(
                key=campaign.key,
                campaign_id=campaign.campaign_id,
                name=campaign.name,
                started_at=campaign.started_at,
                sent=counts.sent + bounced if counts else 0,
                tracked=numbers[EventType.SENT],
                delivered=numbers[EventType.DELIVERED],
                opened=numbers[EventType.OPENED],
                clicked=numbers[EventType.CLICKED],
                machine_opened=numbers[f"{MACHINE}{EventType.OPENED}"],
                machine_clicked=numbers[f"{MACHINE}{EventType.CLICKED}"],
                bounced=bounced,
                complained=numbers[EventType.COMPLAINED],
                unsubscribed=numbers[EventType.UNSUBSCRIBED],
            )
        )
    return results


def _median(results: Sequence[CampaignResult], name: str) -> float | None:
    rates = [rate for result in results if (rate := result.rates[name]) is not None]
    return median(rates) if rates else None


def _share(number: int | None, whole: int) -> float | None:
    return None if number is None or not whole else number / whole
