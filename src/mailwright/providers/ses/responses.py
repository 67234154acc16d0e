"""Interpret SES responses: one table by error name, one by status for responses without a name."""

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import translate
from typing import Any

import orjson

from mailwright.domain.clock import HOUR, MINUTE, SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, SendResult, sent
from mailwright.providers.http import Disconnect, HttpResponse
from mailwright.providers.responses import (
    ResultTemplate,
    ResultTemplates,
    addresses_in,
    mask_addresses,
    one_line,
    with_status,
)

PROVIDER = "ses"

# The daily quota covers the last 24 hours and frees up gradually, so retry a few times a day.
DAILY_QUOTA_PAUSE: Instant = 4 * HOUR
# The delay that AWS recommends after a limit other than the sending rate.
LIMIT_PAUSE: Instant = 10 * MINUTE
LONGEST_PAUSE: Instant = HOUR

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,99}")
_MESSAGE_ID = re.compile(r"[!-~]{1,255}")


_words = ResultTemplates(PROVIDER)
failed, retried, unclear, in_doubt = _words.failed, _words.retried, _words.unclear, _words.in_doubt
not_called = _words.not_called


@dataclass(frozen=True, slots=True)
class SesResponseRule:
    names: re.Pattern[str]
    text: re.Pattern[str]
    meaning: ResultTemplate


def row(names: str, meaning: ResultTemplate, text: str = "") -> SesResponseRule:
    alternatives = "|".join(translate(pattern) for pattern in names.split(", "))
    return SesResponseRule(re.compile(alternatives), re.compile(text, re.IGNORECASE), meaning)


CONFIGURATION = ErrorCategory.CONFIGURATION
# Codes about the sender, which a request may have chosen.
UNVERIFIED_SENDER = "SES_SENDER_NOT_VERIFIED"
UNVERIFIED_MAIL_FROM = "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED"
SENDER_NOT_ALLOWED = "SES_SENDER_NOT_ALLOWED"
SENDING_PAUSED = _words.paused("SES_ACCOUNT_SENDING_PAUSED")
ACCESS_DENIED = failed("SES_ACCESS_DENIED", CONFIGURATION)
KEYS_EXPIRED = failed("SES_KEYS_EXPIRED", CONFIGURATION)

LIMITS = "Throttling*, TooManyRequests*, LimitExceeded*"
PAUSED = "AccountSendingPaused*, ConfigurationSetSendingPaused*, SendingPaused*, AccountSuspended*"
NO_CONFIGURATION_SET = "ConfigurationSetDoesNotExist*, NotFoundException"
BAD_REQUEST = "BadRequest*, Validation*, InvalidParameter*, MissingParameter, Serialization*, MalformedQueryString*"
STALE = "ExpiredToken*, RequestExpired*, RequestTimeTooSkewed*"
DENIED = """AccessDenied*, NotAuthorized*, UnrecognizedClient*, InvalidClientTokenId*, InvalidAccessKeyId*, \
InvalidSignature*, SignatureDoesNotMatch*, IncompleteSignature*, MissingAuthenticationToken*, OptInRequired*"""
DOWN = "ServiceUnavailable*, InternalFailure*, InternalService*, InternalServer*"

# The first matching rule decides. API versions 1 and 2 share the rules although their error names differ. Only the
# error text shows which rate was exceeded and which address is not verified.
RESPONSE_RULES = (
    #   name of the error    internal code, category, retry
    row(
        f"{LIMITS}, DailyQuotaExceeded*",
        retried("SES_DAILY_QUOTA_EXCEEDED", ErrorCategory.QUOTA, after=DAILY_QUOTA_PAUSE),
        text=r"\bdaily\b.*\bquota\b|24.hour",
    ),
    row("DailyQuotaExceeded*", retried("SES_DAILY_QUOTA_EXCEEDED", ErrorCategory.QUOTA, after=DAILY_QUOTA_PAUSE)),
    row(LIMITS, retried("SES_MAX_SEND_RATE_EXCEEDED", ErrorCategory.QUOTA), text=r"sending rate"),
    row("MaxSendRateExceeded*", retried("SES_MAX_SEND_RATE_EXCEEDED", ErrorCategory.QUOTA)),
    row("LimitExceeded*", retried("SES_LIMIT_EXCEEDED", ErrorCategory.QUOTA, after=LIMIT_PAUSE)),
    row(LIMITS, retried("SES_THROTTLING", ErrorCategory.QUOTA)),
    row("MessageRejected*", SENDING_PAUSED, text=r"\bsending (is |was |has been )?(paused|suspended|disabled)"),
    row("MessageRejected*", failed(UNVERIFIED_SENDER, CONFIGURATION), text=r"not verified"),
    row("MessageRejected*", failed("SES_MESSAGE_REJECTED")),
    row("MailFromDomainNotVerified*", failed(UNVERIFIED_MAIL_FROM, CONFIGURATION)),
    row(NO_CONFIGURATION_SET, failed("SES_CONFIGURATION_SET_DOES_NOT_EXIST", CONFIGURATION)),
    row(PAUSED, SENDING_PAUSED),
    row(BAD_REQUEST, failed("SES_BAD_REQUEST")),
    row("RequestEntityTooLarge*", failed("SES_MESSAGE_TOO_LARGE")),
    row(STALE, KEYS_EXPIRED),
    row("AccessDenied*, NotAuthorized*", failed(SENDER_NOT_ALLOWED, CONFIGURATION), text=r":identity/"),
    row(DENIED, ACCESS_DENIED),
    row("UnknownOperation*", failed("SES_WRONG_ADDRESS", CONFIGURATION)),
    row(DOWN, unclear("SES_SERVICE_UNAVAILABLE")),
    row("RequestTimeout*", unclear("SES_TIMEOUT", ErrorCategory.TIMEOUT)),
)
UNKNOWN = unclear("SES_UNKNOWN_ANSWER", is_deferral=False)
# Sent by a proxy in front of SES, which does not know whether SES accepted the message.
UNKNOWN_FAULT = in_doubt("SES_UNKNOWN_ANSWER", ErrorCategory.TRANSIENT)

# A response without an error name may come from a proxy in front of SES.
UNNAMED_ERRORS = {
    401: ACCESS_DENIED,
    403: ACCESS_DENIED,
    404: failed("SES_WRONG_ADDRESS", CONFIGURATION),
    405: failed("SES_WRONG_ADDRESS", CONFIGURATION),
    413: failed("SES_MESSAGE_TOO_LARGE"),
    429: retried("SES_THROTTLING", ErrorCategory.QUOTA),
    # SES may have accepted the message before this response.
    500: in_doubt("SES_NO_ANSWER"),
    503: in_doubt("SES_NO_ANSWER"),
}
# A gateway that got no response from SES does not know whether SES accepted the message.
GATEWAYS = {502: in_doubt("SES_NO_ANSWER"), 504: in_doubt("SES_NO_ANSWER")}
GARBLED = in_doubt("SES_GARBLED_ANSWER", ErrorCategory.TRANSIENT)

# Until the last byte is sent, the provider cannot have the message. After it, only a complete response is definite.
DISCONNECTED_BEFORE = {
    False: retried("NETWORK_ERROR", blame=True),
    True: retried("SES_TIMEOUT", ErrorCategory.TIMEOUT, blame=True),
}
DISCONNECTED_AFTER = in_doubt("SES_NO_ANSWER")
NOT_CONNECTED = not_called("NETWORK_ERROR", blame=True)

# Errors that we detect without a response.
LOCK_EXPIRED = not_called("LOCK_EXPIRED", blame=False)
KEYS_MISSING = failed("SES_KEYS_MISSING", CONFIGURATION)
UTF8_UNSUPPORTED = failed("SES_UTF8_UNSUPPORTED")
TOO_MANY_RECIPIENTS = failed("SES_TOO_MANY_RECIPIENTS")
TOO_LARGE = failed("SES_MESSAGE_TOO_LARGE")

# The credentials are loaded again only after these errors.
ABOUT_KEYS = frozenset({ACCESS_DENIED.code, KEYS_EXPIRED.code, SENDER_NOT_ALLOWED})


def interpret_response(reply: HttpResponse, message: OutgoingMessage) -> SendResult:
    if 200 <= reply.status < 300:
        return _taken(reply)
    result = interpret_rejection(reply)
    return attribute_fault(result, error_text(reply), message) if result.code == UNVERIFIED_SENDER else result


def interpret_rejection(reply: HttpResponse) -> SendResult:
    """Return the meaning of a response that is not a success, for any request."""
    name, text, pause = error_name(reply), explanation(reply), _retry_after(reply.headers)
    original = name or str(reply.status)
    if (gateway := GATEWAYS.get(reply.status)) is not None:
        return gateway.result(text, original)
    if name is None and (nameless := UNNAMED_ERRORS.get(reply.status)) is not None:
        return nameless.result(text, original, pause)
    for candidate in RESPONSE_RULES:
        if name is not None and candidate.names.match(name) and candidate.text.search(error_text(reply)):
            return candidate.meaning.result(text, original, pause)
    unknown = UNKNOWN_FAULT if name is None and reply.status >= 500 else UNKNOWN
    description = with_status(reply.status, text if name is None else f"{name}: {text}")
    return unknown.result(f"unknown response: {description}", original, pause)


def interpret_disconnect(cause: Disconnect) -> SendResult:
    if cause.is_unconnected:
        return NOT_CONNECTED.result(cause.cause)
    meaning = DISCONNECTED_AFTER if cause.is_in_doubt else DISCONNECTED_BEFORE[cause.is_timeout]
    return meaning.result(cause.cause)


def attribute_fault(result: SendResult, text: str, message: OutgoingMessage) -> SendResult:
    """Attribute an unverified address to the configuration, to the message, or to a recipient in the sandbox."""
    named = addresses_in(text)
    if named and named <= {recipient.lower() for recipient in message.recipients}:
        return replace(result, code="SES_MESSAGE_REJECTED", category=ErrorCategory.PERMANENT, blames_provider=False)
    if message.uses_default_from or (message.uses_default_sender and named == {message.sender.lower()}):
        return result
    return replace(result, category=ErrorCategory.PERMANENT, blames_provider=False)


def error_name(reply: HttpResponse) -> str | None:
    """Return the name from `x-amzn-ErrorType: MessageRejected:http://…` or from the body, without its namespace."""
    document = _document(reply)
    for named in (reply.headers.get("x-amzn-ErrorType"), document.get("__type"), document.get("code")):
        if isinstance(named, str) and (name := _NAME.match(named.rpartition("#")[2])):
            return name[0]
    return None


def error_text(reply: HttpResponse) -> str:
    """Return the first line of the SES message. After a rejected signature, later lines contain the signed text."""
    document = _document(reply)
    for text in (document.get("message"), document.get("Message")):
        if isinstance(text, str) and text.strip():
            return one_line(text.strip().splitlines()[0])
    return ""


def explanation(reply: HttpResponse) -> str:
    """Return the explanation for display, without email addresses."""
    text = mask_addresses(error_text(reply))
    return text or ("a response that is not from SES" if reply.body else f"{reply.status} without a body")


def _taken(reply: HttpResponse) -> SendResult:
    message_id = _document(reply).get("MessageId")
    if isinstance(message_id, str) and _MESSAGE_ID.fullmatch(message_id):
        return sent(PROVIDER, message_id)
    return GARBLED.result(f"{reply.status} without a message id: not a valid SES response")


def _document(reply: HttpResponse) -> Mapping[str, Any]:
    try:
        document = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _retry_after(headers: Mapping[str, str]) -> Instant | None:
    text = headers.get("Retry-After", "")
    return min(int(text) * SECOND, LONGEST_PAUSE) if text.isascii() and text.isdigit() and len(text) < 9 else None
