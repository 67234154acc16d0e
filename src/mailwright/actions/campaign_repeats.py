"""Campaigns that repeat on a schedule."""

from typing import Annotated

from pydantic import Field

from mailwright.actions.campaigns import (
    CampaignWarningResponse,
    ReviewedQuery,
    actor,
    campaigns,
    noun,
    problems_as_field_errors,
    warning_responses,
)
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.campaigns.repeat_records import CampaignRepeat
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.recurrence_fields import FeedUrl, ScheduleFields


class CampaignRepeatRequest(ScheduleFields):
    """The schedule on which a draft is sent repeatedly.

    With `feed`, each campaign contains the new items as `items`.
    """

    feed: FeedUrl | None = None

    @property
    def schedule(self) -> ScheduleFields:
        return ScheduleFields.model_validate(self.model_dump(exclude={"feed"}, exclude_unset=True))


class FeedItemResponse(ResponseModel):
    title: str
    link: str


class CampaignRepeatResponse(ResponseModel):
    """`lastResult`: what happened at the last scheduled time.

    The campaign started, was skipped because the feed had nothing new, or was not sent for the given reason. `failedAt`
    is set while emails are not sent although they are due. `nextTimes` is empty while the schedule is paused.
    `warnings` are those of the pre-send check when the schedule is set. `newestItems` are the newest items of the feed
    when it was last read.
    """

    weekdays: list[str]
    month_days: list[int]
    time: str
    timezone: str | None
    feed: str | None
    feed_error: str | None
    feed_read_at: Time | None
    newest_items: list[FeedItemResponse]
    next_at: Time
    next_times: list[Time]
    paused_at: Time | None
    last_at: Time | None
    last_campaign_id: str | None
    last_result: str | None
    failed_at: Time | None
    refusal: Annotated[str | None, Field(description="Why nothing would be sent at the next time.")]
    warnings: list[CampaignWarningResponse]


def campaign_repeat_response(repeat: CampaignRepeat) -> CampaignRepeatResponse:
    schedule, followed = repeat.schedule, repeat.followed
    newest = [] if followed is None else followed.newest
    return combine(
        CampaignRepeatResponse,
        repeat,
        schedule,
        weekdays=[] if schedule.month_days else list(schedule.weekdays),
        month_days=list(schedule.month_days),
        feed_error=None if followed is None else followed.error,
        feed_read_at=None if followed is None else followed.read_at,
        newest_items=[FeedItemResponse(title=each["title"], link=each["link"]) for each in newest],
        next_times=list(repeat.next_times),
        warnings=warning_responses(repeat.warnings),
    )


def _repeats(at: Context) -> CampaignRepeats:
    from mailwright.app.feeds import fetch_feed  # noqa: PLC0415 - slow to import

    zone = at.settings.timezone
    return CampaignRepeats(at.database, at.clock, campaigns(at), at.templates, fetch=fetch_feed, zone=zone)


@noun.get("/{campaignId}/repeat")
async def show_repeat(at: Context, campaign_id: str) -> CampaignRepeatResponse:
    """Show the schedule of a recurring draft, and its last result."""
    return campaign_repeat_response(await _repeats(at).find(campaign_id, tenant_id=at.tenant_id))


@noun.put("/{campaignId}/repeat", scope=MANAGE, audit="campaign.repeat")
async def set_repeat(
    at: Context, campaign_id: str, wanted: CampaignRepeatRequest, query: ReviewedQuery
) -> CampaignRepeatResponse:
    """Create and start a campaign from the draft at each time of a schedule.

    The pre-send check runs now, and errors refuse the schedule. The feed is read now: a URL without a feed is refused,
    and `feedError` is set if the feed cannot be reached. If the draft is changed later, the schedule pauses until it is
    set again. With `reviewed`, a draft that has changed since its pre-send check is refused: 409
    `CHANGED_SINCE_REVIEW`.
    """
    with problems_as_field_errors():
        saved = await _repeats(at).set(
            actor(at), campaign_id, wanted.schedule, feed=wanted.feed, reviewed=query.reviewed
        )
    return campaign_repeat_response(saved)


@noun.delete("/{campaignId}/repeat", scope=MANAGE, audit="campaign.stop_repeat")
async def stop_repeat(at: Context, campaign_id: str) -> None:
    """Stop repeating. Campaigns that were made already are not affected."""
    await _repeats(at).stop(actor(at), campaign_id)
