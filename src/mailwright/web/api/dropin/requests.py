"""Functions for the APIs of all services: the caller, errors in the format of the service, and types of fields."""

import binascii
import functools
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.content.headers import Mailbox
from mailwright.content.raw import readable_line
from mailwright.domain import address
from mailwright.domain.clock import isoformat
from mailwright.domain.errors import MailwrightError
from mailwright.sources.api.emails import AddressedEmail
from mailwright.sources.api.fields import MAX_CONTENT_BYTES
from mailwright.sources.api.fields import Mailbox as MailboxText
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import UNKNOWN_FIELD, FieldError, RequestInvalid, invalid
from mailwright.web.api.caller import idempotency_key_of
from mailwright.web.errors import ErrorResponse, error_response
from mailwright.web.request_ids import request_id_of
from mailwright.web.state import engine_of

Handler = Callable[[Request], Awaitable[Response]]

MAX_ADDRESSES_LENGTH: Final = 128 * 1024
# Encoded words take several times as many characters as the name. A longer text is not decoded, and is too long.
MAX_ENCODED_MAILBOX: Final = 4_000
# The limit of keys times characters of all different contents in a request. Searching this much takes one or two
# seconds.
MAX_SEARCHED: Final = 1_000_000_000

_SECONDS_OF_YEAR_9999: Final = 253_370_764_800


class ServiceModel(BaseModel):
    """An object of a service's API, with the service's own names. An unknown field is an error; null means absent."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        return {name: value for name, value in body.items() if value is not None} if isinstance(body, dict) else body


T = TypeVar("T")
ListOf = Annotated[list[T], Field(default_factory=list)]
DictOf = Annotated[dict[str, T], Field(default_factory=dict)]


def _refuse(value: Any) -> None:
    """Refuse a field that Mailwright does not support, unless its value has no effect."""
    if value not in (None, False, "", [], {}):
        raise invalid("unsupported", "is not supported by Mailwright; remove it")


Unsupported = Annotated[Any, AfterValidator(_refuse)]


def _time_of(seconds: int) -> str:
    if not 0 <= seconds < _SECONDS_OF_YEAR_9999:
        raise invalid("invalid_time", "must be a time in seconds since 1970")
    return str(isoformat(seconds * 1000))


def _joined_lines(value: Any) -> Any:
    return "".join(value.split()) if isinstance(value, str) else value


# Base64, which some libraries write in lines.
Base64 = Annotated[str, BeforeValidator(_joined_lines)]


# Seconds since 1970 in the request, ISO 8601 text afterwards.
UnixTime = Annotated[int, AfterValidator(_time_of)]


def split_addresses(value: Any) -> Any:
    """Split `Ada <ada@example.com>, bob@example.com` at commas outside of quotes. Leave a list as it is."""
    if not isinstance(value, str):
        return value
    if len(value) > MAX_ADDRESSES_LENGTH:
        raise invalid("too_long", f"must have at most {MAX_ADDRESSES_LENGTH:,} characters")
    found, start, is_quoted, is_escaped = [], 0, False, False
    for place, character in enumerate(value):
        if is_escaped:
            is_escaped = False
        elif is_quoted and character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            found.append(value[start:place])
            start = place + 1
    return [text.strip() for text in (*found, value[start:]) if text.strip()]


def decode_name(value: Any) -> Any:
    """Decode the encoded words (RFC 2047) in a display name. SES requires them, because it takes ASCII only."""
    if not isinstance(value, str) or "=?" not in value or len(value) > MAX_ENCODED_MAILBOX:
        return value
    name, email = address.split_mailbox(value)
    return address.format_mailbox(readable_line(name), email) if name else value


# A mailbox whose name may have encoded words. It is normalized.
ServiceMailbox = Annotated[MailboxText, BeforeValidator(decode_name)]


# Addresses in one text, separated by commas, or in a list. Each is normalized, with its name.
Addresses = Annotated[list[ServiceMailbox], BeforeValidator(split_addresses)]


def checked_address(value: Any, field: str) -> str:
    """Return a normalized address, or raise an error about the field."""
    try:
        return address.normal(value if isinstance(value, str) else "")
    except address.InvalidAddress as error:
        raise RequestInvalid([FieldError(field, "INVALID", f"is not an email address: {error}")]) from error


def boxes_of(texts: Sequence[str]) -> tuple[Mailbox, ...]:
    return tuple(Mailbox(email, name) for name, email in map(address.split_mailbox, texts))


def headers_of(pairs: Iterable[tuple[str, str]], field: str) -> dict[str, str]:
    """Return headers by name. A header that occurs twice is an error, because only one would remain."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise RequestInvalid([FieldError(field, "TWICE", f"contains {name[:80]} twice")])
        found[name] = value
    return found


def reply_fields(texts: Sequence[str]) -> dict[str, Any]:
    """Return the addresses for replies as fields of a request."""
    first, *further = texts or (None,)
    return {"replyTo": first, "furtherReplyTo": further}


def require_recipients(email: AddressedEmail, most: int, field: str, *, needs_to: bool = True) -> AddressedEmail:
    """Raise if an email has no recipient, too many for the service, or no To address although one is required."""
    if not (email.to if needs_to else email.recipients):
        raise RequestInvalid([FieldError(field, "REQUIRED", "needs at least one address")])
    if len(email.recipients) > most:
        reason = f"and the copies have more than {most} addresses together"
        raise RequestInvalid([FieldError(field, "TOO_MANY", reason)])
    return email


def answer_errors(respond: Callable[[ErrorResponse], Response]) -> Callable[[Handler], Handler]:
    """Decorate a route: errors get the response that `respond` writes, in the format of the service."""

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except MailwrightError as error:
                return respond(error_response(request, error))

        return handle

    return decorate


async def sending_context(request: Request, key: str, scope: Scope = Scope.SEND) -> RequestContext:
    """Authenticate an API key, which needs the scope, and read the ids of the request."""
    caller = await engine_of(request).keys.authenticate_key(key)
    caller.require(scope)
    return RequestContext(caller, request_id_of(request), idempotency_key_of(request))


def bearer_key(request: Request) -> str:
    """Return the key of an `Authorization: Bearer` header, or an empty text."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def basic_credentials(request: Request) -> tuple[str, str]:
    """Return the user and password of an `Authorization: Basic` header, or empty texts."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    try:
        user, _, password = b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", ""
    return (user, password) if scheme.lower() == "basic" else ("", "")


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def with_subject(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value, and a subject, which the service does not require."""
    return {**without_empty(fields), "subject": fields.get("subject") or ""}


def format_box(box: Mailbox) -> str:
    return address.format_mailbox(box.name, box.address)


class Substitutions:
    """Replaces keys by values in the emails of one request, within a limit for all of them together."""

    def __init__(self) -> None:
        self._searched = 0
        self._pieces: dict[tuple[str, frozenset[str]], list[str]] = {}

    def fill(self, text: str | None, values: Mapping[str, str], field: str) -> str | None:
        """Replace all keys at once, so that a value which contains another key stays as it is.

        If several keys begin at the same place, the longest one counts. Content that would grow beyond the limit is
        refused before it grows. `field` has the keys and values.
        """
        keys = frozenset(key for key in values if key)
        if not text or not keys:
            return text
        pieces = self._split(text, keys, field)
        parts = [values[piece] if number % 2 else piece for number, piece in enumerate(pieces)]
        if len(pieces) > 1 and sum(map(len, parts)) > MAX_CONTENT_BYTES:
            reason = f"make the content larger than {MAX_CONTENT_BYTES // 1024} KB"
            raise RequestInvalid([FieldError(field, "TOO_LARGE", reason)])
        return "".join(parts)

    def _split(self, text: str, keys: frozenset[str], field: str) -> list[str]:
        """Split a text at the keys, which are every second piece. Emails of a request often share text and keys."""
        if (text, keys) not in self._pieces:
            self._searched += len(keys) * len(text)
            if self._searched > MAX_SEARCHED:
                reason = "are too many for content of this size; use fewer, or send fewer emails in one request"
                raise RequestInvalid([FieldError(field, "TOO_LARGE", reason)])
            found = sorted((key for key in keys if key in text), key=len, reverse=True)
            pattern = f"({'|'.join(map(re.escape, found))})"
            self._pieces[text, keys] = re.split(pattern, text) if found else [text]
        return self._pieces[text, keys]


def stated(subject: str, message: str) -> str:
    """Return the problem of a field as a sentence.

    Some messages are already sentences, others continue the name of the field.
    """
    is_sentence = message.endswith(".") or message[:1].isupper()
    return f"{subject} is not valid: {message}" if is_sentence else f"{subject} {message}"


def renamed(errors: Iterable[FieldError], names: Mapping[str, str]) -> list[FieldError]:
    """Return errors about fields of `/v1/email/send` with the names that the service uses.

    The name of an unknown field stays as the program wrote it.
    """
    template = names.get("templateId", "templateId")
    return [
        each
        if each.code == UNKNOWN_FIELD
        else FieldError(_renamed(each.field, names), each.code, each.message.replace("templateId", template))
        for each in errors
    ]


def _renamed(field: str, names: Mapping[str, str]) -> str:
    """Rename the first part, and the last one if `names` has it, for example `attachments.filename`."""
    root = field.replace("[", ".").partition(".")[0]
    place, dot, leaf = field[len(root) :].rpartition(".")
    return names.get(root, root) + place + dot + names.get(f"{root}.{leaf}", leaf)
