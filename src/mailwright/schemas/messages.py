"""Models of messages. The requests to send them are in `sources/api/requests.py`."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mailwright.domain.actions import ActionKind
from mailwright.domain.clock import Instant
from mailwright.domain.message import Accepted, Source
from mailwright.domain.permits import split_defer_reason
from mailwright.domain.states import Resolution, Status
from mailwright.outbox.message_records import NEWEST, MessageRecord, MessageSearch, MessageSummary
from mailwright.outbox.sending_hold import HoldReason, SendingHold
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.paging import Page, decode_cursor
from mailwright.sources.api.fields import Address, RequestModel, RequestTime
from mailwright.sources.api.messages import RejectedItem
from mailwright.sources.api.raw import AcceptedRaw
from mailwright.texts.explanations import hold_text


class MessageSearchQuery(Page):
    status: Status | None = None
    to: Annotated[Address | None, Field(description="Address of the recipient.")] = None
    source: Source | None = None
    since: Annotated[RequestTime | None, Field(description="Accepted at this time or later.")] = None
    until: Annotated[RequestTime | None, Field(description="Accepted before this time.")] = None

    def search(self) -> MessageSearch:
        return MessageSearch(
            status=self.status,
            to_email=self.to.lower() if self.to is not None else None,
            source=self.source,
            since=self.since,
            until=self.until,
            before_key=decode_cursor("message", self.cursor)[0] if self.cursor is not None else NEWEST,
        )


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


class ResolveRequest(RequestModel):
    """The decision about a message in doubt."""

    resolution: Annotated[Resolution, Field(alias="as")]


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


class MessageStatusResponse(ResponseModel):
    outbox_id: str
    status: Status


class ActionResponse(ResponseModel):
    """Something that this caller can do now, and the request that does it."""

    do: ActionKind
    method: str
    path: Annotated[str, Field(description="Path, with the query string, if any.")]
    body: Annotated[dict[str, Any] | None, Field(description="Null if the request has no body.")]


class MessageExplanationResponse(ResponseModel):
    """Why a message is not sent yet, as a sentence and as data."""

    outbox_id: str
    sentence: str
    state: str
    reason: str | None
    detail: str | None
    until: str | None
    held_since: str | None
    what_would_change: str | None
    actions: list[ActionResponse]


class MessageSummaryResponse(ResponseModel):
    """The state of a message."""

    outbox_id: str
    recipient_id: str | None
    external_id: str | None
    to: str
    subject: str
    status: Status
    provider: str | None
    provider_message_id: str | None
    ses_message_id: str | None
    error_code: str | None
    error_reason: str | None
    error_category: str | None
    last_error: str | None  # The code and the reason; None after a success.
    attempts: int
    duration_ms: int | None
    request_id: str
    source: str
    created_at: Time
    scheduled_at: Time | None
    next_attempt_at: Time | None
    sent_at: Time | None
    failed_at: Time | None
    processed_at: Time | None
    defer_reason: str | None


class MessageEventResponse(ResponseModel):
    type: str
    created_at: Time
    metadata: dict[str, Any]


class MessageResponse(MessageSummaryResponse):
    """A message with all its events, oldest first."""

    company_id: str
    expires_at: Time | None
    copy_of: str | None  # The id of the original message, if this is its copy for one deferred recipient.
    tags: list[str]
    metadata: dict[str, Any]
    warnings: Warnings
    events: list[MessageEventResponse]


class MessageListResponse(ResponseModel):
    messages: list[MessageSummaryResponse]
    next_cursor: str | None


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


def message_summary_response(message: MessageSummary) -> MessageSummaryResponse:
    return MessageSummaryResponse(
        outbox_id=message.outbox_id,
        recipient_id=message.recipient_id,
        external_id=message.external_id,
        to=message.to_email,
        subject=message.subject,
        status=Status(message.status),
        provider=message.provider,
        provider_message_id=message.provider_message_id,
        ses_message_id=message.ses_message_id,
        error_code=message.error_code,
        error_reason=message.error_reason,
        error_category=message.error_category,
        last_error=message.last_error,
        attempts=message.attempts,
        duration_ms=message.duration_ms,
        request_id=message.request_id,
        source=message.source,
        created_at=message.created_at,
        scheduled_at=message.scheduled_at,
        next_attempt_at=message.next_attempt_at,
        sent_at=message.sent_at,
        failed_at=message.failed_at,
        processed_at=message.processed_at,
        defer_reason=split_defer_reason(message.defer_reason)[0],
    )


def message_response(record: MessageRecord) -> MessageResponse:
    """Build the response. Each event includes the ids that identify the message in the logs."""
    ids = {"outboxId": record.summary.outbox_id, "requestId": record.summary.request_id}
    return extend(
        MessageResponse,
        message_summary_response(record.summary),
        company_id=record.tenant,
        expires_at=record.expires_at,
        copy_of=record.copy_of,
        tags=record.payload.get("tags", []),
        metadata=record.payload.get("metadata", {}),
        warnings=[WarningResponse(**each) for each in record.warnings],
        events=[
            MessageEventResponse(type=event.type, created_at=event.at, metadata={**event.metadata, **ids})
            for event in record.events
        ],
    )


def _item_content(result: Accepted | RejectedItem) -> dict[str, Any]:
    if isinstance(result, RejectedItem):
        return RejectedItemResponse(error=ItemErrorResponse.model_validate(result)).to_dict()
    content: dict[str, Any] = {"outboxId": result.outbox_id, "status": result.status}
    if result.warnings:
        content["warnings"] = [each.to_dict() for each in _warnings(result)]
    return content
