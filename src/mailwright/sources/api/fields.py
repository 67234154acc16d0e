"""Field types of requests. A value that passes can be stored and written into the headers of an email.

Only the form is checked here: types, sizes, and nothing that could add a header or a recipient. Whether content can be
sent is decided by the pipeline and recorded in the events of the message.
"""

import binascii
import re
from collections.abc import Iterable
from datetime import UTC
from typing import Annotated, Any

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from mailwright.audience import lists
from mailwright.content import subject
from mailwright.content.headers import InvalidHeader, custom_header, find_unwritable, own_message_id
from mailwright.content.mime import ALTERNATIVE_TYPE_PATTERN, CONTENT_TYPE_PATTERN
from mailwright.domain import address, locales
from mailwright.domain.clock import Instant
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.schedule import has_zone, parse_time
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.api.validation import invalid

MAX_CONTENT_BYTES = 512 * 1024
MAX_VARIABLES_BYTES = 256 * 1024
MAX_METADATA_BYTES = 16 * 1024
# The longest category of SendGrid. Tags are only stored and returned.
MAX_TAG_CHARACTERS = 255
# Deeper nesting is a mistake or an attack, and would exceed the limits of other JSON parsers.
MAX_DEPTH = 32

_YEAR_9999: Instant = 253_370_764_800_000


@dataclass(frozen=True, slots=True)
class Matching:
    """Annotation for text that must fully match `pattern`.

    The OpenAPI description shows the pattern; error messages show `sentence` instead.
    """

    pattern: str
    sentence: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        compiled = re.compile(self.pattern)

        def check(text: str) -> str:
            if not compiled.fullmatch(text):
                raise invalid("invalid", self.sentence)
            return text

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "pattern": f"^{self.pattern}$"}


def _address(text: str, info: ValidationInfo) -> str:
    """Return the address. An error for several addresses, or an address with a name, says where they go."""
    try:
        return _deliverable(text)
    except PydanticCustomError as error:
        if "," not in text and "<" not in text:
            raise
        reason = "must be one address without a name, for example ada@example.com"
        if info.field_name == "to":
            reason += "; the name goes in recipient.name, and each recipient gets a message of their own"
        raise invalid("invalid_email", reason) from error


def _only_address(value: Any) -> Any:
    """Refuse a list of addresses with an error that says where they go."""
    if isinstance(value, list):
        raise invalid(
            "wrong_type",
            lazy_gettext(
                "takes one address, not a list; name others in cc or bcc, "
                "or send each their own message with POST /v1/email/batch"
            ),
        )
    return value


def _deliverable(text: str) -> str:
    """Return the address as it is written to the envelope.

    Non-ASCII characters before the @ are rejected because most servers do not accept them.
    """
    try:
        deliverable = address.deliverable(text)
    except address.InvalidAddress as error:
        raise invalid("invalid_email", str(error)) from error
    if not deliverable.isascii() or len(deliverable) > address.MAX_LENGTH:
        raise invalid("invalid_email", lazy_gettext("most mail servers do not accept this address"))
    return deliverable


def _mailbox(text: str) -> str:
    """Accept `name@example.com` and `Jane Doe <name@example.com>`."""
    name, email = address.split_mailbox(_line(text))
    if email.endswith(">"):
        raise invalid("invalid_email", lazy_gettext("must look like name@example.com or Jane Doe <name@example.com>"))
    return address.format_mailbox(name, _deliverable(email))


def _line(text: str) -> str:
    if character := find_unwritable(text):
        raise invalid("unsafe_text", lazy_gettext("contains {character}", character=character))
    return text


def _uuid(text: str) -> str:
    """Return the ID of a contact as it is stored."""
    if not is_uuid(text.lower()):
        raise invalid(
            "invalid_payload",
            lazy_gettext("must be the UUID of a contact; an ID of your own system goes in externalId"),
        )
    return text.lower()


def _locale(text: str) -> str:
    normal = locales.normal(text)
    if normal is None:
        raise invalid("invalid_locale", lazy_gettext("must look like pt or pt-BR"))
    return normal


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        try:
            custom_header(name, value)
        except InvalidHeader as error:
            raise invalid(
                "invalid_header", lazy_gettext("are not valid: {error}", error=str(error).removesuffix("."))
            ) from error
    if len({name.lower() for name in headers}) < len(headers):
        raise invalid("invalid_header", lazy_gettext("contains the same header twice"))
    return headers


def _message_id(text: str) -> str:
    try:
        return own_message_id(text)
    except InvalidHeader as error:
        raise invalid("invalid_header", lazy_gettext("must look like <id@example.com>")) from error


def _content(text: str) -> str:
    # A character has at most four bytes: most content is short enough to need no counting.
    if len(text) * 4 > MAX_CONTENT_BYTES and len(text.encode()) > MAX_CONTENT_BYTES:
        raise invalid(
            "too_large",
            lazy_gettext("is larger than {max_content_bytes} KB", max_content_bytes=MAX_CONTENT_BYTES // 1024),
        )
    return text


def _base64(text: str) -> str:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("invalid_base64", lazy_gettext("must be base64 (RFC 4648, no line breaks)")) from error
    return text


def _instant(value: Any, info: ValidationInfo) -> Instant:
    """Parse a time. Without a time zone it is in the zone of the tenant, which the validation context contains."""
    if not isinstance(value, str):
        raise invalid("invalid_time", lazy_gettext("must be text, for example 2027-01-15T08:00:00Z"))
    if not re.search("[Tt ]", value.strip()):
        raise invalid("invalid_time", lazy_gettext("must have a time of day, for example 2027-01-15T08:00:00Z"))
    zone = (info.context or {}).get("zone")
    if zone is None and not has_zone(value):
        raise invalid("time_without_zone", lazy_gettext("needs a time zone, for example 2027-01-15T08:00:00Z"))
    try:
        instant = parse_time(value, zone or UTC)
    except (ValueError, OverflowError) as error:
        raise invalid("invalid_time", lazy_gettext("must look like 2027-01-15T08:00:00Z")) from error
    if not 0 <= instant < _YEAR_9999:
        raise invalid("invalid_time", lazy_gettext("must be between the years 1970 and 9999"))
    return instant


def _variables(data: dict[str, Any]) -> dict[str, Any]:
    return _free_json(data, MAX_VARIABLES_BYTES)


def _value(value: Any) -> Any:
    return _free_json({"value": value}, MAX_VARIABLES_BYTES)["value"]


def _metadata(data: dict[str, Any]) -> dict[str, Any]:
    return _free_json(data, MAX_METADATA_BYTES)


def _free_json(data: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Limit depth and size of the caller's own JSON, so that it can be stored and returned."""
    if is_deeper_than(data, MAX_DEPTH):
        raise invalid("too_deep", lazy_gettext("is nested more than {max_depth} levels deep", max_depth=MAX_DEPTH))
    if len(orjson.dumps(data)) > max_bytes:
        raise invalid("too_large", lazy_gettext("is larger than {max_bytes} KB", max_bytes=max_bytes // 1024))
    return data


def is_deeper_than(data: Any, levels: int) -> bool:
    """Return whether the values of nested objects and lists are on more than this many levels."""
    level: list[Any] = [data]
    for _ in range(levels):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Any) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


Address = Annotated[
    str,
    Field(min_length=3, max_length=address.MAX_LENGTH, json_schema_extra={"format": "email"}),
    AfterValidator(_address),
]
# The address of the only recipient.
RecipientAddress = Annotated[Address, BeforeValidator(_only_address)]
Mailbox = Annotated[str, Field(min_length=3, max_length=460), AfterValidator(_mailbox)]
Identifier = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_line)]
ContactId = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_line), AfterValidator(_uuid)]
Name = Annotated[str, Field(max_length=200), AfterValidator(_line)]
RequiredName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)]
SegmentName = Annotated[str, Field(min_length=1, max_length=200)]
Description = Annotated[str, Field(max_length=1_000), AfterValidator(_line)]
Locale = Annotated[str, Field(min_length=2, max_length=20), AfterValidator(_locale)]
Line = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_line)]
Subject = Annotated[str, Field(min_length=1, max_length=subject.MAX_CHARACTERS), AfterValidator(_line)]
FreeSubject = Annotated[str, Field(max_length=subject.MAX_LONG_CHARACTERS), AfterValidator(_line)]
MessageId = Annotated[str, AfterValidator(_message_id)]
Tag = Annotated[str, Field(min_length=1, max_length=MAX_TAG_CHARACTERS), AfterValidator(_line)]
FileName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_line)]
Headers = Annotated[dict[str, Annotated[str, Field(max_length=2_000)]], Field(max_length=50), AfterValidator(_headers)]
Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"}), AfterValidator(_base64)]
Variables = Annotated[dict[str, Any], AfterValidator(_variables)]
Metadata = Annotated[dict[str, Any], AfterValidator(_metadata)]
Value = Annotated[Any, AfterValidator(_value)]
Content = Annotated[str, Field(min_length=1, max_length=MAX_CONTENT_BYTES), AfterValidator(_content)]
RequestTime = Annotated[Instant, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})]

_KEY_SENTENCE = "must have 1 to 63 characters of a-z, 0-9, - and _, and begin with a letter or digit"
ListKey = Annotated[str, Matching(lists.KEY_PATTERN, _KEY_SENTENCE)]
# The scope of a suppression: `*` stops all messages, `general` all bulk messages, a list key those of that list.
SuppressionScope = Annotated[
    str, Matching(rf"(\*|{lists.KEY_PATTERN})", f"must be * or a list key, which {_KEY_SENTENCE}")
]
ContentType = Annotated[
    str,
    Matching(CONTENT_TYPE_PATTERN, "must be a media type, for example application/pdf or text/csv; charset=utf-8"),
]
AlternativeType = Annotated[
    str,
    Matching(ALTERNATIVE_TYPE_PATTERN, "must be text/calendar or text/x-amp-html"),
]
ContentId = Annotated[
    str,
    Matching(
        r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{1,200}",
        "must have 1 to 200 letters, digits and characters of an email address, without < and >",
    ),
]


class RequestModel(BaseModel):
    """JSON names are camelCase. An unknown field is an error, never silently ignored."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)
