"""All figures of a campaign's report, loaded by one function for the API, the command line and the dashboard."""

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.tracking import TrackingMode
from mailwright.outbox.tallies import count_untallied
from mailwright.sources.campaigns.breakdown import ResponseBreakdown, load_breakdown
from mailwright.sources.campaigns.comparison import CampaignComparison, CampaignResult, load_comparison
from mailwright.sources.campaigns.numbers import CampaignNumbers, load_numbers
from mailwright.sources.campaigns.reasons import CampaignReasons, load_reasons
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.resend import OpenGroups, count_open_groups
from mailwright.sources.campaigns.statistics import CampaignStatistics, campaign_statistics
from mailwright.sources.campaigns.tracking_plan import TrackingPlan, load_tracking
from mailwright.storage.database import Readable


@dataclass(frozen=True, slots=True)
class ReportFigures:
    numbers: CampaignNumbers
    statistics: CampaignStatistics
    tracking: TrackingPlan
    totals: CampaignResult
    comparison: CampaignComparison
    breakdown: ResponseBreakdown
    reasons: CampaignReasons
    open_groups: OpenGroups
    uncounted_events: int  # About how many events the figures do not contain yet, because the tallies lag; usually 0.


async def load_figures(
    database: Readable, campaign: Campaign, now: Instant, installation: TrackingMode
) -> ReportFigures | None:
    """Return the figures of a campaign, or None before it starts."""
    numbers = await load_numbers(database, campaign)
    if numbers is None:
        return None
    statistics = await campaign_statistics(database, campaign.key)
    async with database.read() as tx:
        totals, comparison = await load_comparison(tx, campaign, now)
        return ReportFigures(
            numbers=numbers,
            statistics=statistics,
            tracking=await load_tracking(tx, campaign, installation, totals.tracked),
            totals=totals,
            comparison=comparison,
            breakdown=await load_breakdown(tx, campaign.key),
            reasons=await load_reasons(tx, campaign.key, numbers.position.lane),
            open_groups=await count_open_groups(tx, campaign.key),
            uncounted_events=await count_untallied(tx),
        )
