"""Models of a hold of all sending, and of messages that may have been sent before a restore."""

from typing import Annotated

from mailwright.schemas.base import From, ResponseModel, Time


class SendingHoldResponse(ResponseModel):
    reason: str
    since: Time
    detail: str


class QuarantinedMessagesResponse(ResponseModel):
    tenant: str
    source: str
    campaign_id: str | None
    campaign_name: str | None
    messages: int
    reported_as_sent: Annotated[int, From("reported")]


class QuarantineResponse(ResponseModel):
    """`campaigns`: those that are paused when sending resumes."""

    sending_held: SendingHoldResponse | None
    messages: list[QuarantinedMessagesResponse]
    campaigns: list[str]


class SchemaStatusResponse(ResponseModel):
    """The schema of the database. `current` is null if it is empty; `problem`: why this version cannot use it."""

    current: str | None
    newest: str
    ok: bool
    problem: str | None
    sending_held: SendingHoldResponse | None
