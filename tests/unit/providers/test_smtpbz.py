"""The `smtpbz` provider: it sends over SMTP and reads the quota from the API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mailwright.domain.clock import HOUR, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.http import HttpClient
from mailwright.providers.protocol import AccountQuota
from mailwright.providers.smtp.settings import Tls
from mailwright.providers.smtp.url import parse_smtp_url
from mailwright.providers.smtpbz.provider import SmtpBz, SmtpBzSettings
from tests.standins.http import EMPTY, GARBAGE, HTML, WRONG_JSON, Answer, Step, a_large_answer, json_answer
from tests.standins.smtp_sink import SmtpSink
from tests.standins.smtp_sink import Step as SmtpStep
from tests.standins.smtpbz import KEY, SmtpBzStandIn
from tests.unit.providers.smtp_builders import PATIENT, a_mail


@asynccontextmanager
async def smtpbz_to(
    sink: SmtpSink | str, api: SmtpBzStandIn | str, key: str | None = KEY, **settings: Any
) -> AsyncIterator[SmtpBz]:
    smtp = parse_smtp_url(sink if isinstance(sink, str) else sink.url)
    base = api if isinstance(api, str) else api.base
    http = HttpClient()
    provider = SmtpBz(
        SmtpBzSettings(smtp, key, base, **settings), http, clock=ManualClock(), timeouts=PATIENT, hostname="client.test"
    )
    try:
        yield provider
    finally:
        await provider.close(SECOND)
        await http.close()


NOBODY = "smtp://127.0.0.1:1"
LOGIN = parse_smtp_url("smtp://login:gherkin@connect.smtp.bz")


async def test_message_is_sent_over_smtp_as_smtpbz() -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api) as smtpbz:
        result = await smtpbz.send(a_mail())
        assert (result.kind, result.provider) == (ResultKind.SENT, "smtpbz")
        assert len(sink.messages) == 1
        sink.answer(SmtpStep.RCPT, "550 5.1.1 unknown", nth=1)
        result = await smtpbz.send(a_mail())
        assert (result.kind, result.provider) == (ResultKind.FAILED, "smtpbz")
        assert result.code == "SMTP_RECIPIENT_REJECTED"
        sink.cut(SmtpStep.DOT, nth=1)
        result = await smtpbz.send(a_mail())
        assert (result.kind, result.provider) == (ResultKind.IN_DOUBT, "smtpbz")
        assert not api.begun


@pytest.mark.parametrize(
    "reply",
    [
        "450 4.3.2 hourly limit exceeded",
        "451 quota exceeded",
        "452 превышен лимит писем",
        "550 5.7.1 limit exceeded",
        "554 исчерпана квота тарифа",
        "421 limit of messages",
    ],
)
async def test_rejection_about_limits_counts_no_attempt(reply: str) -> None:
    async with SmtpSink() as sink, smtpbz_to(sink, NOBODY.replace("smtp", "http")) as smtpbz:
        sink.answer(SmtpStep.RCPT, reply)
        result = await smtpbz.send(a_mail())
        assert (result.kind, result.category) == (ResultKind.RETRYABLE, ErrorCategory.QUOTA)
        assert (result.code, result.retry_after) == ("SMTPBZ_QUOTA_EXCEEDED", HOUR)


async def test_other_rejections_mean_the_same_as_over_smtp() -> None:
    async with SmtpSink() as sink, smtpbz_to(sink, NOBODY.replace("smtp", "http")) as smtpbz:
        sink.answer(SmtpStep.RCPT, "450 4.2.1 greylisted", nth=1)
        assert (await smtpbz.send(a_mail())).code == "SMTP_TEMPORARY_FAILURE"
        sink.answer(SmtpStep.RCPT, "452 4.2.2 over quota", nth=1)
        assert (await smtpbz.send(a_mail())).code == "SMTP_MAILBOX_FULL"
        sink.answer(SmtpStep.RCPT, "550 5.7.1 spam", nth=1)
        assert (await smtpbz.send(a_mail())).kind is ResultKind.FAILED


def test_host_and_login_are_enough_for_smtpbz() -> None:
    settings = parse_smtp_url("smtp://login:gherkin@connect.smtp.bz")
    assert (settings.host, settings.port, settings.tls) == ("connect.smtp.bz", 587, Tls.STARTTLS)
    assert SmtpBzSettings(settings).url == "https://api.smtp.bz/v1"


# The quota.


@pytest.mark.promise("quota-limits")
async def test_quota_comes_from_the_api() -> None:
    async with SmtpBzStandIn() as api, smtpbz_to(NOBODY, api) as smtpbz:
        assert await smtpbz.quota() == AccountQuota(
            limit_per_day=None,
            sent_today=None,
            rate_per_second=None,
            remaining=14_794,
            limit_per_hour=100,
            sent_this_hour=3,
            left_in_plan=14_794,
            detail="14794 of 15000 messages left, 3 of 100 sent this hour",
        )
        (request,) = api.requests
        assert (request.method, request.path, request.headers["Authorization"]) == ("GET", "/v1/user", KEY)
        assert not api.violations


@pytest.mark.promise("quota-limits")
@pytest.mark.parametrize(
    ("account", "remaining", "limit_per_hour", "limit_per_day"),
    [
        ({"quota": "12", "hlimit": "100"}, 12, 100, None),
        ({"quota": 12.0, "dlimit": 500, "dsent": None}, 12, None, 500),
        ({"quota": None, "hlimit": 100, "balance": "lots"}, None, 100, None),
        ({"quota": 0}, 0, None, None),
        ({"tarif_quota": 15_000, "expires_quota": []}, None, None, None),
    ],
)
async def test_numbers_may_be_text_or_missing(
    account: dict[str, Any], remaining: int | None, limit_per_hour: int | None, limit_per_day: int | None
) -> None:
    async with SmtpBzStandIn() as api, smtpbz_to(NOBODY, api) as smtpbz:
        api.account = account
        quota = await smtpbz.quota()
        assert quota is not None
        assert (quota.remaining, quota.limit_per_hour, quota.limit_per_day) == (
            remaining,
            limit_per_hour,
            limit_per_day,
        )
        assert quota.is_sending_enabled is (remaining != 0)
        assert quota.detail


@pytest.mark.promise("quota-limits")
@pytest.mark.parametrize(
    "answer",
    [
        EMPTY,
        HTML,
        WRONG_JSON,
        a_large_answer(),
        GARBAGE,
        json_answer(200, {}),
        json_answer(200, {"quota": "lots"}),
        json_answer(200, {"quota": True}),
        json_answer(200, {"quota": -1}),
        json_answer(200, {"quota": 1.5}),
        json_answer(200, {"quota": {"left": 3}}),
        json_answer(500, {"message": "Server Error"}),
        json_answer(429, {"message": "Too Many Attempts."}),
        Answer(301, b"", {"Location": "/elsewhere"}),
    ],
)
async def test_invalid_account_gives_no_quota(answer: Answer | bytes) -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api) as smtpbz:
        api.answer(answer)
        assert await smtpbz.quota() is None
        probe = await smtpbz.check()
        assert probe.is_ok  # Messages are not sent through the API.
        assert "the quota is unknown: " in probe.summary
        assert probe.code in ("SMTPBZ_UNKNOWN_ANSWER", "NETWORK_ERROR")


async def test_server_without_response_gives_no_quota() -> None:
    async with SmtpBzStandIn() as api, smtpbz_to(NOBODY, api, timeout_seconds=0.3) as smtpbz:
        api.hold(Step.ANSWER)
        assert await smtpbz.quota() is None


# The check.


async def test_check_describes_smtp_and_api() -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api) as smtpbz:
        probe = await smtpbz.check()
        place = f"127.0.0.1:{sink.port}"
        assert probe.is_ok
        assert probe.summary == (
            f"{place}: no TLS, no login, pipelining; 14794 of 15000 messages left, 3 of 100 sent this hour"
        )
        assert not sink.messages


async def test_check_fails_without_quota_or_access() -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api) as smtpbz:
        api.account["quota"] = 0
        probe = await smtpbz.check()
        assert (probe.is_ok, probe.code) == (False, "SMTPBZ_QUOTA_EXCEEDED")
        sink.answer(SmtpStep.GREETING, "554 go away")
        assert (await smtpbz.check()).code == "SMTP_ACCESS_REFUSED"
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api, "wrong") as smtpbz:
        probe = await smtpbz.check()
        assert (probe.is_ok, probe.code) == (False, "SMTPBZ_UNAUTHORIZED")


async def test_api_is_not_called_without_a_key() -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api, None) as smtpbz:
        probe = await smtpbz.check()
        assert (probe.is_ok, probe.code) == (True, None)
        assert "the quota is unknown, because no API key is set" in probe.summary
        assert await smtpbz.quota() is None
        assert not api.begun


async def test_key_is_not_in_checks_or_settings() -> None:
    async with SmtpSink() as sink, SmtpBzStandIn() as api, smtpbz_to(sink, api) as smtpbz:
        shown = [repr(await smtpbz.check())]
        api.answer(json_answer(401, {"message": f"Unauthorized: {KEY}"}))
        shown += [repr(await smtpbz.check()), repr(SmtpBzSettings(LOGIN, KEY))]
        assert not [text for text in shown if KEY in text or "gherkin" in text]


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak"])
def test_invalid_key_is_rejected_at_startup(key: str) -> None:
    with pytest.raises(ConfigurationInvalid):
        SmtpBzSettings(LOGIN, key)


def test_key_requires_https() -> None:
    with pytest.raises(ConfigurationInvalid):
        SmtpBzSettings(LOGIN, KEY, "http://api.smtp.bz/v1")
