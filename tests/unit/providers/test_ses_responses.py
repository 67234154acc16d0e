"""The meaning of each SES response, over a real connection."""

import json
from fnmatch import fnmatchcase

import pytest

from mailwright.domain.clock import HOUR, MINUTE, SECOND
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.ses import responses
from tests.standins.http import BROKEN_JSON, EMPTY, HTML, WRONG_JSON, Answer, a_large_answer, json_answer
from tests.standins.ses import SesStandIn, refusal
from tests.unit.providers.ses_builders import READER, SENDER, a_mail, ses_to

pytestmark = pytest.mark.promise("provider-unknown")

FAILED, RETRYABLE, IN_DOUBT = ResultKind.FAILED, ResultKind.RETRYABLE, ResultKind.IN_DOUBT
PERMANENT, CONFIGURATION = ErrorCategory.PERMANENT, ErrorCategory.CONFIGURATION
TRANSIENT, QUOTA, TIMEOUT = ErrorCategory.TRANSIENT, ErrorCategory.QUOTA, ErrorCategory.TIMEOUT

TOO_FAST = "Maximum sending rate exceeded."
TOO_MANY = "Daily message quota exceeded."
UNVERIFIED = "Email address is not verified. The following identities failed the check in region EU-WEST-1: "

NO_RIGHT = "not authorized to perform ses:SendEmail on resource arn:aws:ses:eu-west-1:1:identity/example.com"
MAYBE_TAKEN = {"SES_SERVICE_UNAVAILABLE", "SES_TIMEOUT", "SES_UNKNOWN_ANSWER"}

NAMED = [
    # About this message.
    (
        "MessageRejected",
        400,
        "Email content contained an attachment of a wrong kind.",
        "SES_MESSAGE_REJECTED",
        PERMANENT,
    ),
    ("BadRequestException", 400, "Illegal address", "SES_BAD_REQUEST", PERMANENT),
    ("ValidationError", 400, "1 validation error detected", "SES_BAD_REQUEST", PERMANENT),
    ("ValidationException", 400, "1 validation error detected", "SES_BAD_REQUEST", PERMANENT),
    ("InvalidParameterValue", 400, "Missing final '@domain'", "SES_BAD_REQUEST", PERMANENT),
    ("SerializationException", 400, "not JSON", "SES_BAD_REQUEST", PERMANENT),
    ("MissingParameter", 400, "Destination", "SES_BAD_REQUEST", PERMANENT),
    ("MalformedQueryString", 404, "syntax", "SES_BAD_REQUEST", PERMANENT),
    ("RequestEntityTooLargeException", 413, "too large", "SES_MESSAGE_TOO_LARGE", PERMANENT),
    # the account and its settings
    ("MessageRejected", 400, "Sending suspended for this account.", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("MessageRejected", 400, "Sending paused for this account.", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("AccessDeniedException", 403, NO_RIGHT, "SES_SENDER_NOT_ALLOWED", CONFIGURATION),
    ("MessageRejected", 400, UNVERIFIED + SENDER, "SES_SENDER_NOT_VERIFIED", CONFIGURATION),
    ("MailFromDomainNotVerifiedException", 400, "no", "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED", CONFIGURATION),
    ("MailFromDomainNotVerified", 400, "no", "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED", CONFIGURATION),
    ("ConfigurationSetDoesNotExist", 400, "none", "SES_CONFIGURATION_SET_DOES_NOT_EXIST", CONFIGURATION),
    ("NotFoundException", 404, "none", "SES_CONFIGURATION_SET_DOES_NOT_EXIST", CONFIGURATION),
    ("AccountSendingPausedException", 400, "paused", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("ConfigurationSetSendingPausedException", 400, "paused", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("SendingPausedException", 400, "paused", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("AccountSuspendedException", 400, "suspended", "SES_ACCOUNT_SENDING_PAUSED", PERMANENT),
    ("AccessDenied", 403, "not authorized to perform ses:SendEmail", "SES_ACCESS_DENIED", CONFIGURATION),
    ("AccessDeniedException", 403, "not authorized", "SES_ACCESS_DENIED", CONFIGURATION),
    ("UnrecognizedClientException", 403, "invalid token", "SES_ACCESS_DENIED", CONFIGURATION),
    ("InvalidClientTokenId", 403, "invalid token", "SES_ACCESS_DENIED", CONFIGURATION),
    ("InvalidSignatureException", 403, "does not match", "SES_ACCESS_DENIED", CONFIGURATION),
    ("SignatureDoesNotMatch", 403, "does not match", "SES_ACCESS_DENIED", CONFIGURATION),
    ("MissingAuthenticationTokenException", 403, "missing", "SES_ACCESS_DENIED", CONFIGURATION),
    ("ExpiredToken", 403, "expired", "SES_KEYS_EXPIRED", CONFIGURATION),
    ("ExpiredTokenException", 403, "expired", "SES_KEYS_EXPIRED", CONFIGURATION),
    ("RequestExpired", 400, "expired", "SES_KEYS_EXPIRED", CONFIGURATION),
    ("RequestTimeTooSkewed", 403, "your clock", "SES_KEYS_EXPIRED", CONFIGURATION),
    ("NotAuthorized", 400, "you do not have permission", "SES_ACCESS_DENIED", CONFIGURATION),
    ("InvalidAccessKeyId", 403, "no such key", "SES_ACCESS_DENIED", CONFIGURATION),
    ("IncompleteSignature", 400, "a part is missing", "SES_ACCESS_DENIED", CONFIGURATION),
    ("OptInRequired", 403, "needs a subscription", "SES_ACCESS_DENIED", CONFIGURATION),
    ("UnknownOperationException", 404, "what?", "SES_WRONG_ADDRESS", CONFIGURATION),
    # too fast, too much
    ("Throttling", 400, "Rate exceeded", "SES_THROTTLING", QUOTA),
    ("ThrottlingException", 400, "Rate exceeded", "SES_THROTTLING", QUOTA),
    ("TooManyRequestsException", 429, "Too many requests", "SES_THROTTLING", QUOTA),
    ("Throttling", 400, TOO_FAST, "SES_MAX_SEND_RATE_EXCEEDED", QUOTA),
    ("TooManyRequestsException", 429, TOO_FAST, "SES_MAX_SEND_RATE_EXCEEDED", QUOTA),
    ("MaxSendRateExceeded", 400, "", "SES_MAX_SEND_RATE_EXCEEDED", QUOTA),
    ("Throttling", 400, TOO_MANY, "SES_DAILY_QUOTA_EXCEEDED", QUOTA),
    ("ThrottlingException", 400, TOO_MANY, "SES_DAILY_QUOTA_EXCEEDED", QUOTA),
    ("TooManyRequestsException", 429, TOO_MANY, "SES_DAILY_QUOTA_EXCEEDED", QUOTA),
    ("LimitExceededException", 400, TOO_MANY, "SES_DAILY_QUOTA_EXCEEDED", QUOTA),
    ("DailyQuotaExceeded", 400, "", "SES_DAILY_QUOTA_EXCEEDED", QUOTA),
    ("LimitExceededException", 400, "There are too many of them", "SES_LIMIT_EXCEEDED", QUOTA),
    # SES itself
    ("ServiceUnavailable", 503, "later", "SES_SERVICE_UNAVAILABLE", TRANSIENT),
    ("ServiceUnavailableException", 503, "later", "SES_SERVICE_UNAVAILABLE", TRANSIENT),
    ("InternalFailure", 500, "oh", "SES_SERVICE_UNAVAILABLE", TRANSIENT),
    ("InternalServiceErrorException", 500, "oh", "SES_SERVICE_UNAVAILABLE", TRANSIENT),
    ("InternalServerException", 500, "oh", "SES_SERVICE_UNAVAILABLE", TRANSIENT),
    ("RequestTimeout", 408, "too slow", "SES_TIMEOUT", TIMEOUT),
    # what nobody knows
    ("TeapotException", 418, "short and stout", "SES_UNKNOWN_ANSWER", TRANSIENT),
    ("ConcurrentModificationException", 500, "try again", "SES_UNKNOWN_ANSWER", TRANSIENT),
]

KINDS = {
    PERMANENT: FAILED,
    CONFIGURATION: FAILED,
    QUOTA: RETRYABLE,
    TRANSIENT: RETRYABLE,
    TIMEOUT: RETRYABLE,
}


@pytest.mark.parametrize(
    ("name", "status", "text", "code", "category"), NAMED, ids=[f"{row[0]} {row[3]}" for row in NAMED]
)
async def test_error_has_the_meaning_of_its_rule(
    name: str, status: int, text: str, code: str, category: ErrorCategory
) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.refuse(name, status, text, times=1)
        result = await ses.send(a_mail())
        assert (result.code, result.category, result.kind) == (code, category, KINDS[category])
        assert (result.provider, result.original_code) == ("ses", name)
        assert result.definitely_not_sent is (code not in MAYBE_TAKEN)
        assert result.message
        assert len(stand_in.requests) == 1

        assert (await ses.send(a_mail())).kind is ResultKind.SENT, "the next message is not blocked"
        assert not stand_in.violations


def test_every_rule_is_tested_with_each_name() -> None:
    in_table = {row.meaning.code for row in responses.RESPONSE_RULES} | {responses.UNKNOWN.code}
    assert in_table == {code for *_, code, _ in NAMED}
    deciding = [
        next((row for row in responses.RESPONSE_RULES if row.names.match(name) and row.text.search(text)), None)
        for name, _, text, *_ in NAMED
    ]
    assert not [row for row in responses.RESPONSE_RULES if row not in deciding]
    groups = (
        responses.LIMITS,
        responses.PAUSED,
        responses.NO_CONFIGURATION_SET,
        responses.BAD_REQUEST,
        responses.STALE,
    )
    names = ", ".join((*groups, responses.DENIED, responses.DOWN)).split(", ")
    assert not [each for each in names if not any(fnmatchcase(name, each) for name, *_ in NAMED)]


NAMELESS = [
    (Answer(400), "SES_UNKNOWN_ANSWER", TRANSIENT, RETRYABLE),
    (Answer(307, headers={"Location": "http://elsewhere.invalid/"}), "SES_UNKNOWN_ANSWER", TRANSIENT, RETRYABLE),
    (Answer(401), "SES_ACCESS_DENIED", CONFIGURATION, FAILED),
    (Answer(403, b"<html>Forbidden</html>"), "SES_ACCESS_DENIED", CONFIGURATION, FAILED),
    (Answer(404), "SES_WRONG_ADDRESS", CONFIGURATION, FAILED),
    (Answer(405), "SES_WRONG_ADDRESS", CONFIGURATION, FAILED),
    (Answer(413), "SES_MESSAGE_TOO_LARGE", PERMANENT, FAILED),
    (Answer(429), "SES_THROTTLING", QUOTA, RETRYABLE),
    (Answer(500), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (Answer(500, b"<html>oh</html>"), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (Answer(520), "SES_UNKNOWN_ANSWER", TRANSIENT, IN_DOUBT),
    (Answer(502), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (refusal("ServiceUnavailable", 502, "gateway"), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (Answer(503, b"busy"), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (Answer(504), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    (a_large_answer(503), "SES_NO_ANSWER", TIMEOUT, IN_DOUBT),
    # A success without a message ID.
    (EMPTY, "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (HTML, "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (WRONG_JSON, "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (BROKEN_JSON, "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (Answer(204), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (json_answer(200, {}), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (json_answer(200, {"MessageId": None}), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (json_answer(200, {"MessageId": ""}), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (json_answer(200, {"MessageId": "two\nlines"}), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
    (a_large_answer(200), "SES_GARBLED_ANSWER", TRANSIENT, IN_DOUBT),
]


@pytest.mark.parametrize(("answer", "code", "category", "kind"), NAMELESS)
async def test_unnamed_error_has_the_meaning_of_its_status(
    answer: Answer, code: str, category: ErrorCategory, kind: ResultKind
) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(answer, times=1)
        result = await ses.send(a_mail())
        assert (result.code, result.category, result.kind) == (code, category, kind)
        assert result.definitely_not_sent is (kind is not IN_DOUBT and code not in MAYBE_TAKEN)
        assert len(stand_in.requests) == 1
        assert (await ses.send(a_mail())).kind is ResultKind.SENT


def test_every_status_of_the_table_is_tested() -> None:
    assert {*responses.UNNAMED_ERRORS, *responses.GATEWAYS} <= {answer.status for answer, *_ in NAMELESS}


@pytest.mark.parametrize(
    "named",
    [
        {"headers": {"x-amzn-ErrorType": "MessageRejected:http://internal.example.com/coral/"}},
        {"headers": {"X-AMZN-ERRORTYPE": "com.amazonaws.ses#MessageRejected"}},
        {"body": json.dumps({"__type": "com.amazonaws.ses.v2#MessageRejected"}).encode()},
        {"body": json.dumps({"code": "MessageRejected", "Message": "no"}).encode()},
    ],
)
async def test_error_name_is_found_in_every_place(named: dict[str, object]) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(Answer(400, **named))  # type: ignore[arg-type]
        assert (await ses.send(a_mail())).code == "SES_MESSAGE_REJECTED"


@pytest.mark.parametrize(
    ("status", "told"), [(503, "503 without a body"), (400, "unknown response: 400 without a body")]
)
async def test_response_without_body_is_described_by_its_status(status: int, told: str) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(Answer(status))
        assert (await ses.send(a_mail())).message == told


async def test_unknown_error_is_temporary() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.refuse("TeapotException", 418, "short and stout")
        result = await ses.send(a_mail())
    assert result.message == "unknown response: 418 TeapotException: short and stout"
    assert result.kind is RETRYABLE


@pytest.mark.parametrize(
    ("name", "text", "pause"),
    [
        ("TooManyRequestsException", TOO_MANY, 4 * HOUR),
        ("TooManyRequestsException", TOO_FAST, None),
        ("LimitExceededException", "of another kind", 10 * MINUTE),
    ],
)
async def test_delay_depends_on_the_exceeded_limit(name: str, text: str, pause: int | None) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.refuse(name, 429, text)
        assert (await ses.send(a_mail())).retry_after == pause


@pytest.mark.parametrize(("told", "pause"), [("7", 7 * SECOND), ("999999", HOUR), ("soon", None), ("-1", None)])
async def test_retry_after_is_respected_within_bounds(told: str, pause: int | None) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(json_answer(503, {}, x_amzn_ErrorType="ServiceUnavailable", Retry_After=told))
        assert (await ses.send(a_mail())).retry_after == pause


@pytest.mark.parametrize(
    ("name", "status", "text", "is_blamed"),
    [
        ("MessageRejected", 400, "virus", False),
        ("MessageRejected", 400, UNVERIFIED + SENDER, True),
        ("BadRequestException", 400, "no", False),
        ("TooManyRequestsException", 429, TOO_FAST, False),
        ("SendingPausedException", 400, "paused", True),
        ("AccessDenied", 403, "no", True),
        ("InternalFailure", 500, "oh", True),
        ("TeapotException", 418, "what", True),
    ],
)
async def test_provider_is_blamed_for_general_errors(name: str, status: int, text: str, is_blamed: bool) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.refuse(name, status, text)
        assert (await ses.send(a_mail())).blames_provider is is_blamed


# Unverified addresses.


async def test_unverified_default_sender_stops_sending() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.verified = {"example.net"}
        result = await ses.send(a_mail())
    assert (result.code, result.category, result.blames_provider) == ("SES_SENDER_NOT_VERIFIED", CONFIGURATION, True)


async def test_unverified_custom_sender_fails_only_its_message() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.verified = {"example.net"}
        result = await ses.send(a_mail(uses_default_sender=False, uses_default_from=False))
    assert (result.code, result.category, result.blames_provider) == ("SES_SENDER_NOT_VERIFIED", PERMANENT, False)


@pytest.mark.parametrize(("is_own", "category"), [(True, CONFIGURATION), (False, PERMANENT)])
async def test_unverified_custom_from_with_own_bounce_address_fails_alone(
    is_own: bool, category: ErrorCategory
) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.verified = {"bounces.example.net"}
        result = await ses.send(a_mail(sender="us@bounces.example.net", uses_default_from=is_own))
    assert (result.category, result.blames_provider) == (category, is_own)


async def test_sandbox_recipient_is_rejected_alone() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.is_in_production = False
        stand_in.account.verified = {SENDER, "friend@example.org"}
        result = await ses.send(a_mail())
        assert (result.code, result.category, result.blames_provider) == ("SES_MESSAGE_REJECTED", PERMANENT, False)
        assert (await ses.send(a_mail("friend@example.org"))).kind is ResultKind.SENT


async def test_results_contain_no_address() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.refuse("MessageRejected", 400, f"{UNVERIFIED}{SENDER}, {READER}")
        result = await ses.send(a_mail())
    assert result.message is not None
    assert result.message.endswith("EU-WEST-1: n***@e***.com, r***@e***.org")
