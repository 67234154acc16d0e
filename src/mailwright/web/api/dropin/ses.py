"""The API of Amazon SES, version 2, signed with a key pair.

`POST /v2/email/outbound-emails` is SendEmail, and `/v2/email/outbound-bulk-emails` is SendBulkEmail.
"""

from binascii import Error as InvalidBase64
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from xml.sax.saxutils import escape

import orjson
from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_pascal
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.access.signature_v4 import Signature, SignatureInvalid, SignedRequest, parse_signature, verify_signature
from mailwright.content.raw import MAX_RAW_BYTES, with_crlf
from mailwright.domain.address import split_mailbox
from mailwright.domain.foreign_json import load_json
from mailwright.sources.api.emails import AcceptedEmail, AddressedEmail
from mailwright.sources.api.messages import RejectedItem, RequestContext
from mailwright.sources.api.requests import MAX_REPLY_TO, TemplateNotFound
from mailwright.sources.api.senders import SenderDomainNotVerified, SenderNotAllowed
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.caller import KEY_NAME
from mailwright.web.api.dropin.requests import (
    ListOf,
    ServiceMailbox,
    ServiceModel,
    Unsupported,
    answer_errors,
    boxes_of,
    headers_of,
    renamed,
    reply_fields,
    require_recipients,
    sending_context,
    stated,
    with_subject,
    without_empty,
)
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.errors import ErrorResponse, InvalidJson
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v2/email", route_class=PlainRoute, include_in_schema=False)

SERVICE: Final = "ses"
MAX_RECIPIENTS: Final = 50
MAX_ENTRIES: Final = 50
# The SDKs of AWS send this header with the same value when they repeat a request. Not all of them sign it; without it,
# a lost response would send an email twice.
INVOCATION_ID: Final = "amz-sdk-invocation-id"
# The body contains a raw email in base64.
MAX_BYTES: Final = MAX_RAW_BYTES * 4 // 3 + 64 * 1024

MAX_INVOCATION_ID: Final = 100

_NAMESPACE_1: Final = "http://ses.amazonaws.com/doc/2010-12-01/"
_VERSION_1: Final = (
    "Mailwright does not support version 1 of the API of Amazon SES. Use the v2 API: the client sesv2 of the AWS SDK, "
    "with the same key pair and endpoint."
)

_SIMPLE: Final = "Content.Simple"
_NAMES: Final = {
    "from": "FromEmailAddress",
    "to": "Destination.ToAddresses",
    "recipient": "Destination.ToAddresses",
    "cc": "Destination.CcAddresses",
    "bcc": "Destination.BccAddresses",
    "subject": f"{_SIMPLE}.Subject",
    "html": f"{_SIMPLE}.Body.Html",
    "text": f"{_SIMPLE}.Body.Text",
    "headers": f"{_SIMPLE}.Headers",
    "attachments": f"{_SIMPLE}.Attachments",
    "attachments.filename": "FileName",
    "attachments.content": "RawContent",
    "attachments.contentType": "ContentType",
    "attachments.contentId": "ContentId",
    "replyTo": "ReplyToAddresses",
    "furtherReplyTo": "ReplyToAddresses",
    "messageId": f"{_SIMPLE}.Headers",
    "senderHeader": f"{_SIMPLE}.Headers",
    "metadata": "EmailTags",
    "templateId": "Content.Template.TemplateName",
    "variables": "Content.Template.TemplateData",
    "listKey": "ListManagementOptions.ContactListName",
    "body": "Content.Raw.Data",
}
_BULK_NAMES: Final = {
    **_NAMES,
    "headers": "ReplacementHeaders",
    "messageId": "ReplacementHeaders",
    "senderHeader": "ReplacementHeaders",
    "attachments": "DefaultContent.Template.Attachments",
    "metadata": "ReplacementTags",
    "templateId": "DefaultContent.Template.TemplateName",
    "variables": "ReplacementEmailContent.ReplacementTemplate.ReplacementTemplateData",
}
# The status of an entry of SendBulkEmail by Mailwright's code.
_ENTRY_STATUSES: Final = {
    TemplateNotFound.code: "TEMPLATE_NOT_FOUND",
    SenderNotAllowed.code: "MAIL_FROM_DOMAIN_NOT_VERIFIED",
    SenderDomainNotVerified.code: "MAIL_FROM_DOMAIN_NOT_VERIFIED",
}
_ERRORS: Final = {
    HTTPStatus.FORBIDDEN: "AccessDeniedException",
    HTTPStatus.CONFLICT: "ConflictException",
    HTTPStatus.NOT_FOUND: "NotFoundException",
    HTTPStatus.SERVICE_UNAVAILABLE: "InternalServiceErrorException",
}


class SesModel(ServiceModel):
    model_config = ConfigDict(alias_generator=to_pascal)


class SesText(SesModel):
    data: str
    charset: str | None = None  # Mailwright always writes UTF-8.


class SesBody(SesModel):
    text: SesText | None = None
    html: SesText | None = None


class SesHeader(SesModel):
    name: str
    value: str


class SesAttachment(SesModel):
    file_name: str
    raw_content: str
    content_type: str | None = None
    content_disposition: Literal["ATTACHMENT", "INLINE"] | None = None
    content_id: str | None = None
    content_transfer_encoding: Literal["BASE64", "QUOTED_PRINTABLE", "SEVEN_BIT"] | None = None
    content_description: Unsupported = None


class SesSimpleContent(SesModel):
    subject: SesText
    body: SesBody
    headers: ListOf[SesHeader]
    attachments: ListOf[SesAttachment]


class SesTemplateContent(SesModel):
    template_name: str
    template_data: str | None = None
    headers: ListOf[SesHeader]
    attachments: ListOf[SesAttachment]
    template_arn: Unsupported = None
    template_content: Unsupported = None


class SesRawContent(SesModel):
    data: str


class SesContent(SesModel):
    simple: SesSimpleContent | None = None
    raw: SesRawContent | None = None
    template: SesTemplateContent | None = None

    def require_one(self) -> None:
        """Refuse an email with no content or with two contents, because one of them would be ignored."""
        if sum(each is not None for each in (self.simple, self.raw, self.template)) != 1:
            raise RequestInvalid([FieldError("Content", "REQUIRED", "needs one of Simple, Raw and Template")])


class SesDestination(SesModel):
    to_addresses: ListOf[ServiceMailbox]
    cc_addresses: ListOf[ServiceMailbox]
    bcc_addresses: ListOf[ServiceMailbox]

    def address(self, fields: Mapping[str, Any]) -> AddressedEmail:
        boxes = map(boxes_of, (self.to_addresses, self.cc_addresses, self.bcc_addresses))
        email = AddressedEmail(with_subject(fields), *boxes)
        return require_recipients(email, MAX_RECIPIENTS, "Destination.ToAddresses", needs_to=email.has_template)


class SesTag(SesModel):
    name: str
    value: str


class SesListOptions(SesModel):
    contact_list_name: str
    topic_name: Unsupported = None


class SesEmail(SesModel):
    from_email_address: ServiceMailbox | None = None
    destination: Annotated[SesDestination, Field(default_factory=lambda: SesDestination.model_validate({}))]
    reply_to_addresses: Annotated[ListOf[ServiceMailbox], Field(max_length=MAX_REPLY_TO)]
    content: SesContent
    email_tags: ListOf[SesTag]
    configuration_set_name: str | None = None
    list_management_options: SesListOptions | None = None
    feedback_forwarding_email_address: Unsupported = None
    feedback_forwarding_email_address_identity_arn: Unsupported = None
    from_email_address_identity_arn: Unsupported = None
    endpoint_id: Unsupported = None
    tenant_name: Unsupported = None

    @property
    def metadata(self) -> dict[str, str]:
        return _metadata(self.email_tags, "EmailTags", self.configuration_set_name)

    @property
    def list_key(self) -> str | None:
        return self.list_management_options.contact_list_name if self.list_management_options else None

    def to_email(self) -> AddressedEmail:
        if self.from_email_address is None:
            raise RequestInvalid([FieldError("FromEmailAddress", "REQUIRED", "is required")])
        fields = {
            **self._content(),
            "from": self.from_email_address,
            **reply_fields(self.reply_to_addresses),
            "metadata": self.metadata,
            "listKey": self.list_key,
        }
        return self.destination.address(fields)

    def _content(self) -> dict[str, Any]:
        simple, template = self.content.simple, self.content.template
        if template is not None:
            variables = _json_object(template.template_data, "Content.Template.TemplateData")
            return {"templateId": template.template_name, "variables": variables, **_extras(template)}
        if simple is None:
            return {}
        return {
            "subject": simple.subject.data,
            "html": simple.body.html.data if simple.body.html else None,
            "text": simple.body.text.data if simple.body.text else None,
            **_extras(simple),
        }


class SesReplacementTemplate(SesModel):
    replacement_template_data: str | None = None


class SesReplacementContent(SesModel):
    replacement_template: SesReplacementTemplate | None = None


class SesEntry(SesModel):
    """One email of SendBulkEmail, with the values that differ from the other emails."""

    destination: SesDestination
    replacement_tags: ListOf[SesTag]
    replacement_email_content: SesReplacementContent | None = None
    replacement_headers: ListOf[SesHeader]

    @property
    def template_data(self) -> str | None:
        template = self.replacement_email_content and self.replacement_email_content.replacement_template
        return template.replacement_template_data if template else None


class SesDefaultContent(SesModel):
    template: SesTemplateContent


class SesBulkEmail(SesModel):
    from_email_address: ServiceMailbox
    reply_to_addresses: Annotated[ListOf[ServiceMailbox], Field(max_length=MAX_REPLY_TO)]
    default_content: SesDefaultContent
    default_email_tags: ListOf[SesTag]
    bulk_email_entries: Annotated[list[Any], Field(min_length=1, max_length=MAX_ENTRIES)]  # Each is a `SesEntry`.
    configuration_set_name: str | None = None
    feedback_forwarding_email_address: Unsupported = None
    feedback_forwarding_email_address_identity_arn: Unsupported = None
    from_email_address_identity_arn: Unsupported = None
    endpoint_id: Unsupported = None
    tenant_name: Unsupported = None

    def to_emails(self) -> list[AddressedEmail | RejectedItem]:
        """Return one email for each entry, or why it is invalid. Values of the entry replace the default ones."""
        template = self.default_content.template
        shared = {
            "from": self.from_email_address,
            "templateId": template.template_name,
            **reply_fields(self.reply_to_addresses),
            **_extras(template),
            "variables": _json_object(template.template_data, "DefaultContent.Template.TemplateData"),
            "metadata": _metadata(self.default_email_tags, "DefaultEmailTags", self.configuration_set_name),
        }
        return [self._to_email(entry, shared) for entry in self.bulk_email_entries]

    def _to_email(self, item: Any, shared: Mapping[str, Any]) -> AddressedEmail | RejectedItem:
        try:
            entry = parse(SesEntry, item)
            own = headers_of([(each.name, each.value) for each in entry.replacement_headers], "ReplacementHeaders")
            replaced = {name.lower() for name in own}
            kept = {name: value for name, value in shared["headers"].items() if name.lower() not in replaced}
            variables = _json_object(entry.template_data, _BULK_NAMES["variables"])
            return entry.destination.address(
                {
                    **shared,
                    "headers": kept | own,
                    "variables": shared["variables"] | variables,
                    "metadata": shared["metadata"] | _metadata(entry.replacement_tags, "ReplacementTags"),
                }
            )
        except RequestInvalid as error:
            first = error.errors[0]
            return RejectedItem(first.code, first.message, first.field)


def _metadata(tags: Sequence[SesTag], field: str, configuration_set: str | None = None) -> dict[str, str]:
    """Return the tags of an email, and its configuration set under the name that SES uses in events."""
    found = headers_of([(each.name, each.value) for each in tags], field)
    return found | without_empty({"ses:configuration-set": configuration_set})


def _extras(content: SesSimpleContent | SesTemplateContent) -> dict[str, Any]:
    headers = headers_of([(each.name, each.value) for each in content.headers], "Content.Headers")
    return {"headers": headers, "attachments": [_attachment(each) for each in content.attachments]}


def _attachment(attachment: SesAttachment) -> dict[str, Any]:
    fields = {
        "filename": attachment.file_name,
        "content": attachment.raw_content,
        "contentType": attachment.content_type,
        "contentId": attachment.content_id if attachment.content_disposition == "INLINE" else None,
    }
    return without_empty(fields)


def _json_object(text: str | None, field: str) -> dict[str, Any]:
    try:
        found = load_json(text or "{}")
    except orjson.JSONDecodeError as error:
        raise RequestInvalid([FieldError(field, "INVALID", f"is not valid JSON: {error}")]) from error
    if not isinstance(found, dict):
        raise RequestInvalid([FieldError(field, "INVALID", "must be a JSON object")])
    return found


def respond(error: ErrorResponse) -> Response:
    status = error.status
    if status is HTTPStatus.UNAUTHORIZED:
        is_signature = error.code == SignatureInvalid.code
        name = "InvalidSignatureException" if is_signature else "UnrecognizedClientException"
        detail = error.detail if is_signature else "The security token included in the request is invalid."
        return _error(HTTPStatus.FORBIDDEN, name, detail)
    if any(each.code == TemplateNotFound.code for each in error.errors):
        status = HTTPStatus.NOT_FOUND
    is_unverified = error.code == SenderDomainNotVerified.code
    name = "MessageRejected" if is_unverified else _ERRORS.get(status, "BadRequestException")
    problems = renamed(error.errors, _NAMES)
    detail = "; ".join(stated(each.field, each.message) for each in problems[:3]) or error.detail
    return _error(status if name in _ERRORS.values() else HTTPStatus.BAD_REQUEST, name, detail)


def _error(status: HTTPStatus, name: str, message: str) -> Response:
    return json_response({"message": message}, status, {"x-amzn-ErrorType": name})


def respond_to_unknown(error: ErrorResponse) -> Response:
    """Respond to an operation of version 2 that Mailwright does not support."""
    return _error(error.status, "UnknownOperationException", error.detail)


def respond_to_version_1(request_id: str) -> Response:
    """Respond to version 1, the Query API, whose errors are XML."""
    error = f"<Type>Sender</Type><Code>InvalidAction</Code><Message>{_VERSION_1}</Message>"
    content = f"<Error>{error}</Error><RequestId>{escape(request_id)}</RequestId>"
    content = f'<ErrorResponse xmlns="{_NAMESPACE_1}">{content}</ErrorResponse>'
    return Response(content, HTTPStatus.BAD_REQUEST, media_type="text/xml")


@router.post("/outbound-emails")
@answer_errors(respond)
async def send_email(request: Request) -> Response:
    """Accept one email. A signature is accepted once: a repeated request gets the response of the first."""
    context, body = await authenticate(request)
    wanted, engine = parse(SesEmail, read_object(body)), engine_of(request)
    wanted.content.require_one()
    if wanted.content.raw is None:
        [accepted] = await engine.api_emails.send(context, [wanted.to_email()])
        return json_response({"MessageId": accepted.outbox_id})
    sender = split_mailbox(wanted.from_email_address)[1] if wanted.from_email_address else None
    raw = await engine.raw_messages.send(
        context, _raw(wanted), sender, _recipients(wanted), wanted.metadata, list_key=wanted.list_key
    )
    return json_response({"MessageId": raw.messages[0].outbox_id})


@router.post("/outbound-bulk-emails")
@answer_errors(respond)
async def send_bulk_email(request: Request) -> Response:
    """Accept up to 50 emails with one template. An invalid one gets its status and does not stop the others."""
    context, body = await authenticate(request)
    emails = parse(SesBulkEmail, read_object(body)).to_emails()
    results = await engine_of(request).api_emails.send_each(context, emails)
    return json_response({"BulkEmailEntryResults": [_entry_result(each) for each in results]})


def _entry_result(result: AcceptedEmail | RejectedItem) -> dict[str, str]:
    if isinstance(result, AcceptedEmail):
        return {"Status": "SUCCESS", "MessageId": result.outbox_id}
    [problem] = renamed([FieldError(result.field or "body", result.code, result.detail)], _BULK_NAMES)
    error = stated(problem.field, problem.message) if result.field else problem.message
    return {"Status": _ENTRY_STATUSES.get(result.code, "INVALID_PARAMETER"), "Error": error}


async def authenticate(request: Request, needed: Scope = Scope.SEND) -> tuple[RequestContext, bytes]:
    """Return the context and the body. The body is read only if an existing key pair seems to have signed it."""
    engine, scope = engine_of(request), request.scope
    path = scope.get("raw_path") or scope["path"].encode()
    unread = SignedRequest(
        request.method, path.decode("latin-1"), scope["query_string"].decode("latin-1"), request.headers.items(), b""
    )
    signature = parse_signature(unread, SERVICE)
    key = await engine.keys.find_key(signature.access_key_id)
    signed = replace(unread, body=await read_bytes(request, MAX_BYTES))
    verify_signature(signed, signature, key, engine.clock.now())
    return _keyed(await sending_context(request, key, needed), signed, signature), signed.body


def _keyed(context: RequestContext, signed: SignedRequest, signature: Signature) -> RequestContext:
    """Return the context with a key that recognises a repeated or replayed request."""
    if context.idempotency_key and KEY_NAME.lower() in signature.signed_headers:
        return context
    invocation = "".join(signed.values(INVOCATION_ID))[:MAX_INVOCATION_ID]
    key = f"{SERVICE}:{INVOCATION_ID}:{invocation}" if invocation else f"{SERVICE}:{signature.value}"
    return replace(context, idempotency_key=key, is_derived_key=True)


def read_object(body: bytes) -> Any:
    try:
        return load_json(body)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error


def _raw(wanted: SesEmail) -> bytes:
    if wanted.reply_to_addresses:
        reason = "cannot be combined with Content.Raw; write a Reply-To header into the email"
        raise RequestInvalid([FieldError("ReplyToAddresses", "INVALID", reason)])
    try:
        return with_crlf(a2b_base64(wanted.content.raw.data if wanted.content.raw else "", strict_mode=True))
    except (InvalidBase64, ValueError) as error:
        raise RequestInvalid([FieldError("Content.Raw.Data", "INVALID", "must be base64")]) from error


def _recipients(wanted: SesEmail) -> Sequence[str]:
    target = wanted.destination
    texts = [*target.to_addresses, *target.cc_addresses, *target.bcc_addresses]
    if len(texts) > MAX_RECIPIENTS:
        raise RequestInvalid([FieldError("Destination", "TOO_MANY", f"has more than {MAX_RECIPIENTS} addresses")])
    return [split_mailbox(text)[1] for text in texts]
