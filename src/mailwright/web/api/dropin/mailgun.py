"""Mailgun's API: `POST /v3/{domain}/messages` and `/v3/{domain}/messages.mime`, as a form."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Set
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

import orjson
from fastapi import APIRouter, Request
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import lists
from mailwright.content.attachments import MAX_ATTACHMENTS
from mailwright.content.headers import UNSUBSCRIBE_HEADERS, Mailbox, message_id, message_id_line
from mailwright.content.raw import MAX_RAW_BYTES, parse_raw, with_crlf
from mailwright.domain.address import domain_of
from mailwright.domain.clock import isoformat, to_instant
from mailwright.domain.foreign_json import load_json
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import ALTERNATIVES
from mailwright.domain.tracking import TrackingMode
from mailwright.events.bounces.email_parts import split_parts
from mailwright.sources.api.emails import AddressedEmail
from mailwright.sources.api.fields import MAX_CONTENT_BYTES
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.named_lists import NamedLists, list_of_header, without_unsubscribe
from mailwright.sources.api.raw import HEADER_PREFIX
from mailwright.sources.api.validation import FieldError, RequestInvalid, field_errors
from mailwright.web.api.dropin.bulk import mark_links
from mailwright.web.api.dropin.requests import (
    Addresses,
    Substitutions,
    answer_errors,
    basic_credentials,
    boxes_of,
    decode_name,
    format_box,
    renamed,
    reply_fields,
    require_recipients,
    sending_context,
    stated,
    with_subject,
    without_empty,
)
from mailwright.web.bodies import MAX_BODY_BYTES, json_response, read_bytes
from mailwright.web.errors import ErrorResponse, NotJson
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v3", route_class=PlainRoute, include_in_schema=False)

MAX_RECIPIENTS: Final = 1_000
MAX_FIELDS: Final = 5_000
# A form with a raw email and the other fields.
MAX_MIME_FORM_BYTES: Final = MAX_RAW_BYTES + 1024**2

_KNOWN: Final = frozenset(
    {"from", "to", "cc", "bcc", "subject", "text", "html", "amp-html", "template", "recipient-variables"}
    | {"t:variables"}
    | {"o:tag", "o:deliverytime", "o:testmode", "o:tracking", "o:tracking-clicks", "o:tracking-opens"}
)
_KNOWN_WITH_MIME: Final = frozenset(
    {"to", "o:tag", "o:deliverytime", "o:tracking", "o:tracking-clicks", "o:tracking-opens"}
)
_MANY: Final = frozenset({"to", "cc", "bcc", "o:tag"})
_FILES: Final = frozenset({"attachment", "inline"})
_MIME: Final = "message"
# The header that fills the variables of a template, and adds metadata.
_VARIABLES: Final = "x-mailgun-variables"
# Options without effect in Mailwright, with the only value that each may have.
_SWITCHES: Final = {"o:dkim": True, "o:require-tls": False, "o:skip-verification": False, "t:text": False}
# Variables that Mailgun replaces by the recipient's unsubscribe link or address.
_UNSUBSCRIBE: Final = re.compile(r"(?:mailto:)?%(?:tag_|mailing_list_)?unsubscribe_(?:url|email)%")
_TRUE: Final = frozenset({"yes", "true", "htmlonly"})
_FALSE: Final = frozenset({"no", "false"})
_NAMES: Final = {
    "replyTo": "h:Reply-To",
    "furtherReplyTo": "h:Reply-To",
    "messageId": "h:Message-Id",
    "senderHeader": "h:Sender",
    "alternatives": "amp-html",
    "headers": "h",
    "scheduledAt": "o:deliverytime",
    "tags": "o:tag",
    "listKey": "h:List-Id",
    "metadata": "v",
    "templateId": "template",
    "variables": "t:variables",
    "recipient": "to",
    "attachments": "attachment",
    "body": _MIME,
    f"{HEADER_PREFIX}Tags": "o:tag",
    f"{HEADER_PREFIX}Send-At": "o:deliverytime",
}
_STATUSES: Final = {
    HTTPStatus.UNPROCESSABLE_ENTITY: HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.BAD_REQUEST,
}
_ADDRESSES: Final = TypeAdapter(Addresses)


@dataclass(frozen=True, slots=True)
class _File:
    field: str
    filename: str
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class _Form:
    """The fields and files of a request."""

    values: Mapping[str, list[str]]
    files: tuple[_File, ...]

    def first(self, name: str) -> str | None:
        return self.values[name][0] if name in self.values else None

    def prefixed(self, prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): found[0] for name, found in self.values.items() if name.startswith(prefix)}

    def is_on(self, name: str) -> bool | None:
        """Return the value of a yes/no option; None if it is missing."""
        value = (self.first(name) or "").lower()
        if not value:
            return None
        if value not in _TRUE | _FALSE:
            raise _invalid(name, "must be yes or no")
        return value in _TRUE

    def json(self, name: str) -> dict[str, Any]:
        try:
            found = load_json(self.first(name) or "{}")
        except orjson.JSONDecodeError as error:
            raise _invalid(name, f"is not valid JSON: {error}") from error
        if not isinstance(found, dict):
            raise _invalid(name, "must be a JSON object")
        return found


def respond(error: ErrorResponse) -> Response:
    status = _STATUSES.get(error.status, error.status)
    if status is HTTPStatus.UNAUTHORIZED:
        return json_response({"message": "Invalid private key"}, status)
    problems = renamed(error.errors, _NAMES)
    detail = "; ".join(stated(f"{each.field} parameter", each.message) for each in problems[:3])
    return json_response({"message": detail or error.detail}, status)


@router.post("/{domain}/messages")
@answer_errors(respond)
async def send(request: Request) -> Response:
    """Accept one email, or with `recipient-variables` one for each recipient in `to`."""
    context = await sending_context(request, mailgun_key(request))
    form = await _read_form(request, MAX_BODY_BYTES, _KNOWN, _FILES)
    engine = engine_of(request)
    emails = _emails(form, _attachments(form), await _find_list(engine, context, form, form.prefixed("h:")))
    if form.is_on("o:testmode"):
        await engine.api_emails.check(context, emails)
        identity = message_id(uuid7(engine.clock.now()), "test.invalid")
    else:
        identity = (await engine.api_emails.send(context, emails, share_id=True))[0].message_id
    return json_response({"id": identity, "message": "Queued. Thank you."})


@router.post("/{domain}/messages.mime")
@answer_errors(respond)
async def send_mime(request: Request) -> Response:
    """Accept a raw email, which is sent unchanged to the recipients in `to`."""
    context = await sending_context(request, mailgun_key(request))
    form = await _read_form(request, MAX_MIME_FORM_BYTES, _KNOWN_WITH_MIME, frozenset({_MIME}))
    if any(form.is_on(f"o:tracking{kind}") for kind in ("", "-clicks", "-opens")):
        raise _invalid("o:tracking", "must be no: a raw email is sent unchanged")
    recipients = [box.address for box in _addresses(form, "to")]
    if not recipients:
        raise _invalid("to", "is required")
    content, identity = _identified(_mime(form), context)
    engine, metadata, list_key = engine_of(request), form.prefixed("v:"), None
    email, body_mark = parse_raw(content), _unsubscribe_mark(content)
    marked = [each for each in email.fields if _UNSUBSCRIBE.search(each.value)]
    if body_mark or marked:
        headers = {**email.firsts, **{each.name: each.value for each in marked}}
        list_key = await _find_list(engine, context, form, headers, body_mark or "")
        if body_mark:
            raise _invalid(_MIME, f"contains {body_mark}, which is not replaced in a raw email; send html and text")
        content = email.to_bytes([each for each in email.fields if each.name not in UNSUBSCRIBE_HEADERS])
    await engine.raw_messages.send(context, _options(form) + content, None, recipients, metadata, list_key=list_key)
    return json_response({"id": identity, "message": "Queued. Thank you."})


def _unsubscribe_mark(content: bytes) -> str | None:
    """Return the first of Mailgun's unsubscribe variables in the text or HTML of a raw email."""
    for part in split_parts(content, MAX_RAW_BYTES):
        is_shown = part.depth == 0 and part.content_type in ("text/plain", "text/html")
        if is_shown and (found := _UNSUBSCRIBE.search(part.text)):
            return found[0]
    return None


def _mime(form: _Form) -> bytes:
    if len(form.files) != 1:
        raise _invalid(_MIME, "must be one file or text with the email")
    return with_crlf(form.files[0].content)


def _identified(content: bytes, context: RequestContext) -> tuple[bytes, str]:
    """Return the email with a Message-ID, and the Message-ID. A repeated request gets the same one."""
    email = parse_raw(content)
    if email.identity is not None:
        return content, email.identity
    unique = uuid5(NAMESPACE_OID, context.idempotency_key) if context.idempotency_key else uuid4()
    identity = message_id(str(unique), domain_of(email.sender.address))
    return f"{message_id_line(identity)}\r\n".encode() + content, identity


def _options(form: _Form) -> bytes:
    """Return the options as header fields, which are removed from the email."""
    tags = form.values.get("o:tag", ())
    if any("," in tag or not tag.isprintable() for tag in tags):
        raise _invalid("o:tag", "must not contain commas or control characters")
    options = {"Tags": ",".join(tags), "Send-At": _delivery_time(form.first("o:deliverytime"))}
    return "".join(f"{HEADER_PREFIX}{name}: {value}\r\n" for name, value in options.items() if value).encode()


def mailgun_key(request: Request) -> str:
    user, key = basic_credentials(request)
    return key if user == "api" else ""


async def _read_form(request: Request, max_bytes: int, known: Set[str], files: Set[str]) -> _Form:
    body = await read_bytes(request, max_bytes)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        raise NotJson("The body must be multipart/form-data or application/x-www-form-urlencoded.")
    reading = Request(request.scope, receive).form(
        max_files=MAX_ATTACHMENTS + 1, max_fields=MAX_FIELDS, max_part_size=2 * MAX_CONTENT_BYTES
    )
    try:
        async with reading as form:
            return await _checked(form, known, files)
    except HTTPException as error:
        raise _invalid("body", f"is not a valid form: {error.detail}") from error


async def read_fields(request: Request, known: Set[str]) -> dict[str, str]:
    """Return the fields of a form without files, each once."""
    form = await _read_form(request, MAX_BODY_BYTES, known, frozenset())
    return {name: found[0] for name, found in form.values.items()}


async def _checked(form: FormData, known: Set[str], file_names: Set[str]) -> _Form:
    values: dict[str, list[str]] = {}
    files = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name not in file_names:
                raise _invalid(name, "must not be a file")
            files.append(_File(name, value.filename or "", value.content_type or "", await value.read()))
        elif name == _MIME and name in file_names:
            files.append(_File(name, "", "", value.encode()))
        elif name in file_names and value:
            raise _invalid(name, "must be a file")
        elif value:
            values.setdefault(name, []).append(value)
    for name, found in values.items():
        _check_field(name, found, known)
    return _Form(values, tuple(files))


def _check_field(name: str, found: list[str], known: Set[str]) -> None:
    if name in _SWITCHES:
        if found[0].lower() not in (_TRUE if _SWITCHES[name] else _FALSE):
            raise _invalid(name, "is not supported by Mailwright with this value; remove it")
    elif name not in known and not name.startswith(("h:", "v:") if known is _KNOWN else "v:"):
        raise _invalid(name, "is not supported by Mailwright; remove it")
    if len(found) > 1 and name not in _MANY:
        raise _invalid(name, "occurs more than once")


async def _find_list(
    engine: Engine, context: RequestContext, form: _Form, headers: Mapping[str, str], body: str = ""
) -> str | None:
    """Return the key of the list that the List-Id names, or a tag of email with Mailgun's unsubscribe variables.

    Such email is bulk email, so it is refused without a list.
    """
    if (named := list_of_header(headers)) is not None:
        return named
    texts = [*headers.values(), body, *(form.first(name) or "" for name in ("html", "text", "amp-html"))]
    marked = next((mark[0] for text in texts if (mark := _UNSUBSCRIBE.search(text))), None)
    if marked is None:
        return None
    tags = frozenset(form.values.get("o:tag", ()))
    async with engine.database.read() as tx:
        existing = await lists.existing_keys(tx, context.caller.tenant_id, tags)
    found = NamedLists(None, tags).choose(existing)
    if found is None:
        raise _invalid(
            "o:tag",
            f"must contain the key of a list of Mailwright, because the email has {marked} and is bulk email; "
            f"create a list for a tag of this email{f' ({min(tags)})' if tags else ''}, or add a List-Id header",
        )
    return found


def _emails(form: _Form, attachments: list[dict[str, Any]], list_key: str | None) -> Iterator[AddressedEmail]:
    fields = {**_fields(form, list_key), "attachments": attachments}
    to, cc, bcc = (_addresses(form, name) for name in ("to", "cc", "bcc"))
    email = require_recipients(AddressedEmail(with_subject(fields), to, cc, bcc), MAX_RECIPIENTS, "to")
    if "recipient-variables" not in form.values:
        yield email
        return
    if cc or bcc:
        raise _invalid("recipient-variables", "cannot be combined with cc or bcc")
    variables = {name.lower(): found for name, found in form.json("recipient-variables").items()}
    substitutions = Substitutions()
    for box in email.recipients.values():
        replaced = _recipient_values(box, variables.get(box.address.lower(), {}))
        yield AddressedEmail(with_subject(_filled(fields, replaced, substitutions)), (box,))


def _filled(fields: Mapping[str, Any], values: Mapping[str, str], substitutions: Substitutions) -> dict[str, Any]:
    """Return the fields with the recipient's values in subject, text, HTML, headers and metadata."""

    def fill(found: Any) -> Any:
        return substitutions.fill(found, values, "recipient-variables") if isinstance(found, str) else found

    own: dict[str, Any] = {name: fill(fields[name]) for name in ("subject", "html", "text")}
    own[ALTERNATIVES] = [{**each, "content": fill(each["content"])} for each in fields[ALTERNATIVES]]
    many = {name: {key: fill(found) for key, found in fields[name].items()} for name in ("headers", "metadata")}
    return {**fields, **own, **many}


def _recipient_values(box: Mailbox, variables: Any) -> dict[str, str]:
    if not isinstance(variables, dict):
        raise _invalid("recipient-variables", f"must have an object for {box.address}")
    found = {f"%recipient.{name}%": str(value) for name, value in variables.items()}
    return {**found, "%recipient%": format_box(box), "%recipient_email%": box.address}


def _fields(form: _Form, list_key: str | None) -> dict[str, Any]:
    if form.first("from") is None:
        raise _invalid("from", "is required")
    headers, template = form.prefixed("h:"), form.first("template")
    if list_key is not None:
        headers = without_unsubscribe(headers)
    reply_name, variables_name = (
        next((name for name in headers if name.lower() == wanted), "") for wanted in ("reply-to", _VARIABLES)
    )
    for name in (reply_name, variables_name):
        headers.pop(name, None)
    own_variables = form.json(f"h:{variables_name}")
    is_untracked = any(form.is_on(f"o:tracking{kind}") is False for kind in ("", "-clicks", "-opens"))
    return {
        "from": decode_name(form.first("from")),
        "subject": form.first("subject"),
        "html": mark_links(form.first("html"), _UNSUBSCRIBE),
        "text": mark_links(form.first("text"), _UNSUBSCRIBE),
        ALTERNATIVES: [{"contentType": "text/x-amp-html", "content": amp}] if (amp := form.first("amp-html")) else [],
        "listKey": list_key,
        **reply_fields([format_box(box) for box in _addresses(form, f"h:{reply_name}")]),
        "headers": headers,
        "metadata": {**own_variables, **form.prefixed("v:")},
        "tags": form.values.get("o:tag"),
        "scheduledAt": _delivery_time(form.first("o:deliverytime")),
        "tracking": TrackingMode.OFF if is_untracked else None,
        "templateId": template,
        "variables": {**own_variables, **form.json("t:variables")} if template else form.json("t:variables"),
    }


def _delivery_time(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        # Python's `email.utils.formatdate` writes UTC as -0000.
        time = parsedate_to_datetime(re.sub(r"\s-0000$", " +0000", value.strip()))
        if time.tzinfo is None:
            raise ValueError(value)
        return isoformat(to_instant(time))
    except (ValueError, OverflowError, IndexError, TypeError) as error:
        raise _invalid("o:deliverytime", "must be a time such as Fri, 15 Jan 2027 08:00:00 +0000") from error


def _addresses(form: _Form, name: str) -> tuple[Mailbox, ...]:
    try:
        return boxes_of([box for text in form.values.get(name, ()) for box in _ADDRESSES.validate_python(text)])
    except ValidationError as error:
        first = field_errors(error.errors(include_url=False))[0]
        raise _invalid(name, first.message) from error


def _attachments(form: _Form) -> list[dict[str, Any]]:
    """Return the files. The HTML shows an inline file by its name, for example cid:logo.png."""
    found = []
    for file in form.files:
        filename = file.filename.replace("\\", "/").rpartition("/")[2]
        fields = {
            "filename": filename,
            "content": b64encode(file.content).decode(),
            "contentType": file.content_type.partition(";")[0].strip(),
            "contentId": filename if file.field == "inline" else None,
        }
        found.append(without_empty(fields))
    return found


def _invalid(field: str, message: str) -> RequestInvalid:
    return RequestInvalid([FieldError(field[:100], "INVALID", message)])
