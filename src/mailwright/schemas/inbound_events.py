"""Models of event webhooks that providers call."""

from mailwright.schemas.base import ResponseModel


class InboundEventsResponse(ResponseModel):
    """Number of reports that were new, repeated, or about an unknown message."""

    new: int
    repeated: int
    unknown: int
