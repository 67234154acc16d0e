"""Resend's API: `/emails`, `/emails/batch`, and show, reschedule and cancel an email by its id."""

import re
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.content.raw import parse_raw
from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant, isoformat
from mailwright.domain.errors import IdempotencyConflict, Unauthorized
from mailwright.domain.states import EventType, MessageGroup, Status
from mailwright.outbox.message_records import MessageRecord, find
from mailwright.outbox.raw_contents import find_raw_content
from mailwright.sources.api.emails import AcceptedEmail, AddressedEmail
from mailwright.sources.api.fields import RequestTime
from mailwright.sources.api.messages import RejectedItem, RequestContext, check_schedule
from mailwright.sources.api.named_lists import list_of_header, without_unsubscribe
from mailwright.sources.api.requests import MAX_REPLY_TO
from mailwright.sources.api.senders import SenderDomainNotVerified
from mailwright.sources.api.validation import FieldError, RequestInvalid, invalid, parse
from mailwright.web.api.caller import KEY_NAME
from mailwright.web.api.dropin.bulk import mark_links
from mailwright.web.api.dropin.requests import (
    Base64,
    DictOf,
    ListOf,
    ServiceMailbox,
    ServiceModel,
    Unsupported,
    answer_errors,
    bearer_key,
    boxes_of,
    decode_name,
    headers_of,
    renamed,
    reply_fields,
    require_recipients,
    sending_context,
    split_addresses,
    stated,
    without_empty,
)
from mailwright.web.bodies import MAX_BATCH_BYTES, json_response, read_json
from mailwright.web.errors import ErrorResponse, InvalidJson
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/emails", route_class=PlainRoute, include_in_schema=False)

MAX_RECIPIENTS: Final = 50
MAX_BATCH: Final = 100

_NAMES: Final = {
    "replyTo": "reply_to",
    "furtherReplyTo": "reply_to",
    "messageId": "headers.Message-ID",
    "senderHeader": "headers.Sender",
    "scheduledAt": "scheduled_at",
    "templateId": "template.id",
    "variables": "template.variables",
    "metadata": "tags",
    "listKey": "topic_id",
    "recipient": "to",
    "attachments.contentType": "content_type",
    "attachments.contentId": "content_id",
}
# Resend's names of errors by status.
_ERRORS: Final = {
    HTTPStatus.FORBIDDEN: "restricted_api_key",
    HTTPStatus.CONFLICT: "invalid_idempotent_request",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.SERVICE_UNAVAILABLE: "internal_server_error",
}

# Resend's words for the last event, by the reports about a message, and by its state; others are queued.
_REPORTED: Final = {
    EventType.DELIVERED: "delivered",
    EventType.OPENED: "opened",
    EventType.CLICKED: "clicked",
    EventType.COMPLAINED: "complained",
    EventType.DEFERRED: "delivery_delayed",
}
_STATUSES: Final[Mapping[str, str]] = {
    Status.RETRY_SCHEDULED: "delivery_delayed",
    Status.FAILED: "failed",
    Status.CANCELLED: "canceled",
    MessageGroup.SUPPRESSED: "suppressed",
    MessageGroup.BOUNCED: "bounced",
}

# The variable that Resend replaces by the unsubscribe link, and the name of a tag that names a list.
_UNSUBSCRIBE: Final = re.compile(r"\{\{\{?\s*RESEND_UNSUBSCRIBE_URL\s*\}?\}\}")
_LIST_TAG: Final = "list"
# Phrases that Resend takes as a send time.
_DELAY: Final = re.compile(
    r"\s*in (?:an?|(\d{1,5})) ?(m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)\s*", re.IGNORECASE
)
_UNITS: Final = {"m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _encoded(value: Any) -> Any:
    """Accept text in base64, and the bytes that Resend's SDKs send: a list, or the JSON of a buffer of Node.js."""
    if isinstance(value, dict) and value.get("type") == "Buffer":
        value = value.get("data")
    if not isinstance(value, list):
        return value
    try:
        return b64encode(bytes(value)).decode()
    except (TypeError, ValueError) as error:
        raise invalid("invalid", "must be base64 or a list of bytes") from error


OneOrMany = Annotated[list[ServiceMailbox], BeforeValidator(_one_or_many)]


class ResendAttachment(ServiceModel):
    path: Unsupported = None
    content: Annotated[Base64, BeforeValidator(_encoded)]
    filename: str
    content_type: str | None = None
    content_id: str | None = None
    inline_content_id: str | None = None


class ResendTag(ServiceModel):
    name: str
    value: str


class ResendTemplate(ServiceModel):
    id: str
    variables: DictOf[Any]


class ResendEmail(ServiceModel):
    sender: Annotated[ServiceMailbox, Field(alias="from")]
    to: OneOrMany
    cc: Annotated[OneOrMany, Field(default_factory=list)]
    bcc: Annotated[OneOrMany, Field(default_factory=list)]
    reply_to: Annotated[OneOrMany, Field(default_factory=list, max_length=MAX_REPLY_TO)]
    subject: str | None = None
    html: str | None = None
    text: str | None = None
    headers: DictOf[str]
    attachments: ListOf[ResendAttachment]
    tags: ListOf[ResendTag]
    scheduled_at: str | None = None
    template: ResendTemplate | None = None
    topic_id: str | None = None

    @property
    def list_key(self) -> str | None:
        """The key of the list: the topic, the List-Id or the tag `list`."""
        tag = next((each.value for each in self.tags if each.name == _LIST_TAG), None)
        return self.topic_id or list_of_header(self.headers) or tag

    def to_email(self) -> AddressedEmail:
        delay = _delay(self.scheduled_at or "")
        marked = next((found[0] for each in (self.html, self.text) if (found := _UNSUBSCRIBE.search(each or ""))), None)
        if marked is not None and self.list_key is None:
            reason = f"is required: the email has {marked}, so it is bulk email and needs the key of a list"
            raise RequestInvalid([FieldError("topic_id", "REQUIRED", reason)])
        fields = {
            "from": self.sender,
            "subject": self.subject,
            "html": mark_links(self.html, _UNSUBSCRIBE),
            "text": mark_links(self.text, _UNSUBSCRIBE),
            "listKey": self.list_key,
            **reply_fields(self.reply_to),
            "headers": self.headers if self.list_key is None else without_unsubscribe(self.headers),
            "attachments": [_attachment(each) for each in self.attachments],
            "metadata": headers_of([(each.name, each.value) for each in self.tags], "tags"),
            "scheduledAt": self.scheduled_at if delay is None else None,
            "templateId": self.template.id if self.template else None,
            "variables": self.template.variables if self.template else None,
        }
        email = AddressedEmail(without_empty(fields), *map(boxes_of, (self.to, self.cc, self.bcc)), delay=delay)
        return require_recipients(email, MAX_RECIPIENTS, "to")


class ResendChange(ServiceModel):
    id: str | None = None  # Resend's SDKs repeat the id of the path.
    scheduled_at: RequestTime


def _delay(text: str) -> Instant | None:
    """Return the delay of a phrase such as `in 5 minutes`. Other texts must be times."""
    found = _DELAY.fullmatch(text)
    return int(found[1] or 1) * _UNITS[found[2][0].lower()] if found else None


def _attachment(attachment: ResendAttachment) -> dict[str, Any]:
    fields = {
        "filename": attachment.filename,
        "content": attachment.content,
        "contentType": attachment.content_type,
        "contentId": attachment.content_id or attachment.inline_content_id,
    }
    return without_empty(fields)


_NO_KEY: Final = "Missing API Key"


async def _context(request: Request, scope: Scope = Scope.SEND) -> RequestContext:
    key = bearer_key(request)
    if not key:
        raise Unauthorized(_NO_KEY)
    return await sending_context(request, key, scope)


def respond(error: ErrorResponse) -> Response:
    if error.status is HTTPStatus.UNAUTHORIZED:
        if error.detail == _NO_KEY:
            return _error(HTTPStatus.UNAUTHORIZED, "missing_api_key", _NO_KEY)
        return _error(HTTPStatus.FORBIDDEN, "invalid_api_key", "API key is invalid")
    problems = renamed(error.errors, _NAMES)
    name, status, detail = _ERRORS.get(error.status, "validation_error"), error.status, error.detail
    if status is HTTPStatus.CONFLICT and error.code != IdempotencyConflict.code:  # Resend has no name for others.
        name, status = "validation_error", HTTPStatus.UNPROCESSABLE_ENTITY
    if problems:
        detail = " ".join(_sentence(each) for each in problems[:3])
        if problems[0].code == "REQUIRED":
            name = "missing_required_field"
        elif problems[0].field == KEY_NAME:
            name, status = "invalid_idempotency_key", HTTPStatus.BAD_REQUEST
        elif error.code == SenderDomainNotVerified.code:
            name = "validation_error"
    return _error(status, name, detail)


def _error(status: HTTPStatus, name: str, message: str) -> Response:
    return json_response({"statusCode": status, "name": name, "message": message}, status)


def _sentence(problem: FieldError) -> str:
    end = "" if problem.message.endswith((".", "?")) else "."
    return stated(f"The `{problem.field}` field", problem.message) + end


@router.post("")
@answer_errors(respond)
async def send(request: Request) -> Response:
    """Accept one email."""
    context = await _context(request)
    email = parse(ResendEmail, await read_json(request)).to_email()
    [accepted] = await engine_of(request).api_emails.send(context, [email])
    return json_response({"id": accepted.outbox_id})


@router.post("/batch")
@answer_errors(respond)
async def send_batch(request: Request) -> Response:
    """Accept up to 100 emails: all or none, or the valid ones if the request asks for permissive validation."""
    context, service = await _context(request), engine_of(request).api_emails
    items = _items(await read_json(request, MAX_BATCH_BYTES))
    if request.headers.get("x-batch-validation", "strict").lower() != "permissive":
        emails = [_parse_item(item, index) for index, item in enumerate(items)]
        return json_response({"data": [{"id": each.outbox_id} for each in await service.send(context, emails)]})
    results = await service.send_each(context, [_parse_or_reject(item) for item in items])
    errors = [
        {"index": index, "message": _sentence(_problem(result))}
        for index, result in enumerate(results)
        if isinstance(result, RejectedItem)
    ]
    accepted = [{"id": result.outbox_id} for result in results if isinstance(result, AcceptedEmail)]
    return json_response({"data": accepted, "errors": errors})


@router.get("/{email_id}")
@answer_errors(respond)
async def show(request: Request) -> Response:
    """Show an email without its content.

    The last event is that of the first recipient, because the id belongs to that message.
    """
    context, engine = await _context(request, Scope.READ), engine_of(request)
    tenant_id, email_id = context.caller.tenant_id, request.path_params["email_id"]
    record = await find(engine.database, email_id, tenant_id=tenant_id)
    return json_response(_shown(record, await find_raw_content(engine.database, email_id, tenant_id=tenant_id)))


@router.patch("/{email_id}")
@answer_errors(respond)
async def reschedule(request: Request) -> Response:
    """Change the send time of an email to all its recipients."""
    context, engine = await _context(request, Scope.MANAGE), engine_of(request)
    email_id, now, body = request.path_params["email_id"], engine.clock.now(), await read_json(request)
    if isinstance(body, dict) and (delay := _delay(str(body.get("scheduled_at", "")))) is not None:
        body = {**body, "scheduled_at": isoformat(now + delay)}
    wanted = parse(ResendChange, body).scheduled_at
    check_schedule(wanted, now)
    await engine.operations.reschedule_email(email_id, wanted, tenant_id=context.caller.tenant_id)
    return _changed(email_id)


@router.post("/{email_id}/cancel")
@answer_errors(respond)
async def cancel(request: Request) -> Response:
    """Cancel an email to all its recipients."""
    context, email_id = await _context(request, Scope.MANAGE), request.path_params["email_id"]
    await engine_of(request).operations.cancel_email(email_id, tenant_id=context.caller.tenant_id)
    return _changed(email_id)


def _shown(record: MessageRecord, content: bytes | None) -> dict[str, Any]:
    """Return an email. If it has several recipients, they are read from its headers."""
    summary, payload = record.summary, record.payload
    written = {} if content is None else parse_raw(content).firsts
    reply_to = payload.get("replyTo") or _boxes(written, "reply-to")
    return {
        "object": "email",
        "id": summary.outbox_id,
        "from": payload.get("from"),
        "to": _boxes(written, "to") or [payload.get("to") or summary.to_email],
        "cc": payload.get("cc") or _boxes(written, "cc"),
        "bcc": payload.get("bcc", []),
        "reply_to": reply_to if isinstance(reply_to, list) else [reply_to],
        "subject": summary.subject,
        "html": None,
        "text": None,
        "created_at": isoformat(summary.created_at),
        "scheduled_at": None if summary.scheduled_at is None else isoformat(summary.scheduled_at),
        "last_event": _last_event(record),
        "tags": [{"name": name, "value": value} for name, value in payload.get("metadata", {}).items()],
    }


def _boxes(headers: Mapping[str, str], name: str) -> list[str]:
    return [decode_name(text) for text in split_addresses(headers.get(name, ""))]


def _last_event(record: MessageRecord) -> str:
    """Return the last event in Resend's words. A report of the provider takes precedence over the state."""
    status = record.summary.shown_status
    if status == Status.SENT:
        reported = [_REPORTED[event.type] for event in record.events if event.type in _REPORTED]
        return reported[-1] if reported else "sent"
    if status == Status.PENDING and record.summary.scheduled_at is not None:
        return "scheduled"
    return _STATUSES.get(status, "queued")


def _changed(email_id: str) -> Response:
    return json_response({"object": "email", "id": email_id})


def _items(body: Any) -> list[Any]:
    if not isinstance(body, list) or not body:
        raise InvalidJson("The body must be a list of emails.")
    if len(body) > MAX_BATCH:
        raise RequestInvalid([FieldError("body", "TOO_MANY", f"has more than {MAX_BATCH} emails")])
    return body


def _parse_item(item: Any, index: int) -> AddressedEmail:
    try:
        return parse(ResendEmail, item).to_email()
    except RequestInvalid as error:
        placed = [FieldError(f"[{index}].{each.field}", each.code, each.message) for each in error.errors]
        raise RequestInvalid(placed) from error


def _parse_or_reject(item: Any) -> AddressedEmail | RejectedItem:
    try:
        return parse(ResendEmail, item).to_email()
    except RequestInvalid as error:
        first = error.errors[0]
        return RejectedItem(first.code, first.message, first.field)


def _problem(result: RejectedItem) -> FieldError:
    return renamed([FieldError(result.field or "body", result.code, result.detail)], _NAMES)[0]
