"""The forecast over HTTP: when each campaign in line begins and ends, and which rule holds it until then."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from mailwright.domain.clock import DAY
from mailwright.sources.campaigns.forecast import forecast
from mailwright.web.answers import Answer, Time
from mailwright.web.bodies import json_response
from mailwright.web.caller import Calling
from mailwright.web.describe import answering
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/forecast", tags=["campaigns"])


class SegmentAnswer(Answer):
    """Sent without a reason: at full pace. A reason and none sent: it waits. Both: in portions, because of it."""

    begins_at: Annotated[Time, Field(alias="from")]
    ends_at: Annotated[Time, Field(alias="to")]
    sending: int
    reason: str | None


class CourseAnswer(Answer):
    """Null times: not within the time that was looked at."""

    campaign_id: str
    name: str
    remaining: int
    starts_at: Time | None
    finishes_at: Time | None
    segments: list[SegmentAnswer]


class ForecastAnswer(Answer):
    computed_at: Time
    looked_until: Time
    rate_per_second: float
    is_rate_measured: bool
    assumptions: list[str]
    campaigns: list[CourseAnswer]


@router.get("", responses=answering({HTTPStatus.OK: ForecastAnswer}, HTTPStatus.BAD_REQUEST))
async def show(
    parts: Parts, caller: Calling, days: Annotated[int, Query(ge=1, le=365, description="How far to look.")] = 365
) -> Response:
    """Your campaigns in line, on the rules and counters of this moment."""
    found = await forecast(parts.database, parts.clock, parts.defaults, tenant_id=caller.tenant_id, horizon=days * DAY)
    return json_response(found.as_dict())
