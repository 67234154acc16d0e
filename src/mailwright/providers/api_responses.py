"""The responses of an HTTP API: one table by status and text, and one for requests without a response."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from mailwright.domain.clock import HOUR, SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult
from mailwright.providers.http import Disconnect, HttpResponse
from mailwright.providers.responses import ResultTemplate, ResultTemplates, mask_addresses, one_line, with_status

# The APIs count limits per second, minute or hour; a longer pause means that a clock is wrong.
LONGEST_PAUSE: Final[Instant] = HOUR
_MESSAGE_ID = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class ResponseRule:
    statuses: range
    text: re.Pattern[str]
    meaning: ResultTemplate


def rule(status: int, meaning: ResultTemplate, text: str = "", *, to: int | None = None) -> ResponseRule:
    return ResponseRule(range(status, (to or status) + 1), re.compile(text, re.IGNORECASE), meaning)


class ResponseTable:
    """The meaning of each response. The first matching rule decides."""

    def __init__(self, provider: str, rules: Sequence[ResponseRule], *, sender_refused: str | None = None) -> None:
        """Create the table. `sender_refused` is the code for a From address that the provider does not accept."""
        self.provider = provider
        self.rules = tuple(rules)
        prefix, make = provider.upper(), ResultTemplates(provider)
        self._sender_refused = sender_refused
        self._unknown = make.unclear(f"{prefix}_UNKNOWN_ANSWER", is_deferral=False)
        # Sent by a proxy in front of the provider, which does not know whether the provider accepted the message.
        self._unknown_fault = make.in_doubt(f"{prefix}_UNKNOWN_ANSWER", ErrorCategory.TRANSIENT)
        # Until the last byte is sent, the provider cannot have the message. After it, only a complete response is
        # definite.
        self._disconnected_before = {
            False: make.retried("NETWORK_ERROR", blame=True),
            True: make.retried(f"{prefix}_TIMEOUT", ErrorCategory.TIMEOUT, blame=True),
        }
        self._disconnected_after = make.in_doubt(f"{prefix}_NO_ANSWER")
        self._not_connected = make.not_called("NETWORK_ERROR", blame=True)
        # Errors that we detect without a response.
        self.lock_expired = make.not_called("LOCK_EXPIRED", blame=False)
        self.invalid_content = make.failed("INVALID_CONTENT", ErrorCategory.VALIDATION)

    @property
    def unknown_code(self) -> str:
        return self._unknown.code

    def interpret(self, status: int, text: str, pause: Instant | None = None) -> SendResult:
        """Interpret a response that is not an acceptance. `text` is its explanation."""
        for candidate in self.rules:
            if status in candidate.statuses and candidate.text.search(text):
                return candidate.meaning.result(text, str(status), pause)
        unknown = self._unknown_fault if status >= 500 else self._unknown
        return unknown.result(f"unknown response: {with_status(status, text)}", str(status), pause)

    def interpret_disconnect(self, cause: Disconnect) -> SendResult:
        if cause.is_unconnected:
            return self._not_connected.result(cause.cause)
        meaning = self._disconnected_after if cause.is_in_doubt else self._disconnected_before[cause.is_timeout]
        return meaning.result(cause.cause)

    def attribute_fault(self, result: SendResult, message: OutgoingMessage) -> SendResult:
        """Attribute a rejected From address to the message if the request chose it, otherwise to the configuration."""
        if result.code != self._sender_refused or message.uses_default_from:
            return result
        return replace(result, category=ErrorCategory.PERMANENT, blames_provider=False)


def common_rules(provider: str) -> tuple[ResponseRule, ...]:
    """Return the rules for responses that mean the same for every API."""
    prefix, make = provider.upper(), ResultTemplates(provider)
    configuration = ErrorCategory.CONFIGURATION
    return (
        rule(200, make.in_doubt(f"{prefix}_UNEXPECTED_ANSWER", ErrorCategory.TRANSIENT), to=299),
        rule(400, make.failed(f"{prefix}_BAD_REQUEST")),
        rule(401, make.failed(f"{prefix}_UNAUTHORIZED", configuration)),
        rule(403, make.failed(f"{prefix}_FORBIDDEN", configuration)),
        rule(404, make.failed(f"{prefix}_NOT_FOUND", configuration), to=405),
        rule(408, make.unclear(f"{prefix}_TIMEOUT", ErrorCategory.TIMEOUT)),
        rule(413, make.failed(f"{prefix}_TOO_LARGE")),
        rule(415, make.failed(f"{prefix}_BAD_REQUEST")),
        rule(422, make.failed(f"{prefix}_BAD_REQUEST")),
        rule(429, make.retried(f"{prefix}_RATE_LIMIT", ErrorCategory.QUOTA)),
        rule(500, make.unclear(f"{prefix}_SERVER_ERROR")),
        # A gateway without a response does not know whether the provider accepted the message.
        rule(502, make.in_doubt(f"{prefix}_NO_ANSWER")),
        rule(503, make.unclear(f"{prefix}_SERVICE_UNAVAILABLE")),
        rule(504, make.in_doubt(f"{prefix}_NO_ANSWER")),
    )


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a response; an empty one if it is something else."""
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def read_message_id(given: Any) -> str | None:
    """Return the ID of an accepted message, without angle brackets."""
    text = given.strip().strip("<>") if isinstance(given, str) else ""
    return text if _MESSAGE_ID.fullmatch(text) else None


def explain(reply: HttpResponse, error: Any, label: str) -> str:
    """Return the error text of the provider without email addresses, or a description of an unexpected response."""
    if isinstance(error, str) and error.strip():
        return mask_addresses(one_line(error))
    if 200 <= reply.status < 300:
        return f"{reply.status} without a message id: not a valid {label} response"
    return f"a response that is not from {label}" if reply.body else f"{reply.status} without a body"


def retry_after(reply: HttpResponse) -> Instant | None:
    """Return the requested pause of `Retry-After`, in seconds."""
    seconds = read_number(reply.headers.get("Retry-After"))
    return min(seconds * SECOND, LONGEST_PAUSE) if seconds else None


def read_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None
