"""Answers: how messages, dead letters and suppressions look to a caller, and the same in words for the description."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from mailwright.audience.contacts import Contact, ContactDetails
from mailwright.audience.importing.imports import Import
from mailwright.audience.importing.plan import ImportPlan, ImportPreview
from mailwright.audience.importing.rows import ContactRow
from mailwright.audience.lists import List
from mailwright.audience.segments import Segment
from mailwright.audience.suppressions import Suppression
from mailwright.domain.actions import ActionKind
from mailwright.domain.clock import isoformat
from mailwright.domain.message import Accepted
from mailwright.domain.permits import split_defer_reason
from mailwright.domain.states import Status
from mailwright.outbox.message_records import DeadLetter, MessageRecord, MessageSummary
from mailwright.sources.api.messages import Refused

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class ResponseModel(BaseModel):
    # Pydantic makes each ready when it is first asked for: at the start nobody has asked yet.
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True)


class AcceptedResponse(ResponseModel):
    """The message is on disk. `jobId` is the same as `outboxId`."""

    outbox_id: str
    job_id: str
    request_id: str
    status: Status


class ItemErrorResponse(ResponseModel):
    code: str
    detail: str
    field: str | None


class RejectedItemResponse(ResponseModel):
    error: ItemErrorResponse


class AcceptedItemResponse(ResponseModel):
    outbox_id: str
    status: Status


class BatchResponse(ResponseModel):
    """One result for each item, in the order of the items."""

    results: list[AcceptedItemResponse | RejectedItemResponse]


class MessageStatusResponse(ResponseModel):
    outbox_id: str
    status: Status


class ActionResponse(ResponseModel):
    """What this caller can do now: the request that does it, as it is to be sent."""

    do: ActionKind
    method: str
    path: Annotated[str, Field(description="With its query, where it has one.")]
    body: Annotated[dict[str, Any] | None, Field(description="Null where there is nothing to say.")]


class MessageExplanationResponse(ResponseModel):
    """Why a message is not sent yet, as a sentence and as data."""

    outbox_id: str
    sentence: str
    state: str
    reason: str | None
    detail: str | None
    until: str | None
    what_would_change: str | None
    actions: list[ActionResponse]


class MessageSummaryResponse(ResponseModel):
    """Where a message stands."""

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
    """A message with its whole story, the oldest event first."""

    company_id: str
    expires_at: Time | None
    tags: list[str]
    metadata: dict[str, Any]
    events: list[MessageEventResponse]


class MessageListResponse(ResponseModel):
    messages: list[MessageSummaryResponse]
    next_cursor: str | None


class DeadLetterResponse(ResponseModel):
    outbox_id: str
    to: str
    subject: str
    source: str
    request_id: str
    code: str
    reason: str
    attempts: int
    created_at: Time


class DeadLetterListResponse(ResponseModel):
    dead_letters: list[DeadLetterResponse]
    next_cursor: str | None


class SuppressionResponse(ResponseModel):
    """`listKey` says what is not sent: `*` nothing at all, `general` no bulk mail, any other no mail of that list."""

    email: str
    list_key: str
    reason: str
    source: str
    created_at: Time


class SuppressionListResponse(ResponseModel):
    suppressions: list[SuppressionResponse]
    next_cursor: str | None


class ListResponse(ResponseModel):
    list_key: str
    name: str
    description: str | None
    is_public: bool
    requires_confirmation: bool
    created_at: Time


class ListsResponse(ResponseModel):
    lists: list[ListResponse]


class SegmentResponse(ResponseModel):
    """A saved question about people, and how many answer to it now."""

    segment_key: str
    name: str
    filter: dict[str, Any]
    sentence: str
    created_at: Time
    updated_at: Time


class SegmentCountResponse(SegmentResponse):
    count: int


class SegmentListResponse(ResponseModel):
    segments: list[SegmentResponse]


class ImportColumnResponse(ResponseModel):
    title: str
    target: str


class ImportResponse(ResponseModel):
    """A file of contacts, and how far it has come."""

    import_id: str
    file_name: str
    list_key: str | None
    columns: list[ImportColumnResponse]
    warnings: list[str]
    size_bytes: int
    read_bytes: int
    rows: int
    added: int
    changed: int
    unchanged: int
    refused: int
    created_at: Time
    finished_at: Time | None


class ImportListResponse(ResponseModel):
    imports: list[ImportResponse]


class ImportPreviewResponse(ResponseModel):
    """The first rows of a file, as an import would read them."""

    encoding: str
    delimiter: str
    warnings: list[str]
    columns: list[ImportColumnResponse]
    rows: list[dict[str, Any]]


class ContactSummaryResponse(ResponseModel):
    """A person, and whether they may be written to."""

    contact_id: str
    email: str
    name: str | None
    status: str
    status_updated_at: Time | None
    status_source: str | None
    bounce_type: str | None
    bounce_subtype: str | None
    locale: str | None
    timezone: str | None
    attributes: dict[str, Any]
    created_at: Time


class SubscriptionResponse(ResponseModel):
    list_key: str
    subscribed_at: Time | None
    unsubscribed_at: Time | None
    is_pending: bool


class ContactResponse(ContactSummaryResponse):
    """All that is known of a person, with their latest mails."""

    lists: list[SubscriptionResponse]
    tags: list[str]
    suppressions: list[SuppressionResponse]
    messages: list[MessageSummaryResponse]


class ContactListResponse(ResponseModel):
    contacts: list[ContactSummaryResponse]
    next_cursor: str | None


def accepted(message: Accepted) -> dict[str, Any]:
    return {
        "outboxId": message.outbox_id,
        "jobId": message.outbox_id,
        "requestId": message.request_id,
        "status": message.status,
    }


def item(result: Accepted | Refused) -> dict[str, Any]:
    if isinstance(result, Refused):
        return {"error": {"code": result.code, "detail": result.detail, "field": result.field}}
    return {"outboxId": result.outbox_id, "status": result.status}


def line(message: MessageSummary) -> dict[str, Any]:
    return {
        "outboxId": message.outbox_id,
        "recipientId": message.recipient_id,
        "externalId": message.external_id,
        "to": message.to_email,
        "subject": message.subject,
        "status": message.status,
        "provider": message.provider,
        "providerMessageId": message.provider_message_id,
        "sesMessageId": message.provider_message_id if message.provider == "ses" else None,
        "errorCode": message.error_code,
        "errorReason": message.error_reason,
        "errorCategory": message.error_category,
        "attempts": message.attempts,
        "durationMs": message.duration_ms,
        "requestId": message.request_id,
        "source": message.source,
        "createdAt": isoformat(message.created_at),
        "scheduledAt": isoformat(message.scheduled_at),
        "nextAttemptAt": isoformat(message.next_attempt_at),
        "sentAt": isoformat(message.sent_at),
        "failedAt": isoformat(message.failed_at),
        "processedAt": isoformat(message.processed_at),
        "deferReason": split_defer_reason(message.defer_reason)[0],
    }


def story(record: MessageRecord) -> dict[str, Any]:
    """The line, what the sender attached to it, and every event under the ids that lead to it in the logs."""
    ids = {"outboxId": record.summary.outbox_id, "requestId": record.summary.request_id}
    return {
        **line(record.summary),
        "companyId": record.tenant,
        "expiresAt": isoformat(record.expires_at),
        "tags": record.payload.get("tags", []),
        "metadata": record.payload.get("metadata", {}),
        "events": [
            {"type": event.type, "createdAt": isoformat(event.at), "metadata": {**event.metadata, **ids}}
            for event in record.events
        ],
    }


def dead_letter(letter: DeadLetter) -> Mapping[str, Any]:
    return {
        "outboxId": letter.outbox_id,
        "to": letter.to_email,
        "subject": letter.subject,
        "source": letter.source,
        "requestId": letter.request_id,
        "code": letter.code,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "createdAt": isoformat(letter.created_at),
    }


def suppression(entry: Suppression) -> Mapping[str, Any]:
    return {
        "email": entry.email,
        "listKey": entry.list_key,
        "reason": entry.reason,
        "source": entry.source,
        "createdAt": isoformat(entry.created_at),
    }


def mailing_list(entry: List) -> Mapping[str, Any]:
    return {
        "listKey": entry.list_key,
        "name": entry.name,
        "description": entry.description,
        "isPublic": entry.is_public,
        "requiresConfirmation": bool(entry.requires_confirmation),
        "createdAt": isoformat(entry.created_at),
    }


def segment(found: Segment, sentence: str) -> dict[str, Any]:
    return {
        "segmentKey": found.segment_key,
        "name": found.name,
        "filter": found.filter,
        "sentence": sentence,
        "createdAt": isoformat(found.created_at),
        "updatedAt": isoformat(found.updated_at),
    }


def importing(done: Import) -> dict[str, Any]:
    return {
        "importId": done.import_id,
        "fileName": done.file_name,
        "listKey": done.plan.list_key,
        "columns": _columns(done.plan),
        "warnings": list(done.plan.file_format.warnings),
        "sizeBytes": done.size_bytes,
        "readBytes": done.read_bytes,
        "rows": done.records,
        "added": done.added,
        "changed": done.changed,
        "unchanged": done.unchanged,
        "refused": done.refused,
        "createdAt": isoformat(done.created_at),
        "finishedAt": isoformat(done.finished_at),
    }


def previewing(seen: ImportPreview) -> dict[str, Any]:
    form = seen.plan.file_format
    return {
        "encoding": form.encoding,
        "delimiter": form.delimiter,
        "warnings": list(form.warnings),
        "columns": _columns(seen.plan),
        "rows": [_previewed(line, row) for line, row in seen.rows],
    }


def _columns(plan: ImportPlan) -> list[dict[str, Any]]:
    return [{"title": column.title, "target": column.target} for column in plan.columns]


def _previewed(line: int, row: ContactRow | str) -> dict[str, Any]:
    if isinstance(row, str):
        return {"line": line, "refused": row, "person": None}
    person = {
        "email": row.email,
        "name": row.name,
        "locale": row.locale,
        "timezone": row.timezone,
        "tags": list(row.tags),
        "attributes": row.attributes,
    }
    return {"line": line, "refused": None, "person": person}


def contact(person: Contact) -> dict[str, Any]:
    return {
        "contactId": person.contact_id,
        "email": person.email,
        "name": person.name,
        "status": person.status,
        "statusUpdatedAt": isoformat(person.status_updated_at),
        "statusSource": person.status_source,
        "bounceType": person.bounce_type,
        "bounceSubtype": person.bounce_subtype,
        "locale": person.locale,
        "timezone": person.timezone,
        "attributes": person.attributes,
        "createdAt": isoformat(person.created_at),
    }


def portrait(found: ContactDetails) -> dict[str, Any]:
    return {
        **contact(found.contact),
        "lists": [
            {
                "listKey": membership.list_key,
                "subscribedAt": isoformat(membership.subscribed_at),
                "unsubscribedAt": isoformat(membership.unsubscribed_at),
                "isPending": bool(membership.is_pending),
            }
            for membership in found.lists
        ],
        "tags": list(found.tags),
        "suppressions": [suppression(entry) for entry in found.suppressions],
        "messages": [line(message) for message in found.messages],
    }
