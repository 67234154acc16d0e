"""The meaning of each SendGrid response, over real sockets."""

from dataclasses import replace

import pytest

from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.api_responses import LONGEST_PAUSE
from mailwright.providers.http import HttpResponse
from mailwright.providers.sendgrid.provider import SendGridSettings
from mailwright.providers.sendgrid.responses import CREDITS_PAUSE, RESPONSE_RULES, interpret_response
from tests.standins.http import EMPTY, GARBAGE, HTML, WRONG_JSON, Answer, a_large_answer
from tests.standins.sendgrid import KEY, SendGridStandIn, refusal
from tests.unit.providers.sendgrid_builders import a_mail, sendgrid_to

SENT, RETRIED, FAILED, DOUBT = ResultKind.SENT, ResultKind.RETRYABLE, ResultKind.FAILED, ResultKind.IN_DOUBT
PERMANENT, OURS, QUOTA = ErrorCategory.PERMANENT, ErrorCategory.CONFIGURATION, ErrorCategory.QUOTA
TRANSIENT, TIMEOUT = ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT
MAYBE_TAKEN = (408, 500, 502, 503, 504)
UNVERIFIED = "The from address does not match a verified Sender Identity."

TABLE = [
    (200, "", DOUBT, "SENDGRID_UNEXPECTED_ANSWER", TRANSIENT, True),
    (400, "Does not contain a valid address.", FAILED, "SENDGRID_BAD_REQUEST", PERMANENT, False),
    (401, "Maximum credits exceeded", RETRIED, "SENDGRID_CREDITS_EXCEEDED", QUOTA, False),
    (401, "authorization required", FAILED, "SENDGRID_UNAUTHORIZED", OURS, True),
    (403, UNVERIFIED, FAILED, "SENDGRID_SENDER_REFUSED", OURS, True),
    (403, "access forbidden", FAILED, "SENDGRID_FORBIDDEN", OURS, True),
    (404, "not found", FAILED, "SENDGRID_NOT_FOUND", OURS, True),
    (405, "method not allowed", FAILED, "SENDGRID_METHOD_NOT_ALLOWED", OURS, True),
    (408, "request timeout", RETRIED, "SENDGRID_TIMEOUT", TIMEOUT, True),
    (413, "content too large", FAILED, "SENDGRID_TOO_LARGE", PERMANENT, False),
    (415, "unsupported media type", FAILED, "SENDGRID_BAD_REQUEST", PERMANENT, False),
    (429, "too many requests", RETRIED, "SENDGRID_RATE_LIMIT", QUOTA, False),
    (500, "internal server error", RETRIED, "SENDGRID_SERVER_ERROR", TRANSIENT, True),
    (502, "bad gateway", DOUBT, "SENDGRID_NO_ANSWER", TIMEOUT, True),
    (503, "service unavailable", RETRIED, "SENDGRID_SERVICE_UNAVAILABLE", TRANSIENT, True),
    (504, "gateway timeout", DOUBT, "SENDGRID_NO_ANSWER", TIMEOUT, True),
]


@pytest.mark.parametrize(
    ("status", "words", "kind", "code", "category", "blames"), TABLE, ids=[f"{row[0]} {row[1]}" for row in TABLE]
)
async def test_each_response_has_its_meaning(
    status: int, words: str, kind: ResultKind, code: str, category: ErrorCategory, blames: bool
) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(status, words))
        result = await sendgrid.send(replace(a_mail(), sender="news@example.com"))
        assert (result.kind, result.code, result.category) == (kind, code, category)
        assert (result.provider, result.original_code) == ("sendgrid", str(status))
        assert result.blames_provider is blames
        assert result.definitely_not_sent is (status >= 400 and status not in MAYBE_TAKEN)
        assert words in (result.message or "")
        assert len(server.requests) == 1


def test_every_rule_is_tested() -> None:
    assert {row.meaning.code for row in RESPONSE_RULES} == {row[3] for row in TABLE}
    assert len(RESPONSE_RULES) == len(TABLE)


async def test_accepted_message_has_sendgrids_id() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        result = await sendgrid.send(a_mail())
        assert (result.kind, result.provider_message_id) == (SENT, server.message_ids[0])
        assert not server.violations


@pytest.mark.promise("provider-unknown")
@pytest.mark.parametrize("status", [301, 402, 418, 501, 520, 599])
async def test_unknown_response_is_temporary(status: int) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(status, "whatever", Location="/elsewhere"))
        result = await sendgrid.send(a_mail())
        kind = DOUBT if status >= 500 else RETRIED  # A proxy in front of SendGrid responded.
        assert (result.kind, result.code, result.category) == (kind, "SENDGRID_UNKNOWN_ANSWER", TRANSIENT)
        assert result.message == f"unknown response: {status} whatever"
        assert not result.definitely_not_sent
        assert len(server.requests) == 1


@pytest.mark.promise("provider-unknown")
@pytest.mark.parametrize("headers", [{}, {b"X-Message-Id": b"abc"}, {b"X-RateLimit-Reset": b"x", b"Retry-After": b"x"}])
def test_every_status_has_a_meaning(headers: dict[bytes, bytes]) -> None:
    for status in range(100, 1_000):
        result = interpret_response(HttpResponse(status, [*headers.items()], b"<p>?</p>"), 0)
        assert (result.kind is SENT) == (status == 202 and b"X-Message-Id" in headers)
        is_unknowable = status // 100 == 2 or (status >= 500 and status not in (500, 503))
        assert (result.kind is DOUBT) == (result.kind is not SENT and is_unknowable)
        assert result.kind is SENT or (result.code and result.category and result.message)


@pytest.mark.parametrize(
    "answer",
    [
        EMPTY,
        HTML,
        WRONG_JSON,
        Answer(202),
        Answer(202, b"", {"X-Message-Id": ""}),
        Answer(202, b"", {"X-Message-Id": "two words"}),
        Answer(202, b"", {"X-Message-Id": "x" * 300}),
        Answer(204),
        a_large_answer(),
    ],
    ids=["empty", "html", "json", "202 without id", "empty id", "words", "long id", "204", "10 MB"],
)
async def test_foreign_success_response_is_in_doubt(answer: Answer) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(answer)
        result = await sendgrid.send(a_mail())
        assert (result.kind, result.code) == (DOUBT, "SENDGRID_UNEXPECTED_ANSWER")
        assert len(server.requests) == 1


async def test_malformed_response_is_in_doubt() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(GARBAGE)
        assert (await sendgrid.send(a_mail())).kind is DOUBT
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"errors": "x"}', b'{"errors": [1, {}]}', b"\xff", b" " * 10**7]
)
async def test_rejection_without_explanation_is_understood(body: bytes) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(Answer(400, body))
        result = await sendgrid.send(a_mail())
        assert (result.kind, result.code) == (FAILED, "SENDGRID_BAD_REQUEST")
        assert len(result.message or "") < 100


@pytest.mark.parametrize(
    ("status", "told"), [(503, "503 without a body"), (418, "unknown response: 418 without a body")]
)
async def test_response_without_body_is_described_by_its_status(status: int, told: str) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(Answer(status))
        assert (await sendgrid.send(a_mail())).message == told
        assert (await sendgrid.check()).summary.endswith(f": {status} without a body")


async def test_explanation_names_the_field_and_is_truncated() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(400, "Does not contain a valid address.", "personalizations.0.to"), nth=1)
        server.answer(refusal(400, "x" * 20_000), nth=1)
        result = await sendgrid.send(a_mail())
        assert result.message == "Does not contain a valid address. (personalizations.0.to)"
        assert len((await sendgrid.send(a_mail())).message or "") == 500


async def test_explanation_contains_no_address() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(400, "You have included <jane@example.org>\r\nmore than once."))
        message = (await sendgrid.send(a_mail())).message
        assert message == "You have included <j***@e***.org> more than once."


@pytest.mark.parametrize(
    ("sender", "is_own", "category", "blames"),
    [
        ("News@example.com", True, ErrorCategory.CONFIGURATION, True),
        ("bounces@example.com", True, ErrorCategory.CONFIGURATION, True),
        ("bounces@example.com", False, ErrorCategory.PERMANENT, False),
    ],
    ids=["ours", "ours beside another envelope", "chosen by the request"],
)
async def test_rejected_from_is_attributed_to_its_origin(
    sender: str, is_own: bool, category: ErrorCategory, blames: bool
) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(403, UNVERIFIED, "from"))
        message = replace(a_mail(), sender=sender, uses_default_from=is_own)
        result = await sendgrid.send(message)
        assert (result.kind, result.code) == (FAILED, "SENDGRID_SENDER_REFUSED")
        assert (result.category, result.blames_provider) == (category, blames)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X_RateLimit_Reset": "1800000060"}, MINUTE),
        ({"X_RateLimit_Reset": "1800000060", "Retry_After": "90"}, 90 * SECOND),
        ({"Retry_After": "7"}, 7 * SECOND),
        ({"X_RateLimit_Reset": "1799999999"}, None),
        ({"X_RateLimit_Reset": "99999999999"}, LONGEST_PAUSE),
        ({"X_RateLimit_Reset": "soon", "Retry_After": "-1"}, None),
        ({"X_RateLimit_Reset": "9" * 5_000}, None),
        ({}, None),
    ],
)
async def test_rate_limit_waits_for_its_reset(headers: dict[str, str], expected: int | None) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server, clock=ManualClock(1_800_000_000_000)) as sendgrid:
        server.answer(refusal(429, "too many requests", **headers))
        assert (await sendgrid.send(a_mail())).retry_after == expected


async def test_reset_header_matters_only_with_status_429() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server, clock=ManualClock(1_800_000_000_000)) as sendgrid:
        server.answer(refusal(500, "oops", X_RateLimit_Reset="1800000060"), nth=1)
        assert (await sendgrid.send(a_mail())).retry_after is None


async def test_exhausted_credits_wait_longer_than_a_rate() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(401, "Maximum credits exceeded"))
        assert (await sendgrid.send(a_mail())).retry_after == CREDITS_PAUSE > HOUR


# The API key.


async def test_key_is_not_in_results_or_settings(capsys: pytest.CaptureFixture[str]) -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        server.answer(refusal(401, "no"), nth=1)
        server.answer(b"HTTP/1.1 200 OK\r\nContent-Len", nth=1)
        shown = [repr(await sendgrid.send(a_mail())) for _ in range(3)]
        shown += [repr(await sendgrid.check()), repr(SendGridSettings(KEY)), str(SendGridSettings(KEY))]
        shown += capsys.readouterr()
        assert not [text for text in shown if KEY in text or "not-a-secret" in text]
        assert all(request.headers["Authorization"] == f"Bearer {KEY}" for request in server.requests)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "Schlüssel"])
def test_invalid_key_is_rejected_at_startup(key: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        SendGridSettings(key)
    assert not key or key not in str(refused.value)


def test_key_requires_https() -> None:
    with pytest.raises(ConfigurationInvalid):
        SendGridSettings(KEY, "http://api.sendgrid.com")
    with pytest.raises(ConfigurationInvalid):
        SendGridSettings(KEY, "api.sendgrid.com")
    assert SendGridSettings(KEY).url == "https://api.sendgrid.com"


# The check.


async def test_check_reports_that_the_key_may_send() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        probe = await sendgrid.check()
        assert probe.is_ok
        assert probe.summary == f"127.0.0.1:{server.port}: the API key may send"
        assert not server.messages


async def test_check_reports_a_missing_permission() -> None:
    async with SendGridStandIn(scopes=["stats.read"]) as server, sendgrid_to(server) as sendgrid:
        probe = await sendgrid.check()
        assert (probe.is_ok, probe.code) == (False, "SENDGRID_FORBIDDEN")
        assert "mail.send" in probe.summary


async def test_check_reports_wrong_key_wrong_server_and_silence() -> None:
    async with SendGridStandIn() as server:
        async with sendgrid_to(server, key="SG.wrong") as sendgrid:
            assert (await sendgrid.check()).code == "SENDGRID_UNAUTHORIZED"
        async with sendgrid_to(server) as sendgrid:
            for answer in (HTML, WRONG_JSON, EMPTY):
                server.answer(answer, nth=1)
                assert (await sendgrid.check()).code == "SENDGRID_UNKNOWN_ANSWER"
                server.forget_rules()
        url = server.url
    async with sendgrid_to(url) as sendgrid:
        probe = await sendgrid.check()
        assert (probe.is_ok, probe.code) == (False, "NETWORK_ERROR")
