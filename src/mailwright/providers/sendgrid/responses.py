"""Interpret SendGrid responses: one table by status and text, one for requests without a response."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from mailwright.domain.clock import HOUR, SECOND, Instant
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.providers.api_responses import LONGEST_PAUSE, ResponseTable, explain, read_number, rule
from mailwright.providers.http import HttpResponse
from mailwright.providers.responses import ResultTemplates

PROVIDER = "sendgrid"

# Credits are renewed with the next day, month or payment, so retry a few times a day.
CREDITS_PAUSE: Instant = 4 * HOUR
_MESSAGE_ID = re.compile(r"[!-~]{1,255}")


_words = ResultTemplates(PROVIDER)
failed, retried, unclear, in_doubt = _words.failed, _words.retried, _words.unclear, _words.in_doubt


CONFIGURATION = ErrorCategory.CONFIGURATION
SENDER_REFUSED = "SENDGRID_SENDER_REFUSED"
CREDITS = "credits? exceeded|exceeded your (messaging|sending) limit"

# The first matching rule decides.
RESPONSE_RULES = (
    #   status  internal code, category, retry
    rule(200, in_doubt("SENDGRID_UNEXPECTED_ANSWER", ErrorCategory.TRANSIENT), to=299),
    rule(400, failed("SENDGRID_BAD_REQUEST")),
    rule(401, retried("SENDGRID_CREDITS_EXCEEDED", ErrorCategory.QUOTA, after=CREDITS_PAUSE), text=CREDITS),
    rule(401, failed("SENDGRID_UNAUTHORIZED", CONFIGURATION)),
    rule(403, failed(SENDER_REFUSED, CONFIGURATION), text="from address|sender identity"),
    rule(403, failed("SENDGRID_FORBIDDEN", CONFIGURATION)),
    rule(404, failed("SENDGRID_NOT_FOUND", CONFIGURATION)),
    rule(405, failed("SENDGRID_METHOD_NOT_ALLOWED", CONFIGURATION)),
    rule(408, unclear("SENDGRID_TIMEOUT", ErrorCategory.TIMEOUT)),
    rule(413, failed("SENDGRID_TOO_LARGE")),
    rule(415, failed("SENDGRID_BAD_REQUEST")),
    rule(429, retried("SENDGRID_RATE_LIMIT", ErrorCategory.QUOTA)),
    rule(500, unclear("SENDGRID_SERVER_ERROR")),
    # A gateway without a response does not know whether SendGrid accepted the message.
    rule(502, in_doubt("SENDGRID_NO_ANSWER")),
    rule(503, unclear("SENDGRID_SERVICE_UNAVAILABLE")),
    rule(504, in_doubt("SENDGRID_NO_ANSWER")),
)
TABLE = ResponseTable(PROVIDER, RESPONSE_RULES, sender_refused=SENDER_REFUSED)


def interpret_response(reply: HttpResponse, now: Instant) -> SendResult:
    message_id = reply.headers.get("X-Message-Id", "")
    if reply.status == 202 and _MESSAGE_ID.fullmatch(message_id):
        return sent(PROVIDER, message_id)
    text, pause = explanation(reply), _retry_after(reply, now)
    return TABLE.interpret(reply.status, text, pause)


def explanation(reply: HttpResponse) -> str:
    """Return SendGrid's error messages without email addresses, or a description of an unexpected response."""
    return explain(reply, "; ".join(_errors(reply.body)), "SendGrid")


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
    reset, seconds = read_number(reply.headers.get("X-RateLimit-Reset")), read_number(reply.headers.get("Retry-After"))
    if (
        reset is not None and reply.status == 429
    ):  # Other responses include this header too, although no limit was exceeded.
        pauses.append(reset * SECOND - now)
    if seconds is not None:
        pauses.append(seconds * SECOND)
    pause = max(pauses, default=0)
    return min(pause, LONGEST_PAUSE) if pause > 0 else None
