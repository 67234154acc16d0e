"""Postmark's API: `POST /email`, `/email/batch`, `/email/withTemplate` and `/email/batchWithTemplates`."""

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_pascal
from starlette.responses import Response

from mailwright.domain.clock import Clock, isoformat
from mailwright.domain.tracking import TrackingMode
from mailwright.sources.api.emails import AcceptedEmail, AddressedEmail
from mailwright.sources.api.messages import RejectedItem
from mailwright.sources.api.requests import MAX_REPLY_TO, ListNotFound, TemplateNotFound
from mailwright.sources.api.senders import SenderDomainNotVerified, SenderNotAllowed
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.dropin.requests import (
    Addresses,
    Base64,
    DictOf,
    ListOf,
    ServiceMailbox,
    ServiceModel,
    answer_errors,
    boxes_of,
    headers_of,
    renamed,
    reply_fields,
    require_recipients,
    sending_context,
    with_subject,
    without_empty,
)
from mailwright.web.bodies import MAX_BATCH_BYTES, json_response, read_json
from mailwright.web.errors import ErrorResponse, InvalidJson
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/email", route_class=PlainRoute, include_in_schema=False)

MAX_RECIPIENTS: Final = 50
MAX_BATCH: Final = 500
TRANSACTIONAL_STREAM: Final = "outbound"

TOKEN_HEADER: Final = "X-Postmark-Server-Token"  # noqa: S105 - the name of a header
# In Postmark, this option keeps the Message-ID of the headers. Mailwright always keeps it.
_KEEP_ID: Final = "x-pm-keepid"
_NO_ID: Final = "00000000-0000-0000-0000-000000000000"
_INVALID: Final = 300
# Postmark's error codes by status and by Mailwright's code; other errors are invalid requests.
_STATUS_CODES: Final = {HTTPStatus.UNAUTHORIZED: 10, HTTPStatus.SERVICE_UNAVAILABLE: 100}
_CODES: Final = {
    "INVALID_JSON": 402,
    "UNSUPPORTED_MEDIA_TYPE": 409,
    TemplateNotFound.code: 1101,
    SenderNotAllowed.code: 400,
    SenderDomainNotVerified.code: 400,
    ListNotFound.code: 1226,
}
# Postmark responds to a token without permission to send in the same way as to an unknown token.
_STATUSES: Final = {
    HTTPStatus.BAD_REQUEST: HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.FORBIDDEN: HTTPStatus.UNAUTHORIZED,
}
_NAMES: Final = {
    "from": "From",
    "to": "To",
    "recipient": "To",
    "cc": "Cc",
    "bcc": "Bcc",
    "subject": "Subject",
    "html": "HtmlBody",
    "text": "TextBody",
    "replyTo": "ReplyTo",
    "furtherReplyTo": "ReplyTo",
    "messageId": "Headers.Message-ID",
    "senderHeader": "Headers.Sender",
    "headers": "Headers",
    "tags": "Tag",
    "metadata": "Metadata",
    "attachments": "Attachments",
    "attachments.filename": "Name",
    "attachments.content": "Content",
    "attachments.contentType": "ContentType",
    "attachments.contentId": "ContentID",
    "templateId": "TemplateAlias",
    "variables": "TemplateModel",
    "listKey": "MessageStream",
}


class PostmarkModel(ServiceModel):
    model_config = ConfigDict(alias_generator=to_pascal)


class PostmarkHeader(PostmarkModel):
    name: str
    value: str


class PostmarkAttachment(PostmarkModel):
    name: str
    content: Base64
    content_type: str | None = None
    content_id: Annotated[str | None, Field(alias="ContentID")] = None
    content_length: int | None = None


class PostmarkEmail(PostmarkModel):
    sender: Annotated[ServiceMailbox, Field(alias="From")]
    to: Annotated[Addresses, Field(default_factory=list)]
    cc: Annotated[Addresses, Field(default_factory=list)]
    bcc: Annotated[Addresses, Field(default_factory=list)]
    subject: str | None = None
    tag: str | None = None
    html_body: str | None = None
    text_body: str | None = None
    reply_to: Annotated[Addresses, Field(default_factory=list, max_length=MAX_REPLY_TO)]
    headers: ListOf[PostmarkHeader]
    track_opens: bool | None = None
    track_links: Literal["None", "HtmlAndText", "HtmlOnly", "TextOnly"] | None = None
    attachments: ListOf[PostmarkAttachment]
    metadata: DictOf[Any]
    message_stream: str | None = None
    template_id: int | None = None
    template_alias: str | None = None
    template_model: dict[str, Any] | None = None
    inline_css: bool | None = None

    def to_email(self) -> AddressedEmail:
        is_untracked = self.track_opens is False or self.track_links == "None"
        is_transactional = self.message_stream in (None, TRANSACTIONAL_STREAM)
        fields = {
            "from": self.sender,
            "subject": self.subject,
            "html": self.html_body,
            "text": self.text_body,
            **reply_fields(self.reply_to),
            "headers": headers_of(
                [(each.name, each.value) for each in self.headers if each.name.lower() != _KEEP_ID], "Headers"
            ),
            "tags": [self.tag] if self.tag else None,
            "metadata": self.metadata,
            "attachments": [_attachment(each) for each in self.attachments],
            "tracking": TrackingMode.OFF if is_untracked else None,
            "listKey": None if is_transactional else self.message_stream,
            "templateId": self.template_alias or (str(self.template_id) if self.template_id is not None else None),
            "variables": self.template_model,
        }
        email = AddressedEmail(with_subject(fields), *map(boxes_of, (self.to, self.cc, self.bcc)))
        return require_recipients(email, MAX_RECIPIENTS, "To", needs_to=email.has_template)


def _attachment(attachment: PostmarkAttachment) -> dict[str, Any]:
    fields = {
        "filename": attachment.name,
        "content": attachment.content,
        "contentType": attachment.content_type,
        "contentId": attachment.content_id.removeprefix("cid:") if attachment.content_id else None,
    }
    return without_empty(fields)


def respond(error: ErrorResponse) -> Response:
    status = _STATUSES.get(error.status, error.status)
    problems = renamed(error.errors, _NAMES)
    code = _CODES.get(error.code) or _CODES.get(problems[0].code if problems else "") or _STATUS_CODES.get(status)
    if code == _CODES[SenderNotAllowed.code]:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    detail = "; ".join(f"{each.field}: {each.message}" for each in problems[:3]) or error.detail
    if error.status is HTTPStatus.UNAUTHORIZED:
        detail = f"No account or server was found for the token in {TOKEN_HEADER}. It must be a valid API key."
    return json_response({"ErrorCode": code or _INVALID, "Message": detail}, status)


@router.post("")
@router.post("/withTemplate")
@answer_errors(respond)
async def send(request: Request) -> Response:
    """Accept one email."""
    engine = engine_of(request)
    context = await sending_context(request, request.headers.get(TOKEN_HEADER, ""))
    email = parse(PostmarkEmail, await read_json(request)).to_email()
    [accepted] = await engine.api_emails.send(context, [email])
    return json_response(_accepted(email, accepted, engine.clock))


@router.post("/batch")
@router.post("/batchWithTemplates")
@answer_errors(respond)
async def send_batch(request: Request) -> Response:
    """Accept up to 500 emails. An invalid one gets an error and does not stop the others."""
    engine = engine_of(request)
    context = await sending_context(request, request.headers.get(TOKEN_HEADER, ""))
    emails = [_parse_item(item) for item in _items(await read_json(request, MAX_BATCH_BYTES))]
    results = await engine.api_emails.send_each(context, emails)
    return json_response(
        [
            _accepted(email, result, engine.clock)
            if isinstance(email, AddressedEmail) and isinstance(result, AcceptedEmail)
            else _refused(email, result, engine.clock)
            for email, result in zip(emails, results, strict=True)
        ]
    )


def _items(body: Any) -> list[Any]:
    items = body.get("Messages") if isinstance(body, dict) else body
    if not isinstance(items, list) or not items:
        raise InvalidJson("The body must be a list of emails, or an object with the list Messages.")
    if len(items) > MAX_BATCH:
        raise RequestInvalid([FieldError("Messages", "TOO_MANY", f"has more than {MAX_BATCH} emails")])
    return items


def _parse_item(item: Any) -> AddressedEmail | RejectedItem:
    try:
        return parse(PostmarkEmail, item).to_email()
    except RequestInvalid as error:
        first = error.errors[0]
        return RejectedItem(first.code, first.message, first.field)


def _accepted(email: AddressedEmail, accepted: AcceptedEmail, clock: Clock) -> dict[str, Any]:
    return {
        "To": ", ".join(box.address for box in email.to),
        "SubmittedAt": isoformat(clock.now()),
        "MessageID": accepted.outbox_id,
        "ErrorCode": 0,
        "Message": "OK",
    }


def _refused(
    email: AddressedEmail | RejectedItem, result: AcceptedEmail | RejectedItem, clock: Clock
) -> dict[str, Any]:
    """Return the error of one email. It has the fields of a success too, because SDKs read them."""
    assert isinstance(result, RejectedItem)
    [problem] = renamed([FieldError(result.field or "body", result.code, result.detail)], _NAMES)
    return {
        "To": ", ".join(box.address for box in email.to) if isinstance(email, AddressedEmail) else "",
        "SubmittedAt": isoformat(clock.now()),
        "MessageID": _NO_ID,
        "ErrorCode": _CODES.get(result.code, _INVALID),
        "Message": f"{problem.field}: {problem.message}",
    }
