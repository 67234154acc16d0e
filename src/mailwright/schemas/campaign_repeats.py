"""Models of campaigns that repeat."""

from typing import Annotated

from pydantic import Field

from mailwright.schemas.base import ResponseModel, Time
from mailwright.schemas.campaigns import CampaignWarningResponse, warning_responses
from mailwright.sources.campaigns.repeat_records import CampaignRepeat
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
    return CampaignRepeatResponse(
        weekdays=[] if schedule.month_days else list(schedule.weekdays),
        month_days=list(schedule.month_days),
        time=schedule.time,
        timezone=schedule.timezone,
        feed=repeat.feed,
        feed_error=None if followed is None else followed.error,
        feed_read_at=None if followed is None else followed.read_at,
        newest_items=[FeedItemResponse(title=each["title"], link=each["link"]) for each in newest],
        next_at=repeat.next_at,
        next_times=list(repeat.next_times),
        paused_at=repeat.paused_at,
        last_at=repeat.last_at,
        last_campaign_id=repeat.last_campaign_id,
        last_result=repeat.last_result,
        failed_at=repeat.failed_at,
        refusal=repeat.refusal,
        warnings=warning_responses(repeat.warnings),
    )
