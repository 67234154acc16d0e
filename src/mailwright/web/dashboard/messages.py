"""Message pages: search, delivery timeline, preview, actions and dead letters."""

import contextlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mailwright.app.destinations import destinations_of
from mailwright.app.wiring import Engine
from mailwright.domain import address
from mailwright.domain.clock import DAY, MINUTE, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event, Source
from mailwright.domain.states import CLAIMABLE, EventType, MessageGroup, Resolution, Status
from mailwright.domain.translation import gettext, lazy_gettext, lazy_pgettext
from mailwright.outbox import message_records
from mailwright.outbox.message_records import NEWEST, MessageRecord, MessageSearch, MessageSummary
from mailwright.outbox.search import SCAN_LIMIT, find_deferrals, find_page
from mailwright.pipeline.rerender import render_message, render_subjects
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.message_limits import explain_message
from mailwright.texts.times import count_text
from mailwright.web.dashboard.email_parts import ParsedEmail, download, file_response, frame_response, parse_email
from mailwright.web.dashboard.forms import read_fields, read_values
from mailwright.web.dashboard.shell import PageRoute, local_path, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
# Maximum number of dead letters that the page retries at once. The command line can retry more.
MAX_RETRIED: Final = 500

STATUSES: Final = (
    MessageGroup.QUEUED,
    Status.PENDING,
    Status.SENT_ATTEMPT,
    Status.RETRY_SCHEDULED,
    Status.SENT,
    MessageGroup.BOUNCED,
    Status.FAILED,
    MessageGroup.SUPPRESSED,
    Status.IN_DOUBT,
    Status.CLOSED_UNKNOWN,
    Status.CANCELLED,
)
SOURCES: Final = {
    Source.API: "API",
    Source.CAMPAIGN: lazy_gettext("Campaign"),
    Source.MAILOUT: lazy_gettext("Mailout"),
    Source.ARTICLE: lazy_gettext("Article"),
    Source.NOTIFICATION: lazy_gettext("Notification"),
    Source.SEQUENCE: lazy_gettext("Sequence"),
}
# Ways to resolve an unconfirmed email: the label of the button and its explanation.
RESOLUTIONS: Final = {
    Resolution.SENT: (
        lazy_gettext("Mark as sent"),
        lazy_gettext("The provider accepted it. The email counts as sent and is not sent again."),
    ),
    Resolution.RESEND: (
        lazy_gettext("Send again"),
        lazy_gettext("Sends the email again. If the first one arrived, the recipient gets it twice."),
    ),
    Resolution.CLOSE: (
        lazy_gettext("Close as unknown"),
        lazy_gettext(
            "The result stays unknown. The email is not sent again and counts neither as sent nor "
            "as failed. This cannot be undone."
        ),
    ),
}
_RESOLVED: Final = {
    Resolution.SENT: lazy_gettext("Email marked as sent."),
    Resolution.RESEND: lazy_gettext("Email queued to be sent again."),
    Resolution.CLOSE: lazy_gettext("Email closed as unknown."),
}

# Labels of events in the timeline.
_EVENT_LABELS: Final = {
    EventType.RECEIVED: lazy_gettext("Claimed by a worker"),
    EventType.VALIDATED: lazy_gettext("Validated"),
    EventType.VALIDATION_FAILED: lazy_gettext("Rejected by validation"),
    EventType.SENT_ATTEMPT: lazy_gettext("Handed to the provider"),
    EventType.SENT: lazy_gettext("Sent"),
    EventType.FAILED: lazy_gettext("Failed permanently"),
    EventType.RETRY_SCHEDULED: lazy_gettext("Failed temporarily; retry scheduled"),
    EventType.IN_DOUBT: lazy_gettext("No definite provider response"),
    EventType.CLOSED_UNKNOWN: lazy_gettext("Closed as unknown"),
    EventType.CANCELLED: lazy_gettext("Cancelled"),
    EventType.REQUEUED: lazy_gettext("Queued again"),
    EventType.ACCEPTED: lazy_gettext("Accepted for delivery"),
    EventType.DELIVERED: lazy_gettext("Delivered"),
    EventType.OPENED: lazy_gettext("Opened"),
    EventType.CLICKED: lazy_gettext("Link clicked"),
    EventType.CORRECTED: lazy_gettext("Recognised as a machine"),
    EventType.BOUNCED: lazy_gettext("Bounced"),
    EventType.COMPLAINED: lazy_gettext("Marked as spam"),
    EventType.NOT_SPAM: lazy_gettext("Marked as not spam"),
    EventType.UNSUBSCRIBED: lazy_pgettext("status", "Unsubscribed"),
    EventType.DEFERRED: lazy_gettext("Delivery deferred"),
    EventType.REPLIED: lazy_gettext("Reply received"),
}
_TONES: Final = {
    EventType.SENT: "good",
    EventType.DELIVERED: "good",
    EventType.OPENED: "good",
    EventType.CLICKED: "good",
    EventType.REPLIED: "good",
    EventType.NOT_SPAM: "good",
    EventType.FAILED: "bad",
    EventType.VALIDATION_FAILED: "bad",
    EventType.BOUNCED: "bad",
    EventType.COMPLAINED: "bad",
    EventType.RETRY_SCHEDULED: "warning",
    EventType.DEFERRED: "warning",
    EventType.IN_DOUBT: "unconfirmed",
    EventType.CLOSED_UNKNOWN: "unconfirmed",
}
_DETAILS: Final = {
    "attempt": "attempt",
    "provider": "provider",
    "source": lazy_gettext("reported by"),
    "recipient": "to",
    "sender": "from",
    "subject": "subject",
    "bounceType": "type",
    "bounceSubtype": "subtype",
    "feedbackType": "type",
    "machineReason": "reason",
    "status": "status",
    "diagnosticCode": "response",
    "errorCode": "code",
    "errorMessage": "response",
    "originalCode": lazy_gettext("provider code"),
    "message": "response",
    "providerMessageId": lazy_gettext("provider message id"),
    "deferReason": "reason",
    "reason": "reason",
    "backoffDelay": lazy_gettext("retry after"),
    "nextAttemptNumber": lazy_gettext("next attempt"),
    "worker": "worker",
    "previousStatus": lazy_gettext("previous status"),
    "previousErrorCode": lazy_gettext("previous error"),
    "resolvedBy": lazy_gettext("resolved by"),
    "as": "resolution",
    "durationMs": "duration",
    "link": "link",
    "url": "link",
}
_MILLISECONDS: Final = ("backoffDelay", "durationMs")


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One event of the timeline. `after` is the time since the message was accepted."""

    type: str
    words: str
    tone: str
    at: Instant
    after: str
    details: tuple[tuple[str, str], ...]
    raw: tuple[tuple[str, str], ...]


class ResultPeriod(StrEnum):
    """The messages that a figure on Home counts: those with this result in the last 24 hours."""

    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """The filters of the message list."""

    q: str = ""
    status: Status | MessageGroup | None = None
    source: Source | None = None
    campaign: str = ""
    period: ResultPeriod | None = None

    @property
    def is_active(self) -> bool:
        return bool(self.q or self.status or self.source or self.campaign or self.period)


@router.get("/messages")
async def list_messages(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    *,
    q: str = "",
    status: str = "",
    source: str = "",
    campaign: str = "",
    period: str = "",
    cursor: str = "",
) -> Response:
    criteria = MessageFilter(
        q.strip()[:320],
        _one_of(Status, status) or _one_of(MessageGroup, status),
        _one_of(Source, source),
        campaign.strip()[:36],
        _one_of(ResultPeriod, period),
    )
    if is_uuid(criteria.q):
        return RedirectResponse(f"/messages/{criteria.q}", HTTPStatus.SEE_OTHER)
    wanted = await _search_for(engine, visitor, criteria, decode_cursor("message", cursor)[0] if cursor else NEWEST)
    found = await find_page(engine.database.reader, visitor.tenant_id, wanted, limit=PAGE)
    values: dict[str, Any] = {
        "criteria": criteria,
        "found": found.messages,
        "subjects": await render_subjects(
            engine.database,
            {each.outbox_id: each.subject for each in found.messages},
            tenant_id=visitor.tenant_id,
            at=engine.clock.now(),
        ),
        "waits": await find_deferrals(engine.database.reader, found.messages, engine.clock.now()),
        "following": encode_cursor("message", found.next_key) if found.next_key is not None else None,
        "is_cut": found.is_cut,
        "stretch": SCAN_LIMIT,
        "unknown": _unknown_filters({"status": status, "source": source}, criteria),
        "statuses": STATUSES,
        "sources": SOURCES,
        "decisions": RESOLUTIONS,
        "campaign_name": await _campaign_name(engine, visitor, criteria.campaign),
        "has_dead_letters": criteria.status is Status.FAILED and await _has_dead_letters(engine, visitor),
    }
    return await page(request, visitor, "messages/list.html", **values)


@router.get("/messages/{outbox_id}")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    outbox_id: str,
    *,
    view: str = "html",
    width: Literal["desktop", "phone"] = "desktop",
) -> Response:
    record = await _found(engine, visitor, outbox_id)
    email = await _render(engine, visitor, record)
    values: dict[str, Any] = {
        **await _message_values(engine, visitor, record),
        "email": email,
        "subject": await _subject(engine, visitor, record),
        "view": email.view(view) if isinstance(email, ParsedEmail) else "",
        "width": width,
        "at": f"/messages/{record.summary.outbox_id}",
        "tags": record.payload.get("tags", []),
        "metadata": record.payload.get("metadata", {}),
    }
    return await page(request, visitor, "messages/show.html", **values)


@router.get("/messages/{outbox_id}/stream")
async def listen(request: Request, engine: EngineDep, visitor: ViewerDep, outbox_id: str) -> Response:
    await _found(engine, visitor, outbox_id)

    async def render_parts() -> dict[str, str]:
        values = await _message_values(engine, visitor, await _found(engine, visitor, outbox_id))
        return {
            name: render_part(request, visitor, f"messages/{name}.html", **values) for name in ("status", "timeline")
        }

    return stream(request, visitor, f"message {outbox_id}", render_parts)


@router.get("/messages/{outbox_id}/frame")
async def show_frame(engine: EngineDep, visitor: ViewerDep, outbox_id: str) -> Response:
    return frame_response(await _render(engine, visitor, await _found(engine, visitor, outbox_id)))


@router.get("/messages/{outbox_id}/files/{number}")
async def download_file(engine: EngineDep, visitor: ViewerDep, outbox_id: str, number: int) -> Response:
    return file_response(await _render(engine, visitor, await _found(engine, visitor, outbox_id)), number)


@router.get("/messages/{outbox_id}/source.eml")
async def download_source(engine: EngineDep, visitor: ViewerDep, outbox_id: str) -> Response:
    email = await _render(engine, visitor, await _found(engine, visitor, outbox_id))
    if isinstance(email, str):
        raise NotFound(email)
    return download(email.source, f"{outbox_id}.eml", "message/rfc822")


@router.post("/messages/{outbox_id}/cancel")
async def cancel(request: Request, engine: EngineDep, visitor: EditorDep, outbox_id: str) -> Response:
    await engine.operations.cancel(outbox_id, tenant_id=visitor.tenant_id, actor=visitor.actor)
    return redirect(request, f"/messages/{outbox_id}", gettext("Email cancelled."))


@router.post("/messages/{outbox_id}/retry")
async def retry(request: Request, engine: EngineDep, visitor: EditorDep, outbox_id: str) -> Response:
    await engine.operations.requeue(outbox_id, tenant_id=visitor.tenant_id, actor=visitor.actor)
    return redirect(request, f"/messages/{outbox_id}", gettext("Email queued again with a fresh set of attempts."))


@router.post("/messages/{outbox_id}/resolve")
async def resolve(request: Request, engine: EngineDep, visitor: EditorDep, outbox_id: str) -> Response:
    form = await read_fields(request)
    decision = resolution_of(form["as"])
    await engine.operations.resolve(outbox_id, decision, tenant_id=visitor.tenant_id, actor=visitor.actor)
    back = local_path(form["next"]) if form["next"] else f"/messages/{outbox_id}"
    return redirect(request, back, _RESOLVED[decision])


def resolution_of(text: str) -> Resolution:
    try:
        return Resolution(text)
    except ValueError as error:
        raise InvalidInput(gettext("Choose one of the actions."), field="as") from error


@router.get("/dead-letters")
async def list_dead_letters(request: Request, engine: EngineDep, visitor: ViewerDep, cursor: str = "") -> Response:
    created_at, key = decode_cursor("dead-letter", cursor, 2) if cursor else (NEWEST, NEWEST)
    found = await message_records.dead_letters(engine.database, visitor.tenant_id, limit=PAGE, before=(created_at, key))
    last = found[-1] if len(found) == PAGE else None
    following = encode_cursor("dead-letter", last.created_at, last.message_key) if last else None
    return await page(request, visitor, "messages/dead_letters.html", found=found, following=following)


@router.post("/dead-letters/retry")
async def retry_dead_letters(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Retry each message separately, so that a message that has changed in the meantime does not stop the others."""
    wanted = (await read_values(request, "message"))[:MAX_RETRIED]
    if not wanted:
        return redirect(request, "/dead-letters", gettext("Select the emails to retry."), tone="bad")
    retried = 0
    for outbox_id in wanted:
        try:
            await engine.operations.requeue(outbox_id, tenant_id=visitor.tenant_id, actor=visitor.actor)
            retried += 1
        except (NotFound, NotPossibleNow):
            continue
    words = gettext("{retried} queued again.", retried=count_text(retried, "email"))
    left = len(wanted) - retried
    return redirect(
        request,
        "/dead-letters",
        gettext("{words} {left} could no longer be retried.", words=words, left=left) if left else words,
    )


async def _has_dead_letters(engine: Engine, visitor: Visitor) -> bool:
    return bool(
        await message_records.dead_letters(engine.database, visitor.tenant_id, limit=1, before=(NEWEST, NEWEST))
    )


async def _found(engine: Engine, visitor: Visitor, outbox_id: str) -> MessageRecord:
    try:
        return await message_records.find(engine.database, outbox_id, tenant_id=visitor.tenant_id)
    except NotFound as error:
        raise NotFound(gettext("This message does not exist, or it belongs to another tenant.")) from error


async def _subject(engine: Engine, visitor: Visitor, record: MessageRecord) -> str:
    """Return the subject with the recipient's values, as the list shows it."""
    outbox_id, subject = record.summary.outbox_id, record.summary.subject
    found = await render_subjects(
        engine.database, {outbox_id: subject}, tenant_id=visitor.tenant_id, at=engine.clock.now()
    )
    return found.get(outbox_id, subject)


async def _render(engine: Engine, visitor: Visitor, record: MessageRecord) -> ParsedEmail | str:
    if engine.identity is None:
        return gettext("This server cannot render emails.")
    summary = record.summary
    email = await render_message(
        engine.database,
        engine.templates,
        engine.identity,
        summary.outbox_id,
        tenant_id=visitor.tenant_id,
        at=summary.sent_at or summary.created_at,
        directory=engine.directory,
    )
    return email if isinstance(email, str) else parse_email(email)


async def _message_values(engine: Engine, visitor: Visitor, record: MessageRecord) -> dict[str, Any]:
    outbox_id = record.summary.outbox_id
    why = await explain_message(
        engine.database,
        engine.clock,
        engine.defaults,
        outbox_id,
        tenant_id=visitor.tenant_id,
        destinations=destinations_of(engine.settings, engine.named),
    )
    return {
        "record": record,
        "message": record.summary,
        "why": why,
        "steps": list(_timeline(record.summary, record.events)),
        "reported_as": sorted({each.type for each in record.events} & {EventType.BOUNCED, EventType.COMPLAINED}),
        "decisions": RESOLUTIONS,
        "may_cancel": record.summary.status in CLAIMABLE,
        "may_retry": record.summary.status == Status.FAILED,
        "may_resolve": record.summary.status == Status.IN_DOUBT,
        "sources": SOURCES,
    }


def _timeline(message: MessageSummary, events: Sequence[Event]) -> Iterator[TimelineEntry]:
    for event in events:
        shown = {name: value for name, value in event.metadata.items() if value not in (None, "", [], {})}
        details = [(words, _detail_text(name, shown[name])) for name, words in _DETAILS.items() if name in shown]
        raw = [(name, str(value)) for name, value in shown.items() if name not in _DETAILS]
        label = gettext("Automatic reply received") if event.is_automatic else _EVENT_LABELS[event.type]
        yield TimelineEntry(
            event.type,
            gettext("{label} by a machine", label=label) if event.is_machine else label,
            "info" if event.is_machine or event.is_automatic else _TONES.get(event.type, "info"),
            event.at,
            format_delay(event.at - message.created_at),
            tuple(details),
            tuple(raw),
        )


def _detail_text(name: str, value: Any) -> str:
    return format_delay(int(value)).removeprefix("+") if name in _MILLISECONDS else str(value)


def format_delay(milliseconds: Instant) -> str:
    """Format a duration as `+12 ms`, `+3.4 s` or `+2 h 05 min`."""
    if milliseconds < 1_000:
        return gettext("+{milliseconds} ms", milliseconds=milliseconds)
    if milliseconds < 60_000:
        return f"+{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"+{days} d {hours} h"
    return (
        gettext("+{hours} h {minutes} min", hours=hours, minutes=f"{minutes:02}")
        if hours
        else gettext("+{minutes} min {seconds} s", minutes=minutes, seconds=f"{seconds:02}")
    )


async def _search_for(engine: Engine, visitor: Visitor, criteria: MessageFilter, before: int) -> MessageSearch:
    to_email, words = None, criteria.q or None
    if "@" in criteria.q:
        # Search a part of an address as text.
        with contextlib.suppress(address.InvalidAddress):
            to_email, words = address.normal(criteria.q), None
    key = None
    if criteria.campaign:
        campaign = await engine.campaigns.find(criteria.campaign, tenant_id=visitor.tenant_id)
        key = campaign.key
    a_day_ago = engine.clock.now() - DAY
    search = MessageSearch(
        # Home counts sent messages by minute.
        sent_since=a_day_ago - a_day_ago % MINUTE if criteria.period is ResultPeriod.SENT else None,
        failed_since=a_day_ago if criteria.period is ResultPeriod.FAILED else None,
        to_email=to_email,
        source=criteria.source,
        before_key=before,
        words=words,
        campaign_key=key,
    )
    return search.with_shown_status(criteria.status)


async def _campaign_name(engine: Engine, visitor: Visitor, campaign_id: str) -> str:
    if not campaign_id:
        return ""
    return (await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)).name


def _unknown_filters(asked: dict[str, str], criteria: MessageFilter) -> list[tuple[str, str]]:
    """Return the filters that are ignored because their value does not exist."""
    return [(name, text[:40]) for name, text in asked.items() if text and getattr(criteria, name) is None]


def _one_of(kind: Any, text: str) -> Any:
    """Return the enum member, or None for an unknown value of a query parameter."""
    try:
        return kind(text) if text else None
    except ValueError:
        return None
