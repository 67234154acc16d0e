"""Messages: search, explain, cancel, retry and resolve them. The routes that accept them are in `web/api/email.py`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from mailwright.actions.accepted_messages import Warnings
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    AgentTool,
    Aside,
    Badge,
    Details,
    Line,
    Moment,
    Noun,
    Option,
    Table,
    Tone,
    TwoLines,
    time_of,
)
from mailwright.actions.explanations import MessageExplanationResponse, explanation_lines, message_explanation
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant, to_instant
from mailwright.domain.errors import NotFound
from mailwright.domain.message import Source
from mailwright.domain.permits import split_defer_reason
from mailwright.domain.states import MessageGroup, Resolution, Status
from mailwright.outbox import message_records
from mailwright.outbox.message_records import NEWEST, MessageRecord, MessageSearch
from mailwright.outbox.operations import Operations
from mailwright.outbox.search import find_deferrals, find_page
from mailwright.schemas.base import From, ResponseModel, Time, combine
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.sources.api.fields import Address, RequestModel, RequestTime
from mailwright.storage.database import Database
from mailwright.texts.explanations import deferral_text


async def _owner_of(at: Context) -> int:
    return (await _find(at, at.path["outbox_id"], None)).tenant_id


noun = Noun(
    "message",
    "Send, find, explain, retry, cancel and resolve messages.",
    "/v1/email",
    parameters={"outbox_id": ("ID", "The message id (outboxId).")},
    has_unique_ids=True,
    find_owner=_owner_of,
    takes_local_times=True,
)

# The symbol and tone of each status that users see.
_STATUSES: Final[Mapping[str, tuple[str, Tone]]] = {
    Status.PENDING: ("○", "waiting"),
    Status.SENT_ATTEMPT: ("→", "waiting"),
    Status.RETRY_SCHEDULED: ("↻", "warning"),
    Status.SENT: ("✓", "good"),
    Status.FAILED: ("✗", "bad"),
    Status.IN_DOUBT: ("?", "unknown"),
    Status.CLOSED_UNKNOWN: ("⊘", "unknown"),
    Status.CANCELLED: ("–", "off"),
    MessageGroup.SUPPRESSED: ("⊘", "off"),
    MessageGroup.BOUNCED: ("✗", "bad"),
}
_CAUSES: Final = {"isMachine": "by a machine", "isAutomatic": "automatic"}
# Fields of events to show, each with its prefix.
_DETAILS: Final = {
    "provider": "by ",
    "source": "reported by ",
    "recipient": "to ",
    "sender": "from ",
    "status": "status ",
    "providerMessageId": "id ",
    "worker": "worker ",
    "resolvedBy": "by ",
    "as": "as ",
} | dict.fromkeys(
    (
        *("subject", "bounceType", "bounceSubtype", "feedbackType", "machineReason", "diagnosticCode"),
        *("errorCode", "errorMessage", "message", "deferReason", "reason", "link", "url"),
    ),
    "",
)


class ShownStatus(StrEnum):
    """The statuses that users see: message states, and groups of messages that are shown like a state."""

    PENDING = Status.PENDING
    SENT_ATTEMPT = Status.SENT_ATTEMPT
    RETRY_SCHEDULED = Status.RETRY_SCHEDULED
    SENT = Status.SENT
    BOUNCED = MessageGroup.BOUNCED
    FAILED = Status.FAILED
    SUPPRESSED = MessageGroup.SUPPRESSED
    IN_DOUBT = Status.IN_DOUBT
    CLOSED_UNKNOWN = Status.CLOSED_UNKNOWN
    CANCELLED = Status.CANCELLED
    QUEUED = MessageGroup.QUEUED


def _day(value: Any) -> Any:
    """Return the beginning of a day that is given without a time."""
    return f"{value}T00:00" if isinstance(value, str) and len(value) == len("2027-01-15") else value


_Time = Annotated[RequestTime, BeforeValidator(_day), Option(metavar="TIME")]


class MessageSearchQuery(Page):
    status: Annotated[
        Status | None,
        Option("--state"),
        Field(description="Only messages in this state. SENT includes messages that bounced later."),
    ] = None
    shown_status: Annotated[
        ShownStatus | None,
        Option("--status"),
        Field(description="Only messages that are shown with this status. SENT excludes messages that bounced later."),
    ] = None
    to: Annotated[Address | None, Field(description="Address of the recipient.")] = None
    source: Annotated[Source | None, Field(description="What sent the message.")] = None
    since: Annotated[_Time | None, Field(description="Accepted at this time or later.")] = None
    until: Annotated[_Time | None, Field(description="Accepted before this time.")] = None

    def search(self) -> MessageSearch:
        wanted = MessageSearch(
            status=self.status,
            to_email=None if self.to is None else address.normal(self.to),
            source=self.source,
            since=self.since,
            until=self.until,
            before_key=decode_cursor("message", self.cursor)[0] if self.cursor is not None else NEWEST,
        )
        if self.shown_status is None:
            return wanted
        shown = self.shown_status.value
        return wanted.with_shown_status(Status(shown) if shown in Status.__members__ else MessageGroup(shown))


class MessageQuery(RequestModel):
    explain: Annotated[
        bool,
        Option("--explain/--no-explain"),
        Field(description="Whether the response explains why the message has not been sent yet."),
    ] = False


class ResolveRequest(RequestModel):
    """The decision about a message in doubt."""

    resolution: Annotated[
        Resolution,
        Option("--as"),
        Field(
            alias="as",
            description="sent: the provider accepted it. resend: send it again. close: close it as unknown.",
        ),
    ]


class MessageStatusResponse(ResponseModel):
    outbox_id: str
    status: Status


class MessageSummaryResponse(ResponseModel):
    """The state of a message. `shownStatus`: the status that users see, for example `BOUNCED` for a sent message."""

    outbox_id: str
    recipient_id: str | None
    external_id: str | None
    to: Annotated[str, From("to_email")]
    subject: str
    status: Status
    shown_status: str
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
    defer_reason: Annotated[str | None, BeforeValidator(lambda stored: split_defer_reason(stored)[0])]


class FoundMessageResponse(MessageSummaryResponse):
    """`wait`: why a waiting message is not sent now, and until when."""

    wait: str | None


class MessageEventResponse(ResponseModel):
    type: str
    created_at: Annotated[Time, From("at")]
    metadata: dict[str, Any]


class MessageResponse(MessageSummaryResponse):
    """A message with all its events, oldest first."""

    company_id: Annotated[str, From("tenant")]
    expires_at: Time | None
    copy_of: str | None  # The id of the original message, if this is its copy for one deferred recipient.
    tags: list[str]
    metadata: dict[str, Any]
    warnings: Warnings
    events: list[MessageEventResponse]
    explanation: MessageExplanationResponse | None


class MessageListResponse(ResponseModel):
    messages: list[FoundMessageResponse]
    next_cursor: str | None


def status_badge(status: str) -> Badge:
    shape, tone = _STATUSES[status]
    return Badge(status, tone, shape=shape)


def _found(message: FoundMessageResponse) -> TwoLines:
    about = (status_badge(message.shown_status), f"  {message.to}\n{message.subject}")
    return TwoLines(about, message.wait or message.last_error or message.defer_reason or "")


def _provider(message: MessageResponse) -> str | None:
    return ", ".join(each for each in (message.provider, message.provider_message_id) if each) or None


_HEADER: Final = Details(
    {
        "message": "outbox_id",
        "status": lambda message: status_badge(message.shown_status),
        "to": "to",
        "subject": "subject",
        "tenant": "company_id",
        "source": "source",
        "request": "request_id",
        "accepted": lambda message: Moment(message.created_at, names_zone=True),
        "attempts": lambda message: message.attempts or None,
        "provider": _provider,
        "error": lambda message: message.last_error or message.defer_reason,
    }
)


def _shown(message: MessageResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield _HEADER
    yield from (Aside(f"! {each.detail} [{each.code}]") for each in message.warnings)
    yield from explanation_lines(message.explanation, {}) if message.explanation else ()
    start = to_instant(datetime.fromisoformat(message.created_at))
    yield Table(
        "events",
        {
            "After#": lambda event: _after(to_instant(datetime.fromisoformat(event.created_at)) - start),
            "Event!": "type",
            "Details": _event_details,
        },
        nothing="No events.",
    )


def _event_details(event: MessageEventResponse) -> str:
    metadata = event.metadata
    parts: list[str] = [f"attempt {metadata['attempt']}"] if "attempt" in metadata else []
    parts += [words for name, words in _CAUSES.items() if metadata.get(name)]
    parts += [f"{words}{metadata[name]}" for name, words in _DETAILS.items() if metadata.get(name)]
    if metadata.get("willRetry"):
        parts.append(f"retry in {metadata.get('backoffDelay', 0) / SECOND:.3g} s")
    return ", ".join(parts)


def _after(time: Instant) -> str:
    """Format a duration as `+12 ms`, `+3.41 s` or `+2 h 05 min`."""
    if time < SECOND:
        return f"+{time} ms"
    if time < MINUTE:
        return f"+{time / SECOND:.2f} s"
    minutes, seconds = divmod(time // SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours} h {minutes:02} min" if hours else f"+{minutes} min {seconds:02} s"


def _new_status(message: MessageStatusResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"{message.outbox_id} is now ", status_badge(message.status)


@noun.get(
    command="list",
    help="List a tenant's messages, newest first.",
    shown=Table(
        "messages",
        {
            "Message and time ({zone})!": lambda each: TwoLines(each.outbox_id, time_of("created_at")(each)),
            "Status and recipient": _found,
        },
        nothing="No messages.",
    ),
    agent=AgentTool("search_messages", "Find messages by recipient, status, source and time."),
)
async def search(at: Context, query: MessageSearchQuery) -> MessageListResponse:
    """Search messages, latest first. If the response has a `nextCursor`, there may be more, even after a short page."""
    page, now = await find_page(at.database.reader, at.tenant_id, query.search(), limit=query.limit), at.clock.now()
    waits = await find_deferrals(at.database.reader, page.messages, now)
    texts = {key: deferral_text(each.reason, each.until, now, at.zone) for key, each in waits.items()}
    subjects = await rendered_subjects(
        at.database, at.clock, at.tenant_id, {each.outbox_id: each.subject for each in page.messages}
    )
    return MessageListResponse(
        messages=[
            combine(FoundMessageResponse, each, subject=subjects[each.outbox_id], wait=texts.get(each.message_key))
            for each in page.messages
        ],
        next_cursor=encode_cursor("message", page.next_key) if page.next_key is not None else None,
    )


@noun.get(
    "/{outboxId}",
    command="show",
    command_defaults={"explain": True},
    help="Show a message and its events, with the fields of GET /v1/email/{id}.",
    shown=_shown,
    agent=AgentTool("show_message", "Show a message with its timeline of events."),
)
async def show(at: Context, outbox_id: str, query: MessageQuery) -> MessageResponse:
    """Show a message with all its events."""
    record = await _find(at, outbox_id, at.owner_id)
    message = record.summary
    subjects = await rendered_subjects(at.database, at.clock, record.tenant_id, {outbox_id: message.subject})
    # Each event includes the ids that identify the message in the logs.
    ids = {"outboxId": outbox_id, "requestId": message.request_id}
    events = [combine(MessageEventResponse, event, metadata={**event.metadata, **ids}) for event in record.events]
    return combine(
        MessageResponse,
        message,
        record,
        subject=subjects[outbox_id],
        tags=record.payload.get("tags", []),
        metadata=record.payload.get("metadata", {}),
        events=events,
        explanation=await explain(at, outbox_id) if query.explain else None,
    )


@noun.get(
    "/{outboxId}/explain",
    command="explain",
    help="Explain why a message has not been sent yet, until when it waits, and what you can do.",
    shown=explanation_lines,
    agent=AgentTool(
        "explain_message", "Explain why a message has not been sent yet or failed, until when, and what can be done."
    ),
)
async def explain(at: Context, outbox_id: str) -> MessageExplanationResponse:
    """Explain why a message is not sent yet: the reason, until when, what would change it, and what you can do now."""
    from mailwright.app.destinations import destinations_of  # noqa: PLC0415 - slow to import
    from mailwright.app.named_providers import load_named  # noqa: PLC0415
    from mailwright.sources.message_limits import explain_message  # noqa: PLC0415

    named = await load_named(at.database, at.settings) if at.engine is None else at.engine.named
    found = await explain_message(
        at.database,
        at.clock,
        at.defaults,
        outbox_id,
        tenant_id=at.owner_id,
        destinations=destinations_of(at.settings, named),
    )
    return message_explanation(at, found)


@noun.post(
    "/{outboxId}/cancel",
    scope=MANAGE,
    audit="message.cancel",
    command="cancel",
    shown=_new_status,
    agent=AgentTool("cancel_message", "Cancel a message that has not been sent yet."),
)
async def cancel(at: Context, outbox_id: str) -> MessageStatusResponse:
    """Cancel a message that has not been handed to a provider yet."""
    status = await _operations(at).cancel(outbox_id, tenant_id=at.owner_id, actor=at.actor)
    return MessageStatusResponse(outbox_id=outbox_id, status=status)


@noun.post("/{outboxId}/retry", scope=MANAGE, audit="message.retry", command="retry", shown=_new_status)
async def retry(at: Context, outbox_id: str) -> MessageStatusResponse:
    """Retry a failed message and count its attempts from zero."""
    status = await _operations(at).requeue(outbox_id, tenant_id=at.owner_id, actor=at.actor)
    return MessageStatusResponse(outbox_id=outbox_id, status=status)


@noun.post("/{outboxId}/resolve", scope=MANAGE, audit="message.resolve", command="resolve", shown=_new_status)
async def resolve(at: Context, outbox_id: str, wanted: ResolveRequest) -> MessageStatusResponse:
    """Resolve a message in doubt: it was `sent`, must be sent again (`resend`), or remains unknown (`close`)."""
    status = await _operations(at).resolve(outbox_id, wanted.resolution, tenant_id=at.owner_id, actor=at.actor)
    return MessageStatusResponse(outbox_id=outbox_id, status=status)


async def rendered_subjects(
    database: Database, clock: Clock, tenant_id: int, stored: Mapping[str, str]
) -> dict[str, str]:
    """Return the subjects as recipients see them, by message id."""
    if not any("{" in subject for subject in stored.values()):
        return dict(stored)
    from mailwright.pipeline.rerender import render_subjects  # noqa: PLC0415 - templates are slow to import

    return {**stored, **await render_subjects(database, stored, tenant_id=tenant_id, at=clock.now())}


async def _find(at: Context, outbox_id: str, tenant_id: int | None) -> MessageRecord:
    try:
        return await message_records.find(at.database, outbox_id, tenant_id=tenant_id)
    except NotFound as error:
        raise NotFound(f"There is no message {outbox_id[:80]}.") from error


def _operations(at: Context) -> Operations:
    return Operations(at.database, at.clock)
