"""Interpret SendGrid responses: one table by status and text, one for requests without a response."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from mailwright.domain.clock import HOUR, SECOND, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.providers.http import Disconnect, HttpResponse
from mailwright.providers.responses import ResultTemplate, ResultTemplates, mask_addresses, one_line, with_status

PROVIDER = "sendgrid"

# Credits are renewed with the next day, month or payment, so retry a few times a day.
CREDITS_PAUSE: Instant = 4 * HOUR
# SendGrid counts limits per minute or hour; a reset time further ahead means that a clock is wrong.
LONGEST_PAUSE: Instant = HOUR
_MESSAGE_ID = re.compile(r"[!-~]{1,255}")


_words = ResultTemplates(PROVIDER)
failed, retried, unclear, in_doubt = _words.failed, _words.retried, _words.unclear, _words.in_doubt


@dataclass(frozen=True, slots=True)
class SendGridResponseRule:
    statuses: range
    text: re.Pattern[str]
    meaning: ResultTemplate


def row(status: int, meaning: ResultTemplate, text: str = "", *, to: int | None = None) -> SendGridResponseRule:
    return SendGridResponseRule(range(status, (to or status) + 1), re.compile(text, re.IGNORECASE), meaning)


CONFIGURATION = ErrorCategory.CONFIGURATION
SENDER_REFUSED = "SENDGRID_SENDER_REFUSED"
CREDITS = "credits? exceeded|exceeded your (messaging|sending) limit"

# The first matching rule decides.
RESPONSE_RULES = (
    #   status  internal code, category, retry
    row(200, in_doubt("SENDGRID_UNEXPECTED_ANSWER", ErrorCategory.TRANSIENT), to=299),
    row(400, failed("SENDGRID_BAD_REQUEST")),
    row(401, retried("SENDGRID_CREDITS_EXCEEDED", ErrorCategory.QUOTA, after=CREDITS_PAUSE), text=CREDITS),
    row(401, failed("SENDGRID_UNAUTHORIZED", CONFIGURATION)),
    row(403, failed(SENDER_REFUSED, CONFIGURATION), text="from address|sender identity"),
    row(403, failed("SENDGRID_FORBIDDEN", CONFIGURATION)),
    row(404, failed("SENDGRID_NOT_FOUND", CONFIGURATION)),
    row(405, failed("SENDGRID_METHOD_NOT_ALLOWED", CONFIGURATION)),
    row(408, unclear("SENDGRID_TIMEOUT", ErrorCategory.TIMEOUT)),
    row(413, failed("SENDGRID_TOO_LARGE")),
    row(415, failed("SENDGRID_BAD_REQUEST")),
    row(429, retried("SENDGRID_RATE_LIMIT", ErrorCategory.QUOTA)),
    row(500, unclear("SENDGRID_SERVER_ERROR")),
    # A gateway without a response does not know whether SendGrid accepted the message.
    row(502, in_doubt("SENDGRID_NO_ANSWER")),
    row(503, unclear("SENDGRID_SERVICE_UNAVAILABLE")),
    row(504, in_doubt("SENDGRID_NO_ANSWER")),
)
UNKNOWN = unclear("SENDGRID_UNKNOWN_ANSWER", is_deferral=False)
# Sent by a proxy in front of SendGrid, which does not know whether SendGrid accepted the message.
UNKNOWN_FAULT = in_doubt("SENDGRID_UNKNOWN_ANSWER", ErrorCategory.TRANSIENT)

# Until the last byte is sent, the provider cannot have the message. After it, only a complete response is definite.
DISCONNECTED_BEFORE = {
    False: retried("NETWORK_ERROR", blame=True),
    True: retried("SENDGRID_TIMEOUT", ErrorCategory.TIMEOUT, blame=True),
}
DISCONNECTED_AFTER = in_doubt("SENDGRID_NO_ANSWER")

# Errors that we detect without a response.
LOCK_EXPIRED = retried("LOCK_EXPIRED")
INVALID_CONTENT = failed("INVALID_CONTENT", ErrorCategory.VALIDATION)


def interpret_response(reply: HttpResponse, now: Instant) -> SendResult:
    message_id = reply.headers.get("X-Message-Id", "")
    if reply.status == 202 and _MESSAGE_ID.fullmatch(message_id):
        return sent(PROVIDER, message_id)
    text, pause = explanation(reply), _retry_after(reply, now)
    for candidate in RESPONSE_RULES:
        if reply.status in candidate.statuses and candidate.text.search(text):
            return candidate.meaning.result(text, str(reply.status), pause)
    unknown = UNKNOWN_FAULT if reply.status >= 500 else UNKNOWN
    return unknown.result(f"unknown response: {with_status(reply.status, text)}", str(reply.status), pause)


def attribute_fault(result: SendResult, message: OutgoingMessage) -> SendResult:
    """Attribute a rejected From address to the message if the request chose it, otherwise to the configuration."""
    if result.code != SENDER_REFUSED or message.uses_default_from:
        return result
    return replace(result, category=ErrorCategory.PERMANENT, blames_provider=False)


def interpret_disconnect(cause: Disconnect) -> SendResult:
    meaning = DISCONNECTED_AFTER if cause.is_in_doubt else DISCONNECTED_BEFORE[cause.is_timeout]
    return meaning.result(cause.cause)


def explanation(reply: HttpResponse) -> str:
    """Return SendGrid's error messages without email addresses, or a description of an unexpected response."""
    errors = "; ".join(_errors(reply.body))
    if errors:
        return mask_addresses(one_line(errors))
    if 200 <= reply.status < 300:
        return f"{reply.status} without a message id: not a valid SendGrid response"
    return "a response that is not from SendGrid" if reply.body else f"{reply.status} without a body"


def _errors(body: bytes) -> list[str]:
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    errors = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(errors, list):
        return []
    return [_error(each) for each in errors if isinstance(each, dict) and isinstance(each.get("message"), str)]


def _error(error: Mapping[str, Any]) -> str:
    field = error.get("field")
    has_field = isinstance(field, str) and field not in ("", "null")
    return f"{error['message']} ({field})" if has_field else str(error["message"])


def _retry_after(reply: HttpResponse, now: Instant) -> Instant | None:
    """Return the later of `X-RateLimit-Reset` (a Unix time) and `Retry-After` (in seconds) as a delay."""
    pauses = []
    reset, seconds = _number(reply.headers.get("X-RateLimit-Reset")), _number(reply.headers.get("Retry-After"))
    if (
        reset is not None and reply.status == 429
    ):  # Other responses include this header too, although no limit was exceeded.
        pauses.append(reset * SECOND - now)
    if seconds is not None:
        pauses.append(seconds * SECOND)
    pause = max(pauses, default=0)
    return min(pause, LONGEST_PAUSE) if pause > 0 else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None
