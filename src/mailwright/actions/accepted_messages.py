"""The responses to accepted email. The requests are in `sources/api/requests.py`, the routes in `web/api/email.py`."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mailwright.domain.clock import Instant
from mailwright.domain.message import Accepted
from mailwright.domain.states import Status
from mailwright.outbox.sending_hold import HoldReason, SendingHold
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.messages import RejectedItem
from mailwright.sources.api.raw import AcceptedRaw
from mailwright.texts.explanations import hold_text


class RawQuery(BaseModel):
    """The envelope of a raw email. The route validates the addresses, together with those of the headers."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    sender: Annotated[
        str | None, Field(alias="from", max_length=320, description="Envelope sender; default: the From header.")
    ] = None
    to: Annotated[
        list[str],
        Field(description="Envelope recipients, at most 100; default: the addresses in To, Cc and Bcc."),
    ] = []


class WarningResponse(ResponseModel):
    """A problem that does not prevent sending, for example `FOREIGN_FROM`."""

    code: str
    detail: str


# Left out of the JSON if there are no warnings.
Warnings = Annotated[list[WarningResponse], Field(default_factory=list, exclude_if=lambda found: not found)]


class SendingHeldResponse(ResponseModel):
    """Why all sending is on hold, and since when. Only an operator can resume it."""

    reason: HoldReason
    since: Time
    sentence: str


# Left out of the JSON unless all sending is on hold.
HeldIfAny = Annotated[SendingHeldResponse | None, Field(exclude_if=lambda held: held is None)]


class AcceptedResponse(ResponseModel):
    """The message is stored durably. `jobId` equals `outboxId`. `sendingHeld`: why all sending is on hold, if it is."""

    outbox_id: str
    job_id: str
    request_id: str
    status: Status
    warnings: Warnings
    sending_held: HeldIfAny = None


class RawRecipientResponse(ResponseModel):
    """The message to one recipient of a raw email."""

    to: str
    outbox_id: str
    status: Status


class RawAcceptedResponse(ResponseModel):
    """A message for each recipient is stored durably, in the order of the envelope."""

    messages: list[RawRecipientResponse]
    request_id: str
    warnings: Warnings
    sending_held: HeldIfAny = None


class ItemErrorResponse(ResponseModel):
    code: str
    detail: str
    field: str | None


class RejectedItemResponse(ResponseModel):
    error: ItemErrorResponse


class AcceptedItemResponse(ResponseModel):
    outbox_id: str
    status: Status
    warnings: Warnings


class BatchResponse(ResponseModel):
    """One result for each item, in the same order."""

    results: list[AcceptedItemResponse | RejectedItemResponse]
    sending_held: HeldIfAny = None


def sending_held_response(hold: SendingHold | None, now: Instant) -> SendingHeldResponse | None:
    if hold is None:
        return None
    return SendingHeldResponse(reason=hold.reason, since=hold.since, sentence=hold_text(hold, now))


def accepted_content(message: Accepted, held: SendingHeldResponse | None = None) -> dict[str, Any]:
    """Return the JSON of an `AcceptedResponse`, the most frequent response, without the cost of its model."""
    content: dict[str, Any] = {
        "outboxId": message.outbox_id,
        "jobId": message.outbox_id,
        "requestId": message.request_id,
        "status": message.status,
    }
    if message.warnings:
        content["warnings"] = [each.to_dict() for each in _warnings(message)]
    return content if held is None else {**content, "sendingHeld": held.to_dict()}


def raw_accepted_response(email: AcceptedRaw, held: SendingHeldResponse | None = None) -> RawAcceptedResponse:
    return RawAcceptedResponse(
        messages=[
            RawRecipientResponse(to=to, outbox_id=message.outbox_id, status=Status(message.status))
            for to, message in zip(email.recipients, email.messages, strict=True)
        ],
        request_id=email.messages[0].request_id,
        warnings=_warnings(email),
        sending_held=held,
    )


def _warnings(message: Accepted | AcceptedRaw) -> list[WarningResponse]:
    return [WarningResponse.model_validate(each) for each in message.warnings]


def batch_content(results: list[Accepted | RejectedItem], held: SendingHeldResponse | None = None) -> dict[str, Any]:
    """Return the JSON of a `BatchResponse`. A model for each accepted item would take a fifth of the whole request."""
    content: dict[str, Any] = {"results": [_item_content(result) for result in results]}
    return content if held is None else {**content, "sendingHeld": held.to_dict()}


def _item_content(result: Accepted | RejectedItem) -> dict[str, Any]:
    if isinstance(result, RejectedItem):
        return RejectedItemResponse(error=ItemErrorResponse.model_validate(result)).to_dict()
    content: dict[str, Any] = {"outboxId": result.outbox_id, "status": result.status}
    if result.warnings:
        content["warnings"] = [each.to_dict() for each in _warnings(result)]
    return content
