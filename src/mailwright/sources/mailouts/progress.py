"""Count the messages of mailout runs by outcome."""

from collections.abc import Sequence

from mailwright.domain.campaign import CampaignStatus, QueueStatus
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.mailouts.runs import MailoutRun
from mailwright.storage.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class MailoutProgress:
    """The number of messages by outcome. `is_over`: no message is waiting or being sent."""

    sent: int
    bounced: int
    failed: int
    in_doubt: int
    suppressed: int
    waiting: int
    cancelled: int
    is_over: bool
    campaign_status: CampaignStatus | None = None

    @property
    def bounce_rate(self) -> float:
        """The share of the messages that a provider accepted and that bounced later."""
        return share(self.bounced, self.sent + self.bounced)


def share(some: int, of_all: int) -> float:
    return round(some / of_all, 4) if of_all else 0.0


def shown_status(run: MailoutRun, progress: MailoutProgress | None) -> str:
    """Return the status of a run as shown to users: "paused" or "cancelled" if its campaign is."""
    match progress.campaign_status if progress is not None else None:
        case CampaignStatus.PAUSED if run.finished_at is None:
            return "paused"
        case CampaignStatus.CANCELLED:
            return "cancelled"
        case _:
            return run.status


async def progress_of(database: Database, clock: Clock, runs: Sequence[MailoutRun]) -> dict[int, MailoutProgress]:
    """Return the progress of each run by its key, without runs that are not in the campaign queue yet."""
    keys = {run.key: run.campaign_key for run in runs if run.campaign_key is not None}
    async with database.read() as tx:
        by_campaign = await _progress_of_campaigns(tx, list(keys.values()), clock.now())
    return {key: by_campaign[campaign_key] for key, campaign_key in keys.items()}


async def campaign_progress(tx: Transaction, campaign_key: int, now: Instant) -> MailoutProgress:
    return (await _progress_of_campaigns(tx, [campaign_key], now))[campaign_key]


async def _progress_of_campaigns(
    tx: Transaction, campaign_keys: Sequence[int], now: Instant
) -> dict[int, MailoutProgress]:
    """Return the progress of many campaigns. A campaign without a queue position is over."""
    by_campaign = dict.fromkeys(campaign_keys, MailoutProgress(0, 0, 0, 0, 0, 0, 0, is_over=True))
    positions = await progress.find_positions(tx, campaign_keys)
    for position, counts in zip(positions, await progress.count_messages_of(tx, positions), strict=True):
        by_campaign[position.campaign_key] = _progress(position, counts)
    return by_campaign


def _progress(position: QueuePosition, counts: CampaignMessageCounts) -> MailoutProgress:
    return MailoutProgress(
        sent=counts.sent,
        bounced=counts.bounced,
        failed=counts.failed + counts.closed_unknown,
        in_doubt=counts.in_doubt,
        suppressed=counts.suppressed,
        waiting=counts.waiting + counts.sending,
        cancelled=counts.cancelled,
        is_over=position.status is QueueStatus.COMPLETED,
        campaign_status=position.campaign_status,
    )
