"""Requests to send email: their fields, and the rules that involve several fields."""

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from datetime import tzinfo
from typing import Annotated, Any

from pydantic import Field, model_validator

from mailwright.audience import lists
from mailwright.content.attachments import MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES
from mailwright.content.headers import UNSUBSCRIBE_HEADERS
from mailwright.content.mime import EmailAttachment
from mailwright.domain.lifetimes import MAX_LIFETIME_MINUTES
from mailwright.domain.tracking import TrackingMode
from mailwright.sources.api.fields import (
    Address,
    AlternativeType,
    Base64,
    ContactId,
    Content,
    ContentId,
    ContentType,
    FileName,
    FreeSubject,
    Headers,
    Identifier,
    ListKey,
    Locale,
    Mailbox,
    MessageId,
    Metadata,
    Name,
    RecipientAddress,
    RequestModel,
    RequestTime,
    Subject,
    Tag,
    Variables,
)
from mailwright.sources.api.file_types import UNKNOWN_TYPE, type_of_file
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse

MAX_COPIES = 5
MAX_REPLY_TO = 25
MAX_ALTERNATIVES = 2


class TemplateNotFound(RequestInvalid):
    """There is no template with this id."""

    code = "TEMPLATE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__([FieldError("templateId", self.code, "There is no template with this id")])


class ListNotFound(RequestInvalid):
    """There is no list with this key."""

    code = lists.UnknownList.code

    def __init__(self, list_key: str, field: str = "listKey") -> None:
        super().__init__([FieldError(field, self.code, str(lists.UnknownList(list_key)))])


class Attachment(RequestModel):
    filename: FileName
    content_type: Annotated[
        ContentType,
        Field(description="Defaults to the type of the file name, also if it is `application/octet-stream`."),
    ] = UNKNOWN_TYPE
    content: Base64
    content_id: ContentId | None = None

    @model_validator(mode="after")
    def _derive_type(self) -> "Attachment":
        self.content_type = type_of_file(self.filename, self.content_type)
        return self

    @property
    def size_bytes(self) -> int:
        return len(self.content) * 3 // 4 - self.content[-2:].count("=")

    def decoded(self) -> EmailAttachment:
        return EmailAttachment(self.filename, self.content_type, a2b_base64(self.content), self.content_id)


class Recipient(RequestModel):
    """The person the address belongs to, with Mailwright's contact id or the caller's own id."""

    recipient_id: ContactId | None = None
    external_id: Identifier | None = None
    email: Address | None = None
    name: Name | None = None


class SendRequest(RequestModel):
    """One email to one recipient: `html` and/or `text` with a `subject`, or a `templateId`.

    With a `listKey` it is a bulk message of that list: it carries unsubscribe links and is sent in working hours only.
    """

    to: RecipientAddress
    subject: Annotated[Subject | None, Field(description="Required without `templateId`.")] = None
    html: Annotated[
        Content | None, Field(description="The HTML part. One of `html`, `text` and `templateId` is required.")
    ] = None
    text: Annotated[Content | None, Field(description="The text part. By default, it is derived from the HTML.")] = None
    template_id: Annotated[
        Identifier | None, Field(description="A stored template instead of `subject`, `html` and `text`.")
    ] = None
    locale: Annotated[
        Locale | None, Field(description="The version of the template; by default the one for the contact's locale.")
    ] = None
    variables: Annotated[Variables | None, Field(description="The variables of the template.")] = None
    sender: Annotated[
        Mailbox | None,
        Field(
            alias="from", description="`name@example.com` or `Shop <name@example.com>`; `MAILWRIGHT_FROM` by default."
        ),
    ] = None
    reply_to: Annotated[Mailbox | None, Field(description="Where replies go.")] = None
    cc: Annotated[
        Annotated[list[Address], Field(max_length=MAX_COPIES)] | None,
        Field(description="Addresses that get the email too."),
    ] = None
    bcc: Annotated[
        Annotated[list[Address], Field(max_length=MAX_COPIES)] | None,
        Field(description="Addresses that get the email too, and are not named in it."),
    ] = None
    headers: Annotated[
        Headers | None, Field(description="Further headers, except those that Mailwright writes itself.")
    ] = None
    attachments: Annotated[
        Annotated[list[Attachment], Field(max_length=MAX_ATTACHMENTS)] | None,
        Field(description="Together at most 10 MB."),
    ] = None
    tags: Annotated[
        Annotated[list[Tag], Field(max_length=20)] | None,
        Field(description="Labels that are returned with the message."),
    ] = None
    recipient: Annotated[Recipient | None, Field(description="The person that the address belongs to.")] = None
    list_key: Annotated[
        ListKey | None,
        Field(
            description="Makes the message bulk email of this list: with unsubscribe links, and only to subscribers."
        ),
    ] = None
    scheduled_at: Annotated[
        RequestTime | None, Field(description="When to send, at most a year ahead; at once by default.")
    ] = None
    expires_at: Annotated[RequestTime | None, Field(description="When the message is not worth sending any more.")] = (
        None
    )
    lifetime_minutes: Annotated[
        Annotated[int, Field(ge=1, le=MAX_LIFETIME_MINUTES)] | None,
        Field(description="How long a deferred message is tried; `MAILWRIGHT_LIFETIMES` by default."),
    ] = None
    metadata: Annotated[Metadata | None, Field(description="Your own data, which is returned with the message.")] = None
    tracking: Annotated[
        TrackingMode | None, Field(description="`individual` records opens and clicks of a recipient who consented.")
    ] = None


class Alternative(RequestModel):
    """The content of an email in another form than text and HTML, for example as an invitation."""

    content_type: AlternativeType
    content: Content


class DropInRequest(SendRequest):
    """An email of another service's API, with options that such services have and `/v1/email/send` does not."""

    subject: FreeSubject | None = None
    alternatives: Annotated[list[Alternative], Field(max_length=MAX_ALTERNATIVES)] | None = None
    sender_header: Mailbox | None = None
    further_reply_to: Annotated[list[Mailbox], Field(max_length=MAX_REPLY_TO - 1)] | None = None
    message_id: MessageId | None = None


class BatchRequest(RequestModel):
    """Up to 1,000 emails. Each is validated on its own: an invalid one gets its error and does not stop the others."""

    messages: Annotated[list[Any], Field(min_length=1, max_length=1_000)]


def parse_file(name: str, content_type: str | None, content: bytes) -> EmailAttachment:
    """Validate an uploaded file like an attachment of a request. A path in its name is dropped."""
    filename = name.replace("\\", "/").rpartition("/")[2]
    stated = (content_type or "").partition(";")[0] or UNKNOWN_TYPE
    body = {"filename": filename, "contentType": stated, "content": b2a_base64(content, newline=False).decode()}
    return parse(Attachment, body).decoded()


def parse_send(body: Any, zone: tzinfo | None = None, model: type[SendRequest] = SendRequest) -> SendRequest:
    request = parse(model, body, zone)
    if errors := list(_cross_field_errors(request)):
        raise RequestInvalid(errors)
    return request


def _cross_field_errors(request: SendRequest) -> Iterable[FieldError]:
    has_content = request.html is not None or request.text is not None
    if request.template_id is not None:
        if has_content:
            yield FieldError("templateId", "CONTENT_TWICE", "cannot be combined with html or text")
        elif isinstance(request, DropInRequest) and request.alternatives:
            yield FieldError("alternatives", "CONTENT_TWICE", "cannot be combined with a template")
    elif not has_content:
        yield FieldError("html", "REQUIRED", "is required unless text or a templateId is given")
    if request.template_id is None and request.subject is None:
        yield FieldError("subject", "REQUIRED", "is required without a template")
    if request.template_id is None and request.variables:
        yield FieldError("variables", "WITHOUT_TEMPLATE", "need a templateId")
    if request.template_id is None and request.locale is not None:
        yield FieldError("locale", "WITHOUT_TEMPLATE", "needs a templateId")
    if request.list_key is not None and (own := UNSUBSCRIBE_HEADERS & {name.lower() for name in request.headers or ()}):
        reason = f"cannot contain {min(own).title()}, because Mailwright writes it for a list"
        yield FieldError("headers", "INVALID_HEADER", reason)
    email = request.recipient.email if request.recipient else None
    if email is not None and email.lower() != request.to.lower():
        yield FieldError("recipient.email", "NOT_THE_SAME", "must be the same address as `to`")
    if sum(attachment.size_bytes for attachment in request.attachments or ()) > MAX_ATTACHMENTS_BYTES:
        yield FieldError("attachments", "TOO_LARGE", f"are larger than {MAX_ATTACHMENTS_BYTES // 1024**2} MB together")
    if request.expires_at is not None and request.expires_at <= (request.scheduled_at or 0):
        yield FieldError("expiresAt", "INVALID_TIME", "must be after scheduledAt")
