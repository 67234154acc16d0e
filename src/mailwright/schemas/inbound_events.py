"""Models of event webhooks that providers call."""

from mailwright.schemas.base import ResponseModel


class InboundEventsResponse(ResponseModel):
    """How many reports were new, repeated, or about a message that is not ours."""

    new: int
    repeated: int
    unknown: int
