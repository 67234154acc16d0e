"""The `sparkpost` provider: one message is one transmission with its fields. It never raises.

The API also takes MIME, but as JSON text, so raw email could not be passed on byte by byte; and in both forms it
replaces everything in double curly brackets, which can be escaped only in fields.
"""

import re
from dataclasses import field
from typing import Any, Final

from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.api_provider import TIMEOUT_SECONDS, ApiRequest, FieldsApiProvider, require_https, require_key
from mailwright.providers.api_responses import (
    ResponseTable,
    common_rules,
    explain,
    read_message_id,
    read_object,
    retry_after,
    rule,
)
from mailwright.providers.dedupe_tag import DEDUPE_TAG, dedupe_tag
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.parsed_mime.fields import (
    assign_recipients,
    first_headers,
    format_box,
    require_content,
    to_json,
)
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMessage
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.purpose import without_purpose
from mailwright.providers.reading_settings import about, missing_setting
from mailwright.providers.responses import ResultTemplates
from mailwright.providers.sparkpost.kind import MESSAGE_METADATA, PROVIDER, SparkPostFields

# All metadata of a message together must not exceed 1,000 bytes.
_METADATA_VALUE: Final = re.compile(r"[ -~]{1,200}")
_SUBACCOUNT: Final = re.compile(r"[0-9]{1,10}")
SENDER_REFUSED: Final = "SPARKPOST_SENDER_REFUSED"
_CONFIGURATION, _QUOTA = ErrorCategory.CONFIGURATION, ErrorCategory.QUOTA
_make = ResultTemplates(PROVIDER)

# The text begins with SparkPost's error code.
RESPONSE_RULES: Final = (
    rule(400, _make.failed(SENDER_REFUSED, _CONFIGURATION), text="^700[01]:"),
    # The servers are busy, and SparkPost asks to retry.
    rule(400, _make.retried("SPARKPOST_BUSY", blame=True), text="^1502:"),
    # The recipient is on SparkPost's suppression list, or its policy refuses the message.
    rule(400, _make.failed("SPARKPOST_RECIPIENT_REJECTED"), text="^1902:|^5002:"),
    rule(400, _make.failed("SPARKPOST_NOT_FOUND", _CONFIGURATION), text="^1910:"),
    # The subaccount does not exist.
    rule(422, _make.failed("SPARKPOST_NOT_FOUND", _CONFIGURATION), text="^1603:"),
    rule(406, _make.failed("SPARKPOST_BAD_REQUEST")),
    # SparkPost counts messages per hour, day and month. It sends nothing of a request that exceeds a limit.
    rule(420, _make.failed("SPARKPOST_SANDBOX_LIMIT", _CONFIGURATION), text="^2103:|sandbox"),
    rule(420, _make.retried("SPARKPOST_LIMIT_EXCEEDED", _QUOTA, after=4 * HOUR), text="^2102:|daily|monthly"),
    rule(420, _make.retried("SPARKPOST_LIMIT_EXCEEDED", _QUOTA, after=HOUR)),
    rule(200, _make.failed("SPARKPOST_RECIPIENT_REJECTED"), text="^no recipient was accepted"),
    *common_rules(PROVIDER),
)


@dataclass(frozen=True, slots=True)
class SparkPostSettings:
    api_key: str = field(repr=False)
    url: str = "https://api.sparkpost.com"  # Accounts in the EU use https://api.eu.sparkpost.com.
    subaccount: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        require_key(lazy_gettext("SparkPost API key"), self.api_key)
        require_https("SparkPost", self.url)
        if self.subaccount is not None and not _SUBACCOUNT.fullmatch(self.subaccount):
            raise ConfigurationInvalid(lazy_gettext("the SparkPost subaccount must be its number, for example 123"))


class SparkPost(FieldsApiProvider):
    name = PROVIDER
    table = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)

    def __init__(
        self, settings: SparkPostSettings, http: HttpClient, clock: Clock, *, reports_events: bool = True
    ) -> None:
        super().__init__(settings, http, clock, reports_events=reports_events)
        self._send_url = f"{self._url}/api/v1/transmissions"
        subaccount = {} if settings.subaccount is None else {"X-MSYS-SUBACCOUNT": settings.subaccount}
        self._headers = {
            "Accept": "application/json",
            "Authorization": settings.api_key,
            "Content-Type": "application/json",
            **subaccount,
        }

    def build_request(self, message: OutgoingMessage, parsed: ParsedMessage) -> ApiRequest:
        return ApiRequest(self._send_url, self._headers, to_json(_fields(message, parsed)))

    def interpret_response(self, reply: HttpResponse) -> SendResult:
        results = _results(reply)
        message_id = read_message_id(results.get("id"))
        if reply.status == 200 and message_id is not None and not _is_rejected(results):
            return sent(PROVIDER, message_id)
        return self.table.interpret(reply.status, self.explanation(reply), retry_after(reply))

    def explanation(self, reply: HttpResponse) -> str:
        if reply.status == 200 and _is_rejected(_results(reply)):
            return "no recipient was accepted; see the suppression list in SparkPost"
        return explain(reply, _error_text(read_object(reply.body)), "SparkPost")

    async def check(self) -> ProviderCheck:
        """Check the key with an empty transmission, which SparkPost refuses after it has checked the key.

        Reading the account would need a key with more permissions than to send.
        """
        match await self._fetch("POST", self._send_url, self._headers, b"{}"):
            case ProviderCheck() as failure:
                return failure
            case HttpResponse(status=400 | 422) as reply if _error_text(read_object(reply.body)):
                return self._found(lazy_gettext("the API key may send"), None)
            case HttpResponse() as reply:
                return self._refused(reply)


def _fields(message: OutgoingMessage, parsed: ParsedMessage) -> dict[str, Any]:
    require_content(parsed)
    recipients = assign_recipients(message, parsed)
    visible = ", ".join(format_box(box) for box in recipients.to)
    headers = {name: _literal(value) for name, value in first_headers(parsed).items()}
    if recipients.cc:
        headers["CC"] = _literal(", ".join(format_box(box) for box in recipients.cc))
    content: dict[str, Any] = {
        "from": _sender(parsed),
        "subject": _literal(parsed.subject),
        "headers": headers,
    }
    optional = {
        "reply_to": _literal(", ".join(format_box(box) for box in parsed.reply_to)),
        "text": _literal(parsed.text or ""),
        "html": _literal(parsed.html or ""),
        "attachments": [_attachment(each) for each in parsed.attachments if each.content_id is None],
        "inline_images": [_attachment(each) for each in parsed.attachments if each.content_id is not None],
    }
    return {
        # SparkPost must not rewrite our links, nor add its own pixel or List-Unsubscribe header.
        "options": {"open_tracking": False, "click_tracking": False, "transactional": True, "sandbox": False},
        "metadata": _metadata(message),
        "substitution_data": _BRACKETS,
        "recipients": [
            {"address": {"email": box.address, "header_to": visible}} for role in recipients for box in role
        ],
        "content": content | {name: value for name, value in optional.items() if value},
    }


# SparkPost replaces everything in double or triple curly brackets. Each bracket that stands beside another one becomes
# a variable whose value is the bracket. Its functions for that, such as opening_double_curly(), cannot write "{}}".
_BRACKETS: Final = {"mailwright_opening": "{", "mailwright_closing": "}"}
_VARIABLES: Final = str.maketrans({value: f"{{{{{name}}}}}" for name, value in _BRACKETS.items()})
_BESIDE_EACH_OTHER: Final = re.compile(r"[{}]{2,}")


def _literal(text: str) -> str:
    """Return the text so that SparkPost sends it unchanged."""
    return _BESIDE_EACH_OTHER.sub(lambda found: found[0].translate(_VARIABLES), text)


def _sender(parsed: ParsedMessage) -> dict[str, str]:
    name = _literal(parsed.sender.name)
    return {"email": parsed.sender.address, **({"name": name} if name else {})}


def _metadata(message: OutgoingMessage) -> dict[str, str]:
    metadata = {MESSAGE_METADATA: message.outbox_id}
    if message.dedupe_key:
        metadata[DEDUPE_TAG] = dedupe_tag(message.dedupe_key, _METADATA_VALUE)
    return metadata


def _attachment(source: ParsedAttachment) -> dict[str, str]:
    name = source.content_id or source.filename or "attachment"
    return {"name": name, "type": source.content_type, "data": source.content}


def _results(reply: HttpResponse) -> dict[str, Any]:
    results = read_object(reply.body).get("results")
    return results if isinstance(results, dict) else {}


def _is_rejected(results: dict[str, Any]) -> bool:
    return results.get("total_accepted_recipients") == 0


def _error_text(answer: dict[str, Any]) -> str:
    errors = answer.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    if not isinstance(first, dict):
        return ""
    texts = (first.get("code"), first.get("message"), first.get("description"))
    return ": ".join(text for text in texts if isinstance(text, str) and text)


def read_settings(settings: SparkPostFields) -> SparkPostSettings:
    if settings.sparkpost_api_key is None:
        raise missing_setting("SPARKPOST_API_KEY", PROVIDER, settings)
    with about("SPARKPOST_API_KEY, SPARKPOST_SUBACCOUNT, MAILWRIGHT_SPARKPOST_URL"):
        return SparkPostSettings(
            settings.sparkpost_api_key.get_secret_value(),
            without_purpose(settings.sparkpost_url),
            settings.sparkpost_subaccount,
        )


def make_provider(settings: SparkPostFields, clock: Clock, http: HttpClient, *, reports_events: bool) -> SparkPost:
    return SparkPost(read_settings(settings), http, clock, reports_events=reports_events)
