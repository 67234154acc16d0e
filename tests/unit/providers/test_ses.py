"""The `ses` provider: requests, account and credentials."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.aws import KEYS_KEPT, AwsKeyChain, AwsKeys, AwsKeysMissing
from mailwright.providers.http import HttpClient
from mailwright.providers.ses.provider import Ses
from mailwright.providers.ses.settings import SesSettings
from tests.standins.http import EMPTY, HTML, WRONG_JSON, Answer, Step
from tests.standins.ses import ACCESS_KEY, REGION, SECRET_KEY, SesStandIn
from tests.unit.providers.ses_builders import CONTENT, OUTBOX_ID, READER, SENDER, a_mail, keys_found, ses_to


async def test_message_arrives_unchanged() -> None:
    content = CONTENT + bytes(range(256)) + b'"\\\r\n'
    async with SesStandIn() as stand_in, ses_to(stand_in, configuration_set="events") as ses:
        result = await ses.send(a_mail(READER, "hidden@example.org", content=content))
        (message,) = stand_in.messages
        assert (result.kind, result.provider_message_id) == (ResultKind.SENT, message.message_id)
        assert message.content == content
        assert message.recipients == (READER, "hidden@example.org")
        assert (message.sender, message.feedback) == (SENDER, SENDER)
        assert message.tags == {"mailwright-message": OUTBOX_ID}
        assert message.configuration_set == "events"
        assert not stand_in.violations


async def test_from_header_is_unchanged() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        await ses.send(a_mail(sender="bounces@example.net"))
        assert "FromEmailAddress" not in stand_in.requests[0].json()
        assert (stand_in.messages[0].sender, stand_in.messages[0].feedback) == (SENDER, "bounces@example.net")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100_000])
async def test_message_of_any_size_arrives_complete(size: int) -> None:
    content = CONTENT + b"x" * size
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        assert (await ses.send(a_mail(content=content))).kind is ResultKind.SENT
        assert stand_in.messages[0].content == content


@pytest.mark.parametrize(
    ("recipients", "code"),
    [
        (tuple(f"{number}@example.org" for number in range(51)), "SES_TOO_MANY_RECIPIENTS"),
        (("käthe@example.org",), "SES_UTF8_UNSUPPORTED"),
    ],
)
async def test_known_ses_rejections_need_no_request(recipients: tuple[str, ...], code: str) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        result = await ses.send(a_mail(*recipients))
        assert (result.kind, result.code) == (ResultKind.FAILED, code)
        assert not stand_in.begun


async def test_too_large_message_is_not_sent() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        result = await ses.send(a_mail(content=CONTENT + b"x" * (31 * 1024 * 1024)))
        assert (result.kind, result.code) == (ResultKind.FAILED, "SES_MESSAGE_TOO_LARGE")
        assert not stand_in.begun


async def test_fifty_recipients_are_accepted() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        result = await ses.send(a_mail(*(f"{number}@example.org" for number in range(50))))
        assert result.kind is ResultKind.SENT
        assert len(stand_in.messages[0].recipients) == 50


async def test_missing_configuration_set_is_a_configuration_error() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in, configuration_set="typo") as ses:
        result = await ses.send(a_mail())
    assert (result.code, result.category) == ("SES_CONFIGURATION_SET_DOES_NOT_EXIST", ErrorCategory.CONFIGURATION)


# The account.


async def test_check_reports_the_accounts_limits() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        await ses.send(a_mail())
        probe = await ses.check()
        assert probe.is_ok
        assert probe.summary.endswith(": 14 messages per second, 50,000 in 24 hours, 1 sent")


@pytest.mark.parametrize(
    ("changes", "is_ok", "words"),
    [
        ({"is_in_production": False}, True, "in the sandbox"),
        ({"enforcement": "PROBATION"}, True, "under review"),
        ({"enforcement": "SHUTDOWN"}, False, "Amazon has paused sending"),
        ({"is_sending_enabled": False}, False, "sending is paused"),
        ({"max_24_hour_send": -1.0}, True, "without a daily limit"),
    ],
)
async def test_check_reports_the_accounts_problem(changes: dict[str, object], is_ok: bool, words: str) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        for name, value in changes.items():
            setattr(stand_in.account, name, value)
        probe = await ses.check()
        assert (probe.is_ok, probe.code) == (is_ok, None if is_ok else "SES_ACCOUNT_SENDING_PAUSED")
        assert words in probe.summary
        assert not stand_in.messages


async def test_quota_is_the_accounts_remainder() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.max_24_hour_send = 3.0
        await ses.send(a_mail("a@example.org", "b@example.org"))
        quota = await ses.quota()
        assert quota is not None
        assert (quota.limit_per_day, quota.sent_today, quota.remaining) == (3.0, 2.0, 1.0)
        assert (quota.rate_per_second, quota.is_sending_enabled) == (14.0, True)
        assert (await ses.send(a_mail("c@example.org", "d@example.org"))).code == "SES_DAILY_QUOTA_EXCEEDED"


async def test_unlimited_account_has_no_quota_limit() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.account.max_24_hour_send = -1.0
        quota = await ses.quota()
        assert quota is not None
        assert (quota.limit_per_day, quota.remaining) == (None, None)


@pytest.mark.parametrize("answer", [EMPTY, HTML, WRONG_JSON, Answer(503), Answer(200, b'{"SendQuota": {}}')])
async def test_invalid_account_response_gives_no_quota(answer: Answer) -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.answer(answer)
        assert await ses.quota() is None
        probe = await ses.check()
        assert not probe.is_ok
        assert probe.code


async def test_check_reports_an_unreachable_server() -> None:
    async with SesStandIn() as stand_in, ses_to(stand_in) as ses:
        stand_in.cut(Step.ANSWER)
        probe = await ses.check()
        assert (probe.is_ok, probe.code) == (False, "SES_NO_ANSWER")


# Credentials.


async def test_role_credentials_are_sent_with_their_token() -> None:
    async with SesStandIn(token="role") as stand_in, ses_to(stand_in, keys=keys_found(token="role")) as ses:
        assert (await ses.send(a_mail())).kind is ResultKind.SENT


async def test_missing_credentials_are_a_configuration_error() -> None:
    def none() -> None:
        raise AwsKeysMissing

    async with SesStandIn() as stand_in, ses_to(stand_in, keys=none) as ses:  # type: ignore[arg-type]
        result = await ses.send(a_mail())
        assert (result.kind, result.category, result.code) == (
            ResultKind.FAILED,
            ErrorCategory.CONFIGURATION,
            "SES_KEYS_MISSING",
        )
        assert "AWS_ACCESS_KEY_ID" in (result.message or "")
        assert (await ses.check()).code == "SES_KEYS_MISSING"
        assert await ses.quota() is None
        assert not stand_in.begun


async def test_rejected_credentials_are_looked_up_again() -> None:
    """An operator corrects the profile, and no restart is needed."""
    found = [keys_found(SECRET_KEY)(), keys_found("wrong")()]
    async with SesStandIn() as stand_in, ses_to(stand_in, keys=found.pop) as ses:
        assert (await ses.send(a_mail())).code == "SES_ACCESS_DENIED"
        assert (await ses.send(a_mail())).kind is ResultKind.SENT


async def test_credentials_are_renewed_once_a_minute_by_one_caller() -> None:
    clock = ManualClock()
    asked: list[int] = []

    def current() -> AwsKeys:
        asked.append(clock.now())
        return AwsKeys(f"key-{len(asked)}", "secret")

    chain = AwsKeyChain(clock, lambda: current)
    assert {(await each).access_key for each in [asyncio.ensure_future(chain.keys()) for _ in range(20)]} == {"key-1"}
    clock.advance(KEYS_KEPT - 1)
    assert (await chain.keys()).access_key == "key-1"
    clock.advance(1)
    assert {keys.access_key for keys in await asyncio.gather(*(chain.keys() for _ in range(20)))} == {"key-1", "key-2"}
    assert (await chain.keys()).access_key == "key-2"
    assert len(asked) == 2


async def test_unrenewable_credentials_are_used_while_accepted() -> None:
    clock = ManualClock()
    found = [AwsKeys("key", "secret")]
    chain = AwsKeyChain(clock, lambda: found.pop)
    await chain.keys()
    clock.advance(KEYS_KEPT)
    assert (await chain.keys()).access_key == "key"


async def test_credentials_can_be_forgotten_during_a_lookup() -> None:
    class Hasty(AwsKeyChain):
        """Forget the credentials whenever the lookup thread stores something."""

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if value is not None and threading.current_thread() is not threading.main_thread():
                self.forget()

    chain = Hasty(ManualClock(), lambda: lambda: AwsKeys("key", "secret"))
    assert (await chain.keys()).access_key == "key"


async def test_lookup_error_reveals_no_credentials() -> None:
    def broken() -> AwsKeys:
        raise ValueError("s3cret")

    with pytest.raises(AwsKeysMissing) as caught:
        await AwsKeyChain(ManualClock(), lambda: broken).keys()
    assert str(caught.value) == "The AWS keys could not be read: ValueError."


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide real credentials from the tests and keep botocore off the network."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


async def test_credentials_come_from_the_environment(no_keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    http = HttpClient()
    async with SesStandIn() as stand_in:
        ses = Ses(SesSettings(REGION, stand_in.url), http, SystemClock())
        assert (await ses.send(a_mail())).kind is ResultKind.SENT
        await http.close()


async def test_credentials_come_from_a_profile(no_keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_keys / "credentials").write_text("[mail]\naws_access_key_id = id\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_PROFILE", "mail")
    assert await AwsKeyChain(ManualClock()).keys() == AwsKeys("id", "secret")


@pytest.fixture
def no_botocore(no_keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as an installation without the extra `aws`."""
    for name in [name for name in sys.modules if name.split(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)


@pytest.mark.usefixtures("no_botocore")
async def test_keys_in_the_environment_need_no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    clock = ManualClock()
    chain = AwsKeyChain(clock)
    assert await chain.keys() == AwsKeys("id", "secret", "token")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "renewed")
    clock.advance(KEYS_KEPT)
    assert await chain.keys() == AwsKeys("id", "secret", "renewed")


@pytest.mark.usefixtures("no_botocore")
async def test_missing_botocore_is_reported_with_its_extra() -> None:
    with pytest.raises(AwsKeysMissing, match=r"install `mailwright\[aws\]` to use a profile or a role"):
        await AwsKeyChain(ManualClock()).keys()


async def test_missing_credentials_are_reported(no_keys: Path) -> None:
    with pytest.raises(AwsKeysMissing, match="AWS_ACCESS_KEY_ID"):
        await AwsKeyChain(ManualClock()).keys()


# The settings.


def test_endpoint_follows_from_the_region() -> None:
    assert SesSettings("eu-west-1").url == "https://email.eu-west-1.amazonaws.com"
    assert SesSettings("cn-north-1").url == "https://email.cn-north-1.amazonaws.com.cn"
    assert SesSettings("us-gov-west-1", "https://ses.example.com/").url == "https://ses.example.com"


@pytest.mark.parametrize(
    ("region", "endpoint", "configuration_set"),
    [
        ("", None, None),
        ("Frankfurt", None, None),
        ("eu-west-1/x", None, None),
        ("eu-west-1", "http://ses.example.com", None),
        ("eu-west-1", "ftp://127.0.0.1", None),
        ("eu-west-1", None, "two words"),
        ("eu-west-1", None, ""),
    ],
)
def test_invalid_settings_are_rejected(region: str, endpoint: str | None, configuration_set: str | None) -> None:
    with pytest.raises(ConfigurationInvalid):
        SesSettings(region, endpoint, configuration_set)
