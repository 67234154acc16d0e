"""Explanations and forecasts as JSON: the same in the HTTP API and for `--json` on the command line."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mailwright.domain.clock import isoformat
from mailwright.domain.explanation import CampaignExplanation, Explanation, MessageExplanation
from mailwright.domain.permits import BulkLimit
from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.messages import ActionResponse
from mailwright.sources.campaigns.forecast_values import CampaignForecast, ForecastSegment, summarize_segments
from mailwright.texts.explanations import (
    ExplanationText,
    assumption_text,
    bulk_limit_text,
    campaign_text,
    included_texts,
    message_text,
)

if TYPE_CHECKING:  # The forecast needs the audience, which most commands do not.
    from mailwright.sources.campaigns.forecast import Forecast


class ForecastSegmentResponse(ResponseModel):
    """If `reason` is null, the campaign sends at full speed. Otherwise it waits or sends in batches."""

    begins_at: Annotated[Time, Field(alias="from")]
    ends_at: Annotated[Time, Field(alias="to")]
    sending: int
    reason: str | None


class CampaignForecastResponse(ResponseModel):
    """The forecast of a campaign. A time is null if it is beyond the forecast."""

    campaign_id: str
    name: str
    remaining: int
    starts_at: Time | None
    finishes_at: Time | None
    segments: list[ForecastSegmentResponse]


class BulkLimitResponse(ResponseModel):
    """A limit of the tenant. Campaigns use at most `forBulk` of it; `reserved` is kept for transactional email.

    `domain` is the recipients' domain that it limits, per second; `*` stands for each domain without its own limit.
    """

    name: str
    limit: int
    for_bulk: int
    reserved: int
    domain: str | None = None


class ForecastResponse(ResponseModel):
    """If no worker is running, the times assume that one starts now.

    `sequenceEmails` and `occurrenceEmails` are the emails of sequences and recurring campaigns that use the same limits
    until the last campaign finishes.
    """

    computed_at: Time
    looked_until: Time
    rate_per_second: float
    is_rate_measured: bool
    workers: int
    sequence_emails: int
    occurrences: int
    occurrence_emails: int
    limits: list[BulkLimitResponse]
    assumptions: list[str]
    campaigns: list[CampaignForecastResponse]


class CampaignExplanationResponse(ResponseModel):
    """Why a campaign is not sent yet, as sentences and as data."""

    campaign_id: str
    sentence: str
    state: str
    reason: str | None
    detail: str | None
    until: Time | None
    held_since: Time | None
    what_would_change: str | None
    then: str | None
    actions: list[ActionResponse]


def message_explanation(explanation: MessageExplanation) -> dict[str, Any]:
    return {
        "outboxId": explanation.outbox_id,
        "state": explanation.state,
        **_shared(explanation, message_text(explanation)),
    }


def campaign_explanation(explanation: CampaignExplanation) -> dict[str, Any]:
    text = campaign_text(explanation)
    return {
        "campaignId": explanation.campaign_id,
        "state": explanation.state,
        **_shared(explanation, text),
        "then": text.then,
    }


def _shared(explanation: Explanation, text: ExplanationText) -> dict[str, str | None]:
    return {
        "sentence": text.sentence,
        "reason": explanation.reason,
        "detail": explanation.detail,
        "until": isoformat(explanation.until),
        "heldSince": isoformat(explanation.held_since),
        "whatWouldChange": text.what_would_change,
    }


def forecast_response(found: "Forecast") -> dict[str, Any]:
    return {
        "computedAt": isoformat(found.computed_at),
        "lookedUntil": isoformat(found.looked_until),
        "ratePerSecond": round(found.rate, 3),
        "isRateMeasured": found.is_rate_measured,
        "workers": found.workers,
        "sequenceEmails": found.sequence_emails,
        "occurrences": found.occurrences,
        "occurrenceEmails": found.occurrence_emails,
        "limits": [bulk_limit_response(limit).to_dict() for limit in found.limits],
        "assumptions": [
            *included_texts(found.sequence_emails, found.occurrence_emails),
            *(bulk_limit_text(limit) for limit in found.limits),
            *(assumption_text(assumption) for assumption in found.assumptions),
        ],
        "campaigns": [_campaign_forecast(campaign) for campaign in found.campaigns],
    }


def bulk_limit_response(limit: BulkLimit) -> BulkLimitResponse:
    return BulkLimitResponse(
        name=limit.name, limit=limit.limit, for_bulk=limit.for_bulk, reserved=limit.reserved, domain=limit.domain
    )


def _campaign_forecast(campaign: CampaignForecast) -> dict[str, Any]:
    return {
        "campaignId": campaign.campaign_id,
        "name": campaign.name,
        "remaining": campaign.remaining,
        "startsAt": isoformat(campaign.starts_at),
        "finishesAt": isoformat(campaign.finishes_at),
        "segments": [_segment(segment) for segment in summarize_segments(campaign.segments)],
    }


def _segment(segment: ForecastSegment) -> dict[str, Any]:
    return {
        "from": isoformat(segment.begins_at),
        "to": isoformat(segment.ends_at),
        "sending": segment.sent,
        "reason": segment.reason,
    }
