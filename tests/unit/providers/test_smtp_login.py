"""TLS and AUTH: a password is sent only over a connection encrypted to the right host."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvloop

from mailwright.domain.results import ErrorCategory, ResultKind
from tests.standins.smtp_sink import SinkTls, SmtpSink, Step, a_certificate
from tests.unit.providers.smtp_builders import a_mail, impatient, smtp_to

pytestmark = pytest.mark.promise("provider-tls")

USERS = {"me@example.com": "pä:ss/word"}
CREDENTIALS = "me%40example.com:p%C3%A4%3Ass%2Fword@"


def url_of(sink: SmtpSink, *, host: str = "127.0.0.1", credentials: str = "", options: str = "") -> str:
    return f"smtp://{credentials}{host}:{sink.port}?ca={a_certificate().file}{options}"


@pytest.fixture(params=[SinkTls.STARTTLS, SinkTls.IMPLICIT], ids=["starttls", "tls"])
async def encrypted(request: pytest.FixtureRequest) -> AsyncIterator[tuple[SmtpSink, str]]:
    async with SmtpSink(tls=request.param, users=USERS) as sink:
        yield sink, "&tls=starttls" if request.param is SinkTls.STARTTLS else "&tls=tls"


async def test_message_and_password_are_encrypted(encrypted: tuple[SmtpSink, str]) -> None:
    sink, tls = encrypted
    async with smtp_to(url_of(sink, credentials=CREDENTIALS, options=tls)) as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(30)))
    assert {result.kind for result in results} == {ResultKind.SENT}
    used = [message.session for message in sink.messages]
    assert all(session.is_encrypted and session.user == "me@example.com" for session in used)
    # A connection that was still being opened may have ended before its password was sent.
    assert all(session.is_encrypted or session.user is None for session in sink.sessions)
    assert not sink.violations


async def test_large_message_is_encrypted(encrypted: tuple[SmtpSink, str]) -> None:
    sink, tls = encrypted
    content = b"Subject: Large\r\n\r\n" + b"line\r\n" * 300_000
    async with smtp_to(url_of(sink, credentials=CREDENTIALS, options=tls)) as smtp:
        assert (await smtp.send(a_mail(content=content))).kind is ResultKind.SENT
    assert sink.messages[0].content == content


async def test_untrusted_certificate_is_rejected(encrypted: tuple[SmtpSink, str]) -> None:
    sink, tls = encrypted
    async with smtp_to(f"smtp://{CREDENTIALS}127.0.0.1:{sink.port}?{tls[1:]}") as smtp:
        result = await smtp.send(a_mail())
    assert (result.kind, result.code, result.category) == (
        ResultKind.FAILED,
        "SMTP_TLS_FAILED",
        ErrorCategory.CONFIGURATION,
    )
    assert all(session.user is None for session in sink.sessions)


@pytest.mark.parametrize(("tls", "option"), [(SinkTls.STARTTLS, "starttls"), (SinkTls.IMPLICIT, "tls")])
async def test_certificate_for_another_host_is_rejected(tls: SinkTls, option: str) -> None:
    other = a_certificate("mail.example.org")
    async with (
        SmtpSink(tls=tls, certificate=other) as sink,
        smtp_to(f"smtp://localhost:{sink.port}?ca={other.file}&tls={option}") as smtp,
    ):
        assert (await smtp.send(a_mail())).code == "SMTP_TLS_FAILED"


async def test_tls_on_a_plain_port_is_a_configuration_error() -> None:
    async with SmtpSink() as sink, smtp_to(url_of(sink, options="&tls=tls")) as smtp:
        result = await smtp.send(a_mail())
    assert (result.code, result.category) == ("SMTP_TLS_FAILED", ErrorCategory.CONFIGURATION)


async def test_server_without_starttls_gets_no_message() -> None:
    async with SmtpSink() as sink, smtp_to(url_of(sink, options="&tls=starttls")) as smtp:
        result = await smtp.send(a_mail())
        assert (result.code, result.category) == ("SMTP_TLS_FAILED", ErrorCategory.CONFIGURATION)
        assert sink.sessions[0].verbs == ["EHLO"]


@pytest.mark.parametrize(
    ("reply", "code"),
    [("454 4.7.0 not now", "SMTP_SERVICE_UNAVAILABLE"), ("501 5.5.4 no", "SMTP_TLS_FAILED")],
)
async def test_rejected_starttls_never_continues_unencrypted(reply: str, code: str) -> None:
    async with SmtpSink(tls=SinkTls.STARTTLS) as sink, smtp_to(url_of(sink, options="&tls=starttls")) as smtp:
        sink.answer(Step.STARTTLS, reply)
        assert (await smtp.send(a_mail())).code == code
        assert sink.sessions[0].verbs == ["EHLO", "STARTTLS"]


async def test_text_injected_before_tls_is_detected() -> None:
    async with SmtpSink(tls=SinkTls.STARTTLS) as sink, smtp_to(url_of(sink, options="&tls=starttls")) as smtp:
        sink.answer(Step.STARTTLS, b"220 go ahead\r\n250-evil.test\r\n250 AUTH PLAIN\r\n")
        result = await smtp.send(a_mail())
        assert result.code == "SMTP_TLS_FAILED"
        assert "between STARTTLS and the TLS handshake" in str(result.message)


async def test_features_announced_before_tls_are_forgotten() -> None:
    async with SmtpSink(tls=SinkTls.STARTTLS) as sink, smtp_to(url_of(sink, options="&tls=starttls")) as smtp:
        sink.answer(Step.EHLO, "250-sink.test\r\n250-STARTTLS\r\n250 SIZE 10", nth=1)
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_hanging_handshake_times_out() -> None:
    async with (
        SmtpSink(tls=SinkTls.STARTTLS) as sink,
        smtp_to(url_of(sink, options="&tls=starttls"), timeouts=impatient(connect=0.2)) as smtp,
    ):
        hold = sink.hold_handshake()
        result = await smtp.send(a_mail())
        hold.release()
    assert (result.kind, result.code) == (ResultKind.RETRYABLE, "SMTP_TIMEOUT")


class TestAuth:
    @pytest.mark.parametrize("mechanisms", [("PLAIN",), ("LOGIN",), ("CRAM-MD5", "LOGIN"), ("LOGIN", "PLAIN")])
    async def test_common_auth_mechanism_is_used(self, mechanisms: tuple[str, ...]) -> None:
        async with (
            SmtpSink(users=USERS, mechanisms=mechanisms) as sink,
            smtp_to(url_of(sink, credentials=CREDENTIALS)) as smtp,
        ):
            assert (await smtp.send(a_mail())).kind is ResultKind.SENT
            assert sink.sessions[0].user == "me@example.com"

    async def test_missing_common_mechanism_is_a_configuration_error(self) -> None:
        async with (
            SmtpSink(users=USERS, mechanisms=("GSSAPI",)) as sink,
            smtp_to(url_of(sink, credentials=CREDENTIALS)) as smtp,
        ):
            result = await smtp.send(a_mail())
            assert (result.code, result.category) == ("SMTP_AUTH_FAILED", ErrorCategory.CONFIGURATION)
            assert "GSSAPI" in str(result.message)

    @pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
    async def test_wrong_password_is_a_configuration_error(self, mechanism: str) -> None:
        async with (
            SmtpSink(users=USERS, mechanisms=(mechanism,)) as sink,
            smtp_to(url_of(sink, credentials="me%40example.com:Hunter2@")) as smtp,
        ):
            result = await smtp.send(a_mail())
            assert (result.code, result.category) == ("SMTP_AUTH_FAILED", ErrorCategory.CONFIGURATION)
            assert result.original_code == "535 5.7.8"
            assert "Hunter2" not in str(result)

    @pytest.mark.parametrize(
        ("reply", "code", "category"),
        [
            ("454 4.7.0 directory is down", "SMTP_SERVICE_UNAVAILABLE", ErrorCategory.TRANSIENT),
            ("454 4.7.0 too many logins", "SMTP_THROTTLED", ErrorCategory.QUOTA),
            ("534 5.7.9 mechanism too weak", "SMTP_AUTH_FAILED", ErrorCategory.CONFIGURATION),
            ("538 5.7.11 encryption required", "SMTP_AUTH_FAILED", ErrorCategory.CONFIGURATION),
            ("421 4.3.0 closing", "SMTP_SERVICE_UNAVAILABLE", ErrorCategory.TRANSIENT),
        ],
    )
    async def test_auth_reply_never_blames_the_recipient(self, reply: str, code: str, category: ErrorCategory) -> None:
        async with SmtpSink(users=USERS) as sink, smtp_to(url_of(sink, credentials=CREDENTIALS)) as smtp:
            sink.answer(Step.AUTH, reply)
            result = await smtp.send(a_mail())
            assert (result.code, result.category) == (code, category)


class TestCheck:
    async def test_check_describes_the_server(self, encrypted: tuple[SmtpSink, str]) -> None:
        sink, tls = encrypted
        async with smtp_to(url_of(sink, credentials=CREDENTIALS, options=tls)) as smtp:
            probe = await smtp.check()
        assert probe.is_ok
        assert probe.summary == f"127.0.0.1:{sink.port}: TLSv1.3, logged in as me@example.com, pipelining"
        assert sink.sessions[0].verbs[-1] == "QUIT"
        assert not sink.messages

    async def test_check_names_the_problem(self) -> None:
        async with (
            SmtpSink(users=USERS) as sink,
            smtp_to(url_of(sink, credentials="me%40example.com:Hunter2@")) as smtp,
        ):
            probe = await smtp.check()
        assert (probe.is_ok, probe.code) == (False, "SMTP_AUTH_FAILED")
        assert "535 5.7.8" in probe.summary
        assert "Hunter2" not in probe.summary

    async def test_missing_reply_to_quit_is_ignored(self) -> None:
        async with SmtpSink() as sink, smtp_to(sink) as smtp:
            sink.cut(Step.QUIT)
            assert (await smtp.check()).is_ok


def test_smtp_works_on_uvloop() -> None:
    async def scenario() -> None:
        async with (
            SmtpSink(tls=SinkTls.STARTTLS, users=USERS) as sink,
            smtp_to(url_of(sink, credentials=CREDENTIALS, options="&tls=starttls")) as smtp,
        ):
            sink.cut(Step.DOT, nth=50)
            content = b"Subject: Larger than a chunk\r\n\r\n" + b"line\r\n" * 30_000
            results = await asyncio.gather(*(smtp.send(a_mail(content=content)) for _ in range(100)))
            assert sorted({result.kind for result in results}) == [ResultKind.IN_DOUBT, ResultKind.SENT]
            assert (len(sink.messages), sink.violations) == (99, [])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
