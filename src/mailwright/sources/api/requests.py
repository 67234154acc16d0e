"""Requests: what a caller may ask for, field by field. What passes here can be stored and put into a mail's headers.

Only the form is judged at the door: types, sizes, presence, and nothing that could add a header or a recipient. Whether
the content is fit to be sent is the pipeline's question, and its answer stands in the message's story.
"""

import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from mailwright.audience import lists
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.content.headers import InvalidHeader, custom_header, find_unwritable
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.states import Resolution
from mailwright.domain.validation_text import validation_sentence

LARGEST_CONTENT = 512 * 1024
LARGEST_ATTACHMENTS = 10 * 1024 * 1024
LARGEST_VARIABLES = 256 * 1024
LARGEST_METADATA = 16 * 1024
LONGEST_SUBJECT = 150
MOST_COPIES = 5
# Deeper data is an accident or an attack: the writers and readers of JSON on the way have limits of their own.
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong: `field` is the caller's own spelling, as `cc[0]` or `recipient.email`."""

    field: str
    code: str
    message: str


class RequestInvalid(InvalidInput):
    """The request breaks a rule of its schema."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors[:3]), field=errors[0].field)
        self.errors = tuple(errors)


class TemplateNotFound(RequestInvalid):
    """There is no template with this id."""

    code = "TEMPLATE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__([FieldError("templateId", self.code, "there is no template with this id")])


class ListNotFound(RequestInvalid):
    """There is no list of this key."""

    code = lists.UnknownList.code

    def __init__(self, list_key: str) -> None:
        super().__init__([FieldError("listKey", self.code, str(lists.UnknownList(list_key)))])


def _objection(code: str, reason: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{reason}", {"reason": reason})


def _address(text: str) -> str:
    """As it goes into the envelope. Characters beyond ASCII before the @ are refused: most servers cannot take them."""
    try:
        deliverable = address.deliverable(text)
    except address.InvalidAddress as error:
        raise _objection("invalid_email", str(error)) from error
    if not deliverable.isascii() or len(deliverable) > address.MAX_LENGTH:
        raise _objection("invalid_email", "most mail servers cannot take this address")
    return deliverable


def _mailbox(text: str) -> str:
    """`name@example.com` or `Jane Doe <name@example.com>`."""
    if not text.endswith(">"):
        return _address(text)
    name, bracket, inner = text[:-1].rpartition("<")
    if not bracket:
        raise _objection("invalid_email", "must look like name@example.com or Jane Doe <name@example.com>")
    name = _line(name.strip())
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1].replace('\\"', '"').replace("\\\\", "\\").strip()
    return f"{name} <{_address(inner)}>" if name else _address(inner)


def _line(text: str) -> str:
    if what := find_unwritable(text):
        raise _objection("unsafe_text", f"contains {what}")
    return text


def _locale(text: str) -> str:
    normal = locales.normal(text)
    if normal is None:
        raise _objection("invalid_locale", "must look like pt or pt-BR")
    return normal


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        try:
            custom_header(name, value)
        except InvalidHeader as error:
            raise _objection("invalid_header", str(error)) from error
    if len({name.lower() for name in headers}) < len(headers):
        raise _objection("invalid_header", "the same header is given twice")
    return headers


def _content(text: str) -> str:
    # A character has at most four bytes: most content is short enough to need no counting.
    if len(text) * 4 > LARGEST_CONTENT and len(text.encode()) > LARGEST_CONTENT:
        raise _objection("too_large", f"is larger than {LARGEST_CONTENT // 1024} KB")
    return text


def _base64(text: str) -> str:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _objection("invalid_base64", "must be base64 (RFC 4648, no line breaks)") from error
    return text


_YEAR_9999: Instant = 253_370_764_800_000


def _instant(value: Any) -> Instant:
    if not isinstance(value, str):
        raise _objection("invalid_time", "must be a text such as 2027-01-15T08:00:00Z")
    try:
        moment = datetime.fromisoformat(value)
        instant = to_instant(moment)
    except (ValueError, OverflowError) as error:
        raise _objection("invalid_time", "must look like 2027-01-15T08:00:00Z") from error
    if moment.tzinfo is None:
        raise _objection("time_without_zone", "needs a time zone, as in 2027-01-15T08:00:00Z")
    if not 0 <= instant < _YEAR_9999:
        raise _objection("invalid_time", "must be between the years 1970 and 9999")
    return instant


def _variables(data: dict[str, Any]) -> dict[str, Any]:
    return _data(data, LARGEST_VARIABLES)


def _value(value: Any) -> Any:
    return _data({"value": value}, LARGEST_VARIABLES)["value"]


def _metadata(data: dict[str, Any]) -> dict[str, Any]:
    return _data(data, LARGEST_METADATA)


def _data(data: dict[str, Any], largest: int) -> dict[str, Any]:
    """Free JSON: limited in depth and size, so that it can be written, read and shown again."""
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        level = [child for node in level for child in _children(node)]
        if not level:
            break
    else:
        raise _objection("too_deep", f"is nested more than {DEEPEST} levels deep")
    if len(orjson.dumps(data)) > largest:
        raise _objection("too_large", f"is larger than {largest // 1024} KB")
    return data


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


Address = Annotated[
    str,
    Field(min_length=3, max_length=address.MAX_LENGTH, json_schema_extra={"format": "email"}),
    AfterValidator(_address),
]
Mailbox = Annotated[str, Field(min_length=3, max_length=460), AfterValidator(_mailbox)]
Identifier = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_line)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_line)]
Locale = Annotated[str, Field(min_length=2, max_length=20), AfterValidator(_locale)]
Line = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_line)]
Variables = Annotated[dict[str, Any], AfterValidator(_variables)]
Value = Annotated[Any, AfterValidator(_value)]
ListKey = Annotated[str, Field(pattern=f"^{lists.KEY_PATTERN}$")]
# What is not sent to somebody: `*` nothing at all, `general` no bulk mail, a list's key no mail of that list.
Scope = Annotated[str, Field(pattern=rf"^(\*|{lists.KEY_PATTERN})$")]
Content = Annotated[str, Field(min_length=1, max_length=LARGEST_CONTENT), AfterValidator(_content)]
Moment = Annotated[Instant, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]


class RequestModel(BaseModel):
    """Names are camelCase outside; a field that we do not know is refused, never silently dropped."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)


class Attachment(RequestModel):
    filename: Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_line)]
    content_type: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(; ?[a-z-]+=[A-Za-z0-9._-]{1,64})?$"),
    ] = "application/octet-stream"
    content: Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"}), AfterValidator(_base64)]
    content_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{1,200}$")] | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.content) * 3 // 4 - self.content[-2:].count("=")


class Recipient(RequestModel):
    """Whom the mail is for, beside the address: an id of ours or an id of the caller's own."""

    recipient_id: Identifier | None = None
    external_id: Identifier | None = None
    email: Address | None = None
    name: Name | None = None


class SendRequest(RequestModel):
    """One mail to one recipient. It says `html` and/or `text` with a `subject`, or names a `templateId`.

    With a `listKey` it is bulk mail of that list: it carries the links to leave, and waits for working hours.
    """

    to: Address
    subject: Annotated[str, Field(min_length=1, max_length=LONGEST_SUBJECT), AfterValidator(_line)] | None = None
    html: Content | None = None
    text: Content | None = None
    template_id: Identifier | None = None
    locale: Locale | None = None
    variables: Variables | None = None
    sender: Annotated[Mailbox | None, Field(alias="from")] = None
    reply_to: Mailbox | None = None
    cc: Annotated[list[Address], Field(max_length=MOST_COPIES)] | None = None
    bcc: Annotated[list[Address], Field(max_length=MOST_COPIES)] | None = None
    headers: (
        Annotated[dict[str, Annotated[str, Field(max_length=2_000)]], Field(max_length=50), AfterValidator(_headers)]
        | None
    ) = None
    attachments: Annotated[list[Attachment], Field(max_length=20)] | None = None
    tags: (
        Annotated[list[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_line)]], Field(max_length=20)]
        | None
    ) = None
    recipient: Recipient | None = None
    list_key: ListKey | None = None
    scheduled_at: Moment | None = None
    expires_at: Moment | None = None
    metadata: Annotated[dict[str, Any], AfterValidator(_metadata)] | None = None


class BatchRequest(RequestModel):
    """Up to 1,000 mails. Each is judged on its own: a bad one is answered with its error and stops no other."""

    messages: Annotated[list[Any], Field(min_length=1, max_length=1_000)]


class ResolveRequest(RequestModel):
    """What was found out about a mail in doubt."""

    resolution: Annotated[Resolution, Field(alias="as")]


class SuppressionRequest(RequestModel):
    """An address that is not to be written to, and why."""

    email: Address
    reason: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)] = "manual"
    list_key: Scope = ALL_MESSAGES


class ListRequest(RequestModel):
    """A list that readers may join and leave."""

    list_key: ListKey
    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)] | None = None
    description: Annotated[str, Field(max_length=1_000), AfterValidator(_line)] | None = None
    is_public: bool = True
    requires_confirmation: bool = False


class ListUpdateRequest(RequestModel):
    """What is not given stays as it is; an empty description takes it away."""

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)] | None = None
    description: Annotated[str, Field(max_length=1_000), AfterValidator(_line)] | None = None
    is_public: bool | None = None
    requires_confirmation: bool | None = None


class UnsubscribeRequest(RequestModel):
    """Whoever joins or leaves a list."""

    email: Address


class SubscribeRequest(UnsubscribeRequest):
    """Whoever joins a list; `confirmed` if they have agreed elsewhere, so that they are not asked again."""

    confirmed: bool = False


Model = TypeVar("Model", bound=RequestModel)


# The validator's words for the commonest errors, in ours; other words are used as they are, in capitals.
_CODES = {
    "missing": "REQUIRED",
    "extra_forbidden": "UNKNOWN_FIELD",
    "string_too_long": "TOO_LONG",
    "string_too_short": "TOO_SHORT",
    "too_long": "TOO_MANY",
    "too_short": "TOO_FEW",
    "string_pattern_mismatch": "INVALID",
    "model_type": "WRONG_TYPE",
    "string_type": "WRONG_TYPE",
    "dict_type": "WRONG_TYPE",
    "list_type": "WRONG_TYPE",
    "enum": "INVALID",
    "literal_error": "INVALID",
}
_SENTENCES = {"extra_forbidden": "is not a field of this request"}


def parse(model: type[Model], body: Any) -> Model:
    """Reads a request out of parsed JSON, or tells everything that is wrong with it."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise RequestInvalid(field_errors(error.errors(include_url=False, include_input=False))) from error


def parse_send(body: Any) -> SendRequest:
    request = parse(SendRequest, body)
    if errors := list(_across_fields(request)):
        raise RequestInvalid(errors)
    return request


def field_errors(errors: Iterable[Any]) -> list[FieldError]:
    return [
        FieldError(
            _path(error["loc"]),
            _CODES.get(error["type"], error["type"].upper()),
            _SENTENCES.get(error["type"]) or validation_sentence(error),
        )
        for error in errors
    ]


def _across_fields(request: SendRequest) -> Iterable[FieldError]:
    has_content = request.html is not None or request.text is not None
    if request.template_id is not None:
        if has_content:
            yield FieldError("templateId", "CONTENT_TWICE", "give html and text, or a templateId, not both")
    elif not has_content:
        yield FieldError("html", "REQUIRED", "give html, text, both of them, or a templateId")
    if request.template_id is None and request.subject is None:
        yield FieldError("subject", "REQUIRED", "is required without a templateId")
    if request.template_id is None and request.variables:
        yield FieldError("variables", "WITHOUT_TEMPLATE", "fill in a template and need a templateId")
    if request.template_id is None and request.locale is not None:
        yield FieldError("locale", "WITHOUT_TEMPLATE", "chooses a text of a template and needs a templateId")
    email = request.recipient.email if request.recipient else None
    if email is not None and email.lower() != request.to.lower():
        yield FieldError("recipient.email", "NOT_THE_SAME", "must be the same address as `to`")
    if sum(attachment.size_bytes for attachment in request.attachments or ()) > LARGEST_ATTACHMENTS:
        yield FieldError("attachments", "TOO_LARGE", f"are larger than {LARGEST_ATTACHMENTS // 1024**2} MB together")
    if request.expires_at is not None and request.expires_at <= (request.scheduled_at or 0):
        yield FieldError("expiresAt", "INVALID_TIME", "must be after scheduledAt")


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "body"
