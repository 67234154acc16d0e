"""Models of campaigns that repeat."""

from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.campaigns.repeats import CampaignRepeat
from mailwright.sources.recurrence_fields import FeedUrl, ScheduleFields


class CampaignRepeatRequest(ScheduleFields):
    """When a draft is sent again and again. With `feed`, each campaign contains the new items as `items`."""

    feed: FeedUrl | None = None

    @property
    def schedule(self) -> ScheduleFields:
        return ScheduleFields.model_validate(self.model_dump(exclude={"feed"}, exclude_unset=True))


class CampaignRepeatResponse(ResponseModel):
    """`lastResult` says what happened last: started, skipped because the feed has nothing new, or why not started."""

    weekdays: list[str]
    month_days: list[int]
    time: str
    timezone: str | None
    feed: str | None
    feed_error: str | None
    next_at: Time
    paused_at: Time | None
    last_at: Time | None
    last_campaign_id: str | None
    last_result: str | None


def campaign_repeat_response(repeat: CampaignRepeat) -> CampaignRepeatResponse:
    schedule = repeat.schedule
    return CampaignRepeatResponse(
        weekdays=[] if schedule.month_days else list(schedule.weekdays),
        month_days=list(schedule.month_days),
        time=schedule.time,
        timezone=schedule.timezone,
        feed=repeat.feed,
        feed_error=repeat.feed_error,
        next_at=repeat.next_at,
        paused_at=repeat.paused_at,
        last_at=repeat.last_at,
        last_campaign_id=repeat.last_campaign_id,
        last_result=repeat.last_result,
    )
