"""When campaigns will be sent, and why they are not sent yet."""

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from mailwright.actions.campaigns import BulkLimitResponse, approvals, noun, presend_context
from mailwright.actions.context import Context
from mailwright.actions.declaration import AgentTool
from mailwright.actions.explanations import CampaignExplanationResponse, campaign_explanation, explanation_lines
from mailwright.domain.clock import DAY
from mailwright.schemas.base import From, ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.campaigns.forecast_values import summarize_segments
from mailwright.texts.explanations import assumption_text, bulk_limit_text, included_texts

if TYPE_CHECKING:  # The forecast needs the audience, which most commands do not.
    from mailwright.sources.campaigns.forecast import Forecast


class ForecastQuery(RequestModel):
    days: Annotated[int, Field(ge=1, le=365, description="Number of days to forecast.")] = 365


def _rounded(rate: float) -> float:
    return round(rate, 3)


class ForecastSegmentResponse(ResponseModel):
    """If `reason` is null, the campaign sends at full speed. Otherwise it waits or sends in batches."""

    begins_at: Annotated[Time, Field(alias="from")]
    ends_at: Annotated[Time, Field(alias="to")]
    sending: Annotated[int, From("sent")]
    reason: str | None


class CampaignForecastResponse(ResponseModel):
    """The forecast of a campaign. A time is null if it is beyond the forecast."""

    campaign_id: str
    name: str
    remaining: int
    starts_at: Time | None
    finishes_at: Time | None
    segments: list[ForecastSegmentResponse]


class ForecastResponse(ResponseModel):
    """If no worker is running, the times assume that one starts now.

    `sequenceEmails` and `occurrenceEmails` are the emails of sequences and recurring campaigns that use the same limits
    until the last campaign finishes.
    """

    computed_at: Time
    looked_until: Time
    rate_per_second: Annotated[float, BeforeValidator(_rounded), From("rate")]
    is_rate_measured: bool
    workers: int
    sequence_emails: int
    occurrences: int
    occurrence_emails: int
    limits: list[BulkLimitResponse]
    assumptions: list[str]
    campaigns: list[CampaignForecastResponse]


@noun.get("/v1/forecast", agent=AgentTool("forecast", "Forecast when each campaign will finish and what limits it."))
async def show(at: Context, query: ForecastQuery) -> ForecastResponse:
    """Forecast your queued campaigns from the current limits and counters."""
    from mailwright.sources.campaigns.forecast import forecast  # noqa: PLC0415 - needs the audience, as above

    horizon = query.days * DAY
    found = await forecast(at.database, at.clock, at.defaults, tenant_id=at.tenant_id, horizon=horizon)
    return forecast_response(found)


@noun.get(
    "/{campaignId}/explain",
    command="explain",
    help="Explain why a campaign has not been sent yet, until when it waits, and what you can do.",
    shown=explanation_lines,
    agent=AgentTool("explain_campaign", "Explain what a campaign waits for, until when, and when it will finish."),
)
async def explain(at: Context, campaign_id: str) -> CampaignExplanationResponse:
    """Explain why a campaign is not sent yet: the reason, until when, what would change it, the forecast, and the
    actions that you can perform now."""
    from mailwright.sources.campaigns.explain import explain_campaign  # noqa: PLC0415 - uses the forecast

    found = await explain_campaign(
        at.database,
        at.clock,
        at.defaults,
        campaign_id,
        tenant_id=at.tenant_id,
        store=at.templates,
        known=presend_context(at),
        approvals=approvals(at),
    )
    return campaign_explanation(at, found)


def forecast_response(found: "Forecast") -> ForecastResponse:
    assumptions = [
        *included_texts(found.sequence_emails, found.occurrence_emails),
        *(bulk_limit_text(limit) for limit in found.limits),
        *(assumption_text(assumption) for assumption in found.assumptions),
    ]
    campaigns = [
        combine(CampaignForecastResponse, each, segments=summarize_segments(each.segments)) for each in found.campaigns
    ]
    return combine(ForecastResponse, found, assumptions=assumptions, campaigns=campaigns)
