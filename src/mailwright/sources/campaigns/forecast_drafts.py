"""Campaigns that are not in the queue yet, as a forecast simulates them."""

from itertools import pairwise
from typing import Final

from mailwright.domain.campaign import AWAITING_WINNER, NEXT_WAVE, SCHEDULED
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.permits import Deferral, LimitLevel
from mailwright.domain.provider_routes import ProviderRoutes
from mailwright.outbox.limits import LimitRules, parse_campaign_limits
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.enqueue import size_of_test_group, size_of_waves
from mailwright.sources.campaigns.forecast_values import ForecastPause, QueuedCampaign, in_sender_zone

# The campaign ID of a draft in a forecast.
DRAFT_ID: Final = "draft"


@dataclass(frozen=True, slots=True)
class ForecastDraft:
    """A campaign that is not started, with the number of its recipients."""

    definition: CampaignDefinition
    tenant_id: int
    planned: int
    campaign_id: str = DRAFT_ID


def queued_draft(draft: ForecastDraft, rules: LimitRules, routes: ProviderRoutes, now: Instant) -> QueuedCampaign:
    """Return a draft as if it were started now, with its own limits."""
    definition, (tenant, *_) = draft.definition, rules.levels(draft.tenant_id, 0)
    begins_at = definition.scheduled_at
    text = definition.limits.model_dump_json(by_alias=False)
    limits = parse_campaign_limits(text, tenant.limits, max(now, begins_at or now))
    pauses: list[ForecastPause] = []
    if (waves := definition.waves) is not None:
        sizes = [0, *(size_of_waves(draft.planned, percent) for percent in waves.percents)]
        pauses = [
            ForecastPause(after - before, waves.wait_minutes * MINUTE, NEXT_WAVE) for before, after in pairwise(sizes)
        ]
    elif (test := definition.ab_test) is not None and test.test_percent < 100:
        size = size_of_test_group(draft.planned, test.test_percent)
        pauses = [ForecastPause(size, test.wait_minutes * MINUTE, AWAITING_WINNER)]
    return QueuedCampaign(
        campaign_id=draft.campaign_id,
        name=definition.name,
        tenant_id=draft.tenant_id,
        remaining=draft.planned,
        tenant=tenant,
        own=in_sender_zone(LimitLevel(draft.campaign_id, limits)),
        deferral=Deferral(begins_at, SCHEDULED) if begins_at is not None and begins_at > now else None,
        pauses=tuple(pauses),
        provider=routes.provider_of(draft.tenant_id, Source.CAMPAIGN),
    )
