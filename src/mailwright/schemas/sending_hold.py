"""Models of a hold of all sending, and of messages that may have been sent before a restore."""

from mailwright.outbox.quarantine import Quarantine, QuarantinedMessages
from mailwright.outbox.sending_hold import SendingHold
from mailwright.schemas.base import ResponseModel, Time


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
    reported_as_sent: int


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


def hold_response(hold: SendingHold | None) -> SendingHoldResponse | None:
    return None if hold is None else SendingHoldResponse.model_validate(hold)


def quarantine_response(found: Quarantine, campaigns: list[str]) -> QuarantineResponse:
    messages = [_quarantined(each) for each in found.messages]
    return QuarantineResponse(sending_held=hold_response(found.hold), messages=messages, campaigns=campaigns)


def _quarantined(found: QuarantinedMessages) -> QuarantinedMessagesResponse:
    return QuarantinedMessagesResponse(
        tenant=found.tenant,
        source=found.source,
        campaign_id=found.campaign_id,
        campaign_name=found.campaign_name,
        messages=found.messages,
        reported_as_sent=found.reported,
    )
