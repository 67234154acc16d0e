"""Whether email leaves this machine, as JSON."""

from typing import Annotated

from pydantic import Field

from mailwright.domain.sending_readiness import Destination, ReadinessReason, ReadinessState, SendingReadiness
from mailwright.domain.tracking import TrackingMode
from mailwright.schemas.base import ResponseModel, combine
from mailwright.texts.sending_readiness import consent_text, readiness_remarks, readiness_text


class ReadinessRemarkResponse(ResponseModel):
    """Something that is missing, and what to do about it."""

    reason: ReadinessReason
    sentence: str
    advice: str | None


class SendingReadinessResponse(ResponseModel):
    """Whether campaigns leave this machine now. With the state `nobody_receives`, a started campaign is not delivered.

    `workers`: number of running workers. `consenting`: number of contacts who consented to tracking, if it was counted.
    """

    state: ReadinessState
    sentence: Annotated[str, Field(description="Whether email leaves, and if not, why.")]
    destination: Destination
    remarks: list[ReadinessRemarkResponse]
    provider: str
    sender: str
    public_url: str
    workers: int
    tracking: TrackingMode
    tracking_sentence: str
    consenting: int | None


def readiness_response(found: SendingReadiness) -> SendingReadinessResponse:
    return combine(
        SendingReadinessResponse,
        found,
        sentence=readiness_text(found),
        remarks=readiness_remarks(found),
        tracking_sentence=consent_text(found),
    )
